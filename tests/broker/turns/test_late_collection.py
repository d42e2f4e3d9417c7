from __future__ import annotations

import asyncio
import gc

import pytest
from structlog.testing import capture_logs

from annulet.broker.turns import late_collection
from annulet.broker.turns.late_collection import COLLECTION_SECONDS_MAX, FREED_WORTH_TELLING, LateCollection
from tests.broker.conftest import until


class Heap:
    """A heap of so many blocks, whose collection takes what a test says."""

    def __init__(self) -> None:
        self.blocks = 1000
        self.freed = 0
        self.seconds = 0.001
        self.now = 0.0

    def collect(self) -> int:
        self.now += self.seconds
        return self.freed

    def collection(self) -> LateCollection:
        return LateCollection(collect=self.collect, blocks=lambda: self.blocks, clock=lambda: self.now)


def test_what_a_collection_frees_is_in_the_figures_and_much_of_it_in_the_log() -> None:
    heap = Heap()
    collection = heap.collection()
    with capture_logs() as logs:
        for heap.freed in (0, FREED_WORTH_TELLING - 1, FREED_WORTH_TELLING):
            collection.run()
    assert [line["objects"] for line in logs] == [FREED_WORTH_TELLING]
    assert (collection.collections, collection.freed) == (3, FREED_WORTH_TELLING)
    assert collection.freed_total == 2 * FREED_WORTH_TELLING - 1
    assert collection.seconds == pytest.approx(0.001)


def test_one_that_is_expected_to_take_too_long_is_put_off_until_there_is_less() -> None:
    heap = Heap()
    collection = heap.collection()
    heap.seconds = COLLECTION_SECONDS_MAX / 2
    collection.run()
    heap.blocks *= 3
    collection.run()
    assert (collection.collections, collection.put_off) == (1, 1)
    heap.blocks //= 3
    collection.run()
    assert (collection.collections, collection.put_off) == (2, 1)


async def test_it_runs_now_and_then_and_leaves_out_what_there_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late_collection, "COLLECTION_INTERVAL_SECONDS", 0.01)
    heap = Heap()
    heap.blocks = 1 << 40
    collection = heap.collection()
    collection.start(asyncio.get_running_loop())
    heap.blocks += 100
    await until(lambda: collection.collections >= 2, 10.0)
    collection.stop()
    made = collection.collections
    await asyncio.sleep(0.05)
    assert collection.collections == made


def test_a_cycle_is_freed() -> None:
    collection = LateCollection(blocks=lambda: 1)
    gc.collect()
    cycle: list[object] = []
    cycle.append(cycle)
    del cycle
    collection.run()
    assert collection.freed >= 1
