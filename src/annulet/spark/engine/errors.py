"""Errors of the engine that end a query; errors of single commands are outcomes."""

from __future__ import annotations


class EngineError(ValueError):
    """A column or an option of the engine is invalid. The text has its name, value and remedy."""


class EngineStateError(Exception):
    """State is of another format, version or number of shards. The text has both and the remedy."""
