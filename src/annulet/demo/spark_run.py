"""The Spark side of a run: the session, its two queries, and waiting until they have moved everything."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from annulet.demo import pipelines
from annulet.demo.topology import ARCHIVE, STATISTICS
from annulet.spark.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from annulet.demo.workspace import Workspace

STALL_SECONDS: Final = 120.0
"""Longest time without progress before the run is aborted; a batch takes a few seconds on a slow machine."""

LOOK_SECONDS: Final = 0.25
QUERIES: Final = (ARCHIVE, STATISTICS)


class SparkFailedError(RuntimeError):
    """A query ended unexpectedly, or made no more progress; the text has the query."""


def start_session(workspace: Workspace) -> SparkSession:
    """Start Spark with the settings of the demonstration; Java's output goes to a log file."""
    settings = {**pipelines.SETTINGS, "spark.sql.warehouse.dir": str(workspace.warehouse)}
    with standard_error_to(workspace.spark_log):
        spark = local_session("annulet demo", settings=settings)
    spark.sparkContext.setLogLevel("ERROR")
    pipelines.register(spark)
    return spark


@contextlib.contextmanager
def standard_error_to(file: Path) -> Iterator[None]:
    """Let processes started inside the block write their standard error to ``file``, for their lifetime."""
    sys.stderr.flush()
    saved = os.dup(2)
    try:
        with file.open("ab") as log:
            os.dup2(log.fileno(), 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(saved, 2)
        os.close(saved)


class Queries:
    """The two streaming queries of a run."""

    def __init__(self, spark: SparkSession, url: str, workspace: Workspace) -> None:
        self._queries: dict[str, StreamingQuery] = {
            ARCHIVE: pipelines.start_archive(spark, url, workspace.parquet, workspace.checkpoints),
            STATISTICS: pipelines.start_statistics(spark, url, workspace.checkpoints),
        }

    def check(self) -> None:
        """Raise :class:`SparkFailedError` when a query has ended."""
        for name, query in self._queries.items():
            if not query.isActive:
                reason = query.exception()
                raise SparkFailedError(f"the query of queue {name!r} ended: {reason or 'it was stopped'}")

    def moved(self) -> dict[str, tuple[int, int]]:
        """Return messages and micro-batches done, by queue."""
        return {
            name: (pipelines.rows_read(query), pipelines.batches_done(query)) for name, query in self._queries.items()
        }

    def delay_messages(self) -> int:
        """Return how many messages the statistics query has published."""
        return pipelines.states_changed(self._queries[STATISTICS])

    def stop(self) -> None:
        """Stop both; unfinished messages stay leased, as after a crash."""
        for query in self._queries.values():
            query.stop()


def wait_until_moved(
    total: int,
    queries: Queries,
    *,
    acknowledged: Callable[[], dict[str, int]],
    look: Callable[[dict[str, tuple[int, int]]], None],
    producing: Callable[[], bool],
) -> None:
    """Return when both queries have done ``total`` messages and the broker has every acknowledgement.

    ``look`` is called with the progress a few times a second and may raise; ``producing`` tells whether more messages
    follow. Raises :class:`SparkFailedError` when a query ends or nothing moves for STALL_SECONDS.
    """
    last, last_at = None, time.monotonic()
    while True:
        queries.check()
        moved = queries.moved()
        look(moved)
        state: tuple[object, ...] = (moved,)
        if not producing() and all(moved[name][0] >= total for name in QUERIES):
            done = acknowledged()
            if all(done[name] >= total for name in QUERIES):
                return
            state = (moved, done)
        if state != last or producing():
            last, last_at = state, time.monotonic()
        elif time.monotonic() - last_at > STALL_SECONDS:
            raise SparkFailedError(f"nothing moved for {STALL_SECONDS:.0f} seconds: {describe(moved, total)}")
        time.sleep(LOOK_SECONDS)


def describe(moved: dict[str, tuple[int, int]], total: int) -> str:
    """Return how far each query is as text."""
    return ", ".join(f"{name} {count:,} of {total:,} in {batches} batches" for name, (count, batches) in moved.items())
