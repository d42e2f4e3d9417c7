"""``annulet pipeline``: data pipelines on Spark."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click

from annulet.cli.signals import EXIT_SIGNAL, end_at_once

if TYPE_CHECKING:
    from types import FrameType

    from pyspark.sql import SparkSession

    from annulet.spark.pipeline.progress import BatchReport
    from annulet.spark.pipeline.running import Outcome

EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
FILE: Final = click.Path(dir_okay=False, path_type=Path)


@click.group()
def pipeline() -> None:
    """Move and transform messages in bulk, on Spark. Needs annulet[spark]."""


@pipeline.command("run")
@click.argument("file", type=FILE)
@click.option("--dry-run", is_flag=True, help="Print the plan and check it; move nothing.")
@click.option("--verbose", is_flag=True, help="Show what Spark has to say.")
def run_command(file: Path, *, dry_run: bool, verbose: bool) -> None:
    """Run the pipeline of FILE: sources, transforms and sinks in TOML.

    SIGINT and SIGTERM end it between two batches; a second one ends it at once. The next run continues where it ended.

    Exit code 0: done, or stopped while running at intervals. 1: a query failed. 2: the file is wrong. 130, 143:
    stopped before everything that was available was moved.
    """
    require_spark()
    from annulet.spark.pipeline.definition import load  # noqa: PLC0415 - other commands start faster
    from annulet.spark.pipeline.errors import PipelineError, PipelineFileError  # noqa: PLC0415
    from annulet.spark.pipeline.frames import build_frames  # noqa: PLC0415
    from annulet.spark.pipeline.planning import describe  # noqa: PLC0415
    from annulet.spark.pipeline.running import run  # noqa: PLC0415
    from annulet.spark.pipeline.triggers import AVAILABLE_NOW  # noqa: PLC0415

    try:
        definition = load(file)
        with session(
            definition.name, definition.cores, definition.spark, verbose=verbose, modules=file.parent
        ) as spark:
            if dry_run:
                for line in describe(spark, definition, build_frames(spark, definition)):
                    click.echo(line)
                return
            with stop_signals() as received, Display(definition.name) as display:
                outcome = run(spark, definition, stop=received.stop, report=display.report, show=display.show)
    except PipelineFileError as error:
        fail(str(error), EXIT_USAGE)
    except PipelineError as error:
        fail(str(error), EXIT_FAILED)
    tell_cut_off(outcome)
    click.echo(f"{definition.name}: {outcome.rows:,} rows in {outcome.batches:,} batches")
    if outcome.stopped and definition.trigger == AVAILABLE_NOW:
        sys.exit(EXIT_SIGNAL + received.number)


def require_spark() -> None:
    """End with a remedy when the packages are missing that pipelines need."""
    missing = [name for name in ("pyspark", "pyarrow") if find_spec(name) is None]
    if missing:
        fail(f"{' and '.join(missing)} is not installed; pip install 'annulet[spark]'", EXIT_FAILED)


def tell_cut_off(outcome: Outcome) -> None:
    """Say which batches were under way when the run was stopped."""
    for text in outcome.cut_off:
        click.echo(f"annulet pipeline: stopped within a batch, which the next run repeats: {text}", err=True)


class Stop:
    """State set by the signals: ``stop`` by the first, whose number is ``number``."""

    def __init__(self) -> None:
        self.stop = Event()
        self.number = 0

    def receive(self, number: int, _frame: FrameType | None) -> None:
        """Take a signal; the second ends the process."""
        if self.stop.is_set():
            end_at_once(number)
        self.number = number
        self.stop.set()


@contextmanager
def stop_signals() -> Iterator[Stop]:
    """Turn SIGINT and SIGTERM into a request to stop. Spark's own handler of SIGINT would cancel its jobs."""
    stop = Stop()
    before = {number: signal.signal(number, stop.receive) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def session(
    name: str, cores: int, settings: dict[str, str], *, verbose: bool, modules: Path | None = None
) -> Iterator[SparkSession]:
    """Start a local Spark session, and stop it. Without ``verbose`` Java's output is discarded.

    ``modules`` is a folder whose Python modules Spark's workers can import.
    """
    from annulet.spark import register  # noqa: PLC0415
    from annulet.spark.java import JavaNotFoundError  # noqa: PLC0415
    from annulet.spark.session import local_session  # noqa: PLC0415

    if modules is not None:
        paths = [str(modules.absolute()), os.environ.get("PYTHONPATH", "")]
        os.environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    saved = os.dup(2)
    try:
        if not verbose:
            with Path(os.devnull).open("wb") as nowhere:
                os.dup2(nowhere.fileno(), 2)  # the processes of Spark inherit it
        try:
            spark = local_session(name, cores=cores, settings=settings)
        except JavaNotFoundError as error:
            os.dup2(saved, 2)
            fail(str(error), EXIT_FAILED)
        finally:
            os.dup2(saved, 2)
    finally:
        os.close(saved)
    spark.sparkContext.setLogLevel("WARN" if verbose else "OFF")
    if not verbose:
        quiet_errors()
    register(spark)
    try:
        yield spark
    finally:
        spark.stop()


def quiet_errors() -> None:
    """Keep PySpark from writing each refused statement to standard error as JSON: the error is printed in one line."""
    from pyspark.logger import PySparkLogger  # noqa: PLC0415

    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)


class Display:
    """The progress: a table that is updated on a terminal, one line for each batch elsewhere."""

    def __init__(self, title: str) -> None:
        from rich.console import Console  # noqa: PLC0415

        self._console = Console()
        self._title = title
        self._last: dict[str, BatchReport] = {}
        self._totals: dict[str, int] = {}
        self._live: Any = None

    def __enter__(self) -> Display:
        if self._console.is_terminal:
            from rich.live import Live  # noqa: PLC0415

            self._live = Live(self._table(), console=self._console)
            self._live.start()
        return self

    def __exit__(self, *_error: object) -> None:
        if self._live is not None:
            self._live.stop()

    def report(self, batch: BatchReport) -> None:
        """Show a batch."""
        self._last[batch.query] = batch
        self._totals[batch.query] = self._totals.get(batch.query, 0) + batch.rows
        if self._live is None:
            click.echo(batch.line())
        else:
            self._live.update(self._table())

    def show(self, text: str) -> None:
        """Print the text of a console sink."""
        if self._live is None:
            click.echo(text)
        else:
            self._console.print(text, markup=False, highlight=False)

    def _table(self) -> Any:
        from rich.table import Table  # noqa: PLC0415

        table = Table("query", "batch", "rows", "rows/s", "backlog", "lag", "batch time", title=self._title)
        for query, batch in self._last.items():
            table.add_row(
                query,
                str(batch.batch),
                f"{self._totals[query]:,}",
                f"{batch.rows_per_second:,.0f}",
                "" if batch.backlog is None else f"{batch.backlog:,}",
                "" if batch.lag_seconds is None else f"{batch.lag_seconds:,.1f} s",
                f"{batch.seconds:.1f} s",
            )
        return table


def fail(text: str, code: int) -> NoReturn:
    """Print one line on standard error and exit."""
    click.echo(f"annulet pipeline: {' '.join(text.split())}", err=True)
    sys.exit(code)
