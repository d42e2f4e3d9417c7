"""Dead letters, expiry and dropped messages with real queues: what the scenario tables do not ask."""

from __future__ import annotations

from typing import Any

import pytest

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.host.transaction import Transaction
from annulet.core.host.virtual_host import VirtualHost
from annulet.core.message.message import Message, Origin, PropertyValue
from annulet.core.model.entry import QueueEntry
from annulet.core.queue.queue import Queue
from annulet.wire.amqp091.messages.properties import VIEW, BasicProperties, decode_properties, encode_properties
from tests.core.helpers import NOW, RecordingEffects, RecordingSession, pending, removed

SECOND = 1000


class Broker:
    """A virtual host, with short ways to declare, publish and look."""

    def __init__(self, effects: RecordingEffects | None = None) -> None:
        self.effects = RecordingEffects() if effects is None else effects
        self.host = VirtualHost("/", self.effects)
        self.letters = self.host.dead_letters

    def queue(self, name: str, *exchanges: str, durable: bool = False, **arguments: Any) -> Queue:
        """Declare a queue and bind it to these fanout exchanges."""
        queue = self.host.declare_queue(
            name,
            now=NOW,
            durable=durable,
            arguments={f"x-{key.replace('_', '-')}": arguments[key] for key in arguments},
        )
        for exchange in exchanges:
            self.host.declare_exchange(exchange, "fanout")
            self.host.bind_queue(queue, exchange, "")
        return queue

    def publish(
        self, exchange: str, key: str, *bodies: str, now: int = NOW, ttl: int = 0, durable: bool = False,
        headers: dict[str, PropertyValue] | None = None,
    ) -> None:  # fmt: skip
        properties = BasicProperties()
        properties.headers = headers
        properties.expiration = str(ttl) if ttl else None
        header = encode_properties(properties)
        for body in bodies:
            message = Message(
                header, body.encode(), Origin(exchange, key, "guest@test", VIEW), durable=durable, accepted_at=now,
                expires_at=now + ttl if ttl else 0,
            )  # fmt: skip
            self.host.publisher.publish(message, self.host.route(exchange, key), now)

    def headers(self, queue: Queue) -> list[dict[str, Any]]:
        return [decode_properties(entry.message.header).headers or {} for entry in queue.order.entries()]


def roll_back(queue: Queue, *, messages: int = 1, now: int = NOW) -> list[str]:
    """Take messages, give them back by closing, and say what was taken."""
    session = RecordingSession()
    session.consume(queue, messages=messages)
    taken = list(session.received)
    session.close(now)
    return taken


# ------------------------------------------------------------------ dead letters


def test_a_dead_letter_queue_is_made_for_each_address_where_the_settings_say_so() -> None:
    broker = Broker()
    broker.host.address_settings.set(
        "orders.#",
        {"dead-letter-address": "DLA", "auto-create-dead-letter-resources": True, "max-delivery-attempts": 1},
    )
    for name in ("orders.one", "orders.two"):
        queue = broker.queue(name)
        broker.publish("", name, name)
        roll_back(queue)
    for name in ("orders.one", "orders.two"):
        assert pending(broker.host.queues[f"DLQ.{name}"]) == [name]
    assert broker.letters.messages_forwarded == 2


@pytest.mark.parametrize(("routing_type", "copies"), [("anycast", 1), ("multicast", 2)])
def test_an_address_gives_dead_letters_to_one_queue_or_to_all(routing_type: str, copies: int) -> None:
    broker = Broker()
    broker.host.declare_exchange("DLA", "address", arguments={"x-routing-types": routing_type})
    letters = [broker.queue(name) for name in ("one", "two")]
    for queue in letters:
        broker.host.bind_queue(queue, "DLA", "")
    queue = broker.queue("q", max_delivery_attempts=1, dead_letter_address="DLA")
    for number in range(4):
        broker.publish("", "q", str(number))
        roll_back(queue)
    assert [target.order.count for target in letters] == [2 * copies, 2 * copies]
    assert broker.letters.messages_forwarded == 4


@pytest.mark.parametrize("policy", ["FAIL", "BLOCK"])
def test_an_address_that_is_full_for_publishers_takes_dead_letters(policy: str) -> None:
    broker = Broker()
    broker.host.address_settings.set("DLA", {"max-size-messages": 1, "address-full-policy": policy})
    queue = broker.queue("q", max_delivery_attempts=1, dead_letter_address="DLA")
    letters = broker.queue("DLA")
    broker.publish("", "q", "a", "b")
    roll_back(queue, messages=2)
    assert pending(letters) == ["a", "b"]


# ------------------------------------------------------------------ expiry


