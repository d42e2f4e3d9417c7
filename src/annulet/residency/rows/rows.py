"""A part of a page as passed to its reader."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from annulet.core.message.message import Origin
    from annulet.core.model.entry import QueueEntry


class Rows:
    """A stretch of a page, one element per item: an entry that was kept, or a row to be read (record > 0)."""

    __slots__ = (
        "came_back",
        "counted",
        "counts",
        "kept",
        "origins",
        "partial",
        "plain",
        "records",
        "redelivered",
        "sequences",
    )

    def __init__(self) -> None:
        self.sequences: list[int] = []
        self.records: list[int] = []  # 0 = kept, or swept
        self.kept: list[QueueEntry | None] = []
        self.origins: list[Origin | None] = []  # None for kept entries
        self.partial: list[bool] = []  # the origin lacks exchange and routing key
        self.redelivered: list[bool] = []
        self.counts: list[int] = []  # returned deliveries
        self.plain = True  # nothing was kept, and every origin is whole
        self.came_back = False  # some did
        self.counted = False  # some have returned deliveries

    def __len__(self) -> int:
        return len(self.sequences)

    def add_rows(
        self,
        sequence: int,
        record: int,
        length: int,
        origin: Origin,
        *,
        partial: bool,
        redelivered: bool,
        count: int,
    ) -> None:
        """Take in rows that grow by one and share the rest."""
        self.sequences.extend(range(sequence, sequence + length))
        self.records.extend(range(record, record + length))
        self.kept.extend([None] * length)
        self.origins.extend([origin] * length)
        self.partial.extend([partial] * length)
        self.redelivered.extend([redelivered] * length)
        self.counts.extend([count] * length)
        self.plain = self.plain and not partial
        self.came_back = self.came_back or redelivered
        self.counted = self.counted or count > 0

    def add_kept(self, sequence: int, entry: QueueEntry | None) -> None:
        """Take in an entry that was kept, or where one was until it was swept."""
        self.sequences.append(sequence)
        self.records.append(0)
        self.kept.append(entry)
        self.origins.append(None)
        self.partial.append(False)
        self.redelivered.append(False)
        self.counts.append(0)
        self.plain = False

    def leading(self, count: int) -> Rows:
        """Return the first ``count`` items."""
        rows = Rows()
        rows.sequences, rows.records, rows.kept = self.sequences[:count], self.records[:count], self.kept[:count]
        rows.origins, rows.partial = self.origins[:count], self.partial[:count]
        rows.redelivered, rows.counts = self.redelivered[:count], self.counts[:count]
        rows.plain, rows.came_back, rows.counted = self.plain, self.came_back, self.counted
        return rows

    def chosen(self, places: list[int]) -> Rows:
        """Return the items at some places, ascending."""
        rows = Rows()
        rows.sequences = [self.sequences[place] for place in places]
        rows.records = [self.records[place] for place in places]
        rows.kept = [self.kept[place] for place in places]
        rows.origins = [self.origins[place] for place in places]
        rows.partial = [self.partial[place] for place in places]
        rows.redelivered = [self.redelivered[place] for place in places]
        rows.counts = [self.counts[place] for place in places]
        rows.plain, rows.came_back, rows.counted = self.plain, self.came_back, self.counted
        return rows

    def extend(self, other: Rows, count: int) -> None:
        """Take in the first ``count`` of some that follow."""
        self.sequences += other.sequences[:count]
        self.records += other.records[:count]
        self.kept += other.kept[:count]
        self.origins += other.origins[:count]
        self.partial += other.partial[:count]
        self.redelivered += other.redelivered[:count]
        self.counts += other.counts[:count]
        self.plain = self.plain and other.plain
        self.came_back = self.came_back or other.came_back
        self.counted = self.counted or other.counted

    def each(self) -> Iterator[tuple[int, int, Origin | None, bool, bool, int]]:
        """Yield for each item sequence, record, origin, whether that is partial, whether it was returned, and its
        count."""
        return zip(self.sequences, self.records, self.origins, self.partial, self.redelivered, self.counts, strict=True)
