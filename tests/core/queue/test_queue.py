"""What a queue does beside the scenarios: resizing, recovery, expiry of what waits or returns, shared credit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.settings import QueueSettings
from annulet.core.queue.invariants import check_invariants
from tests.core.helpers import (
    NOW,
    RecordingEffects,
    RecordingSession,
    make_message,
    make_queue,
    pending,
    queue_of,
    removed,
    send,
)

RING = RemovalReason.REPLACED_RING
KEY = RemovalReason.REPLACED_KEY


def resize(queue, size, *, trim_now=False):
    queue.update(QueueSettings(ring_size=size, ring_trim_now=trim_now), NOW)


def test_lowering_trims_nothing_unless_told_to():
    queue = make_queue(ring=10)
    send(queue, *"abcdefghij")
    resize(queue, 3)
    send(queue, "k")
    assert queue.order.count == 10
    resize(queue, 3, trim_now=True)
    assert pending(queue) == ["i", "j", "k"]


def test_only_the_last_stored_value_comes_back():
    queue = make_queue(key="k")
    for sequence, body in enumerate(["a1", "a2"], 1):
        queue.restore(make_message(body, k="a"), sequence, redelivered=True)
    queue.finish_restore(7)
    assert pending(queue) == ["a2"]
    assert send(queue, "a3")[0].sequence == 7
    assert pending(queue) == ["a3"]
    check_invariants(queue)


def test_an_old_value_does_not_come_back_even_if_the_newer_one_is_gone():
    queue, session = make_queue(key="k"), RecordingSession()
    send(queue, "a1")
    session.get(queue, NOW, auto_acknowledge=False)
    send(queue, "a2")
    session.get(queue, NOW, auto_acknowledge=True)
    session.close(NOW)
    assert (pending(queue), removed(queue, KEY), queue.statistics().key_count) == ([], 1, 0)


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


def test_the_next_active_consumer_is_chosen_when_the_last_delivery_of_the_former_is_settled():
    queue = queue_of(single_active_consumer=True)
    former, oldest, highest = (RecordingSession(name) for name in ("former", "oldest", "highest"))
    former.consume(queue)
    send(queue, "a")
    oldest.consume(queue)
    former.detach("c", NOW)
    former.acknowledge(1, NOW)  # nothing waits; the choice is made all the same
    highest.consume(queue, priority=2)
    send(queue, "b")
    assert (oldest.received, highest.received) == (["b"], [])


def test_taking_away_the_limit_that_blocked_publishers_lets_them_go_on():
    effects = RecordingEffects()
    queue = queue_of(effects, max_length=1, overflow="block")
    send(queue, "a", "b")
    queue.update(replace(queue.settings, max_length=-1), NOW)
    assert effects.blocked == [("q", True), ("q", False)]
    assert not queue.blocked


def test_taking_away_the_gate_opens_it():
    queue, session = queue_of(consumers_before_dispatch=3), RecordingSession()
    session.consume(queue)
    send(queue, "a")
    queue.update(replace(queue.settings, consumers_before_dispatch=0), NOW)
    assert session.received == ["a"]


def test_taking_away_the_pause_of_a_rebalance_ends_it():
    queue, one, two = (
        queue_of(group_mode="sticky", group_rebalance=True, group_rebalance_pause=True),
        RecordingSession("1"),
        RecordingSession("2"),
    )
    one.consume(queue, messages=1)
    queue.enqueue(make_message("a", JMSXGroupID="g"), NOW)
    two.consume(queue)
    queue.enqueue(make_message("b", JMSXGroupID="g"), NOW)
    assert two.received == []
    queue.update(replace(queue.settings, group_rebalance_pause=False), NOW)
    assert two.received == ["b"]


def sent(queue, number):
    priority, group = (number * 7) % 3, f"g{number % 3}"
    fields = {"group": group, "k": f"k{number}", "s": (number * 5) % 8}
    return queue.enqueue(make_message(str(number), priority=priority, accepted_at=NOW + number, **fields), NOW + number)


KINDS = (
    {},
    {"priorities": 3},
    {"priorities": 3, "priority_discipline": "ageing", "priority_age": 1},
    {"sort_key": "s"},
    {"last_value_key": "k"},
    {"last_value_key": "k", "last_value_place": "keep-place"},
    {"ring_size": 20},
    {"max_length": 20, "overflow": "ring", "evict": "newest"},
    {"group_mode": "shared", "group_key": "group"},
    {"fair_key": "group"},
    {"non_destructive": True},
)


@pytest.mark.parametrize("kind", KINDS, ids=repr)
@pytest.mark.parametrize("attached", [False, True])
def test_what_is_put_back_stands_where_it_would_if_it_had_never_left(kind, attached):
    queues = [queue_of(**kind) for _ in range(2)]
    sessions = [RecordingSession() for _ in queues]
    if attached:  # restricted consumers split the order into lanes
        for queue, session in zip(queues, sessions, strict=True):
            session.consume(queue, "none", messages=0, selector="k = 'none'")
    for queue in queues:
        for number in range(1, 9):
            sent(queue, number)
    queue = queues[0]
    taken = [entry for entry in queue.order.entries() if entry.sequence % 3]
    for entry in taken:
        queue.remove(entry, RemovalReason.DELETED, NOW + 9)
    for each in queues:
        sent(each, 10)
        sent(each, 11)
    for entry in reversed(taken):
        message = make_message(
            entry.message.body,
            priority=entry.message.priority,
            accepted_at=NOW + 12,
            **entry.message.origin.view.application,
        )
        assert queue.put_back(message, entry.sequence, entry.message.accepted_at, NOW + 12).sequence == entry.sequence
        check_invariants(queue)
    assert [(entry.sequence, entry.rank) for entry in sorted(queue.order.entries())] == [
        (entry.sequence, entry.rank) for entry in sorted(queues[1].order.entries())
    ]
    for each, session in zip(queues, sessions, strict=True):
        session.consume(each, "all", messages=5)
    if "fair_key" not in kind:  # the key of which none left has its turn first
        assert sessions[0].received == sessions[1].received
    assert len(sessions[0].received) == 5
    check_invariants(queue)


def test_a_scheduled_message_that_is_put_back_waits_for_its_time():
    queue = queue_of()
    entry = queue.enqueue(make_message("a", deliver_at=NOW + 10), NOW)
    send(queue, "b")
    queue.remove(entry, RemovalReason.DELETED, NOW)
    queue.put_back(make_message("a", deliver_at=NOW + 10), 1, NOW, NOW)
    assert (pending(queue), queue.schedule.count) == (["b"], 1)
    queue.tick(NOW + 10)
    assert pending(queue) == ["a", "b"]
    check_invariants(queue)


def test_a_follower_sees_what_is_put_back_and_a_snapshot_does_not():
    queue, session = queue_of(), RecordingSession()
    first, _ = send(queue, "a", "b")
    queue.remove(first, RemovalReason.DELETED, NOW)
    session.consume(queue, "follows", browse="follow")
    session.consume(queue, "looks", browse="snapshot")
    queue.put_back(make_message("a"), 1, NOW, NOW)
    assert session.by_consumer == {"follows": ["b", "a"], "looks": ["b"]}


def test_an_id_that_no_arrival_has_had_is_used_up_by_what_is_put_back():
    queue = queue_of()
    queue.put_back(make_message("a"), 7, NOW, NOW)
    send(queue, "b")
    assert [entry.sequence for entry in queue.order.entries()] == [7, 8]


def test_expired_messages_are_not_put_back():
    queue = queue_of()
    queue.put_back(make_message("a", expires_at=NOW), 1, NOW, NOW)
    assert (pending(queue), removed(queue, RemovalReason.EXPIRED)) == ([], 1)
    check_invariants(queue)
