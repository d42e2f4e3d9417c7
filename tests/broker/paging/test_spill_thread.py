"""The spill thread: works in order, away from the event loop, and what follows them before it ends."""

from __future__ import annotations

import asyncio
import threading

from annulet.broker.paging.spill_thread import SpillThread


class Work:
    error = None

    def __init__(self, number: int, ran: list[tuple[int, bool]]) -> None:
        self.number = number
        self.ran = ran

    def run(self) -> None:
        self.ran.append((self.number, threading.current_thread() is threading.main_thread()))

    def finish(self) -> None:
        raise AssertionError("not the thread's business")

    def following(self) -> None:
        raise AssertionError("not the thread's business")


async def test_works_are_done_in_order_in_a_thread_and_told_on_the_loop() -> None:
    thread = SpillThread(asyncio.get_running_loop())
    ran: list[tuple[int, bool]] = []
    told: list[tuple[int, bool]] = []

    def done(number: int) -> None:
        told.append((number, threading.current_thread() is threading.main_thread()))
        if number == 2:  # as a move is followed by a write
            thread.submit(Work(3, ran), lambda: done(3))

    for number in range(3):
        thread.submit(Work(number, ran), lambda number=number: done(number))
    assert told == []
    await thread.close()
    assert ran == [(number, False) for number in range(4)]
    assert told == [(number, True) for number in range(4)]


async def test_the_thread_is_there_before_there_is_work_and_ends_with_it() -> None:
    before = threading.active_count()
    thread = SpillThread(asyncio.get_running_loop())
    await thread.idle()
    assert threading.active_count() == before + 1
    await thread.close()
    assert threading.active_count() == before
