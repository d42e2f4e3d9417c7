"""What a batch puts into a queue is seen by nobody before the batch is shown, in every composition of policies."""

from __future__ import annotations

import random
from typing import Any

import pytest

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.settings import BROWSE_FOLLOW, BROWSE_OFF, BROWSE_SNAPSHOT
from annulet.core.base.sliced_work import SLICE_MESSAGES
from annulet.core.management.why_not import Obstacle, why_not
from annulet.core.message.message import Message, StandardProperties
from annulet.core.model.entry import PENDING, SCHEDULED
from annulet.core.model.queue_area import QueueArea
from annulet.core.model.queue_state import HIDES_NOTHING
from annulet.core.policies.staged_batches import HiddenBatch, TakingBack, take_back
from annulet.core.queue.deep_queue_scan import DeepView
from annulet.core.queue.invariants import check_invariants
from annulet.core.queue.queue import Queue
from annulet.core.queue.queue_scan import Scan
from annulet.core.queue.statistics import lag_of
from tests.core.deep_doubles import Deep, numbers
from tests.core.helpers import (
    NOW,
    RecordingEffects,
    RecordingSession,
    SlicingEffects,
    TableView,
    make_message,
    queue_of,
)
from tests.core.model_suite.compositions import Composition, compositions
from tests.core.model_suite.policies import BROWSERS, COLOUR, FAIR_KEY, LAST_VALUE_KEY, LIFETIMES, SCHEDULES, SORT_KEY


class GroupView(TableView):
    """Application properties, of which one is the group."""

    def properties(self, message: Message) -> StandardProperties:
        return StandardProperties(application=self.application, group_id=str(self.application.get("group", "")))


