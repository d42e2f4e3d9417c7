"""Of which group each row of a page is: a byte a row, and the names once a page.

Recorded while a message that becomes a row is still in memory. Rows of groups that may have no more messages in the
lanes are skipped without reading them. The groups of rows recovered at start are unknown, and those of further groups
in a page with very many: these are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.core.model.entry import PENDING
from annulet.residency.rows.page import PAGE_ITEMS_MAX
from annulet.residency.rows.row_columns import RowColumns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from annulet.core.model.entry import QueueEntry
    from annulet.core.policies.message_groups import GroupTable
    from annulet.residency.rows.rows import Rows

BY_GROUP: Final = ("",)
"""The name of these columns, where others name properties: no property has an empty name."""

CODES_MAX: Final = 256
"""Codes of a page: one byte each.

The first means that the row has to be read; with more groups than the others, the groups of the remaining rows are
read. The names of this many take half a byte a row.
"""

NAMES_CHARACTERS_MAX: Final = PAGE_ITEMS_MAX
"""Characters of a page's names, one a row: if each message has a different group, no other page shares their texts.

Names beyond this have no code. With about 60 bytes of overhead per text this is about 5 bytes a row.
"""

TEXTS_MAX: Final = 4 * CODES_MAX
"""Texts of names shared by a queue's pages, about 100 KB; then the table is cleared.

Not ``sys.intern``: CPython 3.12 before 3.12.7 never releases interned texts.
"""

PASSED_TIMES: Final = 16
"""Factor for the rows of a scan that reads nothing: for a full scan that is a page, about 0.5 ms."""


class GroupColumn(RowColumns):
    """The groups of one page's rows, those included that have left it."""

    __slots__ = ("_characters", "_column", "_groups")

    def __init__(self) -> None:
        super().__init__(BY_GROUP)
        self._groups = [""]  # by code
        self._characters = 0  # of all of them; a name that did not fit once never does, so its rows are all alike
        self._column = bytearray()

    @property
    def coded_names(self) -> Sequence[str]:
        """The names of groups that have a code, by code; the first is that of all others."""
        return self._groups

    @property
    def characters(self) -> int:
        """The characters of the names, at most :data:`NAMES_CHARACTERS_MAX`."""
        return self._characters

    def append(self, entries: Sequence[QueueEntry], table: GroupTable, texts: dict[str, str]) -> None:
        """Add the next rows. ``texts``: the table shared by the pages of the queue, at most ``TEXTS_MAX`` before."""
        self._add_places([entry.sequence for entry in entries])
        names = table.names_of([entry.message for entry in entries])
        codes = {name: code for code, name in enumerate(self._groups)}
        for name in dict.fromkeys(names):
            if name in codes or len(self._groups) == CODES_MAX:
                continue
            if self._characters + len(name) <= NAMES_CHARACTERS_MAX:
                self._characters += len(name)
                codes[name] = len(self._groups)
                self._groups.append(texts.setdefault(name, name))
        self._column += bytes([codes.get(name, 0) for name in names])

    def with_room(self, rows: Rows, most: int, full: Callable[[str], bool]) -> tuple[Rows, int, dict[str, list[int]]]:
        """Split some items of the page; see :meth:`annulet.residency.rows.hot_columns.HotRows.with_room`."""
        sequences = rows.sequences
        codes = self._codes_of(sequences)
        there = dict.fromkeys(codes)
        passes = [code > 0 and code in there and full(name) for code, name in enumerate(self._groups)]
        if rows.plain and all(passes[code] for code in there) and len(there) == 1:
            return rows.leading(0), sequences[-1] + 1, {self._groups[codes[0]]: sequences}
        chosen: list[int] = []
        passed: list[list[int]] = [[] for _ in self._groups]
        upto = sequences[-1] + 1
        for place, (sequence, code) in enumerate(zip(sequences, codes, strict=True)):
            if passes[code]:
                if rows.plain or rows.records[place] or _pending(rows.kept[place]):
                    passed[code].append(sequence)
            elif len(chosen) == most:
                upto = sequence
                break
            else:
                chosen.append(place)
        return rows.chosen(chosen), upto, {name: some for name, some in zip(self._groups, passed, strict=True) if some}

    def _codes_of(self, sequences: list[int]) -> Sequence[int]:
        """Return the codes of some rows of the page."""
        first, last = sequences[0], sequences[-1]
        place = self.place_from(first)
        if last - first + 1 == len(sequences):
            return self._column[place : place + len(sequences)]
        codes: list[int] = []
        behind = first
        for sequence in sequences:
            place = place if sequence == behind else self.place_from(sequence)
            codes.append(self._column[place])
            place += 1
            behind = sequence + 1
        return codes

    def copy(self) -> GroupColumn:
        """Return one like it."""
        made = GroupColumn()
        made.take_places(self)
        made._characters = self._characters
        made._groups, made._column = self._groups[:], self._column[:]
        return made


def _pending(entry: QueueEntry | None) -> bool:
    return entry is not None and entry.state == PENDING
