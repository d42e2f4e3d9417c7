"""Random histories of a deep non-destructive queue and its readers against a list of what is there."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.settings import BROWSE_FOLLOW, BROWSE_OFF, BROWSE_SNAPSHOT
from annulet.core.policies.staged_batches import HiddenBatch
from annulet.core.queue.invariants import check_invariants
from annulet.residency.pages import pages as pages_module
from annulet.residency.pages import walk as walk_module
from tests.core.deep_doubles import numbers
from tests.core.helpers import NOW, RecordingSession, make_message
from tests.core.reading.test_browse_order import Storing, deep_queue
from tests.hypothesis_profiles import state_machine_settings

SELECTOR = "three = 1"


class Reader:
    """A session with one consumer, and what it is to see."""

    def __init__(self, name: str, kind: str, wanted: set[int], *, chosen: bool) -> None:
        self.session = RecordingSession(name)
        self.follows = kind != BROWSE_SNAPSHOT
        self.kind = kind
        self.chosen = chosen
        self.wanted = {number for number in wanted if self.takes(number)}
        self.gone: set[int] = set()  # what left while it was there: it may have been seen
        self.missed: set[int] = set()  # of that, what had not been seen by then

    def takes(self, number: int) -> bool:
        return not self.chosen or number % 3 == 1


class Streaming(RuleBasedStateMachine):
    """Messages come, expire, fall due, are dropped by a ring, purged, removed and moved while readers of all kinds
    come, read and go. A message's body is its number."""

    @initialize(ring=st.sampled_from([-1, 25]), deep=st.booleans())
    def start(self, ring: int, deep: bool) -> None:
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(pages_module, "LOAD_MESSAGES", 3)
        self.patch.setattr(walk_module, "WALK_MESSAGES", 4)
        self.deep = deep_queue(keep=1, non_destructive=True, ring_size=ring)
        self.queue = self.deep.queue
        self.queue.effects = Storing(self.deep)
        self.ring = ring
        self.now = NOW
        self.number = 0
        self.there: list[int] = []  # in order of dispatch
        self.sequences: dict[int, int] = {}  # of all messages
        self.ends: dict[int, int] = {}  # when each expires that does
        self.delayed: dict[int, int] = {}  # when each falls due that waits for it
        self.fallen: list[int] = []  # that fell due: they stand before all others
        self.moved: set[int] = set()
        self.readers: list[Reader] = []
        self.batch: HiddenBatch | None = None
        self.publish(20, 0, stored=True)
        if deep:
            self.deep.page_out(15)

    def teardown(self) -> None:
        if not hasattr(self, "patch"):
            return
        try:
            self.settle_down()
            check_invariants(self.queue)
        finally:
            self.patch.undo()

    # ------------------------------------------------------------------ what is there

    def arrive(self, number: int, place: int) -> None:
        self.there.insert(place, number)
        for reader in self.readers:
            if reader.follows and reader.takes(number):
                reader.wanted.add(number)
        if 0 <= self.ring < len(self.there):
            self.leave(self.there[0])

    def leave(self, number: int) -> None:
        self.there.remove(number)
        for reader in self.readers:
            reader.gone.add(number)
            if number not in numbers(reader.session):
                reader.missed.add(number)

    def hidden(self) -> set[int]:
        return {number for number in self.there if self.sequences[number] >= self.queue.hidden_from}

    def send(self, *, expires_at: int = 0, deliver_at: int = 0, stored: bool = True) -> None:
        self.number += 1
        message = make_message(b"%d" % self.number, accepted_at=self.now, expires_at=expires_at, deliver_at=deliver_at)
        message.origin = self.deep.origin
        self.sequences[self.number] = self.queue.next_sequence
        if stored:
            self.deep.disk.store(self.queue, message, self.queue.next_sequence)
        self.queue.enqueue(message, self.now)

    @rule(count=st.integers(1, 8), life=st.sampled_from([0, 0, 0, 30]), stored=st.sampled_from([True, True, False]))
    def publish(self, count: int, life: int, stored: bool) -> None:
        for _ in range(count):
            self.send(expires_at=self.now + life if life else 0, stored=stored)
            if life:
                self.ends[self.number] = self.now + life
            self.arrive(self.number, len(self.there))

    @precondition(lambda self: self.ring < 0)
    @rule()
    def delay(self) -> None:
        self.send(deliver_at=self.now + 15)
        self.delayed[self.number] = self.now + 15

    @rule(by=st.sampled_from([10, 20]))
    def pass_time(self, by: int) -> None:
        self.now += by
        self.queue.tick(self.now)
        for number in [number for number in self.there if self.ends.get(number, self.now + 1) <= self.now]:
            self.leave(number)
        for number in sorted(number for number, at in self.delayed.items() if at <= self.now):
            del self.delayed[number]
            self.arrive(number, len([other for other in self.there if other in self.fallen]))
            self.fallen.append(number)

    @precondition(lambda self: self.batch is None)
    @rule()
    def purge(self) -> None:
        self.queue.purge(self.now)
        self.delayed.clear()
        for number in list(self.there):
            self.leave(number)

    @rule(which=st.integers(0, 30))
    def remove(self, which: int) -> None:
        entries = self.queue.order.in_memory()
        if entries:
            entry = entries[which % len(entries)]
            if self.queue.remove(entry, RemovalReason.DELETED, self.now):
                self.leave(int(entry.message.body))

    @precondition(lambda self: self.batch is None)
    @rule(which=st.integers(0, 30), priority=st.integers(5, 9))
    def move(self, which: int, priority: int) -> None:
        entries = [entry for entry in self.queue.order.in_memory() if entry.message.record]
        if not entries:
            return
        entry = entries[which % len(entries)]
        if self.queue.reprioritise(entry, priority, self.now) is not None:
            number = int(entry.message.body)
            self.sequences[number] = self.queue.next_sequence - 1
            self.there.remove(number)
            self.there.append(number)
            self.moved.add(number)
            if number in self.fallen:
                self.fallen.remove(number)

    @precondition(lambda self: self.batch is None)
    @rule(count=st.integers(1, 6))
    def hide(self, count: int) -> None:
        self.batch = self.queue.batches.current = HiddenBatch()
        self.publish(count, 0, stored=True)
        self.queue.batches.current = None

    @precondition(lambda self: self.batch is not None)
    @rule()
    def show(self) -> None:
        assert self.batch is not None
        batch, self.batch = self.batch, None
        batch.show(self.now)

    @rule(limit=st.integers(1, 20))
    def page_out(self, limit: int) -> None:
        if self.queue.pageable():
            self.deep.page_out(limit)

    @rule()
    def pause_or_resume(self) -> None:
        if self.queue.paused:
            self.queue.resume(self.now)
        else:
            self.queue.pause(self.now)

    # ------------------------------------------------------------------ who reads

    @precondition(lambda self: len(self.readers) < 4)
    @rule(
        kind=st.sampled_from([BROWSE_OFF, BROWSE_OFF, BROWSE_FOLLOW, BROWSE_SNAPSHOT]),
        chosen=st.booleans(),
        messages=st.integers(0, 30),
    )
    def attach(self, kind: str, chosen: bool, messages: int) -> None:
        there = set(self.there) - (self.hidden() if kind == BROWSE_SNAPSHOT else set())
        reader = Reader(str(self.number), kind, there, chosen=chosen)
        self.readers.append(reader)
        selector = {"selector": SELECTOR} if chosen else {}
        reader.session.consume(self.queue, messages=messages, browse=kind, now=self.now, **selector)

    @precondition(lambda self: self.readers)
    @rule(which=st.integers(0, 3))
    def go(self, which: int) -> None:
        self.readers.pop(which % len(self.readers)).session.close(self.now)

    @precondition(lambda self: self.readers)
    @rule(which=st.integers(0, 3), count=st.integers(1, 20))
    def give_credit(self, which: int, count: int) -> None:
        (consumer,) = self.readers[which % len(self.readers)].session.consumers.values()
        consumer.window.messages_max += count
        self.queue.wake(self.now)

    @rule()
    def turn(self) -> None:
        if self.deep.asking:
            self.deep.asking = False
            more = self.queue.scan(self.now)
            self.deep.asking = self.deep.asking or more

    @precondition(lambda self: self.batch is None and not self.queue.paused)
    @rule()
    def get(self) -> None:
        got = self.queue.acquire(1, -1, self.now)
        assert [int(entry.message.body) for entry in got] == self.there[:1]
        for entry in got:
            self.queue.acknowledge(entry)

    @rule()
    def settle_down(self) -> None:
        if self.batch is not None:
            self.show()
        self.queue.resume(self.now)
        for reader in self.readers:
            (consumer,) = reader.session.consumers.values()
            consumer.window.messages_max += 1000
        self.queue.wake(self.now)
        while self.deep.asking:
            self.deep.asking = False
            self.deep.asking = self.queue.scan(self.now) or self.deep.asking
        for reader in self.readers:
            assert reader.wanted - reader.gone <= set(numbers(reader.session)), "all that stayed"

    @invariant()
    def each_once_in_order(self) -> None:
        for reader in getattr(self, "readers", []):
            seen = numbers(reader.session)
            assert len(set(seen)) == len(seen), "each once"
            assert set(seen) <= reader.wanted - reader.missed, "nothing that had left"
            in_order = [number for number in seen if number not in self.moved and number not in self.fallen]
            assert in_order == sorted(in_order)

    @invariant()
    def all_is_there(self) -> None:
        if hasattr(self, "there"):
            assert self.queue.order.count == len(self.there)
            assert self.queue.schedule.count == len(self.delayed)


TestStreaming = Streaming.TestCase
TestStreaming.settings = state_machine_settings(examples=60, steps=40, suppress_health_check=(HealthCheck.too_slow,))
