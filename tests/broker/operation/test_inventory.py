from __future__ import annotations

import asyncio
from collections.abc import Callable

import aio_pika
import pytest

from annulet.broker.operation.inventory import (
    BLOCKED,
    REASON_CHARACTERS_MAX,
    RUNNING,
    close_connection,
    consumers_of,
    describe_connection,
    describe_consumer,
    describe_session,
    number_of,
    open_connections,
    sessions_of,
)
from annulet.core.base.errors import InvalidArgument
from annulet.testing import RunningBroker, broker


async def keep(_message: object) -> None:
    """Settle nothing."""


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(500):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not become true within 5 seconds")


def connections_of(running: RunningBroker) -> list[object]:
    return list(open_connections(running.broker.connections, running.broker.hosts.values()))


async def test_a_connection_of_amqp_091_and_what_it_holds() -> None:
    async with broker(http=False) as running:
        client = await aio_pika.connect(running.amqp_url, client_properties={"connection_name": "mine"})
        channel = await client.channel(publisher_confirms=True)
        await channel.set_qos(prefetch_count=7)
        queue = await channel.declare_queue("q")
        for _ in range(3):
            await channel.default_exchange.publish(aio_pika.Message(b"x"), "q")
        await queue.consume(keep, consumer_tag="ct", arguments={"x-priority": 5})
        [connection] = open_connections(running.broker.connections, running.broker.hosts.values())
        [(number, session)] = sessions_of(connection)
        await until(lambda: len(session.unacknowledged) == 3)
        facts = describe_connection(connection)
        assert (facts.client_name, facts.user, facts.virtual_host) == ("mine", "guest", "/")
        assert (facts.protocol, facts.state, facts.mechanism) == ("AMQP 0-9-1", RUNNING, "PLAIN")
        assert (facts.host, facts.port) == running.broker.amqp_address
        assert facts.name == f"{facts.peer_host}:{facts.peer_port} -> {facts.host}:{facts.port}"
        assert facts.client_properties["connection_name"] == "mine"
        assert facts.sessions == 1
        assert facts.bytes_received > 0 < facts.bytes_sent
        assert not facts.tls
        channel_facts = describe_session(number, session)
        assert (channel_facts.number, channel_facts.prefetch, channel_facts.shared_prefetch) == (1, 7, 0)
        assert (channel_facts.unacknowledged, channel_facts.consumers) == (3, 1)
        assert channel_facts.confirms
        assert not channel_facts.transactional
        host = running.broker.hosts["/"]
        [(owner, consumer)] = consumers_of(host.queues["q"])
        assert owner is session
        assert number_of(owner) == 1
        consumer_facts = describe_consumer(consumer, host)
        assert (consumer_facts.tag, consumer_facts.queue, consumer_facts.priority) == ("ct", "q", 5)
        assert (consumer_facts.credit, consumer_facts.unacknowledged, consumer_facts.acknowledges) == (7, 3, True)
        connection.blocked_told = True
        assert describe_connection(connection).state == BLOCKED
        await client.close()
        assert connections_of(running) == []


async def test_a_client_is_told_why_its_connection_is_closed() -> None:
    async with broker(http=False) as running:
        client = await aio_pika.connect(running.amqp_url)
        [connection] = open_connections(running.broker.connections, running.broker.hosts.values())
        closed: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
        client.close_callbacks.add(lambda _, error: closed.set_result(error))
        for wrong in ("a\nb", "x" * (REASON_CHARACTERS_MAX + 1)):
            with pytest.raises(InvalidArgument, match="reason"):
                close_connection(connection, wrong, "admin")
        assert not closed.done()
        close_connection(connection, "maintenance of " + "x" * (REASON_CHARACTERS_MAX - 15), "admin")
        error = await asyncio.wait_for(closed, 5)
        assert "maintenance of" in str(error)
        assert "CONNECTION_FORCED" in str(error) or getattr(error, "errno", 0) == 320
        await until(lambda: connections_of(running) == [])


async def test_connections_before_their_login_are_not_listed() -> None:
    async with broker(http=False) as running:
        host, port = running.broker.amqp_address
        _, writer = await asyncio.open_connection(host, port)
        writer.write(b"AMQP\x00\x00\x09\x01")
        await until(lambda: len(running.broker.connections) == 1)
        assert connections_of(running) == []
        writer.close()
