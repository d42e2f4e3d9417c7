"""Routes: paths and methods with the functions that answer them, and the tags that these take."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from annulet.admin.rabbitmq.framework.call import Call
from annulet.admin.rabbitmq.framework.errors import answer_error, not_authorised
from annulet.admin.rabbitmq.framework.levels import MANAGEMENT, REFUSALS
from annulet.admin.rabbitmq.framework.query import Query
from annulet.admin.requests.access import TagMissing, broker_of, require_user, require_writer
from annulet.admin.requests.paths import PathTable, decode_segment, raw_segments
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
        self._paths = PathTable((route.path, route) for route in self.routes)

    def match(self, segments: list[str]) -> tuple[Route, dict[str, str]] | None:
        """Return the route of a path, and the segments that are names, still encoded; ``None`` for an unknown path."""
        return self._paths.match(segments)

    def nearest(self, segments: list[str]) -> str:
        """Return a hint to a path that is not in the table."""
        first = {route.path.split("/", 1)[0]: None for route in self.routes}
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
