"""A history recorded at the broker: what a client asked and got over AMQP, and the engine with the same commands."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pika
import pytest

from annulet.spark.engine.commands import parse_command
from annulet.spark.engine.effects import DELIVERY, LOSS, Effect
from annulet.spark.engine.replica import Replica
from tests.spark.engine.histories import Given, given

if TYPE_CHECKING:
    from tests.spark.conftest import BrokerThread

STEPS = 250
CHANNELS = ("first", "second")
ARGUMENTS: dict[str, dict[str, Any]] = {
    "ring of the most important": {"x-ring-size": 4, "x-priorities": 5},
    "few of each key, few attempts": {"x-last-value-key": "key", "x-keep-per-key": 2, "x-max-delivery-attempts": 3},
    "groups that do not overtake": {"x-group-mode": "sticky", "x-max-length": 12},
}


class Recorder:
    """Two channels of one connection; every step waits until the broker has done it."""

    def __init__(self, connection: pika.BlockingConnection, queue: str, arguments: dict[str, Any]) -> None:
        self.queue = queue
        self.commands: list[Given] = []
        self.got: dict[str, list[tuple[Any, ...]]] = {name: [] for name in CHANNELS}
        self.held: dict[str, list[int]] = {name: [] for name in CHANNELS}
        self.consumers: dict[str, int] = dict.fromkeys(CHANNELS, 0)
        self.channels = {name: connection.channel() for name in CHANNELS}
        self.connection = connection
        self.channels["first"].queue_declare(queue, arguments=arguments)
        self.note("configure", arguments=arguments)

    def note(self, command: str, body: bytes = b"", **fields: Any) -> None:
        self.commands.append(given(self.queue, len(self.commands) + 1, body, command=command, **fields))

    def settled(self) -> None:
        """Wait until the broker did what it was asked, and what it sent meanwhile is here."""
        for channel in self.channels.values():
            channel.queue_declare(self.queue, passive=True)
        self.connection.process_data_events(0)

    def take(self, name: str, consumer: str | None, method: Any, properties: Any) -> None:
        self.held[name].append(method.delivery_tag)
        self.got[name].append((consumer, method.delivery_tag, properties.message_id, method.redelivered))

    def step(self, chance: random.Random, number: int) -> None:
        name = chance.choice(CHANNELS)
        channel, held = self.channels[name], self.held[name]
        kind = chance.choices(("publish", "get", "settle", "consume", "rollback"), (10, 2, 8, 1, 0.5))[0]
        if kind == "publish":
            key, priority, group = chance.choice("abc"), chance.choice((None, 0, 4, 5, 9)), chance.choice("xyz")
            headers = {"key": key, "JMSXGroupID": group}
            properties = pika.BasicProperties(message_id=f"m{number}", priority=priority, headers=headers)
            channel.basic_publish("", self.queue, b"body", properties)
            self.note("publish", b"body", message_id=f"m{number}", priority=priority, properties=headers, group=group)
        elif kind == "get":
            method, properties, _ = channel.basic_get(self.queue)
            if method is not None:
                self.take(name, None, method, properties)
            self.note("get", session=name)
        elif kind == "settle" and held:
            self.settle(chance, name)
        elif kind == "consume" and self.consumers[name] < 2:
            self.consumers[name] += 1
            tag, prefetch = f"{name} {self.consumers[name]}", chance.choice((1, 3))
            channel.basic_qos(prefetch_count=prefetch)

            def called(_: Any, method: Any, properties: Any, body: bytes) -> None:
                del body
                self.take(name, tag, method, properties)

            channel.basic_consume(self.queue, called, consumer_tag=tag)
            self.note("consume", session=name, consumer=tag, credit=prefetch)
        elif kind == "rollback" and held:
            held.clear()
            channel.basic_recover(requeue=True)
            self.note("rollback", session=name)
        self.settled()

    def settle(self, chance: random.Random, name: str) -> None:
        tag, multiple = chance.choice(self.held[name]), chance.random() < 0.3
        how = chance.choice(("acknowledge", "acknowledge", "requeue", "reject"))
        if how == "acknowledge":
            self.channels[name].basic_ack(tag, multiple=multiple)
        else:
            self.channels[name].basic_nack(tag, multiple=multiple, requeue=how == "requeue")
        self.held[name] = [one for one in self.held[name] if one != tag and not (multiple and one < tag)]
        self.note(how, session=name, tag=tag, multiple=multiple)


@pytest.mark.parametrize("kind", ARGUMENTS)
def test_what_a_client_got_from_the_broker_the_engine_delivers(broker: BrokerThread, kind: str) -> None:
    queue = f"recorded {kind}"
    port = int(broker.running.amqp_url.rpartition(":")[2].rstrip("/"))
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port)) as connection:
        recorder = Recorder(connection, queue, ARGUMENTS[kind])
        chance = random.Random(5)
        for number in range(STEPS):
            recorder.step(chance, number)
        losses = broker.run(
            lambda: [
                (record.sequence, record.reason.value, record.replaced_by)
                for record in broker.queue(queue).ledger.query(queue=queue)
            ]
        )
    replica = Replica(queue)
    effects: list[Effect] = []
    for _, _, document, body in recorder.commands:
        effects += replica.apply(parse_command(document), body)
    for name in CHANNELS:
        assert [
            (one.consumer, one.tag, one.message_id, one.redelivered)
            for one in effects
            if one.effect == DELIVERY and one.session == name
        ] == recorder.got[name]
    assert [(one.message, one.reason, one.replaced_by or 0) for one in effects if one.effect == LOSS] == losses
    assert len(recorder.got["first"]) > 20
    assert len(losses) > 10
