"""Recorded traffic through the broker's own core under other settings: losses and waiting times."""
