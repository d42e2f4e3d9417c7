"""The expiry index."""

from __future__ import annotations

from annulet.core.entry import REMOVED, QueueEntry
from annulet.core.expiry import COMPACTION_MINIMUM, ExpiryIndex
from annulet.core.invariants import check_invariants
from annulet.core.reasons import RemovalReason
from annulet.core.sliced import AT_ONCE_MAX, SLICE_MESSAGES
from tests.core.helpers import NOW, RecordingSession, SlicingEffects, make_message, make_queue, queue_of


def indexed(*times):
    index, queue = ExpiryIndex(), make_queue()
    entries = [QueueEntry(queue, make_message(), sequence) for sequence in range(1, len(times) + 1)]
    for at, entry in zip(times, entries, strict=True):
        index.add(at, entry)
    return index, entries


def test_due_entries_come_earliest_first_and_leave_the_index():
    index, entries = indexed(30, 10, 20)
    assert index.next_at() == 10
    assert index.due(9) == []
    assert index.due(20) == [entries[1], entries[2]]
    assert [entry.indexed for entry in entries] == [True, False, False]
    assert index.next_at() == 30


def test_removed_entries_are_not_due_and_do_not_pile_up():
    index, entries = indexed(*range(1, 1001))
    for entry in entries[:-1]:
        entry.state = REMOVED
        index.note_removed()
    assert len(index._heap) <= COMPACTION_MINIMUM + 2
    assert index.due(2000) == [entries[-1]]
    assert index.next_at() == 0


def test_very_many_that_expire_at_once_go_in_slices_and_nothing_is_dispatched_meanwhile():
    effects = SlicingEffects()
    queue = queue_of(effects)
    count = AT_ONCE_MAX + 3 * SLICE_MESSAGES
    for number in range(count):
        queue.enqueue(make_message(str(number), expires_at=NOW + 1), NOW)
    queue.enqueue(make_message("lives"), NOW)
    assert queue.tick(NOW + 1) == AT_ONCE_MAX
    session = RecordingSession()
    session.consume(queue, now=NOW + 1)
    turns = 0
    while effects.works:
        assert session.received == []
        check_invariants(queue)
        effects.turn(NOW + 1)
        turns += 1
    assert turns == 3
    assert session.received == ["lives"]
    assert queue.counters.removed[RemovalReason.EXPIRED] == count
    assert queue.ledger.total == count
    check_invariants(queue)


def test_a_consumer_that_comes_before_the_tick_waits_for_the_slices_too():
    effects = SlicingEffects()
    queue = queue_of(effects)
    for _ in range(AT_ONCE_MAX + 2):
        queue.enqueue(make_message("old", expires_at=NOW + 1), NOW)
    queue.enqueue(make_message("lives"), NOW)
    queue.pause(NOW)
    session = RecordingSession()
    session.consume(queue)
    queue.paused = False
    queue.update_gate(NOW)
    queue.wake(NOW + 1)
    assert (session.received, queue.halted) == ([], True)
    effects.turns(NOW + 1)
    assert (session.received, queue.halted) == (["lives"], False)


def test_who_asks_for_messages_has_all_that_expired_removed_first():
    effects = SlicingEffects()
    queue = queue_of(effects)
    for _ in range(AT_ONCE_MAX + 2):
        queue.enqueue(make_message("old", expires_at=NOW + 1), NOW)
    queue.enqueue(make_message("lives"), NOW)
    queue.tick(NOW + 1)
    assert [entry.message.body for entry in queue.acquire(2, -1, NOW + 1)] == [b"lives"]
    assert effects.turns(NOW + 1) == 1
    assert not queue.halted


def test_a_ring_and_a_queue_that_is_deleted_wait_for_no_slice():
    effects = SlicingEffects()
    ring, queue = queue_of(effects, ring_size=9999), queue_of(effects)
    for one in (ring, queue):
        for _ in range(AT_ONCE_MAX + 2):
            one.enqueue(make_message("old", expires_at=NOW + 1), NOW)
        one.tick(NOW + 1)
    assert ring.order.count == 0
    assert len(effects.works) == 1
    queue.delete(NOW + 1)
    effects.turns(NOW + 1)
    assert queue.order.count == 0


def test_a_defect_while_many_expire_stops_nobody():
    effects = SlicingEffects()
    queue = queue_of(effects)
    for _ in range(AT_ONCE_MAX + 2):
        queue.enqueue(make_message("old", expires_at=NOW + 1), NOW)
    queue.tick(NOW + 1)
    effects.works.pop().abandon(NOW + 1)
    assert not queue.halted
    assert queue.tick(NOW + 1) == 2
