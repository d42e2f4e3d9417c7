"""Queues as Parquet files and back: the files with their log, archiving, maintenance and replay."""
