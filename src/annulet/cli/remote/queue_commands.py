"""``annulet queues`` and ``annulet queue …``."""

from __future__ import annotations

from typing import Any, Final

import click

from annulet.cli.remote.confirming import SAMPLE, confirm
from annulet.cli.remote.failures import usage
from annulet.cli.remote.operation_commands import DRY_RUN, RATE, operate, tell_undo
from annulet.cli.remote.options import OWN_API, Remote, remote_options
from annulet.cli.remote.text import counted, printable, size_text
from annulet.cli.remote.values import read_arguments

COLUMNS: Final = ("vhost", "name", "state", "messages_ready", "messages_unacknowledged", "consumers", "in", "out")
PATHS: Final = {
    "in": "message_stats.publish_details.rate",
    "out": "message_stats.deliver_get_details.rate",
    "ready": "messages_ready",
    "unacknowledged": "messages_unacknowledged",
    "bytes": "message_bytes",
}
"""Short names of columns."""

DEFAULT: Final = "default"
"""The origin of a setting that nothing says."""

TITLES: Final = {"messages_ready": "ready", "messages_unacknowledged": "unacknowledged", "in": "in/s", "out": "out/s"}


@click.command()
@click.option("--name", "part", default="", metavar="TEXT", help="Only names with this text in them.")
@click.option("--regex", is_flag=True, help="--name is a regular expression.")
@click.option("--sort", default="", metavar="COLUMN", help="Sort by a column, the largest first with --reverse.")
@click.option("--reverse", is_flag=True, help="The other order.")
@click.option("--columns", default="", metavar="A,B,…", help=f"[default: {','.join(COLUMNS)}]")
@click.option("--limit", type=click.IntRange(1), help="At most so many queues.  [default: all]")
@remote_options
def queues(
    remote: Remote, part: str, sort: str, columns: str, limit: int | None, *, regex: bool, reverse: bool
) -> None:
    """List queues: of all virtual hosts, or of --vhost.

    Columns are fields of RabbitMQ's API, such as policy, message_bytes or arguments, and the short names in, out,
    ready, unacknowledged, bytes.
    """
    query = {"use_regex": "true"} if regex else {}
    if part:
        query["name"] = part
    if sort:
        query["sort"] = PATHS.get(sort, sort)
    if reverse:
        query["sort_reverse"] = "true"
    chosen = [name.strip() for name in columns.split(",") if name.strip()] or list(COLUMNS)
    if not remote.output.as_json or columns:
        query["columns"] = ",".join(PATHS.get(name, name) for name in chosen)
    items = list(remote.client.pages(*remote.listed_path("queues"), query=query, most=limit))
    for name in chosen:
        if items and columns and not any(PATHS.get(name, name).partition(".")[0] in item for item in items):
            raise usage(f"column {name!r}: queues have no such field; annulet queues --json --limit 1 shows all")
    remote.output.items(items, [(TITLES.get(name, name), PATHS.get(name, name)) for name in chosen])


KEEPING: Final = frozenset({"reject", "reject-publish", "reject-publish-dlx", "block", "page"})
"""Values of ``overflow`` for which a lower limit drops nothing that is there."""


@click.group()
def queue() -> None:
    """Create, show, change, purge and delete a queue, or ask why it delivers nothing."""


@queue.command()
@click.argument("name")
@click.option("--argument", "-a", "arguments", multiple=True, metavar="NAME=VALUE", help="Repeat it for several.")
@click.option("--transient", is_flag=True, help="The queue ends with the broker.")
@click.option("--auto-delete", is_flag=True, help="The queue ends with its last consumer.")
@remote_options
def create(remote: Remote, name: str, arguments: tuple[str, ...], *, transient: bool, auto_delete: bool) -> None:
    """Create a queue, durable by default. One that exists with the same properties stays as it is.

    annulet queue create orders -a x-ring-size=1000
    """
    body = {"durable": not transient, "auto_delete": auto_delete, "arguments": read_arguments(arguments)}
    answer = remote.client.ask("PUT", (*OWN_API, "queues", remote.vhost, name), body)
    made = answer.status == 201
    verb = "created" if made else "exists already with these properties"
    remote.output.done(f"queue {name!r} {verb}", name=name, created=made)
    if idle := answer.content["arguments_without_effect"]:
        click.echo(f"without effect, as the broker does not know them: {printable(', '.join(idle))}", err=True)


@queue.command()
@click.argument("name")
@remote_options
def show(remote: Remote, name: str) -> None:
    """Show a queue: its settings and where they come from, counts, losses."""
    found = _queue(remote, name)
    if not remote.output.as_json:
        found.pop("settings")  # with all defaults; "arguments" has those that differ
        origins = found.pop("settings_from").items()
        found["settings_from"] = {setting: origin for setting, origin in origins if origin != DEFAULT}
    remote.output.members(found)


@queue.command()
@click.argument("name")
@click.argument("settings", nargs=-1, required=True, metavar="NAME=VALUE...")
@remote_options
def change(remote: Remote, name: str, settings: tuple[str, ...]) -> None:
    """Change settings of a live queue, by the names of its arguments: ring-size=5000.

    A change that drops messages at once shows how many, and asks.
    """
    changes = read_arguments(settings)
    excess = _excess(_queue(remote, name), changes)
    if excess:
        confirm(
            remote, f"drop {excess} of queue {name!r}", name, _sample(remote, name), note="nothing brings them back"
        )
    body = {"settings": changes}
    answer = remote.client.ask("PATCH", (*OWN_API, "queues", remote.vhost, name), body).content
    lasting = "" if answer["durable_change"] else "; the change ends with the broker"
    remote.output.done(
        f"queue {name!r} changed{lasting}",
        name=name,
        arguments=answer["arguments"],
        durable_change=answer["durable_change"],
    )


