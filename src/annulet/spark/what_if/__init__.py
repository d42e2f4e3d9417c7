"""Recorded traffic through the broker's own core under other settings: what would have been lost, and what waited."""
