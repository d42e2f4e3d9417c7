"""A client of a local Spark Connect server, in a process of its own. Started by ``test_connect.py``.

Connect and a classic session exclude each other in one process.
"""

from __future__ import annotations

import os
import sys

from annulet.spark import register
from annulet.spark.java import ensure_java
from annulet.spark.session import local_settings


def main(url: str, checkpoint: str) -> None:
    """Write a batch, read it, and stream it on; print what was read."""
    ensure_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.remote("local[2]")
    for name, value in local_settings().items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    register(spark)
    rows = spark.range(100).selectExpr("cast(id AS string) AS body", "cast(id AS string) AS message_id")
    rows.write.format("annulet").mode("append").options(url=url, address="in").save()
    read = spark.read.format("annulet").options(url=url, queue="in", pushdown="true").load()
    print("read", read.count(), read.where("message_id = '7'").count())
    stream = spark.readStream.format("annulet").options(url=url, queue="in", lease="connect").load()
    query = (
        stream.select("body")
        .writeStream.format("annulet")
        .options(url=url, address="out", checkpointLocation=checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    print("ended", query.awaitTermination(300))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
