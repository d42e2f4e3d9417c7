"""The command group ``annulet``."""

from __future__ import annotations

import difflib
import importlib
import platform
from typing import Any, Final

import click

from annulet import __version__, _build

COMMANDS: Final = {
    "serve": ("annulet.cli.serve", "serve"),
    "demo": ("annulet.cli.demo", "demo"),
    "doctor": ("annulet.cli.doctor", "doctor"),
    "backup": ("annulet.cli.backup", "backup"),
    "lease": ("annulet.cli.lease", "lease"),
    "pipeline": ("annulet.cli.pipelines", "pipeline"),
    "password-hash": ("annulet.cli.password_hash", "password_hash"),
    "metrics": ("annulet.cli.metrics", "metrics"),
    "completion": ("annulet.cli.remote.completion", "completion"),
    "context": ("annulet.cli.remote.context_commands", "context"),
    "status": ("annulet.cli.remote.status_commands", "status"),
    "top": ("annulet.cli.remote.status_commands", "top"),
    "log": ("annulet.cli.remote.status_commands", "log"),
    "queues": ("annulet.cli.remote.queue_commands", "queues"),
    "queue": ("annulet.cli.remote.queue_commands", "queue"),
    "exchanges": ("annulet.cli.remote.exchange_commands", "exchanges"),
    "exchange": ("annulet.cli.remote.exchange_commands", "exchange"),
    "bindings": ("annulet.cli.remote.exchange_commands", "bindings"),
    "bind": ("annulet.cli.remote.exchange_commands", "bind"),
    "unbind": ("annulet.cli.remote.exchange_commands", "unbind"),
    "connections": ("annulet.cli.remote.connection_commands", "connections"),
    "connection": ("annulet.cli.remote.connection_commands", "connection"),
    "consumers": ("annulet.cli.remote.connection_commands", "consumers"),
    "users": ("annulet.cli.remote.access_commands", "users"),
    "user": ("annulet.cli.remote.access_commands", "user"),
    "permissions": ("annulet.cli.remote.access_commands", "permissions"),
    "permission": ("annulet.cli.remote.access_commands", "permission"),
    "vhosts": ("annulet.cli.remote.access_commands", "vhosts"),
    "vhost": ("annulet.cli.remote.access_commands", "vhost"),
    "tokens": ("annulet.cli.remote.access_commands", "tokens"),
    "token": ("annulet.cli.remote.access_commands", "token"),
    "policies": ("annulet.cli.remote.policy_commands", "policies"),
    "policy": ("annulet.cli.remote.policy_commands", "policy"),
    "settings": ("annulet.cli.remote.policy_commands", "settings"),
    "publish": ("annulet.cli.remote.message_commands", "publish"),
    "consume": ("annulet.cli.remote.message_commands", "consume"),
    "browse": ("annulet.cli.remote.message_commands", "browse"),
    "tail": ("annulet.cli.remote.message_commands", "tail"),
    "redrive": ("annulet.cli.remote.operation_commands", "redrive"),
    "undo": ("annulet.cli.remote.operation_commands", "undo"),
    "schedule": ("annulet.cli.remote.operation_commands", "schedule"),
    "bench": ("annulet.cli.remote.bench_commands", "bench"),
    "definitions": ("annulet.cli.remote.definition_commands", "definitions"),
    "losses": ("annulet.cli.remote.ledger_commands", "losses"),
    "audit": ("annulet.cli.remote.ledger_commands", "audit"),
    "events": ("annulet.cli.remote.ledger_commands", "events"),
}
"""Each command: its module, which is imported when the command is used, and its name there."""


REMOTE: Final = "annulet.cli.remote."
"""How the modules of commands against a running broker begin: they import nothing of the broker."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are asked for: the broker's modules take seconds to import."""

    def __init__(self, *arguments: Any, lazy: dict[str, tuple[str, str]], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._lazy = lazy

    def list_commands(self, context: click.Context) -> list[str]:
        """Return the names of all commands, in the order in which help lists them."""
        del context
        return list(self._lazy)

    def invoke(self, *arguments: Any) -> Any:
        """Run a command. A wrong guess of its name or form is told the right one."""
        try:
            return super().invoke(*arguments)
        except click.UsageError as error:
            hint = "" if error.ctx is None else _hint(error, error.ctx)
            if not hint:
                raise
            raise click.UsageError(f"{error.format_message().rstrip('.')}; {hint}", error.ctx) from error

    def groups_with(self, name: str, context: click.Context) -> list[str]:
        """Return the groups against a running broker that have a command of this name, each with the name."""
        groups = [each for each, (module, _) in self._lazy.items() if module.startswith(REMOTE)]
        found = ((each, self.get_command(context, each)) for each in groups)
        return [f"{each} {name}" for each, group in found if isinstance(group, click.Group) and name in group.commands]

    def get_command(self, context: click.Context, command_name: str) -> click.Command | None:
        """Return a command, imported now; ``None`` for a name that is none."""
        del context
        if command_name not in self._lazy:
            return None
        module, name = self._lazy[command_name]
        command = getattr(importlib.import_module(module), name)
        if not isinstance(command, click.Command):
            raise TypeError(f"{module}.{name} is no command")
        return command


HINTS: Final = {
    "queue create": "give queue arguments as -a ring-size=1000",
    "permission set": "give the permissions as --configure REGEX --write REGEX --read REGEX",
    "user create": "the password is asked for, or is the first line of --new-password-file FILE",
    "user password": "the password is asked for, or is the first line of --new-password-file FILE",
}
"""What the user of another broker's tool has to do otherwise, by command."""


def _hint(error: click.UsageError, context: click.Context) -> str:
    """Return what a command wants instead of what was given, empty if that is not known."""
    command, words = context.command, error.format_message()
    if isinstance(command, click.Group) and words.startswith("No such command"):
        names = command.list_commands(context)
        if not isinstance(command, LazyGroup):
            return f"there are {', '.join(names)}"
        given = words.split("'")[1]
        found = [*difflib.get_close_matches(given, names, 3), *command.groups_with(given, context)]
        return f"did you mean {' or '.join(found)}?" if found else "annulet --help lists them"
    if isinstance(error, click.NoSuchOption) or "unexpected extra argument" in words:
        return HINTS.get(context.command_path.partition(" ")[2], "")
    return ""


def version_text() -> str:
    """Return what ``annulet --version`` prints: version, how the hot modules run, Python's version."""
    mode = "compiled" if _build.compiled() else "pure Python"
    return f"annulet {__version__} ({mode}, Python {platform.python_version()})"


@click.group(cls=LazyGroup, lazy=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message=version_text())
def main() -> None:
    """A message broker whose queues are rings, tables and streams, and Spark DataFrames."""
