"""Every entry is in one place, and every count says so."""

from __future__ import annotations

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.queue.entries import DUE_PLACES_FROM
from annulet.core.queue.invariants import check_invariants
from tests.core.helpers import NOW, RecordingEffects, RecordingSession, make_message, queue_of, send


def test_bytes_and_messages_balance_over_all_states():
    queue, session = queue_of(max_length=5, overflow="ring"), RecordingSession()
    session.consume(queue, messages=2)
    send(queue, "aa", "bb", "cc")
    queue.enqueue(make_message("later", deliver_at=NOW + 10), NOW)
    statistics = queue.statistics()
    assert (statistics.message_count, statistics.pending_count) == (4, 1)
    assert (statistics.delivering_count, statistics.scheduled_count) == (2, 1)
    session.acknowledge(1, NOW)
    check_invariants(queue)
    assert queue.purge(NOW) == 1
    check_invariants(queue)
    assert queue.counters.bytes_removed == len("aa" + "later")


def test_the_simple_way_is_for_queues_without_surprises():
    assert queue_of(ring_size=5, last_value_key="k", message_ttl=10).simple
    for settings in (
        {"priorities": 5},
        {"max_length": 1, "overflow": "ring"},
        {"group_mode": "sticky"},
        {"non_destructive": True},
        {"in_flight_max": 1},
        {"consumers_before_dispatch": 2},
        {"purge_on_no_consumers": True},
        {"ring_size": 5, "evict": "newest"},
    ):
        assert not queue_of(**settings).simple, settings


def test_due_messages_stand_before_every_sequence():
    queue = queue_of()
    entry = queue.enqueue(make_message("x", deliver_at=NOW + 1), NOW)
    queue.tick(NOW + 1)
    assert entry.place == DUE_PLACES_FROM < 0
    assert entry.sequence == 1


def test_losses_are_recorded_and_other_removals_reported():
    effects = RecordingEffects()
    queue = queue_of(effects)
    first, second = send(queue, "a", "b")
    queue.remove(first, RemovalReason.DELETED, NOW)
    queue.remove(second, RemovalReason.MOVED, NOW)
    assert [record.reason for record in queue.ledger.query()] == [RemovalReason.DELETED]
    assert effects.losses == [("q", "a", RemovalReason.DELETED), ("q", "b", RemovalReason.MOVED)]
