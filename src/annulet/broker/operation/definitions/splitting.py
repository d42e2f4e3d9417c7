"""Takes a JSON document of definitions apart into its items, in portions, before any of it is decoded.

A decoder works through a whole document at once, and some megabytes of nested lists hold the event loop for seconds. A
document is an object; its sections are lists of items. Each item is decoded by itself and is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from annulet.core.base.errors import InvalidArgument
from annulet.core.configuration.arguments.values import shown

DOCUMENT_BYTES_MAX: Final = 32 * 1024 * 1024
"""Bytes of a document: 150,000 queues with a binding each."""

ITEM_BYTES_MAX: Final = 64 * 1024
"""Bytes of one item: as much as any other body of a request."""

DEPTH_MAX: Final = 64
"""Objects and lists within each other."""

TEXT_BYTES_MAX: Final = ITEM_BYTES_MAX
"""Bytes of a text, and of what lies between two marks, that are looked at before other tasks get a turn."""

_STRUCTURE: Final = re.compile(
    rb'"(?:[^"\\]|\\.){0,%d}+(?P<end>"?)|[\[\]{},]|[^"\[\]{},]{%d}' % (TEXT_BYTES_MAX, TEXT_BYTES_MAX), re.DOTALL
)
"""The tokens that begin or end a value. A text is one match, so brackets in it do not count; so is a long other piece.
Each match is bounded, and none is tried twice."""

_OPENING: Final = frozenset({b"[", b"{"})
_CLOSING: Final = frozenset({b"]", b"}"})
_BLANK: Final = b" \t\r\n"

Found = tuple[str, Any]


def split_document(octets: bytes) -> Iterator[Found | None]:
    """Yield section and item, one by one, and ``None`` between: a caller may give turns at each.

    A section that is no list is one item. Raises :class:`InvalidArgument` for another document.
    """
    if len(octets) > DOCUMENT_BYTES_MAX:
        raise InvalidArgument(f"the document has {len(octets)} bytes; {DOCUMENT_BYTES_MAX} are allowed; split it")
    if octets.lstrip(_BLANK)[:1] != b"{":
        raise InvalidArgument("the document is no JSON object; give an export of definitions")
    walk = _Walk(octets)
    for match in _STRUCTURE.finditer(octets):
        mark = match[0][:1]
        found: Found | None = None
        if mark == b'"':
            if not match["end"]:
                raise InvalidArgument(f"the document has a text without an end, or of more than {TEXT_BYTES_MAX} bytes")
        elif mark in _OPENING:
            walk.open(mark, match.start())
        elif mark in _CLOSING:
            found = walk.close(match.start(), match.end())
        elif mark == b",":
            found = walk.separate(match.start(), match.end())
        yield found
    if walk.depth:
        raise InvalidArgument("the document ends in its middle; give it whole")


class _Walk:
    """Where the walk through a document is: in which section, and where its item begins."""

    def __init__(self, octets: bytes) -> None:
        self.depth = 0
        self._octets = octets
        self._member_at = 0  # where name and value of a member of the document begin
        self._item_at = 0
        self._section = ""
        self._in_list = False
        self._empty = False

    def open(self, mark: bytes, at: int) -> None:
        """An object or a list begins."""
        self.depth += 1
        if self.depth > DEPTH_MAX:
            raise InvalidArgument(f"the document has more than {DEPTH_MAX} objects and lists within each other")
        if self.depth == 1:
            self._member_at = at + 1
        elif self.depth == 2:
            self._section = _section_name(self._octets[self._member_at : at])
            self._in_list = mark == b"["
            self._empty = self._in_list  # until its first comma
            self._item_at = at + 1 if self._in_list else at

    def separate(self, at: int, after: int) -> Found | None:
        """A comma: an item of a list ends, or a member of the document."""
        found = None
        if self.depth == 1:
            found = self._member(at)
            self._member_at = after
        elif self.depth == 2 and self._in_list:
            found = self._section, _decoded(self._octets[self._item_at : at], self._section)
            self._item_at = after
            self._empty = False
        return found

    def close(self, at: int, after: int) -> Found | None:
        """An object or a list ends."""
        found = None
        if self.depth == 2:
            item = self._octets[self._item_at : at if self._in_list else after]
            if not self._empty or item.strip(_BLANK):
                found = self._section, _decoded(item, self._section)
            self._member_at = after
        elif self.depth == 1:
            found = self._member(at)
            if self._octets[after:].strip(_BLANK):
                raise InvalidArgument("the document goes on behind its end; give one JSON object")
        self.depth -= 1
        return found

    def _member(self, end: int) -> Found | None:
        """Return name and value of a section that is no list and no object; ``None`` where there is none."""
        octets = self._octets[self._member_at : end]
        if not octets.strip(_BLANK):
            return None
        item = _decoded(b"{" + octets + b"}", "the document")
        ((name, value),) = item.items()
        return name, value


def _section_name(octets: bytes) -> str:
    name, colon, rest = octets.strip(_BLANK).rpartition(b":")
    if not colon or rest.strip(_BLANK):
        raise InvalidArgument(f"the document is no JSON at {shown(octets[:40].decode(errors='replace'))}")
    decoded = _decoded(name, "a section's name")
    if not isinstance(decoded, str):
        raise InvalidArgument(f"the document is no JSON at {shown(octets[:40].decode(errors='replace'))}")
    return decoded


def _decoded(octets: bytes, section: str) -> Any:
    if len(octets) > ITEM_BYTES_MAX:
        raise InvalidArgument(f"{section}: an item has {len(octets)} bytes; {ITEM_BYTES_MAX} are allowed")
    try:
        return msgspec.json.decode(octets)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        text = octets[:40].decode(errors="replace")
        raise InvalidArgument(f"{section}: {shown(text)} is no JSON: {error}") from error
