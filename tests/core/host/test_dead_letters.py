from __future__ import annotations

from typing import Any

import pytest

from annulet.core.base.death_trail import DeathRecord
from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.settings import QueueSettings
from annulet.core.host.dead_letters import (
    ORIGINS_MAX,
    DeadLetters,
    original_address_of,
)
from annulet.core.host.virtual_host import VirtualHost
from annulet.core.message.message import Message, Origin, PropertyValue
from annulet.core.model.entry import REMOVED, QueueEntry
from annulet.core.model.forwarding_targets import targets_for
from annulet.core.model.loss_ledger import LossRecord
from annulet.core.queue.queue import Queue
from annulet.core.routing.diverts import Divert
from annulet.wire.amqp091.messages.annotations import encode_deaths
from annulet.wire.amqp091.messages.properties import VIEW, BasicProperties, decode_properties, encode_properties
from tests.core.helpers import NOW, RecordingEffects, pending

DEAD_LETTERED = RemovalReason.DEAD_LETTERED
EXPIRED = RemovalReason.EXPIRED
OVERFLOW = RemovalReason.OVERFLOW
RING = RemovalReason.REPLACED_RING
KEY = RemovalReason.REPLACED_KEY


class Bench:
    """A virtual host with a forwarder, and queues that hand it entries on command.

    What leads to each reason is tests/core/host/test_dead_letter_scenarios.py.
    """

    def __init__(self, effects: RecordingEffects | None = None) -> None:
        self.effects = RecordingEffects() if effects is None else effects
        self.host = VirtualHost("/", self.effects)
        self.letters = DeadLetters(self.host)

    def target(self, name: str, *, durable: bool = False, **arguments: Any) -> Queue:
        return self.host.declare_queue(
            name,
            now=NOW,
            durable=durable,
            arguments={f"x-{key.replace('_', '-')}": arguments[key] for key in arguments},
        )

    def source(self, name: str = "q", **settings: Any) -> Queue:
        return Queue(
            name, QueueSettings(**settings), self.effects, self.host.ledger, durable=True, forwarder=self.letters
        )

    def drop(
        self, queue: Queue, *messages: Message, reason: RemovalReason = DEAD_LETTERED, attempts: int = 0, now: int = NOW
    ) -> None:
        """Hand over removed entries and flush."""
        for message in messages:
            entry = QueueEntry(queue, message, queue.next_sequence)
            queue.next_sequence += 1
            entry.state = REMOVED
            entry.delivery_count = attempts
            self.letters.add(queue, entry, reason, now, None)
        self.letters.flush(now)

    def losses(self) -> list[LossRecord]:
        return list(self.host.ledger.query(reason=DEAD_LETTERED))


def letter(
    body: str = "m", *, exchange: str = "", key: str = "q", durable: bool = False, record: int = 0,
    headers: dict[str, PropertyValue] | None = None, expiration: str | None = None, priority: int | None = None,
) -> Message:  # fmt: skip
    properties = BasicProperties()
    properties.headers = headers
    properties.expiration = expiration
    properties.priority = priority
    origin = Origin(exchange, key, "guest@test", VIEW)
    message = Message(encode_properties(properties), body.encode(), origin, durable=durable, accepted_at=NOW - 10)
    message.record = record
    return message


def first(queue: Queue) -> Message:
    entry = queue.order.first()
    assert entry is not None
    return entry.message


def headers_of(message: Message) -> dict[str, Any]:
    return decode_properties(message.header).headers or {}


# ------------------------------------------------------------------ what goes where

SETTINGS = (
    QueueSettings(),
    QueueSettings(dead_letter_address="dla", expiry_address="exp", dropped_address="drop"),
    QueueSettings(dead_letter_exchange="", dropped_address="drop"),
    QueueSettings(dead_letter_address="dla"),
    QueueSettings(expiry_address="exp"),
)


