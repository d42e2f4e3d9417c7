"""Taking what a selector admits: only on demand, in order, and nothing kept from others."""

from __future__ import annotations

from typing import Any

import pytest

from annulet.bulk.protocol.errors import RefusedError
from annulet.bulk.reading.taker import SelectorTaker, check_selectable
from annulet.core.base.errors import CoreError
from annulet.core.model.entry import DELIVERING
from annulet.core.queue.invariants import check_invariants
from annulet.core.queue.queue import Queue
from tests.core.deep_doubles import Deep
from tests.core.helpers import NOW, RecordingSession, queue_of


def deep_queue(count: int) -> Deep:
    """Its view says of each message what its number leaves when divided by three and seven."""
    return Deep(count)


def sequences(taker: SelectorTaker, queue: Queue, messages: int = 99, size: int = -1, last: int = 0) -> list[int]:
    found = [entry.sequence for entry in taker.take(messages, size, last, NOW)]
    check_invariants(queue)
    return found


def test_takes_on_demand_and_within_limits() -> None:
    deep = deep_queue(0)
    deep.publish(30)
    queue = deep.queue
    taker = SelectorTaker(queue, "l", "three = 1", NOW)
    assert len(queue.delivering) == 0
    assert sequences(taker, queue, 2) == [1, 4]
    assert sequences(taker, queue, 9, 9) == [7]  # one always fits
    assert sequences(taker, queue, 9, 35) == [10, 13, 16]
    assert sequences(taker, queue, last=21) == [19]
    assert sequences(taker, queue, last=21) == []
    other = RecordingSession("other")
    other.consume(queue, messages=3)
    assert len(queue.delivering) == 10
    assert sequences(taker, queue) == [22, 25, 28]
    taker.close(NOW)
    assert queue.consumers.count == 1
    assert len(queue.delivering) == 13  # what was taken stays with the lease


def test_finds_in_a_deep_backlog_in_turns() -> None:
    deep = deep_queue(2000)
    queue = deep.queue
    taker = SelectorTaker(queue, "l", "seven = 2", NOW)
    assert taker.looking(0)
    queue.pause(NOW)
    assert not taker.looking(0)
    queue.resume(NOW)
    found: list[int] = []
    while taker.looking(1000):
        found += sequences(taker, queue, 500, last=1000)
        taker.open(500, -1)
        deep.take_turns()
    found += sequences(taker, queue, 500, last=1000)
    assert found == [number for number in range(1, 1001) if number % 7 == 2]
    assert not taker.looking(1000)
    taker.open(5, -1)
    deep.take_turns()
    taker.withdraw(NOW)
    assert len(queue.delivering) == len(found)
    assert all(entry.state == DELIVERING for entry in queue.delivering)


def test_what_is_no_selector_is_told() -> None:
    with pytest.raises(CoreError, match="invalid selector"):
        SelectorTaker(queue_of(), "l", "three =", NOW)


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"group_mode": "sticky"}, "has message groups"), ({"live_consumers_max": 1}, "some of its consumers")],
    ids=["groups", "live consumers"],
)
def test_queues_where_it_would_keep_messages_from_others(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(RefusedError, match=words):
        check_selectable(queue_of(**settings))
    check_selectable(queue_of())
