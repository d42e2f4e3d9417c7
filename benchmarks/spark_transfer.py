"""Queues beside Parquet files in one Spark session: the same rows, streamed from either to either.

``python -m benchmarks.spark_transfer``: each leg is a streaming query over equal batches; the first batch of a query is
start-up and does not count. What arrives is counted, or the run fails.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import pyarrow as pa
import pyarrow.parquet as pq

from annulet.bulk.client import BulkClient
from annulet.bulk.protocol.protocol import QueueStatus
from annulet.bulk.protocol.url import parse_url
from annulet.spark.session import local_session
from benchmarks.brokers import Annulet, Running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession

PATIENCE_SECONDS: Final = 600
QUEUE: Final = "rows"
SCHEMA: Final = "message_id string, body binary"


class Bench:
    """One session, one broker, one folder, and what was measured."""

    def __init__(self, spark: SparkSession, url: str, folder: Path, rows: int, batches: int) -> None:
        self.spark = spark
        self.url = url
        self.folder = folder
        self.rows = rows
        self.batches = batches

    def write_input(self, body_bytes: int) -> None:
        """Write one file for each batch."""
        (self.folder / "in").mkdir()
        for batch in range(self.batches):
            first = batch * self.rows
            table = pa.table(
                {
                    "message_id": pa.array([str(number) for number in range(first, first + self.rows)]),
                    "body": pa.array([os.urandom(body_bytes) for _ in range(self.rows)], pa.binary()),
                }
            )
            path = self.folder / "in" / f"{batch}.parquet"
            pq.write_table(table, path, compression="none")
            os.utime(path, (1_700_000_000 + batch, 1_700_000_000 + batch))  # files are taken by age

    def files(self) -> DataFrame:
        """Return a stream of the files, one a batch."""
        reader = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(self.folder / "in"))

    def queue(self, partitions: int) -> DataFrame:
        """Return a stream of the queue, which takes nothing, so that every leg reads the same."""
        options = {"url": self.url, "queue": QUEUE, "nonDestructive": "true", "columns": "message_id,body"}
        options |= {"maxMessagesPerTrigger": str(self.rows), "maxBytesPerTrigger": str(1 << 30)}
        options["partitions"] = str(partitions)
        return self.spark.readStream.format("annulet").options(**options).load()

    def leased(self) -> DataFrame:
        """Return a stream of the queue that takes what it reads."""
        options = {"url": self.url, "queue": QUEUE, "lease": "bench", "columns": "message_id,body"}
        options |= {"maxMessagesPerTrigger": str(self.rows), "maxBytesPerTrigger": str(1 << 30)}
        return self.spark.readStream.format("annulet").options(**options).load()

    def to_files(self, name: str, stream: DataFrame) -> float:
        """Stream into Parquet files. Returns rows a second."""
        target = self.folder / name
        rate = self._run(name, stream, lambda writer: writer.format("parquet").option("path", str(target)))
        self._check(name, self.spark.read.parquet(str(target)).count())
        return rate

    def to_queue(self, name: str, stream: DataFrame) -> float:
        """Stream into the queue. Returns rows a second."""
        options = {"url": self.url, "address": QUEUE}
        rate = self._run(name, stream, lambda writer: writer.format("annulet").options(**options))
        client = BulkClient(parse_url(self.url))
        self._check(name, client.act(QueueStatus(queue=QUEUE))["pending"])
        client.close()
        return rate

    def _run(self, name: str, stream: DataFrame, sink: Callable[..., object]) -> float:
        writer = stream.writeStream.option("checkpointLocation", str(self.folder / f"{name}-checkpoint"))
        query = sink(writer.trigger(availableNow=True)).start()  # type: ignore[attr-defined]
        if not query.awaitTermination(PATIENCE_SECONDS):
            query.stop()
            raise click.ClickException(f"{name}: not done after {PATIENCE_SECONDS} s")
        counted = [progress for progress in query.recentProgress if progress["numInputRows"]][1:]
        seconds = float(sum(progress["durationMs"]["triggerExecution"] for progress in counted)) / 1000
        rows = int(sum(progress["numInputRows"] for progress in counted))
        return rows / seconds

    def _check(self, name: str, found: int) -> None:
        if found != self.rows * self.batches:
            raise click.ClickException(f"{name}: {found} rows arrived of {self.rows * self.batches}")


def declare(running: Running) -> None:
    """Declare the durable queue."""
    import pika  # noqa: PLC0415 - for this only

    connection = pika.BlockingConnection(pika.ConnectionParameters(port=running.port))
    connection.channel().queue_declare(QUEUE, durable=True)
    connection.close()


@contextmanager
def bench(cores: int, rows: int, batches: int, *, pure: bool) -> Iterator[Bench]:
    """Start everything."""
    with tempfile.TemporaryDirectory() as scratch, Annulet("annulet", pure=pure).running() as running:
        declare(running)
        spark = local_session("transfer", cores=cores)
        spark.sparkContext.setLogLevel("ERROR")
        try:
            yield Bench(spark, f"annulet://127.0.0.1:{running.bulk_port}", Path(scratch), rows, batches)
        finally:
            spark.stop()


@click.command()
@click.option("--rows", default=20_000, show_default=True, help="Rows of a batch.")
@click.option("--batches", default=5, show_default=True, help="Batches; the first one does not count.")
@click.option("--body", default=1024, show_default=True, help="Bytes of a body.")
@click.option("--cores", default=2, show_default=True, help="Cores of the session.")
@click.option("--pure", is_flag=True, help="Run the broker without its compiled modules.")
def main(rows: int, batches: int, body: int, cores: int, *, pure: bool) -> None:
    """Compare streams from and to queues with streams from and to Parquet files."""
    click.echo(f"{batches - 1} batches of {rows} rows of {body} B after the first, {cores} cores")
    with bench(cores, rows, batches, pure=pure) as here:
        here.write_input(body)
        files = 0.0
        legs: list[tuple[str, Callable[[], float]]] = [
            ("Parquet to Parquet", lambda: here.to_files("files", here.files())),
            ("Parquet to queue (staged sink)", lambda: here.to_queue("sink", here.files())),
            ("queue to Parquet, 2 partitions, not taken", lambda: here.to_files("queue-2", here.queue(2))),
            ("queue to Parquet, 1 partition, not taken", lambda: here.to_files("queue-1", here.queue(1))),
            ("queue to Parquet, 2 partitions, leased", lambda: here.to_files("leased", here.leased())),
        ]
        for name, leg in legs:
            rate = leg()
            files = files or rate
            click.echo(f"  {name:42}{rate:10,.0f} rows/s{rate / files:8.2f}")


if __name__ == "__main__":
    main()
