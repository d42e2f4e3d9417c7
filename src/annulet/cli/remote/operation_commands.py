"""``annulet redrive``, ``undo`` and ``schedule``: operations on messages, run to their end, and the way back.

:func:`operate` does any operation for a command: preview, question, run and report.
"""

from __future__ import annotations

import shlex
import time
from typing import Any, Final

import click

from annulet.cli.remote.confirming import confirm
from annulet.cli.remote.failures import EXIT_REFUSED_BY_BROKER, Failure, usage
from annulet.cli.remote.options import OWN_API, Command, Remote, remote_options
from annulet.cli.remote.text import counted, duration_text, printable, size_text, time_text

POLL_SECONDS: Final = 0.1
RUNNING: Final = "running"
FINISHED: Final = "finished"
KEEPING: Final = frozenset({"purge", "retry", "cancel-scheduled"})
"""Operations of these commands whose messages an undo may bring back."""

LISTED_MAX: Final = 500
"""Scheduled messages of one list: the most that the broker gives."""

SELECTOR = click.option("--selector", default="", metavar="TEXT", help="Only messages it matches, as \"kind = 'a'\".")
RATE = click.option("--rate", type=click.IntRange(1), metavar="N", help="At most N messages a second.")
DRY_RUN = click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")


@click.command()
@click.argument("queue")
@SELECTOR
@click.option("--limit", type=click.IntRange(1), help="At most so many.  [default: all]")
@RATE
@click.option("--strip", multiple=True, metavar="HEADER", help="Take a header away, such as x-death; repeat it.")
@DRY_RUN
@remote_options
def redrive(remote: Remote, queue: str, selector: str, limit: int | None, rate: int | None, **options: Any) -> None:
    """Send dead letters in QUEUE back to the queues where they died first (x-death). Others stay where they are.

    A message whose queue is gone or full stays, and is counted by reason. 'annulet undo' takes them back.
    """
    body: dict[str, Any] = {"operation": "retry", **({"selector": selector} if selector else {"everything": True})}
    if options["strip"]:
        body["strip"] = list(options["strip"])
    if limit is not None:
        body["limit"] = limit
    if rate is not None:
        body["rate"] = rate
    what = "send {messages} of queue {queue!r} back to the queues they died in"
    operate(remote, queue, body, what, ("would be sent back", "sent back"), dry_run=options["dry_run"])


@click.command()
@click.argument("queue")
@click.argument("token", required=False)
@RATE
@DRY_RUN
@remote_options
def undo(remote: Remote, queue: str, token: str | None, rate: int | None, *, dry_run: bool) -> None:
    """Bring back what an operation on QUEUE deleted, moved or redrove. Without TOKEN, list what can be undone.

    Deleted messages are kept for a time (annulet settings show undo_seconds). Moved ones are taken back from where they
    are, unless they were consumed.
    """
    path = (*OWN_API, "queues", remote.vhost, queue, "undo")
    if token is None:
        rows = [
            {**item, "begun": time_text(item["at"]), "ends": time_text(item["until"])}
            for item in remote.client.pages(*path)
        ]
        titles = ("undo", "operation", "user", "begun", "ends", "count", "bytes")
        remote.output.items(rows, [(title, title) for title in titles])
        return
    found = remote.client.ask("POST", (*path, token), {"preview": True}).content
    if dry_run:
        _report(remote, {"done": found["count"], "skipped": {}}, verb="would be brought back", done=False)
        return
    lines = [f"{count:,} from queue {name!r}" for name, count in found["moved_to"].items()]
    if found["definition"]:
        lines.append("the queue is made again with its bindings, unless there is one of its name")
    confirm(remote, f"bring {counted(found['count'], 'message')} back into queue {queue!r}", queue, lines)
    started = remote.client.ask("POST", (*path, token), {} if rate is None else {"rate": rate}).content
    for left in started["not_restored"]:
        click.echo(printable(f"not restored: {left}"), err=True)
    _report(remote, _wait(remote, queue, started), verb="brought back", done=True)


def on_chosen(command: Command) -> Command:
    """Give a command on scheduled messages the queue, the ways to choose some of them, and a dry run."""
    for option in (
        DRY_RUN,
        click.option("--all", "everything", is_flag=True, help="All of them."),
        SELECTOR,
        click.argument("ids", nargs=-1, type=click.IntRange(1), metavar="[ID]..."),
        click.argument("queue"),
    ):
        command = option(command)
    return command


@click.group()
def schedule() -> None:
    """List scheduled messages, cancel them, or deliver them now."""


@schedule.command("list")
@click.argument("queue")
@SELECTOR
@click.option("--limit", type=click.IntRange(1, LISTED_MAX), default=20, show_default=True)
@remote_options
def list_schedule(remote: Remote, queue: str, selector: str, limit: int) -> None:
    """List the scheduled messages of QUEUE by time."""
    query = {"state": "scheduled", "limit": str(limit), **({"selector": selector} if selector else {})}
    answer = remote.client.get(*OWN_API, "queues", remote.vhost, queue, "messages", query=query)
    rows = [{**item, "due": time_text(item["deliver_at"])} for item in answer["items"]]
    remote.output.items(rows, [(title, title) for title in ("id", "due", "routing_key", "publisher", "size")])


