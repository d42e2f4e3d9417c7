"""Lists of ``/api/v1``: filtered, sorted, in pages or behind a cursor, with the wanted columns only.

An item is built in parts, of which only those with a wanted column are built: for the sorting column of all items, and
for the columns of the page's items. Other tasks get turns of the event loop in between.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from annulet.admin.interface.cursors import Cursor, Key, read_cursor
from annulet.admin.interface.values import NAME_PART, PAGES, Value
from annulet.admin.requests.bodies import SWITCH
from annulet.admin.requests.columns import Columns, Part, SortKey, sort_key, split_column
from annulet.admin.requests.responses import ResourceError, json_response
from annulet.broker.settings.configuration import nearest_name
from annulet.broker.turns.list_turns import SORTED_AT_ONCE, Turns

if TYPE_CHECKING:
    from starlette.responses import Response

    from annulet.admin.interface.call import Call

Row = TypeVar("Row")

SORTED_CHARACTERS: Final = 256
"""Characters of a text that items are sorted by; items with the same ones are in the order of their keys."""

CURSOR: Final = Value("cursor", "the 'next' of an answer, for the items behind it; page does not go with it")
COLUMNS: Final = Value("columns", "the wanted columns with commas between; all by default", example="name")
SORT: Final = Value("sort", "the column to sort by; its values are texts, numbers or switches", example="name")
REVERSE: Final = Value("sort_reverse", "true for the reverse order", SWITCH, default=False)

LIST_PARAMETERS: Final = (*PAGES, CURSOR, COLUMNS, SORT, REVERSE, NAME_PART)
"""The parameters of a list."""

UNSORTED: Final[SortKey] = (0, 0)

Keyed = tuple[SortKey, Key, int]


@dataclass(frozen=True, slots=True)
class Listing(Generic[Row]):
    """The list of one resource. ``key`` names an item by texts and numbers of the types in ``shape``; it is the usual
    order. ``name`` is the text that ``name=`` filters.
    """

    parts: Sequence[Part[Row]]
    key: Callable[[Row], Key]
    shape: tuple[type, ...]
    name: Callable[[Row], str]

    def item(self, row: Row, wanted: frozenset[str] | None = None) -> dict[str, Any]:
        """Return an item with the parts that have a wanted column; ``None``: all of them."""
        item: dict[str, Any] = {}
        for part in self.parts:
            if wanted is None or not wanted.isdisjoint(part.names):
                item.update(part.build(row))
        return item

    async def answer(
        self, call: Call, rows: Iterable[Row], *, total: int = 0, wanted: Callable[[Row], bool] | None = None
    ) -> Response:
        """Answer with one page of the list that the query asks for.

        ``total``: of all rows, if these are only some. ``wanted``: a further filter, which is asked in turns.
        """
        given, turns = call.parameters, Turns()
        size, cursor_text = given["page_size"], given.get("cursor")
        if cursor_text is not None and "page" in call.request.query_params:
            raise ResourceError(400, "query parameters 'page' and 'cursor' are given; give one of them")
        columns = self._columns(given.get("columns", ""))
        path = self._sort_path(given.get("sort", ""))
        order = f"{'-' if given['sort_reverse'] else ''}{'.'.join(path)}"
        after = None if cursor_text is None else read_cursor(cursor_text, order, self.shape)
        chosen, keyed, count = await self._keyed(rows, given, path, after, turns, wanted)
        first = 0 if after is not None else (given["page"] - 1) * size
        page = await _ordered(keyed, first + size + 1, reverse=given["sort_reverse"], turns=turns)
        items = []
        for _, _, index in page[first : first + size]:
            items.append(columns.of_item(self.item(chosen[index], columns.roots)))
            await turns.look()
        envelope = call.page.envelope(items, filtered_count=len(chosen), total_count=max(total, count))
        if len(page) > first + size:
            value, key, _ = page[first + size - 1]
            envelope["next"] = Cursor(order, value, key).text()
        return json_response(envelope)

    def _known(self) -> dict[str, None]:
        return {name: None for part in self.parts for name in part.names}

    def _columns(self, text: str) -> Columns:
        columns, known = Columns.of(text), self._known()
        for name in columns.roots or ():
            if name not in known:
                raise ResourceError(400, f"query parameter columns: {name!r} is no column{nearest_name(name, known)}")
        return columns

    def _sort_path(self, text: str) -> list[str]:
        if not text:
            return []
        path = split_column("sort", text)
        known = self._known()
        if path[0] not in known:
            hint = nearest_name(path[0], known)
            raise ResourceError(400, f"query parameter sort={text!r} is no column{hint}")
        return path

    async def _keyed(
        self,
        rows: Iterable[Row],
        given: dict[str, Any],
        path: list[str],
        after: Cursor | None,
        turns: Turns,
        passes: Callable[[Row], bool] | None,
    ) -> tuple[list[Row], list[list[Keyed]], int]:
        """Return the rows that pass the filter, those behind the cursor in sorted runs, and the count of all."""
        wanted, part, reverse = frozenset(path[:1]), given.get("name", ""), given["sort_reverse"]
        chosen: list[Row] = []
        runs: list[list[Keyed]] = []
        run: list[Keyed] = []
        total = 0
        for row in rows:
            total += 1
            if part in self.name(row) and (passes is None or passes(row)):
                value = _bounded(sort_key(self.item(row, wanted), path)) if path else UNSORTED
                keyed = (value, self.key(row), len(chosen))
                chosen.append(row)
                if after is None or _behind(keyed, after, reverse=reverse):
                    run.append(keyed)
                if len(run) == SORTED_AT_ONCE:
                    run.sort(reverse=reverse)
                    runs.append(run)
                    run = []
            await turns.look()
        run.sort(reverse=reverse)
        return chosen, [*runs, run], total


def _behind(keyed: Keyed, after: Cursor, *, reverse: bool) -> bool:
    place, last = keyed[:2], (after.value, after.key)
    return place < last if reverse else place > last


def _bounded(key: SortKey) -> SortKey:
    rank, value = key
    return (rank, value[:SORTED_CHARACTERS]) if isinstance(value, str) else key


async def _ordered(runs: list[list[Keyed]], most: int, *, reverse: bool, turns: Turns) -> list[Keyed]:
    """Return the first ``most`` of sorted runs."""
    ordered: list[Keyed] = []
    for keyed in heapq.merge(*runs, reverse=reverse):
        if len(ordered) == most:
            break
        ordered.append(keyed)
        await turns.look()
    return ordered
