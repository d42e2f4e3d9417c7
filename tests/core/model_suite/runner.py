"""One queue of the core and its oracle side by side: each command goes to both, then everything is compared."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.settings import ConsumerSettings, QueueSettings
from annulet.core.host.transaction import Transaction
from annulet.core.host.virtual_host import VirtualHost
from annulet.core.message.message import DEFAULT_PRIORITY, Message, Origin, PropertyValue
from annulet.core.model.consumer import Consumer, CreditWindow
from annulet.core.model.entry import QueueEntry
from annulet.core.queue.invariants import check_invariants
from annulet.core.queue.queue import Queue
from annulet.testing.oracle.queue import ACKNOWLEDGE, DROP, REQUEUE, QueueOracle
from annulet.testing.oracle.records import (
    DELIVERING,
    SCHEDULED,
    OracleConsumer,
    OracleDelivery,
    OracleMessage,
    OracleSession,
)
from tests.core.helpers import NOW, RecordingEffects
from tests.core.model_suite.doubles import Facts, ModelForwarder, ModelSession, ModelView, number_of
from tests.core.model_suite.policies import COLOUR

CONNECTIONS = ("first connection", "second connection")


@dataclass(frozen=True)
class MessageShape:
    """What a publisher decides about a message. Times are relative to now; ``None`` = not given."""

    size: int = 1
    priority: int | None = None
    lifetime: int | None = None
    delay: int = 0
    group: str = ""
    closes_group: bool = False
    connection: int = 0
    properties: dict[str, PropertyValue] = field(default_factory=dict)


@dataclass(frozen=True)
class ConsumerShape:
    """What a consumer asks for."""

    messages_max: int = -1
    bytes_max: int = -1
    automatic: bool = False
    priority: int = 0
    colour: str = ""
    browse: str = ""
    no_local: bool = False


class SessionPair:
    """A session of the core and its counterpart."""

    def __init__(self, number: int, shared_max: int, session_class: type[ModelSession] = ModelSession) -> None:
        connection = CONNECTIONS[number % len(CONNECTIONS)]
        self.real = session_class(f"session {number}", connection)
        self.model = OracleSession(messages_max=shared_max, connection=connection)
        self.real.window.messages_max = shared_max
        self.transaction = Transaction(self.real)
        self.sends: list[OracleMessage] = []
        self.consumers: dict[str, OracleConsumer] = {}


class Runner:
    """Commands for both sides. ``copies``: sessions get copies, whose order among consumers is nobody's promise."""

    effects_class = RecordingEffects
    session_class = ModelSession

    def __init__(self, settings: QueueSettings, *, copies: bool = False) -> None:
        self.now = NOW
        self.copies = copies
        self.view = ModelView()
        self.effects = self.effects_class()
        self.host = VirtualHost("/", self.effects)
        self.oracle = QueueOracle(settings)
        targets = {reason.value: self.oracle.target_of(reason.value) for reason in RemovalReason}
        self.forwarder = ModelForwarder(targets)
        self.queue = Queue("q", settings, self.effects, forwarder=self.forwarder)
        self.queue.matchers.lanes_max = 3  # so that selectors walk, which here they do at once
        self.host.declare_queue("q", now=self.now)
        self.host.queues["q"] = self.queue
        self.sessions: list[SessionPair] = []
        self.names = 0
        self.added_bytes = 0

    # ------------------------------------------------------------------ messages

    def _make(self, shape: MessageShape) -> tuple[Message, OracleMessage]:
        self.names += 1
        number = self.names
        properties = dict(shape.properties)
        if shape.group:
            properties["JMSXGroupID"] = shape.group
        if shape.closes_group:
            properties["JMSXGroupSeq"] = -1
        expires_at = 0 if shape.lifetime is None else self.now + shape.lifetime
        deliver_at = self.now + shape.delay if shape.delay else 0
        connection = CONNECTIONS[shape.connection % len(CONNECTIONS)]
        header = str(number).encode()
        self.view.facts[header] = Facts(shape.priority, deliver_at, shape.group, properties)
        real = Message(
            header,
            b"x" * shape.size,
            Origin("", "q", "guest@test", self.view, connection),
            priority=DEFAULT_PRIORITY if shape.priority is None else shape.priority,
            accepted_at=self.now,
            expires_at=expires_at,
            deliver_at=deliver_at,
        )
        model = OracleMessage(
            number,
            size=shape.size,
            priority=shape.priority,
            accepted_at=self.now,
            own_expiry=expires_at,
            deliver_at=deliver_at,
            properties=properties,
            group=shape.group,
            group_sequence=-1 if shape.closes_group else 0,
            connection=connection,
        )
        return real, model

    def publish(self, shape: MessageShape) -> None:
        real, model = self._make(shape)
        if self.oracle.refuses(model):
            assert self.queue.refusal(real) != ""
            return
        assert self.queue.refusal(real) == ""
        self.added_bytes += shape.size
        self.oracle.publish(model, self.now)
        self.queue.enqueue(real, self.now)

    def entry_of(self, message: OracleMessage) -> QueueEntry:
        waiting = [*self.queue.order.entries(), *self.queue.schedule.entries()]
        return next(entry for entry in waiting if number_of(entry) == message.number)

    # ------------------------------------------------------------------ sessions and consumers

    def open_session(self, shared_max: int) -> None:
        self.names += 1
        self.sessions.append(SessionPair(self.names, -1 if self.copies else shared_max, self.session_class))

    def attach(self, pair: SessionPair, shape: ConsumerShape) -> None:
        self.names += 1
        tag = f"c{self.names}"
        colour = shape.colour
        model = OracleConsumer(
            pair.model,
            tag,
            messages_max=shape.messages_max,
            bytes_max=shape.bytes_max,
            automatic=shape.automatic,
            priority=shape.priority,
            browse=shape.browse,
            no_local=shape.no_local,
        )
        if colour:
            model.selector = lambda properties: properties.get(COLOUR) == colour
        pair.consumers[tag] = model
        self.oracle.attach(model, self.now)
        settings = ConsumerSettings(
            selector=f"{COLOUR} = '{colour}'" if colour else "", browse=shape.browse, no_local=shape.no_local
        )
        real = Consumer(
            pair.real,
            self.queue,
            tag,
            window=CreditWindow(shape.messages_max, shape.bytes_max),
            auto_acknowledge=shape.automatic,
            priority=shape.priority,
            settings=settings,
        )
        pair.real.attach(real, self.now)

    def cancel(self, pair: SessionPair, tag: str, *, keep_deliveries: bool) -> None:
        consumer = pair.consumers.pop(tag)
        if keep_deliveries:
            self.oracle.cancel(consumer, self.now)
            pair.real.detach(tag, self.now)
        else:
            self.oracle.close_consumer(consumer, self.now)
            pair.real.close_consumer(tag, self.now)

    def close(self, pair: SessionPair) -> None:
        self.sessions.remove(pair)
        pair.transaction.rollback()
        self.oracle.close(pair.model, self.now)
        pair.real.close(self.now)
        self.compare_received(pair)

    def set_writable(self, pair: SessionPair, *, writable: bool) -> None:
        pair.real.writable = writable
        self.oracle.set_writable(pair.model, self.now, writable=writable)
        if writable:
            pair.real.wake(self.now)

    # ------------------------------------------------------------------ pull and settlement

    def get(self, pair: SessionPair, *, automatic: bool) -> None:
        expected = self.oracle.get(pair.model, self.now, automatic=automatic)
        taken = pair.real.get(self.queue, self.now, auto_acknowledge=automatic)
        assert (None if taken is None else number_of(taken[0])) == (None if expected is None else expected.number)
        if taken is not None:
            pair.real.received.append((taken[1], "", number_of(taken[0])))

    def real_tag(self, pair: SessionPair, tag: int) -> int:
        """The core's tag of a delivery: the same one, or with copies that of the same message and consumer."""
        if not self.copies or tag == 0:
            return tag
        wanted = next((consumer, number) for held, consumer, number in pair.model.received if held == tag)
        found = [
            held
            for held, consumer, number in pair.real.received
            if (consumer, number) == wanted and held in pair.real.unacknowledged
        ]
        return found[-1]

    def settle(self, pair: SessionPair, tag: int, how: str, *, multiple: bool, transacted: bool) -> None:
        multiple = tag == 0 or (multiple and not self.copies)
        real_tag = self.real_tag(pair, tag)
        taken = self.oracle.take(pair.model, tag, multiple=multiple)
        if transacted:
            pair.model.in_transaction += [(held, delivery, how) for held, delivery in taken]
            if how == ACKNOWLEDGE:
                pair.transaction.acknowledge(real_tag, multiple=multiple)
            else:
                pair.transaction.reject(real_tag, multiple=multiple, requeue=how == REQUEUE)
            return
        self.oracle.settle([delivery for _, delivery in taken], how, self.now)
        if how == ACKNOWLEDGE:
            pair.real.acknowledge(real_tag, self.now, multiple=multiple)
        else:
            pair.real.reject(real_tag, self.now, requeue=how == REQUEUE, multiple=multiple)

    def recover(self, pair: SessionPair) -> None:
        held: list[OracleDelivery] = list(pair.model.held.values())
        pair.model.held.clear()
        self.oracle.give_back(held, self.now)
        pair.real.recover(self.now)

    def send_in_transaction(self, pair: SessionPair, shape: MessageShape) -> None:
        real, model = self._make(shape)
        pair.sends.append(model)
        pair.transaction.send(real, self.host.route("", "q"))

    def commit(self, pair: SessionPair) -> None:
        sends, pair.sends = pair.sends, []
        self.added_bytes += sum(message.size for message in sends)
        self.oracle.commit(pair.model, sends, self.now)
        assert pair.transaction.commit(self.host, self.now) == []

    def rollback(self, pair: SessionPair) -> None:
        pair.sends = []
        self.oracle.rollback(pair.model)
        pair.transaction.rollback()

    # ------------------------------------------------------------------ time and management

    def pass_time(self, elapsed: int) -> None:
        self.now += elapsed
        self.oracle.tick(self.now)
        self.queue.tick(self.now)

    def pause(self, *, paused: bool) -> None:
        self.oracle.pause(self.now, paused=paused)
        if paused:
            self.queue.pause(self.now)
        else:
            self.queue.resume(self.now)

    def purge(self) -> None:
        self.oracle.purge(self.now)
        self.queue.purge(self.now)

    def delete(self, message: OracleMessage) -> None:
        entry = self.entry_of(message)
        self.oracle.delete(message, self.now)
        self.queue.remove(entry, RemovalReason.DELETED, self.now)

    def reprioritise(self, message: OracleMessage, priority: int) -> None:
        entry = self.entry_of(message)
        if entry.message.priority != priority:  # else nothing changes, and its header says what it said
            self.view.facts[entry.message.header].priority = priority
        self.oracle.reprioritise(message, priority, self.now)
        self.queue.reprioritise(entry, priority, self.now)

    def deliver_now(self, message: OracleMessage) -> None:
        entry = self.entry_of(message)
        self.oracle.deliver_now(message, self.now)
        self.queue.deliver_now(entry, self.now)

    def reset_groups(self) -> None:
        self.oracle.reset_groups(None, self.now)
        self.queue.reset_groups(self.now)

    def update(self, **changes: Any) -> None:
        changed = replace(self.oracle.settings, **changes)
        self.oracle.update(changed, self.now)
        self.queue.update(changed, self.now)

    # ------------------------------------------------------------------ comparison

    def compare(self) -> None:
        """Everything the oracle predicts, and conservation: added = present + every reason, in messages and bytes."""
        oracle, queue = self.oracle, self.queue
        assert [number_of(entry) for entry in queue.order.entries()] == [m.number for m in oracle.pending()], "pending"
        assert {number_of(entry) for entry in queue.schedule.entries()} == {
            m.number for m in oracle.in_state(SCHEDULED)
        }, "scheduled"
        assert {number_of(entry): entry.delivery_count for entry in queue.delivering} == {
            m.number: m.returns for m in oracle.in_state(DELIVERING)
        }, "in delivery"
        counters = queue.counters
        assert {r.value: count for r, count in counters.removed.items() if count} == oracle.reasons, "reasons"
        assert (queue.paused, queue.blocked) == (oracle.paused, oracle.blocked), "paused, blocked"
        assert self.forwarder.sent == oracle.forwards, "forwards"
        for pair in self.sessions:
            self.compare_received(pair)
        self.compare_conservation()
        due, expected = queue.next_due_at(), oracle.next_due()
        assert not expected or 0 < due <= max(expected, self.now + 1), "the next due time is not missed"
        check_invariants(queue)

    def compare_conservation(self) -> None:
        oracle, queue = self.oracle, self.queue
        present = [*queue.order.entries(), *queue.delivering, *queue.schedule.entries()]
        counters = queue.counters
        assert counters.messages_added == len(oracle.messages) == len(present) + sum(counters.removed.values())
        in_the_queue = sum(entry.message.size for entry in present)
        assert counters.bytes_added == self.added_bytes == in_the_queue + counters.bytes_removed
        assert counters.bytes_removed == sum(oracle.removed_bytes.values())
        assert queue.statistics().message_count == len(present)

    def compare_received(self, pair: SessionPair) -> None:
        real, model = pair.real, pair.model
        held = sorted((number_of(entry)) for entry in real.unacknowledged.values())
        if not self.copies:
            assert sorted(real.received) == model.received, "deliveries"
            held_by_tag = {tag: number_of(entry) for tag, entry in real.unacknowledged.items()}
            assert held_by_tag == {tag: d.message.number for tag, d in model.held.items()}, "held by tag"
        for tag in {consumer for _, consumer, _ in [*real.received, *model.received]}:
            got = [number for _, consumer, number in real.received if consumer == tag]
            assert got == [number for _, consumer, number in model.received if consumer == tag], "deliveries"
        assert held == sorted(delivery.message.number for delivery in model.held.values()), "held"
        assert list(real.unacknowledged) == sorted(real.unacknowledged)


__all__ = ["ACKNOWLEDGE", "DROP", "REQUEUE", "ConsumerShape", "MessageShape", "Runner", "SessionPair"]
