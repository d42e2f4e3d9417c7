"""Lets Spark find ``format("annulet")`` by itself: it imports every top-level package named ``pyspark_*``.

One that fails to import takes all of them from Spark, which says only that the format is unknown. So nothing of
``annulet`` is imported here; what cannot be imported is told when the format is used.
"""

from pyspark_annulet.source import DefaultSource

__all__ = ["DefaultSource"]
