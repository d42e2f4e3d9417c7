"""The rows of several pages as those of one, for emptying a queue with priorities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.core.model.queue_area import QueueArea

if TYPE_CHECKING:
    from collections.abc import Callable

    from annulet.core.message.message import Origin
    from annulet.core.model.entry import QueueEntry

SKIPPED_AT_ONCE: Final = 4096
"""Rows skipped of one part before the others are checked again: a page, so that about the oldest are skipped first."""


class JoinedPages(QueueArea):
    """Pages with rows, to be used up: the next row is from the part with the oldest one, so it is about the oldest.

    Nothing can be added or looked for.
    """

    def __init__(self, parts: list[QueueArea]) -> None:
        super().__init__()
        self._parts = parts
        self._count()

    def first_sequence(self) -> int:
        """Return the lowest sequence of an item."""
        return self._oldest().first_sequence()

    def load(self, *, insist: bool) -> list[QueueEntry] | None:
        """Take out the first few items of the part with the oldest."""
        part = self._oldest()
        entries = part.load(insist=insist)
        self.lost, self.lost_bytes = part.lost, part.lost_bytes
        self._count()
        return entries

    def take_unread(self) -> list[QueueEntry]:
        """Take out the first items of the part with the oldest, without content."""
        part = self._oldest()
        entries = part.take_unread()
        self.lost, self.lost_bytes = part.lost, part.lost_bytes
        self._count()
        return entries

    def skip(self, rows: int) -> int:
        """Forget the first rows, page by page."""
        skipped = 0
        while self.rows and skipped < rows:
            found = self._oldest().skip(min(rows - skipped, SKIPPED_AT_ONCE))
            if not found:
                break
            skipped += found
            self._count()
        return skipped

    def record_bounds(self) -> tuple[int, int]:
        """Combine all parts."""
        bounds = [part.record_bounds() for part in self._parts if part.rows]
        return min([lowest for lowest, _ in bounds]), max([highest for _, highest in bounds])

    def counted_ranges(self) -> list[tuple[int, int]]:
        """Combine all parts."""
        return [stretch for part in self._parts for stretch in part.counted_ranges()]

    def tally(self, name_of: Callable[[Origin], str], below: int) -> dict[str, tuple[int, int]]:
        """Combine all parts."""
        found: dict[str, tuple[int, int]] = {}
        for part in self._parts:
            for name, (rows, size) in part.tally(name_of, below).items():
                known = found.get(name, (0, 0))
                found[name] = (known[0] + rows, known[1] + size)
        return found

    def _oldest(self) -> QueueArea:
        return min([part for part in self._parts if part.items], key=_first_sequence_of)

    def _count(self) -> None:
        parts = self._parts = [part for part in self._parts if part.items]
        self.items = sum([part.items for part in parts])
        self.rows = sum([part.rows for part in parts])
        self.bytes = sum([part.bytes for part in parts])


def _first_sequence_of(part: QueueArea) -> int:
    return part.first_sequence()
