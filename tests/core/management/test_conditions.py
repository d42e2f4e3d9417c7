"""What narrows a selection: key, routing key, time, ids, and a text in header or body."""

from __future__ import annotations

import pytest

from annulet.core.base.errors import InvalidArgument
from annulet.core.management import Find, Operation, select
from annulet.core.management.conditions import (
    STEPS_OF_A_READ,
    TEXT_BODY_BYTES_MAX,
    TEXT_BYTES_MAX,
    MovedIds,
    conditions,
)
from annulet.core.policies.evaluation_turns import EVALUATION_STEPS_MAX
from tests.core.helpers import NOW, RecordingSession
from tests.core.management.bench import Bench, run

TOO_LONG = "too long to be searched for a text"


def found(bench, queue, **given):
    selection = select(everything=True, conditions=conditions(**given))
    operation = Operation(bench.host, Find("find", queue), selection, user="anna", now=NOW)
    run(operation)
    return list(operation.ids)


def test_each_condition_narrows_the_selection():
    bench = Bench()
    queue = bench.queue()
    bench.send(queue, "apple", "pear", "plum")
    assert found(bench, queue, text="p") == [1, 2, 3]
    assert found(bench, queue, text="pl") == [1, 3]
    assert found(bench, queue, text="ear", first_id=2, last_id=2) == [2]
    assert found(bench, queue, first_id=2) == [2, 3]
    assert found(bench, queue, last_id=2) == [1, 2]
    assert found(bench, queue, routing_key="other") == []
    assert found(bench, queue, until=0) == []
    assert found(bench, queue, key="a") == []  # the queue has no keys


def test_messages_in_delivery_are_found_and_stay_as_they_are():
    bench, session = Bench(), RecordingSession()
    queue = bench.queue()
    bench.send(queue, "a", "b")
    session.consume(queue, messages=1)
    assert found(bench, queue) == [2, 1]
    assert (queue.order.count, len(queue.delivering)) == (1, 1)


def test_a_body_up_to_the_bound_is_searched_and_a_longer_one_counted():
    bench = Bench()
    queue = bench.queue()
    bench.send(queue, "x" * (TEXT_BODY_BYTES_MAX - 1) + "y", "x" * TEXT_BODY_BYTES_MAX + "y")
    selection = select(everything=True, conditions=conditions(text="y"))
    operation = Operation(bench.host, Find("find", queue), selection, user="anna", now=NOW)
    run(operation)
    assert list(operation.ids) == [1]
    assert operation.progress.skipped == {TOO_LONG: 1}
    assert operation.progress.matched == 2


def test_a_slice_ends_when_enough_was_searched():
    bench = Bench()
    queue = bench.queue()
    bench.send(queue, *["x" * TEXT_BODY_BYTES_MAX] * 4)
    selection = select(everything=True, conditions=conditions(text="y"))
    operation = Operation(bench.host, Find("find", queue), selection, user="anna", now=NOW)
    looked = []
    while not operation.step(NOW):
        looked.append(operation.progress.seen)
    assert looked == [1, 2, 3, 4]  # 45 ms each at worst
    assert EVALUATION_STEPS_MAX // STEPS_OF_A_READ == 8, "bodies read from disk in one slice"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"since": -2}, "since=-2: give a time in milliseconds since 1970"),
        ({"until": True}, "until=True: give a time"),
        ({"first_id": -1}, "first_id=-1: give an id of the queue, from 1"),
        ({"text": "ä" * TEXT_BYTES_MAX}, f"text has {2 * TEXT_BYTES_MAX} bytes; {TEXT_BYTES_MAX} are allowed"),
    ],
)
def test_what_is_refused(given, words):
    with pytest.raises(InvalidArgument) as refusal:
        conditions(**given)
    assert words in str(refusal.value)


def test_they_are_quoted_for_the_audit_trail():
    every = conditions(key="k", routing_key="r", since=1, until=5, first_id=2, last_id=3, text="t")
    assert str(select(everything=True, conditions=every)) == (
        "all messages, key 'k', routing key 'r', accepted since 1, accepted before 5, ids from 2, ids to 3, text 't'"
    )
    assert select(everything=True, conditions=conditions()).whole


def test_moved_ids_know_their_former_ones():
    ids = MovedIds()
    for first, count, former in ((5, 2, 50), (7, 1, 52), (8, 3, 90), (20, 2, 0), (22, 1, 0), (1, 1, 7)):
        ids.add(first, count, former)
    assert [number for number in range(30) if number in ids] == [1, 5, 6, 7, 8, 9, 10, 20, 21, 22]
    assert [ids.former_of(number) for number in (1, 5, 7, 8, 10, 20, 22)] == [7, 50, 52, 90, 92, 0, 0]
    assert ids.count == 10
