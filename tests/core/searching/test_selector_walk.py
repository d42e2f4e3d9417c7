"""What selectors look for in a deep backlog is found, once, in order, and without bringing the rest into memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import HealthCheck
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.message.hot_properties import codes_of
from annulet.core.message.message import Message
from annulet.core.policies.matchers import FOUND_MESSAGES, RETIRED_MILLISECONDS
from annulet.core.searching.selector_walk import FOUND_BYTES, LOOK_MESSAGES, remaining
from annulet.residency.pages import pages as pages_module
from annulet.residency.rows import hot_columns
from tests.core.deep_doubles import ALL, Deep, check_parts_behind_lanes, numbers, priority_of
from tests.core.helpers import NOW, RecordingSession, removed
from tests.hypothesis_profiles import state_machine_settings

SELECTORS: dict[str, Callable[[int], bool]] = {
    "": lambda number: True,
    "three = 1": lambda number: number % 3 == 1,
    "third = 1": lambda number: number % 3 == 1,  # another class with the same matches
    "seven = 2": lambda number: number % 7 == 2,
}


class Histories(RuleBasedStateMachine):
    """Random publishes, consumers, credits, settlements, page-outs, turns, damage and refusals of the disk (A6)."""

    levels = False
    hot: tuple[tuple[str, ...], ...] = ()  # what is set for hot properties, by turns

    @initialize(lanes_max=st.sampled_from([3, 1000]))
    def start(self, lanes_max: int) -> None:
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(pages_module, "LOAD_MESSAGES", 3)
        self.patch.setattr(hot_columns, "codes_of", self.codes_of)
        self.deep = Deep(keep=1, levels=self.levels)
        self.queue = self.deep.queue
        self.queue.matchers.lanes_max = lanes_max
        self.queue.matchers.found_messages = 3
        self.sessions: list[tuple[RecordingSession, str]] = []
        self.out: list[tuple[RecordingSession, int, int]] = []  # session, tag, number
        self.seen: dict[RecordingSession, int] = {}  # deliveries looked at
        self.pending: set[int] = set()
        self.returned: set[int] = set()
        self.damaged: set[int] = set()
        self.newest: dict[tuple[RecordingSession, int], int] = {}  # by level too
        self.refused: dict[RecordingSession, set[int]] = {}
        self.timed: set[int] = set()
        self.tags = 0
        self.known = 0  # what has lower numbers was there when deliveries were looked at last
        self.publish(40)
        self.deep.page_out(25)

    def codes_of(self, messages: Sequence[Message], names: tuple[str, ...]) -> list[bytes]:
        """Note codes without counting what that asks."""
        asked = self.deep.view.asked
        self.deep.view.asked = {}
        codes = codes_of(messages, names)
        self.deep.view.asked = asked
        return codes

    def teardown(self) -> None:
        if hasattr(self, "patch"):
            self.patch.undo()

    @rule(count=st.integers(1, 12))
    def publish(self, count: int) -> None:
        first = self.queue.next_sequence
        self.pending.update(range(first, first + count))
        self.deep.publish(count)

    @rule(selector=st.sampled_from(sorted(SELECTORS)), messages=st.integers(0, 5))
    def consume(self, selector: str, messages: int) -> None:
        if len(self.sessions) < 4:
            self.tags += 1
            session = RecordingSession(str(self.tags))
            self.sessions.append((session, selector))
            session.consume(self.queue, messages=messages, selector=selector)

    @precondition(lambda self: self.sessions)
    @rule(which=st.integers(0, 10))
    def close(self, which: int) -> None:
        self.note_deliveries()
        session, _ = self.sessions.pop(which % len(self.sessions))
        for number in [number for owner, _, number in self.out if owner is session]:
            self.pending.add(number)
            self.returned.add(number)
        self.out = [item for item in self.out if item[0] is not session]
        session.close(NOW)

    @precondition(lambda self: self.out)
    @rule(which=st.integers(0, 20), requeue=st.booleans())
    def settle(self, which: int, requeue: bool) -> None:
        session, tag, number = self.out.pop(which % len(self.out))
        if requeue:
            self.pending.add(number)
            self.returned.add(number)
            session.reject(tag, NOW, requeue=True)
        else:
            session.acknowledge(tag, NOW)

    @precondition(lambda self: self.out)
    @rule(which=st.integers(0, 20))
    def refuse(self, which: int) -> None:
        session, tag, number = self.out.pop(which % len(self.out))
        self.pending.add(number)
        self.returned.add(number)
        self.refused.setdefault(session, set()).add(number)
        (consumer,) = session.consumers.values()
        self.queue.return_entries(session.take(tag, multiple=False), NOW, exclude=consumer)

    @rule(count=st.integers(1, 4))
    def publish_with_a_time(self, count: int) -> None:
        first = self.queue.next_sequence
        self.pending.update(range(first, first + count))
        self.timed.update(range(first, first + count))
        self.deep.publish(count, expires_at=NOW + 1)

    @rule(count=st.integers(1, 3))
    def pull(self, count: int) -> None:
        taken = self.queue.acquire(count, -1, NOW)
        for entry in taken:
            assert int(entry.message.body) in self.pending
            self.pending.discard(int(entry.message.body))
            self.queue.acknowledge(entry)
        if taken and not self.returned:
            places = [entry.sequence for entry in taken]
            assert places == self.deep.in_order(places)

    @precondition(lambda self: self.hot)
    @rule(data=st.data())
    def change_hot_properties(self, data: st.DataObject) -> None:
        names = data.draw(st.sampled_from(self.hot))
        self.queue.update(replace(self.queue.settings, hot_properties=names), NOW)

    @rule(limit=st.integers(1, 20))
    def page_out(self, limit: int) -> None:
        self.deep.page_out(limit)

    @rule()
    def turn(self) -> None:
        if self.deep.asking:
            self.deep.asking = self.queue.scan(NOW)

    @rule(failing=st.booleans())
    def disk(self, failing: bool) -> None:
        self.deep.disk.failing = failing

    @precondition(lambda self: self.queue.order.paged_count())
    @rule(which=st.integers(0, 50))
    def damage(self, which: int) -> None:
        """Only what is a row now: what is in memory is not read again as long as it stays there."""
        held = {entry.sequence for entry in self.queue.order.in_memory()}
        rows = sorted(self.pending - held - self.damaged)
        if not rows:  # all are damaged
            return
        number = rows[which % len(rows)]
        self.damaged.add(number)
        self.deep.disk.damaged.update(
            record for record, stored in self.deep.disk.stored.items() if int(stored.body) == number
        )

    @rule(late=st.booleans())
    def tick(self, late: bool) -> None:
        self.queue.tick(NOW + late * RETIRED_MILLISECONDS)
        if late:  # classes that nobody asks for are forgotten, and may ask again
            self.deep.view.asked.clear()
            self.note_deliveries()
            self.pending -= self.timed

    @rule()
    def settle_down(self) -> None:
        """The disk is well and all turns are taken: whoever has credit and may have something has it."""
        self.deep.disk.failing = False
        self.deep.retry()
        self.queue.wake(NOW)
        self.deep.take_turns()
        self.note_deliveries()
        for session, selector in self.sessions:
            (consumer,) = session.consumers.values()
            if consumer.ready:
                wanted = [number for number in self.pending if SELECTORS[selector](number)]
                assert set(wanted) <= self.damaged | self.refused.get(session, set())

    def note_deliveries(self) -> None:
        latest: list[tuple[RecordingSession, str, int]] = []  # of each session the last that it got now, as dispatched
        for session, selector in self.sessions:
            done = self.seen.get(session, 0)
            delivered = []
            for tag, entry in session.deliveries[done:]:
                number = int(entry.message.body)
                assert SELECTORS[selector](number)
                assert number in self.pending, "delivered twice, expired, or never published"
                assert number not in self.refused.get(session, set())
                self.pending.discard(number)
                self.out.append((session, tag, number))
                delivered.append(number)
                if number not in self.returned:
                    level = priority_of(number) if self.levels else 0
                    assert number > self.newest.get((session, level), 0), "in order"
                    self.newest[session, level] = number
            self.seen[session] = len(session.deliveries)
            latest += [(session, selector, number) for number in self.deep.in_order(delivered)[-1:]]
        for session, selector, number in latest:
            passed = self.returned | self.damaged | self.timed | self.refused.get(session, set())
            there = [other for other in self.pending - passed if other < self.known and SELECTORS[selector](other)]
            assert self.deep.in_order([*there, number])[0] == number, "nothing overtakes what was there"
        self.known = self.queue.next_sequence

    @invariant()
    def nothing_twice(self) -> None:
        if not hasattr(self, "queue"):
            return
        self.note_deliveries()
        check_parts_behind_lanes(self.queue)
        unreadable = removed(self.queue, RemovalReason.UNREADABLE)
        assert unreadable <= len(self.damaged)
        assert self.queue.order.count == len(self.pending) - unreadable
        assert len(self.queue.delivering) == len(self.out)
        assert max(self.deep.view.asked.values(), default=0) <= 1, "each class asks once about a message"


class LevelHistories(Histories):
    """The same on three levels of strict priorities."""

    levels = True


class HotHistories(Histories):
    """The same with hot properties that change, so that rows have their codes, those of others, or none."""

    hot = (("three", "seven"), ("seven",), ("third", "three"), ())

    @initialize(lanes_max=st.sampled_from([3, 1000]))
    def start(self, lanes_max: int) -> None:
        super().start(lanes_max)
        self.queue.update(replace(self.queue.settings, hot_properties=self.hot[0]), NOW)
        self.deep.page_out(10)


TestHistories = Histories.TestCase
TestLevelHistories = LevelHistories.TestCase
TestHotHistories = HotHistories.TestCase
TestHistories.settings = TestLevelHistories.settings = state_machine_settings(
    examples=60, steps=40, suppress_health_check=(HealthCheck.too_slow,)
)
TestHotHistories.settings = state_machine_settings(examples=30, steps=40, suppress_health_check=(HealthCheck.too_slow,))


def test_a_rare_match_is_found_on_disk_and_nothing_else_comes_into_memory() -> None:
    deep, session = Deep(2000), RecordingSession()
    session.consume(deep.queue, selector="seven = 2 and three = 1", messages=5)
    before = deep.in_memory()
    deep.take_turns()
    matching = [number for number in range(1, 2001) if number % 7 == 2 and number % 3 == 1]
    assert numbers(session) == matching[:5]
    assert deep.in_memory() <= before + len(matching)
    assert deep.queue.order.paged_count() >= 2000 - before - len(matching) - 5
    for tag in range(1, 1 + len(matching)):
        session.acknowledge(tag, NOW)
        deep.take_turns()
    assert numbers(session) == matching
    assert deep.queue.matchers.evaluations == 2000
    assert remaining(deep.queue, deep.queue.deep_lanes) == 0


def test_arrivals_go_past_a_class_that_has_seen_all_at_once() -> None:
    deep, session = Deep(500), RecordingSession()
    session.consume(deep.queue, selector="seven = 9")
    deep.take_turns()
    other = RecordingSession()
    other.consume(deep.queue, selector="seven = 3", messages=1)
    deep.take_turns()
    assert numbers(other) == [3]
    other.acknowledge(1, NOW)
    deep.publish(7)
    assert remaining(deep.queue, deep.queue.deep_lanes) > 0, "the second class waits for credit"
    assert deep.queue.matchers.evaluations >= 507


def test_nobody_overtakes_what_may_still_be_found() -> None:
    deep, first, second = Deep(300), RecordingSession("first"), RecordingSession("second")
    first.consume(deep.queue, selector="seven = 2")
    deep.take_turns()
    deep.disk.failing = True
    second.consume(deep.queue, selector="three = 1")
    deep.take_turns()
    assert numbers(second) == [1], "the front is in memory"
    first.close(NOW)
    assert deep.queue.statistics().pending_count == 299, "100 and others came back, and may not be the next"
    assert numbers(second) == [1]
    deep.disk.failing = False
    deep.pages.retry()
    deep.queue.wake(NOW)
    deep.take_turns()
    assert numbers(second) == list(range(1, 301, 3))


def test_what_another_class_found_is_handed_out_as_the_frontier_passes_it() -> None:
    deep, first, second = Deep(300), RecordingSession("first"), RecordingSession("second")
    first.consume(deep.queue, selector="seven = 2")
    deep.take_turns()
    first.close(NOW)
    second.consume(deep.queue, selector="seven = 2 or seven = 9")
    deep.take_turns()
    assert numbers(second) == list(range(2, 301, 7)), "all of it stood in the lanes: the walk itself found nothing"


def test_what_came_back_waits_for_nothing_when_only_younger_ones_are_unread() -> None:
    deep, session = Deep(300), RecordingSession()
    taken = deep.queue.acquire(258, -1, NOW)  # the front, and one read
    deep.disk.failing = True
    session.consume(deep.queue, selector="three = 1")
    deep.queue.return_entries(taken, NOW)
    assert numbers(session) == list(range(1, 259, 3))


def test_the_walk_pauses_when_enough_was_found_and_goes_on_when_it_is_taken() -> None:
    deep, session = Deep(3000), RecordingSession()
    session.consume(deep.queue, selector="three IS NOT NULL", messages=1)
    deep.take_turns()
    assert deep.in_memory() <= 2 + 2 * FOUND_MESSAGES
    for tag in range(1, 3001):
        session.acknowledge(tag, NOW)
        deep.take_turns()
        assert deep.in_memory() <= 2 + 2 * FOUND_MESSAGES + 256
    assert numbers(session) == list(range(1, 3001))


def test_large_messages_pause_it_sooner() -> None:
    deep, session = Deep(60, size=FOUND_BYTES // 4), RecordingSession()
    session.consume(deep.queue, selector="three IS NOT NULL", messages=1)
    deep.take_turns()
    assert deep.in_memory() < 12
    assert numbers(session) == [1]


def test_those_who_take_everything_are_served_meanwhile_in_order() -> None:
    deep, choosy, session = Deep(1000), RecordingSession("choosy"), RecordingSession()
    choosy.consume(deep.queue, selector="seven = 9")
    session.consume(deep.queue)
    assert numbers(session) == list(range(1, 1001)), "without a turn"
    deep.take_turns()
    assert choosy.received == []
    assert deep.queue.order.count == 0


def test_a_class_is_remembered_for_a_while_and_then_forgotten() -> None:
    deep, session = Deep(1000), RecordingSession()
    consumer = session.consume(deep.queue, selector="seven = 9")
    deep.take_turns()
    asked = deep.queue.matchers.evaluations
    session.close_consumer(consumer.tag, NOW)
    session.consume(deep.queue, "again", selector="seven = 9")
    deep.take_turns()
    assert deep.queue.matchers.evaluations == asked
    session.close_consumer("again", NOW)
    deep.queue.tick(NOW + RETIRED_MILLISECONDS - 1)
    assert (len(deep.queue.matchers), deep.queue.lanes is None) == (1, False)
    deep.queue.tick(NOW + RETIRED_MILLISECONDS)
    assert (len(deep.queue.matchers), deep.queue.lanes) == (0, None)
    other = RecordingSession()
    other.consume(deep.queue)
    assert numbers(other) == list(range(1, 1001))


def test_a_queue_whose_selectors_refuse_everything_pages_all_the_same() -> None:
    deep, session = Deep(), RecordingSession()
    session.consume(deep.queue, selector="seven = 9")
    deep.publish(1)
    deep.page_out(ALL)  # not enough yet
    deep.publish(1999)
    assert deep.page_out(ALL) > 0
    assert deep.in_memory() <= 4
    assert deep.queue.matchers.evaluations == 2000
    deep.publish(5)
    deep.take_turns()
    assert deep.queue.matchers.evaluations == 2005
    other = RecordingSession()
    other.consume(deep.queue)
    assert numbers(other) == list(range(1, 2006))


def test_the_disk_may_refuse_and_records_may_be_damaged() -> None:
    deep, session = Deep(1000), RecordingSession()
    deep.disk.damaged.update(range(400, 500))
    deep.disk.failing = True
    session.consume(deep.queue, selector="seven = 2")
    deep.take_turns()
    got = numbers(session)
    assert got == [2], "the front is in memory"
    deep.disk.failing = False
    deep.pages.retry()
    deep.queue.wake(NOW)
    deep.take_turns()
    assert numbers(session) == [number for number in range(2, 1001, 7) if not 400 <= number < 500]
    assert removed(deep.queue, RemovalReason.UNREADABLE) == 100
    assert deep.queue.order.count + 100 == 1000 - len(session.received)


def test_what_expired_among_the_rows_is_not_found() -> None:
    deep, session = Deep(), RecordingSession()
    for _ in range(30):
        deep.publish(2)
        deep.publish(1, expires_at=NOW + 1)
    deep.page_out(ALL)
    assert deep.queue.order.paged_count() > 50
    deep.queue.tick(NOW + 1)
    assert removed(deep.queue, RemovalReason.EXPIRED) == 30
    session.consume(deep.queue, selector="three IS NOT NULL", now=NOW + 1)
    deep.take_turns()
    assert numbers(session) == [number for number in range(1, 91) if number % 3]
    assert deep.queue.order.count == 0


def test_what_a_consumer_refused_for_itself_does_not_stop_its_walk() -> None:
    deep, session = Deep(400), RecordingSession()
    deep.queue.matchers.found_messages = 5
    consumer = session.consume(deep.queue, selector="three = 1", messages=1)
    deep.take_turns()
    for count in range(1, 20):
        assert len(session.deliveries) == count
        deep.queue.return_entries(session.take(count, multiple=False), NOW, exclude=consumer)
        deep.take_turns()
    assert numbers(session) == list(range(1, 60, 3))


def test_what_was_admitted_above_the_frontier_does_not_stop_the_walk() -> None:
    deep, choosy, everybody = Deep(), RecordingSession("choosy"), RecordingSession("everybody")
    deep.queue.matchers.found_messages = 5
    everybody.consume(deep.queue, messages=30)
    deep.publish(30)
    choosy.consume(deep.queue, selector="three IS NOT NULL", messages=20)
    deep.publish(20)
    everybody.close(NOW)  # nobody has asked about these
    choosy.close(NOW)  # nor will anybody again about those
    deep.publish(50)
    deep.page_out(ALL)
    assert deep.page_out(ALL) > 0
    session = RecordingSession()
    session.consume(deep.queue, selector="three IS NOT NULL")
    deep.take_turns()
    assert numbers(session) == list(range(1, 101))


def test_who_begins_holds_nobody_up_who_is_ahead() -> None:
    deep, first, second = Deep(3000), RecordingSession("first"), RecordingSession("second")
    deep.queue.matchers.found_messages = 5
    first.consume(deep.queue, selector="seven = 2", messages=300)
    deep.take_turns()
    second.consume(deep.queue, selector="third = 9")
    first.acknowledge(10, NOW, multiple=True)
    for _ in range(4):
        deep.queue.scan(NOW)
    assert len(first.received) == 310, "the second has 2000 messages to look at before it comes to those"
    deep.take_turns()
    assert [match_class.frontier_on(0) == 3001 for match_class in deep.queue.matchers.classes()] == [False, True]


def test_arrivals_go_to_who_has_seen_all_while_others_begin() -> None:
    deep, first, second = Deep(3000), RecordingSession("first"), RecordingSession("second")
    first.consume(deep.queue, selector="seven = 2")
    deep.take_turns()
    assert len(first.received) == 429
    second.consume(deep.queue, selector="third = 9")
    deep.publish(7)
    assert len(first.received) == 430, "without a turn"


def test_who_demands_a_hot_property_does_not_wait_for_who_reads_everything() -> None:
    deep = Deep()
    deep.queue.update(replace(deep.queue.settings, hot_properties=("seven",)), NOW)
    count = 10 * LOOK_MESSAGES
    deep.publish(count)
    deep.page_out(ALL)
    slow, fast = RecordingSession("1"), RecordingSession("2")
    slow.consume(deep.queue, messages=count, selector="three = 5")
    fast.consume(deep.queue, messages=count, selector="seven = 2 AND three = 1")
    expected = [number for number in range(1, count + 1) if number % 7 == 2 and number % 3 == 1]
    for _ in range(6):
        deep.queue.scan(NOW)
    assert numbers(fast) == expected
    assert remaining(deep.queue, deep.queue.deep_lanes) > LOOK_MESSAGES, "of who reads everything"
    deep.take_turns()
    assert remaining(deep.queue, deep.queue.deep_lanes) == 0
    asked = {number for number, name in deep.view.asked if name == "three"}
    assert asked == set(range(1, count + 1))
