"""Who must go."""

from __future__ import annotations

import random
import sys
from dataclasses import replace

import pytest

import annulet.core.policies.eviction
from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.settings import (
    EVICTION_RULES,
    LARGEST,
    LEAST_IMPORTANT,
    LEAST_RECENT_KEY,
    NEWEST,
    OLDEST,
    OVERFLOW_RING,
    SOONEST_TO_EXPIRE,
)
from annulet.core.policies.eviction import COMPACTION_MINIMUM, EvictionIndex, eviction_rank
from tests.core.helpers import NOW, RecordingSession, make_message, pending, queue_of, removed


def send_sized(queue, *sizes):
    for index, size in enumerate(sizes):
        queue.enqueue(make_message(str(index) * size, expires_at=NOW + 100 - index, k=index % 2), NOW)


@pytest.mark.parametrize(
    ("rule", "left"),
    [(LEAST_IMPORTANT, "234"), (OLDEST, "234"), (NEWEST, "012"), (LARGEST, "134"), (SOONEST_TO_EXPIRE, "012")],
)
def test_each_rule_names_its_victim(rule, left):
    queue = queue_of(max_length=3, overflow=OVERFLOW_RING, evict=rule)
    send_sized(queue, 3, 1, 5, 2, 2)
    assert "".join(body[0] for body in pending(queue)) == left
    assert removed(queue, RemovalReason.OVERFLOW) == 2


def test_on_a_priority_queue_the_least_important_goes_then_the_oldest_the_newcomer_included():
    queue = queue_of(priorities=10, ring_size=3)
    for body, priority in [("a9", 9), ("b0", 0), ("c0", 0), ("d0", 0)]:
        queue.enqueue(make_message(body, priority=priority), NOW)
    assert pending(queue) == ["a9", "c0", "d0"]
    queue = queue_of(priorities=10, ring_size=1)
    for body, priority in [("a4", 4), ("b9", 9), ("c3", 3)]:
        queue.enqueue(make_message(body, priority=priority), NOW)
    assert pending(queue) == ["b9"]


def test_on_a_sorted_queue_the_oldest_goes():
    queue = queue_of(sort_key="k", ring_size=2)
    for key in (5, 9, 1):
        queue.enqueue(make_message(str(key), k=key), NOW)
    assert pending(queue) == ["1", "9"]


def test_the_key_whose_last_message_is_oldest_goes_first():
    queue = queue_of(last_value_key="k", keep_per_key=3, max_length=3, overflow=OVERFLOW_RING, evict=LEAST_RECENT_KEY)
    for body in ("a1", "b1", "a2", "c1", "c2"):
        queue.enqueue(make_message(body, k=body[0]), NOW)
    assert pending(queue) == ["a2", "c1", "c2"]  # b was heard of last before a's second message


def test_the_index_does_not_grow_with_what_was_delivered():
    queue, session = queue_of(ring_size=10, evict=LARGEST), RecordingSession()
    session.consume(queue, auto_acknowledge=True)
    for number in range(1000):
        queue.enqueue(make_message(str(number)), NOW)
    index = queue.evictions
    assert isinstance(index, EvictionIndex)
    assert index.size <= 2 * 10 + COMPACTION_MINIMUM + 1
    assert index.first() is None


@pytest.mark.parametrize("drain", ["consume", "purge", "remove"])
def test_the_index_lets_go_of_what_left_without_waiting_for_an_arrival(drain):
    queue, session = queue_of(max_length=1000, overflow=OVERFLOW_RING, evict=LARGEST), RecordingSession()
    entries = [queue.enqueue(make_message(str(number)), NOW) for number in range(1000)]
    if drain == "consume":
        session.consume(queue, auto_acknowledge=True)
    elif drain == "purge":
        queue.purge(NOW)
    else:
        for entry in entries:
            queue.remove(entry, RemovalReason.MOVED, NOW)
    assert isinstance(queue.evictions, EvictionIndex)
    assert queue.evictions.size <= COMPACTION_MINIMUM


def test_queues_that_evict_nothing_keep_no_index_until_they_do():
    queue = queue_of(priorities=10, max_length=2, overflow="reject")
    for priority in (9, 4):
        queue.enqueue(make_message(str(priority), priority=priority), NOW)
    assert queue.evictions is None
    queue.update(replace(queue.settings, ring_size=2), NOW)
    queue.enqueue(make_message("8", priority=8), NOW)
    assert pending(queue) == ["9", "8"]


@pytest.mark.parametrize("rule", EVICTION_RULES)
def test_the_victim_is_always_the_first_by_the_rule(rule):
    choose = random.Random(rule).choice
    queue = queue_of(max_length=8, overflow=OVERFLOW_RING, evict=rule, last_value_key="k", keep_per_key=4)
    session = RecordingSession()
    for number in range(600):
        message = make_message(
            "x" * choose([1, 2, 3]), expires_at=choose([0, NOW + number]), k=choose(["a", "b", None])
        )
        queue.enqueue(message, NOW)
        if number % 5 == 0:
            session.get(queue, NOW, auto_acknowledge=choose([True, False]))
        if number % 40 == 0:
            session.recover(NOW)
        waiting = queue.order.entries()
        assert queue.victim() is min(waiting, key=lambda entry: eviction_rank(entry, rule), default=None)


@pytest.mark.skipif(
    not str(annulet.core.policies.eviction.__file__).endswith(".py"), reason="compiled code reports no calls"
)
def test_a_deep_key_costs_no_more_than_a_shallow_one():
    counts = []
    for depth in (100, 1600):
        queue = queue_of(
            max_length=depth, overflow=OVERFLOW_RING, evict=LEAST_RECENT_KEY, last_value_key="k", keep_per_key=depth
        )
        messages = [make_message("m", k=number % 2) for number in range(depth + 100)]
        for message in messages[:depth]:
            queue.enqueue(message, NOW)
        calls = []
        sys.setprofile(lambda frame, event, argument, calls=calls: calls.append(event))
        for message in messages[depth:]:
            queue.enqueue(message, NOW)
        sys.setprofile(None)
        counts.append(len(calls))
    assert counts[1] < 2 * counts[0]
