"""Queue behaviour by scenario. R and L numbers are those of the ring and last-value tables of the specification."""

from __future__ import annotations

from annulet.core.invariants import check_invariants
from annulet.core.reasons import RemovalReason
from annulet.core.settings import QueueSettings
from annulet.core.transaction import Transaction
from annulet.core.virtual_host import VirtualHost
from tests.core.helpers import (
    NOW,
    RecordingEffects,
    RecordingSession,
    make_message,
    make_queue,
    pending,
    removed,
    send,
)

RING = RemovalReason.REPLACED_RING
KEY = RemovalReason.REPLACED_KEY


def resize(queue, size, *, trim_now=False):
    queue.update(QueueSettings(ring_size=size, ring_trim_now=trim_now), NOW)


def test_r1_ring_of_one_keeps_the_newest():
    queue, session = make_queue(ring=1), RecordingSession()
    for turn in range(1, 251):
        send(queue, "h0")
        assert queue.order.count == 1
        send(queue, "h1")
        assert (queue.order.count, removed(queue, RING)) == (1, turn)
        entry, _ = session.get(queue, NOW, auto_acknowledge=True)
        assert entry.message.body == b"h1"


def test_r2_uncommitted_acknowledgement_counts_as_in_delivery():
    queue, session = make_queue(ring=1), RecordingSession()
    host = VirtualHost("/", queue.effects)
    send(queue, "h0")
    transaction = Transaction(session)
    transaction.acknowledge(session.get(queue, NOW, auto_acknowledge=False)[1])
    send(queue, "h1")
    assert (len(queue.delivering), removed(queue, RING), queue.statistics().message_count) == (1, 0, 2)
    transaction.rollback()
    session.close(NOW)
    assert (len(queue.delivering), removed(queue, RING), pending(queue)) == (0, 1, ["h1"])
    other = RecordingSession()
    transaction = Transaction(other)
    transaction.acknowledge(other.get(queue, NOW, auto_acknowledge=False)[1])
    transaction.commit(host, NOW)
    assert removed(queue, RemovalReason.ACKNOWLEDGED) == 1
    check_invariants(queue)


def test_r3_what_a_waiting_consumer_took_is_dropped_when_it_closes():
    queue, session = make_queue(ring=1), RecordingSession()
    session.consume(queue)
    send(queue, "h0", "h1")
    assert queue.statistics().message_count == queue.statistics().delivering_count == 2
    session.close(NOW)
    assert (pending(queue), removed(queue, RING)) == (["h1"], 1)


def test_r6_r7_r8_resizing_never_trims_and_growth_gives_room():
    queue, session = make_queue(), RecordingSession()

    def consume(count):
        for _ in range(count):
            session.get(queue, NOW, auto_acknowledge=True)

    send(queue, *["m"] * 100)
    resize(queue, 10)
    assert queue.order.count == 100
    consume(95)
    send(queue, *["m"] * 5)
    assert (queue.order.count, removed(queue, RING)) == (10, 0)
    send(queue, *["m"] * 5)
    assert (queue.order.count, removed(queue, RING)) == (10, 5)
    consume(1)
    resize(queue, 5)
    consume(4)
    assert queue.order.count == 5
    send(queue, "m")
    assert (queue.order.count, removed(queue, RING)) == (5, 6)
    resize(queue, 10)
    send(queue, *["m"] * 5)
    assert queue.order.count == 10
    send(queue, "m")
    assert (queue.order.count, removed(queue, RING)) == (10, 7)


def test_r12_ring_keeps_the_last_three():
    queue = make_queue(ring=3)
    send(queue, "A", "B", "C", "D")
    assert pending(queue) == ["B", "C", "D"]


def test_r13_returned_messages_fill_the_ring_newest_first():
    queue, session = make_queue(ring=3), RecordingSession()
    session.consume(queue)
    send(queue, "A", "B", "C", "D")
    assert queue.statistics().message_count == 4
    session.close(NOW)
    assert (pending(queue), removed(queue, RING)) == (["B", "C", "D"], 1)


