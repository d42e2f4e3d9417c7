"""Sliced work goes on turn by turn, a slice of each piece, and is done when the broker stops."""

from __future__ import annotations

import asyncio

from structlog.testing import capture_logs

from annulet.broker.turns.sliced_work import SlicedWorker
from annulet.core.base.sliced_work import SlicedWork
from annulet.store.log.memory import MemoryLog


class HoldingLog(MemoryLog):
    held = 0

    def hold_sweeps(self) -> None:
        self.held += 1

    def release_sweeps(self) -> None:
        self.held -= 1


class Steps(SlicedWork):
    def __init__(self, name: str, steps: int, done: list[str], *, reads: bool = False) -> None:
        super().__init__()
        self.reads = reads
        self._name = name
        self._left = steps
        self._done = done

    def step(self, now: int) -> bool:
        assert now == 17
        self._done.append(self._name)
        self._left -= 1
        if self._left < 0:
            raise ValueError("defect")
        return self._left > 0


async def test_work_is_done_a_slice_of_each_and_not_in_the_turn_that_asks() -> None:
    done: list[str] = []
    log = HoldingLog()
    worker = SlicedWorker(asyncio.get_running_loop(), lambda: 17, log)
    worker.add(Steps("a", 2, done, reads=True))
    worker.add(Steps("b", 1, done))
    assert (done, worker.waiting, log.held) == ([], 2, 1)
    for _ in range(100):  # a slow machine may need a turn for each slice
        await asyncio.sleep(0)
    assert (done, worker.slices, log.held) == (["a", "b", "a"], 3, 0)


async def test_a_stop_does_what_is_left() -> None:
    done: list[str] = []
    worker = SlicedWorker(asyncio.get_running_loop(), lambda: 17, MemoryLog())
    worker.add(Steps("a", 3, done))
    worker.finish()
    assert (done, worker.waiting) == (["a"] * 3, 0)
    await asyncio.sleep(0)
    assert worker.slices == 3


class Stubborn(Steps):
    def abandon(self, now: int) -> None:
        raise ValueError("the same defect")


def beside_sound_work(kind: type[Steps]) -> tuple[SlicedWorker, list[str], HoldingLog]:
    """Return a worker with work that breaks at once and some that does not, what is done, and the log."""
    done: list[str] = []
    log = HoldingLog()
    worker = SlicedWorker(asyncio.get_running_loop(), lambda: 17, log)
    worker.add(kind("broken", 0, done, reads=True))
    worker.add(Steps("sound", 1, done))
    return worker, done, log


async def test_a_defect_ends_its_own_work_only() -> None:
    worker, done, log = beside_sound_work(Steps)
    with capture_logs() as logs:
        worker.finish()
    assert (done, log.held) == (["broken", "sound"], 0)
    assert [line["work"] for line in logs] == ["Steps"]


async def test_a_defect_that_comes_again_when_work_is_abandoned_ends_its_own_work_only() -> None:
    worker, done, log = beside_sound_work(Stubborn)
    with capture_logs() as logs:
        for _ in range(100):  # a slow machine may need a turn for each slice
            await asyncio.sleep(0)
    assert (done, log.held, worker.waiting) == (["broken", "sound"], 0, 0)
    assert [line["work"] for line in logs] == ["Stubborn", "Stubborn"]
