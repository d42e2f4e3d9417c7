"""AMQP 0-9-1 clients that run on RabbitMQ run here: the inputs that failed, on a broker in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from pamqp import commands

from annulet import testing
from annulet.broker.broker import Broker
from annulet.testing.clock import VirtualClock
from tests.broker.amqp091.peer import Peer, bodies, publish

BASIC, QUEUE = commands.Basic, commands.Queue


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    async with testing.broker(http=False, clock=VirtualClock()) as running:
        yield running.broker
        for connection in list(running.broker.connections):
            connection.abort()  # its peer does not answer connection.close


async def test_celery_with_more_tasks_for_later_than_its_prefetch_gets_the_next_task(broker: Broker) -> None:
    """B11: a worker holds 20 ETA tasks with a prefetch of 8, and raises it by one for each."""
    peer = await Peer(broker).open(1, product="py-amqp")
    await peer.send(1, QUEUE.Declare(queue="tasks"), BASIC.Qos(0, 8), BASIC.Consume(queue="tasks"))
    held = 0
    for number in range(21):
        await peer.send(1, publish(1, "tasks", b"%d" % number))
        for body in bodies(await peer.take()):
            assert body == b"%d" % number
            held += 1
            await peer.send(1, BASIC.Qos(0, 8 + held))
    assert held == 21
