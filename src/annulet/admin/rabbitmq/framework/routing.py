"""Routes: paths and methods with the functions that answer them, and the tags that these take.

Paths are taken apart before they are decoded, so that ``%2F`` is part of a name: the virtual host ``/`` is ``%2F``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import unquote_to_bytes

from annulet.admin.rabbitmq.framework.call import Call
from annulet.admin.rabbitmq.framework.errors import answer_error, bad_request, not_authorised
from annulet.admin.rabbitmq.framework.levels import MANAGEMENT, REFUSALS
from annulet.admin.rabbitmq.framework.query import Query
from annulet.admin.requests.access import TagMissing, broker_of, require_user, require_writer
from annulet.admin.requests.responses import ResourceError
from annulet.broker.settings.configuration import nearest_name
from annulet.core.base.errors import CoreError
from annulet.store.files.errors import CatalogueError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

Handler: TypeAlias = "Callable[[Call], Awaitable[Response]]"

PREFIX_SEGMENTS: Final = 1
"""Segments of a path before the resource: ``api``."""

SEGMENTS_MAX: Final = 9
"""The longest path of the API, a binding, has nine segments with ``api``."""

ANY: Final = "{}"
READING: Final = frozenset({"GET", "HEAD"})


@dataclass(frozen=True, slots=True)
class Route:
    """One path with a handler for each method. ``path`` is below ``/api/``; ``{name}`` stands for one segment.

    ``level`` is the tags of which the user needs one; ``levels`` those of single methods, where they differ.
    """

    path: str
    methods: Mapping[str, Handler]
    level: frozenset[str] = MANAGEMENT
    levels: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def level_of(self, method: str) -> frozenset[str]:
        """Return the tags of which a caller of this method needs one."""
        return self.levels.get(method, self.level)


class RouteTable:
    """All routes by their segments; a segment of text wins over a name."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes = tuple(routes)
        self._by_shape: dict[tuple[str, ...], Route] = {}
        self._by_length: dict[int, list[tuple[str, ...]]] = {}
        for route in self.routes:
            shape = tuple(ANY if part.startswith("{") else part for part in route.path.split("/"))
            if shape in self._by_shape:
                raise ValueError(f"the path {route.path!r} is in the table twice")
            self._by_shape[shape] = route
            self._by_length.setdefault(len(shape), []).append(shape)
        for shapes in self._by_length.values():
            shapes.sort(key=lambda shape: [part == ANY for part in shape])

    def match(self, segments: list[str]) -> tuple[Route, dict[str, str]] | None:
        """Return the route of a path, and the segments that are names, still encoded; ``None`` for an unknown path."""
        for shape in self._by_length.get(len(segments), ()):
            if all(part in (ANY, segment) for part, segment in zip(shape, segments, strict=True)):
                route = self._by_shape[shape]
                parts = route.path.split("/")
                names = {
                    part[1:-1]: segment for part, segment in zip(parts, segments, strict=True) if part.startswith("{")
                }
                return route, names
        return None

    def nearest(self, segments: list[str]) -> str:
        """Return a hint to a path that is not in the table."""
        first = {shape[0]: None for shape in self._by_shape}
        return nearest_name(segments[0] if segments else "", first)

    async def answer(self, request: Request) -> Response:
        """Answer a request: the tag is asked for first, the named objects are looked up after that."""
        try:
            return await self._answer(request)
        except (ResourceError, CoreError, CatalogueError) as error:
            return answer_error(error)

    async def _answer(self, request: Request) -> Response:
        segments = raw_segments(request)[PREFIX_SEGMENTS:]
        found = self.match(segments)
        if found is None:
            await require_user(request, MANAGEMENT)  # which paths there are is no secret, but errors are for users
            raise ResourceError(
                404, f"no resource at this path{self.nearest(segments)}; write a slash in a name as %2F"
            )
        route, encoded = found
        method = "GET" if request.method == "HEAD" else request.method
        handler = route.methods.get(method)
        if handler is None:
            allowed = ", ".join([*route.methods, "OPTIONS"])
            raise ResourceError(
                405, f"{request.method} is not for /api/{route.path}; use {allowed}", {"Allow": allowed}
            )
        level = route.level_of(method)
        try:
            user = await (require_user if method in READING else require_writer)(request, level)
        except TagMissing as error:
            raise not_authorised(REFUSALS[level]) from error
        names = {name: decode_segment(name, segment) for name, segment in encoded.items()}
        return await handler(Call(request, broker_of(request), user, names, Query.of(request)))


def raw_segments(request: Request) -> list[str]:
    """Return the segments of a request's path, still encoded; a slash at the end is no segment (RabbitMQ)."""
    raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    path = raw.split(b"?", 1)[0].decode("ascii", errors="replace").removeprefix("/")
    segments = path.removesuffix("/").split("/", SEGMENTS_MAX + 1)
    return segments if segments != [""] else []


def decode_segment(name: str, segment: str) -> str:
    """Return a name in a path, decoded as RabbitMQ does: ``%XX`` only, UTF-8; ``+`` is a plus.

    Refuses line breaks and other text than UTF-8 (400).
    """
    try:
        text = unquote_to_bytes(segment).decode()
    except UnicodeDecodeError as error:
        raise bad_request(name, segment, "give UTF-8, percent-encoded") from error
    if "\r" in text or "\n" in text or "\0" in text:
        raise bad_request(name, text, "give a name without CR, LF and NUL")
    return text
