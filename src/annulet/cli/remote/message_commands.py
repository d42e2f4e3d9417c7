"""Publish, consume, browse and tail messages."""

from __future__ import annotations

import base64
import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import click

from annulet.cli.remote.exchange_commands import DEFAULT_EXCHANGE
from annulet.cli.remote.failures import EXIT_NOT_FOUND, EXIT_REFUSED_BY_BROKER, Failure, usage
from annulet.cli.remote.options import OWN_API, Remote, remote_options
from annulet.cli.remote.stomp_client import StompClient
from annulet.cli.remote.text import printable, time_text
from annulet.cli.remote.values import read_arguments
from annulet.wire.stomp.frames import Frame

BROWSE_MAX: Final = 500
"""Messages of one look: the most that the broker gives."""

BODY_BYTES: Final = 4096
"""Of each body in a look: the most that the broker gives."""

NUMBERS: Final = frozenset({"priority", "delivery_mode", "timestamp"})
"""Properties that are numbers; the others are texts, ``expiration`` too (AMQP 0-9-1)."""

CLOSE_SECONDS: Final = 60.0
"""How long the end of a connection may take: acknowledgements are written to disk before."""

OWN_HEADERS: Final = frozenset({"subscription", "content-length", "ack", "browser"})
"""Headers of the protocol, not of the message."""


