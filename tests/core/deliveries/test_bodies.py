"""Whose bodies are in memory: one message in several queues, and everybody who holds one."""

from __future__ import annotations

import pytest

from annulet.core.base.errors import ContentUnavailable, PreconditionFailed
from annulet.core.deliveries.bodies import bring_back, exchange, let_go, pin, send_away, unpin
from annulet.core.model.entry import QueueEntry
from annulet.core.queue.live_changes import revise_delivering
from annulet.core.queue.queue import Queue
from annulet.residency.bodies.budget import drift_of
from tests.core.helpers import NOW, RecordingSession, make_message
from tests.residency.doubles import Disk, bodies_of, durable_queue, filled

ALL = 1 << 60


def shared(disk: Disk) -> tuple[list[Queue], list[QueueEntry]]:
    """One message in two queues."""
    queues = [durable_queue(priorities=3), durable_queue()]
    message = make_message(b"once")
    entries = []
    for queue in queues:
        bodies_of(queue, disk)
        entry = QueueEntry(queue, message, 1)
        queue.ranker.assign(entry, NOW)
        queue.insert(entry, arrival=True)
        entries.append(entry)
    disk.store(queues[0], message, 1)
    return queues, entries


def account(queue: Queue) -> tuple[int, int]:
    assert queue.bodies is not None
    return queue.bodies.count, queue.bodies.bytes


def test_a_body_leaves_when_no_queue_wants_it():
    queues, entries = shared(Disk())
    message = entries[0].message
    send_away(entries[0], queues[0].bodies)
    assert not message.absent
    assert (account(queues[0]), account(queues[1])) == ((1, 4), (0, 0))
    send_away(entries[1], queues[1].bodies)
    assert message.absent
    assert message.size == 4
    assert message.body == b"once"
    assert message.absent, "who only looks does not keep it"


def test_a_body_that_another_queue_has_is_not_read():
    disk = Disk()
    queues, entries = shared(disk)
    send_away(entries[0], queues[0].bodies)
    assert queues[0].bring(entries[0])
    assert (account(queues[0]), disk.reads, entries[0].away) == ((0, 0), [], False)


def test_a_body_leaves_after_the_last_that_wanted_it_was_removed():
    queues, entries = shared(Disk())
    message = entries[0].message
    send_away(entries[0], queues[0].bodies)
    session = RecordingSession()
    session.consume(queues[1])
    session.acknowledge(1, NOW)
    assert not message.absent, "who was just given it may be looking"
    queues[0].bodies.store.drop_orphans()
    assert message.absent
    session.consume(queues[0], "d")
    assert session.received == ["once", "once"]


def test_a_body_that_somebody_wants_again_does_not_leave():
    queues, entries = shared(Disk())
    send_away(entries[0], queues[0].bodies)
    queues[1].purge(NOW)
    bring_back(entries[0], queues[0].bodies)
    queues[0].bodies.store.drop_orphans()
    assert not entries[0].message.absent


def test_who_leaves_is_counted_no_more():
    queues, entries = shared(Disk())
    for entry, queue in zip(entries, queues, strict=True):
        send_away(entry, queue.bodies)
    let_go(entries[1])
    assert (account(queues[1]), entries[0].message.away, entries[0].message.near) == ((0, 0), 1, 0)
    exchange(entries[0], make_message(b"another"))
    assert (account(queues[0]), entries[0].message.near, entries[0].away) == ((0, 0), 1, False)


def test_pinned_bodies_outlive_their_entries_and_leave_afterwards():
    queue, disk = durable_queue(), Disk()
    messages = [entry.message for entry in filled(queue, disk, 5)]
    bodies = bodies_of(queue, disk)
    bodies.let_all_go(ALL)
    pin(queue, messages)
    disk.failing = True
    assert [int(message.body) for message in messages] == [1, 2, 3, 4, 5]
    bodies.let_all_go(ALL)
    assert not any(message.absent for message in messages)
    unpin(messages)
    bodies.store.drop_orphans()
    assert all(message.absent for message in messages)


def test_nothing_is_pinned_when_one_cannot_be_read_or_all_are_too_many():
    queue, disk = durable_queue(), Disk()
    entries = filled(queue, disk, 3)
    messages = [entry.message for entry in entries]
    bodies = bodies_of(queue, disk)
    bodies.let_all_go(ALL)
    disk.damaged = {messages[2].record}
    with pytest.raises(ContentUnavailable, match="its record is damaged; see the broker's log"):
        pin(queue, messages)
    assert [message.near for message in messages] == [0, 0, 0]
    bodies.store.drop_orphans()
    bodies.store.room = lambda: 29
    with pytest.raises(PreconditionFailed, match="3 bodies are on disk only and take 30 bytes in memory"):
        pin(queue, messages)


def test_a_changed_message_is_in_memory():
    queue, disk = durable_queue(priorities=10, priority_discipline="ageing"), Disk()
    (entry,) = filled(queue, disk, 1)
    bodies = bodies_of(queue, disk)
    bodies.let_all_go(ALL)
    replacement = queue.reprioritise(entry, 9, NOW)
    assert replacement is not None
    assert not replacement.message.absent
    assert replacement.message.body == b"%010d" % 1
    assert account(queue) == (0, 0)


def test_a_delivery_that_is_rejected_with_a_reason_is_not_read():
    queue, disk = durable_queue(), Disk()
    (entry,) = filled(queue, disk, 1)
    RecordingSession().consume(queue)
    bodies = bodies_of(queue, disk)
    bodies.let_all_go(ALL)
    disk.failing = True
    revise_delivering(entry, {"why": "because"}, stored=False)
    assert b"because" in entry.message.header
    assert (entry.away, entry.message.absent, entry.message.size, account(queue)) == (True, True, 10, (1, 10))
    with pytest.raises(ContentUnavailable):
        revise_delivering(entry, {"why": "another"})
    assert b"another" not in entry.message.header
    disk.failing = False
    assert int(entry.message.body) == 1
    revise_delivering(entry, {"why": "another"})
    assert (entry.away, entry.message.absent, account(queue), drift_of(queue)) == (False, False, (0, 0), 0)
