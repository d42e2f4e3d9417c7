"""The watch over the event loop, on a loop whose time the test makes."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from annulet.broker.turns.loop_watch import STALL_BOUNDS, WATCH_SECONDS, LoopWatch, ProcessorWaits, computed_beside


class Loop(asyncio.BaseEventLoop):
    """Keeps what is due and calls it when told, at the time it is told."""

    def __init__(self) -> None:
        self.now = 100.0
        self.due: list[tuple[float, Any, tuple[Any, ...]]] = []
        self.cancelled = 0

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Any, *arguments: Any, context: Any = None) -> Any:
        del context
        self.due.append((when, callback, arguments))
        return self

    def cancel(self) -> None:
        self.cancelled += 1

    def fire(self, late: float) -> None:
        when, callback, arguments = self.due.pop()
        self.now = when + late
        callback(*arguments)

    def __del__(self, warn: Any = None) -> None:
        del warn  # there is nothing to close


class Waits(ProcessorWaits):
    """Waits that the test tells."""

    told = 0.0

    def seconds(self) -> float:
        return self.told


def test_lateness_falls_into_its_class() -> None:
    loop, watch = Loop(), LoopWatch()
    watch.start(loop)
    assert loop.due[0][0] == pytest.approx(100 + WATCH_SECONDS)
    for late in (0.0, 0.0009, 0.03, 99.0):
        loop.fire(late)
    counts = [0] * (len(STALL_BOUNDS) + 1)
    counts[0], counts[STALL_BOUNDS.index(0.05)], counts[-1] = 2, 1, 1
    assert watch.counts == counts
    assert watch.longest == pytest.approx(99.0)
    assert watch.total == pytest.approx(99.0309)
    watch.stop()


def test_waits_for_a_processor_are_told_apart() -> None:
    waits = Waits()
    loop, watch = Loop(), LoopWatch(waits, lambda: 0.0)
    watch.start(loop)
    for late, more in ((0.03, 0.026), (0.03, 0.0), (0.001, 0.01)):
        waits.told += more
        loop.fire(late)
    held = [0] * (len(STALL_BOUNDS) + 1)
    held[0], held[STALL_BOUNDS.index(0.005)], held[STALL_BOUNDS.index(0.05)] = 1, 1, 1
    assert watch.counts_held == held
    assert watch.total_held == pytest.approx(0.034)
    assert watch.total == pytest.approx(0.061)


@pytest.mark.parametrize(("beside", "held"), [(0.0, 0.01), (0.015, 0.025), (0.08, 0.04)])
def test_waits_count_as_far_as_other_threads_of_the_broker_computed_meanwhile(beside: float, held: float) -> None:
    computed = 0.0
    waits = Waits()
    loop, watch = Loop(), LoopWatch(waits, lambda: computed)
    watch.start(loop)
    for _ in range(2):
        waits.told += 0.03
        computed += beside
        loop.fire(0.04)
    assert watch.total_held == pytest.approx(2 * held)
    assert watch.total == pytest.approx(0.08)


def test_what_other_threads_compute_is_counted() -> None:
    def compute() -> None:
        while time.thread_time() < 0.02:
            pass

    before = computed_beside()
    worker = threading.Thread(target=compute)
    worker.start()
    worker.join()
    assert computed_beside() - before >= 0.015  # by the processor's clock, however busy it is


def test_the_system_tells_how_long_this_thread_waited_for_a_processor() -> None:
    waits = ProcessorWaits()
    assert waits.seconds() == 0
    waits.open()
    before = waits.seconds()
    with Path("/proc/thread-self/schedstat").open() as file:
        assert 0 <= before <= int(file.read().split()[1]) / 1e9 <= waits.seconds()
    waits.close()
    waits.close()
    assert waits.seconds() == 0


def test_a_bound_belongs_to_its_class() -> None:
    watch = LoopWatch()
    for bound in STALL_BOUNDS:
        watch.note(bound)
    assert watch.counts == [1] * len(STALL_BOUNDS) + [0]


def test_a_stopped_watch_looks_no_more() -> None:
    loop, watch = Loop(), LoopWatch()
    watch.stop()
    watch.start(loop)
    watch.stop()
    watch.stop()
    assert loop.cancelled == 1
