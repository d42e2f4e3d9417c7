"""Turns of the event loop: work in slices, shares of connections, wake-ups, and how long the loop was held."""