def test_r15_a_commit_of_five_leaves_the_last_three_and_a_rollback_nothing():
    host = VirtualHost("/", RecordingEffects())
    queue = host.declare_queue("q", now=NOW, arguments={"x-ring-size": 3})
    transaction = Transaction(RecordingSession())
    for body in "ABCDE":
        transaction.send(make_message(body), host.route("", "q"))
    transaction.rollback()
    assert transaction.empty
    assert queue.counters.as_dict() == {
        "messages_added": 0,
        "bytes_added": 0,
        "messages_delivered": 0,
        "messages_returned": 0,
        "messages_browsed": 0,
        "bytes_removed": 0,
    }
    for body in "ABCDE":
        transaction.send(make_message(body), host.route("", "q"))
    assert queue.order.count == 0
    transaction.commit(host, NOW)
    assert pending(queue) == ["C", "D", "E"]
    assert (queue.counters.messages_added, removed(queue, RING)) == (5, 2)


def test_r16_what_is_pending_stays_when_older_messages_return():
    queue, session = make_queue(ring=3), RecordingSession()
    session.consume(queue, messages=4)
    send(queue, "A", "B", "C", "D", "E")
    session.close(NOW)
    assert (pending(queue), removed(queue, RING)) == (["C", "D", "E"], 2)


def test_r17_lowering_trims_nothing_unless_told_to():
    queue = make_queue(ring=10)
    send(queue, *"abcdefghij")
    resize(queue, 3)
    send(queue, "k")
    assert queue.order.count == 10
    resize(queue, 3, trim_now=True)
    assert pending(queue) == ["i", "j", "k"]


def test_r18_key_is_replaced_before_the_ring_applies():
    queue = make_queue(ring=2, key="k")
    send(queue, "A1", "B1", "B2")
    assert pending(queue) == ["A1", "B2"]


def test_r22_a_released_message_obeys_the_ring():
    queue = make_queue(ring=2)
    send(queue, "A")
    taken = queue.acquire(1, -1, NOW)
    send(queue, "B", "C")
    queue.return_entries(taken, NOW, counted=False)
    assert pending(queue) == ["B", "C"]
    assert taken[0].delivery_count == 0


def test_l1_newer_value_replaces():
    queue = make_queue(key="k")
    send(queue, "a1", "a2")
    assert (pending(queue), queue.counters.messages_added, removed(queue, KEY)) == (["a2"], 2, 1)


def test_l3_only_the_last_stored_value_comes_back():
    queue = make_queue(key="k")
    for sequence, body in enumerate(["a1", "a2"], 1):
        queue.restore(make_message(body, k="a"), sequence, redelivered=True)
    queue.finish_restore(7)
    assert pending(queue) == ["a2"]
    assert send(queue, "a3")[0].sequence == 7
    assert pending(queue) == ["a3"]
    check_invariants(queue)


def test_l4_each_key_keeps_its_last():
    queue = make_queue(key="k")
    send(queue, "a1", "b2", "a3", "b4")
    assert (pending(queue), removed(queue, KEY)) == (["a3", "b4"], 2)


def test_l5_without_key_nothing_is_replaced():
    queue = make_queue(key="other")
    send(queue, "a1", "a2")
    assert pending(queue) == ["a1", "a2"]


def test_l7_an_old_value_in_delivery_can_be_acknowledged():
    queue, session = make_queue(key="k"), RecordingSession()
    send(queue, "a1")
    _, tag = session.get(queue, NOW, auto_acknowledge=False)
    send(queue, "a2")
    session.acknowledge(tag, NOW)
    assert (pending(queue), removed(queue, KEY)) == (["a2"], 0)


def test_l8_l9_superseded_values_do_not_come_back():
    queue, session = make_queue(key="k"), RecordingSession()
    session.consume(queue)
    send(queue, *[f"a{number}" for number in range(1, 7)])
    session.close(NOW)
    assert (pending(queue), removed(queue, KEY)) == (["a6"], 5)


