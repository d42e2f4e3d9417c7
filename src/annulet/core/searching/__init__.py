"""Selectors and groups over deep queues: walks over the stock, and lanes of the matches."""
