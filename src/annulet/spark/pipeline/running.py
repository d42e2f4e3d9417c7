"""A run of a pipeline: starts its queries, watches them, ends them between two batches."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING, Final

from annulet.spark.archive.holding import held
from annulet.spark.archive.maintenance import GRACE_SECONDS
from annulet.spark.archive.table import Table
from annulet.spark.pipeline.checkpoints import claim, inspect
from annulet.spark.pipeline.definition import ParquetSource, Pipeline, QueueSource
from annulet.spark.pipeline.errors import PipelineError, explain
from annulet.spark.pipeline.frames import build_frames, sink_schema
from annulet.spark.pipeline.planning import depth
from annulet.spark.pipeline.progress import BatchReport, Watch
from annulet.spark.pipeline.queries import Show, checkpoint_of, groups, inputs_of, start

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

LOOK_SECONDS: Final = 0.1
STOP_SECONDS: Final = 30.0
"""How long a stop waits for running batches. An interrupted one is repeated by the next run."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run. ``stopped`` tells whether it was asked to end before it was done.

    ``cut_off`` has the later errors of queries, in one line each; the next run repeats their batches.
    """

    rows: int
    batches: int
    stopped: bool
    cut_off: tuple[str, ...] = ()


def run(
    spark: SparkSession, pipeline: Pipeline, *, stop: Event, report: Callable[[BatchReport], None], show: Show
) -> Outcome:
    """Run a pipeline until its trigger is done or ``stop`` is set.

    ``report`` gets each batch that had rows, ``show`` the text of console sinks. Raises :class:`PipelineError` when a
    query cannot start or fails; the others are stopped then.
    """
    with ExitStack() as readers:
        _hold_archives(pipeline, readers, show)
        return _run(spark, pipeline, stop, report, show)


def _hold_archives(pipeline: Pipeline, readers: ExitStack, show: Show) -> None:
    """Have the files of archives that are read as tables stay for as long as the run lasts."""
    for source in pipeline.sources.values():
        if not isinstance(source, ParquetSource) or not source.snapshot:
            continue
        table = Table(pipeline.resolve(source.path))
        if not table.inside.is_dir():
            continue
        try:
            readers.enter_context(held(table))
        except OSError as error:  # a folder that may only be read
            show(
                f"{table.root}: {error.strerror}: messages merged or expired there during the run are kept for "
                f"{GRACE_SECONDS / 60:.0f} minutes only; let this user write into {table.inside}"
            )


def _run(
    spark: SparkSession, pipeline: Pipeline, stop: Event, report: Callable[[BatchReport], None], show: Show
) -> Outcome:
    frames = build_frames(spark, pipeline)
    for name in pipeline.sinks:
        sink_schema(spark, pipeline, name, frames)
    for name, source in pipeline.sources.items():
        if isinstance(source, QueueSource):
            depth(pipeline, name, source)  # an unreachable broker is reported before any query starts
    for group in groups(pipeline):
        folder = checkpoint_of(pipeline, group)
        inspect(folder)
        claim(folder, inputs_of(pipeline, group))
    queries: dict[str, StreamingQuery] = {}
    try:
        for group in groups(pipeline):
            queries[group.input] = start(pipeline, group, frames[group.input], show)
        return watch(queries, stop=stop, report=report)
    except PipelineError:
        raise
    except Exception as error:  # Spark's own, from start()
        raise PipelineError(explain(error)) from error
    finally:
        for query in queries.values():
            query.stop()


def watch(queries: Mapping[str, StreamingQuery], *, stop: Event, report: Callable[[BatchReport], None]) -> Outcome:
    """Report batches until every query has ended or ``stop`` is set; then end the queries between two batches.

    Raises :class:`PipelineError` for a query that failed.
    """
    watches = {name: Watch(name) for name in queries}
    cut_off: dict[str, str] = {}

    def look() -> bool:
        """Report new batches; return whether a query still runs."""
        running = [query.isActive for query in queries.values()]  # checked first, so that its last batch is reported
        for name, query in queries.items():
            for batch in watches[name].new(query):
                report(batch)
            failure = query.exception()
            if failure is None:
                continue
            text = f"query {name}: {explain(failure)}"
            if not stop.is_set():
                raise PipelineError(text)
            # A terminal's Ctrl-C goes to Spark's Python processes too, which may end before their query does.
            cut_off[name] = text
        return any(running)

    while look() and not stop.wait(LOOK_SECONDS):
        continue
    stopped = stop.is_set()
    if stopped:
        _end_between_batches(queries)
        look()
    return Outcome(
        rows=sum(watch.rows for watch in watches.values()),
        batches=sum(watch.batches for watch in watches.values()),
        stopped=stopped,
        cut_off=tuple(cut_off.values()),
    )


def _end_between_batches(queries: Mapping[str, StreamingQuery]) -> None:
    """Stop each query once the batch under way is done: cutting it off is safe too, but its work would be lost."""
    deadline = time.monotonic() + STOP_SECONDS
    waiting = {name: _batch_of(query) for name, query in queries.items()}
    while waiting and time.monotonic() < deadline:
        for name, batch in list(waiting.items()):
            query = queries[name]
            if not query.isActive or not query.status["isTriggerActive"] or _batch_of(query) != batch:
                query.stop()
                del waiting[name]
        time.sleep(LOOK_SECONDS / 10)
    for name in waiting:
        queries[name].stop()


def _batch_of(query: StreamingQuery) -> tuple[int, str]:
    """Return a value that changes with each finished batch."""
    progress = query.lastProgress
    return (-1, "") if progress is None else (progress.batchId, progress.timestamp)
