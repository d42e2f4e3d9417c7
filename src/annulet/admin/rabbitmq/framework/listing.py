"""Lists of resources: filtered by name, sorted, in pages, with the wanted columns only.

A list may have ten thousand items of which one page is wanted, so that an item is built in parts: only the parts with a
wanted column are built, for the sorting column of all items and for the columns of the page's items. The event loop has
turns in between.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import msgspec
from starlette.responses import Response

from annulet.admin.rabbitmq.framework.name_filter import name_filter
from annulet.admin.requests.columns import Columns, Part, SortKey, sort_key, split_column
from annulet.admin.requests.responses import JSON, ResourceError
from annulet.broker.turns.list_turns import SORTED_AT_ONCE, Turns

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from annulet.admin.rabbitmq.framework.call import Call

Row = TypeVar("Row")

ANSWER_BYTES_AT_ONCE: Final = 256 * 1024
"""Bytes of an answer that are joined and handed to the server at once."""


@dataclass(frozen=True, slots=True)
class Listing(Generic[Row]):
    """How the items of one resource are listed. ``name`` is what ``name=`` filters; rows come in their usual order."""

    parts: Sequence[Part[Row]]
    name: Callable[[Row], str]

    def item(self, row: Row, wanted: frozenset[str] | None = None, *, statistics: bool = True) -> dict[str, Any]:
        """Return an item with the parts that have a wanted column; ``None``: all of them."""
        item: dict[str, Any] = {}
        for part in self.parts:
            if (statistics or not part.statistic) and (wanted is None or not wanted.isdisjoint(part.names)):
                item.update(part.build(row))
        return item

    def one(self, call: Call, row: Row) -> dict[str, Any]:
        """Return the item of a request for one, with the wanted columns."""
        columns = Columns.of(call.query.text("columns"))
        return columns.of_item(self.item(row, columns.roots, statistics=not call.query.switch("disable_stats")))

    async def one_with(self, call: Call, row: Row, name: str, details: Iterable[dict[str, Any]]) -> Response:
        """Answer as :meth:`one`, with a further column ``name`` of objects, of which there may be very many."""
        columns = Columns.of(call.query.text("columns"))
        head = ENCODER.encode(self.one(call, row))[:-1]
        if columns.roots is not None and name not in columns.roots:
            return respond(head, [], b"}")
        turns = Turns()
        pieces: list[bytes] = []
        for detail in details:
            pieces.append(ENCODER.encode(detail))
            await turns.look()
        comma = b"" if head == b"{" else b","
        return respond(head + comma + ENCODER.encode(name) + b":[", pieces, b"]}")

    async def answer(self, call: Call, rows: Iterable[Row]) -> Response:
        """Answer with the list that the query asks for: all of it, or one page in RabbitMQ's envelope."""
        query, turns = call.query, Turns()
        columns = Columns.of(query.text("columns"))
        page, size = query.page, query.page_size
        statistics = not query.switch("disable_stats")
        path = split_column("sort", query.text("sort")) if query.text("sort") else []
        descending = query.switch("sort_reverse")
        matches = name_filter(query.text("name"), regular=query.switch("use_regex"))
        chosen: list[Row] = []
        total = 0
        for row in rows:
            total += 1
            if matches is None or matches(self.name(row)):
                chosen.append(row)
            await turns.look()
        first, after = _bounds(page, size, len(chosen))
        if path:
            ordered = await self._sorted(chosen, path, descending=descending, after=after, turns=turns)
        else:
            ordered = chosen[::-1] if descending else chosen
        pieces: list[bytes] = []
        for row in ordered[first:after]:
            pieces.append(ENCODER.encode(columns.of_item(self.item(row, columns.roots, statistics=statistics))))
            await turns.look()
        if not page:
            return respond(b"[", pieces, b"]")
        envelope = {
            "filtered_count": len(chosen),
            "item_count": len(pieces),
            "page": page,
            "page_count": max(1, -(-len(chosen) // size)),
            "page_size": size,
            "total_count": total,
        }
        return respond(ENCODER.encode(envelope)[:-1] + b',"items":[', pieces, b"]}")

    async def _sorted(
        self, rows: list[Row], path: list[str], *, descending: bool, after: int, turns: Turns
    ) -> list[Row]:
        """Return the first ``after`` rows by a column; rows with the same value keep their order."""
        wanted = frozenset(path[:1])
        runs: list[list[tuple[SortKey, int]]] = []
        keyed: list[tuple[SortKey, int]] = []
        for index, row in enumerate(rows):
            keyed.append((sort_key(self.item(row, wanted), path), -index if descending else index))
            if len(keyed) == SORTED_AT_ONCE or index == len(rows) - 1:
                keyed.sort(reverse=descending)
                runs.append(keyed)
                keyed = []
            await turns.look()
        ordered: list[Row] = []
        for _, index in heapq.merge(*runs, reverse=descending):
            if len(ordered) == after:
                break
            ordered.append(rows[abs(index)])
            await turns.look()
        return ordered


ENCODER: Final = msgspec.json.Encoder()


def _bounds(page: int, size: int, count: int) -> tuple[int, int]:
    if not page:
        return 0, count
    first = (page - 1) * size
    if first >= count and page > 1:
        pages = max(1, -(-count // size))
        raise ResourceError(400, f"field 'page': value {page}; give a page from 1 to {pages} of {size} items each")
    return first, min(first + size, count)


def respond(head: bytes, pieces: list[bytes], tail: bytes) -> Response:
    """Return an answer of encoded items between ``head`` and ``tail``; a long one goes to the server in parts."""
    length = len(head) + sum(map(len, pieces)) + max(0, len(pieces) - 1) + len(tail)
    if length <= ANSWER_BYTES_AT_ONCE:
        return Response(b"".join([head, b",".join(pieces), tail]), media_type=JSON)
    return PartedResponse(_chunks(head, pieces, tail), length)


class PartedResponse(Response):
    """An answer in parts, with turns of the event loop between. A peer that is gone takes the rest at once.

    Starlette's ``StreamingResponse`` imports a library of its own at the first answer, which held the loop for 30 ms.
    """

    media_type = JSON

    def __init__(self, chunks: Iterator[bytes], length: int) -> None:
        super().__init__(headers={"Content-Length": str(length)})
        self._chunks = chunks

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        """Send the parts."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for chunk in self._chunks:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await asyncio.sleep(0)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _chunks(head: bytes, pieces: list[bytes], tail: bytes) -> Iterator[bytes]:
    chunk, size = [head], len(head)
    for index, piece in enumerate(pieces):
        if index:
            chunk.append(b",")
        chunk.append(piece)
        size += len(piece) + 1
        if size >= ANSWER_BYTES_AT_ONCE:
            yield b"".join(chunk)
            chunk, size = [], 0
    chunk.append(tail)
    yield b"".join(chunk)