@pytest.mark.parametrize("reason", RemovalReason)
@pytest.mark.parametrize("settings", SETTINGS)
def test_entries_with_a_target_are_taken(settings: QueueSettings, reason: RemovalReason) -> None:
    queue = Queue("q", settings, RecordingEffects())
    taken = DeadLetters(VirtualHost("/", RecordingEffects())).takes(queue, reason)
    assert taken is bool(targets_for(settings, reason))


# ------------------------------------------------------------------ the copy


def test_a_copy_shares_the_body_and_names_its_target_as_origin() -> None:
    bench = Bench()
    dead = bench.target("dead")
    message = letter(exchange="amq.direct", key="k", priority=9)
    message.priority = 9
    bench.drop(bench.source(dead_letter_address="dead"), message)
    copy = first(dead)
    assert copy is not message
    assert copy.body is message.body
    assert (copy.origin.exchange, copy.origin.routing_key, copy.origin.publisher) == ("", "dead", "guest@test")
    assert (copy.priority, copy.accepted_at, copy.expires_at, copy.deliver_at) == (9, NOW, 0, 0)
    assert decode_properties(copy.header).priority == 9
    assert bench.letters.messages_forwarded == 1


def test_headers_of_rabbitmq_and_artemis() -> None:
    bench = Bench()
    dead = bench.target("dead")
    source = bench.source(dead_letter_address="dead")
    source.next_sequence = 42
    bench.drop(source, letter(exchange="events", key="k", headers={"own": 1, "CC": ["c"]}, expiration="60000"))
    properties = decode_properties(first(dead).header)
    assert properties.expiration is None
    assert properties.headers == {
        "own": 1,
        "x-death": [{
            "count": 1, "reason": "rejected", "queue": "q", "time": NOW // 1000, "exchange": "events",
            "routing-keys": ["k", "c"], "original-expiration": "60000",
        }],
        "x-first-death-exchange": "events", "x-first-death-queue": "q", "x-first-death-reason": "rejected",
        "x-last-death-exchange": "events", "x-last-death-queue": "q", "x-last-death-reason": "rejected",
        "_AMQ_ORIG_ADDRESS": "events", "_AMQ_ORIG_QUEUE": "q", "_AMQ_ORIG_MESSAGE_ID": 42,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("reason", "attempts", "name"),
    [(DEAD_LETTERED, 2, "rejected"), (DEAD_LETTERED, 3, "delivery_limit"), (EXPIRED, 0, "expired"),
     (OVERFLOW, 0, "maxlen"), (RING, 0, "replaced-ring"), (KEY, 0, "replaced-key")],
)  # fmt: skip
def test_names_of_the_reasons(reason: RemovalReason, attempts: int, name: str) -> None:
    bench = Bench()
    dead = bench.target("dead")
    source = bench.source(
        dead_letter_exchange="", dead_letter_routing_key="dead", max_delivery_attempts=3, dropped_address="dead"
    )
    bench.drop(source, letter(), reason=reason, attempts=attempts)
    assert headers_of(first(dead))["x-first-death-reason"] == name


def test_only_expired_copies_carry_when_they_expired() -> None:
    bench = Bench()
    dead = bench.target("dead")
    source = bench.source(expiry_address="dead", dead_letter_address="dead")
    bench.drop(source, letter("expired"), reason=EXPIRED, now=NOW + 7)
    bench.drop(source, letter("rejected"))
    headers = {entry.message.body: headers_of(entry.message) for entry in dead.order.entries()}
    assert headers[b"expired"]["_AMQ_ACTUAL_EXPIRY"] == NOW + 7
    assert "_AMQ_ACTUAL_EXPIRY" not in headers[b"rejected"]


