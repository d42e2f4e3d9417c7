"""Entries made of rows are what was put away."""

from __future__ import annotations

from annulet.core.message.message import Origin
from annulet.residency.loading.loader import (
    entries_of,
    fitting,
    plain_entries_of,
    run_entries_of,
    unread_entries_of,
    with_needles,
)
from annulet.residency.rows.page import ORIGINS_MAX, Page
from tests.core.helpers import TableView
from tests.residency.doubles import Disk, durable_queue, stored_entries


def loaded(entries, disk, queue):
    page = Page.of(entries, bytearray(len(entries)))
    rows = page.peek(len(entries))
    return entries_of(queue, rows, disk.read(rows.records))


def test_a_message_comes_back_as_it_was():
    queue, disk = durable_queue(), Disk()
    (entry,) = stored_entries(queue, disk, 1)
    (found,), size = loaded([entry], disk, queue)
    message, former = found.message, entry.message
    assert found is not entry
    assert size == len(message.body)
    assert (found.queue, found.sequence, found.place, found.state) == (queue, 1, 1, entry.state)
    assert (message.header, message.body, message.record) == (former.header, former.body, former.record)
    assert (message.priority, message.accepted_at, message.durable) == (former.priority, former.accepted_at, True)
    assert (message.expires_at, message.deliver_at) == (0, 0)
    assert message.origin is former.origin, "with the connection that no-local asks for"


def test_of_many_origins_the_rest_is_read():
    queue, disk = durable_queue(), Disk()
    entries = stored_entries(queue, disk, ORIGINS_MAX + 20)
    view = entries[0].message.origin.view
    for number, entry in enumerate(entries):
        entry.message.origin = Origin("e", f"key {number // 10}", "p", view, "connection")
        disk.store(queue, entry.message, entry.sequence)
    found, _ = loaded(entries, disk, queue)
    origins = [entry.message.origin for entry in found]
    assert [origin.routing_key for origin in origins] == [f"key {number // 10}" for number in range(len(entries))]
    assert {(origin.exchange, origin.publisher, origin.view, origin.connection) for origin in origins} == {
        ("e", "p", view, "connection")
    }
    assert len(set(origins[ORIGINS_MAX:])) == 3, "shared again by messages of the same key"


def test_damaged_and_foreign_records_give_no_entry():
    queue, disk = durable_queue(), Disk()
    entries = stored_entries(queue, disk, 4)
    disk.damaged = {entries[0].message.record}
    disk.stored[entries[2].message.record].targets[:] = [(queue.queue_id, 99), (queue.queue_id + 1, 3)]
    found, size = loaded(entries, disk, queue)
    assert [entry.sequence for entry in found] == [2, 4]
    assert size == 20


def test_kept_entries_are_among_those_a_read_brings():
    queue, disk = durable_queue(), Disk()
    entries = stored_entries(queue, disk, 6, size=10)
    rows = Page.of(entries, bytearray([1, 0, 0, 1, 0, 1])).peek(6)
    assert [len(fitting(disk, rows, size)) for size in (1, 10, 19, 20, 29, 30)] == [2, 2, 2, 4, 4, 6]
    first = fitting(disk, rows, 20)
    assert (first.sequences, first.records, first.kept) == (rows.sequences[:4], rows.records[:4], rows.kept[:4])
    assert list(first.each()) == list(rows.each())[:4]
    rows = Page.of(entries, bytearray([1] * 6)).peek(6)
    assert fitting(disk, rows, 1) is rows


def test_needles_leave_out_what_cannot_match_and_keep_what_is_unknown():
    verbatim, other = TableView({}), TableView({})
    verbatim.verbatim_texts = True
    queue, disk = durable_queue(), Disk()
    entries = stored_entries(queue, disk, 6)
    for entry, header, view in zip(
        entries,
        (b"north", b"south", b"south", b"west", b"", b"south"),
        (verbatim,) * 3 + (verbatim, other, verbatim),
        strict=True,
    ):
        entry.message.header = header
        entry.message.origin = Origin("", "q", "guest@test", view)
        disk.store(queue, entry.message, entry.sequence)
    page = Page.of(entries, bytearray([0, 0, 1, 0, 0, 0]))
    rows = page.peek(6)
    stored = disk.read([record for record in rows.records if record])
    stored[-1] = None  # damaged: it has to be noticed
    left, kept = with_needles(rows, stored, [[b"nor", b"th"], [b"we"], [b"so", b"north"]])
    assert left.sequences == [entries[place].sequence for place in (0, 2, 3, 4, 5)]
    assert [None if found is None else found.header for found in kept] == [b"north", b"west", b"", None]
    assert len(left) == len(left.kept) == len(left.origins) == len(left.partial) == len(left.redelivered)


def test_counts_come_back_however_the_row_is_read():
    queue, disk = durable_queue(), Disk()
    entries = stored_entries(queue, disk, 4)
    for entry, count in zip(entries, (0, 1, 3, 0), strict=True):
        entry.delivery_count, entry.redelivered = count, count > 0
    rows = Page.of(entries, bytearray(4)).peek(4)
    origins = [entry.message.origin for entry in entries]
    messages = disk.messages(queue.queue_id, rows.records, rows.sequences, origins)
    messages[0] = None
    for found in (loaded(entries, disk, queue)[0][1:], plain_entries_of(queue, rows, messages)[0],
                  unread_entries_of(queue, rows)[1:]):  # fmt: skip
        assert [(entry.delivery_count, entry.redelivered) for entry in found] == [(1, True), (3, True), (0, False)]
    left, _ = with_needles(rows, disk.read(rows.records), [])
    assert (left.counts, left.sequences) == ([0, 1, 3, 0], [1, 2, 3, 4])


def test_a_run_of_rows_is_the_entries_it_was_but_for_what_is_damaged():
    queue, disk = durable_queue(), Disk()
    rows = Page.of(stored_entries(queue, disk, 4), bytearray(4)).peek(4)
    messages = disk.messages(queue.queue_id, rows.records, rows.sequences, list(rows.origins))
    messages[1] = None
    found, size = run_entries_of(queue, messages, 1, redelivered=True, count=2)
    assert [(entry.sequence, entry.redelivered, entry.delivery_count) for entry in found] == [
        (1, True, 2),
        (3, True, 2),
        (4, True, 2),
    ]
    assert [entry.message for entry in found] == [messages[0], *messages[2:]]
    assert size == sum(entry.message.size for entry in found)
