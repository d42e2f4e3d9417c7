"""Matchers: asked once, remembered, forgotten in time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp.commands import Basic
from pamqp.header import ContentHeader

from annulet.core.message.message import Message, Origin
from annulet.core.message.selector_names import lookup_for
from annulet.core.policies.matchers import RETIRED_MAX, needles_of
from annulet.selector.selector import compile_selector
from annulet.wire.amqp091.messages.properties import VIEW
from tests.core.helpers import NOW, RecordingSession, make_message, queue_of, send


def test_equal_selectors_are_one_question_and_each_message_is_asked_once():
    queue = queue_of()
    for number in range(20):
        queue.enqueue(make_message(str(number), n=number), NOW)
    sessions = [RecordingSession(str(index)) for index in range(5)]
    for session in sessions:
        session.consume(queue, selector="n < 10", messages=1)
    for session in sessions:
        session.close(NOW)
    for session in [RecordingSession() for _ in range(3)]:
        session.consume(queue, selector="n < 10")
    assert len(queue.matchers) == 1
    assert queue.matchers.evaluations == 20


def test_no_local_keeps_a_connections_own_messages_from_its_consumers():
    queue, mine, other = queue_of(), object(), object()
    session, neighbour = RecordingSession("mine"), RecordingSession("other")
    session.connection_identity, neighbour.connection_identity = mine, other
    session.consume(queue, no_local=True)
    queue.enqueue(make_message("own", connection=mine), NOW)
    queue.enqueue(make_message("other", connection=other), NOW)
    assert session.received == ["other"]
    neighbour.consume(queue)
    assert neighbour.received == ["own"]


def test_a_queue_may_ask_it_of_all_its_consumers():
    queue, mine = queue_of(no_local=True), object()
    session = RecordingSession()
    session.connection_identity = mine
    session.consume(queue)
    queue.enqueue(make_message("own", connection=mine), NOW)
    assert session.received == []


def test_who_refused_a_message_for_itself_does_not_get_it_again():
    queue, one, two = queue_of(), RecordingSession("1"), RecordingSession("2")
    consumer = one.consume(queue, messages=1)
    send(queue, "a", "b")
    queue.return_entries([one.unacknowledged.pop(1)], NOW, exclude=consumer)
    assert one.received == ["a", "b"]
    two.consume(queue)
    assert two.received == ["a"]


def test_a_replay_period_reaches_back_so_far_and_no_farther():
    queue, session = queue_of(), RecordingSession()
    for age in (100, 50, 10):
        queue.enqueue(make_message(str(age), accepted_at=NOW - age), NOW - age)
    session.consume(queue, "back", replay_period=50)
    assert session.received == ["50", "10"]
    fresh = RecordingSession()
    fresh.consume(queue, replay_period=0)
    send(queue, "new")
    assert sorted(session.received + fresh.received) == ["10", "50", "new"]


def test_answers_to_retired_questions_are_forgotten_before_their_bits_serve_others():
    queue = queue_of()
    for number in range(10):
        queue.enqueue(make_message(str(number), n=number), NOW)
    for limit in range(3 * RETIRED_MAX):
        session = RecordingSession()
        consumer = session.consume(queue, selector=f"n = {limit}", messages=1)
        assert session.received == ([str(limit)] if limit < 10 else [])
        session.close_consumer(consumer.tag, NOW)
        assert len(queue.matchers) <= RETIRED_MAX + 1


def test_the_answers_of_very_many_that_go_together_are_forgotten_in_few_passes():
    """One pass over the queue for each 65 consumers held the loop for 892 ms where a connection had 5,000."""
    queue, session = queue_of(), RecordingSession()
    consumers = [session.consume(queue, selector=f"n = {number}") for number in range(20 * RETIRED_MAX)]
    passes = 0
    for left, consumer in enumerate(reversed(consumers), 1):
        passes += queue.matchers.dismiss(consumer, NOW) != 0
        assert len(queue.matchers) <= 2 * max(RETIRED_MAX, len(consumers) - left) + 1
    assert 1 <= passes <= 6
    assert len(queue.matchers) <= RETIRED_MAX


def test_an_objection_is_named_without_an_answer_being_remembered():
    queue, session = queue_of(), RecordingSession()
    queue.pause(NOW)
    consumer = session.consume(queue, selector="n < 10")
    high, low = (queue.enqueue(make_message("m", n=number), NOW) for number in (20, 5))
    objection = queue.matchers.objection(consumer, high)
    assert objection is not None
    assert objection.selector is consumer.selector
    assert queue.matchers.objection(consumer, low) is None
    assert (queue.matchers.evaluations, high.evaluated) == (0, 0)
    queue.resume(NOW)
    assert queue.matchers.objection(consumer, high) is objection


def test_selectors_are_asked_again_about_a_message_whose_priority_changed():
    queue, session = queue_of(), RecordingSession()
    session.consume(queue, selector="JMSPriority > 5")
    (entry,) = send(queue, "a")
    assert session.received == []
    queue.reprioritise(entry, 9, NOW)
    assert session.received == ["a"]


@pytest.mark.parametrize(
    ("text", "needles"),
    [
        ("region = 'north'", [b"north"]), ("a > 1 AND region = 'north' AND b = 'no'", [b"north", b"no"]),
        ("name = 'Jürg'", ["Jürg".encode()]), ("region <> 'north'", []), ("region = 'north' OR a = 1", []),
        ("NOT region = 'north'", []), ("region = 7", []), ("JMSType = 'north'", []), ("amqp.subject = 'north'", []),
        ("m.region = 'north'", []), ("region LIKE 'n%'", []), ("region = ''", []),
        ("convert_string_expressions: region = '7'", []),
    ],
)  # fmt: skip
def test_a_needle_is_named_only_where_nothing_matches_without_it(text, needles):
    assert needles_of(compile_selector(text)) == needles


@given(st.dictionaries(st.text(min_size=1, max_size=8), st.text(max_size=20) | st.integers(-9, 9), max_size=4))
def test_every_message_that_matches_has_the_needle_in_its_header(headers):
    header = ContentHeader(properties=Basic.Properties(headers=headers)).marshal()[12:]
    message = Message(header, b"", Origin("", "q", "guest@test", VIEW))
    for name, value in headers.items():
        if isinstance(value, str) and "\0" not in name:
            quoted = value.replace("'", "''")
            named = name.replace('"', '""')
            selector = compile_selector(f"\"{named}\" = '{quoted}'")
            if selector.matches(lookup_for(message)):
                assert all(needle in header for needle in needles_of(selector))
