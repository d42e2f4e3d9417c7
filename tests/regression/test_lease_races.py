"""Issue 30: calls for one lease that meet while one of them has it, and calls for others beside them.

An open had all leases to itself while it waited for the one it wanted, so one stream kept all others from starting; and
a call that had waited went on with a lease that had ended during the wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TypeVar

import pytest

from annulet.bulk.protocol.errors import InvalidRequestError, LeaseGoneError
from annulet.bulk.reading.acquisition import SLICE
from annulet.bulk.reading.adoption import LeaseRequest
from annulet.bulk.reading.leases import LeaseManager
from annulet.core.queue.invariants import check_invariants
from annulet.core.queue.queue import Queue
from tests.bulk.helpers import bench

Answer = TypeVar("Answer")

MANY = 2 * SLICE + 1
"""Messages of which an extend takes three turns, so that other calls come while it has the lease."""


class Scene:
    """A lease over a queue, and an extend that has it."""

    def __init__(self, queue: Queue, leases: LeaseManager) -> None:
        self.queue = queue
        self.leases = leases
        self.generation = 0

    async def open(self, name: str = "lease", queue: str = "q") -> dict[str, int]:
        return await self.leases.open(LeaseRequest("/", name, queue, "owner", fresh=True, on_existing="resume"))

    def exists(self) -> bool:
        return bool(self.leases.statistics())

    async def extending(self) -> asyncio.Task[int]:
        """Start an extend, and return it when it has the lease."""
        started = asyncio.create_task(self.leases.extend("/", "lease", self.generation, 0))
        while not self.queue.delivering:  # noqa: ASYNC110 - it takes the first slice in a turn of its own
            await asyncio.sleep(0)
        return started


async def waiting(call: asyncio.Task[Answer]) -> asyncio.Task[Answer]:
    """Give a call that was just made the turn in which it begins to wait."""
    await asyncio.sleep(0)
    assert not call.done()
    return call


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    async with asyncio.timeout(120), bench(tmp_path) as here:
        queue = here.declare("q")
        here.declare("other")
        await here.publish("q", [b"%d" % number for number in range(MANY)])
        made = Scene(queue, here.service.leases)
        made.generation = (await made.open())["generation"]
        yield made
        check_invariants(queue)


async def test_an_open_waits_for_no_other_lease(scene: Scene) -> None:
    """An open of one lease waited for another lease's extends: 28.8 s behind six of 5 s each."""
    extending = await scene.extending()
    same = await waiting(asyncio.create_task(scene.open()))
    await scene.open("second", "other")
    assert not extending.done()
    assert not same.done()
    assert await extending == MANY
    assert (await same)["generation"] == scene.generation + 1


async def test_an_open_that_waited_for_a_released_lease_makes_a_new_one(scene: Scene) -> None:
    """The open took over the lease that was released during its wait, and every later extend was refused."""
    extending = await scene.extending()
    releasing = await waiting(asyncio.create_task(scene.leases.release("/", "lease")))
    opening = await waiting(asyncio.create_task(scene.open()))
    assert await extending == MANY
    assert await releasing == MANY
    opened = await opening
    assert opened["position"] == 0
    assert await scene.leases.extend("/", "lease", opened["generation"], 0, messages_max=3) == 3
    assert scene.leases.status("/", "lease")["held"] == 3
    assert len(scene.queue.delivering) == 3


async def test_two_opens_that_waited_for_a_released_lease_find_the_same_new_one(scene: Scene) -> None:
    """The second of them takes over what the first made, so the first is the one that must stop."""
    extending = await scene.extending()
    releasing = await waiting(asyncio.create_task(scene.leases.release("/", "lease")))
    opens = [await waiting(asyncio.create_task(scene.open())) for _ in range(2)]
    await asyncio.gather(extending, releasing)
    first, second = await asyncio.gather(*opens)
    assert second["generation"] == first["generation"] + 1
    assert len(scene.leases.statistics()) == 1


async def test_a_repeated_release_leaves_a_new_lease_of_that_name_alone(scene: Scene) -> None:
    """The second of two releases ended the lease opened after the first; its messages stayed in delivery."""
    extending = await scene.extending()
    first, second = [await waiting(asyncio.create_task(scene.leases.release("/", "lease"))) for _ in range(2)]
    while scene.exists():  # noqa: ASYNC110 - until the first has ended it, and waits for the disk
        await asyncio.sleep(0)
    generation = (await scene.open())["generation"]
    assert not second.done()
    assert await scene.leases.extend("/", "lease", generation, 0, messages_max=3) == 3
    assert await extending == await first == MANY
    with pytest.raises(LeaseGoneError, match="was released or expired"):
        await second
    assert scene.leases.status("/", "lease")["held"] == 3
    assert await scene.leases.release("/", "lease") == 3
    assert not scene.queue.delivering


async def test_a_rejection_that_waited_for_a_released_lease_is_told_so(scene: Scene) -> None:
    """It was told that its position is not among those not done yet, which is no reason to start anew."""
    extending = await scene.extending()
    releasing = await waiting(asyncio.create_task(scene.leases.release("/", "lease")))
    rejecting = await waiting(asyncio.create_task(scene.leases.reject("/", "lease", [1])))
    await asyncio.gather(extending, releasing)
    with pytest.raises(LeaseGoneError, match="was released or expired"):
        await rejecting
    await scene.open()
    with pytest.raises(InvalidRequestError, match="position 1 cannot be rejected"):
        await scene.leases.reject("/", "lease", [1])
