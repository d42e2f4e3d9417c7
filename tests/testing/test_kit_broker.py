from __future__ import annotations

import asyncio

import aio_pika

import annulet.testing
from annulet.broker.broker import Broker
from annulet.broker.durability.durable_declarations import DurableDeclarations
from annulet.bulk.client import BulkClient
from annulet.bulk.protocol import protocol
from annulet.bulk.protocol.url import parse_url
from annulet.bulk.reading.leases import GENERATED_LEASE_IDLE_MAX
from annulet.testing.kit_broker import CHEAP, KitBroker, kept_socket


async def test_it_is_a_broker_with_cheap_passwords() -> None:
    assert issubclass(KitBroker, Broker)
    assert CHEAP.memory_cost * CHEAP.time_cost < 100
    async with annulet.testing.broker(http=False) as running:
        assert running.broker.clocked is not None
        assert running.broker.journal is not None


async def test_with_another_clock_its_timers_are_asyncios() -> None:
    async with annulet.testing.broker(http=False, clock=annulet.testing.VirtualClock(), journal=False) as running:
        assert running.broker.loop is asyncio.get_running_loop()
        assert running.broker.clocked is None
        assert running.broker.journal is None
        assert not running.broker.ticking


async def test_its_sockets_are_those_of_open_connections() -> None:
    async with annulet.testing.broker(http=False) as running:
        assert running.broker.sockets() == []
        connection = await aio_pika.connect(running.amqp_url)
        ((found, opened),) = running.broker.sockets()
        assert found.user_name == "guest"
        assert opened.fileno() >= 0
        await connection.close()


async def test_a_silent_client_is_given_up_when_the_clock_moves_and_others_are_not() -> None:
    async with annulet.testing.broker(http=False) as running:
        silent = await aio_pika.connect(f"{running.amqp_url}/?heartbeat=10")
        (connection,) = running.broker.connections
        there = await aio_pika.connect(f"{running.amqp_url}/?heartbeat=10")
        running.broker.silent.add(connection)
        await running.advance("1m")
        assert connection.lost
        (left,) = running.broker.connections
        assert left is not connection
        await there.close()
        await silent.close()


def test_a_kept_socket_does_not_listen_yet() -> None:
    with kept_socket("127.0.0.1", 0) as kept:
        assert kept.getsockname()[1] > 0


async def test_idle_leases_follow_the_clock() -> None:
    async with annulet.testing.broker(bulk=True) as running:
        declarations = DurableDeclarations(running.broker.hosts["/"], running.broker.catalogue)
        declarations.queue("q", now=running.broker.clock(), durable=True, auto_delete=False, arguments={})
        client = BulkClient(parse_url(running.bulk_url))
        opening = protocol.OpenLease(queue="q", lease="l", owner="o", fresh=True, generated=True)
        await asyncio.to_thread(client.act, opening)
        leases = running.broker.leases
        assert leases is not None
        await running.advance(GENERATED_LEASE_IDLE_MAX - 120_000)
        assert [lease["name"] for lease in leases.statistics()] == ["l"]
        await running.advance("5m")
        assert leases.statistics() == []
        await running.advance("365d")  # not half a million stops
        await asyncio.to_thread(client.close)
