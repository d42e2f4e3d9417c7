"""Policies: settings for the queues whose names match a pattern."""

from __future__ import annotations

from typing import Any

import click

from annulet.cli.remote.confirming import confirm
from annulet.cli.remote.options import API, OWN_API, Remote, remote_options
from annulet.cli.remote.values import read_arguments


@click.command()
@remote_options
def policies(remote: Remote) -> None:
    """List policies: of all virtual hosts, or of --vhost; of each the one that wins first."""
    remote.output.items(
        remote.client.get(*remote.listed_path("policies")),
        [(title, title) for title in ("vhost", "name", "pattern", "priority", "definition")],
    )


@click.group()
def policy() -> None:
    """Set and clear a policy."""


@policy.command("set")
@click.argument("name")
@click.argument("pattern")
@click.argument("settings", nargs=-1, required=True, metavar="NAME=VALUE...")
@click.option("--priority", type=int, default=0, show_default=True, help="The highest of the matching ones holds.")
@remote_options
def set_policy(remote: Remote, name: str, pattern: str, settings: tuple[str, ...], priority: int) -> None:
    """Set a policy for the queues whose names match PATTERN.

    annulet policy set rings "^sensor[.]" ring-size=1000
    """
    body: dict[str, Any] = {"pattern": pattern, "definition": read_arguments(settings), "priority": priority}
    answer = remote.client.ask("PUT", (*OWN_API, "policies", remote.vhost, name), body).content
    lasting = "" if answer["durable_change"] else "; the configuration file's comes back at the next start"
    remote.output.done(f"policy {name!r} set{lasting}", **answer)


@policy.command("clear")
@click.argument("name")
@remote_options
def clear_policy(remote: Remote, name: str) -> None:
    """Clear a policy. Its queues follow the next one that matches, or their own arguments."""
    known = remote.client.get(*API, "policies", remote.vhost, name)
    lines = [f"pattern {known['pattern']!r}", *(f"{key}={value}" for key, value in known["definition"].items())]
    confirm(remote, f"clear policy {name!r} of virtual host {remote.vhost!r}", name, lines)
    remote.client.ask("DELETE", (*OWN_API, "policies", remote.vhost, name))
    remote.output.done(f"cleared policy {name!r}", name=name, vhost=remote.vhost)
