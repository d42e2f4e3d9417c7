"""A thread that has read has the queue served, on the event loop, unless it is gone by then."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, cast

from annulet.broker.paging.read_wakes import ReadWakes


class Served:
    def __init__(self) -> None:
        self.deleted = False
        self.woken: list[tuple[int, int]] = []

    def wake(self, now: int) -> None:
        self.woken.append((now, threading.get_ident()))


def woken_by_a_thread(queues: list[Served]) -> None:
    async def run() -> None:
        wakes = ReadWakes(asyncio.get_running_loop(), lambda: 1234)
        told = [wakes.of(cast("Any", queue)) for queue in queues]
        thread = threading.Thread(target=lambda: [tell() for tell in told])
        thread.start()
        thread.join()
        assert not any(queue.woken for queue in queues), "not in the thread"
        await asyncio.sleep(0)

    asyncio.run(run())


def test_a_queue_is_served_on_the_loop() -> None:
    queue = Served()
    woken_by_a_thread([queue])
    assert queue.woken == [(1234, threading.get_ident())]


def test_a_deleted_queue_is_left_alone() -> None:
    gone, there = Served(), Served()
    gone.deleted = True
    woken_by_a_thread([gone, there])
    assert gone.woken == []
    assert len(there.woken) == 1
