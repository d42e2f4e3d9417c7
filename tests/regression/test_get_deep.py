"""``basic.get`` says that there is nothing when all of a deep queue was looked through, however deep that is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pamqp import commands, frame
from pamqp.body import ContentBody

from annulet.core.searching.grouped_lanes import GroupedLanes
from tests.broker.amqp091.peer import Peer, publish
from tests.residency.acceptance.deep import Deep, deep_broker, number_of

BASIC, QUEUE = commands.Basic, commands.Queue
MANY = 6000
"""Messages of the group that another consumer has: many times what one pull passes over here."""

PATIENCE_SECONDS = 60
"""A guard against a hang: looks at a deep queue take their turns."""


@pytest.fixture(params=[False, True], ids=["on disk", "in memory"])
async def deep(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Deep]:
    async with deep_broker(tmp_path) as running:
        queue = await running.declare("q", x_group_mode="sticky")
        if request.param:
            queue.matchers.lanes_max = 100
        await running.publish(range(MANY), durable=not request.param, size=200, JMSXGroupID="held")
        assert (queue.order.paged_count() > MANY // 4) is not request.param
        owner = await Peer(running.broker).open(1)
        await owner.send(1, BASIC.Qos(prefetch_count=1), BASIC.Consume(queue="q"))
        yield running


async def peer_of(deep: Deep) -> Peer:
    """Open a client; one of its pulls passes over few messages."""
    lanes = deep.queue().lanes
    assert isinstance(lanes, GroupedLanes)
    lanes.pull_looks = 1
    return await Peer(deep.broker).open(1)


async def answers(peer: Peer, count: int) -> list[int | None]:
    """Wait for the answers to gets: numbers of messages, and None for get-empty."""
    found: list[int | None] = []
    async with asyncio.timeout(PATIENCE_SECONDS):
        while len(found) < count:
            await asyncio.sleep(0.001)
            for item in await peer.take():
                if isinstance(item, ContentBody):
                    found.append(number_of(item.value))
                elif isinstance(item, BASIC.GetEmpty):
                    found.append(None)
    return found


async def test_a_message_behind_those_that_another_has_is_found(deep: Deep) -> None:
    await deep.publish([MANY], size=200, JMSXGroupID="free")
    peer = await peer_of(deep)
    await peer.send(1, BASIC.Get(queue="q"))
    assert await answers(peer, 1) == [MANY]
    await peer.send(1, BASIC.Get(queue="q"))
    assert await answers(peer, 1) == [None]
    assert not deep.queue().pull_waiters


async def test_there_is_nothing_when_all_was_looked_through(deep: Deep) -> None:
    peer = await peer_of(deep)
    lanes = deep.queue().lanes
    assert isinstance(lanes, GroupedLanes)
    peer.receive(frame.marshal(BASIC.Get(queue="q"), 1))
    assert lanes.unpassed()
    assert len(deep.queue().pull_waiters) == 1
    assert await answers(peer, 1) == [None]
    assert not lanes.unpassed()


async def test_answers_come_in_order(deep: Deep) -> None:
    await deep.publish([MANY, MANY + 1], size=200, JMSXGroupID="free")
    await deep.declare("plain")
    await deep.publish([0], "plain")
    peer = await peer_of(deep)
    gets = [BASIC.Get(queue=name, no_ack=True) for name in ("q", "plain", "q", "q", "plain")]
    await peer.send(1, *gets, publish(1, "plain", b"%012d" % 5), BASIC.Ack(delivery_tag=0, multiple=True))
    assert await answers(peer, 5) == [MANY, 0, MANY + 1, None, 5]  # other methods do not wait


async def test_a_channel_that_closes_while_it_waits(deep: Deep) -> None:
    peer = await peer_of(deep)
    peer.receive(frame.marshal(BASIC.Get(queue="q"), 1) + frame.marshal(BASIC.Get(queue="q"), 1))
    assert len(deep.queue().pull_waiters) == 1
    await peer.send(1, commands.Channel.Close(200, "", 0, 0))
    assert [type(item) for item in await peer.take()] == [commands.Channel.CloseOk]
    assert not deep.queue().pull_waiters
    await peer.send(1, commands.Channel.Open(), QUEUE.Declare(queue="other"), BASIC.Get(queue="other"))
    assert await answers(peer, 1) == [None]


async def test_a_queue_that_is_deleted_meanwhile(deep: Deep) -> None:
    peer, other = await peer_of(deep), await Peer(deep.broker).open(1)
    peer.receive(frame.marshal(BASIC.Get(queue="q"), 1))
    await other.send(1, QUEUE.Delete(queue="q"))
    assert await answers(peer, 1) == [None]


async def test_an_owner_that_leaves_meanwhile(deep: Deep) -> None:
    peer = await peer_of(deep)
    peer.receive(frame.marshal(BASIC.Get(queue="q"), 1))
    for connection in list(deep.broker.connections):
        if connection is not peer.connection:
            connection.abort()
    assert await answers(peer, 1) == [0]
