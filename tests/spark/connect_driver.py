"""A client of a local Spark Connect server, in a process of its own. Started by ``test_connect.py``.

Connect and a classic session exclude each other in one process.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from annulet.bulk.client import connect
from annulet.bulk.protocol.protocol import ListLeases, ReleaseLease
from annulet.bulk.protocol.url import parse_url
from annulet.spark import deduplicate, register, ring, survivors
from annulet.spark.java import ensure_java
from annulet.spark.session import local_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def end(writer: Any) -> bool:
    """Run a streaming query over what is there, and say whether it ended."""
    return bool(writer.trigger(availableNow=True).start().awaitTermination(300))


def read_write_and_stream(spark: SparkSession, url: str, checkpoint: Path) -> None:
    """Write a batch, read it, filtered in the broker, and stream it on."""
    rows = spark.range(100).selectExpr("cast(id AS string) AS body", "cast(id AS string) AS message_id")
    rows.write.format("annulet").mode("append").options(url=url, address="in").save()
    read = spark.read.format("annulet").options(url=url, queue="in", pushdown="true").load()
    print("read", read.count(), read.where("message_id = '7'").count())
    stream = spark.readStream.format("annulet").options(url=url, queue="in", lease="connect").load()
    place = str(checkpoint / "pipe")
    writer = stream.select("body").writeStream.format("annulet")
    print("streamed", end(writer.options(url=url, address="out", checkpointLocation=place)))


def operate(spark: SparkSession, url: str, checkpoint: Path) -> None:
    """Apply rules to a batch, one left by window functions and one by a replay in Python, and to a stream."""
    batch = spark.read.format("annulet").options(url=url, queue="out").load()
    print("ring", sorted(int(row.body) for row in batch.transform(ring(3)).select("body").collect()))
    print("replayed", batch.transform(deduplicate(5)).count())
    stream = spark.readStream.format("annulet").options(url=url, queue="out", nonDestructive="true").load()
    changes = stream.transform(ring(3)).writeStream.format("parquet").option("path", str(checkpoint / "changes"))
    print("changes", end(changes.option("checkpointLocation", str(checkpoint / "ring"))))
    left = survivors(spark.read.parquet(str(checkpoint / "changes"))).select("body").collect()
    print("left", sorted(int(row.body) for row in left))


def reject_and_release(spark: SparkSession, url: str, checkpoint: Path) -> None:
    """Reject half of a stream's rows from ``foreachBatch``, and end its lease as an administrator would."""

    def process(frame: DataFrame, _batch: int) -> None:
        bad = frame.where("cast(cast(body AS string) AS int) % 2 = 1")
        bad.write.format("annulet").options(url=url, rejectFrom="judge").mode("append").save()

    stream = spark.readStream.format("annulet").options(url=url, queue="out", lease="judge").load()
    judging = stream.writeStream.foreachBatch(process).option("checkpointLocation", str(checkpoint / "judge"))
    print("judged", end(judging))
    client = connect(parse_url(url))
    print("leases", *sorted(lease["name"] for lease in client.act(ListLeases())["leases"]))
    client.act(ReleaseLease(lease="judge"))
    print("leases", *sorted(lease["name"] for lease in client.act(ListLeases())["leases"]))


def say_what_is_wrong(spark: SparkSession, url: str) -> None:
    """Print the first line of an error, as far as it is ours."""
    try:
        spark.read.format("annulet").options(url=url, queue="nope").load().collect()
    except Exception as error:  # noqa: BLE001 - whatever Spark makes of it
        print("error", "no queue 'nope'" in str(error).strip().splitlines()[0])


def main(url: str, checkpoint: Path) -> None:
    """Do all of it on one server."""
    ensure_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.remote("local[2]")
    for name, value in local_settings().items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    register(spark)
    read_write_and_stream(spark, url, checkpoint)
    say_what_is_wrong(spark, url)
    operate(spark, url, checkpoint)
    reject_and_release(spark, url, checkpoint)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
