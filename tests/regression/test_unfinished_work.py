"""A6: unfinished messages and open transactions of all connections have one bound, and a dead peer is noticed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from annulet import testing
from annulet.broker.broker import Broker
from annulet.broker.settings.limits import Limits
from annulet.core.message.message import PropertyValue
from annulet.testing.in_process import RunningBroker
from annulet.wire.amqp091.types.constants import PROTOCOL_HEADER
from annulet.wire.amqp10.frames.frames import AMQP_HEADER, FRAME_SASL, SASL_HEADER, encode_frame
from annulet.wire.amqp10.frames.outcomes import Declare, Declared, TransactionalState
from annulet.wire.amqp10.frames.performatives import Attach, Begin, Close, Open, encode_performative
from annulet.wire.amqp10.frames.sasl import SaslInit
from annulet.wire.amqp10.frames.terminus import Coordinator, Source, Target
from tests.broker.amqp10.peer import queue_of
from tests.broker.conftest import until
from tests.regression.blocking_clients import (
    PLAIN,
    Amqp091Client,
    Amqp10Client,
    BlockingClient,
    StompClient,
    data_message,
    value_message,
)

LIMIT = 1 << 20
BODY = 300_000
SECONDS = 20.0
BEHIND_LOGIN = 50_000  # a stranger may send 64 KiB


@pytest.fixture
async def running() -> AsyncIterator[RunningBroker]:
    limits = Limits(max_unfinished_bytes=LIMIT)
    async with testing.broker(stomp=True, http=False, limits=limits) as broker:
        yield broker


async def in_thread(work: Callable[..., Any], *arguments: Any) -> Any:
    """Run a blocking client beside the broker."""
    return await asyncio.wait_for(asyncio.to_thread(work, *arguments), SECONDS)


def opened(address: tuple[str, int], *, transacted: bool = False) -> Amqp091Client:
    """Return a 0-9-1 client with channel 1."""
    client = Amqp091Client(address).open()
    client.call(1, "channel.open")
    client.call(1, "queue.declare", {"queue": "q"})
    if transacted:
        client.call(1, "tx.select")
    return client


def block(broker: Broker, *, blocked: bool) -> None:
    """Raise or end the memory alarm for the test; the next tick looks at the real figures."""
    broker.memory.limit = 1 if blocked else 1 << 40
    broker.memory.blocked = blocked
    broker.memory_blocked = blocked
    for connection in broker.connections:
        connection.mark_dirty()


async def test_a_transaction_beyond_the_bound_is_refused_with_506(running: RunningBroker) -> None:
    """A6: an honest transaction of 240 MB at 300 MiB stopped all publishers for good."""
    broker = running.broker

    def work() -> None:
        with opened(broker.amqp_address, transacted=True) as client:
            for _ in range(3):
                client.publish(1, "q", bytes(BODY))
            client.call(1, "basic.qos", {"prefetch_count": 1})
            assert 3 * BODY < broker.unfinished.total < LIMIT
            client.publish(1, "q", bytes(BODY))
            close = client.next_method()
            assert (close.specification.name, close.integer("reply_code")) == ("connection.close", 506)
            assert "max_unfinished_bytes" in close.text("reply_text")

    await in_thread(work)
    await until(lambda: not broker.connections, SECONDS)
    assert (broker.unfinished.total, broker.unfinished.refused) == (0, 1)
    assert broker.hosts["/"].queues["q"].order.count == 0


async def test_the_largest_of_all_connections_is_refused_and_the_others_go_on(running: RunningBroker) -> None:
    """A6: 12 connections of endless bodies took 1.5 GB at 900 MiB."""
    broker = running.broker

    def work() -> None:
        with opened(broker.amqp_address) as small, opened(broker.amqp_address) as large:
            small.publish(1, "q", bytes(BODY), announced=2 * BODY)
            large.publish(1, "q", bytes(2 * BODY), announced=10 * BODY)
            large.frame(3, 1, bytes(100_000))
            large.frame(3, 1, bytes(100_000))
            assert large.next_method().integer("reply_code") == 506
            for start in range(0, BODY, 100_000):
                small.frame(3, 1, bytes(min(100_000, BODY - start)))
            assert small.call(1, "queue.declare", {"queue": "q"}).integer("message_count") == 1

    await in_thread(work)
    await until(lambda: not broker.connections, SECONDS)
    assert broker.unfinished.total == 0


async def test_amqp_1_0_is_told_of_the_resource_limit(running: RunningBroker) -> None:
    """A6: deliveries of several transfers, and transactions, of AMQP 1.0."""
    broker = running.broker

    def partial() -> str:
        with Amqp10Client(broker.amqp_address).open() as client:
            client.begin()
            client.sender("s", Target("q10"))
            for _ in range(4):
                client.transfer(0, bytes(BODY), more=True)
            error: Any = client.expect(Close).error
            return str(error.condition)

    def transacted() -> str:
        with Amqp10Client(broker.amqp_address).open() as client:
            client.begin()
            client.sender("s", Target("q10"))
            client.sender("c", Coordinator(), handle=1)
            client.transfer(0, value_message(Declare()), handle=1)
            declared = client.outcome()
            assert isinstance(declared, Declared)
            for number in range(1, 5):
                client.transfer(number, data_message(bytes(BODY)), state=TransactionalState(declared.txn_id))
            error: Any = client.expect(Close).error
            return str(error.condition)

    assert await in_thread(partial) == "amqp:resource-limit-exceeded"
    assert await in_thread(transacted) == "amqp:resource-limit-exceeded"
    await until(lambda: not broker.connections, SECONDS)
    assert (broker.unfinished.total, broker.unfinished.refused) == (0, 2)


async def test_stomp_is_told_with_an_error(running: RunningBroker) -> None:
    """A6: frames and transactions of STOMP."""
    broker = running.broker

    def partial() -> bytes:
        with StompClient(running.stomp_address).open() as client:
            client.send(b"SEND\ndestination:/queue/q\ncontent-length:9000000\n\n" + bytes(LIMIT + 1))
            return client.answer()

    def transacted() -> bytes:
        with StompClient(running.stomp_address).open() as client:
            client.frame("BEGIN", transaction="t")
            for _ in range(4):
                client.frame("SEND", b"x" * BODY, destination="/queue/q", transaction="t")
            return client.answer()

    for work in (partial, transacted):
        answer = await in_thread(work)
        assert answer.startswith(b"ERROR")
        assert b"max_unfinished_bytes" in answer
    await until(lambda: not broker.connections, SECONDS)
    assert (broker.unfinished.total, broker.unfinished.refused) == (0, 2)


@pytest.mark.parametrize("ending", ["tx.commit", "tx.rollback"])
async def test_an_open_transaction_ends_while_publishers_are_held_back(running: RunningBroker, ending: str) -> None:
    """A6: the connection that would end the transaction was not read."""
    broker = running.broker
    client = await in_thread(lambda: opened(broker.amqp_address, transacted=True))
    with client:

        def begin() -> None:
            client.publish(1, "q", bytes(BODY))
            client.call(1, "basic.qos", {"prefetch_count": 1})

        await in_thread(begin)
        block(broker, blocked=True)
        await asyncio.sleep(0.1)
        answer = await in_thread(client.call, 1, ending)
        assert answer.specification.name == f"{ending}-ok"
        assert broker.hosts["/"].queues["q"].order.count == (1 if ending == "tx.commit" else 0)
        assert broker.unfinished.total == 0
        await until(lambda: all(connection.reading_paused for connection in broker.connections), SECONDS)
        block(broker, blocked=False)


@pytest.mark.parametrize("dead", [True, False])
async def test_the_end_of_a_peer_that_is_not_read_is_noticed(running: RunningBroker, dead: bool) -> None:
    """A6: a dead peer is noticed while it is not read; one that ended is served first."""
    broker = running.broker
    client = await in_thread(lambda: opened(broker.amqp_address))

    def publish() -> None:
        client.publish(1, "q", b"first")
        client.call(1, "basic.qos", {"prefetch_count": 1})

    await in_thread(publish)
    block(broker, blocked=True)
    await until(lambda: all(connection.reading_paused for connection in broker.connections), SECONDS)
    client.publish(1, "q", b"second")
    if dead:
        client.reset()
    else:
        client.socket.close()
    await until(lambda: not broker.connections, SECONDS)
    assert broker.hosts["/"].queues["q"].order.count == (1 if dead else 2)
    block(broker, blocked=False)


def say_in_0_9_1(client: Amqp091Client) -> None:
    """Log in and publish without waiting for an answer."""
    client.send(PROTOCOL_HEADER)
    properties: dict[str, PropertyValue] = {"client_properties": {}, "mechanism": "PLAIN", "locale": "en_US"}
    client.method(0, "connection.start-ok", {**properties, "response": PLAIN})
    client.method(0, "connection.tune-ok", {"channel_max": 100, "frame_max": 131072})
    client.method(0, "connection.open", {"virtual_host": "/"})
    client.method(1, "channel.open")
    client.publish(1, "q", bytes(BEHIND_LOGIN))


def say_in_1_0(client: Amqp10Client) -> None:
    """Log in and publish without waiting for an answer."""
    client.send(SASL_HEADER)
    client.send(encode_frame(FRAME_SASL, 0, encode_performative(SaslInit("PLAIN", PLAIN))))
    client.send(AMQP_HEADER)
    client.performative(Open("client"))
    client.performative(Begin(None, 0, 1000, 1000))
    client.performative(Attach("s", 0, False, source=Source("c"), target=Target("q"), initial_delivery_count=0))
    client.transfer(0, data_message(bytes(BEHIND_LOGIN)))


def say_in_stomp(client: StompClient) -> None:
    """Log in and publish without waiting for an answer."""
    client.frame("CONNECT", accept_version="1.2", host="/", login="guest", passcode="guest")
    client.frame("SEND", b"x" * BEHIND_LOGIN, destination="/queue/q")


@pytest.mark.parametrize("protocol", ["0-9-1", "1.0", "stomp"])
async def test_what_waited_for_a_login_is_not_counted_when_it_was_served(running: RunningBroker, protocol: str) -> None:
    """A6, brother: 15 idle clients that had sent whole messages with their login held 0.9 of 1 MB, and others ended."""
    broker = running.broker
    queue = queue_of(broker, "q")

    def work() -> BlockingClient:
        client: BlockingClient
        parts: list[bytes] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(BlockingClient, "send", lambda _, octets: parts.append(octets))
            if protocol == "0-9-1":
                client = Amqp091Client(broker.amqp_address)
                say_in_0_9_1(client)
            elif protocol == "1.0":
                client = Amqp10Client(broker.amqp_address)
                say_in_1_0(client)
            else:
                client = StompClient(running.stomp_address)
                say_in_stomp(client)
        client.send(b"".join(parts))
        return client

    with await in_thread(work):
        await until(lambda: queue.order.count == 1, SECONDS)
        await until(lambda: broker.unfinished.total == 0, SECONDS)
        assert len(broker.connections) == 1
