"""The command group ``annulet``."""

from __future__ import annotations

import difflib
import importlib
import platform
from contextlib import ExitStack
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from annulet import __version__, _build
from annulet.cli.commands import COMMANDS, CommandRow
from annulet.cli.lean_imports import UNUSED_EXTRAS, hidden, uncollected

REMOTE: Final = "annulet.cli.remote."
"""How the modules of commands against a running broker begin: they import nothing of the broker."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are asked for: the broker's modules take seconds to import."""

    def __init__(self, *arguments: Any, lazy: dict[str, CommandRow], **options: Any) -> None:
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
        groups = [each for each, row in self._lazy.items() if row.module.startswith(REMOTE)]
        found = ((each, self.get_command(context, each)) for each in groups)
        return [f"{each} {name}" for each, group in found if isinstance(group, click.Group) and name in group.commands]

    def get_command(self, context: click.Context, command_name: str) -> click.Command | None:
        """Return a command, imported now; ``None`` for a name that is none."""
        del context
        if command_name not in self._lazy:
            return None
        row = self._lazy[command_name]
        with ExitStack() as only_inside:
            if command_name == "serve":
                only_inside.enter_context(hidden(*UNUSED_EXTRAS))
                only_inside.enter_context(uncollected())
            command = getattr(importlib.import_module(row.module), row.name)
        if not isinstance(command, click.Command):
            raise TypeError(f"{row.module}.{row.name} is no command")
        return command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands from the table: their imports took two seconds."""
        width = formatter.width - 6 - max(map(len, self._lazy))  # as click does: indentation and two columns
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, _outline(name, row).get_short_help_str(width)) for name, row in self._lazy.items()]
            )
        del context

    def shell_complete(self, context: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete names of commands from the table, without an import; options as click does."""
        found = [
            CompletionItem(name, help=_outline(name, row).get_short_help_str())
            for name, row in self._lazy.items()
            if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, context, incomplete)]


def _outline(name: str, row: CommandRow) -> click.Command:
    """Return a command with the help of the row only, which click shortens as it does that of the command itself."""
    return click.Command(name, help=row.help)


HINTS: Final = {
    "queue create": "give queue arguments as -a ring-size=1000",
    "permission set": "give the permissions as --configure REGEX --write REGEX --read REGEX",
    "user create": "the password is asked for, or is the first line of --new-password-file FILE",
    "user password": "the password is asked for, or is the first line of --new-password-file FILE",
}
"""Advice for users of the tools of other brokers, by command."""


def _hint(error: click.UsageError, context: click.Context) -> str:
    """Return the advice for a command that was given wrong arguments, empty if there is none."""
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