def test_the_copy_of_a_copy_still_names_its_source() -> None:
    bench = Bench()
    dead, graveyard = bench.target("dead"), bench.target("graveyard")
    bench.drop(bench.source("q", dead_letter_address="dead"), letter(key="q"))
    bench.drop(bench.source("dead", dead_letter_address="graveyard"), first(dead))
    headers = headers_of(first(graveyard))
    assert (headers["_AMQ_ORIG_QUEUE"], headers["_AMQ_ORIG_ADDRESS"]) == ("q", "q")
    assert (headers["x-first-death-queue"], headers["x-last-death-queue"]) == ("q", "dead")
    assert [death["queue"] for death in headers["x-death"]] == ["dead", "q"]


def test_the_original_address_is_where_it_was_sent_when_it_first_died() -> None:
    assert original_address_of(letter(exchange="e", key="k")) == "e"
    assert original_address_of(letter(key="orders")) == "orders"
    assert original_address_of(letter(key="orders::mine")) == "orders"
    diverted: dict[str, PropertyValue] = {"_AMQ_ORIG_ADDRESS": "watched"}
    assert original_address_of(letter(key="target", headers=diverted)) == "target"
    sent_on = diverted | {"_AMQ_ORIG_QUEUE": "q"}
    assert original_address_of(letter(key="target", headers=sent_on)) == "target", "by a publisher, and never died"
    dead = sent_on | encode_deaths([DeathRecord(queue="q", reason="rejected")], first_known=False)
    assert original_address_of(letter(key="target", headers=dead)) == "watched"
    bench = Bench()
    target = bench.target("dead")
    for headers in (diverted, dead):
        bench.drop(bench.source(dead_letter_address="dead"), letter(key="target", headers=dict(headers)))
    names = [(entry.message, original_address_of(entry.message)) for entry in target.order.entries()]
    assert [name for _, name in names] == ["target", "watched"]
    for message, name in names:
        assert VIEW.application_property(message, "_AMQ_ORIG_ADDRESS") == name


def test_what_a_divert_copied_is_kept_by_the_queue_made_for_it() -> None:
    bench = Bench()
    host = bench.host
    host.address_settings.set("target", {"dead-letter-address": "dead", "auto-create-dead-letter-resources": True})
    for name in ("watched", "target"):
        host.nodes.declare_address(name)
    queue = host.declare_queue("q", now=NOW, address="target")
    host.nodes.attach_queue(queue, "target")
    host.add_divert(Divert("d", "watched", ("target",)))
    host.publisher.publish(letter(exchange="watched", key="watched"), host.route("watched", "watched"), NOW)
    queue.reject(queue.acquire(1, -1, NOW)[0], NOW)
    assert pending(host.queues["DLQ.target"]) == ["m"]
    assert bench.losses() == []


def test_copies_to_one_place_share_their_origin_and_origins_are_bounded() -> None:
    bench = Bench()
    dead = bench.target("dead")
    source = bench.source(dead_letter_exchange="amq.fanout")
    bench.host.bind_queue(dead, "amq.fanout", "")
    bench.drop(source, *(letter(key=f"k{number % (ORIGINS_MAX + 10)}") for number in range(ORIGINS_MAX + 10)))
    assert len(bench.letters._origins) <= ORIGINS_MAX
    bench.drop(source, letter(key="same"), letter(key="same"))
    one, other = (
        dead.order.entries()[-2:] if isinstance(dead.order.entries(), list) else list(dead.order.entries())[-2:]
    )
    assert one.message.origin is other.message.origin


# ------------------------------------------------------------------ targets


def test_dead_letter_exchange_with_the_message_s_own_keys_goes_to_each_queue_once() -> None:
    bench = Bench()
    one, two = bench.target("one"), bench.target("two")
    for queue, key in ((one, "k"), (one, "c"), (two, "c")):
        bench.host.bind_queue(queue, "amq.direct", key)
    bench.drop(bench.source(dead_letter_exchange="amq.direct"), letter(key="k", headers={"CC": ["c"]}))
    assert (pending(one), pending(two)) == (["m"], ["m"])
    assert first(one).origin.routing_key == "k"
    assert headers_of(first(one))["CC"] == ["c"]


