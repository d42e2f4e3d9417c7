"""When a queue dispatches at all."""

from __future__ import annotations

from tests.core.helpers import NOW, RecordingEffects, RecordingSession, queue_of, send


def test_dispatch_waits_for_enough_consumers_and_closes_with_the_last():
    queue, one, two = queue_of(consumers_before_dispatch=2), RecordingSession("1"), RecordingSession("2")
    first = one.consume(queue, messages=1)
    send(queue, "a", "b")
    assert one.received == []
    two.consume(queue, messages=1)
    assert (one.received, two.received) == (["a"], ["b"])
    one.acknowledge(1, NOW)
    one.close_consumer(first.tag, NOW)
    send(queue, "c")
    two.acknowledge(1, NOW)
    assert two.received == ["b", "c"]  # open until the last one leaves
    two.close(NOW)
    three = RecordingSession("3")
    three.consume(queue)
    assert three.received == []


def test_dispatch_starts_by_time_when_consumers_are_missing():
    effects = RecordingEffects()
    queue, session = queue_of(effects, consumers_before_dispatch=5, delay_before_dispatch=100), RecordingSession()
    session.consume(queue)
    send(queue, "a")
    assert effects.wakes == [NOW + 100]
    assert queue.next_due_at() == NOW + 100
    queue.tick(NOW + 99)
    assert session.received == []
    queue.tick(NOW + 100)
    assert session.received == ["a"]
    assert queue.next_due_at() == 0


def test_a_paused_queue_accepts_and_evicts_but_serves_only_browsers():
    effects = RecordingEffects()
    queue, session, browser = queue_of(effects, ring_size=2), RecordingSession(), RecordingSession("browser")
    session.consume(queue)
    queue.pause(NOW)
    send(queue, "a", "b", "c")
    browser.consume(queue, browse="follow")
    assert (session.received, browser.received) == ([], ["b", "c"])
    assert session.get(queue, NOW, auto_acknowledge=True) is None
    queue.resume(NOW)
    assert session.received == ["b", "c"]
    assert effects.paused == [("q", True), ("q", False)]


def test_browsers_do_not_open_the_gate():
    queue, session = queue_of(consumers_before_dispatch=2), RecordingSession()
    session.consume(queue)
    RecordingSession().consume(queue, browse="follow")
    send(queue, "a")
    assert session.received == []


def test_time_does_not_open_while_former_deliveries_are_out():
    effects = RecordingEffects()
    queue = queue_of(effects, consumers_before_dispatch=2, delay_before_dispatch=10)
    former, other, session = RecordingSession("1"), RecordingSession("2"), RecordingSession("3")
    former.consume(queue)
    other.consume(queue, "other")
    send(queue, "a")
    former.detach("c", NOW)
    other.detach("other", NOW)
    session.consume(queue)
    queue.tick(NOW + 20)
    assert queue.next_due_at() == 0  # a time that has passed would be asked for without end
    effects.wakes.clear()
    former.close(NOW + 5)
    assert effects.wakes == [NOW + 10]
    queue.tick(NOW + 10)
    assert session.received == ["a"]
