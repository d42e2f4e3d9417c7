"""B22, a brother: a lease is told that there is nothing when all of a deep grouped queue was looked through.

A lease pulls as ``basic.get`` does. Behind some 16,000 messages of groups that other consumers have it was told that
there is nothing for it, so a stream over what is available ended before its first message.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pamqp import commands

from annulet.bulk.reading import acquisition
from annulet.bulk.reading.adoption import LeaseRequest
from annulet.bulk.reading.leases import LeaseManager
from annulet.core.queue.invariants import check_invariants
from annulet.core.searching.grouped_lanes import GroupedLanes
from tests.broker.amqp091.peer import Peer
from tests.residency.acceptance.deep import Deep, deep_broker, number_of

BASIC, QUEUE = commands.Basic, commands.Queue
MANY = 6000
"""Messages of the group that a consumer has: many times what one pull passes over here."""


class Scene:
    """A deep grouped queue whose messages one consumer has, and a lease."""

    def __init__(self, deep: Deep, leases: LeaseManager, generation: int) -> None:
        self.deep = deep
        self.queue = deep.queue()
        self.leases = leases
        self.generation = generation

    @property
    def lanes(self) -> GroupedLanes:
        lanes = self.queue.lanes
        assert isinstance(lanes, GroupedLanes)
        return lanes

    async def extend(self, start: int, *, last_sequence: int = -1) -> int:
        return await self.leases.extend("/", "lease", self.generation, start, last_sequence=last_sequence)

    def looking(self) -> bool:
        return self.leases.looking("/", "lease", -1)

    async def read(self, after: int, upto: int) -> list[int]:
        rows = await self.leases.fetch("/", "lease", "owner", after, upto, fail_on_data_loss=True)
        return [number_of(row.message.body) for row in rows]


@pytest.fixture(params=[False, True], ids=["on disk", "in memory"])
async def scene(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Scene]:
    async with asyncio.timeout(120), deep_broker(tmp_path) as deep:
        queue = await deep.declare("q", x_group_mode="sticky")
        if request.param:
            queue.matchers.lanes_max = 100
        await deep.publish(range(MANY), durable=not request.param, size=200, JMSXGroupID="held")
        owner = await Peer(deep.broker).open(1)
        await owner.send(1, BASIC.Qos(prefetch_count=1), BASIC.Consume(queue="q"))
        leases = LeaseManager(deep.broker)
        opened = await leases.open(LeaseRequest("/", "lease", "q", "owner", fresh=True, position=0))
        scene = Scene(deep, leases, opened["generation"])
        scene.lanes.pull_looks = 1
        yield scene


async def test_a_message_behind_those_that_a_consumer_has_is_found(scene: Scene) -> None:
    """B22: the answer was that there is nothing, while a message of a free group was there."""
    await scene.deep.publish([MANY], size=200, JMSXGroupID="free")
    assert await scene.extend(0) == 1
    assert await scene.read(0, 1) == [MANY]
    assert await scene.extend(1) == 1
    assert not scene.looking()
    assert not scene.queue.pull_waiters
    check_invariants(scene.queue)


async def test_there_is_nothing_when_all_was_looked_through(scene: Scene) -> None:
    """B22: an empty answer ends a run over what is available, so it has to be true."""
    assert await scene.extend(0, last_sequence=MANY) == 0
    assert not scene.lanes.unpassed()
    assert not scene.looking()


async def test_a_call_that_took_long_enough_says_that_it_looks_on(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B22: neither side is to think the other dead, so the client asks again."""
    monkeypatch.setattr(acquisition, "LOOK_SECONDS", -1.0)
    assert await scene.extend(0) == 0
    assert scene.looking()
    assert not scene.queue.pull_waiters
    monkeypatch.undo()
    await scene.deep.publish([MANY], size=200, JMSXGroupID="free")
    assert await scene.extend(0) == 1
    assert not scene.looking()


async def test_a_queue_that_is_deleted_meanwhile(scene: Scene) -> None:
    """B22: the walk ends with its queue, and the lease is told then."""
    asked = asyncio.create_task(scene.extend(0))
    while not scene.queue.pull_waiters:  # noqa: ASYNC110 - it pulls in a turn of its own
        await asyncio.sleep(0)
    other = await Peer(scene.deep.broker).open(1)
    await other.send(1, QUEUE.Delete(queue="q"))
    assert await asked == 0
