"""Annulet: a message broker whose queues are rings, tables and streams, and Spark DataFrames."""

from annulet import _build

__version__ = "0.4.0"

_build.activate()
