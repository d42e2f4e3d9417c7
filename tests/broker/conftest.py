"""A broker in memory, and one with a disk, for tests that speak to it through a transport of their own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from annulet import testing
from annulet.broker.broker import Broker
from annulet.testing.clock import VirtualClock


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    async with testing.broker(http=False, clock=VirtualClock()) as running:
        yield running.broker
        leave(running.broker)


@pytest.fixture
async def disk_broker(tmp_path: Path) -> AsyncIterator[Broker]:
    async with testing.broker(http=False, data_dir=tmp_path, clock=VirtualClock()) as running:
        yield running.broker
        leave(running.broker)


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[asyncio.Runner, Broker]]:
    """One broker for all examples, each with a queue of its own: starting it takes longer than an example."""
    with asyncio.Runner() as runner:
        context = testing.broker(http=False)
        running = runner.run(context.__aenter__())
        try:
            yield runner, running.broker
        finally:

            async def stop() -> None:
                leave(running.broker)
                await context.__aexit__(None, None, None)

            runner.run(stop())


def slow_processor(broker: Broker, seconds: float) -> Callable[[], float]:
    """Have each look at the clock of the input come so much later than the one before."""
    computed = 0.0

    def clock() -> float:
        nonlocal computed
        computed += seconds
        return computed

    broker.inputs.computed = clock
    return clock


def leave(broker: Broker) -> None:
    """Cut what a test left open: its peers do not answer connection.close, and stopping would wait for them."""
    for connection in list(broker.connections):
        connection.abort()


async def until(condition: Callable[[], bool], seconds: float) -> None:
    """Wait for what comes with other turns of the loop, threads or processes, so many seconds at most."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it has not come to be"
        await asyncio.sleep(0.01)
