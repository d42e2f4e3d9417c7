"""Paths of requests: segments, the names in them, and tables of paths.

Paths are taken apart before they are decoded, so that ``%2F`` is part of a name (the virtual host "/").
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, TypeVar
from urllib.parse import unquote_to_bytes

from annulet.admin.requests.responses import bad_request
from annulet.broker.settings.configuration import nearest_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.requests import Request

Target = TypeVar("Target")

SEGMENTS_MAX: Final = 9
"""The longest path of both APIs, a binding, has nine segments with ``api``."""

ANY: Final = "{}"


class PathTable(Generic[Target]):
    """Targets by the segments of their paths; a segment of text wins over a name, which is written ``{name}``."""

    def __init__(self, targets: Iterable[tuple[str, Target]]) -> None:
        self._by_shape: dict[tuple[str, ...], tuple[list[str], Target]] = {}
        self._by_length: dict[int, list[tuple[str, ...]]] = {}
        for path, target in targets:
            parts = path.split("/")
            shape = tuple(ANY if part.startswith("{") else part for part in parts)
            if shape in self._by_shape:
                raise ValueError(f"the path {path!r} is in the table twice")
            self._by_shape[shape] = parts, target
            self._by_length.setdefault(len(shape), []).append(shape)
        for shapes in self._by_length.values():
            shapes.sort(key=lambda shape: [part == ANY for part in shape])

    def match(self, segments: list[str]) -> tuple[Target, dict[str, str]] | None:
        """Return the target of a path, and the segments that are names, still encoded; ``None`` for an unknown path."""
        for shape in self._by_length.get(len(segments), ()):
            if all(part in (ANY, segment) for part, segment in zip(shape, segments, strict=True)):
                parts, target = self._by_shape[shape]
                pairs = zip(parts, segments, strict=True)
                return target, {part[1:-1]: segment for part, segment in pairs if part.startswith("{")}
        return None

    def nearest(self, segments: list[str]) -> str:
        """Return a hint to a path that is not in the table: the nearest word, or the paths that begin like it."""
        left = list(self._by_shape)
        for place, segment in enumerate(segments):
            further = [shape for shape in left if len(shape) > place and shape[place] in (ANY, segment)]
            if not further:
                words = {shape[place]: None for shape in left if len(shape) > place}
                return nearest_name(segment, words) if words else f"; known here: {self._written(left)}"
            left = further
        return f"; known here: {self._written(left)}"

    def _written(self, shapes: Iterable[tuple[str, ...]]) -> str:
        return ", ".join("/".join(map(_shown, self._by_shape[shape][0])) for shape in shapes)


def _shown(part: str) -> str:
    return part[1:-1].upper() if part.startswith("{") else part


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
