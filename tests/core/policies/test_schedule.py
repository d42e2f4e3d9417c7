"""Scheduled messages: in time, by name, and what a ring does with them."""

from __future__ import annotations

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.model.entry import REMOVED, SCHEDULED
from annulet.core.queue.invariants import check_invariants
from tests.core.helpers import NOW, RecordingEffects, RecordingSession, make_message, pending, queue_of, removed, send


def delayed(queue, body, delay, **properties):
    return queue.enqueue(make_message(body, deliver_at=NOW + delay, **properties), NOW)


def test_a_scheduled_message_waits_for_its_time_and_then_stands_before_the_backlog():
    effects = RecordingEffects()
    queue = queue_of(effects)
    delayed(queue, "late", 20)
    delayed(queue, "soon", 10)
    send(queue, "now")
    assert effects.wakes == [NOW + 20, NOW + 10]
    assert queue.next_due_at() == NOW + 10
    assert [appointment.at for appointment in sorted(queue.schedule.snapshot())] == [NOW + 10, NOW + 20]
    queue.tick(NOW + 9)
    assert pending(queue) == ["now"]
    queue.tick(NOW + 10)
    assert pending(queue) == ["soon", "now"]
    queue.tick(NOW + 20)
    assert pending(queue) == ["soon", "late", "now"]
    check_invariants(queue)


def test_together_and_apart_obey_one_rule():
    together, apart = queue_of(ring_size=2), queue_of(ring_size=2)
    for queue in (together, apart):
        for number in range(3):
            delayed(queue, str(number), 10 + number)
    together.tick(NOW + 50)
    for at in (10, 11, 12):
        apart.tick(NOW + at)
    assert pending(together) == pending(apart) == ["0", "1"]
    assert removed(together, RemovalReason.REPLACED_RING) == removed(apart, RemovalReason.REPLACED_RING) == 1


def test_a_name_cancels_and_replaces():
    queue = queue_of()
    first = delayed(queue, "first", 10, schedule_id="alarm")
    second = delayed(queue, "second", 5, schedule_id="alarm")
    assert (first.state, second.state) == (REMOVED, SCHEDULED)
    assert queue.schedule.named("alarm") is second
    assert queue.remove(second, RemovalReason.DELETED, NOW)
    assert queue.schedule.named("alarm") is None
    queue.tick(NOW + 10)
    assert pending(queue) == []
    assert removed(queue, RemovalReason.DELETED) == 2


def test_it_takes_over_its_key_only_when_it_falls_due():
    queue = queue_of(last_value_key="k")
    delayed(queue, "a2", 10, k="a")
    queue.enqueue(make_message("a1", k="a"), NOW)
    assert pending(queue) == ["a1"]
    queue.tick(NOW + 10)
    assert pending(queue) == ["a2"]


def test_an_operator_delivers_it_now_and_a_waiting_consumer_gets_it():
    queue, session = queue_of(), RecordingSession()
    session.consume(queue)
    entry = delayed(queue, "x", 1000)
    assert queue.statistics().scheduled_count == 1
    assert queue.deliver_now(entry, NOW)
    assert session.received == ["x"]
    assert not queue.deliver_now(entry, NOW)


def test_that_it_fell_due_by_hand_is_noted_before_it_goes():
    class Effects(RecordingEffects):
        def entry_changed(self, queue, entry):
            self.calls.append(("due", queue.schedule.at(entry)))

    effects = Effects()
    queue, session = queue_of(effects), RecordingSession()
    session.consume(queue, auto_acknowledge=True)
    message = make_message("x", deliver_at=NOW + 1000)
    message.record = 1
    entry = queue.enqueue(message, NOW)
    assert queue.deliver_now(entry, NOW + 7)
    assert effects.calls == [("due", NOW + 7), ("settle", b"x")]


def test_its_time_to_live_ends_it_in_the_schedule_too():
    queue = queue_of(message_ttl=5)
    delayed(queue, "x", 10)
    queue.tick(NOW + 5)
    assert queue.schedule.count == 0
    assert removed(queue, RemovalReason.EXPIRED) == 1


def test_cancelled_appointments_do_not_pile_up():
    queue = queue_of()
    entries = [delayed(queue, str(number), 10) for number in range(500)]
    for entry in entries[1:]:
        queue.remove(entry, RemovalReason.DELETED, NOW)
    assert queue.schedule.size <= 70
    queue.tick(NOW + 10)
    assert pending(queue) == ["0"]
