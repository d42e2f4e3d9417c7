"""Rows become messages again: reading, decoding, reading ahead of consumers and searches, and figures of it."""
