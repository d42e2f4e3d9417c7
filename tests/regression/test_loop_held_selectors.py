"""No selector that a client gives holds the event loop for long, whatever properties messages have.

What is asserted is how many steps of selectors are taken in one call, not how long they take.
"""

from __future__ import annotations

from typing import Any

import pytest

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.management.actions import Remove
from annulet.core.management.operation import Preview
from annulet.core.management.selection import select
from annulet.core.message.message import Message, Origin, PropertyValue
from annulet.core.message.selector_names import SCANNED_OCTETS_MAX, MessageLookup
from annulet.core.policies.evaluation_turns import EVALUATION_STEPS_MAX
from annulet.core.queue.queue import Queue
from annulet.selector.parser import SEARCH_STEPS_MAX
from annulet.selector.selector import compile_selector
from tests.core.helpers import NOW, RecordingSession, SlicingEffects, TableView, queue_of

CONSUMERS = 20
HEADER = 60_000
TEXT = "ba" * (HEADER // 20)
SLOW = " OR ".join(["p LIKE '%b_1%'"] * 7)
CALL_STEPS = EVALUATION_STEPS_MAX + SEARCH_STEPS_MAX + 100  # what one call takes at most, with the last evaluation


def long_message(body: str, **application: PropertyValue) -> Message:
    """A message with so long a header as its properties would have."""
    origin = Origin("", "", "guest@test", TableView({"p": TEXT, **application}))
    return Message(b"x" * HEADER, body.encode(), origin, accepted_at=NOW)


def slow_selector(number: int) -> str:
    return f"{SLOW} OR n = {number}"


class Steps:
    """The steps and evaluations of calls of a queue, one by one."""

    def __init__(self, queue: Queue, effects: SlicingEffects) -> None:
        self.queue = queue
        self.effects = effects
        self.turns = 0

    def go_on(self) -> None:
        """Do all later work; no slice of it takes more than one call may."""
        while self.effects.works:
            self.queue.matchers.steps = 0
            self.effects.turn()
            self.turns += 1
            assert self.queue.matchers.steps <= CALL_STEPS


def test_slow_selectors_of_many_consumers_are_asked_in_turns() -> None:
    """A8: one message to 20 consumers with 8 slow patterns each, for a property of 120 KB, took 5.7 s."""
    effects = SlicingEffects()
    queue, session = queue_of(effects), RecordingSession()
    for number in range(CONSUMERS):
        session.consume(queue, f"c{number}", selector=slow_selector(number))
    queue.enqueue(long_message("m", n=CONSUMERS - 1), NOW)
    assert 0 < queue.matchers.evaluations < CONSUMERS
    assert queue.matchers.steps <= CALL_STEPS
    assert session.received == []
    calls = Steps(queue, effects)
    calls.go_on()
    assert calls.turns >= 3
    assert session.by_consumer == {f"c{CONSUMERS - 1}": ["m"]}
    assert queue.matchers.evaluations == CONSUMERS, "each was asked once"


@pytest.mark.parametrize("settings", [{}, {"fair_key": "f"}, {"group_mode": "shared", "group_key": "g"}])
def test_no_message_overtakes_one_that_is_still_asked_about(settings: dict[str, Any]) -> None:
    """Later messages, and new consumers, find the same order as if all had been asked at once."""
    effects = SlicingEffects()
    queue, session = queue_of(effects, **settings), RecordingSession()
    for number in range(CONSUMERS):
        session.consume(queue, f"c{number}", selector=slow_selector(number))
    for body in ("first", "second", "third"):
        queue.enqueue(long_message(body, n=CONSUMERS - 1, f="a", g="b"), NOW)
    Steps(queue, effects).go_on()
    assert session.received == ["first", "second", "third"]
    assert queue.order.count == 0


def test_a_drained_consumer_is_answered_when_all_were_asked() -> None:
    """AMQP 1.0 §2.6.7: not while the message for it has not been looked at."""
    effects = SlicingEffects()
    queue, session = queue_of(effects), RecordingSession()
    told: list[str] = []
    session.nothing_more = lambda consumer: told.append(consumer.tag)  # type: ignore[method-assign]
    others = [session.consume(queue, f"c{number}", selector=slow_selector(number)) for number in range(CONSUMERS)]
    queue.enqueue(long_message("m", n=CONSUMERS - 1), NOW)
    queue.drain(others[-1], NOW)
    assert told == []
    Steps(queue, effects).go_on()
    assert session.received == ["m"]
    assert told == [f"c{CONSUMERS - 1}"]


def test_a_walk_over_many_messages_is_cut_and_goes_on() -> None:
    """A scan looked at 256 messages, however long a selector took for each."""
    effects = SlicingEffects()
    queue, session = queue_of(effects), RecordingSession()
    queue.matchers.lanes_max = 4
    for number in range(30):
        queue.enqueue(long_message(f"m{number}", n=number), NOW)
    session.consume(queue, "all", selector="absent = 1")
    session.consume(queue, "slow", selector=slow_selector(29))
    assert queue.matchers.steps <= CALL_STEPS
    calls = Steps(queue, effects)
    calls.go_on()
    assert session.by_consumer == {"slow": ["m29"]}
    assert calls.turns >= 10
    assert queue.matchers.evaluations == 2 * 30


def test_a_browser_with_a_slow_selector_is_served_in_turns() -> None:
    effects = SlicingEffects()
    queue, session = queue_of(effects), RecordingSession()
    for number in range(20):
        queue.enqueue(long_message(f"m{number}", n=number), NOW)
    session.consume(queue, "browser", browse="follow", selector=slow_selector(19))
    assert queue.matchers.steps <= CALL_STEPS
    assert session.received == []
    calls = Steps(queue, effects)
    calls.go_on()
    assert session.received == ["m19"]
    assert calls.turns >= 10


def test_a_slice_of_management_ends_with_the_steps_of_its_selector() -> None:
    """Previews, operations, searches over HTTP and bulk reading looked at up to 500 messages a slice."""
    queue = queue_of()
    for number in range(30):
        queue.enqueue(long_message(f"m{number}", n=number), NOW)
    selection = select(selector=slow_selector(29))
    preview = Preview(Remove("delete", queue, RemovalReason.DELETED), selection)
    slices = 0
    while not preview.step(NOW):
        assert selection.steps <= CALL_STEPS
        slices += 1
    assert slices >= 10
    assert preview.result.count == 1


def test_terms_without_wild_characters_are_bounded_together() -> None:
    """A8: 750 terms LIKE '%ba1%' took 1 s for a property of 120 KB."""
    selector = compile_selector(" OR ".join(["p LIKE '%ba1%'"] * 750))
    assert selector.steps_for(120_000) <= SEARCH_STEPS_MAX + 2 * 750 + 4 * 120_000 // 8 + 1
    values: dict[str, object] = {"p": "ba" * 60_000}
    assert selector.evaluate(values.get) is None


@pytest.mark.parametrize(
    ("pattern", "longest"),
    [
        ("%ab%", 65_536 * 1024 // 20),
        ("%a_b%", 65_536 * 1024 // 1030),
        ("%a_b%' OR p LIKE '%a_b%", 65_536 * 1024 // 2060),
    ],
)
def test_a_pattern_is_searched_for_up_to_the_bound_and_unknown_beyond(pattern: str, longest: int) -> None:
    selector = compile_selector(f"p LIKE '{pattern}'")
    end = "ab" if "_" not in pattern else "axb"
    values: dict[str, object] = {"p": "x" * (longest - len(end)) + end}
    assert selector.matches(values.get)
    values["p"] = f"x{values['p']}"
    assert selector.evaluate(values.get) is None
    assert f"longer than the {longest}" in str(selector.explain(values.get))
    values["p"] = 1
    assert selector.evaluate(values.get) is False
    prefix = compile_selector("p LIKE 'x%b' AND p LIKE '%b'")
    values["p"] = "x" * 3_000_000 + "b"
    assert prefix.matches(values.get), "what is not searched for has no bound"


class CountingView(TableView):
    """Counts how often it looks for one property, and how often it decodes all."""

    def __init__(self, application: dict[str, PropertyValue], *, beside: frozenset[str] | None) -> None:
        super().__init__(application)
        self.names_beside = beside
        self.single: list[str] = []

    def application_property(self, message: Message, name: str) -> PropertyValue:
        self.single.append(name)
        return super().application_property(message, name)


def test_a_long_header_is_looked_through_a_few_times_only() -> None:
    """Brother: a selector of 1,000 names took 12 s for a message with 20,000 properties, 12 ms a name."""
    names = [f"n{number}" for number in range(1000)]
    view = CountingView({name: name for name in names}, beside=frozenset({"n7", "n999"}))
    lookup = MessageLookup(Message(b"x" * HEADER, b"", Origin("", "", "guest@test", view)))
    for _ in range(2):
        assert [lookup.value(name) for name in names] == names
        assert lookup.value("absent") is None
    looked = -(-SCANNED_OCTETS_MAX // HEADER)
    assert view.single == [*names[:looked], "n7", "n999"], "those that may be elsewhere are looked for"


def test_a_short_header_and_one_that_may_be_elsewhere_are_looked_through_as_before() -> None:
    short = CountingView({"a": 1}, beside=frozenset())
    lookup = MessageLookup(Message(b"x", b"", Origin("", "", "guest@test", short)))
    assert [lookup.value("a") for _ in range(3)] == [1, 1, 1]
    assert short.single == ["a"] * 3
    other = CountingView({f"n{number}": number for number in range(9)}, beside=None)
    lookup = MessageLookup(Message(b"x" * HEADER, b"", Origin("", "", "guest@test", other)))
    assert [lookup.value(f"n{number}") for number in range(9)] == list(range(9))
    assert len(other.single) == 9
