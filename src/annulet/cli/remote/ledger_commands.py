"""``annulet losses`` and ``annulet audit``: lost messages with the reason, and actions of operators."""

from __future__ import annotations

import time
from typing import Any, Final

import click
import msgspec

from annulet.cli.remote.options import OWN_API, Remote, remote_options
from annulet.cli.remote.text import printable, time_text

LIMIT: Final = 100
EVENTS_AT_ONCE: Final = 1000
"""The most that the broker gives."""

UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
"""Seconds of the units of ``--since``."""


def read_ago(_context: click.Context, _parameter: click.Parameter, text: str) -> int | None:
    """Return the seconds of a time before now, ``90s``, ``15m``, ``2h``, ``7d``; ``None`` for an empty text."""
    if not text:
        return None
    if not (text[:-1].isascii() and text[:-1].isdigit() and len(text) < 9 and text[-1] in UNITS):
        raise click.BadParameter(f"{text!r} is no time before now; give 90s, 15m, 2h or 7d")
    return int(text[:-1]) * UNITS[text[-1]]


SINCE = click.option("--since", callback=read_ago, default="", metavar="15m", help="Not longer ago: s, m, h or d.")
AT_MOST = click.option("--limit", type=click.IntRange(1), default=LIMIT, show_default=True, help="The newest ones.")


@click.command()
@click.argument("name", required=False, metavar="[QUEUE]")
@click.option("--queue", default="", metavar="NAME", help="Only those of this queue, as QUEUE does.")
@click.option("--reason", default="", metavar="REASON", help="replaced-ring, overflow, expired, rejected, …")
@click.option("--key", default="", metavar="KEY", help="Only those with this key.")
@click.option("--publisher", default="", metavar="USER@PEER", help="Only those of this publisher.")
@click.option("--count", is_flag=True, help="Count them by queue and reason.")
@SINCE
@AT_MOST
@remote_options
def losses(remote: Remote, name: str | None, limit: int, since: int | None, *, count: bool, **filters: str) -> None:
    """List lost messages, the newest first: whose they were, which queue, why."""
    filters["queue"] = name or filters["queue"]
    query = _query(remote, since, filters)
    path = (*OWN_API, "losses", "counts") if count else (*OWN_API, "losses")
    found = list(remote.client.pages(*path, query=query, most=limit))
    if count:
        titles: tuple[str, ...] = ("vhost", "queue", "reason", "count")
    else:
        titles = ("time", "vhost", "queue", "sequence", "reason", "key", "publisher", "size")
    remote.output.items(_timed(remote, found), [(title, title) for title in titles])


@click.command()
@click.option("--by", "user", default="", metavar="USER", help="Only what this user did.")
@click.option("--operation", default="", metavar="NAME", help="Only this operation.")
@click.option("--target", default="", metavar="NAME", help="Only on this queue, user, policy, …")
@SINCE
@AT_MOST
@remote_options
def audit(remote: Remote, limit: int, since: int | None, **filters: str) -> None:
    """List what operators did, the newest first."""
    found = list(remote.client.pages(*OWN_API, "audit", query=_query(remote, since, filters), most=limit))
    titles = ("time", "vhost", "user", "operation", "target", "arguments", "result")
    remote.output.items(_timed(remote, found), [(title, title) for title in titles])


@click.command()
@click.option("--kind", default="", metavar="KIND", help="connection, queue, access, operation, resource, storage, …")
@click.option("--follow", "-f", is_flag=True, help="Go on with events as they happen.")
@AT_MOST
@remote_options
def events(remote: Remote, kind: str, limit: int, *, follow: bool) -> None:
    """List what happened in the broker lately, the oldest first.

    Users without the tag monitoring or administrator see events of their virtual hosts that name no other client.
    --json prints one object a line.
    """
    query = _query(remote, None, {"kind": kind})
    answer = remote.client.get(*OWN_API, "events", query=query | {"limit": str(min(limit, EVENTS_AT_ONCE))})
    for item in answer["items"]:
        _show_event(remote, item)
    if not follow:
        return
    for item in remote.client.events(*OWN_API, "events", "stream", query=query | {"since": str(answer["next"])}):
        if "missed" in item:
            click.echo(f"{item['missed']:,} events are forgotten", err=True)
        else:
            _show_event(remote, item)


def _show_event(remote: Remote, item: dict[str, Any]) -> None:
    click.echo(msgspec.json.encode(item).decode() if remote.output.as_json else _event_line(item))


def _event_line(item: dict[str, Any]) -> str:
    host = {"vhost": item["vhost"]} if item["vhost"] else {}
    values = " ".join(f"{name}={value}" for name, value in {**host, **item["values"]}.items())
    return printable(f"{time_text(item['at'])} {item['id']} {item['level']:8} {item['event']}  {values}".rstrip())


def _query(remote: Remote, since: int | None, filters: dict[str, str]) -> dict[str, str]:
    query = {name: value for name, value in filters.items() if value}
    if since is not None:
        query["since"] = str(int((time.time() - since) * 1000))
    if remote.vhost_given:
        query["vhost"] = remote.vhost
    return query


def _timed(remote: Remote, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the items with their time as people read it; JSON keeps the milliseconds since 1970."""
    if remote.output.as_json:
        return found
    return [{**item, "time": time_text(item["at"])} if "at" in item else item for item in found]