def test_an_old_value_does_not_come_back_even_if_the_newer_one_is_gone():
    queue, session = make_queue(key="k"), RecordingSession()
    send(queue, "a1")
    session.get(queue, NOW, auto_acknowledge=False)
    send(queue, "a2")
    session.get(queue, NOW, auto_acknowledge=True)
    session.close(NOW)
    assert (pending(queue), removed(queue, KEY), queue.statistics().key_count) == ([], 1, 0)


def test_l10_keys_apply_at_commit():
    host = VirtualHost("/", RecordingEffects())
    queue = host.declare_queue("q", now=NOW, arguments={"x-last-value-key": "k"})
    transaction = Transaction(RecordingSession())
    for body in ["a1", "b2", "a3", "b4"]:
        transaction.send(make_message(body, k=body[0]), host.route("", "q"))
    transaction.commit(host, NOW)
    assert pending(queue) == ["a3", "b4"]


def test_l11_l13_deleting_everything_leaves_no_key():
    queue = make_queue(key="k")
    send(queue, "a1", "b1")
    assert queue.purge(NOW) == 2
    statistics = queue.statistics()
    assert (statistics.message_count, statistics.delivering_count, statistics.key_count) == (0, 0, 0)
    send(queue, "a2")
    assert pending(queue) == ["a2"]


def test_a_message_handed_over_on_arrival_expires_after_it_came_back():
    queue, session = make_queue(), RecordingSession()
    session.consume(queue, messages=1)
    queue.enqueue(make_message("A", expires_at=NOW + 10), NOW)
    session.close(NOW)
    assert queue.next_due_at() == NOW + 10
    assert queue.expire(NOW + 10) == 1
    assert removed(queue, RemovalReason.EXPIRED) == 1


def test_a_new_time_to_live_applies_to_what_waits():
    queue = make_queue()
    send(queue, "A")
    queue.update(QueueSettings(message_ttl=5), NOW)
    assert queue.next_due_at() == NOW + 5
    queue.update(QueueSettings(), NOW)
    assert (queue.next_due_at(), queue.expire(NOW + 5), pending(queue)) == (0, 0, ["A"])


def test_time_to_live_of_zero_that_replaces_a_blocking_head_frees_what_waits_behind_it():
    queue, session = make_queue(key="k"), RecordingSession()
    session.consume(queue, octets=4)
    send(queue, "c12", "a12", "b")
    assert session.received == ["c12"]
    queue.enqueue(make_message("a99", expires_at=NOW, k="a"), NOW)
    assert session.received == ["c12", "b"]
    assert removed(queue, RemovalReason.EXPIRED) == 1


def test_what_expired_does_not_count_for_the_ring():
    queue = make_queue(ring=2)
    send(queue, "A")
    queue.enqueue(make_message("B", expires_at=NOW + 1), NOW)
    send(queue, "C", now=NOW + 1)
    assert pending(queue) == ["A", "C"]


def test_deleting_a_queue_frees_shared_credit_for_other_queues():
    first, second, session = make_queue(), make_queue(name="other"), RecordingSession()
    session.set_window(1, -1, NOW)
    session.consume(first, "1")
    session.consume(second, "2")
    send(first, "A")
    send(second, "B")
    assert session.received == ["A"]
    first.delete(NOW)
    assert session.received == ["A", "B"]
    assert first.effects.cancelled == ["1"]


def test_closing_a_consumer_frees_shared_credit_for_other_queues():
    first, second, session = make_queue(), make_queue(name="other"), RecordingSession()
    session.set_window(1, -1, NOW)
    session.consume(first, "1")
    session.consume(second, "2")
    send(first, "A")
    send(second, "B")
    session.close_consumer("1", NOW)
    assert (pending(first), session.received) == (["A"], ["A", "B"])
