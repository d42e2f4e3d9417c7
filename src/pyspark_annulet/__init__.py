"""Lets Spark find ``format("annulet")`` by itself: it imports every top-level package named ``pyspark_*``."""

from annulet.spark.datasource import AnnuletDataSource as DefaultSource

__all__ = ["DefaultSource"]