class History:
    """A queue, those who look at it in every way there is, and a batch that is being put into it."""

    def __init__(self, composition: Composition, seed: int) -> None:
        self.random = random.Random(f"{composition.identifier} {seed}")
        self.effects = RecordingEffects()
        self.settings = composition.settings
        self.traits = composition.traits
        self.queue = Queue("q", self.settings, self.effects)
        self.session = RecordingSession()
        self.now = NOW
        self.batch = HiddenBatch()
        self.numbers = 0
        self.hidden: set[str] = set()  # bodies of what arrived since the batch began
        self.tags = 0
        self.taken: list[str] = []
        self.commands = [
            self.publish, self.publish, self.publish, self.attach, self.cancel, self.settle, self.give_back,
            self.acquire, self.pass_time, self.purge, self.pause, self.remove, self.reprioritise,
        ]  # fmt: skip

    def message(self) -> Message:
        choose = self.random.choice
        self.numbers += 1
        message = make_message(
            str(self.numbers),
            accepted_at=self.now,
            priority=choose([0, 4, 9]),
            expires_at=choose([0, self.now + 4, self.now + 20]) if LIFETIMES in self.traits else 0,
            deliver_at=choose([0, self.now + 3, self.now + 9]) if SCHEDULES in self.traits else 0,
        )
        view = GroupView(
            {
                "given_priority": message.priority,
                "group": choose(["a", "b", ""]),
                LAST_VALUE_KEY: choose(["a", "b", "c"]),
                SORT_KEY: choose([3, 1, 2]),
                FAIR_KEY: choose(["x", "y"]),
                COLOUR: choose(["red", "blue"]),
            }
        )
        message.origin.view = view
        return message

    def enqueue(self, *, hidden: bool) -> None:
        message = self.message()
        if hidden or self.queue.hidden:
            self.hidden.add(message.body.decode())
        self.queue.batches.current = self.batch if hidden else None
        try:
            self.queue.enqueue(message, self.now)
        finally:
            self.queue.batches.current = None

    def publish(self) -> None:
        self.enqueue(hidden=False)

    def attach(self) -> None:
        if self.queue.consumers.count >= 3:
            return
        choose = self.random.choice
        browse = choose([BROWSE_OFF, BROWSE_FOLLOW, BROWSE_SNAPSHOT]) if BROWSERS in self.traits else BROWSE_OFF
        selector = "colour = 'red'" if "selectors" in self.traits and choose([True, False]) else ""
        self.tags += 1
        if self.settings.exclusive_consumer and self.queue.consumers.count:
            return
        self.session.consume(
            self.queue, f"c{self.tags}", messages=choose([1, 2, 5]), now=self.now, browse=browse, selector=selector
        )

    def cancel(self) -> None:
        consumers = list(self.queue.consumers)
        if consumers:
            self.session.detach(self.random.choice(consumers).tag, self.now)

    def settle(self) -> None:
        if self.session.unacknowledged:
            self.session.acknowledge(next(iter(self.session.unacknowledged)), now=self.now)

    def give_back(self) -> None:
        if self.session.unacknowledged:
            self.session.reject(next(iter(self.session.unacknowledged)), now=self.now, requeue=True)

    def acquire(self) -> None:
        for entry in self.queue.acquire(self.random.choice([1, 3]), -1, self.now):
            self.taken.append(entry.message.body.decode())
            self.queue.acknowledge(entry)
        self.queue.wake(self.now)

    def pass_time(self) -> None:
        self.now += 2
        self.queue.tick(self.now)

    def purge(self) -> None:
        shown = self.queue.statistics()
        assert self.queue.purge(self.now) == shown.pending_count + shown.scheduled_count
        left = self.queue.statistics()
        assert (left.pending_count, left.scheduled_count, left.pending_bytes) == (0, 0, 0)

    def pause(self) -> None:
        self.queue.pause(self.now)
        self.check()
        self.queue.resume(self.now)

    def _shown(self) -> list[str]:
        scan = Scan(self.queue, pending=True, scheduled=True)
        while not scan.prepare(100):
            pass
        entries = list(iter(scan.following, None))
        return [entry.message.body.decode() for entry in entries if entry.state in (PENDING, SCHEDULED)]

    def remove(self) -> None:
        entries = [entry for entry in self.queue.browse() if entry.state == PENDING]
        if entries:
            self.queue.remove(self.random.choice(entries), RemovalReason.PURGED, self.now)

    def reprioritise(self) -> None:
        entries = [entry for entry in self.queue.browse() if entry.state == PENDING]
        if entries:
            entry = self.random.choice(entries)
            if self.queue.reprioritise(entry, 7, self.now) is not None and self.queue.hidden:
                self.hidden.add(entry.message.body.decode())  # it stands behind the batch now, as what arrives later

    def check(self) -> None:
        check_invariants(self.queue)
        if self.queue.hidden:
            there = {entry.message.body.decode() for entry in self.queue.browse()} | set(self._shown())
            held = {entry.message.body.decode() for entry in self.queue.delivering}
            assert not (there - held) & self.hidden
        statistics = self.queue.statistics()
        shown = len(self._shown())
        assert statistics.pending_count + statistics.scheduled_count == shown
        there = statistics.message_count
        assert statistics.messages_added == sum(statistics.removed.values()) + there
        assert 0 <= statistics.first_sequence < statistics.next_sequence

    def run(self, steps: int, *, hiding: bool) -> None:
        for _ in range(steps):
            if hiding and self.random.random() < 0.4:
                self.enqueue(hidden=True)
            else:
                self.random.choice(self.commands)()
            self.check()


BATCHED = compositions()


@pytest.mark.parametrize("composition", BATCHED, ids=[one.identifier for one in BATCHED])
def test_nobody_sees_anything_of_a_batch_before_it_is_shown(composition: Composition) -> None:
    for seed in range(2):
        history = History(composition, seed)
        history.run(12, hiding=False)
        before = len(history.session.received), len(history.taken)
        history.run(30, hiding=True)
        seen = {*history.session.received[before[0] :], *history.taken[before[1] :]}
        new = {entry.message.body.decode() for entry in history.batch.entries}
        assert not seen & new
        history.batch.show(history.now)
        assert history.queue.hidden_from == HIDES_NOTHING
        history.check()
        history.run(12, hiding=False)


