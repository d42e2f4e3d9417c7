"""What is taken away is gone at once, in every protocol."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aio_pika
import pytest
import structlog

import annulet.testing
from annulet.broker.broker import Broker
from annulet.broker.security.password_hashes import HASHER
from annulet.broker.security.tokens import TokenScope
from annulet.store.database.definitions import PermissionRecord
from annulet.testing.in_process import RunningBroker
from tests.broker.conftest import until

HASH = HASHER.hash("secret")


class Place:
    """A broker with the user ``ann``."""

    def __init__(self, running: RunningBroker) -> None:
        self.running = running
        self.broker: Broker = running.broker
        self.directory = running.broker.access_directory
        self.directory.set_user("ann", (), password_hash=HASH)
        self.permit()

    def permit(self, configure: str = ".*", write: str = ".*", read: str = ".*", host: str = "/") -> None:
        self.directory.set_permission(PermissionRecord("ann", host, configure, write, read))

    async def connect(self, password: str = "secret", host: str = "") -> Any:
        address, port = self.broker.amqp_address
        url = f"amqp://ann:{password}@{address}:{port}/{host}"
        return await aio_pika.connect(url)

    def connections(self) -> int:
        return sum(connection.user_name == "ann" and connection.running for connection in self.broker.connections)


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    async with annulet.testing.broker(http=False) as running:
        yield Place(running)


async def ignore(_message: object) -> None:
    """Consume and let be."""


async def reason_of(connection: Any) -> str:
    """Return why the broker closed an aio-pika connection."""
    closed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    connection.close_callbacks.add(lambda _sender, error: closed.done() or closed.set_result(str(error)))
    return await asyncio.wait_for(closed, 10)


async def test_a_deleted_users_connections_close_with_a_reason(place: Place) -> None:
    first, second = await place.connect(), await place.connect()
    stays = await aio_pika.connect(place.running.amqp_url)
    waiting = [asyncio.create_task(reason_of(first)), asyncio.create_task(reason_of(second))]
    await asyncio.sleep(0)
    place.directory.delete_users(["ann"])
    for reason in await asyncio.gather(*waiting):
        assert "CONNECTION_FORCED - user 'ann' is deleted" in reason
    assert place.broker.revocation.closed == 2
    assert not stays.is_closed
    with pytest.raises(aio_pika.exceptions.AMQPException):
        await place.connect()
    await stays.close()


async def test_a_destination_that_was_used_before_is_forgotten(place: Place) -> None:
    """The route that a channel remembers was used until the routing graph changed, long after the permission went."""
    connection = await place.connect()
    channel = await connection.channel()
    exchange = await channel.get_exchange("amq.fanout")
    await exchange.publish(aio_pika.Message(b"1"), "", mandatory=False)
    place.permit(write="^other$")
    with pytest.raises(aio_pika.exceptions.ChannelClosed, match=r"write access to 'amq.fanout'.*refused for"):
        await exchange.publish(aio_pika.Message(b"2"), "", mandatory=False)
    assert not connection.is_closed
    await connection.close()


async def test_a_consumer_without_the_permission_to_read_ends_its_connection(place: Place) -> None:
    reader, other = await place.connect(), await place.connect()
    queue = await (await reader.channel()).declare_queue("orders")
    await queue.consume(ignore)
    kept = await (await other.channel()).declare_queue("news")
    await kept.consume(ignore)
    waiting = asyncio.create_task(reason_of(reader))
    await asyncio.sleep(0)
    place.permit(read="^news$")
    assert "read access to 'orders' in vhost '/' was withdrawn from user 'ann'" in await waiting
    await place.broker.revocation.settled()
    assert not other.is_closed
    await other.close()


async def test_an_entry_for_the_virtual_host_that_is_withdrawn_ends_its_connections(place: Place) -> None:
    place.broker.create_host("shop")
    place.permit(host="shop")
    there, here = await place.connect(host="shop"), await place.connect()
    waiting = asyncio.create_task(reason_of(there))
    await asyncio.sleep(0)
    place.directory.delete_permission("ann", "shop")
    assert "access to vhost 'shop' was withdrawn" in await waiting
    assert not here.is_closed
    await here.close()


async def test_widened_permissions_end_nothing(place: Place) -> None:
    connection = await place.connect()
    queue = await (await connection.channel()).declare_queue("orders")
    await queue.consume(ignore)
    place.broker.create_host("shop")
    place.permit(host="shop")
    place.directory.set_user("ann", ("monitoring",), password_hash=HASHER.hash("new"))
    await place.broker.revocation.settled()
    assert place.connections() == 1
    await connection.close()


async def test_an_open_transaction_is_not_committed_with_rights_of_before(place: Place) -> None:
    connection = await place.connect()
    channel = await connection.channel(publisher_confirms=False)
    queue = await channel.declare_queue("orders")
    transaction = channel.transaction()
    await transaction.select()
    await channel.default_exchange.publish(aio_pika.Message(b"in a transaction"), "orders")
    await until(lambda: any(each.transacted_bytes for each in place.broker.connections), 10)
    waiting = asyncio.create_task(reason_of(connection))
    await asyncio.sleep(0)
    place.permit(write="^other$")
    assert "changed during a transaction" in await waiting
    await until(lambda: not place.connections(), 10)
    assert place.broker.hosts["/"].queues[queue.name].order.count == 0


async def test_a_revoked_token_ends_what_logged_in_with_it(place: Place) -> None:
    scope = TokenScope(("read",))
    text = place.directory.make_token("ann", "ci", scope, now=place.broker.clock(), expires_at=0)
    by_token, by_password = await place.connect(text), await place.connect()
    channel = await by_token.channel()
    with pytest.raises(aio_pika.exceptions.ChannelClosed, match=r"configure access to 'q'.*refused"):
        await channel.declare_queue("q")
    waiting = asyncio.create_task(reason_of(by_token))
    await asyncio.sleep(0)
    place.directory.delete_token("ann", "ci")
    assert "token 'ci' of user 'ann' is gone" in await waiting
    assert not by_password.is_closed
    await by_password.close()


async def test_an_expired_token_ends_what_logged_in_with_it(place: Place) -> None:
    now = place.broker.clock()
    text = place.directory.make_token("ann", "ci", TokenScope(), now=now, expires_at=now + 300)
    connection = await place.connect(text)
    assert "token 'ci' of user 'ann' is gone" in await reason_of(connection)


async def test_a_token_for_another_virtual_host_is_refused(place: Place) -> None:
    scope = TokenScope(virtual_hosts=("shop",))
    text = place.directory.make_token("ann", "ci", scope, now=place.broker.clock(), expires_at=0)
    with structlog.testing.capture_logs() as logs, pytest.raises(aio_pika.exceptions.AMQPException):
        await place.connect(text)
    assert any("access to vhost '/' refused" in log.get("reason", "") for log in logs)


async def test_very_many_connections_are_closed_in_turns(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each turn has its share of time; what is over waits for the next one."""
    monkeypatch.setattr("annulet.broker.operation.revocation.TURN_SECONDS", 0.0)
    connections = [await place.connect() for _ in range(20)]
    turns = 0
    place.directory.delete_users(["ann"])
    while place.connections():
        before = place.connections()
        await asyncio.sleep(0)
        turns += 1
        assert before - place.connections() <= 1
    assert turns >= 20
    await asyncio.gather(*[connection.close() for connection in connections], return_exceptions=True)


@pytest.mark.parametrize("limit", ["max-connections", "max-channels"])
async def test_limits_of_a_user(place: Place, limit: str) -> None:
    connection = await place.connect()
    await connection.channel()
    place.directory.set_limit("user", "ann", limit, 1)
    with structlog.testing.capture_logs() as logs, pytest.raises(aio_pika.exceptions.AMQPException):
        await (connection.channel() if limit == "max-channels" else place.connect())
    assert any(f"may have 1 {limit.removeprefix('max-')} ({limit})" in log.get("reason", "") for log in logs)
    place.directory.delete_limit("user", "ann", limit)
    again = await place.connect()
    await again.channel()
    await again.close()
    await connection.close()


async def test_queues_of_a_virtual_host(place: Place) -> None:
    connection = await place.connect()
    channel = await connection.channel()
    await channel.declare_queue("first")
    place.directory.set_limit("vhost", "/", "max-queues", 1)
    await channel.declare_queue("first")
    with pytest.raises(aio_pika.exceptions.ChannelClosed, match=r"queue limit in vhost '/' \(1\) is reached"):
        await channel.declare_queue("second")
    await connection.close()
