"""``annulet definitions …``: export, import, plan and apply."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

import click

from annulet.cli.remote.confirming import confirm
from annulet.cli.remote.failures import EXIT_REFUSED_BY_BROKER, Failure, usage
from annulet.cli.remote.options import API, OWN_API, Remote, remote_options
from annulet.cli.remote.text import printable

FILE = click.argument("file", metavar="FILE")
PRUNE = click.option("--prune", is_flag=True, help="Delete what the file does not name, in its virtual hosts.")
SIGNS: Final = {"create": "+", "change": "~", "delete": "-"}
STANDARD_INPUT: Final = "-"
BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


@click.group()
def definitions() -> None:
    """Export, import, plan and apply users, virtual hosts, policies, exchanges, queues, bindings …"""


@definitions.command("export")
@click.argument("file", metavar="[FILE]", default=STANDARD_INPUT)
@click.option("--format", "form", type=click.Choice(["annulet", "rabbitmq"]), default="annulet", show_default=True)
@remote_options
def export_command(remote: Remote, file: str, form: str) -> None:
    """Write the definitions of the broker, or of --vhost, to a file that only you can read.

    The document has the hashes of passwords. Standard error names the parts that RabbitMQ cannot have.
    """
    query = {"format": form} | ({"vhost": remote.vhost} if remote.vhost_given else {})
    document = remote.client.get(*OWN_API, "definitions", query=query)
    for each in document.get("left_out", ()):
        click.echo(f"left out: {_line(each)}", err=True)
    text = json.dumps(document, indent=2) + "\n"
    if file == STANDARD_INPUT:
        click.echo(text, nl=False)
        return
    path = Path(file)
    try:
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise usage(f"{file!r} cannot be written: {error}") from error
    counts = {name: len(items) for name, items in document.items() if isinstance(items, list)}
    remote.output.done(f"wrote {file}", file=file, counts=counts)


@definitions.command("import")
@FILE
@remote_options
def import_command(remote: Remote, file: str) -> None:
    """Add what a RabbitMQ export or Artemis's broker.xml has: nothing is deleted, what exists stays as it is.

    Each part that this broker cannot have is named with its reason.
    """
    document = _read(file)
    path: tuple[str, ...]
    if isinstance(document, bytes):
        path, query = (*OWN_API, "definitions"), {"keep": "true"} | _host_of(remote, document)
    else:
        path = (*API, "definitions", remote.vhost) if remote.vhost_given else (*API, "definitions")
        query = {}
    answer = remote.client.ask("POST", path, document, query=query).content or {"conflicts": [], "not_taken": []}
    if remote.output.as_json:
        remote.output.json(answer)
        return
    _list_refused(answer)
    click.echo(f"imported {file}")


@definitions.command()
@FILE
@PRUNE
@remote_options
def plan(remote: Remote, file: str, *, prune: bool) -> None:
    """Show what apply would do, in which order, and what that destroys. Nothing is changed."""
    found = _plan(remote, _read(file), prune=prune)
    if remote.output.as_json:
        remote.output.json(found)
    else:
        _show(found)


@definitions.command()
@FILE
@PRUNE
@click.option("--skip", is_flag=True, help="Apply the rest when some of the file cannot be taken.")
@remote_options
def apply(remote: Remote, file: str, *, prune: bool, skip: bool) -> None:
    """Make the broker as the file says, all or nothing. A second apply does nothing."""
    document = _read(file)
    query = {"prune": str(prune).lower()} | _host_of(remote, document)
    found = _plan(remote, document, prune=prune)
    if found["conflicts"] or (found["not_taken"] and not skip):
        _list_refused(found)
        remedy = "mend the file" if found["conflicts"] else "mend the file, or apply the rest with --skip"
        raise Failure(EXIT_REFUSED_BY_BROKER, f"nothing was changed; {remedy}")
    deleted = [step for step in found["steps"] if step["action"] == "delete"]
    if deleted:
        what = f"delete {len(deleted)} definitions with {found['destroys']:,} messages"
        confirm(remote, what, file, [f"{_step(step)}" for step in deleted])
    done = remote.client.ask("POST", (*OWN_API, "definitions"), document, query=query).content
    if remote.output.as_json:
        remote.output.json(done)
    else:
        _show(done, done=True)


def _plan(remote: Remote, document: Any, *, prune: bool) -> dict[str, Any]:
    query = {"plan": "true", "prune": str(prune).lower()} | _host_of(remote, document)
    found: dict[str, Any] = remote.client.ask("POST", (*OWN_API, "definitions"), document, query=query).content
    return found


def _host_of(remote: Remote, document: Any) -> dict[str, str]:
    """Return the virtual host for a broker.xml, which names none."""
    return {"vhost": remote.vhost} if isinstance(document, bytes) else {}


def _read(file: str) -> Any:
    """Return the JSON of a file, or its octets when it is XML."""
    try:
        octets = sys.stdin.buffer.read() if file == STANDARD_INPUT else Path(file).read_bytes()
        if octets.removeprefix(BYTE_ORDER_MARK).lstrip()[:1] == b"<":
            return octets
        document = json.loads(octets)
    except (OSError, ValueError) as error:
        raise usage(f"{file!r} cannot be read: {error}; give a JSON export of definitions, or a broker.xml") from error
    if not isinstance(document, dict):
        raise usage(f"{file!r} has no JSON object; give an export of definitions")
    return document


def _show(found: dict[str, Any], *, done: bool = False) -> None:
    for step in found["steps"]:
        click.echo(printable(f"{SIGNS[step['action']]} {_step(step)}"))
    _list_refused(found)
    counts = [sum(step["action"] == action for step in found["steps"]) for action in SIGNS]
    verbs = ("created", "changed", "deleted") if done else ("to create", "to change", "to delete")
    text = ", ".join(f"{count} {verb}" for count, verb in zip(counts, verbs, strict=True))
    click.echo(f"{text}; {found['destroys']:,} messages {'were destroyed' if done else 'would be destroyed'}")


def _step(step: dict[str, Any]) -> str:
    where = f" in {step['vhost']!r}" if step["vhost"] else ""
    changes = ", ".join(f"{name}: {before!r} -> {after!r}" for name, (before, after) in step["changes"].items())
    lost = f", destroys {step['destroys']:,} messages" if step["destroys"] else ""
    return f"{step['kind']} {step['name']!r}{where}{': ' if changes else ''}{changes}{lost}"


def _list_refused(found: dict[str, Any]) -> None:
    for each in found["conflicts"]:
        click.echo(f"conflict: {_line(each)}", err=True)
    for each in found["not_taken"]:
        click.echo(f"not taken: {_line(each)}", err=True)


def _line(each: dict[str, Any]) -> str:
    where = f" in {each['vhost']!r}" if each["vhost"] else ""
    return printable(f"{each['kind']} {each['name']!r}{where}: {each['reason']}")
