"""Rows of one page: their columns of facts, times, sort keys, groups and properties."""
