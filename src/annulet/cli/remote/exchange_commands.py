"""Exchanges and bindings."""

from __future__ import annotations

from typing import Any, Final

import click

from annulet.cli.remote.confirming import confirm
from annulet.cli.remote.failures import EXIT_NOT_FOUND, Failure
from annulet.cli.remote.options import API, Remote, remote_options
from annulet.cli.remote.values import read_arguments

TYPES: Final = ("direct", "fanout", "topic", "headers")
DEFAULT_EXCHANGE: Final = "amq.default"
"""The default exchange's name in paths, where an empty one has no place (RabbitMQ)."""

ARGUMENTS = click.option("--argument", "-a", "arguments", multiple=True, metavar="NAME=VALUE", help="Repeat it.")


@click.command()
@click.option("--name", "part", default="", metavar="TEXT", help="Only names with this text in them.")
@remote_options
def exchanges(remote: Remote, part: str) -> None:
    """List exchanges: of all virtual hosts, or of --vhost."""
    query = {"name": part} if part else {}
    remote.output.items(
        remote.client.pages(*remote.listed_path("exchanges"), query=query),
        [(title, title) for title in ("vhost", "name", "type", "durable", "auto_delete", "internal", "arguments")],
    )


@click.group()
def exchange() -> None:
    """Create and delete an exchange."""


@exchange.command()
@click.argument("name")
@click.option("--type", "-t", "kind", default="direct", show_default=True, metavar="TYPE", help=", ".join(TYPES))
@click.option("--transient", is_flag=True, help="The exchange ends with the broker.")
@click.option("--auto-delete", is_flag=True, help="The exchange ends with its last binding.")
@click.option("--internal", is_flag=True, help="Only other exchanges send to it.")
@ARGUMENTS
@remote_options
def create(remote: Remote, name: str, kind: str, arguments: tuple[str, ...], **switches: bool) -> None:
    """Create an exchange, durable by default."""
    body = {
        "type": kind,
        "durable": not switches["transient"],
        "auto_delete": switches["auto_delete"],
        "internal": switches["internal"],
        "arguments": read_arguments(arguments),
    }
    made = remote.client.ask("PUT", (*API, "exchanges", remote.vhost, name), body).status == 201
    remote.output.done(f"exchange {name!r} {'created' if made else 'exists already'}", name=name, created=made)


@exchange.command()
@click.argument("name")
@click.option("--if-unused", is_flag=True, help="Only without bindings.")
@remote_options
def delete(remote: Remote, name: str, *, if_unused: bool) -> None:
    """Delete an exchange with its bindings."""
    path = (*API, "exchanges", remote.vhost, name)
    bindings = [
        *remote.client.get(*path, "bindings", "source"),
        *remote.client.get(*path, "bindings", "destination"),
    ]
    what = f"delete exchange {name!r} with {len(bindings)} bindings"
    confirm(remote, what, name, [binding_text(each) for each in bindings])
    remote.client.ask("DELETE", path, query={"if-unused": str(if_unused).lower()})
    remote.output.done(f"deleted exchange {name!r}", name=name, bindings=len(bindings))


@click.command()
@click.option("--source", default="", metavar="EXCHANGE", help="Only those from it.")
@click.option("--to", "destination", default="", metavar="NAME", help="Only those to it.")
@remote_options
def bindings(remote: Remote, source: str, destination: str) -> None:
    """List bindings, without those of the default exchange."""
    found = [
        each
        for each in remote.client.pages(*remote.listed_path("bindings"))
        if each["source"] and source in {"", each["source"]} and destination in {"", each["destination"]}
    ]
    titles = ("vhost", "source", "destination_type", "destination", "routing_key", "arguments")
    remote.output.items(found, [(title, title) for title in titles])


KEY = click.option("--key", "-k", "routing_key", default="", metavar="KEY", help="Routing key.  [default: empty]")
EXCHANGE = click.option("--exchange", "to_exchange", is_flag=True, help="The destination is an exchange.")


@click.command()
@click.argument("source")
@click.argument("destination")
@KEY
@EXCHANGE
@ARGUMENTS
@remote_options
def bind(
    remote: Remote, source: str, destination: str, routing_key: str, arguments: tuple[str, ...], *, to_exchange: bool
) -> None:
    """Bind a queue, or with --exchange an exchange, to the exchange SOURCE."""
    body = {"routing_key": routing_key, "arguments": read_arguments(arguments)}
    remote.client.ask("POST", _path(remote, source, destination, to_exchange=to_exchange), body)
    remote.output.done(f"bound {destination!r} to {source!r}", source=source, destination=destination, **body)


@click.command()
@click.argument("source")
@click.argument("destination")
@KEY
@EXCHANGE
@ARGUMENTS
@remote_options
def unbind(
    remote: Remote, source: str, destination: str, routing_key: str, arguments: tuple[str, ...], *, to_exchange: bool
) -> None:
    """Undo a binding with exactly this routing key and these arguments."""
    path = _path(remote, source, destination, to_exchange=to_exchange)
    wanted = read_arguments(arguments)
    for found in remote.client.get(*path):
        if found["routing_key"] == routing_key and found["arguments"] == wanted:
            confirm(remote, f"undo the binding {binding_text(found)}", destination)
            remote.client.ask("DELETE", (*path, found["properties_key"]))
            remote.output.done(f"unbound {destination!r} from {source!r}", source=source, destination=destination)
            return
    raise Failure(
        EXIT_NOT_FOUND,
        f"{destination!r} is not bound to {source!r} with key {routing_key!r} and these arguments; "
        f"annulet bindings --to {destination} lists its bindings",
    )


def binding_text(binding: dict[str, Any]) -> str:
    """Return a binding as one line."""
    return f"{binding['source']!r} -> {binding['destination']!r}, key {binding['routing_key']!r}"


def _path(remote: Remote, source: str, destination: str, *, to_exchange: bool) -> tuple[str, ...]:
    kind = "e" if to_exchange else "q"
    return (*API, "bindings", remote.vhost, "e", source or DEFAULT_EXCHANGE, kind, destination)
