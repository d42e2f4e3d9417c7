"""Queues as Spark DataFrames: source, sink and the session they run in. Imports without a running broker."""
