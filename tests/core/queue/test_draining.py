"""A drained consumer is answered when nothing looks for messages for it any more, and not before."""

from __future__ import annotations

import random

import pytest

from annulet.core.base.settings import BROWSE_FOLLOW, BROWSE_SNAPSHOT, ConsumerSettings
from annulet.core.model.consumer import Consumer, LinkCredit
from tests.core.deep_doubles import ALL, Deep, numbers
from tests.core.grouped_doubles import GroupedDeep
from tests.core.helpers import NOW, RecordingSession

MANY = 3000


class Asking(RecordingSession):
    """Notes how many messages it had received at each answer."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[int] = []

    def nothing_more(self, consumer: Consumer) -> None:
        assert consumer.session is self
        self.answers.append(len(self.received))

    def deliver_settled(self, consumer: Consumer, entry: object) -> bool:
        consumer.window.take(0)  # a link's credit is used up by what is settled too
        return super().deliver_settled(consumer, entry)  # type: ignore[arg-type]

    def link(self, deep: Deep, *, credit: int = MANY, priority: int = 0, **settings: str) -> Consumer:
        """Attach a consumer with link credit that settles at once."""
        consumer = Consumer(
            self,
            deep.queue,
            f"c{len(self.consumers)}",
            window=LinkCredit(),
            auto_acknowledge=True,
            priority=priority,
            settings=ConsumerSettings(**settings),  # type: ignore[arg-type]
        )
        self.attach(consumer, NOW)
        grant(consumer, credit)
        return consumer


def grant(consumer: Consumer, credit: int) -> None:
    window = consumer.window
    assert isinstance(window, LinkCredit)
    window.grant(credit)


@pytest.mark.parametrize("levels", [False, True])
def test_a_selector_is_answered_when_its_walk_has_ended(levels: bool) -> None:
    deep, session = Deep(MANY, levels=levels), Asking()
    consumer = session.link(deep, selector="seven = 2")
    deep.queue.drain(consumer, NOW)
    assert session.answers == []
    assert deep.asking, "something is under way"
    deep.take_turns()
    expected = [number for number in range(1, MANY + 1) if number % 7 == 2]
    assert sorted(numbers(session)) == expected
    assert session.answers == [len(expected)]
    deep.queue.drain(consumer, NOW)  # nothing is left to look at
    assert session.answers == [len(expected)] * 2
    assert not deep.queue.draining


def test_so_it_is_where_all_is_in_memory() -> None:
    deep, session = Deep(), Asking()
    deep.queue.matchers.lanes_max = 100
    deep.publish(MANY)
    consumer = session.link(deep, selector="seven = 2 AND three = 5")  # nothing
    deep.queue.drain(consumer, NOW)
    deep.take_turns()
    assert (session.received, session.answers) == ([], [0])


def test_credit_that_is_used_up_is_answered_at_once() -> None:
    deep, session = Deep(MANY), Asking()
    consumer = session.link(deep, credit=3, selector="seven = 2")
    deep.queue.drain(consumer, NOW)
    while not session.answers:
        assert deep.asking
        deep.asking = deep.queue.scan(NOW)
    assert (numbers(session), session.answers) == ([2, 9, 16], [3])
    assert deep.queue.order.paged_count() > 0


def test_what_arrives_later_is_not_waited_for() -> None:
    """A queue into which others publish as fast as it is looked at would else never give an answer."""
    deep, session = Deep(600), Asking()
    consumer = session.link(deep, selector="seven = 9")
    deep.queue.drain(consumer, NOW)
    for _ in range(20):
        deep.publish(300)
        deep.page_out(ALL)
        deep.asking = deep.queue.scan(NOW, 100) or deep.asking
        if session.answers:
            break
    assert session.answers == [0]
    assert deep.asking, "the walk itself goes on"


@pytest.mark.parametrize("mode", [BROWSE_FOLLOW, BROWSE_SNAPSHOT])
@pytest.mark.parametrize("selector", ["", "seven = 2"])
def test_a_browser_is_answered_when_it_has_read_the_rows(mode: str, selector: str) -> None:
    deep, session = Deep(MANY), Asking()
    consumer = session.link(deep, browse=mode, selector=selector)
    deep.queue.drain(consumer, NOW)
    assert session.answers == []
    deep.take_turns()
    assert session.answers == [MANY if not selector else len(range(2, MANY + 1, 7))]
    assert deep.queue.order.count == MANY


def test_behind_a_stalled_group_it_waits_for_the_walk() -> None:
    deep = GroupedDeep(lambda number: "stalled" if number <= MANY else "other")
    deep.publish(MANY)
    RecordingSession("owner").consume(deep.queue, messages=1)
    deep.publish(10)
    deep.page_out(ALL)
    session = Asking()
    consumer = session.link(deep)
    deep.queue.drain(consumer, NOW)
    deep.take_turns()
    assert (numbers(session), session.answers) == (list(range(MANY + 1, MANY + 11)), [10])
    deep.queue.drain(consumer, NOW)  # all that is left belongs to the other one
    assert session.answers == [10, 10]


@pytest.mark.parametrize("kind", ["plain", "selector", "browser", "groups"])
def test_a_disk_that_refuses_is_waited_for(kind: str) -> None:
    """The messages are there: nobody may be told that they are not."""
    deep = GroupedDeep(str) if kind == "groups" else Deep()
    deep.publish(100)
    deep.page_out(ALL)
    session = Asking()
    consumer = session.link(deep, credit=0)
    if kind in {"selector", "browser"}:
        session.detach(consumer.tag, NOW)
        settings = {"selector": "three = 1"} if kind == "selector" else {"browse": BROWSE_FOLLOW}
        consumer = session.link(deep, credit=0, **settings)
    deep.disk.failing = True
    grant(consumer, 1000)
    deep.queue.drain(consumer, NOW)
    deep.take_turns()
    assert session.answers == []
    deep.disk.failing = False
    deep.retry()
    deep.queue.wake(NOW)
    deep.asking = True  # the tick gives browsers a turn
    deep.take_turns()
    assert session.answers == [34 if kind == "selector" else 100]


def test_what_it_may_not_have_now_is_not_waited_for() -> None:
    deep, session = Deep(MANY), Asking()
    deep.queue.pause(NOW)
    consumer = session.link(deep, selector="seven = 2")
    deep.queue.drain(consumer, NOW)
    assert session.answers == [0], "paused"
    single = Deep(MANY, single_active_consumer=True)
    RecordingSession().consume(single.queue, messages=1)
    waiting = Asking()
    single.queue.drain(waiting.link(single), NOW)
    assert waiting.answers == [0], "another one is served alone"
    capped = Deep(MANY, in_flight_max=1)
    RecordingSession().consume(capped.queue, messages=1)
    last = Asking()
    capped.queue.drain(last.link(capped, selector="seven = 2"), NOW)
    capped.take_turns()
    assert last.answers == [0], "no more may be in delivery"


def test_who_has_no_room_for_output_is_answered_when_there_is_some() -> None:
    deep, session = Deep(10), Asking()
    consumer = session.link(deep, credit=0)
    session.writable = False
    grant(consumer, 20)
    deep.queue.drain(consumer, NOW)
    assert (session.received, session.answers) == ([], [])
    session.writable = True
    session.wake(NOW)
    assert session.answers == [10]


def test_who_leaves_or_asks_no_longer_gets_no_answer() -> None:
    deep, session = Deep(MANY), Asking()
    first, second = (session.link(deep, selector=f"seven = {number}") for number in (2, 3))
    for consumer in (first, second):
        deep.queue.drain(consumer, NOW)
    session.detach(first.tag, NOW)
    deep.queue.stop_draining(second)
    deep.take_turns()
    assert session.answers == []
    assert [number for number in numbers(session) if number % 7 == 3] == list(range(3, MANY + 1, 7))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("levels", [False, True])
def test_each_answer_is_true_of_a_list_of_messages(seed: int, levels: bool) -> None:
    """Random commands, beside a list that knows what is there: the answer comes with all of it, or all credit used."""
    chance = random.Random(seed)
    deep, session = Deep(keep=2, levels=levels), Asking()
    deep.queue.matchers.lanes_max = 20
    there: list[int] = []
    links = {
        (modulus, rest): session.link(deep, credit=0, selector=f"{name} = {rest}")
        for name, modulus in (("seven", 7), ("three", 3))
        for rest in range(modulus)
    }
    for _ in range(60):
        what = chance.randrange(4)
        if what == 0:
            first = deep.queue.next_sequence
            deep.publish(chance.randrange(400))
            there += range(first, deep.queue.next_sequence)
        elif what == 1:
            deep.page_out(chance.choice([10, 500, ALL]))
        else:
            (modulus, rest), consumer = chance.choice(list(links.items()))
            credit = chance.choice([1, 5, 1000])
            expected = deep.in_order([number for number in there if number % modulus == rest])[:credit]
            before, answers = len(session.received), len(session.answers)
            grant(consumer, credit)
            deep.queue.drain(consumer, NOW)
            deep.take_turns()
            assert len(session.answers) == answers + 1
            assert session.answers[-1] == len(session.received), "nothing came behind the answer"
            assert numbers(session)[before:] == expected
            there = [number for number in there if number not in set(expected)]
            grant(consumer, 0)