def test_expired_messages_go_to_the_dead_letter_exchange_but_not_to_the_dead_letter_address() -> None:
    broker = Broker()
    letters = broker.queue("letters", "DLX")
    broker.queue("by-exchange", dead_letter_exchange="DLX", message_ttl=SECOND)
    broker.queue("by-address", dead_letter_address="letters", message_ttl=SECOND)
    broker.publish("", "by-exchange", "exchange")
    broker.publish("", "by-address", "address")
    broker.host.tick(NOW + SECOND)
    assert pending(letters) == ["exchange"]


def test_a_ladder_of_expiries_goes_up_step_by_step() -> None:
    broker = Broker()
    for number in range(50):
        broker.queue(f"q{number}", expiry_address=f"q{number + 1}", message_ttl=SECOND)
    top = broker.queue("q50")
    broker.publish("", "q0", "m")
    for step in range(1, 50):
        broker.host.tick(NOW + step * SECOND)
    assert pending(top) == []
    broker.host.tick(NOW + 50 * SECOND)
    assert pending(top) == ["m"]
    (headers,) = broker.headers(top)
    assert len(headers["x-death"]) == 50


def test_a_ladder_without_waiting_is_climbed_in_one_flush_without_recursion() -> None:
    broker = Broker()
    steps = 1100  # more than Python's stack has frames
    for number in range(steps):
        dropped = {"dropped_address": f"q{number + 1}"} if number < steps - 1 else {}
        broker.queue(f"q{number}", ring_size=1, **dropped)
        broker.publish("", f"q{number}", f"old{number}")
    broker.publish("", "q0", "new")
    assert pending(broker.host.queues["q0"]) == ["new"]
    assert pending(broker.host.queues[f"q{steps - 1}"]) == [f"old{steps - 2}"]
    assert broker.letters.messages_forwarded == steps - 1


# ------------------------------------------------------------------ rejections, overflow, rings


def test_a_rejected_message_is_dead_lettered_where_a_target_is_set_and_else_rejected() -> None:
    broker = Broker()
    letters = broker.queue("letters")
    with_target = broker.queue("with", dead_letter_exchange="", dead_letter_routing_key="letters")
    without = broker.queue("without")
    for queue in (with_target, without):
        broker.publish("", queue.name, "m")
        session = RecordingSession()
        session.consume(queue)
        session.reject(1, NOW, requeue=False)
    assert pending(letters) == ["m"]
    assert removed(with_target, RemovalReason.DEAD_LETTERED) == removed(without, RemovalReason.REJECTED) == 1
    assert [record.queue for record in broker.host.ledger.query()] == ["without"]
    assert broker.headers(letters)[0]["x-death"][0]["reason"] == "rejected"


def test_a_consumer_of_the_dead_letter_queue_is_served_at_once() -> None:
    broker = Broker()
    queue = broker.queue("q", dead_letter_address="letters")
    letters = broker.queue("letters")
    undertaker = RecordingSession()
    undertaker.consume(letters)
    broker.publish("", "q", "m")
    session = RecordingSession()
    session.consume(queue)
    session.reject(1, NOW, requeue=False)
    assert undertaker.received == ["m"]


def test_a_consumer_may_reject_into_its_own_queue_again_and_again() -> None:
    broker = Broker()
    queue = broker.queue("q", dead_letter_address="q")
    broker.publish("", "q", "m")
    session = RecordingSession()
    session.consume(queue)
    for tag in range(1, 6):
        session.reject(tag, NOW, requeue=False)
    assert session.received == ["m"] * 6
    assert broker.letters.dead_letter_cycles == 0


@pytest.mark.parametrize("overflow", ["reject", "block"])
def test_a_target_that_refuses_publishers_takes_dead_letters(overflow: str) -> None:
    broker = Broker()
    queue = broker.queue("q", dead_letter_address="letters")
    letters = broker.queue("letters", max_length=1, overflow=overflow)
    broker.publish("", "q", "a", "b", "c")
    session = RecordingSession()
    session.consume(queue)
    session.reject(3, NOW, requeue=False, multiple=True)
    assert pending(letters) == ["a", "b", "c"]


def test_other_limits_of_the_target_hold() -> None:
    broker = Broker()
    queue = broker.queue("q", dead_letter_address="letters")
    letters = broker.queue("letters", ring_size=2)
    broker.publish("", "q", "a", "b", "c")
    session = RecordingSession()
    session.consume(queue)
    session.reject(3, NOW, requeue=False, multiple=True)
    assert pending(letters) == ["b", "c"]


