"""Answers on standard output: a table for people, or JSON for programs. Both have the same content."""

from __future__ import annotations

import io
import json
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import click
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from annulet.cli.remote.text import cell, printable

WIDTH_OF_FILES: Final = 200
"""Columns of a table that no terminal shows: a file or pipe gets whole names."""


class Output:
    """Writes answers. With ``as_json`` each command prints one JSON value and nothing else."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json

    def items(self, items: Iterable[Mapping[str, Any]], columns: Sequence[tuple[str, str]]) -> None:
        """Print a list: all members as JSON, or the columns, each a title and the path of its member (``a.b``)."""
        listed = list(items)
        if self.as_json:
            self.json(listed)
            return
        rows = [[cell(member_of(item, path)) for _, path in columns] for item in listed]
        numbers = [
            bool(listed) and all(isinstance(member_of(item, path), int | float | None) for item in listed)
            for _, path in columns
        ]
        print_table([title for title, _ in columns], rows, numbers)

    def members(self, item: Mapping[str, Any]) -> None:
        """Print one object: as JSON, or each member in a row; members without a value are left out."""
        if self.as_json:
            self.json(item)
            return
        rows = [[printable(name), cell(value)] for name, value in item.items() if value not in (None, "", [], {})]
        print_table(["field", "value"], rows, [False, False])

    def done(self, text: str, **facts: Any) -> None:
        """Print the outcome: a line, or the facts as JSON."""
        if self.as_json:
            self.json(facts)
        else:
            click.echo(printable(text))

    def json(self, value: Any) -> None:
        """Print a JSON value."""
        click.echo(json.dumps(value, indent=2))

    def json_line(self, value: Any) -> None:
        """Print a JSON value in one line, at once: items of an endless list."""
        click.echo(json.dumps(value))
        sys.stdout.flush()


def member_of(item: Mapping[str, Any], path: str) -> Any:
    """Return a member of nested objects, ``None`` when it is missing."""
    value: Any = item
    for name in path.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value


def make_table(titles: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[bool]) -> Table:
    """Return a table. Cells are plain text, also where a name looks like markup."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title, number in zip(titles, numbers, strict=True):
        table.add_column(title, justify="right" if number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(value) for value in row))
    return table


def print_table(titles: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[bool]) -> None:
    """Print a table; a terminal gets its own width."""
    print_plain(make_table(titles, rows, numbers))


def print_plain(shown: RenderableType) -> None:
    """Print what rich renders; a file or pipe gets it without colours and without spaces at the ends of lines."""
    if sys.stdout.isatty():
        Console(highlight=False).print(shown)
        return
    written = io.StringIO()
    Console(file=written, highlight=False, width=WIDTH_OF_FILES, no_color=True).print(shown)
    click.echo("\n".join(line.rstrip() for line in written.getvalue().splitlines()))


def terminal_lines() -> int:
    """Return how many lines the terminal has."""
    return shutil.get_terminal_size().lines
