"""The engine as a streaming query on Spark: commands a second, beside the files copied and a process without Spark.

``python -m benchmarks.spark_engine_stream``: in every batch each queue gets messages, which its consumer is delivered,
and acknowledges those of the batch before, one by one. The first batches do not count: workers start, and the JVM has
compiled little yet. Every message is delivered once and every command is done, or the run fails.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from annulet.spark.engine import engine
from annulet.spark.engine.shard import Shard
from annulet.spark.session import local_session
from benchmarks.spark_streams import stream_rate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WARM_UP_BATCHES: Final = 3
"""Batches that do not count; the first only has the queues' settings and consumers."""

SCHEMA: Final = pa.schema(
    {
        "queue": pa.string(),
        "sequence": pa.int64(),
        "command": pa.string(),
        "session": pa.string(),
        "consumer": pa.string(),
        "tag": pa.int64(),
        "body": pa.binary(),
    }
)

Row = dict[str, Any]


def batches_of(batches: int, rows: int, queues: int, body: int) -> Iterator[list[Row]]:
    """Yield the commands of each batch: consumers at first, then messages, and as many acknowledgements."""
    names = [f"queue-{number}" for number in range(queues)]
    each = max(1, rows // 2 // queues)
    sequence = 0

    def command(queue: str, name: str, **fields: Any) -> Row:
        nonlocal sequence
        sequence += 1
        return {"queue": queue, "sequence": sequence, "command": name, **fields}

    configured = [command(name, "configure") for name in names]
    yield configured + [command(name, "consume", session="session", consumer="consumer") for name in names]
    for batch in range(batches - 1):
        made = []
        for place in range(each):
            for name in names:
                made.append(command(name, "publish", body=os.urandom(body)))
                if batch:
                    tag = (batch - 1) * each + place + 1
                    made.append(command(name, "acknowledge", session="session", tag=tag))
        yield made


def check(spark: SparkSession, directory: Path, name: str, commands: int, messages: int) -> None:
    """Fail unless every command was done and every message delivered once."""
    found = spark.read.parquet(str(directory / name)).groupBy("effect", "state").count().collect()
    counts = {(row["effect"], row["state"]): row["count"] for row in found}
    if counts != {("outcome", "done"): commands, ("delivery", None): messages}:
        raise click.ClickException(f"{commands} commands, {messages} messages, and their effects are {counts}")


def without_spark(batches: list[list[Row]]) -> float:
    """Carry the commands out in this process, no state written. Returns commands a second after the warm-up."""
    shard = Shard()
    given = [
        [
            (row["queue"], row["sequence"], msgspec.json.encode({**row, "body": None}).decode(), row.get("body"))
            for row in rows
        ]
        for rows in batches
    ]
    for rows in given[:WARM_UP_BATCHES]:
        shard.take(rows)
    began = time.perf_counter()
    for rows in given[WARM_UP_BATCHES:]:
        shard.take(rows)
    return sum(map(len, given[WARM_UP_BATCHES:])) / (time.perf_counter() - began)


@click.command()
@click.option("--queues", default=1_000, show_default=True, help="Queues, each with a consumer.")
@click.option("--rows", default=20_000, show_default=True, help="Commands of a batch, half of them messages.")
@click.option("--body", default=100, show_default=True, help="Octets of a message.")
@click.option("--cores", default=2, show_default=True, help="Cores of the session, and shuffle partitions.")
@click.option("--shards", default=8, show_default=True, help="Shards the queues are split into.")
@click.option(
    "--batches",
    default=8,
    show_default=True,
    type=click.IntRange(min=WARM_UP_BATCHES + 1),
    help=f"Batches; the first {WARM_UP_BATCHES} do not count.",
)
def main(queues: int, rows: int, body: int, cores: int, shards: int, batches: int) -> None:
    """Print what the engine does on Spark."""
    commands = list(batches_of(batches, rows, queues, body))
    flat = [row for batch in commands for row in batch]
    spark = local_session("engine", cores=cores)
    spark.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        (directory / "in").mkdir()
        for number, batch in enumerate(commands):
            path = directory / "in" / f"{number}.parquet"
            pq.write_table(pa.Table.from_pylist(batch, SCHEMA), path)
            os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))  # files are taken by age
        copied = stream_rate(spark, directory, "copied", lambda stream: stream, WARM_UP_BATCHES)
        streamed = stream_rate(spark, directory, "effects", partial(engine, shards=shards), WARM_UP_BATCHES)
        check(spark, directory, "effects", len(flat), sum(row["command"] == "publish" for row in flat))
    spark.stop()
    alone = without_spark(commands)
    counted = batches - WARM_UP_BATCHES
    print(f"{queues} queues, {counted} batches of {len(commands[-1])} commands, messages of {body} octets")
    print(f"  engine on Spark, {cores} cores    {streamed:10,.0f} commands/s")
    print(f"  the same files copied      {copied:10,.0f} commands/s, the engine has {streamed / copied:.2f} of it")
    print(f"  one process without Spark  {alone:10,.0f} commands/s, the engine has {streamed / alone:.2f} of it")


if __name__ == "__main__":
    main()