def test_a_routing_key_of_the_queue_replaces_the_message_s_and_its_copies() -> None:
    bench = Bench()
    dead, other = bench.target("dead"), bench.target("other")
    source = bench.source(dead_letter_exchange="", dead_letter_routing_key="dead")
    bench.drop(source, letter(key="other", headers={"CC": ["other"]}))
    assert (pending(dead), pending(other)) == (["m"], [])
    assert "CC" not in headers_of(first(dead))


def test_an_internal_exchange_is_open_to_the_broker() -> None:
    bench = Bench()
    bench.host.declare_exchange("dlx", "fanout", internal=True)
    dead = bench.target("dead")
    bench.host.bind_queue(dead, "dlx", "")
    bench.drop(bench.source(dead_letter_exchange="dlx"), letter())
    assert pending(dead) == ["m"]


def test_an_address_that_is_an_exchange_keeps_the_message_s_key() -> None:
    bench = Bench()
    dead = bench.target("dead")
    bench.host.bind_queue(dead, "amq.topic", "a.*")
    bench.drop(bench.source(dead_letter_address="amq.topic"), letter(key="a.b"))
    assert pending(dead) == ["m"]
    assert (first(dead).origin.exchange, first(dead).origin.routing_key) == ("amq.topic", "a.b")


def test_overflow_goes_to_dead_letters_and_to_the_dropped_address() -> None:
    bench = Bench()
    dead, dropped = bench.target("dead"), bench.target("dropped")
    source = bench.source(dead_letter_address="dead", dropped_address="dropped")
    bench.drop(source, letter(record=7), reason=OVERFLOW)
    assert (pending(dead), pending(dropped)) == (["m"], ["m"])
    assert bench.effects.settled == [("q", 7)]


@pytest.mark.parametrize(
    "settings",
    [{"dead_letter_address": "nowhere"}, {"dead_letter_exchange": "nowhere"}, {"dead_letter_exchange": "amq.fanout"}],
)
def test_a_target_without_queue_drops_with_a_record(settings: dict[str, str]) -> None:
    bench = Bench()
    bench.drop(bench.source(**settings), letter(record=3))
    assert bench.letters.messages_unroutable == 1
    assert bench.letters.messages_forwarded == 0
    (record,) = bench.losses()
    assert (record.queue, record.sequence, record.publisher, record.size) == ("q", 1, "guest@test", 1)
    (value,) = settings.values()
    assert record.rule == f"{next(iter(settings)).replace('_', '-')} '{value}' leads to no queue"
    assert bench.effects.settled == [("q", 3)]


def test_a_target_can_be_made_on_demand() -> None:
    bench = Bench()
    asked: list[tuple[str, str, RemovalReason]] = []

    def make(queue: Queue, message: Message, address: str, reason: RemovalReason) -> None:
        asked.append((queue.name, address, reason))
        bench.target(address)

    bench.letters.ensure_target = make
    bench.drop(bench.source(expiry_address="EXP.q"), letter(), reason=EXPIRED)
    assert asked == [("q", "EXP.q", EXPIRED)]
    assert pending(bench.host.queues["EXP.q"]) == ["m"]


@pytest.mark.parametrize("declared", [False, True])
def test_a_topic_that_came_beside_a_queue_takes_no_letters_from_it(declared: bool) -> None:
    """An address that was declared is meant; one that a subscriber had made must not rob the queue."""
    bench = Bench()
    dead = bench.target("dead")
    address = bench.host.nodes.declare_address("dead", ("multicast",), auto_created=not declared)
    subscriber = bench.host.declare_queue("subscriber", now=NOW)
    bench.host.nodes.attach_queue(subscriber, address.name)
    bench.drop(bench.source(expiry_address="dead"), letter(), reason=EXPIRED)
    assert (pending(dead), pending(subscriber)) == (([], ["m"]) if declared else (["m"], []))
    bench.host.nodes.attach_queue(dead, address.name)  # one of the address's own: then the address is meant
    bench.drop(bench.source("r", expiry_address="dead"), letter(), reason=EXPIRED)
    assert len(pending(dead)) + len(pending(subscriber)) == 3


