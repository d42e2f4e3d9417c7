"""Annulet: a message broker whose queues are rings, tables and streams, and Spark DataFrames."""

__version__ = "0.1.0"
