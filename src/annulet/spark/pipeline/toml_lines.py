"""Finds the line of a setting in a TOML file, for errors. The file itself is read by ``tomllib``."""

from __future__ import annotations

import tomllib
from typing import Any

Path = tuple[str, ...]


def lines_of(text: str) -> dict[Path, int]:
    """Return the line (from 1) of every table and key of a valid TOML text, by the path from the top.

    A statement ends where ``tomllib`` can read it, so that strings and arrays over several lines need no grammar here.
    Raises ``tomllib.TOMLDecodeError`` when the text is not TOML.
    """
    tomllib.loads(text)
    places: dict[Path, int] = {}
    table: Path = ()
    statement, first = "", 0
    for number, line in enumerate(text.split("\n"), 1):  # splitlines() splits at separators unknown to TOML
        if not statement:
            first = number
        statement += line + "\n"
        try:
            found = tomllib.loads(statement)
        except tomllib.TOMLDecodeError:
            continue  # continues in the next line
        if statement.lstrip().startswith("["):
            table = _only_path(found)
            places.setdefault(table, first)
        else:
            for path in _paths(found):
                places.setdefault(table + path, first)
        statement = ""
    return places


def line_of(places: dict[Path, int], path: Path) -> int:
    """Return the line of a setting, or of the innermost explicit table around it; 1 for the file itself."""
    for length in range(len(path), 0, -1):
        line = places.get(path[:length])
        if line is not None:
            return line
    return 1


def _only_path(value: Any) -> Path:
    """Return the path of a header: each table on the way has one member, and an array of tables one table."""
    path: Path = ()
    while value:
        value = value[0] if isinstance(value, list) else value
        if not value:
            break
        ((name, value),) = value.items()
        path += (name,)
    return path


def _paths(value: dict[str, Any]) -> list[Path]:
    paths: list[Path] = []
    for name, member in value.items():
        paths.append((name,))
        if isinstance(member, dict):
            paths += [(name, *path) for path in _paths(member)]
    return paths
