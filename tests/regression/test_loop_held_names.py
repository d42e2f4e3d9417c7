"""Names that are not there, and listings of very many that are, do not hold the loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from pamqp import commands

from annulet import testing
from annulet.admin.resources.queues import SLICE_NAMES, sorted_names
from annulet.broker.broker import Broker
from annulet.core.configuration.arguments.unknown import COMPARED_MAX, near_miss
from annulet.testing.clock import VirtualClock
from tests.broker.amqp091.peer import Peer
from tests.broker.conftest import leave

ARGUMENTS = 1000


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    async with testing.broker(http=False, clock=VirtualClock()) as running:
        yield running.broker
        leave(running.broker)


async def test_few_of_very_many_unknown_arguments_are_compared(broker: Broker) -> None:
    """A8: one queue.declare with 4,000 unknown arguments held the loop for 1.8 s."""
    peer = await Peer(broker).open(1)
    near_miss.cache_clear()
    arguments = {f"x-of-my-own-{number}": number for number in range(ARGUMENTS)}
    await peer.send(1, commands.Queue.Declare(queue="q", arguments=arguments))
    assert isinstance((await peer.take())[-1], commands.Queue.DeclareOk)
    assert near_miss.cache_info().misses == COMPARED_MAX
    await peer.send(1, commands.Queue.Declare(queue="misspelt", arguments={"x-own": 1, "x-max-lenght": 5}))
    close = (await peer.take())[-1]
    assert isinstance(close, commands.Channel.Close)
    assert "did you mean 'x-max-length'" in close.reply_text


async def test_names_of_very_many_queues_are_sorted_in_slices(broker: Broker) -> None:
    """A8, brother: a listing of 100,000 queues over HTTP held the loop for 107 ms before its first page."""
    host = broker.hosts["/"]
    names = [f"q{number}" for number in range(2 * SLICE_NAMES + 1)]
    for name in names:
        host.declare_queue(name, now=broker.clock())
    listing = asyncio.create_task(sorted_names(host))
    waited = 0
    while not listing.done():
        await asyncio.sleep(0)
        waited += 1
    assert waited >= 3
    assert listing.result() == sorted(names)
