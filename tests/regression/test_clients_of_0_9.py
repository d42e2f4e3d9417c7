"""B20: RabbitMQ's extensions for a client that sends the header of 0-9, as Perl's AnyEvent::RabbitMQ does.

The octets are hand-written: pamqp knows 0-9-1 only. With Perl the same is in ``tests/clients/test_languages.py``.
"""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator

import pytest
from pamqp import commands

from annulet import testing
from annulet.broker.broker import Broker
from tests.broker.amqp091.old_peer import TICKET, OldPeer
from tests.broker.amqp091.peer import Peer, publish
from tests.broker.conftest import leave
from tests.wire.amqp091.old_versions import HEADER_0_9, Received, handshake, long_string, method, short_string
from tests.wire.amqp091.old_versions import publish as old_publish

CAPABILITIES = ("publisher_confirms", "consumer_cancel_notify", "basic.nack", "exchange_exchange_bindings")
ANNOUNCED = (
    short_string("capabilities") + b"F" + long_string(b"".join(short_string(name) + b"t\x01" for name in CAPABILITIES))
)

CONFIRM_SELECT, CONFIRM_SELECT_OK = (85, 10), (85, 11)
EXCHANGE_DECLARE, EXCHANGE_BIND, EXCHANGE_BIND_OK = (40, 10), (40, 30), (40, 31)
QUEUE_DECLARE, QUEUE_DECLARE_OK = (50, 10), (50, 11)
QUEUE_BIND, QUEUE_BIND_OK = (50, 20), (50, 21)
CONSUME_OK, CANCEL, DELIVER, ACK = (60, 21), (60, 30), (60, 60), (60, 80)
CHANNEL_CLOSE, CONNECTION_CLOSE = (20, 40), (10, 50)
EMPTY_TABLE = long_string(b"")


class PerlPeer(OldPeer):
    """AnyEvent::RabbitMQ: the header of 0-9, and with ``announced`` the capabilities in its properties."""

    def __init__(self, broker: Broker, announced: bytes = ANNOUNCED) -> None:
        super().__init__(broker, HEADER_0_9)
        self.announced = announced

    async def log_in(self) -> PerlPeer:
        self.receive(handshake(self.header, capabilities=self.announced))
        while not self.connection.opened:
            await self.received()
        await self.received()
        return self

    async def ask(self, identifiers: tuple[int, int], arguments: bytes = b"") -> Received:  # type: ignore[override]
        (answer,) = await self.say(method(1, *identifiers, arguments))
        return answer

    async def declare_queue(self, name: str) -> None:
        answer = await self.ask(QUEUE_DECLARE, TICKET + short_string(name) + b"\0" + EMPTY_TABLE)
        assert answer.method == QUEUE_DECLARE_OK


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    async with testing.broker(http=False) as running:
        yield running.broker
        leave(running.broker)


async def test_messages_are_confirmed(broker: Broker) -> None:
    """B20: ``confirm`` was an unknown method, and the connection ended."""
    peer = await PerlPeer(broker).log_in()
    await peer.declare_queue("q")
    assert (await peer.ask(CONFIRM_SELECT, b"\0")).method == CONFIRM_SELECT_OK
    (confirmed,) = await peer.say(old_publish(1, "", "q", b"x"))
    assert (confirmed.method, confirmed.payload) == (ACK, struct.pack("!QB", 1, 0))


async def test_exchanges_are_bound_to_each_other(broker: Broker) -> None:
    """B20: exchange bindings are RabbitMQ's."""
    peer = await PerlPeer(broker).log_in()
    await peer.declare_queue("q")
    for name in ("outer", "inner"):
        await peer.ask(EXCHANGE_DECLARE, TICKET + short_string(name) + short_string("fanout") + b"\0" + EMPTY_TABLE)
    bound = TICKET + short_string("inner") + short_string("outer") + short_string("") + b"\0" + EMPTY_TABLE
    assert (await peer.ask(EXCHANGE_BIND, bound)).method == EXCHANGE_BIND_OK
    joined = TICKET + short_string("q") + short_string("inner") + short_string("") + b"\0" + EMPTY_TABLE
    assert (await peer.ask(QUEUE_BIND, joined)).method == QUEUE_BIND_OK
    await peer.say(old_publish(1, "outer", "", b"x"))
    assert broker.hosts["/"].queues["q"].order.count == 1


async def test_a_consumer_whose_queue_is_deleted_is_told(broker: Broker) -> None:
    """B20: the notice of cancelled consumers."""
    peer, other = await PerlPeer(broker).log_in(), await Peer(broker).open(1)
    await peer.declare_queue("q")
    (consuming,) = await peer.say(peer.consume("q"))
    assert consuming.method == CONSUME_OK
    await other.ask(1, commands.Queue.Delete(queue="q"), commands.Queue.DeleteOk)
    (cancelled,) = await peer.received()
    assert (cancelled.method, cancelled.payload) == (CANCEL, short_string("c") + b"\x01")


async def test_headers_have_the_types_that_the_client_reads(broker: Broker) -> None:
    """B20: it dies of a field of another type; arrays and booleans are RabbitMQ's."""
    peer, other = await PerlPeer(broker).log_in(), await Peer(broker).open(1)
    await peer.declare_queue("q")
    await peer.say(peer.consume("q"))
    await other.send(1, publish(1, "q", b"x", headers={"list": [1, "x"], "yes": True, "far": 2**40, "small": 7}))
    delivered, content, _ = await peer.received()
    assert delivered.method == DELIVER
    for field in (
        short_string("list") + b"A" + long_string(b"I" + struct.pack("!i", 1) + b"S" + long_string(b"x")),
        short_string("yes") + b"t\x01",
        short_string("small") + b"I" + struct.pack("!i", 7),
    ):
        assert field in content.payload, field
    assert short_string("far") + b"l" not in content.payload
    assert short_string("far") + b"L" not in content.payload


async def test_a_client_of_the_standard_has_none_of_it(broker: Broker) -> None:
    """B20: without capabilities the methods are those of 0-9."""
    peer = await PerlPeer(broker, b"").log_in()
    assert (await peer.ask(CONFIRM_SELECT, b"\0")).method in (CHANNEL_CLOSE, CONNECTION_CLOSE)