@schedule.command("cancel")
@on_chosen
@remote_options
def cancel_schedule(remote: Remote, queue: str, **options: Any) -> None:
    """Remove scheduled messages before their time; 'annulet undo' brings them back."""
    body = {"operation": "cancel-scheduled", **_selection(options)}
    what = "cancel {messages} scheduled in queue {queue!r}"
    operate(remote, queue, body, what, ("would be cancelled", "cancelled"), dry_run=options["dry_run"])


@schedule.command("deliver")
@on_chosen
@remote_options
def deliver_schedule(remote: Remote, queue: str, **options: Any) -> None:
    """Deliver scheduled messages now, by their order in time."""
    body = {"operation": "deliver-now", **_selection(options)}
    what = "deliver {messages} scheduled in queue {queue!r} before the time"
    operate(remote, queue, body, what, ("would be delivered", "delivered"), dry_run=options["dry_run"])


def _selection(options: dict[str, Any]) -> dict[str, Any]:
    """Return the selection that was given in exactly one way."""
    ids, selector, everything = options["ids"], options["selector"], options["everything"]
    if bool(ids) + bool(selector) + everything != 1:
        raise usage("give ids, --selector or --all: exactly one of them")
    if ids:
        return {"ids": list(ids)}
    return {"selector": selector} if selector else {"everything": True}


def operate(
    remote: Remote, queue: str, body: dict[str, Any], what: str, verbs: tuple[str, str], *, dry_run: bool
) -> None:
    """Preview an operation, ask, run it to its end, and report it.

    ``what`` has ``{messages}``, such as ``2 messages``, and ``{queue}``; ``verbs``: the report of the preview, and of
    the operation.
    """
    path = (*OWN_API, "queues", remote.vhost, queue, "operations")
    preview = remote.client.ask("POST", path, {**body, "preview": True}).content
    found = {"done": preview["count"], "skipped": preview["skipped"]}
    note = way_back(preview) if body["operation"] in KEEPING and preview["count"] else ""
    if dry_run or not preview["count"]:
        _report(remote, found, verb=verbs[0] if dry_run else verbs[1], done=not dry_run, note=note)
        return
    lines = [
        f"message {each['id']}: {size_text(each['size'])}, from {each['publisher']}"
        for each in preview["sample"]
        if not each["obstacle"]
    ]
    asked = what.format(messages=counted(preview["count"], "message"), queue=queue)
    confirm(remote, asked, queue, lines, total=preview["count"], note=note)
    _report(remote, _wait(remote, queue, remote.client.ask("POST", path, body).content), verb=verbs[1], done=True)


def way_back(preview: dict[str, Any]) -> str:
    """Return what a preview says of an undo: for how long, of how many messages, and why not of the others."""
    kept = preview["undo"]
    if kept is None:
        return "it cannot be undone: the broker keeps nothing (undo_seconds)"
    if not kept["kept"]:
        return f"it cannot be undone: {kept['reason']}"
    within = f"it can be undone for {duration_text(kept['seconds'] * 1000)}"
    if kept["unkept"]:
        return f"{within}, but for {kept['unkept']:,} messages: {kept['reason']}"
    return within


def _wait(remote: Remote, queue: str, started: dict[str, Any]) -> dict[str, Any]:
    """Wait for the end of an operation. An interruption stops it; what it did stays, and can be undone."""
    path = (*OWN_API, "queues", remote.vhost, queue, "operations", str(started["id"]))
    progress = started
    try:
        while progress["state"] == RUNNING:
            time.sleep(POLL_SECONDS)
            progress = remote.client.get(*path)
    except KeyboardInterrupt:
        remote.client.ask("DELETE", path)
        raise
    if progress["state"] != FINISHED:
        raise Failure(
            EXIT_REFUSED_BY_BROKER, f"it {progress['state']} after {progress['done']:,} messages: {progress['reason']}"
        )
    return progress


def _report(remote: Remote, progress: dict[str, Any], *, verb: str, done: bool, note: str = "") -> None:
    kept = progress.get("undo") or {}
    token = kept["undo"] if kept.get("kept") else ""
    if remote.output.as_json:
        remote.output.json(
            {
                "count": progress["done"],
                "skipped": progress["skipped"],
                "done": done,
                **({"id": progress["id"]} if "id" in progress else {}),
                **({"undo": token, "undo_until": kept["until"]} if token else {}),
                **({"unkept": kept["unkept"]} if kept.get("unkept") else {}),
            }
        )
        return
    number = f" (operation {progress['id']})" if "id" in progress else ""
    click.echo(f"{counted(progress['done'], 'message')} {verb}{number}")
    for reason, number in progress["skipped"].items():
        click.echo(f"{number:,} stay: {reason}")
    if note:
        click.echo(printable(note), err=True)
    if token:
        tell_undo(remote, kept, progress["queue"], progress["vhost"])
    elif kept.get("unkept"):
        tell_unkept(kept)


def tell_undo(remote: Remote, kept: dict[str, Any], queue: str, virtual_host: str) -> None:
    """Print the command that undoes an operation, and which messages stay away; nothing if none is kept."""
    if remote.output.as_json or not kept:
        return
    chosen = f" -V {shlex.quote(virtual_host)}" if remote.vhost_given else ""
    command = f"annulet undo {shlex.quote(queue)} {kept['undo']}{chosen}"
    click.echo(printable(f"until {time_text(kept['until'])}: {command}"), err=True)
    if kept["unkept"]:
        tell_unkept(kept)


def tell_unkept(kept: dict[str, Any]) -> None:
    """Print how many messages no undo brings back, and why."""
    click.echo(f"{kept['unkept']:,} cannot be undone: {kept['reason']}", err=True)
