"""Commits that do not fit into memory together come one after the other."""

from __future__ import annotations

import asyncio

import pytest

from annulet.bulk.protocol.errors import OverLimitError
from annulet.bulk.writing.commit_room import CommitRoom, commit_bytes


class Commits:
    """Commits that say when they are in, and leave when they are told to."""

    def __init__(self, room: CommitRoom) -> None:
        self.room = room
        self.inside: list[int] = []
        self._ends: dict[int, asyncio.Event] = {}
        self.tasks: dict[int, asyncio.Task[None]] = {}

    async def begin(self, size: int) -> None:
        self._ends[size] = asyncio.Event()
        self.tasks[size] = asyncio.create_task(self._run(size))
        await asyncio.sleep(0)

    async def _run(self, size: int) -> None:
        async with self.room.taken(size):
            self.inside.append(size)
            await self._ends[size].wait()
            self.inside.remove(size)

    async def end(self, size: int) -> None:
        self._ends[size].set()
        await self.tasks[size]
        await asyncio.sleep(0)


async def test_commits_that_fit_together_run_together_and_others_wait_in_order() -> None:
    commits = Commits(CommitRoom(100))
    for size in (60, 40, 90, 5):
        await commits.begin(size)
    assert (commits.inside, commits.room.used) == ([60, 40], 100)
    await commits.end(60)
    assert commits.inside == [40], "the one of 5 does not overtake the one of 90"
    await commits.end(40)
    assert commits.inside == [90, 5]
    await commits.end(90)
    await commits.end(5)
    assert commits.room.used == 0


async def test_a_commit_that_would_not_fit_alone_is_refused() -> None:
    room = CommitRoom(100)
    with pytest.raises(OverLimitError, match=r"need 101 bytes .* 100 are allowed \(max_commit_bytes\)") as caught:
        async with room.taken(101):
            pass
    assert caught.value.limit == "max_commit_bytes"
    async with room.taken(100):
        assert room.used == 100
    assert room.used == 0


async def test_one_that_gives_up_leaves_its_place_to_others() -> None:
    commits = Commits(CommitRoom(100))
    for size in (80, 70, 20, 30):
        await commits.begin(size)
    assert commits.inside == [80]
    commits.tasks[70].cancel()
    await asyncio.gather(commits.tasks[70], return_exceptions=True)
    await asyncio.sleep(0)
    assert commits.inside == [80, 20]
    commits._ends[80].set()
    while 80 in commits.inside:  # noqa: ASYNC110 - a turn of the loop is what is waited for
        await asyncio.sleep(0)
    commits.tasks[30].cancel()  # it may be let in just now
    await asyncio.gather(commits.tasks[30], return_exceptions=True)
    await commits.end(20)
    await commits.tasks[80]
    assert commits.room.used == 0


def test_a_batch_takes_its_columns_and_something_for_each_message_property_and_destination() -> None:
    assert commit_bytes(10, 5, 0, 0) == 8010
    assert commit_bytes(10, 5, 3, 4) == 8010 + 3 * 256 + 4 * 700
