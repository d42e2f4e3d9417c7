"""Ranks: which message is more important, in every order."""

from __future__ import annotations

import pytest

from annulet.core.base.settings import AGEING, WEIGHTED, QueueSettings
from annulet.core.ordering.ranks import PriorityLevels, sort_rank
from tests.core.helpers import NOW, RecordingSession, make_message, pending, queue_of

# Broker-J's mapping of priorities 0 to 10 (spec qpid §3)
MAPPINGS = {
    1: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    2: [0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1],
    3: [0, 0, 0, 0, 1, 2, 2, 2, 2, 2, 2],
    4: [0, 0, 0, 0, 1, 2, 3, 3, 3, 3, 3],
    5: [0, 0, 0, 1, 2, 3, 4, 4, 4, 4, 4],
    6: [0, 0, 0, 1, 2, 3, 4, 5, 5, 5, 5],
    7: [0, 0, 1, 2, 3, 4, 5, 6, 6, 6, 6],
    8: [0, 0, 1, 2, 3, 4, 5, 6, 7, 7, 7],
    9: [0, 1, 2, 3, 4, 5, 6, 7, 8, 8, 8],
    10: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9],
    256: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
}


@pytest.mark.parametrize("levels", MAPPINGS)
def test_priorities_map_to_levels_as_in_broker_j(levels):
    mapping = PriorityLevels(QueueSettings(priorities=levels))
    assert [mapping.level_of(make_message(priority=priority)) for priority in range(11)] == MAPPINGS[levels]
    assert [mapping.level_of_row(priority) for priority in range(11)] == MAPPINGS[levels]
    assert mapping.level_of_row(-1) == mapping.level_of(make_message())


def test_under_max_priority_levels_are_priorities_and_none_given_is_the_lowest():
    levels = PriorityLevels(QueueSettings(max_priority=3))
    assert levels.count == 4
    given = [make_message(priority=priority, given_priority=priority) for priority in (0, 1, 3, 4, 9)]
    assert [levels.level_of(message) for message in given] == [0, 1, 3, 3, 3]
    assert levels.level_of(make_message()) == 0
    assert [levels.level_of_row(priority) for priority in (-1, 0, 1, 3, 4, 9)] == [0, 0, 1, 3, 3, 3]


def test_strict_is_fifo_inside_a_level():
    queue = queue_of(priorities=10)
    for number, priority in enumerate([5, 9, 5, 0, 9]):
        queue.enqueue(make_message(str(number), priority=priority), NOW)
    assert pending(queue) == ["1", "4", "0", "2", "3"]


def test_ageing_lets_a_waiting_message_pass_more_important_ones():
    queue = queue_of(priorities=10, priority_discipline=AGEING, priority_age=100)
    queue.enqueue(make_message("old", priority=0, accepted_at=NOW), NOW)
    queue.enqueue(make_message("soon", priority=4, accepted_at=NOW + 399), NOW + 399)
    queue.enqueue(make_message("late", priority=4, accepted_at=NOW + 401), NOW + 401)
    assert pending(queue) == ["soon", "old", "late"]


@pytest.mark.parametrize(
    ("weights", "expected"), [((), {"0": 10, "1": 20, "2": 30}), ((1, 1, 4), {"0": 10, "1": 10, "2": 40})]
)
def test_weighted_levels_share_the_dispatches(weights, expected):
    queue = queue_of(priorities=3, priority_discipline=WEIGHTED, priority_weights=weights)
    for _ in range(60):
        for level, priority in enumerate([0, 4, 9]):
            queue.enqueue(make_message(str(level), priority=priority), NOW)
    session = RecordingSession()
    session.consume(queue, messages=60)
    assert {level: session.received.count(level) for level in "012"} == expected


def test_sort_keys_missing_first_then_numbers_by_value_then_text_by_code_point():
    values = ["b", 10, None, True, "a", 9.5, b"x", float("nan"), "B", -1, [1]]
    assert sorted(values, key=sort_rank)[2:] == [-1, 9.5, 10, "B", "a", "b", b"x", True, [1]]
    assert {repr(value) for value in sorted(values, key=sort_rank)[:2]} == {"None", "nan"}


def test_a_sorted_queue_keeps_arrival_order_among_equals_and_returns_to_the_same_place():
    queue, session = queue_of(sort_key="k"), RecordingSession()
    for body, key in [("x1", "x"), ("none", None), ("a", "a"), ("x2", "x")]:
        queue.enqueue(make_message(body, **({} if key is None else {"k": key})), NOW)
    consumer = session.consume(queue, messages=2)
    assert session.received == ["none", "a"]
    session.close_consumer(consumer.tag, NOW)
    assert pending(queue) == ["none", "a", "x1", "x2"]