@pytest.mark.parametrize("composition", BATCHED, ids=[one.identifier for one in BATCHED])
def test_a_batch_that_fails_is_taken_back_whole(composition: Composition) -> None:
    history = History(composition, 0)
    history.run(12, hiding=False)
    history.run(20, hiding=True)
    new = {entry.message.body.decode() for entry in history.batch.entries}
    take_back(history.batch, history.effects, history.now)
    assert history.queue.hidden_from == HIDES_NOTHING
    history.check()
    assert not {*history._shown(), *history.session.received, *history.taken} & new
    history.run(12, hiding=False)


def hide(queue: Queue, batch: HiddenBatch, *messages: Message) -> None:
    queue.batches.current = batch
    for message in messages:
        queue.enqueue(message, NOW)
    queue.batches.current = None


def named(*names: str) -> list[Message]:
    return [make_message(name) for name in names]


def test_it_comes_in_order_and_others_behind_it() -> None:
    queue, session, batch = queue_of(), RecordingSession(), HiddenBatch()
    queue.enqueue(make_message("before"), NOW)
    hide(queue, batch, *named("a", "b"))
    queue.enqueue(make_message("after"), NOW)
    session.consume(queue)
    assert session.received == ["before"]
    assert queue.acquire(9, -1, NOW) == []
    batch.show(NOW)
    assert session.received == ["before", "a", "b", "after"]


def test_an_idle_consumer_gets_it_when_it_is_shown() -> None:
    queue, session, batch = queue_of(), RecordingSession(), HiddenBatch()
    session.consume(queue)
    hide(queue, batch, *named("a", "b"))
    assert session.received == []
    batch.show(NOW)
    assert session.received == ["a", "b"]


def test_one_batch_in_many_queues_is_shown_in_all_before_anybody_is_served() -> None:
    first, second, batch = queue_of(), queue_of(), HiddenBatch()
    counts: list[int] = []

    class Looking(RecordingSession):
        def deliver(self, *delivery: Any) -> None:
            super().deliver(*delivery)
            counts.append(second.statistics().pending_count)

    Looking().consume(first)
    hide(first, batch, *named("a"))
    hide(second, batch, *named("b", "c"))
    batch.show(NOW)
    assert counts == [2]


def test_two_batches_are_shown_one_after_the_other() -> None:
    queue, earlier, later = queue_of(), HiddenBatch(), HiddenBatch()
    hide(queue, earlier, *named("a", "b"))
    queue.enqueue(make_message("between"), NOW)
    hide(queue, later, *named("c"))
    check_invariants(queue)
    earlier.show(NOW)
    assert [entry.message.body for entry in queue.browse()] == [b"a", b"b", b"between"]
    check_invariants(queue)
    later.show(NOW)
    assert len(queue.browse()) == 4


def test_the_failed_one_of_two_batches_goes_and_the_other_stays_hidden() -> None:
    effects = SlicingEffects()
    queue, failed, later = queue_of(effects), HiddenBatch(), HiddenBatch()
    hide(queue, failed, *named(*map(str, range(SLICE_MESSAGES + 1))))
    take_back(failed, effects, NOW)
    hide(queue, later, *named("c"))
    effects.turn()
    assert (queue.statistics().message_count, queue.order.count) == (0, 2)
    effects.turn()
    check_invariants(queue)
    assert (queue.statistics().message_count, queue.order.count) == (0, 1)
    later.show(NOW)
    assert [entry.message.body for entry in queue.browse()] == [b"c"]
    assert queue.statistics().messages_added == 1


