"""Errors of the engine that end a query; what is wrong with single commands is told by outcomes."""

from __future__ import annotations


class EngineError(ValueError):
    """A column or an option of the engine is impossible. Says which, its value and the remedy."""


class EngineStateError(Exception):
    """State is of another format, version or number of shards. Says which, and the remedy."""
