"""What comes back among rows that are there: between pages as pages of its own, else into the page it stands in."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from annulet.core.entry import sequence_of

if TYPE_CHECKING:
    from annulet.core.entry import QueueEntry
    from annulet.residency.page import Page
    from annulet.residency.pages import StoredQueueArea


def put_among(
    area: StoredQueueArea, entries: list[QueueEntry], kept: bytearray
) -> tuple[list[QueueEntry], tuple[list[QueueEntry], bytearray]]:
    """Put entries, by ascending sequence, among the pages of an area.

    Returns those that their page does not take, and the others, with what ``kept`` says of these.
    """
    pages = area._pages
    refused: list[QueueEntry] = []
    taken: list[QueueEntry] = []
    taken_kept = bytearray()
    origins: dict[Page, dict[tuple[str, int, int], int]] = {}  # of the last page: it may have thousands
    place = 0
    while place < len(entries):
        sequence = entries[place].sequence
        index = bisect_right(pages, sequence, key=_first_sequence_of) - 1
        if index >= 0 and sequence <= pages[index].last_sequence:
            behind = place + 1
            if kept[place] or not _insert(area, index, entries[place], origins):
                refused.append(entries[place])
                place = behind
                continue
        else:
            behind = len(entries)
            if index + 1 < len(pages):
                behind = bisect_left(entries, pages[index + 1].first_sequence, place, key=sequence_of)
            for page in reversed(area._made_of(entries[place:behind], kept[place:behind])):
                pages.insert(index + 1, page)
                area._times.note(page, pages)
        taken += entries[place:behind]
        taken_kept += kept[place:behind]
        place = behind
    return refused, (taken, taken_kept)


def _insert(
    area: StoredQueueArea, index: int, entry: QueueEntry, origins: dict[Page, dict[tuple[str, int, int], int]]
) -> bool:
    """Make a row of an entry in the middle of a page; say whether that takes it.

    Not where it would have to know the row's hot properties, whose columns only grow, or its time and knows none.
    """
    page = area._pages[index]
    if page.hot is not None or (page.facts is None and area._expire([entry], bytearray(1))):
        return False
    page = area._own(index)
    if page not in origins:
        origins.clear()
        origins[page] = page.partial_origins()
    if not page.insert(entry, origins[page]):
        return False
    area.items += 1
    area.rows += 1
    area.bytes += entry.message.size
    area._figures.paged_out += 1
    area._times.note(page, area._pages)
    return True


def _first_sequence_of(page: Page) -> int:
    return page.first_sequence