def test_a_defect_while_a_batch_is_taken_back_hides_nothing_for_good() -> None:
    queue, batch = queue_of(), HiddenBatch()
    hide(queue, batch, *named("a"))
    TakingBack(batch).abandon(NOW)
    assert queue.hidden_from == HIDES_NOTHING


def test_a_deleted_queue_takes_its_part_along() -> None:
    session = RecordingSession()
    gone, stays, batch = queue_of(), queue_of(), HiddenBatch()
    hide(gone, batch, *named("a", "b"))
    hide(stays, batch, *named("c"))
    session.consume(gone, "g")
    session.consume(stays, "s")
    assert gone.delete(NOW) == 2
    assert list(batch.queues) == [stays]
    check_invariants(gone)
    batch.show(NOW)
    assert session.received == ["c"]


def test_a_view_of_one_moment_never_shows_what_was_hidden_then() -> None:
    queue, session, batch = queue_of(), RecordingSession(), HiddenBatch()
    queue.enqueue(make_message("before"), NOW)
    hide(queue, batch, *named("a"))
    session.consume(queue, "snapshot", browse=BROWSE_SNAPSHOT, auto_close=True)
    session.consume(queue, "follow", browse=BROWSE_FOLLOW)
    assert session.by_consumer == {"snapshot": ["before"], "follow": ["before"]}
    assert [consumer.tag for consumer in queue.consumers] == ["follow"]
    batch.show(NOW)
    assert session.by_consumer == {"snapshot": ["before"], "follow": ["before", "a"]}


def test_a_ring_that_a_batch_overfills_keeps_its_end() -> None:
    queue, batch = queue_of(ring_size=2), HiddenBatch()
    queue.enqueue(make_message("before"), NOW)
    hide(queue, batch, *named("a", "b", "c"))
    assert queue.statistics().pending_count == 0
    check_invariants(queue)
    batch.show(NOW)
    assert [entry.message.body for entry in queue.browse()] == [b"b", b"c"]


def test_why_not_names_it() -> None:
    queue, session, batch = queue_of(priorities=10), RecordingSession(), HiddenBatch()
    hide(queue, batch, make_message("a", priority=9))
    consumer = session.consume(queue)
    answer = why_not(queue, consumer, NOW)
    assert (answer.obstacle, answer.deliverable) == (Obstacle.HIDDEN, False)
    assert answer.text.startswith("1 messages from the first of a batch on are hidden")
    batch.show(NOW)
    assert session.received == ["a"]
    assert why_not(queue, consumer, NOW).obstacle is Obstacle.NOTHING_PENDING


# ------------------------------------------------------------------ deep queues


@pytest.mark.parametrize("levels", [False, True])
@pytest.mark.parametrize("selector", ["", "three = 1"])
def test_consumers_of_a_deep_queue(selector: str, *, levels: bool) -> None:
    deep, session = Deep(40, levels=levels), RecordingSession()
    batch = deep.publish_hidden(10)
    session.consume(deep.queue, selector=selector)
    deep.take_turns()
    assert all(number <= 40 for number in numbers(session))
    check_invariants(deep.queue)
    batch.show(NOW)
    deep.take_turns()
    wanted = [number for number in range(1, 51) if not selector or number % 3 == 1]
    assert sorted(numbers(session)) == wanted
    assert [number for number in numbers(session) if number > 40] == deep.in_order(n for n in wanted if n > 40)


def test_who_takes_everything_beside_a_selector_waits_behind_rows() -> None:
    deep, selective, plain = Deep(40), RecordingSession(), RecordingSession()
    batch = deep.publish_hidden(10)
    selective.consume(deep.queue, "selective", selector="three = 5")
    deep.take_turns()
    plain.consume(deep.queue, "plain")
    deep.take_turns()
    assert numbers(plain) == list(range(1, 41))
    batch.show(NOW)
    deep.take_turns()
    assert numbers(plain) == list(range(1, 51))


