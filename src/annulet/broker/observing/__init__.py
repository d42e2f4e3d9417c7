"""Logs and protocol traces."""
