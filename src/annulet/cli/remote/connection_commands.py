"""Connections and consumers."""

from __future__ import annotations

import json
import time
from typing import Any, Final

import click

from annulet.cli.remote.confirming import confirm
from annulet.cli.remote.failures import usage
from annulet.cli.remote.options import API, OWN_API, Remote, remote_options
from annulet.cli.remote.text import printable

REASON_CHARACTERS_MAX: Final = 200
"""The broker takes no longer one."""

TRACE_INTERVAL_SECONDS: Final = 0.5
"""Between two questions for frames."""

TITLES: Final = ("name", "user_provided_name", "user", "vhost", "protocol", "state", "channels", "recv_oct", "send_oct")


@click.command()
@click.option("--of", "of_user", default="", metavar="USER", help="Only this user's.")
@remote_options
def connections(remote: Remote, of_user: str) -> None:
    """List connections that you see: of all virtual hosts, or of --vhost."""
    path = (*API, "vhosts", remote.vhost, "connections") if remote.vhost_given else (*API, "connections")
    found = [each for each in remote.client.pages(*path) if of_user in {"", each["user"]}]
    remote.output.items(found, [(title, title) for title in TITLES])


@click.group()
def connection() -> None:
    """Show, trace or close a connection."""


@connection.command()
@click.argument("name")
@remote_options
def show(remote: Remote, name: str) -> None:
    """Show a connection and its channels. Names are those of: annulet connections."""
    found = remote.client.get(*API, "connections", name)
    channels = remote.client.get(*API, "connections", name, "channels")
    if remote.output.as_json:
        remote.output.json({**found, "channel_list": channels})
        return
    remote.output.members(found)
    click.echo()
    titles = ("number", "consumer_count", "messages_unacknowledged", "prefetch_count", "confirm", "transactional")
    remote.output.items(channels, [(title, title) for title in titles])


@connection.command()
@click.argument("name")
@click.option("--reason", default="closed by an operator", metavar="TEXT", help="The client is told it.")
@remote_options
def close(remote: Remote, name: str, reason: str) -> None:
    """Close a connection. Its unsettled messages return to their queues."""
    if not reason or not reason.isascii() or not reason.isprintable() or len(reason) > REASON_CHARACTERS_MAX:
        raise usage(f"reason {reason!r}: give 1 to {REASON_CHARACTERS_MAX} printable ASCII characters")
    found = remote.client.get(*API, "connections", name)
    confirm(remote, f"close the connection {name!r} of user {found['user']!r}", name)
    remote.client.ask("DELETE", (*API, "connections", name), headers={"X-Reason": reason})
    remote.output.done(f"closed connection {name!r}", name=name, reason=reason)


@connection.command()
@click.argument("name")
@click.option("--seconds", type=click.IntRange(1, 3600), default=60, show_default=True, help="How long.")
@click.option("--bodies", is_flag=True, help="Show the first octets of bodies too.")
@remote_options
def trace(remote: Remote, name: str, seconds: int, *, bodies: bool) -> None:
    """Print each frame of a connection, live, for administrators. Control-C ends it.

    Bodies are hidden unless --bodies; passwords and tokens always. With --json one JSON value for each frame.
    """
    path = (*OWN_API, "traces", name)
    remote.client.ask("PUT", path, {"seconds": seconds, "bodies": bodies})
    after = 0
    try:
        while True:
            found = remote.client.get(*path, query={"after": str(after)})
            for line in found["lines"]:
                if line["number"] > after + 1:
                    click.echo(f"{line['number'] - after - 1} frames left out", err=True)
                after = line["number"]
                _print_frame(remote, line)
            if not found["lines"]:
                if not found["running"]:
                    return
                time.sleep(TRACE_INTERVAL_SECONDS)
    finally:
        remote.client.ask("DELETE", path)


def _print_frame(remote: Remote, line: dict[str, Any]) -> None:
    if remote.output.as_json:
        click.echo(json.dumps(line))
        return
    at = time.strftime("%H:%M:%S", time.localtime(line["at"] / 1000))
    click.echo(f"{at}.{line['at'] % 1000:03d} {printable(line['text'])}")


@click.command()
@click.option("--queue", default="", metavar="NAME", help="Only those of this queue.")
@remote_options
def consumers(remote: Remote, queue: str) -> None:
    """List consumers: of all virtual hosts, or of --vhost."""
    found = [
        each for each in remote.client.get(*remote.listed_path("consumers")) if queue in {"", each["queue"]["name"]}
    ]
    remote.output.items(
        found,
        [
            ("vhost", "queue.vhost"),
            ("queue", "queue.name"),
            ("tag", "consumer_tag"),
            ("connection", "channel_details.connection_name"),
            ("user", "channel_details.user"),
            ("acknowledges", "ack_required"),
            ("prefetch", "prefetch_count"),
            ("active", "active"),
        ],
    )
