"""Operations and previews: slices, progress, truth about what was passed over, ends, audit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.management import copy_messages, delete_messages, move_messages, purge, select
from annulet.core.management.actions import IN_DELIVERY, NOT_THERE, UNREADABLE
from annulet.core.management.operation import CANCELLED, FINISHED, RUNNING, SLICE_MESSAGES, STOPPED
from annulet.core.message.message import Message, PropertyValue
from annulet.core.queue.invariants import check_invariants
from tests.core.helpers import NOW, RecordingSession, TableView, make_message
from tests.core.management.bench import Bench, bodies, run

ALL = select(everything=True)


def test_a_slice_looks_at_no_more_than_it_may():
    bench = Bench()
    queue = bench.queue()
    bench.send(queue, *"abcdefghij")
    operation = purge(bench.host, queue, user="anna", now=NOW)
    left = []
    while not operation.step(NOW, 4):
        left.append(queue.order.count)
    assert left == [6, 2]
    assert (queue.order.count, operation.done) == (0, 10)


def test_a_slice_copies_no_more_bytes_than_it_may_but_always_one_message():
    bench = Bench()
    queue, other = bench.queue(), bench.queue("other")
    bench.send(queue, "aaaa", "bbbb", "cccc", "dddd")
    operation = copy_messages(bench.host, queue, ALL, "other", user="anna", now=NOW)
    copied = []
    while not operation.step(NOW, SLICE_MESSAGES, 5):
        copied.append(other.order.count)
    assert copied == [2, 4]


def test_what_arrives_later_is_not_touched():
    bench = Bench()
    queue = bench.queue()
    bench.send(queue, *"abcd")
    operation = delete_messages(bench.host, queue, ALL, user="anna", now=NOW)
    operation.step(NOW, 2)
    bench.send(queue, "x", "y")
    run(operation)
    assert (bodies(queue), operation.done) == ("xy", 4)


def test_what_is_in_delivery_is_passed_over_and_said():
    bench, session = Bench(), RecordingSession()
    queue = bench.queue()
    bench.send(queue, *"abcdef")
    operation = delete_messages(bench.host, queue, select(selector="k <> 'f'"), user="anna", now=NOW)
    session.consume(queue, messages=3)
    session.acknowledge(1, NOW)  # frees credit: b, c and d are in delivery
    run(operation)
    assert (operation.done, operation.skipped, operation.matched) == (1, {IN_DELIVERY: 3}, 4)
    assert list(operation.ids) == [5]
    assert bodies(queue) == "f"
    assert len(queue.delivering) == 3
    check_invariants(queue)


def test_only_ids_that_were_really_moved_are_reported():
    bench, session = Bench(), RecordingSession()
    queue, other = bench.queue(), bench.queue("other")
    session.consume(queue, messages=1)
    bench.send(queue, *"abc")
    operation = move_messages(bench.host, queue, select(ids=[1, 2, 3, 77]), "other", user="anna", now=NOW)
    run(operation)
    assert list(operation.ids) == [2, 3]
    assert list(operation.new_ids) == [1, 2]
    assert operation.skipped == {IN_DELIVERY: 1, NOT_THERE: 1}
    assert (bodies(other), operation.matched) == ("bc", 3)


def test_by_id_it_stops_looking_when_all_were_met():
    bench = Bench()
    queue = bench.queue()
    bench.send(queue, *"abcdef")
    operation = delete_messages(bench.host, queue, select(ids=[2]), user="anna", now=NOW)
    run(operation)
    assert (operation.done, operation.seen) == (1, 2)


def test_what_came_back_is_touched_where_it_stands():
    bench, session = Bench(), RecordingSession()
    queue = bench.queue()
    bench.send(queue, *"abc")
    operation = delete_messages(bench.host, queue, ALL, user="anna", now=NOW)
    session.consume(queue, messages=2)
    session.close(NOW)
    run(operation)
    assert (operation.done, queue.order.count) == (3, 0)


def test_what_has_expired_meanwhile_is_not_there():
    bench = Bench()
    queue = bench.queue()
    bench.send(queue, "a", expires_at=NOW + 5)
    bench.send(queue, "b")
    operation = delete_messages(bench.host, queue, ALL, user="anna", now=NOW)
    run(operation, NOW + 5)
    assert operation.done == 1
    assert queue.counters.removed[RemovalReason.EXPIRED] == 1


@pytest.mark.parametrize("limit", [1, 3, 4])
def test_a_limit_counts_what_was_changed(limit):
    bench, session = Bench(), RecordingSession()
    queue = bench.queue()
    bench.send(queue, *"abcd")
    operation = delete_messages(bench.host, queue, select(everything=True, limit=limit), user="anna", now=NOW)
    session.consume(queue, messages=1)
    run(operation)
    assert operation.done == min(limit, 3)
    assert operation.state == FINISHED
    assert len(bodies(queue)) == 3 - operation.done


def test_cancelled_it_keeps_what_it_did_and_touches_nothing_more():
    bench = Bench()
    queue = bench.queue()
    bench.send(queue, *"abcdef")
    operation = purge(bench.host, queue, user="anna", now=NOW)
    operation.step(NOW, 2)
    assert operation.progress.state == RUNNING
    operation.cancel(NOW + 10)
    operation.cancel(NOW + 20)
    assert operation.step(NOW + 30) is True
    assert (operation.progress.state, operation.progress.ended_at, bodies(queue)) == (CANCELLED, NOW + 10, "cdef")
    assert len(bench.effects.audit) == 1


def test_it_stops_when_its_queue_is_deleted():
    bench = Bench()
    queue = bench.queue()
    bench.send(queue, *"abcdef")
    operation = purge(bench.host, queue, user="anna", now=NOW)
    operation.step(NOW, 2)
    bench.host.delete_queue(queue, NOW)
    assert operation.step(NOW, 2) is True
    assert (operation.state, operation.reason) == (STOPPED, "queue 'q' was deleted")


def test_the_audit_trail_says_who_what_how_many_and_how_long():
    bench, session = Bench(), RecordingSession()
    queue, _ = bench.queue(), bench.queue("other")
    bench.send(queue, *"abc")
    selection = select(selector="k <> 'c'", limit=9)
    operation = move_messages(bench.host, queue, selection, "other", user="anna", now=NOW)
    session.consume(queue, messages=1)
    operation.step(NOW + 35)
    (entry,) = bench.effects.audit
    assert (entry.at, entry.virtual_host, entry.user, entry.operation) == (NOW + 35, "/", "anna", "move")
    assert (entry.target, entry.arguments) == ("q", "selector k <> 'c', limit 9, to 'other'")
    assert (entry.count, entry.duration, entry.outcome) == (1, 35, "finished; 2 matched; 1 in delivery")


class BrokenView(TableView):
    def application_property(self, message: Message, name: str) -> PropertyValue:
        raise ValueError("malformed table")


def test_a_message_whose_properties_are_broken_is_passed_over():
    bench = Bench()
    queue = bench.queue()
    broken = make_message("a")
    broken.origin.view = BrokenView({})
    queue.enqueue(broken, NOW)
    bench.send(queue, "b")
    operation = delete_messages(bench.host, queue, select(selector="k = 'b'"), user="anna", now=NOW)
    run(operation)
    assert (operation.done, operation.skipped, bodies(queue)) == (1, {UNREADABLE: 1}, "a")


def test_a_preview_touches_nothing_and_says_what_would_happen():
    bench, session = Bench(), RecordingSession()
    queue, _ = bench.queue(), bench.queue("other", max_length=0, overflow="reject")
    session.consume(queue, messages=1)
    bench.send(queue, "a", "bb", "cc", "dd", "e")
    selection = select(ids=[1, 2, 3, 5, 9], limit=2)
    operation = move_messages(bench.host, queue, selection, "other", user="anna", now=NOW)
    preview = operation.preview(sample_max=2)
    run(preview, budget=2)
    result = preview.result
    assert (result.count, result.bytes, result.matched) == (2, 4, 4)
    assert result.skipped == {IN_DELIVERY: 1, NOT_THERE: 1}
    assert "queue 'other' is full" in result.refusal
    assert [(facts.id, facts.state, facts.size, facts.publisher) for facts in result.sample] == [
        (2, "pending", 2, "guest@test"), (3, "pending", 2, "guest@test")
    ]  # fmt: skip
    assert (bodies(queue), operation.seen, bench.effects.audit) == ("bbccdde", 0, [])


def test_a_cancelled_preview_shows_what_it_has_seen():
    bench = Bench()
    queue = bench.queue()
    bench.send(queue, *"abcdef")
    preview = purge(bench.host, queue, user="anna", now=NOW).preview()
    assert preview.step(NOW, 2) is False
    preview.cancel(NOW)
    assert (preview.step(NOW), preview.result.count) == (True, 2)


def test_a_preview_of_scheduled_messages_shows_when_they_are_due():
    bench = Bench()
    queue = bench.queue()
    bench.send(queue, "a", deliver_at=NOW + 100)
    preview = delete_messages(
        bench.host, queue, select(everything=True, scheduled=True), user="anna", now=NOW
    ).preview()
    run(preview)
    (facts,) = preview.result.sample
    assert (facts.state, facts.due_at, facts.obstacle) == ("scheduled", NOW + 100, "")


@given(
    steps=st.lists(st.sampled_from(["step", "send", "consume", "settle", "return"]), max_size=20),
    budget=st.integers(1, 4),
    chosen=st.sampled_from(
        [ALL, select(selector="k = 'a'"), select(ids=[1, 3, 5, 99]), select(everything=True, limit=2)]
    ),
)
def test_whatever_happens_between_slices_the_count_is_true(steps, budget, chosen):
    bench, session = Bench(), RecordingSession()
    queue, other = bench.queue(), bench.queue("other")
    bench.send(queue, *"abababab")
    consumer = session.consume(queue, messages=0)
    operation = move_messages(bench.host, queue, chosen, "other", user="anna", now=NOW)
    for step in [*steps, *["step"] * 20]:
        if step == "step":
            operation.step(NOW, budget)
        elif step == "send":
            bench.send(queue, "a")
        elif step == "consume":
            consumer.window.messages_max += 1
            queue.wake(NOW)
        elif session.unacknowledged:
            tag = next(iter(session.unacknowledged))
            if step == "settle":
                session.acknowledge(tag, NOW)
            else:
                session.reject(tag, NOW, requeue=True)
        check_invariants(queue)
        assert operation.done == len(operation.ids) == other.counters.messages_added
        assert operation.done == queue.counters.removed[RemovalReason.MOVED]
    assert operation.ended
    skipped = sum(count for reason, count in operation.skipped.items() if reason != NOT_THERE)
    assert operation.matched == operation.done + skipped
