"""What each operation does to messages, and which it passes over."""

from __future__ import annotations

import pytest

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.management import (
    cancel_scheduled,
    change_priority,
    delete_messages,
    deliver_scheduled,
    expire_messages,
    purge,
    select,
    send_to_dead_letters,
)
from annulet.core.queue.invariants import check_invariants
from tests.core.helpers import NOW, RecordingSession, pending, removed
from tests.core.management.bench import Bench, bodies, letter, run

ALL = select(everything=True)


@pytest.mark.parametrize("selection", [select(ids=[2, 3]), select(selector="k = 'b' OR k = 'c'")])
def test_deleted_messages_have_one_reason_however_they_were_selected(selection):
    bench = Bench()
    queue = bench.queue()
    bench.send(queue, "a", "b", "c", "d")
    operation = delete_messages(bench.host, queue, selection, user="anna", now=NOW)
    run(operation)
    assert (bodies(queue), operation.done, list(operation.ids)) == ("ad", 2, [2, 3])
    assert removed(queue, RemovalReason.DELETED) == 2
    assert queue.statistics().messages_acknowledged == 0
    assert [loss.reason for loss in bench.host.ledger.query()] == [RemovalReason.DELETED] * 2
    check_invariants(queue)


def test_scheduled_messages_are_deleted_by_id_and_else_only_when_asked():
    bench = Bench()
    queue = bench.queue()
    bench.send(queue, "a", "b", deliver_at=NOW + 100)
    bench.send(queue, "c")
    run(delete_messages(bench.host, queue, ALL, user="anna", now=NOW))
    assert (queue.order.count, queue.schedule.count) == (0, 2)
    run(delete_messages(bench.host, queue, select(ids=[1]), user="anna", now=NOW))
    assert queue.schedule.count == 1
    run(delete_messages(bench.host, queue, select(selector="k = 'b'", scheduled=True), user="anna", now=NOW))
    assert queue.schedule.count == 0
    check_invariants(queue)


def test_a_purge_takes_what_is_scheduled_and_leaves_what_is_in_delivery():
    bench, session = Bench(), RecordingSession()
    queue = bench.queue()
    session.consume(queue, messages=1)
    bench.send(queue, "a", "b", "c")
    bench.send(queue, "d", deliver_at=NOW + 100)
    operation = purge(bench.host, queue, user="anna", now=NOW)
    run(operation)
    assert (operation.done, len(queue.delivering), queue.order.count, queue.schedule.count) == (3, 1, 0, 0)
    assert removed(queue, RemovalReason.PURGED) == 3
    check_invariants(queue)


def test_a_deleted_message_of_a_non_destructive_queue_is_settled_and_seen_by_nobody_any_more():
    bench, slow = Bench(), RecordingSession()
    queue = bench.queue(durable=True, non_destructive=True)
    slow.consume(queue, messages=1)
    bench.send(queue, "a", "b", "c", durable=True)
    operation = delete_messages(bench.host, queue, select(ids=[1, 2]), user="anna", now=NOW)
    run(operation)
    assert operation.done == 2
    assert bench.effects.settled == [("q", 1), ("q", 2)]  # so neither is there after a restart
    slow.acknowledge(1, NOW)
    assert slow.received == ["a", "c"]
    assert pending(queue) == ["c"]
    check_invariants(queue)


def test_expired_by_hand_goes_to_the_expiry_address():
    bench = Bench()
    late = bench.queue("late")
    queue = bench.queue(expiry_address="late")
    for body in "ab":
        bench.host.publisher.publish(letter(body), bench.host.route("", "q"), NOW)
    run(expire_messages(bench.host, queue, select(ids=[1]), user="anna", now=NOW))
    assert (bodies(queue), bodies(late)) == ("b", "a")
    assert queue.statistics().messages_expired == 1


def test_sent_to_the_dead_letter_target_by_hand():
    bench = Bench()
    dead = bench.queue("dead")
    queue = bench.queue(dead_letter_address="dead")
    for body in "abc":
        bench.host.publisher.publish(letter(body, headers={"n": body}), bench.host.route("", "q"), NOW)
    run(send_to_dead_letters(bench.host, queue, select(selector="n <> 'b'"), user="anna", now=NOW))
    assert (bodies(queue), bodies(dead)) == ("b", "ac")
    assert queue.statistics().messages_dead_lettered == 2
    first = dead.order.first()
    assert first is not None
    (death,) = first.message.origin.view.deaths(first.message)
    assert (death.queue, death.reason) == ("q", "rejected")


def test_a_changed_priority_moves_to_the_tail_of_its_level_and_is_stored_anew():
    bench = Bench()
    queue = bench.queue(durable=True, priorities=10)
    bench.send(queue, "a", "b", "c", durable=True)
    bench.send(queue, "d", priority=9, durable=True)
    operation = change_priority(bench.host, queue, select(ids=[1, 2, 4]), 9, user="anna", now=NOW)
    run(operation)
    assert bodies(queue) == "dabc"
    assert operation.skipped == {"has this priority already": 1}
    assert (list(operation.ids), list(operation.new_ids)) == ([1, 2], [5, 6])
    assert bench.effects.settled == [("q", 1), ("q", 2)]
    assert [entry.sequence for _, entries in bench.effects.stored for entry in entries] == [1, 2, 3, 4, 5, 6]
    check_invariants(queue)


def test_a_priority_is_not_changed_before_the_message_is_due():
    bench = Bench()
    queue = bench.queue(priorities=10)
    bench.send(queue, "a", deliver_at=NOW + 100)
    operation = change_priority(bench.host, queue, select(ids=[1]), 9, user="anna", now=NOW)
    run(operation)
    assert (operation.done, operation.skipped) == (0, {"scheduled": 1})


def test_delivered_now_they_fall_due_in_the_order_of_their_times():
    bench = Bench()
    queue = bench.queue()
    bench.send(queue, "c", deliver_at=NOW + 300)
    bench.send(queue, "a", deliver_at=NOW + 100)
    bench.send(queue, "b", deliver_at=NOW + 200)
    bench.send(queue, "z")
    operation = deliver_scheduled(bench.host, queue, select(selector="k <> 'b'"), user="anna", now=NOW)
    run(operation)
    assert (bodies(queue), queue.schedule.count) == ("acz", 1)
    assert list(operation.new_ids) == list(operation.ids) == [2, 1]
    check_invariants(queue)


@pytest.mark.parametrize("command", [deliver_scheduled, cancel_scheduled])
def test_only_what_is_scheduled_can_be_delivered_now_or_cancelled(command):
    bench = Bench()
    queue = bench.queue()
    bench.send(queue, "a")
    bench.send(queue, "b", "c", deliver_at=NOW + 100)
    operation = command(bench.host, queue, select(ids=[1, 2, 3]), user="anna", now=NOW)
    assert operation.step(NOW, 2) is False  # the pending one and one more
    queue.tick(NOW + 100)
    run(operation, NOW + 100)
    assert operation.done == 1
    assert operation.skipped == {"not scheduled": 2}


def test_cancelled_messages_are_deleted_and_their_names_are_free():
    bench = Bench()
    queue = bench.queue()
    bench.send(queue, "a", deliver_at=NOW + 100, schedule_id="alarm")
    bench.send(queue, "b")
    run(cancel_scheduled(bench.host, queue, ALL, user="anna", now=NOW))
    assert (bodies(queue), queue.schedule.count, queue.schedule.named("alarm")) == ("b", 0, None)
    assert removed(queue, RemovalReason.DELETED) == 1
