"""A9: a deleted queue of any kind is freed at once, whatever was in it and who was at it."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from annulet.core.base.settings import BROWSE_FOLLOW
from tests.core.helpers import NOW, RecordingSession, make_message, queue_of

KINDS: list[dict[str, Any]] = [
    {},
    {"group_mode": "sticky"},
    {"group_mode": "sticky", "priorities": 10},
    {"fair_key": "k"},
    {"last_value_key": "k"},
    {"priorities": 10},
    {"ring_size": 3},
    {"sort_key": "k"},
    {"non_destructive": True},
    {"redelivery_delay": 100},
    {"message_ttl": 1000},
    {"in_flight_max": 2},
]
CONSUMERS: list[dict[str, Any]] = [{}, {"selector": "k = 'a'"}, {"browse": BROWSE_FOLLOW}]


def live_and_die(settings: dict[str, Any], consumer: dict[str, Any], *, ends_first: bool) -> None:
    """Use a queue in every way and delete it."""
    queue, first, second = queue_of(**settings), RecordingSession("first"), RecordingSession("second")
    for number in range(16):
        if number == 8:
            first.consume(queue, messages=3, **consumer)
            second.consume(queue, messages=2)
        due = NOW + 5000 if number % 4 == 3 else 0
        queue.enqueue(make_message(str(number), deliver_at=due, k="ab"[number % 2], JMSXGroupID="ab"[number % 2]), NOW)
    for tag in list(first.unacknowledged)[:2]:
        first.reject(tag, NOW, requeue=True)
    if ends_first:
        first.close(NOW)
    queue.delete(NOW)
    first.close(NOW)
    second.close(NOW)


@pytest.mark.parametrize("ends_first", [False, True])
@pytest.mark.parametrize("consumer", CONSUMERS, ids=str)
@pytest.mark.parametrize("settings", KINDS, ids=str)
def test_a_deleted_queue_leaves_no_cycle(settings: dict[str, Any], consumer: dict[str, Any], ends_first: bool) -> None:
    """A9: deleted grouped queues, and lanes of selectors, appointments and closed sessions of the others."""
    live_and_die(settings, consumer, ends_first=ends_first)
    gc.collect()
    gc.disable()
    try:
        live_and_die(settings, consumer, ends_first=ends_first)
        assert gc.collect() == 0
    finally:
        gc.enable()