def test_what_a_limit_drops_goes_to_both_and_what_a_ring_drops_to_the_dropped_address_only() -> None:
    broker = Broker()
    letters, dropped = broker.queue("letters"), broker.queue("dropped")
    targets = {"dead_letter_address": "letters", "dropped_address": "dropped"}
    broker.queue("limited", max_length=1, **targets)
    broker.queue("ring", ring_size=1, **targets)
    broker.queue("table", last_value_key="k", **targets)
    broker.publish("", "limited", "l1", "l2")
    broker.publish("", "ring", "r1", "r2")
    broker.publish("", "table", "t1", "t2", headers={"k": 1})
    assert pending(letters) == ["l1"]
    assert pending(dropped) == ["l1", "r1", "t1"]
    reasons = [headers["x-death"][0]["reason"] for headers in broker.headers(dropped)]
    assert reasons == ["maxlen", "replaced-ring", "replaced-key"]


def test_two_rings_that_drop_into_each_other_come_to_an_end() -> None:
    broker = Broker()
    one = broker.queue("one", ring_size=1, dropped_address="two")
    two = broker.queue("two", ring_size=1, dropped_address="one")
    broker.publish("", "one", "a", "b", "c", "d")
    assert (one.order.count, two.order.count) == (1, 1)
    assert broker.letters.dead_letter_cycles > 0
    for queue in (one, two):
        counters = queue.counters
        assert counters.messages_added == queue.order.count + sum(counters.removed.values())


def test_an_automatic_cycle_through_time_ends_with_a_record() -> None:
    broker = Broker()
    broker.queue("a", message_ttl=SECOND, dead_letter_exchange="", dead_letter_routing_key="b")
    broker.queue("b", message_ttl=SECOND, dead_letter_exchange="", dead_letter_routing_key="a")
    broker.publish("", "a", "m")
    for step in range(1, 10):
        broker.host.tick(NOW + step * SECOND)
    assert broker.letters.dead_letter_cycles == 1
    assert broker.letters.messages_forwarded == 1
    (record,) = broker.host.ledger.query(reason=RemovalReason.DEAD_LETTERED)
    assert (record.queue, record.forwarded_to) == ("b", "")
    assert record.rule == "dead-letter-exchange '' leads back to a queue it died in: a cycle"


def test_a_scheduled_copy_is_not_scheduled_again() -> None:
    broker = Broker()
    queue = broker.queue("q", dead_letter_address="letters")
    letters = broker.queue("letters")
    broker.publish("", "q", "m", headers={"x-delay": 5000, "x-schedule-id": "s"})
    session = RecordingSession()
    session.consume(queue)
    session.reject(1, NOW, requeue=False)
    entry = letters.order.first()
    assert entry is not None
    assert (entry.message.deliver_at, VIEW.deliver_at(entry.message)) == (0, 0)


# ------------------------------------------------------------------ durability and mass


def test_in_a_transaction_copy_and_settlement_are_inside_its_bracket() -> None:
    broker = Broker()
    queue = broker.queue("q", durable=True, dead_letter_address="letters")
    broker.queue("letters", durable=True)
    broker.publish("", "q", "m", durable=True)
    session = RecordingSession()
    session.consume(queue)
    broker.effects.calls.clear()
    transaction = Transaction(session)
    transaction.reject(1, requeue=False)
    transaction.commit(broker.host, NOW)
    assert broker.effects.calls == [("begin", None), ("store", b"m"), ("settle", b"m"), ("end", None)]


class FullDisk(RecordingEffects):
    """A log that has no room from a moment on."""

    def __init__(self) -> None:
        super().__init__()
        self.full = False

    def store(self, message: Message, entries: list[QueueEntry]) -> None:
        if self.full:
            raise OSError("no space left")
        super().store(message, entries)


def test_on_a_full_disk_the_source_stays_in_the_log_and_the_copy_in_memory() -> None:
    effects = FullDisk()
    broker = Broker(effects)
    queue = broker.queue("q", durable=True, dead_letter_address="letters")
    letters = broker.queue("letters", durable=True)
    broker.publish("", "q", "m", durable=True)
    effects.full = True
    session = RecordingSession()
    session.consume(queue)
    session.reject(1, NOW, requeue=False)
    assert effects.settled == []
    assert pending(letters) == ["m"]
    assert (broker.letters.failures, broker.letters.last_failure[-13:]) == (1, "no space left")


def test_many_that_expire_at_once_are_one_batch() -> None:
    broker = Broker()
    queue = broker.queue("q", expiry_address="EXP", message_ttl=SECOND)
    expired = broker.queue("EXP")
    count = 3000
    broker.publish("", "q", *("m" for _ in range(count)))
    queue.tick(NOW + SECOND)
    assert expired.order.count == count
    assert not broker.letters.waiting
    origins = {id(entry.message.origin) for entry in expired.order.entries()}
    assert len(origins) == 1
