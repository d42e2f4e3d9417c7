"""Inserting rows into a page: in sorted queues the paged messages are not the latest ones.

Pages of sorted queues have no entries among their rows, and have the expiry times of all their rows. In other queues,
delivered messages are inserted when they return while their neighbours are rows.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from annulet.core.expiry_times import NEVER
from annulet.residency.page import PAGE_ITEMS_MAX, Page
from annulet.residency.runs import COUNT_SHIFT, column_for

if TYPE_CHECKING:
    from annulet.core.entry import QueueEntry


def insert_row(page: Page, entry: QueueEntry, partial: dict[tuple[str, int, int], int] | None = None) -> bool:
    """Make a row of an entry at the place of its sequence; return whether the page accepts it.

    It refuses if it is full, has too many origins, or sequence or record are below all that the page can have.
    ``partial``: :meth:`Page.partial_origins` from before the first of several insertions, which are kept up to date.
    """
    message = entry.message
    sequence = entry.sequence - page._base_sequence
    record = message.record - page._base_record
    if page.items >= PAGE_ITEMS_MAX or len(page._origins) >= PAGE_ITEMS_MAX or min(sequence, record) < 0:
        return False
    if page._records.typecode == "I" and column_for(max(sequence, record)) != "I":
        return False
    _forget_taken(page)
    mark = page._mark_of_row(message.origin, partial) | entry.redelivered | entry.delivery_count << COUNT_SHIFT
    page._widen_for(mark)
    sequences, records, lengths, marks = page._sequences, page._records, page._lengths, page._marks
    place = bisect_right(sequences, sequence)
    goes_on = place > 0 and _ends_before(page, place - 1, sequence, record, mark)
    if place < len(sequences) and (sequences[place], records[place], marks[place]) == (sequence + 1, record + 1, mark):
        if goes_on:
            lengths[place - 1] += 1 + lengths[place]
            page._delete(place)
        else:
            sequences[place], records[place] = sequence, record
            lengths[place] += 1
    elif goes_on:
        lengths[place - 1] += 1
    else:
        sequences.insert(place, sequence)
        records.insert(place, record)
        lengths.insert(place, 1)
        marks.insert(place, mark)
    page.items += 1
    page._seen += 1
    page.rows += 1
    page.bytes += message.size
    page.highest_record = max(page.highest_record, message.record)
    if entry.redelivered:
        page.redelivered_upto = max(page.redelivered_upto, entry.sequence)
    facts = page.facts
    if facts is not None:
        facts.insert(page, entry.sequence, message.accepted_at, message.size, message.priority, message.expires_at)
    return True


def _ends_before(page: Page, run: int, sequence: int, record: int, mark: int) -> bool:
    """Return whether a row continues a run."""
    length = page._lengths[run]
    return (
        page._sequences[run] + length == sequence and page._records[run] + length == record and page._marks[run] == mark
    )


def _forget_taken(page: Page) -> None:
    """Move the first remaining row to the front."""
    run, start = page._run, page._run_start
    del page._kept[: page._next_kept]
    page._next_kept = 0
    if run:
        del page._sequences[:run], page._records[:run], page._lengths[:run], page._marks[:run]
    if start:
        page._sequences[0] += start
        page._records[0] += start
        page._lengths[0] -= start
    page._run = page._run_start = 0
    page._seen = page.items  # appending behind the last row counts it


def split(page: Page, sequence: int) -> Page | None:
    """Take the rows behind the middle out of a page, or those from a sequence on if it is not 0; return their page.

    ``None`` if one side would be empty: a single run of rows has no middle.
    """
    _forget_taken(page)
    run = bisect_left(page._sequences, sequence - page._base_sequence) if sequence else len(page._sequences) // 2
    if not 0 < run < len(page._sequences):
        return None
    assert page.facts is not None
    right = page.copy()
    for columns in (page._sequences, page._records, page._lengths, page._marks):
        del columns[run:]
    for columns in (right._sequences, right._records, right._lengths, right._marks):
        del columns[:run]
    for part in (page, right):
        part.items = part.rows = part._seen = sum(part._lengths)
    right.due = NEVER
    assert right.facts is not None
    page.facts.keep(page)
    right.facts.keep(right)
    right.facts.note_all()
    right.bytes = sum([right.facts.of(row)[1] for row in right.rows_between(0, 1 << 62, right.rows)])
    page.bytes -= right.bytes
    return right