@click.command()
@click.argument("key", metavar="QUEUE|KEY")
@click.argument("body", required=False)
@click.option("--exchange", "-e", default=DEFAULT_EXCHANGE, metavar="NAME", help="[default: the default exchange]")
@click.option("--file", metavar="FILE", help="The body is this file; - is standard input.")
@click.option("--header", "-H", "headers", multiple=True, metavar="NAME=VALUE", help="Repeat it for several.")
@click.option(
    "--property", "-p", "properties", multiple=True, metavar="NAME=VALUE", help="priority=5, expiration=1000 …"
)
@click.option("--transient", is_flag=True, help="The message need not survive a restart.")
@remote_options
def publish(remote: Remote, key: str, body: str | None, exchange: str, file: str | None, **options: Any) -> None:
    """Publish a message to a queue, or with --exchange by a routing key. It is on disk when the command ends.

    annulet publish orders '{"id": 5}' -p content_type=application/json
    """
    if (body is None) == (file is None):
        raise usage("give the body as an argument, or --file")
    octets = body.encode("utf-8", "surrogateescape") if body is not None else _file_octets(str(file))
    given = {
        name: value if name in NUMBERS else _text(value)
        for name, value in read_arguments(options["properties"]).items()
    }
    if options["headers"]:
        given["headers"] = read_arguments(options["headers"])
    if not options["transient"]:
        given.setdefault("delivery_mode", 2)
    try:
        content = {"body": octets.decode(), "body_encoding": "text"}
    except UnicodeDecodeError:
        content = {"body": base64.b64encode(octets).decode("ascii"), "body_encoding": "base64"}
    message = {"routing_key": key, "properties": given, **content}
    answer = remote.client.ask("POST", (*OWN_API, "exchanges", remote.vhost, exchange, "publish"), message).content
    queues = answer["queues"]
    if not queues:
        raise Failure(EXIT_REFUSED_BY_BROKER, f"no queue takes a message with the key {key!r}; it is dropped")
    taken = f"{queues} queue" if queues == 1 else f"{queues} queues"
    remote.output.done(f"published {len(octets):,} bytes to {taken}", routed=True, queues=queues, bytes=len(octets))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _file_octets(file: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise usage(f"file {file!r} cannot be read: {error}") from error


@click.command()
@click.argument("queue")
@click.option("--count", "-n", type=click.IntRange(1), help="End after so many.  [default: when no more come]")
@click.option("--wait", type=click.FloatRange(0.1), default=2.0, show_default=True, help="Seconds without a message.")
@click.option("--follow", "-f", is_flag=True, help="Wait for more without end.")
@click.option("--selector", default="", metavar="TEXT", help="Only messages that it matches.")
@remote_options
def consume(remote: Remote, queue: str, count: int | None, wait: float, selector: str, *, follow: bool) -> None:
    """Take messages from a queue and print them. Each is acknowledged when it is printed."""
    headers = {"prefetch-count": "1" if count == 1 else "10"}
    if selector:
        headers["selector"] = selector
    with StompClient(remote) as client:
        client.subscribe(f"/amq/queue/{queue}", ack="client-individual", headers=headers)
        client.set_wait(None if follow else wait)
        with suppress(TimeoutError):  # no more messages: that is the end
            _print_and_acknowledge(remote, client, count)
        client.set_wait(CLOSE_SECONDS)
        client.finish()


def _print_and_acknowledge(remote: Remote, client: StompClient, count: int | None) -> None:
    taken = 0
    while count is None or taken < count:
        frame = client.next_frame()
        if frame.command == "MESSAGE":
            _print_message(remote, frame)
            client.acknowledge(frame)
            taken += 1


@click.command()
@click.argument("queue")
@click.option("--new", is_flag=True, help="Only messages that arrive from now on.")
@click.option("--selector", default="", metavar="TEXT", help="Only messages that it matches.")
@click.option("--count", "-n", type=click.IntRange(1), help="End after so many.")
@remote_options
def tail(remote: Remote, queue: str, selector: str, count: int | None, *, new: bool) -> None:
    """Print copies of the messages of a queue, those that wait and then live, until Control-C. Nothing is taken."""
    found = remote.client.get(*OWN_API, "queues", remote.vhost, queue)
    skipped = found["messages"] if new else 0
    headers = {"x-browse": "follow", "prefetch-count": "100"}
    if selector:
        headers["selector"] = selector
        skipped = 0
    shown = 0
    with StompClient(remote) as client:
        client.subscribe(f"/amq/queue/{queue}", ack="client", headers=headers)
        client.set_wait(None)
        while count is None or shown < count:
            frame = client.next_frame()
            if frame.command != "MESSAGE":
                continue
            client.acknowledge(frame)
            if skipped > 0:
                skipped -= 1
                continue
            _print_message(remote, frame)
            shown += 1


def _print_message(remote: Remote, frame: Frame) -> None:
    headers = {name: value for name, value in frame.headers.items() if name not in OWN_HEADERS}
    try:
        body, encoding = frame.body.decode(), "string"
    except UnicodeDecodeError:
        body, encoding = base64.b64encode(frame.body).decode("ascii"), "base64"
    if remote.output.as_json:
        remote.output.json_line({"headers": headers, "payload": body, "payload_encoding": encoding})
        return
    click.echo(printable(f"{headers.get('destination', '')} {body}"))
    sys.stdout.flush()


@click.command()
@click.argument("queue")
@click.argument("number", type=click.IntRange(1), required=False, metavar="[ID]")
@click.option("--limit", type=click.IntRange(1, BROWSE_MAX), default=20, show_default=True)
@click.option("--selector", default="", metavar="TEXT", help="Only messages that it matches.")
@click.option("--state", type=click.Choice(["pending", "scheduled", "delivering"]), help="[default: all]")
@click.option("--body", "body_alone", is_flag=True, help="With ID: the octets of the body, and nothing else.")
@click.option("--whole", is_flag=True, help="Whole messages, a line of JSON each: a recording for tests.")
@remote_options
def browse(remote: Remote, queue: str, number: int | None, **options: Any) -> None:
    """Show the first messages of a queue, with up to 4 KiB of each body, or the whole message with an ID of this list.

    A whole message has properties, headers, annotations, former deaths and all of the body. Nothing is taken.
    """
    if number is None:
        if options["body_alone"]:
            raise usage("--body is of one message; give its ID, the first column of annulet browse QUEUE")
        listed = _asked(remote, queue, options)
        if options["whole"]:
            _print_whole(remote, queue, listed["items"])
        else:
            _print_list(remote, listed)
        return
    shown, octets = _whole_message(remote, queue, number)
    if not options["body_alone"]:
        remote.output.members(shown)
    elif octets is None:
        raise Failure(EXIT_REFUSED_BY_BROKER, f"the body of message {number}: {shown['body_unavailable']}")
    else:
        click.echo(octets, nl=False)


def _whole_message(remote: Remote, queue: str, number: int) -> tuple[dict[str, Any], bytes | None]:
    """Return a message with its whole body, which is asked for in ranges, and its octets; none if it is unreadable."""
    path = (*OWN_API, "queues", remote.vhost, queue, "messages", str(number))
    shown: dict[str, Any] = remote.client.get(*path, query={"body": "base64"})
    for name in ("body_offset", "body_length", "body_encoding"):
        shown.pop(name, None)
    if shown["body"] is None:
        return shown, None
    octets = bytearray(base64.b64decode(shown["body"]))
    while not shown["body_complete"]:
        part = remote.client.get(*path, query={"body": "base64", "offset": str(len(octets))})
        if not part.get("body"):
            reason = part.get("body_unavailable", f"it ends after {len(octets):,} bytes")
            raise Failure(EXIT_REFUSED_BY_BROKER, f"the body of message {number}: {reason}")
        octets += base64.b64decode(part["body"])
        shown["body_complete"] = part["body_complete"]
    try:
        shown.update(body=octets.decode(), body_encoding="text")
    except UnicodeDecodeError:
        shown.update(body=base64.b64encode(octets).decode("ascii"), body_encoding="base64")
    return shown, bytes(octets)


def _asked(remote: Remote, queue: str, options: dict[str, Any]) -> dict[str, Any]:
    query = {"limit": str(options["limit"]), "body_bytes": "0" if options["whole"] else str(BODY_BYTES)}
    query.update({name: options[name] for name in ("selector", "state") if options[name]})
    answer: dict[str, Any] = remote.client.get(*OWN_API, "queues", remote.vhost, queue, "messages", query=query)
    return answer


def _print_whole(remote: Remote, queue: str, items: list[dict[str, Any]]) -> None:
    """Print whole messages, the oldest first. One that has left meanwhile is left out."""
    for item in items:
        try:
            shown, octets = _whole_message(remote, queue, item["id"])
        except Failure as failure:
            if failure.exit_code != EXIT_NOT_FOUND:
                raise
            continue
        if octets is not None:
            remote.output.json_line(shown)


def _print_list(remote: Remote, answer: dict[str, Any]) -> None:
    if remote.output.as_json:
        remote.output.json(answer["items"])
        return
    rows = [{**item, "accepted": time_text(item["accepted_at"]), "text": body_text(item)} for item in answer["items"]]
    titles = ("id", "state", "accepted", "routing_key", "priority", "delivery_count", "size", "text")
    remote.output.items(rows, [(title, title) for title in titles])
    if not answer["complete"]:
        click.echo("there are more: --limit shows up to 500", err=True)


def body_text(item: dict[str, Any]) -> str:
    """Return the body of a message that was looked at, as text where it is one."""
    if item.get("body") is None:
        return str(item.get("body_unavailable", ""))
    octets = base64.b64decode(item["body"])
    return octets.decode(errors="replace") + ("" if item["body_complete"] else " …")
