"""Those who may be served are found by their bits, and nobody is left out whom a message is for."""

from __future__ import annotations

import random

import pytest

from annulet.core.model.consumer import Consumer
from annulet.core.ordering.lane import Shelf
from annulet.core.policies.takers import MANY, STEP_CONSUMERS, Takers
from annulet.core.queue.queue import Queue
from tests.core.helpers import NOW, RecordingSession, make_message, queue_of

KINDS = 60


def consumers_of(queue: Queue, *selectors: str) -> list[Consumer]:
    """Return consumers that have these selectors; the first has bit 1, the second 2, and so on."""
    return [RecordingSession().consume(queue, selector=selector) for selector in selectors]


def shelf(blocked: int, owner: Consumer | None = None) -> Shelf:
    return Shelf(owner, blocked, blocked, parked=False)


def test_a_shelf_is_for_those_whose_bits_are_not_blocked() -> None:
    queue = queue_of()
    one, two, every = consumers_of(queue, "n = 1", "n = 2", "")
    both = Takers([one, two])
    assert both.may_take_from(shelf(0))
    assert both.may_take_from(shelf(one.required))
    assert not both.may_take_from(shelf(one.required | two.required))
    assert not both.unselective
    assert Takers([one, every]).may_take_from(shelf(one.required | two.required))
    assert Takers([one, every]).unselective
    assert not Takers([]).may_take_from(shelf(0))


def test_a_shelf_with_an_owner_is_for_nobody_else() -> None:
    one, two = consumers_of(queue_of(), "n = 1", "n = 2")
    assert Takers([one, two]).may_take_from(shelf(0, one))
    assert not Takers([one, two]).may_take_from(shelf(one.required, one))
    assert not Takers([two]).may_take_from(shelf(0, one))


def test_what_one_refused_for_itself_counts_for_it_alone() -> None:
    queue = queue_of()
    one, two = consumers_of(queue, "", "")
    refused = queue.matchers.refusal_bit(one)
    assert not Takers([one]).may_take_from(shelf(refused))
    assert Takers([one]).unselective
    assert Takers([one, two]).may_take_from(shelf(refused))


def test_of_very_many_those_are_found_whose_bits_are_open() -> None:
    queue = queue_of()
    consumers = consumers_of(queue, *[f"n = {number}" for number in range(2 * MANY)], "")
    refusing = consumers[5]
    queue.matchers.refusal_bit(refusing)
    takers = Takers(consumers)
    everything = takers.bits_among(-1)
    assert everything.bit_count() == 2 * MANY
    found = takers.places_open(everything & ~(consumers[9].required | consumers[3].required))
    assert found == [3, 5, 9, 2 * MANY], "in turn, with those whom no bit finds"
    assert takers.places_open(0) is None, "as good as all"
    assert Takers(consumers[:MANY]).places_open(everything) is None, "few are looked at one by one"


def test_very_many_count_for_each_step() -> None:
    consumers = consumers_of(queue_of(), "n = 1") * (2 * STEP_CONSUMERS)
    assert Takers(consumers).weight == 2
    assert Takers(consumers[:9]).weight == 0


@pytest.mark.parametrize("seed", range(5))
def test_very_many_consumers_get_what_their_selectors_admit(seed: int) -> None:
    chosen = random.Random(seed)
    queue = queue_of()
    sessions: list[tuple[RecordingSession, str, int]] = []
    for number in range(3 * KINDS):
        kind = chosen.choice(["n = {}", "n IN ({}, -1)", "n > {} AND n < 10", "n = {} OR m = 3"])
        session, selector = RecordingSession(), kind.format(number % KINDS)
        session.consume(queue, selector=selector, messages=1)
        sessions.append((session, kind, number % KINDS))
    sent = [(chosen.randrange(2 * KINDS), chosen.randrange(5)) for _ in range(3 * KINDS)]
    for number, (n, m) in enumerate(sent):
        queue.enqueue(make_message(str(number), n=n, m=m), NOW)

    def admits(kind: str, limit: int, n: int, m: int) -> bool:
        if "OR" in kind:
            return n == limit or m == 3
        return limit < n < 10 if "AND" in kind else n == limit

    delivered: set[int] = set()
    for session, kind, limit in sessions:
        for body in session.received:
            assert admits(kind, limit, *sent[int(body)])
            delivered.add(int(body))
    assert sum(len(session.received) for session, _, _ in sessions) == len(delivered) == len(sent) - queue.order.count
    for number, (n, m) in enumerate(sent):
        if number not in delivered:
            free = [kind for session, kind, limit in sessions if not session.received and admits(kind, limit, n, m)]
            assert not free, "it waits only while all it is for hold another one"
