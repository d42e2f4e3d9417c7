"""A page gives back what was put in, in any portions, and takes next to nothing for a queue that grows by itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annulet.core.entry import REMOVED, QueueEntry
from annulet.core.message import Message, Origin
from annulet.residency.page import ORIGINS_MAX, PAGE_ITEMS_MAX, Page
from tests.core.helpers import TableView, make_queue
from tests.residency.doubles import Disk, durable_queue, stored_entries

QUEUE = make_queue()
VIEW = TableView({})
ORIGINS = [Origin("e", f"key {number}", "guest@test", VIEW, "connection") for number in range(ORIGINS_MAX + 3)]


def entry_of(sequence: int, record: int, *, origin: int = 0, redelivered: bool = False, size: int = 3) -> QueueEntry:
    message = Message(b"", b"x" * size, ORIGINS[origin], durable=True)
    message.record = record
    entry = QueueEntry(QUEUE, message, sequence)
    entry.redelivered = redelivered
    return entry


def drain(page: Page, portion: int) -> list[tuple[int, int, QueueEntry | None, Origin | None, bool]]:
    found = []
    while page.items:
        assert page.first_sequence == page.peek(1).sequences[0]
        rows = page.peek(portion)
        assert len(rows) == min(portion, page.items)
        found += list(zip(rows.sequences, rows.records, rows.kept, rows.origins, rows.redelivered, strict=True))
        page.take(rows)
    return found


@given(
    st.lists(
        st.tuples(
            st.sampled_from([1, 1, 1, 2, 1 << 33]),  # steps of sequence and record
            st.sampled_from([1, 1, 1, 3, 1 << 24, 1 << 34]),
            st.integers(0, 2),
            st.booleans(),
            st.sampled_from([0, 0, 0, 1]),
        ),
        min_size=1,
        max_size=60,
    ),
    st.integers(1, 20),
)
def test_what_goes_in_comes_out(steps, portion):
    sequence, record, entries, kept = 5, 1 << 24, [], bytearray()
    for sequence_step, record_step, origin, redelivered, keep in steps:
        sequence, record = sequence + sequence_step, record + record_step
        entries.append(entry_of(sequence, record, origin=origin, redelivered=redelivered))
        kept.append(keep)
    page = Page(entries, kept)
    rows = [entry for entry, keep in zip(entries, kept, strict=True) if not keep]
    assert (page.items, page.rows, page.bytes) == (len(entries), len(rows), 3 * len(rows))
    assert page.redelivered_upto == max([entry.sequence for entry in rows if entry.redelivered], default=0)
    assert page.kept() == [entry for entry, keep in zip(entries, kept, strict=True) if keep]
    assert drain(page, portion) == [
        (entry.sequence, 0, entry, None, False)
        if keep
        else (entry.sequence, entry.message.record, None, entry.message.origin, entry.redelivered)
        for entry, keep in zip(entries, kept, strict=True)
    ]
    assert page.rows == 0


def test_a_queue_that_has_the_log_to_itself_is_one_run():
    page = Page([entry_of(n, n + 1000) for n in range(1, PAGE_ITEMS_MAX + 1)], bytearray(PAGE_ITEMS_MAX))
    assert len(page._lengths) == 1


def test_origins_beyond_the_bound_keep_publisher_and_connection():
    count = len(ORIGINS)
    page = Page([entry_of(n + 1, n + 1, origin=n) for n in range(count)], bytearray(count))
    rows = page.peek(count)
    assert rows.partial == [False] * ORIGINS_MAX + [True] * 3
    assert rows.origins[:ORIGINS_MAX] == ORIGINS[:ORIGINS_MAX]
    assert len(set(rows.origins[ORIGINS_MAX:])) == 1, "one for all that share publisher and connection"
    last = rows.origins[-1]
    assert last is not None
    assert (last.publisher, last.view, last.connection) == ("guest@test", VIEW, "connection")


def test_removed_entries_are_let_go_of_and_their_places_stay():
    entries = [entry_of(1, 1), entry_of(2, 0), entry_of(3, 0), entry_of(4, 4)]
    page = Page(entries, bytearray([0, 1, 1, 0]))
    entries[1].state = REMOVED
    page.sweep()
    assert page.kept() == [entries[2]]
    assert [kept for _, _, kept, _, _ in drain(page, 10)] == [None, None, entries[2], None]


@pytest.mark.parametrize("count", [0, PAGE_ITEMS_MAX + 1])
def test_a_page_has_a_size(count):
    with pytest.raises(AssertionError):
        Page([entry_of(n + 1, n + 1) for n in range(count)], bytearray(count))


def test_a_page_takes_no_more_than_its_columns_hold():
    queue, disk = durable_queue(), Disk()
    entries = stored_entries(queue, disk, PAGE_ITEMS_MAX + 1)
    page = Page(entries[1:2], bytearray(1))
    assert not page.extend(entries[:1], bytearray(1)), "older"
    assert not page.extend(entries[1:], bytearray(PAGE_ITEMS_MAX)), "full"
    entries[2].message.record += 1 << 32
    assert not page.extend(entries[2:3], bytearray(1)), "too far away in the log"
    assert page.extend(entries[2:3], bytearray([1]))
    assert page.extend(entries[3:5], bytearray(2))
    rows = page.peek(10)
    assert (rows.sequences, rows.records, rows.kept) == ([2, 3, 4, 5], [2, 0, 4, 5], [None, entries[2], None, None])


def test_origins_of_an_extended_page_are_those_of_its_rows():
    queue, disk = durable_queue(), Disk()
    entries = stored_entries(queue, disk, 3 * ORIGINS_MAX)  # each with an origin of its own
    shared = entries[-1].message.origin
    entries[-2].message.origin = entries[1].message.origin
    page = Page(entries[:1], bytearray(1))
    for entry in entries[1:]:
        assert page.extend([entry], bytearray(1))
    rows = page.peek(3 * ORIGINS_MAX)
    assert rows.origins[1] is rows.origins[-2] is entries[1].message.origin
    assert (rows.partial[1], rows.partial[-1], rows.partial[-2]) == (False, True, False)
    assert rows.origins[-1].publisher == shared.publisher


@given(
    st.lists(
        st.tuples(st.sampled_from([1, 1, 2]), st.sampled_from([1, 1, 3]), st.sampled_from([0, 0, 0, 1])),
        min_size=1,
        max_size=40,
    ),
    st.data(),
)
def test_items_go_from_the_middle(steps, data):
    sequence, record, entries, kept = 5, 1 << 24, [], bytearray()
    for sequence_step, record_step, keep in steps:
        sequence, record = sequence + sequence_step, record + record_step
        entries.append(entry_of(sequence, record))
        kept.append(keep)
    page = Page(entries, kept)
    page.take(page.peek(data.draw(st.integers(0, len(entries) - 1))))
    before = page.copy()
    left = [(one.sequence, 0 if keep else one.message.record) for one, keep in zip(entries, kept, strict=True)]
    left = left[len(entries) - page.items :]
    whole = list(left)
    while len(left) > 1 and data.draw(st.booleans()):
        gone = left.pop(data.draw(st.integers(0, len(left) - 1)))
        page.remove(gone[0])
        assert (page.first_sequence, page.last_sequence, page.items) == (left[0][0], left[-1][0], len(left))
        assert page.rows == len([record for _, record in left if record])
        start = data.draw(st.integers(0, left[-1][0]))
        found = page.peek_from(start, 3)
        assert list(zip(found.sequences, found.records, strict=True)) == [one for one in left if one[0] >= start][:3]
        assert all(
            (entry is not None) is (record == 0) for entry, record in zip(found.kept, found.records, strict=True)
        )
    found = before.read_from(whole[0][0], 100)
    assert list(zip(found.sequences, found.records, strict=True)) == whole, "a copy is not touched"
    assert [found[:2] for found in drain(page, 3)] == left