# ------------------------------------------------------------------ cycles


def test_a_queue_that_would_get_back_what_died_in_it_does_not() -> None:
    bench = Bench()
    again = bench.target("q")
    bench.drop(bench.source("q", expiry_address="q"), letter(), reason=EXPIRED)
    assert pending(again) == []
    assert (bench.letters.dead_letter_cycles, bench.letters.messages_forwarded) == (1, 0)


def test_a_cycle_is_recorded_and_the_source_settled() -> None:
    bench = Bench()
    bench.target("q")
    source = bench.source("q", dead_letter_address="q", max_delivery_attempts=1)
    bench.drop(source, letter(record=5), attempts=1)
    (record,) = bench.losses()
    assert record.rule == "dead-letter-address 'q' leads back to a queue it died in: a cycle"
    assert bench.effects.settled == [("q", 5)]


def test_a_rejecting_consumer_may_send_a_message_round_for_ever() -> None:
    bench = Bench()
    q, retry = bench.target("q"), bench.target("retry")
    message = letter()
    for count in range(1, 4):
        bench.drop(bench.source("q", dead_letter_address="retry"), message)
        bench.drop(bench.source("retry", expiry_address="q"), first(retry), reason=EXPIRED)
        retry.purge(NOW)
        message = first(q)
        q.purge(NOW)
        deaths = headers_of(message)["x-death"]
        assert [(death["queue"], death["reason"], death["count"]) for death in deaths] == [
            ("retry", "expired", count), ("q", "rejected", count),
        ]  # fmt: skip
    assert bench.letters.dead_letter_cycles == 0


def test_an_address_does_not_count_what_a_cycle_keeps_from_its_queues() -> None:
    """Only the ring of a retroactive address has it then, which counts nothing: the address would be full for ever."""
    bench = Bench()
    bench.host.address_settings.set("dead", {"max-size-messages": 1, "retroactive-message-count": 3})
    bench.host.nodes.declare_address("dead")
    bench.host.nodes.attach_queue(bench.target("q"), "dead")
    bench.drop(bench.source("q", expiry_address="dead"), letter(), reason=EXPIRED)
    assert (bench.letters.dead_letter_cycles, bench.letters.messages_forwarded) == (1, 1)
    account = bench.host.limited.account_of("dead")
    assert account is not None
    assert account.messages == 0


def test_only_the_queue_of_the_cycle_is_left_out() -> None:
    bench = Bench()
    q, other = bench.target("q"), bench.target("other")
    bench.host.bind_queue(q, "amq.fanout", "")
    bench.host.bind_queue(other, "amq.fanout", "")
    bench.drop(bench.source("q", dead_letter_exchange="amq.fanout"), letter(), reason=EXPIRED)
    assert (pending(q), pending(other)) == ([], ["m"])
    assert (bench.letters.dead_letter_cycles, bench.letters.messages_forwarded) == (1, 1)


# ------------------------------------------------------------------ durability


def test_the_copy_is_stored_before_its_source_is_settled() -> None:
    bench = Bench()
    bench.target("dead", durable=True)
    bench.drop(bench.source(dead_letter_address="dead"), letter("a", durable=True, record=9), letter("b", durable=True))
    assert bench.effects.calls == [("store", b"a"), ("settle", b"a"), ("store", b"b")]
    assert bench.effects.settled == [("q", 9)]


class FullDisk(RecordingEffects):
    def store(self, message: Message, entries: list[QueueEntry]) -> None:
        raise OSError("no space left")


