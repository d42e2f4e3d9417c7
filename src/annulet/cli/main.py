"""The command group ``annulet``."""

from __future__ import annotations

import importlib
import platform
from contextlib import nullcontext
from typing import Any

import click
from click.shell_completion import CompletionItem

from annulet import __version__, _build
from annulet.cli.commands import COMMANDS, CommandRow
from annulet.cli.lean_imports import UNUSED_EXTRAS, hidden


class LazyGroup(click.Group):
    """A group whose commands are imported when they are asked for: the broker's modules take seconds to import."""

    def __init__(self, *arguments: Any, lazy: dict[str, CommandRow], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._lazy = lazy

    def list_commands(self, context: click.Context) -> list[str]:
        """Return the names of all commands, in the order in which help lists them."""
        del context
        return list(self._lazy)

    def get_command(self, context: click.Context, command_name: str) -> click.Command | None:
        """Return a command, imported now; ``None`` for a name that is none."""
        del context
        if command_name not in self._lazy:
            return None
        row = self._lazy[command_name]
        with hidden(*UNUSED_EXTRAS) if command_name == "serve" else nullcontext():
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


def version_text() -> str:
    """Return what ``annulet --version`` prints: version, how the hot modules run, Python's version."""
    mode = "compiled" if _build.compiled() else "pure Python"
    return f"annulet {__version__} ({mode}, Python {platform.python_version()})"


@click.group(cls=LazyGroup, lazy=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message=version_text())
def main() -> None:
    """A message broker whose queues are rings, tables and streams, and Spark DataFrames."""
