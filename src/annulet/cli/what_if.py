"""``annulet pipeline what-if`` and ``annulet pipeline report``: the effects of other settings, and the actual
events."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from annulet.cli.archive import FOLDER, moment
from annulet.cli.local_path import LocalPath
from annulet.cli.pipeline import EXIT_FAILED, fail, require_spark, session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from annulet.spark.what_if.settings import Setting
    from annulet.spark.what_if.simulation import Result

EXIT_GOAL_MISSED: Final = 3


def chosen_messages(command: Any) -> Any:
    """Add the options that choose archived messages to a command."""
    for option in (
        click.option("--since", type=moment, help="Messages accepted then or later."),
        click.option("--until", type=moment, help="Messages accepted before then."),
        click.option("--address", "addresses", multiple=True, help="Only messages sent there."),
        click.option("--where", help="Only rows for which this SQL condition holds."),
    ):
        command = option(command)
    return command


@click.command("what-if")
@click.argument("folder", type=FOLDER)
@click.option(
    "--vary", multiple=True, required=True, metavar="NAME=A,B,...", help="Values to try, e.g. ring-size=100,1000."
)
@click.option("--set", "fixed", multiple=True, metavar="NAME=VALUE", help="The same in all settings, e.g. rate=50.")
@click.option("--arrivals-of", metavar="QUEUE", help="Arrivals as the event log in FOLDER has them, not its messages.")
@click.option("--consumers-of", metavar="QUEUE", help="Consumers that work as those of QUEUE did, by the event log.")
@click.option("--vhost", default="", help="Virtual host of these queues, where several have one of this name.")
@click.option("--goal", help="e.g. 'loss <= 0.1%, dwell-p99 <= 5 s'.")
@click.option("--plots", type=FOLDER, help="Save depth.png, loss.png and dwell.png there.")
@click.option("--json", "json_file", type=LocalPath(dir_okay=False), help="Write everything as JSON.")
@click.option("--cores", type=click.IntRange(1), default=2, show_default=True, help="Settings tried at the same time.")
@click.option("--verbose", is_flag=True, help="Show what Spark has to say.")
@chosen_messages
def what_if(
    folder: Path,
    vary: tuple[str, ...],
    fixed: tuple[str, ...],
    *,
    goal: str | None,
    plots: Path | None,
    json_file: Path | None,
    **options: Any,
) -> None:
    """Replay archived messages of FOLDER through the broker's core under other settings, in parallel.

    Names are queue arguments (ring-size, last-value-key, max-priority, max-length, ...), and consumers, rate (messages
    a second of one consumer), prefetch. All messages chosen arrive at one queue.

    Exit code 0: done, and the goal is met by a setting. 1: it failed. 3: no setting meets the goal.
    """
    require_spark()
    if plots is not None and find_spec("matplotlib") is None:
        fail("--plots needs matplotlib; pip install matplotlib, or leave it out", EXIT_FAILED)
    from annulet.spark.archive.archiving import read_archive  # noqa: PLC0415 - other commands start faster
    from annulet.spark.pipeline.errors import explain  # noqa: PLC0415
    from annulet.spark.what_if import events as event_log  # noqa: PLC0415
    from annulet.spark.what_if import report as made  # noqa: PLC0415
    from annulet.spark.what_if.running import run_settings  # noqa: PLC0415
    from annulet.spark.what_if.settings import grid, parse_goal, parse_value, with_recorded  # noqa: PLC0415

    cores, verbose = options.pop("cores"), options.pop("verbose")
    arrivals_of, consumers_of, host = options.pop("arrivals_of"), options.pop("consumers_of"), options.pop("vhost")
    try:
        values = {name: [parse_value(value) for value in text.split(",")] for name, text in map(_named, vary)}
        settings = grid({name: parse_value(text) for name, text in map(_named, fixed)}, values)
        conditions = parse_goal(goal) if goal else []
        with session("annulet what-if", cores, {}, verbose=verbose) as spark:
            if consumers_of is not None:
                recorded = event_log.consumers_of(events_of(spark, folder, options), consumers_of, host)
                named = [name for name, _ in map(_named, (*vary, *fixed))]
                settings = with_recorded(settings, named, recorded.consumers, recorded.work)
            if arrivals_of is None:
                messages = read_archive(spark, folder, **options)
            else:
                messages = event_log.arrivals_of_queue(events_of(spark, folder, options), arrivals_of, host)
            results = run_settings(messages, settings)
    except click.ClickException:
        raise
    except Exception as error:  # noqa: BLE001 - the archive, the core and Spark each have their own
        fail(explain(error), EXIT_FAILED)
    rows = made.rows_of(settings, results)
    starvation = made.starvation_rows(settings, results)
    show("What would have happened", rows)
    if len({row["priority"] for row in starvation}) > 1:
        show("By priority", starvation)
    if plots is not None:
        click.echo("plots: " + ", ".join(str(file) for file in made.save_pictures(plots, settings, results)))
    if json_file is not None:
        json_file.write_text(json.dumps(made.document_of(settings, results), indent=1) + "\n")
    if conditions:
        assert goal is not None
        sys.exit(0 if tell_goal(goal, conditions, settings, results) else EXIT_GOAL_MISSED)


def tell_goal(goal: str, conditions: Sequence[Any], settings: Sequence[Setting], results: Sequence[Result]) -> bool:
    """Print the smallest setting that meets the goal, or that none does. Returns whether one does."""
    from annulet.spark.what_if.report import label_of  # noqa: PLC0415
    from annulet.spark.what_if.running import smallest  # noqa: PLC0415
    from annulet.spark.what_if.settings import names_of  # noqa: PLC0415

    found = smallest(settings, results, conditions)
    if found is None:
        click.echo(f"goal {goal!r}: no setting meets it; vary further")
        return False
    click.echo(f"goal {goal!r}: the smallest setting is {label_of(found[0], list(names_of(settings)))}")
    return True


@click.command()
@click.argument("folder", type=FOLDER)
@click.option("--json", "json_file", type=LocalPath(dir_okay=False), help="Also write it as JSON.")
@click.option("--verbose", is_flag=True, help="Show what Spark has to say.")
@chosen_messages
def report(folder: Path, json_file: Path | None, *, verbose: bool, **options: Any) -> None:
    """Report the archived messages of FOLDER by queue: number, sizes, rate, returns.

    If the event log was archived too, also the fate of the messages of each queue in it.
    """
    require_spark()
    from annulet.spark.pipeline.errors import explain  # noqa: PLC0415 - other commands start faster

    try:
        with session("annulet report", 2, {}, verbose=verbose) as spark:
            document = reported(spark, folder, options)
    except Exception as error:  # noqa: BLE001 - the archive and Spark each have their own
        fail(explain(error), EXIT_FAILED)
    show("What happened", document["queues"])
    if document["events"]:
        show("What became of it", document["events"])
    if json_file is not None:
        json_file.write_text(json.dumps(document, indent=1, default=_as_text) + "\n")


def reported(spark: SparkSession, folder: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return a report: ``queues`` of archived messages, and by the event log ``events`` and ``depth`` over time."""
    from annulet.spark.archive.archiving import read_archive  # noqa: PLC0415
    from annulet.spark.what_if.events import EVENT_QUEUE, depth_over_time, what_became  # noqa: PLC0415
    from annulet.spark.what_if.report import what_happened  # noqa: PLC0415

    messages = read_archive(spark, folder, **options)
    queues = what_happened(messages.where(f"queue != '{EVENT_QUEUE}'"))
    events = events_of(spark, folder, options).cache()
    try:
        return {"queues": queues, "events": what_became(events), "depth": depth_over_time(events)}
    finally:
        events.unpersist()


def events_of(spark: SparkSession, folder: Path, options: Mapping[str, Any]) -> DataFrame:
    """Return the archived events of the time chosen, of all queues."""
    from annulet.spark.archive.archiving import read_archive  # noqa: PLC0415
    from annulet.spark.what_if.events import EVENT_QUEUE, read_events  # noqa: PLC0415

    messages = read_archive(spark, folder, since=options["since"], until=options["until"], addresses=[EVENT_QUEUE])
    return read_events(messages)


def show(title: str, rows: Sequence[dict[str, Any]]) -> None:
    """Print rows as a table."""
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    from annulet.spark.what_if.report import table_text  # noqa: PLC0415

    cells = table_text(rows)
    if not cells:
        click.echo(f"{title}: no messages")
        return
    table = Table(title=title)
    for name in cells[0]:
        table.add_column(name, justify="right", overflow="fold")
    for row in cells[1:]:
        table.add_row(*row)
    Console(width=None if sys.stdout.isatty() else 200).print(table)


def _as_text(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _named(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name or not value:
        raise click.BadParameter(f"{text!r}: write NAME=VALUE, such as ring-size=1000")
    return name, value
