"""``annulet redrive``: dead letters back to the queues they died in."""

from __future__ import annotations

import time
from typing import Any, Final

import click

from annulet.cli.remote.confirming import confirm
from annulet.cli.remote.failures import EXIT_REFUSED_BY_BROKER, Failure
from annulet.cli.remote.options import OWN_API, Remote, remote_options
from annulet.cli.remote.text import size_text

POLL_SECONDS: Final = 0.1
RUNNING: Final = "running"
FINISHED: Final = "finished"


@click.command()
@click.argument("queue")
@click.option("--selector", default="", metavar="TEXT", help="Only messages that it matches, such as \"kind = 'a'\".")
@click.option("--limit", type=click.IntRange(1), help="At most so many.  [default: all]")
@click.option("--rate", type=click.IntRange(1), metavar="N", help="At most N messages a second.")
@click.option("--strip", multiple=True, metavar="HEADER", help="Take a header away, such as x-death; repeat it.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@remote_options
def redrive(remote: Remote, queue: str, selector: str, limit: int | None, rate: int | None, **options: Any) -> None:
    """Send dead letters in QUEUE back to the queues where they died first (x-death). Others stay where they are.

    A message whose queue is gone or full stays, and is counted by reason.
    """
    path = (*OWN_API, "queues", remote.vhost, queue, "operations")
    body: dict[str, Any] = {"operation": "retry", **({"selector": selector} if selector else {"everything": True})}
    if options["strip"]:
        body["strip"] = list(options["strip"])
    if limit is not None:
        body["limit"] = limit
    preview = remote.client.ask("POST", path, {**body, "preview": True}).content
    if options["dry_run"]:
        _report(remote, preview["count"], preview["skipped"], verb="would be sent back", done=False)
        return
    if not preview["count"]:
        _report(remote, 0, preview["skipped"], verb="sent back", done=True)
        return
    lines = [f"message {each['id']}: {size_text(each['size'])}" for each in preview["sample"] if "id" in each]
    what = f"send {preview['count']:,} messages of queue {queue!r} back to the queues they died in"
    confirm(remote, what, queue, lines)
    done, skipped = _carry_out(remote, path, body, preview["count"], rate)
    _report(remote, done, skipped, verb="sent back", done=True)


def _carry_out(
    remote: Remote, path: tuple[str, ...], body: dict[str, Any], most: int, rate: int | None
) -> tuple[int, dict[str, int]]:
    """Run the operation, with a rate in portions of a second. Returns how many went, and those skipped by reason."""
    done, skipped = 0, {}
    while done < most:
        begun = time.monotonic()
        portion = most - done if rate is None else min(rate, most - done)
        progress = _wait(remote, path, {**body, "limit": portion})
        done += progress["done"]
        skipped = progress["skipped"]
        if not progress["done"]:
            break
        if done < most:
            time.sleep(max(0.0, 1.0 - (time.monotonic() - begun)))
    return done, skipped


def _wait(remote: Remote, path: tuple[str, ...], body: dict[str, Any]) -> dict[str, Any]:
    started = remote.client.ask("POST", path, body).content
    progress: dict[str, Any] = started
    while progress["state"] == RUNNING:
        time.sleep(POLL_SECONDS)
        progress = remote.client.get(*path, str(started["id"]))
    if progress["state"] != FINISHED:
        raise Failure(
            EXIT_REFUSED_BY_BROKER, f"it {progress['state']} after {progress['done']:,} messages: {progress['reason']}"
        )
    return progress


def _report(remote: Remote, count: int, skipped: dict[str, int], *, verb: str, done: bool) -> None:
    if remote.output.as_json:
        remote.output.json({"count": count, "skipped": skipped, "done": done})
        return
    click.echo(f"{count:,} messages {verb}")
    for reason, number in skipped.items():
        click.echo(f"{number:,} stay: {reason}")
