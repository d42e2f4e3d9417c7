"""Very many consumers with selectors hold the loop neither when they come nor when they go, nor when others publish.

What is asserted is how much is asked in one call, not how long it takes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from pamqp import body, commands, frame, header

from annulet import testing
from annulet.broker.broker import Broker
from annulet.core.paging.paged_fifo import LOOK_ENTRIES
from annulet.core.policies.takers import STEP_CONSUMERS
from annulet.testing.clock import VirtualClock
from tests.broker.amqp091.peer import Peer, turns
from tests.broker.conftest import leave

CONSUMERS = 3 * STEP_CONSUMERS
BACKLOG = LOOK_ENTRIES
STEP = 16


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    async with testing.broker(http=False, clock=VirtualClock()) as running:
        yield running.broker
        leave(running.broker)


async def test_a_consumer_that_comes_to_many_others_asks_in_slices(broker: Broker) -> None:
    """A8, brother: each basic.consume with a selector beside 2,000 others and 1,000 messages took seconds."""
    peer = await Peer(broker).open(1)
    await peer.send(1, commands.Queue.Declare(queue="q"))
    queue = broker.hosts["/"].queues["q"]
    for first in range(0, CONSUMERS, STEP):
        await peer.send(
            1,
            *[
                commands.Basic.Consume(queue="q", consumer_tag=f"c{number}", arguments={"x-selector": f"n = {number}"})
                for number in range(first, first + STEP)
            ],
        )
    await turns()
    assert queue.consumers.count == CONSUMERS
    publish = (commands.Basic.Publish(routing_key="q"), header.ContentHeader(body_size=1), body.ContentBody(b"x"))
    one = b"".join(frame.marshal(part, 1) for part in publish)
    for _ in range(BACKLOG // STEP):
        await peer.send(1, one * STEP)
    await turns()
    assert queue.order.count == BACKLOG
    before = queue.matchers.evaluations
    slices = broker.worker.slices
    new = commands.Basic.Consume(queue="q", consumer_tag="new", arguments={"x-selector": "m = 1"})
    peer.receive(frame.marshal(new, 1))
    first = queue.matchers.evaluations - before
    assert 0 < first <= LOOK_ENTRIES // (CONSUMERS // STEP_CONSUMERS)
    while broker.worker.waiting:
        await turns(1)
    assert queue.matchers.evaluations - before == BACKLOG, "each message was asked about once"
    assert broker.worker.slices - slices >= 3
