"""Operation counts instead of seconds: how the work of one call grows when the queue is eight times as deep.

``sys.setprofile`` counts every call, of Python functions and of built-in ones, so the counts are exact and the same on
every machine. What a built-in does inside one call is not seen, but every comparison of two entries is a call. Compiled
modules report no calls, so these tests run pure only; it is the same source.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from types import FrameType

import pytest

import annulet.core.queue.queue
from annulet.core.base.settings import ConsumerSettings, QueueSettings
from annulet.core.message.message import Message, Origin
from annulet.core.model.consumer import Consumer, CreditWindow
from annulet.core.queue.queue import Queue
from tests.core.helpers import NOW, RecordingEffects
from tests.core.model_suite.compositions import Composition, compositions
from tests.core.model_suite.doubles import Facts, ModelForwarder, ModelSession, ModelView
from tests.core.model_suite.policies import AXES, COLOUR, FAIR_KEY, LAST_VALUE_KEY, SELECTORS, SORT_KEY

pytestmark = pytest.mark.skipif(
    not str(annulet.core.queue.queue.__file__).endswith(".py"), reason="compiled code reports no calls to count"
)

SHALLOW, DEEP = 100, 800
"""Messages in the queue; eight times as deep is three more levels of a binary tree."""

GROWTH_MAX = 2.0
"""Calls of one operation in the deep queue per call in the shallow one. O(log n) grows by 1.4 here, O(n) by 8."""

SLACK = 60
"""Calls that may come on top: what happens once, such as a list that grows."""

REPEATS = 10

EACH_FIFTH, EACH_NINTH = compositions()[::5], compositions()[1::9]


class Calls:
    """Counts the calls made inside a ``with``."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> Calls:
        def profile(frame: FrameType, event: str, argument: object) -> None:
            if event in {"call", "c_call"}:
                self.count += 1

        sys.setprofile(profile)
        return self

    def __exit__(self, *details: object) -> None:
        sys.setprofile(None)


class Bench:
    """A queue of one composition with as many messages as it is told, and consumers without credit."""

    def __init__(self, composition: Composition, depth: int) -> None:
        limits = {"ring_size": depth, "max_length": depth, "max_bytes": depth, "in_flight_max": -1}
        settings = composition.settings
        changed = {name: value for name, value in limits.items() if getattr(settings, name) >= 0}
        if settings.in_flight_per_key >= 0:
            changed["in_flight_per_key"] = 10 * depth
        self.settings: QueueSettings = replace(settings, **changed)
        self.view = ModelView()
        self.queue = Queue("q", self.settings, RecordingEffects(), forwarder=ModelForwarder({}))
        self.session = ModelSession("session", "connection")
        self.count = 0
        selector = f"{COLOUR} = 'red'" if SELECTORS in composition.traits else ""
        self.consumers = [
            Consumer(
                self.session,
                self.queue,
                f"c{number}",
                window=CreditWindow(0),
                settings=ConsumerSettings(selector=selector),
            )
            for number in range(2)
        ]
        for consumer in self.consumers:
            self.session.attach(consumer, NOW)
        for _ in range(depth):
            self.enqueue()

    def enqueue(self) -> None:
        """One message; keys, groups and tenants are many, so that nothing stays small by being replaced."""
        self.count += 1
        header = str(self.count).encode()
        text = f"{self.count * 7919 % 1009:04}"
        properties = {LAST_VALUE_KEY: header.decode(), SORT_KEY: text, FAIR_KEY: f"t{self.count % 50}", COLOUR: "red"}
        properties["JMSXGroupID"] = f"g{self.count % 50}"
        self.view.facts[header] = Facts(self.count % 10, 0, f"g{self.count % 50}", dict(properties))
        message = Message(
            header,
            b"x",
            Origin("", "q", "guest@test", self.view, "another connection"),
            priority=self.count % 10,
            accepted_at=NOW,
            expires_at=NOW + 10_000 + self.count,
        )
        self.queue.enqueue(message, NOW)

    def give_credit(self, messages: int) -> None:
        """Let each consumer have so many messages in delivery, and serve them."""
        for consumer in self.consumers:
            consumer.window.messages_max = messages
        self.session.wake(NOW)


def calls_of(bench: Bench, operation: Callable[[Bench], None]) -> int:
    operation(bench)  # once before: caches fill, lists are made
    with Calls() as calls:
        for _ in range(REPEATS):
            operation(bench)
    return calls.count // REPEATS


