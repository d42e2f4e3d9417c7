"""Rings whose oldest messages the disk does not give: what they could not drop goes once it does, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.sliced_work import SLICE_MESSAGES
from annulet.core.policies.staged_batches import take_back
from annulet.core.queue.invariants import check_invariants
from annulet.core.queue.ring_debt import PAUSE_MOST, SLICE_BYTES
from tests.core.deep_doubles import Deep
from tests.core.helpers import NOW, RecordingSession, SlicingEffects, make_message, removed

RING = 300
IN_MEMORY = 2
"""Of its messages so many need no disk to go."""

KINDS: dict[str, dict[str, Any]] = {"simple": {}, "any": {"in_flight_max": 1000}}


class Ring(Deep):
    """A full ring on a disk that refuses, but for two messages in memory."""

    def __init__(self, *, full: int = RING, **settings: Any) -> None:
        super().__init__(full, ring_size=full, **settings)
        self.worker = self.queue.effects = SlicingEffects()
        self.disk.failing = True
        self.before = 0

    def grow(self, more: int, **fields: Any) -> None:
        """Have so many arrive that make it longer."""
        self.publish(IN_MEMORY + more, **fields)
        assert self.dropped() == IN_MEMORY

    def gives_again(self) -> None:
        """Let the disk give; nobody has asked it yet."""
        self.disk.failing = False
        self.retry()

    def dropped(self) -> int:
        """Return how many went for the ring since the last look."""
        before, self.before = self.before, removed(self.queue, RemovalReason.REPLACED_RING)
        return self.before - before

    def resize(self, size: int, *, trim: bool = False) -> None:
        self.queue.update(replace(self.queue.settings, ring_size=size, ring_trim_now=trim), NOW)

    def take(self, count: int) -> None:
        """Have a consumer take and acknowledge some."""
        session = RecordingSession()
        consumer = session.consume(self.queue, messages=count)
        assert len(session.received) == count
        self.queue.remove_consumer(consumer, NOW)
        for entry in self.queue.unsettled():
            self.queue.acknowledge(entry)

    @property
    def length(self) -> int:
        return self.queue.order.count


@pytest.fixture(params=KINDS)
def ring(request: pytest.FixtureRequest) -> Ring:
    deep = Ring(**KINDS[request.param])
    assert deep.queue.simple is (request.param == "simple")
    return deep


def test_who_asks_the_disk_again_has_it_dropped_in_slices(ring: Ring) -> None:
    ring.grow(SLICE_MESSAGES + 10)
    assert ring.length == RING + SLICE_MESSAGES + 10
    ring.gives_again()
    ring.queue.ask_disk_again(NOW)
    assert (ring.dropped(), len(ring.worker.works)) == (0, 1)
    ring.queue.ask_disk_again(NOW)
    assert len(ring.worker.works) == 1
    ring.worker.turn()
    assert ring.dropped() == SLICE_MESSAGES
    ring.worker.turns()
    last = ring.queue.next_sequence
    assert [entry.sequence for entry in ring.queue.order.entries()] == list(range(last - RING, last))
    assert ring.queue.ring_debt is None
    check_invariants(ring.queue)


def test_an_arrival_drops_its_own_and_has_the_rest_dropped(ring: Ring) -> None:
    ring.grow(20)
    ring.gives_again()
    ring.publish()
    assert ring.dropped() == 1
    ring.publish()
    assert ring.dropped() == 1
    ring.worker.turns()
    assert (ring.dropped(), ring.length) == (20, RING)
    ring.publish()
    assert (ring.dropped(), ring.worker.works) == (1, [])


def test_a_slice_ends_with_what_one_read_brings() -> None:
    size = SLICE_BYTES // 4
    ring = Ring(full=20, size=size)
    ring.grow(10)
    ring.gives_again()
    ring.queue.ask_disk_again(NOW)
    ring.worker.turn()
    assert ring.dropped() == 4
    ring.worker.turns()
    assert ring.length == 20


def test_a_disk_that_refuses_is_asked_less_and_less_often(ring: Ring) -> None:
    """Rows that are refused forty times are given up."""
    ring.grow(20)
    reads = []
    for tick in range(4 * PAUSE_MOST):
        ring.retry()
        ring.queue.ask_disk_again(NOW)
        if ring.worker.works:
            reads.append(tick)
        ring.worker.turns()
        assert (ring.dropped(), ring.length) == (0, RING + 20)
    pauses = [later - sooner - 1 for sooner, later in pairwise(reads)]
    assert pauses == [1, 2, 4, 8, 16, 32, 64, 128, PAUSE_MOST, PAUSE_MOST]
    ring.gives_again()
    for _ in range(PAUSE_MOST + 1):
        ring.queue.ask_disk_again(NOW)
    ring.worker.turns()
    assert ring.length == RING


def test_an_arrival_that_is_given_something_does_not_wait_for_the_tick(ring: Ring) -> None:
    ring.grow(20)
    for _ in range(9):
        ring.retry()
        ring.queue.ask_disk_again(NOW)
        ring.worker.turns()
    ring.gives_again()
    ring.publish()
    ring.worker.turns()
    assert ring.length == RING


def test_what_others_took_is_owed_no_more(ring: Ring) -> None:
    ring.grow(20)
    ring.gives_again()
    ring.take(30)
    ring.resize(200)  # which trims nothing
    ring.publish()
    ring.worker.turns()
    assert (ring.dropped(), ring.length) == (1, RING - 10)


def test_a_ring_that_was_too_long_before_stays_so(ring: Ring) -> None:
    ring.resize(RING - 100)
    ring.publish(IN_MEMORY + 50)
    assert ring.dropped() == IN_MEMORY
    assert ring.length == RING + 50
    ring.gives_again()
    ring.publish()
    ring.worker.turns()
    assert (ring.dropped(), ring.length) == (51, RING)
    ring.take(50)
    ring.publish()
    ring.worker.turns()
    assert (ring.dropped(), ring.length) == (1, RING - 50)


def test_a_commit_that_failed_leaves_no_debt(ring: Ring) -> None:
    ring.resize(RING - 100)
    ring.publish(IN_MEMORY)
    batch = ring.publish_hidden(50)
    assert ring.dropped() == IN_MEMORY
    take_back(batch, ring.queue.effects, NOW)
    ring.worker.turns()
    assert ring.length == RING
    ring.gives_again()
    ring.publish()
    ring.worker.turns()
    assert (ring.dropped(), ring.length) == (1, RING)


def test_a_trim_that_is_refused_is_finished_and_one_that_is_done_owes_nothing(ring: Ring) -> None:
    ring.resize(RING - 50, trim=True)
    assert ring.dropped() == IN_MEMORY
    ring.gives_again()
    ring.queue.ask_disk_again(NOW)
    ring.worker.turns()
    assert (ring.dropped(), ring.length) == (48, RING - 50)
    ring.disk.failing = True
    ring.publish(400)
    ring.gives_again()
    ring.resize(RING - 50, trim=True)
    assert ring.length == RING - 50
    ring.dropped()
    ring.resize(RING - 100)
    ring.publish()
    ring.worker.turns()
    assert (ring.dropped(), ring.length) == (1, RING - 50)


@pytest.mark.parametrize(("size", "trim"), [(-1, False), (-1, True), (RING + 100, False)])
def test_a_queue_that_is_no_longer_than_it_may_be_owes_nothing(ring: Ring, size: int, *, trim: bool) -> None:
    ring.grow(20)
    ring.gives_again()
    ring.queue.ask_disk_again(NOW)
    ring.resize(size, trim=trim)
    ring.worker.turns()
    assert (ring.dropped(), ring.length) == (0, RING + 20)
    ring.resize(RING)
    ring.publish()
    ring.worker.turns()
    assert (ring.dropped(), ring.length) == (1, RING + 20)


def test_what_has_expired_goes_first_and_is_not_dropped(ring: Ring) -> None:
    ring.grow(2000, expires_at=NOW + 5)
    ring.gives_again()
    ring.queue.enqueue(make_message("alive"), NOW + 6)
    ring.worker.turns(NOW + 6)
    assert ring.dropped() == 0
    assert ring.length == RING - IN_MEMORY + 1
    assert ring.queue.ring_debt is None


@pytest.mark.parametrize("noticed", [False, True])
@pytest.mark.parametrize("more", [20, 2000])
def test_a_slice_lets_go_of_what_has_expired_first(ring: Ring, more: int, *, noticed: bool) -> None:
    ring.grow(more, expires_at=NOW + 5)
    ring.gives_again()
    ring.queue.ask_disk_again(NOW)
    if noticed:
        ring.queue.expire_due(NOW + 6)
    ring.worker.turns(NOW + 6)
    assert (ring.dropped(), ring.length) == (0, RING - IN_MEMORY)


def test_what_is_damaged_makes_room(ring: Ring) -> None:
    ring.grow(20)
    ring.disk.damaged.update(range(IN_MEMORY + 1, IN_MEMORY + 101))
    ring.gives_again()
    ring.publish()
    ring.worker.turns()
    assert ring.dropped() == 0
    assert ring.length == RING + 20 + 1 - 100


def test_what_falls_due_goes_itself_and_pays_nothing(ring: Ring) -> None:
    ring.grow(20)
    ring.gives_again()
    message = make_message(b"%*d" % (10, ring.queue.next_sequence), deliver_at=NOW + 5)
    message.origin = ring.origin
    ring.queue.enqueue(message, NOW)
    ring.queue.tick(NOW + 5)
    assert ring.dropped() == 1
    ring.queue.ask_disk_again(NOW + 5)
    ring.worker.turns()
    assert (ring.dropped(), ring.length) == (20, RING)


def test_a_limit_that_the_debt_had_reached_lets_publishers_in_again() -> None:
    ring = Ring(max_length=RING + 20, overflow="reject")
    ring.grow(20)
    assert ring.queue.refusal(make_message("more"))
    ring.gives_again()
    ring.queue.ask_disk_again(NOW)
    ring.worker.turns()
    assert ring.queue.refusal(make_message("more")) == ""
    assert ring.length == RING


def test_publishers_who_were_held_back_for_it_go_on() -> None:
    ring = Ring(max_length=RING + 10, resume_length=RING + 5, overflow="block")
    ring.grow(20)
    assert ring.queue.blocked
    ring.gives_again()
    ring.queue.ask_disk_again(NOW)
    ring.worker.turns()
    assert ring.length == RING
    assert not ring.queue.blocked


def test_an_arrival_that_takes_no_place_is_nobodys_successor() -> None:
    ring = Ring(**KINDS["any"])
    ring.grow(2)
    ring.gives_again()
    ring.queue.enqueue(make_message(b"%*d" % (10, ring.queue.next_sequence), expires_at=NOW), NOW)
    ring.worker.turns()
    losses = [loss.replaced_by for loss in ring.queue.ledger.query() if loss.reason is RemovalReason.REPLACED_RING]
    assert losses[IN_MEMORY:] == [0, 0]


def test_who_is_lost_to_a_paid_debt_names_no_successor(ring: Ring) -> None:
    ring.grow(2)
    ring.gives_again()
    ring.publish()
    ring.worker.turns()
    losses = [loss.replaced_by for loss in ring.queue.ledger.query() if loss.reason is RemovalReason.REPLACED_RING]
    arrival = ring.queue.next_sequence - 1
    assert losses[IN_MEMORY:] == [arrival, 0, 0]
