"""The end of a run: the reconciliation as tables for a terminal and as JSON for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from annulet.demo.reconciliation import Check, QueueAccount
    from annulet.demo.what_if import Trial

BOARD_LINES: Final = 8
"""Departures of a board shown in the terminal; the picture shows more."""

ON_TIME: Final = "on time"
CANCELLED: Final = "cancelled"


def accounts_table(accounts: Sequence[QueueAccount], parquet_rows: Mapping[str, int]) -> Table:
    """Return the books of all queues: accepted messages and their fate; ``parquet_rows`` by queue. Fits 80 columns."""
    table = Table(title="Where every message is", title_style="bold", header_style="bold cyan")
    table.box, table.padding = None, (0, 0, 0, 1)  # rules between columns would take it beyond 80
    table.add_column("queue", style="bold")
    files = ("Parquet",) if parquet_rows else ()
    for title in ("published", "kept", "taken", *files, "dropped", "missing"):
        table.add_column(title, justify="right")
    for account in accounts:
        dropped = "\n".join(f"{count:,} {reason}" for reason, count in sorted(account.dropped.items())) or "-"
        missing = Text(f"{account.unaccounted:,}", style="green" if account.unaccounted == 0 else "bold red")
        in_parquet = (f"{parquet_rows[account.name]:,}" if account.name in parquet_rows else "-",) if files else ()
        table.add_row(
            account.name, f"{account.added:,}", f"{account.kept:,}", f"{account.acknowledged:,}", *in_parquet, dropped,
            missing,
        )  # fmt: skip
    return table


def trials_table(trials: Sequence[Trial]) -> Table:
    """Return the messages the boards would have kept under other rules. Fits 80 columns."""
    table = Table(title="What if: the boards' recorded event log, replayed", title_style="bold")
    table.box, table.header_style = None, "bold cyan"
    table.add_column("board", style="bold")
    table.add_column("rule")
    for title in ("arrived", "kept", "dropped"):
        table.add_column(title, justify="right")
    for trial in trials:
        dropped = ", ".join(f"{count:,} {reason}" for reason, count in sorted(trial.dropped.items())) or "-"
        table.add_row(trial.board, trial.rule, f"{trial.arrived:,}", f"{trial.kept:,}", dropped)
    return table


def losses_table(losses: Sequence[Mapping[str, Any]]) -> Table:
    """Return records of the loss ledger, with the key of those that a newer message of the same key replaced."""
    table = Table(title="The loss ledger: the last messages that were dropped", title_style="bold")
    table.box, table.header_style = None, "bold cyan"
    for title in ("queue", "reason", "key", "size", "publisher"):
        table.add_column(title)
    for loss in losses:
        texts = (str(loss[name] or "-") for name in ("queue", "reason", "key", "size", "publisher"))
        table.add_row(*texts)
    return table


def checks_table(checks: Sequence[Check]) -> Table:
    """Return the comparisons with their verdicts; figures of the tables above that fit are summed up in the title."""
    quiet = sum(check.of_books and check.fits for check in checks)
    table = Table(
        title=f"Against the source table (and {quiet} figures above, which fit)",
        title_style="bold",
        header_style="bold cyan",
    )
    table.add_column("what")
    table.add_column("expected", justify="right")
    table.add_column("found", justify="right")
    table.add_column("")
    for check in checks:
        if check.of_books and check.fits:
            continue
        verdict = Text("fits", style="green") if check.fits else Text(f"MISMATCH {check.detail}".strip(), "bold red")
        table.add_row(check.subject, shown(check.expected), shown(check.actual), verdict)
    return table


def board_table(origin: str, flights: Sequence[Mapping[str, Any]]) -> Table:
    """Return the last departures of an origin as a departures board shows them."""
    table = Table(title=f"{origin}: last departures", title_style="bold yellow", header_style="yellow")
    for title in ("date", "time", "flight", "to", "aircraft", "status"):
        table.add_column(title)
    for flight in flights[-BOARD_LINES:]:
        status = status_of(flight["dep_delay"])
        style = {ON_TIME: "green", CANCELLED: "red"}.get(status, "yellow")
        table.add_row(*board_cells(flight), Text(status, style=style))
    return table


def board_cells(flight: Mapping[str, Any]) -> list[str]:
    """Return date, scheduled time, flight, destination and aircraft of a departure as text."""
    tail_number = flight["tailnum"]
    return [
        f"{int(flight['month']):02d}-{int(flight['day']):02d}",
        clock(int(flight["sched_dep_time"])),
        f"{flight['carrier']} {int(flight['flight'])}",
        str(flight["dest"]),
        tail_number if isinstance(tail_number, str) else "-",
    ]


def clock(reading: int) -> str:
    """Return a clock reading of the data (517 is 05:17) as text."""
    return f"{reading // 100:02d}:{reading % 100:02d}"


def status_of(delay: float | None) -> str:
    """Return the line of a departure on a board; a missing delay means that the flight did not leave."""
    if delay is None or delay != delay:  # noqa: PLR0124  (not a number: pandas' missing value)
        return CANCELLED
    return ON_TIME if delay <= 0 else f"{int(delay)} min late"


def shown(value: object) -> str:
    """Return a figure with separators; other values as they are."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, dict):
        return ", ".join(f"{key} {shown(item)}" for key, item in sorted(value.items())) or "none"
    return str(value)


def as_json(
    accounts: Sequence[QueueAccount],
    trials: Sequence[Trial],
    checks: Sequence[Check],
    phases: Mapping[str, float],
    pictures: Sequence[str],
    limit: int | None,
) -> dict[str, Any]:
    """Return the run as JSON. ``seconds`` are by phase; ``fits`` tells whether every comparison does."""
    return {
        "fits": all(check.fits for check in checks),
        "limit": limit,
        "queues": [
            {
                "name": account.name,
                "kind": account.kind,
                "added": account.added,
                "kept": account.kept,
                "acknowledged": account.acknowledged,
                "in_delivery": account.in_delivery,
                "dropped": account.dropped,
                "in_ledger": account.in_ledger,
                "unaccounted": account.unaccounted,
            }
            for account in accounts
        ],
        "what_if": [asdict(trial) for trial in trials],
        "checks": [check.as_dict() for check in checks],
        "seconds": {name: round(seconds, 2) for name, seconds in phases.items()},
        "plots": list(pictures),
    }
