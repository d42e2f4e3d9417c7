"""Bounds for clients: frames, messages, stages."""
