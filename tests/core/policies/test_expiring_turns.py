"""Fair keys lose their turns while messages expire in slices as they would if all went at once."""

from __future__ import annotations

import random

import pytest

from annulet.core.base.sliced_work import SLICE_MESSAGES
from annulet.core.queue.invariants import check_invariants
from annulet.core.queue.queue import Queue
from tests.core.helpers import NOW, RecordingSession, SlicingEffects, make_message, queue_of

LONG = NOW + 1_000_000
KEYS = "abcdef"


def arrive(queue: Queue, body: str, expires_at: int, now: int) -> None:
    queue.enqueue(make_message(body, expires_at=expires_at, k=body[0]), now)


class Pair:
    """Two queues with the same history; of one the expired messages go at once, whatever comes next."""

    def __init__(self, quantum: int = 0) -> None:
        self.effects = SlicingEffects()
        self.sliced = queue_of(self.effects, fair_key="k", fair_quantum=quantum)
        self.at_once = queue_of(SlicingEffects(), fair_key="k", fair_quantum=quantum)

    def arrive(self, body: str, expires_at: int, now: int) -> None:
        for queue in (self.sliced, self.at_once):
            arrive(queue, body, expires_at, now)
        self.at_once.finish_slices(now)

    def tick(self, now: int) -> None:
        for queue in (self.sliced, self.at_once):
            queue.tick(now)
        self.at_once.finish_slices(now)

    def received(self, now: int) -> list[list[str]]:
        self.effects.turns(now)
        found: list[list[str]] = []
        for queue in (self.sliced, self.at_once):
            check_invariants(queue)
            session = RecordingSession()
            session.consume(queue)
            found.append(session.received)
        return found


@pytest.mark.parametrize("kept", [True, False])
def test_a_key_whose_messages_have_all_gone_loses_its_turn(kept: bool):
    pair = Pair()
    for number in range(3 * SLICE_MESSAGES):
        pair.arrive(f"a{number}", NOW + 10, NOW)
    if kept:
        pair.arrive("a-old", LONG, NOW)
    pair.arrive("b1", LONG, NOW)
    pair.arrive("c1", LONG, NOW)
    pair.tick(NOW + 10)
    assert pair.sliced.expiring is not None
    pair.arrive("a-new", LONG, NOW + 11)
    sliced, at_once = pair.received(NOW + 12)
    assert sliced == at_once == (["a-old", "b1", "c1", "a-new"] if kept else ["b1", "c1", "a-new"])


def test_an_expired_arrival_keeps_no_turn_for_the_next():
    pair = Pair()
    for number in range(3 * SLICE_MESSAGES):
        pair.arrive(f"a{number}", NOW + 10, NOW)
    pair.tick(NOW + 10)
    pair.arrive("a-short", NOW + 12, NOW + 11)
    pair.arrive("b1", LONG, NOW + 11)
    pair.arrive("a-new", LONG, NOW + 13)
    sliced, at_once = pair.received(NOW + 14)
    assert sliced == at_once == ["b1", "a-new"]


def test_one_slice_removes_no_more_than_its_share():
    queue = queue_of(SlicingEffects(), fair_key="k")
    for number in range(3 * SLICE_MESSAGES):
        arrive(queue, f"{KEYS[number % 6]}{number}", NOW + 10, NOW)
    assert queue.tick(NOW + 10) == SLICE_MESSAGES
    assert (queue.order.count, queue.halted) == (2 * SLICE_MESSAGES, True)


@pytest.mark.parametrize("seed", range(12))
def test_turns_are_as_if_all_had_gone_at_once(seed: int):
    chance = random.Random(seed)
    pair = Pair(quantum=chance.choice([0, 4]))
    now, number = NOW, 0
    for _ in range(2):
        for _ in range(2 * SLICE_MESSAGES + chance.randrange(SLICE_MESSAGES)):
            number += 1
            ends = LONG if chance.random() < 0.002 else now + chance.randint(1, 8)
            pair.arrive(f"{chance.choice(KEYS)}{number}", ends, now)
        now += chance.randint(6, 9)
        pair.tick(now)
        for _ in range(30):
            number += 1
            pair.arrive(f"{chance.choice(KEYS)}{number}", now + chance.choice([1, 2, 3, 1_000_000]), now)
            if chance.random() < 0.4:
                now += 1
            if chance.random() < 0.1:
                pair.effects.turn(now)
    pair.tick(now)
    sliced, at_once = pair.received(now)
    assert sliced == at_once
    assert sliced