def test_what_cannot_be_stored_stays_unsettled_and_is_counted() -> None:
    bench = Bench()
    bench.effects = FullDisk()
    bench.host = VirtualHost("/", bench.effects)
    bench.letters = DeadLetters(bench.host)
    bench.target("dead", durable=True)
    bench.target("transient")
    source = bench.source(dead_letter_address="dead")
    bench.drop(source, letter("a", durable=True, record=9), letter("b", durable=True, record=10))
    assert bench.effects.settled == []
    assert bench.letters.failures == 2
    assert bench.letters.last_failure == "queue 'q' #2 to dead-letter-address 'dead': no space left"
    assert bench.losses() == []  # both come back at the next start
    bench.drop(bench.source(dead_letter_address="transient"), letter("c", record=11))
    assert bench.effects.settled == [("q", 11)]


def test_a_copy_that_nobody_gets_is_no_durable_loss_of_what_the_next_start_brings_back() -> None:
    bench = Bench(FullDisk())
    bench.target("dropped", durable=True)
    source = bench.source(dead_letter_address="nowhere", dropped_address="dropped")
    source.queue_id = 7
    bench.drop(source, letter(durable=True, record=9), reason=OVERFLOW)
    assert [loss.durable for loss in bench.losses()] == [False]
    source.settings = QueueSettings(dead_letter_address="nowhere")
    bench.drop(source, letter(durable=True, record=10), reason=OVERFLOW)
    assert [loss.durable for loss in bench.losses()] == [False, True]


def test_headers_nobody_can_read_are_a_failure_with_a_record_and_not_the_end_of_the_flush() -> None:
    bench = Bench()
    dead = bench.target("dead")
    broken = Message(b"\x20\x00\x00\x00\x00\x05\x01a", b"x", Origin("", "q", "guest@test", VIEW))
    bench.drop(bench.source(dead_letter_address="dead"), broken, letter("next"))
    assert pending(dead) == ["next"]
    assert bench.letters.failures == 1
    (record,) = bench.losses()
    assert record.rule.startswith("not sent to dead-letter-address 'dead': 502")


# ------------------------------------------------------------------ the worklist


def test_nothing_is_sent_before_the_flush_and_order_is_kept() -> None:
    bench = Bench()
    dead = bench.target("dead")
    one, two = bench.source("one", dead_letter_address="dead"), bench.source("two", dead_letter_address="dead")
    for queue, body in ((one, "a"), (two, "b"), (one, "c"), (one, "d")):
        entry = QueueEntry(queue, letter(body), 1)
        bench.letters.add(queue, entry, DEAD_LETTERED, NOW, None)
    assert bench.letters.waiting
    assert pending(dead) == []
    bench.letters.flush(NOW)
    assert pending(dead) == ["a", "b", "c", "d"]
    assert not bench.letters.waiting
    bench.letters.flush(NOW)
    assert pending(dead) == ["a", "b", "c", "d"]


def test_while_held_everything_waits() -> None:
    bench = Bench()
    dead = bench.target("dead")
    bench.letters.held = True
    bench.drop(bench.source(dead_letter_address="dead"), letter("a"), letter("b"))
    assert (pending(dead), bench.letters.waiting) == ([], True)
    bench.letters.release(NOW + 5)
    assert pending(dead) == ["a", "b"]
    assert first(dead).accepted_at == NOW + 5
    assert not bench.letters.waiting


def test_what_recovery_drops_is_sent_when_its_target_is_whole() -> None:
    """Sent at once it would take a sequence number that a message still to be restored has."""
    bench = Bench()
    letters = bench.host.dead_letters
    table = bench.target("table", durable=True, last_value_key="k", dropped_address="dropped")
    dropped = bench.target("dropped", durable=True)
    letters.held = True
    for sequence, body in ((1, "old"), (2, "new")):
        table.restore(letter(body, durable=True, headers={"k": 1}), sequence, redelivered=False)
    table.finish_restore(3)
    dropped.restore(letter("before", durable=True), 1, redelivered=False)
    dropped.finish_restore(2)
    letters.release(NOW)
    assert pending(dropped) == ["before", "old"]
    assert [entry.sequence for entry in dropped.order.entries()] == [1, 2]
