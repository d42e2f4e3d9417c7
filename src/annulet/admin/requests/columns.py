"""Columns: ``columns=name,message_stats.publish_details.rate`` chooses them, and ``sort`` names one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from annulet.admin.requests.responses import bad_request

COLUMNS_MAX: Final = 100
"""Columns that a request may name: more than any resource has."""

DEPTH_MAX: Final = 5
"""Parts of a column with dots: ``message_stats.publish_details.rate`` has three."""

SortKey = tuple[int, Any]

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Part(Generic[Row]):
    """Columns of an item that are computed together. ``build`` may leave some of ``names`` out.

    ``statistic``: left out with ``disable_stats=true``.
    """

    names: frozenset[str]
    build: Callable[[Row], dict[str, Any]]
    statistic: bool = False


class Columns:
    """The wanted columns as a tree of names; empty for all."""

    def __init__(self, paths: list[list[str]]) -> None:
        self._tree: dict[str, Any] = {}
        for path in paths:
            node = self._tree
            for part in path[:-1]:
                node = node.setdefault(part, {})
                if node is WHOLE:
                    break
            if node is not WHOLE:
                node[path[-1]] = WHOLE

    @classmethod
    def of(cls, text: str) -> Columns:
        """Read the value of ``columns``."""
        names = [name for name in text.split(",") if name]
        if len(names) > COLUMNS_MAX:
            raise bad_request("columns", f"{len(names)} columns", f"name at most {COLUMNS_MAX}")
        return cls([split_column("columns", name) for name in names])

    @property
    def roots(self) -> frozenset[str] | None:
        """The first parts of the wanted columns; ``None`` for all."""
        return frozenset(self._tree) if self._tree else None

    def of_item(self, item: dict[str, Any]) -> dict[str, Any]:
        """Return the wanted part of an item."""
        return _part(item, self._tree) if self._tree else item


WHOLE: Final[dict[str, Any]] = {"": None}
"""The mark of a column that is wanted with everything in it."""


def _part(item: dict[str, Any], tree: dict[str, Any]) -> dict[str, Any]:
    chosen: dict[str, Any] = {}
    for name, below in tree.items():
        if name not in item:
            continue
        value = item[name]
        if below is WHOLE:
            chosen[name] = value
        elif isinstance(value, dict):
            chosen[name] = _part(value, below)
        elif isinstance(value, list):
            chosen[name] = [_part(each, below) if isinstance(each, dict) else each for each in value]
    return chosen


def split_column(field: str, name: str) -> list[str]:
    """Return the parts of a column's name."""
    parts = name.split(".")
    if len(parts) > DEPTH_MAX or not all(parts):
        raise bad_request(field, name, f"give names of columns, each of 1 to {DEPTH_MAX} parts with dots between")
    return parts


def sort_key(item: dict[str, Any], path: list[str]) -> SortKey:
    """Return what an item is sorted by: RabbitMQ's order, numbers before words before objects, lists and texts.

    An item without the column counts as 0.
    """
    value: Any = item
    for part in path:
        value = value.get(part, 0) if isinstance(value, dict) else 0
    if value is None or isinstance(value, bool):
        return (1, str(value))
    if isinstance(value, int | float):
        return (0, value)
    if isinstance(value, str):
        return (4, value)
    return (2 if isinstance(value, dict) else 3, repr(value))
