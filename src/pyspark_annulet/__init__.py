"""The name under which Spark finds ``format("annulet")`` by itself: it imports every top-level ``pyspark_*`` package."""

from annulet.spark.datasource import AnnuletDataSource as DefaultSource

__all__ = ["DefaultSource"]
