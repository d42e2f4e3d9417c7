"""Random histories of browsers of deep queues against a list, on one level and on several."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from annulet.core.base.settings import BROWSE_FOLLOW, BROWSE_SNAPSHOT
from annulet.core.queue.invariants import check_invariants
from annulet.core.queue.live_changes import revise_delivering
from annulet.residency.pages import pages as pages_module
from annulet.residency.pages import walk as walk_module
from tests.core.deep_doubles import numbers
from tests.core.helpers import NOW, RecordingSession
from tests.core.reading.test_browse_order import Storing, deep_queue
from tests.hypothesis_profiles import state_machine_settings


class Browsing(RuleBasedStateMachine):
    """Consumers drain, return and select, messages wait for their redelivery, and an operator moves, changes and
    purges, while browsers of both kinds come, read and go. A message's body is its number."""

    levels = False

    @initialize(at_once=st.sampled_from([2, 1000]), delay=st.sampled_from([0, 0, 15]))
    def start(self, at_once: int, delay: int) -> None:
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(pages_module, "LOAD_MESSAGES", 3)
        self.patch.setattr(walk_module, "WALK_MESSAGES", 4)
        self.deep = deep_queue(keep=1, levels=self.levels, redelivery_delay=delay)
        self.deep.pages.at_once = self.deep.queue.matchers.lanes_max = at_once
        self.queue = self.deep.queue
        self.queue.effects = Storing(self.deep)
        self.deep.publish(30)
        self.deep.page_out(20)
        self.now = NOW
        self.alive = set(range(1, 31))
        self.browsers: list[tuple[RecordingSession, set[int], bool]] = []  # what each is to see, and whether it follows
        self.dead: dict[RecordingSession, set[int]] = {}  # what left while it was there, or waited when it came
        self.missed: dict[RecordingSession, set[int]] = {}  # of that, what had not been seen by then
        self.taker = RecordingSession("taker")
        self.taken: list[tuple[int, int]] = []
        self.moved: set[int] = set()  # or came back after a while: seen late

    def teardown(self) -> None:
        if not hasattr(self, "patch"):
            return
        try:
            self.settle_down()
            check_invariants(self.queue)
        finally:
            self.patch.undo()

    def leave(self, number: int) -> None:
        self.alive.discard(number)
        for session, _, _ in self.browsers:
            self.dead[session].add(number)
            if number not in numbers(session):
                self.missed[session].add(number)

    @rule(follow=st.booleans(), messages=st.integers(1, 40))
    def browse(self, follow: bool, messages: int) -> None:
        if len(self.browsers) < 3:
            session = RecordingSession(str(len(self.browsers)))
            self.browsers.append((session, set(self.alive), follow))
            self.dead[session] = {int(entry.message.body) for entry in self.queue.schedule.entries()}
            self.missed[session] = set()
            session.consume(self.queue, messages=messages, browse=BROWSE_FOLLOW if follow else BROWSE_SNAPSHOT)

    @precondition(lambda self: self.browsers)
    @rule(which=st.integers(0, 2))
    def go(self, which: int) -> None:
        session, _, _ = self.browsers.pop(which % len(self.browsers))
        session.close(self.now)

    @rule(count=st.integers(1, 8))
    def publish(self, count: int) -> None:
        first = self.queue.next_sequence  # of a body that is its number
        self.alive.update(range(first, first + count))
        for _, wanted, follow in self.browsers:
            if follow:
                wanted.update(range(first, first + count))
        self.deep.publish(count)

    @rule(count=st.integers(1, 6))
    def take(self, count: int) -> None:
        for entry in self.queue.acquire(count, -1, self.now):
            self.taker.last_tag += 1
            self.taker.unacknowledged[self.taker.last_tag] = entry
            self.taken.append((self.taker.last_tag, int(entry.message.body)))

    @precondition(lambda self: self.taken)
    @rule(which=st.integers(0, 20), requeue=st.booleans())
    def settle(self, which: int, requeue: bool) -> None:
        tag, number = self.taken.pop(which % len(self.taken))
        if requeue:
            self.taker.reject(tag, self.now, requeue=True)
        else:
            self.taker.acknowledge(tag, self.now)
            self.leave(number)

    @precondition(lambda self: self.taken)
    @rule(which=st.integers(0, 20))
    def change(self, which: int) -> None:
        tag, _ = self.taken[which % len(self.taken)]
        revise_delivering(self.taker.unacknowledged[tag], {"changed": True})

    @rule(by=st.sampled_from([10, 20]))
    def pass_time(self, by: int) -> None:
        self.now += by
        self.queue.tick(self.now)

    @rule()
    def purge(self) -> None:
        self.queue.purge(self.now)
        for number in self.alive - {number for _, number in self.taken}:
            self.leave(number)

    @rule(which=st.integers(0, 30), priority=st.integers(5, 9))
    def move(self, which: int, priority: int) -> None:
        entries = self.queue.order.in_memory()
        if entries:
            entry = entries[which % len(entries)]
            if self.queue.reprioritise(entry, priority, self.now) is not None:
                self.moved.add(int(entry.message.body))

    @rule(selector=st.sampled_from(["three = 1", "seven = 2"]))
    def select(self, selector: str) -> None:
        session = RecordingSession("choosy")
        session.consume(self.queue, selector=selector, messages=2)
        self.deep.take_turns()
        session.close(self.now)

    @rule(limit=st.integers(1, 20))
    def page_out(self, limit: int) -> None:
        if self.queue.pageable():  # not with a browser that attached while nothing was on disk
            self.deep.page_out(limit)

    @rule(count=st.integers(1, 30))
    def give_credit(self, count: int) -> None:
        for session, _, _ in self.browsers:
            (consumer,) = session.consumers.values()
            consumer.window.messages_max += count
        self.queue.wake(self.now)

    @rule()
    def turn(self) -> None:
        if self.deep.asking:
            self.deep.asking = False
            more = self.queue.scan(self.now)
            self.deep.asking = self.deep.asking or more

    @rule()
    def settle_down(self) -> None:
        for session, _, _ in self.browsers:
            (consumer,) = session.consumers.values()
            consumer.window.messages_max += 1000
        self.pass_time(20)  # what waits for its redelivery comes back
        self.queue.wake(self.now)
        self.deep.take_turns()
        for session, wanted, _ in self.browsers:
            seen = numbers(session)
            assert wanted - self.dead[session] <= set(seen), "all that stayed"

    @invariant()
    def each_once_in_order(self) -> None:
        if hasattr(self, "queue"):
            self.moved |= {int(entry.message.body) for entry in self.queue.schedule.entries()}
        for session, wanted, follow in getattr(self, "browsers", []):
            seen = numbers(session)
            assert len(set(seen)) == len(seen), "each once"
            assert set(seen) <= wanted - self.missed[session], "nothing that had left"
            if not (self.levels and follow):  # an important message that comes late is seen late
                stayed = [number for number in seen if number not in self.moved]
                assert stayed == self.deep.in_order(stayed)


class BrowsingLevels(Browsing):
    """The same on three levels of strict priorities."""

    levels = True


TestBrowsing = Browsing.TestCase
TestBrowsingLevels = BrowsingLevels.TestCase
TestBrowsing.settings = TestBrowsingLevels.settings = state_machine_settings(
    examples=50, steps=30, suppress_health_check=(HealthCheck.too_slow,)
)
