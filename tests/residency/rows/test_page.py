"""A page gives back what was put in, in any portions, and takes next to nothing for a queue that grows by itself."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annulet.core.message.message import Message, Origin
from annulet.core.model.entry import REMOVED, QueueEntry
from annulet.core.paging.row_conditions import ROW_COUNT_MOST
from annulet.residency.rows.page import ORIGINS_MAX, PAGE_ITEMS_MAX, Page
from tests.core.helpers import TableView, make_queue
from tests.residency.doubles import Disk, durable_queue, stored_entries

QUEUE = make_queue()
VIEW = TableView({})
ORIGINS = [Origin("e", f"key {number}", "guest@test", VIEW, "connection") for number in range(ORIGINS_MAX + 3)]


def entry_of(
    sequence: int, record: int, *, origin: int = 0, redelivered: bool = False, size: int = 3, count: int = 0
) -> QueueEntry:
    message = Message(b"", b"x" * size, ORIGINS[origin], durable=True)
    message.record = record
    entry = QueueEntry(QUEUE, message, sequence)
    entry.redelivered = redelivered
    entry.delivery_count = count
    return entry


def drain(page: Page, portion: int) -> list[tuple[int, int, QueueEntry | None, Origin | None, bool, int]]:
    found = []
    while page.items:
        assert page.first_sequence == page.peek(1).sequences[0]
        rows = page.peek(portion)
        assert len(rows) == min(portion, page.items)
        columns = rows.sequences, rows.records, rows.kept, rows.origins, rows.redelivered, rows.counts
        found += list(zip(*columns, strict=True))
        page.take(len(rows))
    return found


@given(
    st.lists(
        st.tuples(
            st.sampled_from([1, 1, 1, 2, 1 << 33]),  # steps of sequence and record
            st.sampled_from([1, 1, 1, 3, 1 << 24, 1 << 34]),
            st.integers(0, 2),
            st.booleans(),
            st.sampled_from([0, 0, 0, 1]),
            st.sampled_from([0, 0, 0, 1, ROW_COUNT_MOST]),
        ),
        min_size=1,
        max_size=60,
    ),
    st.integers(1, 20),
)
def test_what_goes_in_comes_out(steps, portion):
    sequence, record, entries, kept = 5, 1 << 24, [], bytearray()
    for sequence_step, record_step, origin, redelivered, keep, count in steps:
        sequence, record = sequence + sequence_step, record + record_step
        entries.append(entry_of(sequence, record, origin=origin, redelivered=redelivered, count=count))
        kept.append(keep)
    page = Page.of(entries, kept)
    rows = [entry for entry, keep in zip(entries, kept, strict=True) if not keep]
    assert (page.items, page.rows, page.bytes) == (len(entries), len(rows), 3 * len(rows))
    assert page.redelivered_upto == max([entry.sequence for entry in rows if entry.redelivered], default=0)
    ranges = page.runs.redelivered_ranges()
    marked = [entry.sequence for entry in rows if entry.redelivered]
    assert [sequence for first, last in ranges for sequence in range(first, last + 1)] == marked
    assert all(before[1] + 1 < after[0] for before, after in pairwise(ranges))
    assert page.kept() == [entry for entry, keep in zip(entries, kept, strict=True) if keep]
    assert drain(page, portion) == [
        (entry.sequence, 0, entry, None, False, 0)
        if keep
        else (entry.sequence, entry.message.record, None, entry.message.origin, entry.redelivered, entry.delivery_count)
        for entry, keep in zip(entries, kept, strict=True)
    ]
    assert page.rows == 0


def test_a_queue_that_has_the_log_to_itself_is_one_run():
    page = Page.of([entry_of(n, n + 1000) for n in range(1, PAGE_ITEMS_MAX + 1)], bytearray(PAGE_ITEMS_MAX))
    assert len(page.runs.lengths) == 1


def test_counts_take_nothing_before_the_first_and_nothing_a_row_where_neighbours_have_the_same():
    entries = [entry_of(n, n, redelivered=n > 4, count=n > 4) for n in range(1, 9)]
    page = Page.of(entries[:4], bytearray(4))
    assert page.runs.marks.itemsize == 2
    assert page.extend(entries[4:], bytearray(4))
    assert page.runs.marks.itemsize == 4
    assert list(page.runs.lengths) == [4, 4]
    assert page.peek(8).counts == [0] * 4 + [1] * 4
    assert page.peek(8).counted
    assert not page.peek(4).counted


def test_a_count_that_has_no_room_is_shown_to_browsers_as_the_highest():
    """Such an entry is no row of the queue; a browser notes it as one all the same."""
    page = Page.of([entry_of(1, 1, count=ROW_COUNT_MOST + 1), entry_of(2, 2)], bytearray(2))
    assert page.peek(2).counts == [ROW_COUNT_MOST, 0]
    assert page.peek(2).origins == [ORIGINS[0]] * 2


def test_rows_found_at_start_have_their_counts():
    page = Page.for_rows(range(1, 7), range(11, 17), 0, 6)
    page.add_rows(range(1, 4), range(11, 14), 9, [ORIGINS[0]] * 3, redelivered=True, counts=[2, 2, 2])
    page.add_rows(range(4, 7), range(14, 17), 9, [*ORIGINS[:2], ORIGINS[1]], redelivered=False, counts=bytes([0, 0, 3]))
    assert page.peek(6).counts == [2, 2, 2, 0, 0, 3]
    assert page.peek(6).redelivered == [True] * 3 + [False] * 3
    assert list(page.runs.lengths) == [3, 1, 1, 1]
    assert page.peek(6).origins == [*[ORIGINS[0]] * 4, *[ORIGINS[1]] * 2]


def test_the_stretches_of_rows_that_came_back_are_those_that_are_left():
    marks = [False, True, True, False, True, True, True, True]
    entries = [entry_of(n, n, redelivered=mark) for n, mark in enumerate(marks, 1)]
    page = Page.of(entries, bytearray([0, 0, 0, 0, 0, 1, 0, 0]))
    assert page.runs.redelivered_ranges() == [(2, 3), (5, 5), (7, 8)], "without the entry that stayed one"
    page.take(2)
    page.remove(7)
    assert page.runs.redelivered_ranges() == [(3, 3), (5, 5), (8, 8)]
    page.take(page.items)
    assert page.runs.redelivered_ranges() == []


def test_a_page_of_which_all_came_back_is_one_stretch_wherever_its_records_are():
    entries = [entry_of(n, 2 * n, redelivered=True) for n in range(1, 101)]
    page = Page.of(entries, bytearray(100))
    assert len(page.runs.lengths) == 100
    page.take(3)
    assert page.runs.redelivered_ranges() == [(4, 100)]
    page.remove(50)
    assert page.runs.redelivered_ranges() == [(4, 49), (51, 100)]


def test_the_stretches_of_rows_with_counts_are_those_that_are_left():
    counts = [0, 1, 1, 2, 0, 0, 1, 1]
    page = Page.of([entry_of(n, n, count=count) for n, count in enumerate(counts, 1)], bytearray([0] * 7 + [1]))
    assert page.runs.counted_ranges() == [(2, 3), (4, 4), (7, 7)]
    page.take(2)
    page.remove(4)
    assert page.runs.counted_ranges() == [(3, 3), (7, 7)]
    assert Page.of([entry_of(1, 1)], bytearray(1)).runs.counted_ranges() == []


def test_the_records_from_a_row_on_leave_out_what_was_kept_or_taken():
    page = Page.of([entry_of(n, n + 1000) for n in range(1, 9)], bytearray([0, 0, 0, 1, 0, 1, 0, 0]))
    page.take(2)
    assert page.runs.records_from(0, 3) == ([1003, 1005, 1007], 8)
    assert page.runs.records_from(4, 1) == (range(1005, 1006), 6)
    assert page.runs.records_from(6, 100) == ([1007, 1008], 9)
    assert page.runs.records_from(9, 100) == ([], 9)
    assert page.runs.records_from(0, 0) == ([], 0)


def test_the_ranges_of_records_are_those_of_the_rows_that_are_left():
    entries = [entry_of(n, n + (1000 if n < 7 else 2000)) for n in range(1, 10)]
    page = Page.of(entries, bytearray([0, 0, 0, 1, 0, 0, 0, 0, 0]))
    assert page.runs.record_ranges() == [(1001, 1003), (1005, 1006), (2007, 2009)]
    page.take(2)
    page.remove(8)
    assert page.runs.record_ranges() == [(1003, 1003), (1005, 1006), (2007, 2007), (2009, 2009)]
    page.take(page.items)
    assert page.runs.record_ranges() == []


def test_a_range_of_records_goes_on_behind_a_row_with_another_mark():
    page = Page.of([entry_of(n, n, count=n == 2) for n in range(1, 4)], bytearray(3))
    assert (len(page.runs.lengths), page.runs.record_ranges()) == (3, [(1, 3)])


def test_origins_beyond_the_bound_keep_publisher_and_connection():
    count = len(ORIGINS)
    page = Page.of([entry_of(n + 1, n + 1, origin=n) for n in range(count)], bytearray(count))
    rows = page.peek(count)
    assert rows.partial == [False] * ORIGINS_MAX + [True] * 3
    assert rows.origins[:ORIGINS_MAX] == ORIGINS[:ORIGINS_MAX]
    assert len(set(rows.origins[ORIGINS_MAX:])) == 1, "one for all that share publisher and connection"
    last = rows.origins[-1]
    assert last is not None
    assert (last.publisher, last.view, last.connection) == ("guest@test", VIEW, "connection")


def test_removed_entries_are_let_go_of_and_their_places_stay():
    entries = [entry_of(1, 1), entry_of(2, 0), entry_of(3, 0), entry_of(4, 4)]
    page = Page.of(entries, bytearray([0, 1, 1, 0]))
    entries[1].state = REMOVED
    page.sweep()
    assert page.kept() == [entries[2]]
    assert [kept for _, _, kept, _, _, _ in drain(page, 10)] == [None, None, entries[2], None]


@pytest.mark.parametrize("count", [0, PAGE_ITEMS_MAX + 1])
def test_a_page_has_a_size(count):
    with pytest.raises(AssertionError):
        Page.of([entry_of(n + 1, n + 1) for n in range(count)], bytearray(count))


def test_a_page_takes_no_more_than_its_columns_hold():
    queue, disk = durable_queue(), Disk()
    entries = stored_entries(queue, disk, PAGE_ITEMS_MAX + 1)
    page = Page.of(entries[1:2], bytearray(1))
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
    page = Page.of(entries[:1], bytearray(1))
    for entry in entries[1:]:
        assert page.extend([entry], bytearray(1))
    rows = page.peek(3 * ORIGINS_MAX)
    assert rows.origins[1] is rows.origins[-2] is entries[1].message.origin
    assert (rows.partial[1], rows.partial[-1], rows.partial[-2]) == (False, True, False)
    assert rows.origins[-1].publisher == shared.publisher


@given(
    st.lists(
        st.tuples(
            st.sampled_from([1, 1, 1, 1, 2, 1 << 31]),  # steps of sequence and record
            st.sampled_from([1, 1, 1, 1, 3, 1 << 31]),
            st.sampled_from([0, 0, 0, 1, ORIGINS_MAX + 1]),
        ),
        min_size=1,
        max_size=40,
    ),
    st.integers(1, 12),
)
def test_rows_that_go_in_come_out(steps, portion):
    sequences, records, origins = [4], [1 << 24], []
    for sequence_step, record_step, origin in steps:
        sequences.append(sequences[-1] + sequence_step)
        records.append(records[-1] + record_step)
        origins.append(ORIGINS[origin])
    del sequences[0], records[0]
    page = Page.for_rows(sequences, records, 0, len(records))
    for start in range(0, len(records), portion):
        part = slice(start, start + portion)
        assert page.room_for(sequences[part], records[part], 0, len(records[part])) == PAGE_ITEMS_MAX - start
        page.add_rows(sequences[part], records[part], 7 * len(records[part]), origins[part], redelivered=start > 9)
    assert (page.items, page.rows, page.bytes) == (len(records), len(records), 7 * len(records))
    came_back = [place // portion * portion > 9 for place in range(len(records))]
    assert page.redelivered_upto == (sequences[-1] if came_back[-1] else 0)
    found = drain(page, 7)
    assert found == list(
        zip(sequences, records, [None] * len(records), origins, came_back, [0] * len(records), strict=True)
    )


def test_rows_that_grow_by_one_are_one_run():
    page = Page.for_rows([1], [1], 0, 1)
    for start in range(1, 100, 3):
        page.add_rows(range(start, start + 3), range(start, start + 3), 9, [ORIGINS[0]] * 3, redelivered=False)
    assert len(page.runs.lengths) == 1
    page.add_rows(range(100, 103), range(100, 103), 9, [ORIGINS[1]] * 3, redelivered=False)
    page.add_rows([103, 104, 106], [103, 104, 106], 9, [ORIGINS[1]] * 3, redelivered=False)
    assert list(page.runs.lengths) == [99, 5, 1]


def test_a_page_of_rows_that_is_full_or_far_away_takes_none():
    near, far = [5, 6], [5, 6 + (1 << 32)]
    page = Page.for_rows(near, near, 0, 2)
    assert page.room_for(near, near, 0, 2) == PAGE_ITEMS_MAX
    assert page.room_for(near, far, 0, 2) == page.room_for(far, near, 0, 2) == 0
    assert page.room_for([6], [4], 0, 1) == 0, "older"
    assert Page.for_rows(near, far, 0, 2).room_for(near, far, 0, 2) == PAGE_ITEMS_MAX
    many = range(5, 5 + PAGE_ITEMS_MAX - 1)
    page.add_rows(many, many, 0, [ORIGINS[0]] * len(many), redelivered=False)
    assert page.room_for(many, many, 0, 2) == 1


def test_entries_follow_rows_in_a_page():
    page = Page.for_rows([1], [1], 0, 1)
    page.add_rows([1, 2, 3], [1, 2, 3], 9, [ORIGINS[0]] * 3, redelivered=False)
    assert page.extend([entry_of(4, 4), entry_of(5, 0)], bytearray([0, 1]))
    assert len(page.runs.lengths) == 2
    assert [item[0] for item in drain(page, 2)] == [1, 2, 3, 4, 5]


def test_a_page_of_rows_keeps_as_many_origins_whole_as_any():
    count = 3 * ORIGINS_MAX
    page = Page.for_rows([1], [1], 0, 1)
    origins = [ORIGINS[number % len(ORIGINS)] for number in range(count)]
    page.add_rows(range(1, count + 1), range(1, count + 1), 1, origins, redelivered=False)
    rows = page.peek(count)
    assert rows.partial == [number % len(ORIGINS) >= ORIGINS_MAX for number in range(count)]
    assert rows.origins[len(ORIGINS)] is ORIGINS[0]


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
    page = Page.of(entries, kept)
    page.take(data.draw(st.integers(0, len(entries) - 1)))
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
