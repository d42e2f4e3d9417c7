"""``annulet pipeline archive`` and ``annulet pipeline replay``: queues to Parquet, and back."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from annulet.cli.local_path import LocalPath
from annulet.cli.pipeline import (
    EXIT_FAILED,
    Display,
    fail,
    require_spark,
    session,
    stop_signals,
    tell_cut_off,
)
from annulet.cli.signals import EXIT_SIGNAL
from annulet.spark.pipeline.triggers import AVAILABLE_NOW, is_trigger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from annulet.cli.pipeline import Stop
    from annulet.spark.archive.archiving import ArchiveOptions
    from annulet.spark.pipeline.running import Outcome

FOLDER: Final = LocalPath(file_okay=False)
MEBIBYTE: Final = 1024 * 1024


def moment(text: str) -> datetime:
    """Read a time in ISO 8601; without a zone it is UTC."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is no time; give ISO 8601 such as 2026-11-21T19:30 or 2026-11-21T19:30+01:00"
        ) from None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found


def trigger_text(text: str) -> str:
    """Check a trigger: ``available-now`` or an interval."""
    if not is_trigger(text):
        raise click.BadParameter(f'{text!r} is no trigger; give {AVAILABLE_NOW}, or an interval such as "5 seconds"')
    return text


RETRY_OPTION = click.option(
    "--retry-seconds", type=click.IntRange(0), default=60, show_default=True, help="How long a broker is waited for."
)
URL_OPTION = click.option(
    "--url", envvar="ANNULET_URL", required=True, help="annulet://USER:PASSWORD@HOST:PORT/VHOST.  [env: ANNULET_URL]"
)


@click.command()
@click.argument("folder", type=FOLDER)
@URL_OPTION
@click.option("--queue", "queues", multiple=True, required=True, help="Queue to archive; may be given several times.")
@click.option("--trigger", type=trigger_text, default=AVAILABLE_NOW, show_default=True, help="Or such as '5 seconds'.")
@click.option("--file-size", type=click.IntRange(1, 4096), default=64, show_default=True, help="MiB of merged files.")
@click.option(
    "--small-files", type=click.IntRange(2), default=64, show_default=True, help="Small files that start a merge."
)
@RETRY_OPTION
@click.option("--keep-days", type=click.IntRange(1), help="Days kept.  [default: all]")
@click.option("--verbose", is_flag=True, help="Show what Spark has to say.")
def archive(folder: Path, url: str, queues: tuple[str, ...], trigger: str, *, verbose: bool, **bounds: Any) -> None:
    """Move queues into Parquet files below FOLDER, by day and address, each message exactly once.

    Run again, it continues where it ended. Exit code 0: done, or stopped while running at intervals. 1: it failed. 130,
    143: stopped before all available messages were moved.
    """
    require_spark()
    from annulet.spark.archive.archiving import ArchiveOptions  # noqa: PLC0415 - other commands start faster
    from annulet.spark.archive.maintenance import Upkeep  # noqa: PLC0415
    from annulet.spark.pipeline.errors import PipelineError  # noqa: PLC0415

    upkeep = Upkeep(
        file_bytes=bounds["file_size"] * MEBIBYTE, small_files=bounds["small_files"], keep_days=bounds["keep_days"]
    )
    options = ArchiveOptions(
        trigger=None if trigger == AVAILABLE_NOW else trigger, retry_seconds=bounds["retry_seconds"], upkeep=upkeep
    )
    try:
        with session("annulet archive", 2, {}, verbose=verbose) as spark, stop_signals() as received:
            outcome = run_archive(spark, url, queues, folder, options, received)
    except PipelineError as error:
        fail(str(error), EXIT_FAILED)
    tell_cut_off(outcome)
    click.echo(f"archived {outcome.rows:,} messages in {outcome.batches:,} batches")
    if outcome.stopped and options.trigger is None:
        sys.exit(EXIT_SIGNAL + received.number)


def run_archive(
    spark: SparkSession, url: str, queues: tuple[str, ...], folder: Path, options: ArchiveOptions, received: Stop
) -> Outcome:
    """Run a query for each queue until their trigger is done or a signal arrives. Raises ``PipelineError``."""
    from annulet.spark.archive.archiving import checkpoint_of, start_archive  # noqa: PLC0415
    from annulet.spark.pipeline.checkpoints import inspect  # noqa: PLC0415
    from annulet.spark.pipeline.errors import PipelineError, explain  # noqa: PLC0415
    from annulet.spark.pipeline.running import watch  # noqa: PLC0415

    for queue in queues:
        inspect(checkpoint_of(folder, queue))
    started = {}
    try:
        for queue in dict.fromkeys(queues):
            started[queue] = start_archive(spark, url, queue, folder, options=options)
        with Display("archive") as display:
            return watch(started, stop=received.stop, report=display.report)
    except PipelineError:
        raise
    except Exception as error:  # Spark's own, from the start of a query
        raise PipelineError(explain(error)) from error
    finally:
        for query in started.values():
            query.stop()


@click.command()
@click.argument("folder", type=FOLDER)
@URL_OPTION
@click.option("--to", "address", required=True, help="Queue, exchange or address that gets the messages.")
@click.option("--name", required=True, help="Name of this replay: under it, it goes on, and is done once.")
@click.option("--since", type=moment, help="Messages accepted then or later.")
@click.option("--until", type=moment, help="Messages accepted before then.")
@click.option("--address", "addresses", multiple=True, help="Only messages sent there; may be given several times.")
@click.option("--where", help='Only rows for which this SQL condition holds, e.g. "priority > 5".')
@RETRY_OPTION
@click.option("--rate", type=click.IntRange(1), help="Messages a second.  [default: as fast as it goes]")
@click.option("--verbose", is_flag=True, help="Show what Spark has to say.")
def replay(*, verbose: bool, **options: Any) -> None:
    """Publish archived messages of FOLDER again, in the order of acceptance, each exactly once.

    Exit code 0: done. 1: it failed. 130, 143: stopped; the same command continues it.
    """
    require_spark()
    from annulet.spark.archive.replay import ReplayRequest  # noqa: PLC0415 - other commands start faster
    from annulet.spark.archive.replay import replay as run_replay  # noqa: PLC0415
    from annulet.spark.pipeline.errors import explain  # noqa: PLC0415

    request = ReplayRequest(**options)
    try:
        with session("annulet replay", 2, {}, verbose=verbose) as spark, stop_signals() as received:
            done = run_replay(
                spark,
                request,
                stop=received.stop,
                report=lambda published, total: click.echo(f"{published:,} of {total:,} messages published"),
            )
    except Exception as error:  # noqa: BLE001 - the archive, Spark and the broker each have their own
        fail(explain(error), EXIT_FAILED)
    end = "done" if done.done else "stopped"
    click.echo(f"replay {request.name}: {done.rows:,} of {done.total:,} messages published now, {end}")
    if not done.done:
        sys.exit(EXIT_SIGNAL + received.number)
