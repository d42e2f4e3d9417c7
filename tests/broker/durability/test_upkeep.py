"""Rounds of upkeep follow each other, ask for a checkpoint by time, and end with the broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import structlog

from annulet.broker.durability.commit import CommitPipeline
from annulet.broker.durability.upkeep import CHECKPOINT_MILLISECONDS, LogUpkeep
from annulet.store.log.memory import MemoryLog
from annulet.store.segments.interface import MaintenanceTask

START = 1_000_000


class AskedLog(MemoryLog):
    """Notes whether each question asked for a checkpoint."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[bool] = []
        self.defect = False

    def maintenance(self, *, checkpoint: bool = False) -> MaintenanceTask | None:
        if self.defect:
            raise RuntimeError("defect")
        self.asked.append(checkpoint)
        return None


@pytest.fixture
def log() -> AskedLog:
    return AskedLog()


@pytest.fixture
async def pipeline(log: AskedLog) -> AsyncIterator[CommitPipeline]:
    pipeline = CommitPipeline(log, asyncio.get_running_loop())
    yield pipeline
    await pipeline.close()


@pytest.fixture
async def upkeep(pipeline: CommitPipeline) -> LogUpkeep:
    return LogUpkeep(pipeline, asyncio.get_running_loop(), START)


async def asked(upkeep: LogUpkeep, log: AskedLog, now: int) -> bool:
    """Say whether the round of this moment asks for a checkpoint."""
    upkeep.tick(now)
    await upkeep.round_ended()
    return log.asked.pop()


async def test_a_checkpoint_is_asked_for_by_time(upkeep: LogUpkeep, log: AskedLog) -> None:
    assert not await asked(upkeep, log, START + CHECKPOINT_MILLISECONDS - 1)
    assert await asked(upkeep, log, START + CHECKPOINT_MILLISECONDS)
    assert not await asked(upkeep, log, START + 2 * CHECKPOINT_MILLISECONDS - 1)
    assert await asked(upkeep, log, START + 3 * CHECKPOINT_MILLISECONDS)


async def test_a_clock_that_was_set_back_does_not_put_checkpoints_off(upkeep: LogUpkeep, log: AskedLog) -> None:
    assert await asked(upkeep, log, START - 1)
    assert not await asked(upkeep, log, START)


async def test_upkeep_goes_on_after_a_defect(upkeep: LogUpkeep, log: AskedLog) -> None:
    log.defect = True
    with structlog.testing.capture_logs() as logged:
        upkeep.tick(START)
        await asyncio.sleep(0)
    assert [line["event"] for line in logged] == ["upkeep of the message log failed"]
    log.defect = False
    assert not await asked(upkeep, log, START)


async def test_one_round_at_a_time_and_none_after_the_stop(
    upkeep: LogUpkeep, log: AskedLog, pipeline: CommitPipeline
) -> None:
    async with pipeline.upkeep_paused():
        upkeep.tick(START)
        upkeep.tick(START + CHECKPOINT_MILLISECONDS)
        stopping = asyncio.ensure_future(upkeep.stop())
        await asyncio.sleep(0)
        assert not stopping.done()
    await stopping
    upkeep.tick(START + CHECKPOINT_MILLISECONDS)
    assert log.asked == [False]