@pytest.mark.parametrize("levels", [False, True])
@pytest.mark.parametrize("count", [40, 3000])
def test_a_purge_of_a_deep_queue_leaves_it(count: int, *, levels: bool) -> None:
    deep, session = Deep(count, levels=levels), RecordingSession()
    batch = deep.publish_hidden(10)
    assert deep.queue.purge(NOW) == count
    check_invariants(deep.queue)
    assert deep.queue.statistics().message_count == 0
    batch.show(NOW)
    session.consume(deep.queue)
    assert numbers(session) == deep.in_order(range(count + 1, count + 11))


@pytest.mark.parametrize("levels", [False, True])
@pytest.mark.parametrize("at_once", [2000, 5])
@pytest.mark.parametrize("browse", [BROWSE_FOLLOW, BROWSE_SNAPSHOT])
def test_browsers_of_a_deep_queue(browse: str, at_once: int, *, levels: bool) -> None:
    deep = Deep(40, levels=levels)
    deep.pages.at_once = at_once  # of more in memory a browser finds out in turns how to note them
    early, late = RecordingSession(), RecordingSession()
    early.consume(deep.queue, browse=browse)
    deep.take_turns()
    batch = deep.publish_hidden(10)
    late.consume(deep.queue, browse=browse)
    deep.take_turns()
    deep.publish(300)  # more than a browser notes one by one
    deep.take_turns()
    for session in (early, late):
        assert numbers(session) == deep.in_order(range(1, 41))
    batch.show(NOW)
    deep.take_turns()
    for session in (early, late):
        if browse == BROWSE_SNAPSHOT:
            assert numbers(session) == deep.in_order(range(1, 41))
        else:
            assert sorted(numbers(session)) == list(range(1, 351))


def test_a_browser_of_a_deep_queue_with_nothing_else_in_it() -> None:
    deep, session = Deep(40), RecordingSession()
    deep.queue.purge(NOW)
    batch = deep.publish_hidden(10)
    session.consume(deep.queue, browse=BROWSE_FOLLOW)
    deep.take_turns()
    batch.show(NOW)
    deep.take_turns()
    assert numbers(session) == list(range(41, 51))


@pytest.mark.parametrize("levels", [False, True])
def test_operators_do_not_meet_it_in_a_deep_queue(*, levels: bool) -> None:
    deep = Deep(40, levels=levels)
    deep.publish_hidden(10)
    view = DeepView(deep.queue, pages_behind(deep.queue))
    scan = view.by_place(scheduled=True, chosen=None)
    met: list[int] = []
    while True:
        if not scan.prepare(100):
            continue
        entry = scan.following()
        if entry is None:
            break
        met.append(entry.sequence)
    assert (view.size, view.end, sorted(met)) == (40, 41, list(range(1, 41)))


def pages_behind(queue: Queue) -> QueueArea:
    pages = queue.order.pages_behind()
    assert pages is not None
    return pages


def test_nothing_waits_for_anybody_while_all_of_it_is_hidden() -> None:
    queue, batch = queue_of(), HiddenBatch()
    hide(queue, batch, make_message(accepted_at=NOW))
    assert lag_of(queue, NOW + 1000) == 0
    batch.show(NOW + 2000)
    assert lag_of(queue, NOW + 2000) == 2000


def test_the_later_of_two_batches_fails_and_the_earlier_one_hides_what_came_behind_it() -> None:
    effects = SlicingEffects()
    queue, earlier, failed = queue_of(effects), HiddenBatch(), HiddenBatch()
    hide(queue, earlier, *named("a"))
    hide(queue, failed, *named("b"))
    queue.enqueue(make_message("behind both"), NOW)
    take_back(failed, effects, NOW)
    effects.turns()
    check_invariants(queue)
    assert (queue.statistics().message_count, queue.order.count) == (0, 2)
    earlier.show(NOW)
    assert [entry.message.body for entry in queue.browse()] == [b"a", b"behind both"]
