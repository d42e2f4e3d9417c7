"""Commits of staged publishes that stand still where a test wants to look: between two turns, or before the disk."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pyarrow as pa
import pytest

from annulet.bulk.writing import publisher
from annulet.bulk.writing.encoding import WriteDefaults
from annulet.bulk.writing.publisher import CommitRequest
from annulet.bulk.writing.stages import StageKey
from annulet.core.queue.queue import Queue
from tests.bulk.helpers import Bench, stage_name


def staged(here: Bench, rows: dict[str, list[bytes]], query: str = "query") -> CommitRequest:
    """Write a stage with these bodies for each queue, and return what commits it."""
    name = stage_name()
    bodies = [body for queue in rows.values() for body in queue]
    addresses = [queue for queue, listed in rows.items() for _ in listed]
    data = pa.record_batch({"body": pa.array(bodies, pa.binary()), "address": pa.array(addresses, pa.string())})
    here.service.stages.write(StageKey(query, name), data.schema, [data])
    return CommitRequest("/", query, "", 0, (name,), WriteDefaults(), True, "tester@here")


def committing(here: Bench, request: CommitRequest) -> asyncio.Task[dict[str, int]]:
    return asyncio.ensure_future(here.service.publisher.commit(request, lambda _: True))


class Turns:
    """Stands for ``asyncio`` in the publisher: a commit stops between two turns when some of it is in ``queue``."""

    def __init__(self, queue: Queue) -> None:
        self.stopped = asyncio.Event()
        self.go_on = asyncio.Event()
        self._queue = queue

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        if self._queue.hidden and not self.stopped.is_set():
            self.stopped.set()
            await self.go_on.wait()


def stop_between_turns(queue: Queue, patch: pytest.MonkeyPatch, rows: int) -> Turns:
    """Have the next commit stop when the first ``rows`` messages of it are in their queues, ``queue`` among them."""
    turns = Turns(queue)
    patch.setattr(publisher, "SLICE", rows)
    patch.setattr(publisher, "asyncio", turns)
    return turns


@asynccontextmanager
async def disk_stopped(here: Bench) -> AsyncIterator[None]:
    """Let nothing become durable inside the block."""
    go_on, stopped = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop() -> None:
        loop.call_soon_threadsafe(stopped.set)
        go_on.wait()

    interlude = asyncio.ensure_future(here.broker.commit.between_windows(lambda: None, stop))
    await stopped.wait()
    try:
        yield
    finally:
        go_on.set()
        await interlude


async def appended(here: Bench) -> None:
    """Wait until the commit is in the log's window."""
    while "query" not in here.broker.log.outcomes:  # noqa: ASYNC110 - there is nobody to tell us
        await asyncio.sleep(0.001)
