"""Entries made of rows are what was put away."""

from __future__ import annotations

from annulet.core.message import Origin
from annulet.residency.loader import entries_of
from annulet.residency.page import ORIGINS_MAX, Page
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
