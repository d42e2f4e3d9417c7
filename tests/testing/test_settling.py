from __future__ import annotations

import socket

import aio_pika
import pytest

import annulet.testing
from annulet.testing import settling
from annulet.testing.settling import NotSettledError, busy_with, input_on_its_way, settle, unread_octets


async def test_what_a_client_has_sent_without_an_answer_is_there_afterwards() -> None:
    async with annulet.testing.broker(http=False) as running:
        connection = await aio_pika.connect(running.amqp_url)
        channel = await connection.channel(publisher_confirms=False)
        await channel.declare_queue("q")
        for number in range(500):
            await channel.default_exchange.publish(aio_pika.Message(str(number).encode()), "q")
        await settle(running.broker)
        assert running.broker.hosts["/"].queues["q"].order.count == 500
        assert busy_with(running.broker) == ""
        assert input_on_its_way(running.broker) == ""
        await connection.close()


async def test_octets_in_a_socket_are_counted() -> None:
    left, right = socket.socketpair()
    with left, right:
        assert unread_octets(right) == 0
        left.sendall(b"12345")
        assert unread_octets(right) == 5


async def test_a_broker_that_stays_busy_is_reported_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settling, "SETTLE_SECONDS", 0.0)
    async with annulet.testing.broker(http=False) as running:
        assert running.broker.clocked is not None
        running.broker.clocked.count(1)
        with pytest.raises(NotSettledError, match="busy for 0 s: work that it has put off; stop the client first"):
            await settle(running.broker)
        running.broker.clocked.count(-1)
        await settle(running.broker)