@queue.command()
@click.argument("name")
@RATE
@DRY_RUN
@remote_options
def purge(remote: Remote, name: str, rate: int | None, *, dry_run: bool) -> None:
    """Drop the pending and scheduled messages of a queue; those in delivery stay.

    'annulet undo' brings them back for a time (annulet settings show undo_seconds), as far as undo_bytes allows. A deep
    queue with more bytes is purged at once, and nothing of it is kept: the question and --dry-run say so.
    """
    body = {"operation": "purge", **({} if rate is None else {"rate": rate})}
    what = "drop {messages} of queue {queue!r}"
    operate(remote, name, body, what, ("would be dropped", "dropped"), dry_run=dry_run)


@queue.command()
@click.argument("name")
@click.option("--if-empty", is_flag=True, help="Only without messages.")
@click.option("--if-unused", is_flag=True, help="Only without consumers.")
@remote_options
def delete(remote: Remote, name: str, *, if_empty: bool, if_unused: bool) -> None:
    """Delete a queue with its messages.

    'annulet undo' brings queue, bindings and messages back for a time (annulet settings show undo_seconds), as far as
    undo_bytes allows.
    """
    found = _queue(remote, name)
    messages, consumers = found["messages"], found["consumers"]
    lines = _sample(remote, name) if messages else []
    confirm(
        remote,
        f"delete queue {name!r} with {counted(messages, 'message')} and {counted(consumers, 'consumer')}",
        name,
        lines,
    )
    query = {"if_empty": str(if_empty).lower(), "if_unused": str(if_unused).lower()}
    answer = remote.client.ask("DELETE", (*OWN_API, "queues", remote.vhost, name), query=query).content
    kept = answer["undo"] or {}
    undo = {"undo": kept["undo"], "undo_until": kept["until"]} if kept else {}
    unkept = {"unkept": kept["unkept"]} if kept.get("unkept") else {}
    remote.output.done(f"deleted queue {name!r}", name=name, messages=answer["messages"], **undo, **unkept)
    tell_undo(remote, kept, name, remote.vhost)


@queue.command("why-not")
@click.argument("name")
@click.option("--consumer", default="", metavar="TAG", help="Only this consumer.")
@remote_options
def why_not(remote: Remote, name: str, consumer: str) -> None:
    """Say of each consumer why it gets nothing."""
    query = {"consumer": consumer} if consumer else {}
    items = list(remote.client.pages(*OWN_API, "queues", remote.vhost, name, "why-not", query=query))
    if remote.output.as_json:
        remote.output.json(items)
        return
    if not items:
        click.echo("the queue has no consumers")
    rows = [
        {"consumer": item["consumer"], "deliverable": item["deliverable"], "why": finding.get("text", "")}
        for item in items
        for finding in item["findings"] or [{}]
    ]
    if rows:
        remote.output.items(rows, [("consumer", "consumer"), ("gets messages", "deliverable"), ("why", "why")])


def _queue(remote: Remote, name: str) -> dict[str, Any]:
    found: dict[str, Any] = remote.client.get(*OWN_API, "queues", remote.vhost, name)
    return found


def _excess(found: dict[str, Any], changes: dict[str, Any]) -> str:
    """Say what a change of settings drops at once of a queue as it is now; empty for nothing."""
    given = {name.removeprefix("x-").replace("_", "-"): value for name, value in changes.items()}
    present = found["settings"]
    pending = found["pending_count"]
    if given.get("ring-trim") == "now" or (present["ring_trim_now"] and "ring-size" in given):
        ring_size = given.get("ring-size", present["ring_size"])
        if isinstance(ring_size, int) and 0 <= ring_size < pending:
            return f"{counted(pending - ring_size, 'message')} beyond ring-size={ring_size}"
    if given.get("overflow", present["overflow"]) in KEEPING:
        return ""
    counts_all = given.get("limit-counts", present["limit_counts"]) == "all"
    max_length = given.get("max-length", present["max_length"])
    length = found["messages"] if counts_all else pending
    if "max-length" in given and isinstance(max_length, int) and 0 <= max_length < length:
        return f"{counted(length - max_length, 'message')} beyond max-length={max_length}"
    max_bytes, size = given.get("max-bytes", given.get("max-length-bytes")), found["pending_bytes"]
    if isinstance(max_bytes, int) and 0 <= max_bytes < size:
        return f"messages of {size_text(size - max_bytes)} beyond max-bytes={max_bytes}"
    return ""


def _sample(remote: Remote, name: str) -> list[str]:
    """Return lines for the first messages of a queue; nothing is taken."""
    if remote.yes:
        return []
    path = (*OWN_API, "queues", remote.vhost, name, "messages")
    sample = remote.client.get(*path, query={"limit": str(SAMPLE)})
    return [
        f"message {item['id']}: {size_text(item['size'])}, key {item['routing_key']!r}, from {item['publisher']}"
        for item in sample["items"]
    ]
