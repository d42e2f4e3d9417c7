"""Bounds of what clients may send: frames, messages, stages."""
