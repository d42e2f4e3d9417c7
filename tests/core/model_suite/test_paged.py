"""The compositions whose queues may page, with pages forced after each command: paging is seen by no policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from annulet.core.base.settings import BROWSE_FOLLOW, QueueSettings
from annulet.core.message.message import Message, Origin
from annulet.core.paging.paged_fifo import PagedFifo
from annulet.core.paging.paged_priorities import PagedLevels, paged_order_of
from annulet.core.paging.paged_sorted import PagedSorted
from annulet.core.queue.queue import Queue
from annulet.core.reading.browse_order import BrowseOrder
from annulet.core.searching.deep_lanes import DeepLanes
from annulet.core.searching.grouped_lanes import GroupedLanes
from annulet.residency.loading.figures import PagingFigures
from annulet.residency.pages import pages as pages_module
from annulet.store.segments.interface import LoggedMessage
from annulet.testing.oracle.records import GONE, OracleMessage
from tests.core.grouped_doubles import check_grouped
from tests.core.helpers import RecordingEffects
from tests.core.model_suite.compositions import Composition, compositions, refusal_of
from tests.core.model_suite.drawing import run_programs
from tests.core.model_suite.policies import AXES, COLOUR, EXAMPLES, SELECTORS
from tests.core.model_suite.programs import BROWSERS, Interpreter
from tests.core.model_suite.runner import ACKNOWLEDGE, DROP, REQUEUE, ConsumerShape, MessageShape, Runner, SessionPair
from tests.residency.doubles import made_of, pages_of

ALL = 1 << 60

FIRST_RECORD = 1 << 40
"""Of published messages. The recording effects count from 1 for what the queue itself stores: a changed priority."""


class EveryTarget(list[tuple[int, int]]):
    """The sequence a message gets is not known when it is made."""

    def __contains__(self, target: object) -> bool:
        return True


class ModelDisk:
    def __init__(self, effects: RecordingEffects) -> None:
        self.effects = effects
        self.by_record: dict[int, Message] = {}
        self.loaded = 0
        self.figures = PagingFigures()

    def lack(self, records: Sequence[int], needles: Sequence[list[bytes]]) -> bool:
        return False

    def read(self, records: Sequence[int]) -> list[LoggedMessage | None]:
        self.loaded += len(records)
        return [self._stored(self._message(record)) for record in records]

    def messages(
        self, queue_id: int, records: Sequence[int], sequences: Sequence[int], origins: list[Origin]
    ) -> list[Message | None]:
        return made_of(self.read(records), queue_id, records, sequences, origins)

    def _message(self, record: int) -> Message:
        if record >= FIRST_RECORD:
            return self.by_record[record]
        return next(message for message, _ in self.effects.stored if message.record == record)

    def _stored(self, message: Message) -> LoggedMessage:
        origin = message.origin
        return LoggedMessage(
            message.header, message.body, (origin.exchange, origin.routing_key, origin.publisher, origin.view.name),
            message.priority, message.accepted_at, message.expires_at, EveryTarget(),
        )  # fmt: skip

    def holds(self, record: int, queue_id: int) -> bool:
        return queue_id == 7 and ("q", record) not in self.effects.settled

    def held(self, records: list[int], queue_id: int) -> list[int]:
        return [place for place, record in enumerate(records) if self.holds(record, queue_id)]

    @property
    def written_below(self) -> int:
        return ALL

    def fitting(self, records: Sequence[int], size: int) -> int:
        return len(records)

    def prefetch(self, records: Sequence[int]) -> None:
        for record in records:
            self._message(record)


class PagedRunner(Runner):
    """Every message is stored; whatever can page does after each command."""

    def __init__(self, settings: QueueSettings, **options: Any) -> None:
        super().__init__(settings, **options)
        self.queue.queue_id = 7
        self.disk = ModelDisk(self.effects)
        self.paged = 0
        self.asking = False
        if isinstance(self.queue.lanes, GroupedLanes):
            self.queue.matchers.lanes_max = self.queue.lanes.enough = 2

    def ask_turn(self, queue: Queue) -> None:
        self.asking = True

    def _make(self, shape: MessageShape) -> tuple[Message, OracleMessage]:
        real, model = super()._make(shape)
        real.durable = True
        real.record = FIRST_RECORD + len(self.disk.by_record)
        self.disk.by_record[real.record] = real
        return real, model

    def attach(self, pair: SessionPair, shape: ConsumerShape) -> None:
        """Attach, and tell the oracle who reads the rows of levels: it does not know what is on disk."""
        super().attach(pair, shape)
        tag = f"c{self.names}"
        reads_rows = isinstance(pair.real.consumers[tag].unseen, BrowseOrder)
        if shape.browse == BROWSE_FOLLOW and reads_rows and self.queue.ranker.ranks:
            self.oracle.dispatching.read_rows(pair.consumers[tag])

    def commit(self, pair: SessionPair) -> None:
        """Commit step by step where what a selector looks for is on disk.

        It is found in later turns, so all at once its consumer would get what a step brings back before what an earlier
        one made room for. The oracle knows no turns.
        """
        steps = [how for how in (ACKNOWLEDGE, REQUEUE, DROP) if how in [how for _, _, how in pair.model.in_transaction]]
        on_disk = isinstance(self.queue.lanes, DeepLanes) and self.queue.order.paged_count() > 0
        if not on_disk or len(pair.sends) + len(steps) < 2:
            super().commit(pair)
            return
        pair.transaction.rollback()
        for model in pair.sends:
            sent = next(real for real in self.disk.by_record.values() if int(real.header) == model.number)
            pair.transaction.send(sent, self.host.route("", "q"))
            assert pair.transaction.commit(self.host, self.now) == []
            self.walk()
        for step in steps:
            for tag in [tag for tag, _, how in pair.model.in_transaction if how == step]:
                if step == ACKNOWLEDGE:
                    pair.transaction.acknowledge(self.real_tag(pair, tag))
                else:
                    pair.transaction.reject(self.real_tag(pair, tag), requeue=step == REQUEUE)
            assert pair.transaction.commit(self.host, self.now) == []
            self.walk()
        super().commit(pair)  # of the oracle: nothing is left of the queue's

    def walk(self) -> None:
        """Let those who look for something on disk take their turns."""
        while self.asking:
            self.asking = False
            more = self.queue.scan(self.now)
            self.asking = self.asking or more

    def forgo(self) -> None:
        """Let the oracle's browsers not have seen what left in this command, before the turn in which they read it.

        It knows no turns: what somebody took with automatic acknowledgement when both had room it shows them first.

        Nor has a consumer of a non-destructive queue seen what left in it and fits its window only since something
        larger before it left in it too: the next rows it may read in a later turn.
        """
        gone = {message.number for message in self.oracle.in_state(GONE)}
        for pair in self.sessions:
            model = pair.model
            for tag, consumer in pair.consumers.items():
                reads_later = consumer.browse or consumer.bytes_max >= 0
                if not reads_later or not isinstance(pair.real.consumers[tag].unseen, BrowseOrder):
                    continue
                missed = gone - {number for _, name, number in pair.real.received if name == tag}
                for shown in [shown for shown in model.received if shown[1] == tag and shown[2] in missed]:
                    model.received.remove(shown)
                    if shown[0] in model.held:
                        self.oracle.dispatching.deliveries.remove(model.held.pop(shown[0]))
                    self.oracle.dispatch(self.now)  # there is room for what follows

    def compare(self) -> None:
        limits = self.queue.limits
        filled = self.asking and self.queue.blocked and limits is not None and limits.exceeded(self.queue)
        self.walk()
        counted, resume = self.oracle.counted(), self.oracle.resume_at()
        if filled and (counted[0] > resume[0] or counted[1] > resume[1]):
            self.oracle.blocked = True  # what was found in a later turn counted until then
        self.forgo()
        super().compare()
        check_grouped(self.queue)
        if isinstance(self.queue.order, DeepLanes):
            self.queue.order._kept = 0
        paged = paged_order_of(self.queue, pages_of(self.queue, self.disk, ask_turn=self.ask_turn))
        if paged is not None:
            paged.keep_messages = 0
            if isinstance(paged, PagedFifo):
                paged.look_entries, paged.fold_least = 2, 1
            if isinstance(paged, PagedSorted):
                paged.fold_least, paged.load_messages = 0, 2
            if isinstance(paged, PagedLevels):
                paged.fold_least = 1
            self.paged += paged.page_out(ALL, 3)
            self.paged += paged.page_out(ALL, 100)


def runner_of(composition: Composition, *, hot: bool = False) -> PagedRunner:
    """Return a runner; ``hot``: what selectors ask for is a hot property."""
    copies = composition.settings.non_destructive or BROWSERS in composition.traits
    settings = replace(composition.settings, hot_properties=(COLOUR,) if hot else ())
    return PagedRunner(settings, copies=copies)


def with_policy(composition: Composition, name: str) -> Composition:
    """Return the composition with another policy of the axis of this one, such as that of times."""
    axis = next(axis for axis in AXES.values() if name in [policy.name for policy in axis])
    wanted = next(policy for policy in axis if policy.name == name)
    return replace(composition, policies=tuple(wanted if policy in axis else policy for policy in composition.policies))


PAGING = [one for one in compositions() if runner_of(one).queue.pageable()]
PLAIN = next(one for one in PAGING if one.identifier.startswith("FIFO, keep all"))
STRICT = next(one for one in PAGING if one.identifier.startswith("strict priority, keep all"))
LEVELS, SORTED = with_policy(PLAIN, "strict priority"), with_policy(PLAIN, "sorted")
PAGING += [
    with_policy(one, name)
    for one in (PLAIN, STRICT)
    for name in ("queue TTL", "TTL bounds", "message TTL", "expiry address")
]
PAGING += [SORTED, with_policy(SORTED, "TTL bounds"), with_policy(SORTED, "expiry address")]


def missing(base: Composition) -> list[Composition]:
    """Return this composition with each policy that no paging one has beside its order.

    Not consumers with selectors where what they ask for is found in later turns: one without takes what the oracle,
    which knows no turns, would give to one with. ``test_match_classes`` has them.
    """
    order = base.policies[0]
    later = {SELECTORS} if order.name != "sorted" else set()
    there = {policy for one in PAGING if order in one.policies for policy in one.policies}
    each = [with_policy(base, policy.name) for axis in AXES.values() for policy in axis if policy not in there]
    legal = [one for one in each if order in one.policies and not refusal_of(one.policies) and not one.traits & later]
    return [one for one in legal if runner_of(one).queue.pageable()]


PAGING += [one for base in (PLAIN, LEVELS, SORTED) for one in missing(base)]


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages_module, "LOAD_MESSAGES", 2)


@pytest.mark.hypothesis
@pytest.mark.parametrize("composition", PAGING, ids=lambda one: one.identifier)
def test_core_agrees_with_the_oracle_when_it_pages(composition: Composition, tiny: None) -> None:
    loaded = []

    def run(program: bytes) -> None:
        interpreter = Interpreter(composition, program)
        interpreter.runner = runner_of(composition, hot=len(program) % 2 == 1)
        interpreter.run()
        loaded.append(interpreter.runner.disk.loaded)

    run_programs(run, composition.identifier, EXAMPLES)
    assert sum(loaded) > 0


@pytest.mark.parametrize("deep", [True, False])
def test_one_who_follows_levels_on_disk_sees_an_important_arrival_behind_what_was_there(deep: bool, tiny: None) -> None:
    """Whoever attached while all was in memory sees it first; nobody is said to see anything else."""
    runner = runner_of(with_policy(LEVELS, "browsers"))
    runner.open_session(-1)
    (pair,) = runner.sessions
    browsing = ConsumerShape(messages_max=1, browse=BROWSE_FOLLOW)
    for number in range(4):
        runner.publish(MessageShape(priority=5 if number == 2 else None))
        if deep:
            runner.compare()
    runner.attach(pair, browsing)
    runner.compare()
    runner.publish(MessageShape(priority=9))
    for tag in range(1, 5):
        runner.compare()
        runner.settle(pair, tag, ACKNOWLEDGE, multiple=False, transacted=False)
    runner.compare()
    assert (runner.paged > 0) is deep
    assert [number for _, _, number in pair.real.received] == ([4, 2, 3, 5, 7] if deep else [4, 7, 2, 3, 5])


@pytest.mark.parametrize("automatic", [True, False])
def test_a_browser_that_reads_in_a_later_turn_may_miss_only_what_has_left(automatic: bool, tiny: None) -> None:
    runner = runner_of(with_policy(LEVELS, "browsers"))
    for _ in range(2):
        runner.open_session(-1)
    pair, other = runner.sessions
    runner.set_writable(pair, writable=False)
    for _ in range(4):
        runner.publish(MessageShape())
        runner.compare()
    runner.get(other, automatic=False)
    runner.attach(pair, ConsumerShape(browse=BROWSE_FOLLOW))
    runner.attach(pair, ConsumerShape(messages_max=2, automatic=automatic))
    runner.compare()
    runner.set_writable(pair, writable=True)
    runner.compare()
    browsed = [number for _, tag, number in pair.real.received if tag == "c7"]
    assert browsed == ([3] if automatic else [3, 4, 5, 6]), "what is in delivery is shown"


def test_what_leaves_with_a_larger_one_before_it_may_be_missed_by_a_small_window(tiny: None) -> None:
    """It was handed less than half of what it read last, so it reads on in a turn; by then both are gone."""
    bounded = next(one for one in PAGING if one.settings.non_destructive and one.settings.max_bytes >= 0)
    runner = runner_of(bounded)
    runner.open_session(-1)
    (pair,) = runner.sessions
    runner.attach(pair, ConsumerShape(messages_max=2, bytes_max=3))
    for size in (1, 3, 1, 3):
        runner.publish(MessageShape(size=size))
        runner.compare()
    runner.publish(MessageShape(size=5))  # the first three go, and only without the second one the third fits
    assert [number for _, _, number in pair.model.received] == [3, 5], "the oracle knows no turns"
    runner.compare()
    assert [number for _, _, number in pair.real.received] == [3]


def test_there_are_compositions_that_page() -> None:
    assert len(PAGING) > 1
