"""Deliveries that are not settled in time: never found early, found late by the distance of looks at most."""

from __future__ import annotations

from dataclasses import replace

import pytest

from annulet.core.base.settings import ConsumerSettings, QueueSettings
from annulet.core.sessions.delivery_deadlines import (
    EXTENSIONS_MAX,
    MARKS_MAX,
    DeliveryDeadlines,
    shortest_timeout,
    timeout_of,
)
from tests.core.helpers import NOW, RecordingSession, make_message, make_queue


def consuming(timeout=100, *, own=-1, count=1):
    """Return a session with one consumer that holds so many deliveries of a queue with a time."""
    queue, session = make_queue(), RecordingSession()
    queue.update(replace(QueueSettings(), consumer_timeout=timeout), NOW)
    consumer = session.consume(queue)
    consumer.settings = ConsumerSettings(consumer_timeout=own)
    for number in range(count):
        queue.enqueue(make_message(str(number)), NOW)
    return session, queue, consumer


@pytest.mark.parametrize(
    ("own", "queues", "servers", "expected"),
    [(-1, -1, 0, 0), (-1, -1, 7, 7), (-1, 5, 7, 5), (-1, 0, 7, 0), (3, 5, 7, 3), (0, 5, 7, 0)],
)
def test_the_consumers_word_counts_then_the_queues_then_the_servers(own, queues, servers, expected):
    session, queue, consumer = consuming(queues, own=own)
    assert timeout_of(consumer, queue, servers) == expected
    assert shortest_timeout(session, servers) == expected


def test_a_delivery_is_overdue_when_it_was_held_for_its_time_after_a_mark():
    session, queue, consumer = consuming()
    deadlines = DeliveryDeadlines()
    assert deadlines.overdue(session, NOW + 1000, 0) is None, "how long it is held is not known"
    deadlines.mark(session.last_tag, NOW + 30)
    assert deadlines.overdue(session, NOW + 129, 0) is None
    overdue = deadlines.overdue(session, NOW + 130, 0)
    assert (overdue.tag, overdue.consumer, overdue.queue, overdue.timeout) == (1, consumer, queue, 100)
    assert "delivery 1 of consumer 'c' of queue 'q' was not settled within 100 ms" in str(overdue)
    session.acknowledge(1, NOW + 130)
    assert deadlines.overdue(session, NOW + 130, 0) is None


def test_later_deliveries_and_those_of_consumers_without_a_time_do_not_count():
    session, queue, _ = consuming(0)
    deadlines = DeliveryDeadlines()
    timed = make_queue(name="timed")
    consumer = session.consume(timed, "timed")
    consumer.settings = ConsumerSettings(consumer_timeout=100)
    deadlines.mark(session.last_tag, NOW)
    timed.enqueue(make_message("late"), NOW + 50)
    deadlines.mark(session.last_tag, NOW + 50)
    assert deadlines.overdue(session, NOW + 149, 0) is None
    assert deadlines.overdue(session, NOW + 150, 0).queue is timed
    del queue


def test_an_extended_delivery_has_its_time_anew():
    session, _, _ = consuming(count=2)
    deadlines = DeliveryDeadlines()
    deadlines.mark(session.last_tag, NOW)
    assert deadlines.extend(session, 1, NOW + 90)
    assert deadlines.overdue(session, NOW + 100, 0).tag == 2
    session.acknowledge(2, NOW + 100)
    assert deadlines.overdue(session, NOW + 189, 0) is None
    assert deadlines.overdue(session, NOW + 190, 0).tag == 1
    assert not deadlines.extend(session, 2, NOW), "it is settled"
    assert not deadlines.extend(session, 3, NOW), "it never was"


def test_what_was_pulled_has_the_time_of_its_queue():
    session, queue, _ = consuming(-1, count=0)
    session.detach("c", NOW)
    queue.enqueue(make_message("pulled"), NOW)
    session.get(queue, NOW, auto_acknowledge=False)
    deadlines = DeliveryDeadlines()
    deadlines.mark(session.last_tag, NOW)
    assert deadlines.overdue(session, NOW + 100, 0) is None
    overdue = deadlines.overdue(session, NOW + 100, 100)
    assert (overdue.tag, overdue.consumer) == (1, None)
    assert "what was pulled" in str(overdue)


def test_a_cancelled_consumer_still_has_to_settle():
    session, _, _ = consuming()
    deadlines = DeliveryDeadlines()
    deadlines.mark(session.last_tag, NOW)
    session.detach("c", NOW)
    assert deadlines.overdue(session, NOW + 100, 0).tag == 1


def test_marks_are_bounded_and_thinned_out_never_early():
    deadlines = DeliveryDeadlines()
    for number in range(1, 10 * MARKS_MAX):
        deadlines.mark(number, NOW + number)
        deadlines.mark(number, NOW + number)  # nothing came since
    for at in range(0, 10 * MARKS_MAX, 7):
        assert deadlines.delivered_by(NOW + at) <= at
    assert deadlines.delivered_by(NOW + 10 * MARKS_MAX) == 10 * MARKS_MAX - 1
    assert deadlines.marks <= MARKS_MAX


def test_extensions_are_bounded_by_what_is_held():
    session, _, _ = consuming(count=EXTENSIONS_MAX + 1)
    deadlines = DeliveryDeadlines()
    assert all(deadlines.extend(session, tag, NOW) for tag in range(1, EXTENSIONS_MAX + 1))
    assert not deadlines.extend(session, EXTENSIONS_MAX + 1, NOW)
    assert deadlines.extend(session, 1, NOW), "it has its place"
    session.acknowledge(1, NOW)
    assert deadlines.extend(session, EXTENSIONS_MAX + 1, NOW)