def settle_one(bench: Bench) -> None:
    held = bench.session.unacknowledged
    if held:
        bench.session.acknowledge(next(iter(held)), NOW)


def return_one(bench: Bench) -> None:
    held = bench.session.unacknowledged
    if held:
        bench.session.reject(next(iter(held)), NOW, requeue=True)


def dispatch_one(bench: Bench) -> None:
    bench.give_credit(bench.consumers[0].window.messages_max + 1)


OPERATIONS = {
    "enqueue": lambda bench: bench.enqueue(),
    "dispatch": dispatch_one,
    "settle": settle_one,
    "return": return_one,
}


def test_every_policy_is_measured() -> None:
    everything = {chosen for policies in AXES.values() for chosen in policies}
    for measured in (EACH_FIFTH, EACH_NINTH):
        assert {chosen for one in measured for chosen in one.policies} == everything


@pytest.mark.parametrize("composition", EACH_FIFTH, ids=lambda one: one.identifier)
def test_an_operation_costs_hardly_more_in_a_deep_queue(composition: Composition) -> None:
    benches = [Bench(composition, depth) for depth in (SHALLOW, DEEP)]
    for name, operation in OPERATIONS.items():
        if name == "settle":
            for bench in benches:
                bench.give_credit(4 * REPEATS)
                assert bench.session.unacknowledged, "there is something to settle and to return"
        shallow, deep = (calls_of(bench, operation) for bench in benches)
        assert deep <= GROWTH_MAX * shallow + SLACK, f"{name}: {shallow} calls among {SHALLOW}, {deep} among {DEEP}"


@pytest.mark.parametrize("composition", EACH_NINTH, ids=lambda one: one.identifier)
def test_a_returned_set_costs_what_its_messages_cost(composition: Composition) -> None:
    """n messages come back in O(n log n): per message hardly more when eight times as many do."""
    per_message = []
    for depth in (SHALLOW, DEEP):
        bench = Bench(composition, depth)
        bench.give_credit(depth)
        returned = len(bench.session.unacknowledged)
        assert returned >= depth / 10
        for consumer in bench.consumers:
            consumer.window.messages_max = 0  # nobody takes again what comes back: only the return is counted
        with Calls() as calls:
            bench.session.recover(NOW)
        per_message.append(calls.count / returned)
    assert per_message[1] <= GROWTH_MAX * per_message[0] + 1, f"calls a message: {per_message}"


def test_a_selector_is_asked_at_most_once_about_a_message() -> None:
    view, session = ModelView(), ModelSession("session", "connection")
    queue = Queue("q", QueueSettings(priorities=3), RecordingEffects())
    selectors = [f"{COLOUR} = 'red'", f"{COLOUR} = 'blue'", f"{COLOUR} = 'red'"]
    consumers = [
        Consumer(session, queue, f"c{number}", window=CreditWindow(2), settings=ConsumerSettings(selector=selector))
        for number, selector in enumerate(selectors)
    ]
    for consumer in consumers:
        session.attach(consumer, NOW)
    for number in range(60):
        header = str(number).encode()
        view.facts[header] = Facts(number % 10, properties={COLOUR: ("red", "blue", "green")[number % 3]})
        queue.enqueue(Message(header, b"x", Origin("", "q", "guest@test", view), priority=number % 10), NOW)
    for _ in range(5):  # everything comes back and goes out again, four times as much each time
        session.recover(NOW)
        for consumer in consumers:
            consumer.window.messages_max *= 2
        session.wake(NOW)
    assert len(session.received) > 60
    assert set(view.lookups.values()) <= {1, 2}, "two distinct selectors, each once"


def test_consumers_without_room_are_not_looked_at_for_each_message() -> None:
    """A dispatch of many messages looks a few times at each consumer that has all it may hold."""
    totals = []
    for exhausted in (SHALLOW, DEEP):
        bench = Bench(Composition(()), DEEP)
        holder = ModelSession("holder", "connection")
        for number in range(exhausted):
            holder.attach(Consumer(holder, bench.queue, f"full{number}", window=CreditWindow(0)), NOW)
        with Calls() as calls:
            bench.give_credit(DEEP // 4)
        assert len(bench.session.unacknowledged) == DEEP // 2
        totals.append(calls.count)
    more = (totals[1] - totals[0]) / (DEEP - SHALLOW)
    assert more <= SLACK, f"{more} calls more for each consumer without room; there were {DEEP // 2} messages"
