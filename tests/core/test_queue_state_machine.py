"""One queue against the oracle: every command Hypothesis can think of, compared after every step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from annulet.core.invariants import check_invariants
from annulet.core.queue import Queue
from annulet.core.settings import QueueSettings
from annulet.core.transaction import Transaction
from annulet.core.virtual_host import VirtualHost
from annulet.testing.oracle import DELIVERING, OracleConsumer, OracleSession, QueueOracle
from tests.core.helpers import NOW, RecordingEffects, RecordingSession, make_message
from tests.hypothesis_profiles import state_machine_settings

KEYS = st.sampled_from([None, "a", "b", "c"])
SIZES = st.integers(0, 5)
LIFETIMES = st.sampled_from([None, None, None, None, None, 0, 5, 20])
LIMITS = st.sampled_from([-1, -1, 1, 2, 3])
# Mostly small windows: a consumer without limits empties the queue, and then no other rule has anything to decide.
CONSUMERS = st.tuples(
    st.sampled_from([1, 1, 2, 2, 3, 0, -1]),
    st.sampled_from([-1, -1, 3, 6]),
    st.sampled_from([False] * 7 + [True]),
    st.sampled_from([0, 0, 0, 1]),
)
ARRIVALS = st.lists(st.tuples(KEYS, SIZES, LIFETIMES), min_size=1, max_size=6)


class Pair:
    """A session of the core and its counterpart."""

    def __init__(self, number: int, shared_max: int) -> None:
        self.real = RecordingSession(f"s{number}")
        self.model = OracleSession(messages_max=shared_max)
        self.real.window.messages_max = shared_max
        self.transaction = Transaction(self.real)
        self.sends: list[tuple[str | None, int, int]] = []
        self.consumers: dict[str, OracleConsumer] = {}
        self.got: list[tuple[int, int]] = []  # pulled by get; the rest is in real.deliveries


class QueueMachine(RuleBasedStateMachine):
    @initialize(
        ring=st.sampled_from([-1, 1, 2, 3, 5]),
        keep=st.sampled_from([0, 1, 2]),
        ttl=st.sampled_from([-1, -1, -1, -1, 10, 30]),
        shared_windows=st.lists(LIMITS, min_size=2, max_size=2),
        consumers=st.lists(CONSUMERS, max_size=1),
    )
    def start(
        self, ring: int, keep: int, ttl: int, shared_windows: list[int], consumers: list[tuple[int, int, bool, int]]
    ) -> None:
        self.now = NOW
        self.effects = RecordingEffects()
        self.host = VirtualHost("/", self.effects)
        self.queue: Queue = self.host.declare_queue("q", now=self.now)
        self.queue = Queue(
            "q",
            QueueSettings(ring_size=ring, last_value_key="k" if keep else "", keep_per_key=keep or 1, message_ttl=ttl),
            self.effects,
        )
        self.host.queues["q"] = self.queue
        self.oracle = QueueOracle(ring=ring, keyed=keep > 0, keep=keep or 1, ttl=ttl)
        self.sessions: list[Pair] = []
        self.names = 0
        for shared in shared_windows:
            self.open_pair(shared)
        for pair, (messages, octets, automatic, priority) in zip(self.sessions, consumers, strict=False):
            self.attach(pair, messages, octets, automatic, priority)

    # ------------------------------------------------------------------ choosing

    def pick(self, data: st.DataObject, *, holding: bool = False) -> Pair:
        choices = [pair for pair in self.sessions if pair.model.held] if holding else self.sessions
        return data.draw(st.sampled_from(choices), label="session")

    def expires_at(self, lifetime: int | None) -> int:
        return 0 if lifetime is None else self.now + lifetime

    def message(self, key: str | None, size: int, lifetime: int | None) -> Any:
        properties = {} if key is None else {"k": key}
        return make_message(
            b"x" * size, accepted_at=self.now, expires_at=self.expires_at(lifetime), **properties
        )  # fmt: skip

    def someone_holds(self) -> bool:
        return any(pair.model.held for pair in self.sessions)

    # ------------------------------------------------------------------ rules

    @rule(arrivals=ARRIVALS)
    def publish(self, arrivals: list[tuple[str | None, int, int | None]]) -> None:
        for key, size, lifetime in arrivals:
            self.host.publish(self.message(key, size, lifetime), self.host.route("", "q"), self.now)
            self.oracle.publish(key, size, self.expires_at(lifetime), self.now)

    @precondition(lambda self: len(self.sessions) < 3)
    @rule(shared=LIMITS)
    def open_session(self, shared: int) -> None:
        self.open_pair(shared)

    @precondition(lambda self: self.sessions and len(self.oracle.consumers) < 3)
    @rule(data=st.data(), consumer=CONSUMERS)
    def consume(self, data: st.DataObject, consumer: tuple[int, int, bool, int]) -> None:
        self.attach(self.pick(data), *consumer)

    def open_pair(self, shared: int) -> None:
        self.names += 1
        self.sessions.append(Pair(self.names, shared))

    def attach(self, pair: Pair, messages: int, octets: int, automatic: bool, priority: int) -> None:
        self.names += 1
        tag = f"c{self.names}"
        consumer = OracleConsumer(pair.model, tag, messages, octets, automatic, priority)
        pair.consumers[tag] = consumer
        self.oracle.attach(consumer, self.now)
        self.queue.expire(self.now)
        pair.real.consume(
            self.queue,
            tag,
            messages=messages,
            octets=octets,
            auto_acknowledge=automatic,
            priority=priority,
            now=self.now,
        )

    @precondition(lambda self: any(pair.consumers for pair in self.sessions))
    @rule(data=st.data(), keep_deliveries=st.booleans())
    def cancel(self, data: st.DataObject, keep_deliveries: bool) -> None:
        pair = data.draw(st.sampled_from([pair for pair in self.sessions if pair.consumers]))
        tag = data.draw(st.sampled_from(sorted(pair.consumers)))
        consumer = pair.consumers.pop(tag)
        self.oracle.cancel(consumer)
        if keep_deliveries:
            pair.real.detach(tag, self.now)
            return
        held = {number: m for number, m in pair.model.held.items() if m.holder is consumer}
        for number in held:
            del pair.model.held[number]
        if held:
            self.oracle.give_back(list(held.values()), self.now)
        pair.real.close_consumer(tag, self.now)

    @precondition(lambda self: self.sessions and self.oracle.pending())
    @rule(data=st.data(), count=st.integers(1, 4), automatic=st.sampled_from([False, False, False, True]))
    def get(self, data: st.DataObject, count: int, automatic: bool) -> None:
        pair = self.pick(data)
        for _ in range(count):
            self.queue.expire(self.now)
            self.oracle.get(pair.model, self.now, automatic=automatic)
            taken = pair.real.get(self.queue, self.now, auto_acknowledge=automatic)
            if taken is not None:
                pair.got.append((taken[1], taken[0].sequence))

    @precondition(someone_holds)
    @rule(data=st.data(), multiple=st.booleans(), transacted=st.sampled_from([False, False, True]))
    def acknowledge(self, data: st.DataObject, multiple: bool, transacted: bool) -> None:
        self.settle(data, "acknowledge", multiple, transacted)

    @precondition(someone_holds)
    @rule(data=st.data(), multiple=st.booleans(), transacted=st.sampled_from([False, False, True]))
    def requeue(self, data: st.DataObject, multiple: bool, transacted: bool) -> None:
        self.settle(data, "requeue", multiple, transacted)

    @precondition(someone_holds)
    @rule(data=st.data(), multiple=st.booleans(), transacted=st.sampled_from([False, False, True]))
    def drop(self, data: st.DataObject, multiple: bool, transacted: bool) -> None:
        self.settle(data, "drop", multiple, transacted)

    def settle(self, data: st.DataObject, how: str, multiple: bool, transacted: bool) -> None:
        pair = self.pick(data, holding=True)
        tag = data.draw(st.sampled_from([*pair.model.held, *([0] if multiple else [])]))
        taken = self.oracle.take(pair.model, tag, multiple=multiple)
        messages = [message for _, message in taken]
        if transacted:
            pair.model.in_transaction += [(held, message, how) for held, message in taken]
            if how == "acknowledge":
                pair.transaction.acknowledge(tag, multiple=multiple)
            else:
                pair.transaction.reject(tag, multiple=multiple, requeue=how == "requeue")
        elif how == "acknowledge":
            self.oracle.settle(messages, "acknowledged", self.now)
            pair.real.acknowledge(tag, self.now, multiple=multiple)
        elif how == "drop":
            self.oracle.settle(messages, "rejected", self.now)
            pair.real.reject(tag, self.now, requeue=False, multiple=multiple)
        else:
            self.oracle.give_back(messages, self.now)
            pair.real.reject(tag, self.now, requeue=True, multiple=multiple)

    @precondition(someone_holds)
    @rule(data=st.data())
    def recover(self, data: st.DataObject) -> None:
        pair = self.pick(data, holding=True)
        held = list(pair.model.held.values())
        pair.model.held.clear()
        self.oracle.give_back(held, self.now)
        pair.real.recover(self.now)

    @precondition(lambda self: self.sessions)
    @rule(data=st.data(), key=KEYS, size=SIZES, lifetime=LIFETIMES)
    def send_in_transaction(self, data: st.DataObject, key: str | None, size: int, lifetime: int | None) -> None:
        pair = self.pick(data)
        expires_at = self.expires_at(lifetime)
        if self.oracle.ttl >= 0:  # it runs from the send, and the oracle's publish counts from the commit
            expires_at = min(expires_at or self.now + self.oracle.ttl, self.now + self.oracle.ttl)
        pair.sends.append((key, size, expires_at))
        pair.transaction.send(self.message(key, size, lifetime), self.host.route("", "q"))

    @precondition(lambda self: self.sessions)
    @rule(data=st.data())
    def stall_or_go_on(self, data: st.DataObject) -> None:
        """The client's connection fills up, or has room again. What comes back meanwhile stays with the queue."""
        pair = self.pick(data)
        pair.model.writable = pair.real.writable = not pair.real.writable
        if pair.real.writable:
            self.queue.expire(self.now)
            self.oracle.expire(self.now)
            self.oracle.dispatch()
            pair.real.wake(self.now)

    @precondition(lambda self: self.sessions)
    @rule(data=st.data(), keep=st.booleans())
    def end_transaction(self, data: st.DataObject, keep: bool) -> None:
        pair = self.pick(data)
        sends, pair.sends = pair.sends, []
        if keep:
            self.oracle.commit(pair.model, sends, self.now)
            assert pair.transaction.commit(self.host, self.now) == []
        else:
            self.oracle.rollback(pair.model)
            pair.transaction.rollback()

    @rule(data=st.data(), what=st.sampled_from(["nothing", "close", "resize", "purge"]))
    def disrupt(self, data: st.DataObject, what: str) -> None:
        """One rule for what empties queues and sessions: as rules of their own they would leave others little to do."""
        if what == "close" and self.sessions:
            pair = self.pick(data)
            self.sessions.remove(pair)
            pair.transaction.rollback()
            self.oracle.close(pair.model, self.now)
            pair.real.close(self.now)
        elif what == "resize":
            ring, trim = data.draw(st.sampled_from([1, 2, 4, -1])), data.draw(st.booleans())
            changed = replace(self.queue.settings, ring_size=ring, ring_trim_now=trim)
            self.queue.update(changed, self.now)
            self.oracle.resize(ring, trim=trim)
        elif what == "purge":
            self.queue.purge(self.now)
            self.oracle.purge()

    @rule(elapsed=st.integers(1, 12))
    def pass_time(self, elapsed: int) -> None:
        self.now += elapsed
        self.queue.expire(self.now)
        self.oracle.expire(self.now)
        self.oracle.dispatch()
        self.queue.wake(self.now)

    # ------------------------------------------------------------------ comparison

    @invariant()
    def same_as_the_oracle(self) -> None:
        check_invariants(self.queue)
        assert [e.sequence for e in self.queue.order.entries()] == [m.number for m in self.oracle.pending()]
        delivering = {m.number: m for m in self.oracle.messages if m.state == DELIVERING}
        assert {e.sequence: e.delivery_count for e in self.queue.delivering} == {
            n: m.returns for n, m in delivering.items()
        }
        reasons = {reason.value: count for reason, count in self.queue.counters.removed.items() if count}
        assert reasons == self.oracle.reasons
        assert self.queue.counters.messages_added == len(self.oracle.messages)
        for pair in self.sessions:
            received = sorted([*((tag, entry.sequence) for tag, entry in pair.real.deliveries), *pair.got])
            assert received == pair.model.received
            held = {tag: entry.sequence for tag, entry in pair.real.unacknowledged.items()}
            assert held == {tag: message.number for tag, message in pair.model.held.items()}
            assert list(pair.real.unacknowledged) == sorted(pair.real.unacknowledged)


QueueMachine.TestCase.settings = state_machine_settings(examples=300, steps=50)
TestQueueAgainstOracle = QueueMachine.TestCase
