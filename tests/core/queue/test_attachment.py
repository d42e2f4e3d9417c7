"""Consumers come and go: live ones, exclusive ones, purging queues."""

from __future__ import annotations

import pytest

from annulet.core.base.removal_reasons import RemovalReason
from tests.core.helpers import NOW, RecordingSession, pending, queue_of, removed, send


@pytest.mark.parametrize("setting", ["single_active_consumer", "exclusive_consumer"])
def test_one_consumer_is_active_and_the_next_waits_for_its_deliveries(setting):
    queue = queue_of(**{setting: True})
    one, two, three = (RecordingSession(name) for name in "123")
    first = one.consume(queue, messages=2)
    two.consume(queue, messages=1)
    three.consume(queue, messages=1, priority=5)
    send(queue, "a", "b", "c")
    assert (one.received, two.received, three.received) == (["a", "b"], [], [])
    one.detach(first.tag, NOW)
    one.acknowledge(1, NOW)
    assert three.received == []
    one.reject(2, NOW, requeue=True)
    assert (three.received, two.received) == (["b"], [])


@pytest.mark.parametrize("setting", ["single_active_consumer", "exclusive_consumer"])
def test_the_next_is_who_was_there_when_the_last_delivery_left_although_nothing_was_pending(setting):
    queue = queue_of(**{setting: True}, redelivery_delay=10)
    one, two, three = (RecordingSession(name) for name in "123")
    first = one.consume(queue, messages=1)
    two.consume(queue, messages=1)
    send(queue, "a")
    one.detach(first.tag, NOW)
    one.close(NOW)
    three.consume(queue, messages=1, priority=5)
    send(queue, "b")
    assert (two.received, three.received) == (["b"], [])


def test_so_many_consumers_are_live_and_a_leaver_makes_room():
    queue = queue_of(live_consumers_max=1 + 1)
    sessions = [RecordingSession(name) for name in "1234"]
    consumers = [session.consume(queue, messages=1) for session in sessions]
    send(queue, "a", "b", "c")
    assert [session.received for session in sessions] == [["a"], ["b"], [], []]
    sessions[2].close_consumer(consumers[2].tag, NOW)
    assert sessions[3].received == []
    sessions[0].detach(consumers[0].tag, NOW)
    assert sessions[3].received == []  # "a" may still come back and has to go first
    sessions[0].acknowledge(1, NOW)
    assert sessions[3].received == ["c"]


def test_a_purging_queue_is_emptied_when_the_last_consumer_leaves():
    queue, session = queue_of(purge_on_no_consumers=True), RecordingSession()
    consumer = session.consume(queue, messages=0)
    send(queue, "a")
    assert pending(queue) == ["a"]
    session.close_consumer(consumer.tag, NOW)
    assert pending(queue) == []
    assert removed(queue, RemovalReason.PURGED) == 1


def test_a_browser_does_not_keep_a_purging_queue():
    queue, session = queue_of(purge_on_no_consumers=True), RecordingSession()
    session.consume(queue, browse="follow")
    send(queue, "a")
    assert removed(queue, RemovalReason.PURGED) == 1


def test_a_closing_session_hands_nothing_to_its_own_other_consumers():
    queue, session = queue_of(single_active_consumer=True, max_delivery_attempts=1), RecordingSession()
    session.consume(queue, "c4", messages=0)
    session.consume(queue, "c5")
    send(queue, "a")
    session.close(NOW)
    assert session.received == []
    assert pending(queue) == ["a"]
