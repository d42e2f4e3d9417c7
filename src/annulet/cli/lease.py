"""``annulet lease``: leases of Spark queries on the queues of a running broker, and their release."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click

if TYPE_CHECKING:
    from annulet.bulk.client import BulkClient

EXIT_FAILED: Final = 1

TITLES: Final = ("lease", "queue", "held", "bytes", "pending", "lag", "gap", "age", "idle", "generated")

UNKNOWN: Final = "-"
"""The lag while the broker's disk does not tell it, or where the broker is older than this command."""

UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
"""Seconds of a unit of time, longest first."""

URL_OPTION = click.option(
    "--url", envvar="ANNULET_URL", required=True, help="annulet://USER:PASSWORD@HOST:PORT/VHOST.  [env: ANNULET_URL]"
)
RETRY_OPTION = click.option(
    "--retry-seconds", type=click.IntRange(0), default=5, show_default=True, help="How long a broker is waited for."
)


@click.group()
def lease() -> None:
    """List and end the leases of Spark queries on a running broker. Needs annulet[spark]."""


@lease.command("list")
@URL_OPTION
@RETRY_OPTION
@click.option("--queue", help="Only those of this queue.")
@click.option("--json", "as_json", is_flag=True, help="All that the broker knows of them, as JSON.")
def list_command(url: str, retry_seconds: int, queue: str | None, *, as_json: bool) -> None:
    """Print the leases of a virtual host, of the queues that the user may read, largest first.

    held, bytes: messages in delivery to the lease, and their bodies. pending: messages waiting in its queue. lag:
    waiting time of the oldest of them. gap: lost messages that were skipped because of failOnDataLoss=false. age, idle:
    time since its creation and last use.
    """
    with connected(url, retry_seconds) as client:
        # only with the packages of annulet[spark]
        from annulet.bulk.protocol.protocol import ListLeases  # noqa: PLC0415

        found = client.act(ListLeases(virtual_host=client.url.virtual_host))["leases"]
    chosen = [status for status in found if queue in (None, status["queue"])]
    chosen.sort(key=lambda status: (-status["held_bytes"], status["name"]))
    if as_json:
        click.echo(json.dumps(chosen, indent=2))
    else:
        click.echo(table([row_of(status) for status in chosen]))


@lease.command("release")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@URL_OPTION
@RETRY_OPTION
def release_command(names: tuple[str, ...], url: str, retry_seconds: int) -> None:
    """End leases: their messages return to their places in the queue, and count as a delivery attempt.

    A query that continues one fails with "lease range gone", unless it has failOnDataLoss=false. Ends with exit code 1
    at the first lease that cannot be released; those before it are.
    """
    with connected(url, retry_seconds) as client:
        from annulet.bulk.protocol.protocol import ReleaseLease  # noqa: PLC0415 - as above

        for name in names:
            answer = client.act(ReleaseLease(virtual_host=client.url.virtual_host, lease=name))
            click.echo(f"released {name}: {answer['returned']:,} messages returned")


@contextmanager
def connected(url: str, retry_seconds: int) -> Iterator[BulkClient]:
    """Yield a client; its errors are one line on standard error and exit code 1."""
    if find_spec("pyarrow") is None:
        fail("pyarrow is not installed; pip install 'annulet[spark]'")
    from annulet.bulk.client import BulkClient  # noqa: PLC0415 - as above
    from annulet.bulk.protocol.errors import BulkError  # noqa: PLC0415
    from annulet.bulk.protocol.url import parse_url  # noqa: PLC0415

    try:
        client = BulkClient(parse_url(url), retry_seconds=retry_seconds)
        try:
            yield client
        finally:
            client.close()
    except BulkError as error:
        fail(str(error))


def row_of(status: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the cells of a lease."""
    return (
        status["name"],
        status["queue"],
        f"{status['held']:,}",
        f"{status['held_bytes']:,}",
        f"{status['pending']:,}",
        UNKNOWN if status.get("lag_milliseconds") is None else duration(status["lag_milliseconds"]),
        f"{status['gap']:,}",
        duration(status["age_milliseconds"]),
        duration(status["idle_milliseconds"]),
        "yes" if status["generated"] else "no",
    )


def duration(milliseconds: int) -> str:
    """Write a time in its largest whole unit: ``90 min`` is ``1 h``."""
    seconds = milliseconds // 1000
    size, unit = next(((size, unit) for size, unit in UNITS if seconds >= size), UNITS[-1])
    return f"{seconds // size} {unit}"


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return the rows below their titles, in columns."""
    lines = [TITLES, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(TITLES))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def fail(text: str) -> NoReturn:
    """Print one line on standard error and exit."""
    click.echo(f"annulet lease: {' '.join(text.split())}", err=True)
    sys.exit(EXIT_FAILED)
