"""Reading requests: path segments, query parameters and pages. Errors are refused by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import unquote

import msgspec

from annulet.admin.requests.responses import ResourceError
from annulet.broker.settings.configuration import nearest_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request

PAGE_SIZE: Final = 100
"""Entries of a page when the request does not say."""

PAGE_SIZE_MAX: Final = 500
"""Entries of a page at most: RabbitMQ's bound too. Building one blocks the event loop for less than 10 ms."""

INTEGER_MAX: Final = (1 << 63) - 1

PAGE_PARAMETERS: Final = ("page", "page_size")

Item = TypeVar("Item")


class Page(msgspec.Struct, frozen=True):
    """Which part of a listing is wanted; pages count from 1."""

    number: int
    size: int

    def take(self, items: Sequence[Item]) -> Sequence[Item]:
        """Return the page's part of all items; empty behind the last page."""
        start = (self.number - 1) * self.size
        return items[start : start + self.size]

    def envelope(self, items: list[Any], *, filtered_count: int, total_count: int) -> dict[str, Any]:
        """Return the listing's JSON with RabbitMQ's names: ``filtered_count`` passed the filters of ``total_count``."""
        return {
            "items": items,
            "item_count": len(items),
            "filtered_count": filtered_count,
            "total_count": total_count,
            "page": self.number,
            "page_size": self.size,
            "page_count": max(1, -(-filtered_count // self.size)),
        }


def read_parameters(request: Request, known: Sequence[str]) -> dict[str, str]:
    """Return the query parameters; unknown and repeated ones are refused (400)."""
    parameters: dict[str, str] = {}
    names = dict.fromkeys(known)
    for name, value in request.query_params.multi_items():
        if name not in names:
            raise ResourceError(400, f"unknown query parameter {name!r}{nearest_name(name, names)}")
        if name in parameters:
            raise ResourceError(400, f"query parameter {name!r} is given twice")
        parameters[name] = value
    return parameters


def read_integer(parameters: dict[str, str], name: str, default: int, least: int, most: int = INTEGER_MAX) -> int:
    """Return an integer parameter within ``least`` to ``most``; refuse anything else (400)."""
    text = parameters.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 20 and least <= int(text) <= most):
        raise ResourceError(400, f"query parameter {name}={text!r} is not an integer from {least} to {most}")
    return int(text)


def read_switch(parameters: dict[str, str], name: str) -> bool:
    """Return a switch, ``true`` or ``false``, which is the default; refuse anything else (400)."""
    text = parameters.get(name, "false")
    if text not in {"true", "false"}:
        raise ResourceError(400, f"query parameter {name}={text!r} is not true or false")
    return text == "true"


def read_page(parameters: dict[str, str]) -> Page:
    """Return the wanted page: ``page`` (default 1) and ``page_size``."""
    return Page(
        number=read_integer(parameters, "page", 1, 1, 1_000_000_000),
        size=read_integer(parameters, "page_size", PAGE_SIZE, 1, PAGE_SIZE_MAX),
    )


def path_segments(request: Request) -> list[str]:
    """Return the path's segments, each decoded on its own, so that ``%2F`` is part of a name (the virtual host "/")."""
    raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    path = raw.split(b"?", 1)[0].decode("ascii", errors="replace")
    return [unquote(segment) for segment in path.strip("/").split("/")]
