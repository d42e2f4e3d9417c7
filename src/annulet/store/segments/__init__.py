"""Segments of the message log: their records, indexes and heads, written and read."""
