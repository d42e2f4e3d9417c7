"""Policies, the settings for the queues whose names match a pattern; and the settings of the broker."""

from __future__ import annotations

from typing import Any, Final

import click

from annulet.cli.remote.confirming import confirm
from annulet.cli.remote.options import API, OWN_API, Remote, remote_options
from annulet.cli.remote.values import read_arguments

SETTING_TITLES: Final = ("name", "value", "unit", "default", "origin", "changeable")


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


@click.group()
def settings() -> None:
    """Show the broker's settings with their origins, and change those that may change at run time."""


@settings.command("show")
@click.argument("name", required=False)
@remote_options
def show_settings(remote: Remote, name: str | None) -> None:
    """Show all settings, or one: value, unit, default, and where the value comes from."""
    path = (*OWN_API, "settings") if name is None else (*OWN_API, "settings", name)
    answer = remote.client.get(*path)
    rows = answer["items"] if name is None else [answer]
    remote.output.items(rows, [(title, title) for title in SETTING_TITLES])


@settings.command("set")
@click.argument("name")
@click.argument("value", type=int)
@remote_options
def change_setting(remote: Remote, name: str, value: int) -> None:
    """Change a setting now and for later starts; bytes and seconds are whole numbers.

    annulet settings set undo_seconds 7200
    """
    changed = remote.client.ask("PUT", (*OWN_API, "settings", name), {"value": value}).content
    remote.output.done(f"{name} is {changed['value']} {changed['unit']} now", **changed)


@settings.command("reset")
@click.argument("name")
@remote_options
def reset_setting(remote: Remote, name: str) -> None:
    """Let the value of the configuration hold again."""
    changed = remote.client.ask("DELETE", (*OWN_API, "settings", name)).content
    remote.output.done(f"{name} is {changed['value']} {changed['unit']} again", **changed)
