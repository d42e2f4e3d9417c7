"""A stretch of a page as it is handed to who reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from annulet.core.entry import QueueEntry
    from annulet.core.message import Origin


class Rows:
    """A stretch of a page, one element per item: an entry that was kept, or a row to be read (record > 0)."""

    __slots__ = ("came_back", "kept", "origins", "partial", "plain", "records", "redelivered", "sequences")

    def __init__(self) -> None:
        self.sequences: list[int] = []
        self.records: list[int] = []  # 0 = kept, or swept
        self.kept: list[QueueEntry | None] = []
        self.origins: list[Origin | None] = []  # None for what was kept
        self.partial: list[bool] = []  # the origin lacks exchange and routing key
        self.redelivered: list[bool] = []
        self.plain = True  # nothing was kept, and every origin is whole
        self.came_back = False  # some did

    def __len__(self) -> int:
        return len(self.sequences)

    def leading(self, count: int) -> Rows:
        """Return the first ``count`` items."""
        rows = Rows()
        rows.sequences, rows.records, rows.kept = self.sequences[:count], self.records[:count], self.kept[:count]
        rows.origins, rows.partial = self.origins[:count], self.partial[:count]
        rows.redelivered, rows.plain, rows.came_back = self.redelivered[:count], self.plain, self.came_back
        return rows

    def extend(self, other: Rows, count: int) -> None:
        """Take in the first ``count`` of some that follow."""
        self.sequences += other.sequences[:count]
        self.records += other.records[:count]
        self.kept += other.kept[:count]
        self.origins += other.origins[:count]
        self.partial += other.partial[:count]
        self.redelivered += other.redelivered[:count]
        self.plain = self.plain and other.plain
        self.came_back = self.came_back or other.came_back

    def each(self) -> Iterator[tuple[int, int, Origin | None, bool, bool]]:
        """Yield of each item sequence, record, origin, whether that is partial, and whether it came back."""
        return zip(self.sequences, self.records, self.origins, self.partial, self.redelivered, strict=True)
