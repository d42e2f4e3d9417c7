"""``annulet status``, ``annulet top`` and ``annulet log``."""

from __future__ import annotations

import select
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import click
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from annulet.cli.remote.failures import usage
from annulet.cli.remote.options import API, OWN_API, Remote, remote_options
from annulet.cli.remote.output import make_table, print_plain, terminal_lines
from annulet.cli.remote.text import cell, duration_text, printable, size_text

INTERVAL_SECONDS: Final = 2.0
HEAD_LINES: Final = 6
"""Lines of ``top`` that are not queues."""

ROWS_MIN: Final = 5
ROWS_MAX: Final = 200
SORTS: Final = {
    "rate": "message_stats.publish_details.rate",
    "ready": "messages_ready",
    "unacknowledged": "messages_unacknowledged",
    "bytes": "message_bytes",
    "consumers": "consumers",
}
COLUMNS: Final = (
    "vhost",
    "name",
    "messages_ready",
    "messages_unacknowledged",
    "message_bytes",
    "consumers",
    "message_stats.publish_details.rate",
    "message_stats.deliver_get_details.rate",
    "message_stats.ack_details.rate",
)
QUIT: Final = "q"


@click.command()
@remote_options
def status(remote: Remote) -> None:
    """Show the broker's version, contents, alarms and warnings."""
    overview = remote.client.get(*OWN_API, "overview")
    if remote.output.as_json:
        remote.output.json(overview)
        return
    totals, objects, memory = overview["totals"], overview["object_totals"], overview["memory"]
    lost = {name: count for name, count in totals["removed"].items() if name not in {"acknowledged", "moved"}}
    limit = memory["limit_bytes"]
    remote.output.members(
        {
            "broker": f"{overview['product']} {overview['version']} ({overview['build']}) at {remote.target.url}",
            "up": duration_text(overview["uptime"]),
            "data": "on disk" if overview["durable"] else "in memory only",
            "alarms": _texts(overview["alarms"]) or "none",
            "warnings": _texts(overview["warnings"]) or "none",
            "memory": size_text(memory["resident_bytes"]) + (f" of {size_text(limit)}" if limit else ""),
            "virtual hosts": objects["vhosts"],
            "connections": objects["connections"],
            "queues": objects["queues"],
            "messages": totals["messages"],
            "ready": totals["messages_ready"],
            "unacknowledged": totals["messages_unacknowledged"],
            "removed": lost,
        }
    )


def _texts(values: Any) -> str:
    return ", ".join(cell(value) for value in values)


@click.group()
def log() -> None:
    """Show or change how much the broker logs."""


@log.command()
@click.argument("level", required=False, type=click.Choice(["debug", "info", "warning", "error"]))
@click.option("--seconds", type=click.IntRange(1, 86_400), help="For how long; without it until the broker ends.")
@remote_options
def level(remote: Remote, level: str | None, seconds: int | None) -> None:
    """Show the level of the broker's log, or change it. The log is where the broker runs."""
    if level is None:
        if seconds is not None:
            raise usage("--seconds needs a level: debug, info, warning or error")
        found = remote.client.get(*OWN_API, "log")
    else:
        given = {"level": level} if seconds is None else {"level": level, "seconds": seconds}
        found = remote.client.ask("PUT", (*OWN_API, "log"), given).content
    if remote.output.as_json:
        remote.output.json(found)
        return
    until = time.strftime("%H:%M:%S", time.localtime(found["until"] / 1000)) if found["until"] else "-"
    remote.output.members({"level": found["level"], "configured": found["configured"], "until": until})


@click.command()
@click.option("--once", is_flag=True, help="Print one picture and end.")
@click.option("--interval", type=click.FloatRange(0.2, 3600), default=INTERVAL_SECONDS, show_default=True)
@click.option("--sort", type=click.Choice(list(SORTS)), default="rate", show_default=True)
@remote_options
def top(remote: Remote, interval: float, sort: str, *, once: bool) -> None:
    """Show the busiest queues, live. q ends it."""
    if once or remote.output.as_json or not sys.stdout.isatty():
        picture = _picture(remote, sort)
        if remote.output.as_json:
            remote.output.json(picture)
        else:
            print_plain(_rendered(picture))
        return
    with Live(_rendered(_picture(remote, sort)), screen=True, auto_refresh=False) as live, single_keys():
        while not _quit_within(interval):
            live.update(_rendered(_picture(remote, sort)), refresh=True)


def _picture(remote: Remote, sort: str) -> dict[str, Any]:
    """Return the totals and the first queues by ``sort``."""
    overview = remote.client.get(*API, "overview")
    rows = max(ROWS_MIN, min(terminal_lines() - HEAD_LINES, ROWS_MAX))
    query = {
        "page": "1",
        "page_size": str(rows),
        "sort": SORTS[sort],
        "sort_reverse": "true",
        "columns": ",".join(COLUMNS),
    }
    queues = remote.client.get(*remote.listed_path("queues"), query=query)
    return {
        "url": remote.target.url,
        "totals": overview["object_totals"],
        "messages": overview["queue_totals"],
        "message_stats": overview["message_stats"],
        "queues": queues["items"],
        "queue_count": queues["total_count"],
    }


def _rendered(picture: dict[str, Any]) -> RenderableType:
    totals, messages, stats = picture["totals"], picture["messages"], picture["message_stats"]
    head = (
        f"{picture['url']}  {time.strftime('%H:%M:%S')}   connections {totals.get('connections', 0):,}  "
        f"queues {picture['queue_count']:,}  consumers {totals.get('consumers', 0):,}\n"
        f"ready {messages.get('messages_ready', 0):,}  unacknowledged {messages.get('messages_unacknowledged', 0):,}  "
        f"in {_rate(stats, 'publish')}/s  out {_rate(stats, 'deliver_get')}/s  acknowledged {_rate(stats, 'ack')}/s"
    )
    rows = [
        [
            printable(item["vhost"]),
            printable(item["name"]),
            cell(item.get("messages_ready", 0)),
            cell(item.get("messages_unacknowledged", 0)),
            size_text(item.get("message_bytes", 0)),
            cell(item.get("consumers", 0)),
            *(_rate(item.get("message_stats", {}), name) for name in ("publish", "deliver_get", "ack")),
        ]
        for item in picture["queues"]
    ]
    titles = ["vhost", "queue", "ready", "unacked", "bytes", "consumers", "in/s", "out/s", "acked/s"]
    return Group(Text(head), Text(""), make_table(titles, rows, [False, False, *[True] * 7]))


def _rate(stats: dict[str, Any], name: str) -> str:
    return f"{stats.get(f'{name}_details', {}).get('rate', 0.0):,.1f}"


@contextmanager
def single_keys() -> Iterator[None]:
    """Let the terminal pass on each key at once, and put it back afterwards. Without a terminal nothing is done."""
    if not sys.stdin.isatty():
        yield
        return
    import termios  # noqa: PLC0415 - of terminals only
    import tty  # noqa: PLC0415

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _quit_within(seconds: float) -> bool:
    """Wait; return early, and whether it was asked to end, when a key is pressed."""
    if not sys.stdin.isatty():
        time.sleep(seconds)
        return False
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        if select.select([sys.stdin], [], [], left)[0]:
            key = sys.stdin.read(1)
            if key in {QUIT, QUIT.upper(), ""}:
                return True
    return False
