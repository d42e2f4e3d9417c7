"""Taking expired rows out of the pages of an area."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.residency.loader import unread_entries_of
from annulet.residency.row_reading import note_load

if TYPE_CHECKING:
    from annulet.core.entry import QueueEntry
    from annulet.residency.page import Page
    from annulet.residency.pages import StoredQueueArea
    from annulet.residency.rows import Rows

PAGES_AT_ONCE: Final = 4
"""Pages from which expired rows are taken together: each may have to be sorted before, 1 ms of the loop."""


def take_expired(
    area: StoredQueueArea, before: tuple[int, int], limit: int, *, most_read: tuple[int, int] | None
) -> list[QueueEntry]:
    """Take up to ``limit`` rows that expire before a time and sequence, in that order.

    ``most_read``: they are read, from the first page, no more messages and body bytes than that; ``None``: not read.
    """
    expired: list[QueueEntry] = []
    times, settings = area._times, area._queue.settings
    for _ in range(PAGES_AT_ONCE):
        page = times.page(before[0])
        if page is None or page.facts is None or page.due >= before or len(expired) >= limit:
            break
        upto = min(before, times.second())
        if most_read is not None:
            sequences = page.facts.due(page, settings, upto, min(limit, most_read[0]), most_read[1])
            return _read_expired(area, page, page.rows_of(sequences))
        rows = page.rows_of(page.facts.due(page, settings, upto, limit - len(expired)))
        entries = unread_entries_of(area._queue, rows)
        for entry in entries:
            message = entry.message
            message.accepted_at, message.size, message.priority, message.expires_at = page.facts.of(entry.sequence)
        _remove(area, page, rows, sum([entry.message.size for entry in entries]))
        expired += entries
    return expired


def _read_expired(area: StoredQueueArea, page: Page, rows: Rows) -> list[QueueEntry]:
    """Take rows with all their facts; none when the disk refuses, until the next retry."""
    facts = page.facts
    found = None if area.stalled else area._read(rows, rows.records, insist=False)
    area._ends_wait = found is None
    if found is None or facts is None:
        return []
    size = sum([facts.of(sequence)[1] for sequence in rows.sequences])
    area.lost, area.lost_bytes = len(rows) - len(found[0]), size - found[1]
    _remove(area, page, rows, size)
    note_load(area._queue, area._figures, len(found[0]), area.lost, found[1])
    return found[0]


def _remove(area: StoredQueueArea, page: Page, rows: Rows, size: int) -> None:
    """Forget rows of ``size`` body bytes, which the area's times named."""
    if page.shared:
        page = area._own(area._pages.index(page))
    for sequence in rows.sequences:
        page.remove(sequence)
    page.bytes -= size
    area._count_out(len(rows), len(rows), size)
    area._forget_bytes_of_damaged(page)
    area._times.taken(page)
    area._drop_if_empty(page)
