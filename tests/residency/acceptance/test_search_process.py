"""A5 with a search process: what a selector finds is the same, whatever becomes of the process."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from annulet.broker.paging import search_process
from annulet.residency.loading import search_ahead
from tests.residency.acceptance.deep import Deep, deep_broker, until
from tests.store.searching.test_search_tools import StandIn

STEP = 200
COUNT = 20 * STEP


async def filled(deep: Deep, *names: str) -> list[int]:
    """Put messages into these queues, among each other in the log; return the numbers that match."""
    for number in range(0, COUNT, STEP):
        for name in names:
            await deep.publish(range(number, number + STEP - 1), name, shard="other")
            await deep.publish([number + STEP - 1], name, shard="match")
    return list(range(STEP - 1, COUNT, STEP))


@pytest.fixture(autouse=True)
def few_rows_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_ahead, "ROWS_LEAST", 0)
    monkeypatch.setattr(search_process, "WAIT_SECONDS", 20.0)  # walks wait for it, however busy the machine is


async def test_a5_the_process_passes_over_what_lacks_it_and_all_matches_come_in_order(deep: Deep) -> None:
    matching = await filled(deep, "q")
    assert deep.broker.pager is not None
    process = deep.broker.pager.searching
    search = deep.broker.log.search
    assert process is not None
    assert search is not None
    search.prompt = True
    for selector in ("shard = 'match'", "shard LIKE 'mat%'"):
        consumer = await deep.consumer(prefetch=1000, x_selector=selector)
        assert await consumer.all(len(matching)) == matching
        deep.check()
        await consumer.leave()
    assert deep.paging.searched > 1000
    assert (process.started, process.failed) == (1, 0)
    consumer = await deep.consumer(prefetch=1000, x_selector="shard = 'match'")
    assert await consumer.all(len(matching)) == matching
    await consumer.acknowledge_all()
    await consumer.leave()
    assert await deep.drained() == [number for number in range(COUNT) if number not in set(matching)]


async def test_a5_a_process_that_is_killed_in_the_middle_changes_nothing(deep: Deep) -> None:
    matching = await filled(deep, "q")
    assert deep.broker.pager is not None
    process, search = deep.broker.pager.searching, deep.broker.log.search
    assert process is not None
    assert search is not None
    search.prompt = True
    consumer = await deep.consumer(prefetch=1000, x_selector="shard = 'match'")
    await until(lambda: process.pid > 0)
    os.kill(process.pid, signal.SIGKILL)
    assert await consumer.all(len(matching)) == matching
    await until(lambda: process.failed == 1 or search.pending == 0)
    deep.check()


async def test_a5_messages_that_go_while_they_are_searched(deep: Deep) -> None:
    """Two queues of one log; both have what the stand-in says late: one is purged, then the other is deleted."""
    for name in ("one", "two", "three"):
        await deep.declare(name)
    matching = await filled(deep, "one", "two", "three")
    search = deep.broker.log.search
    assert search is not None
    stand_in = StandIn(search)
    consumers = [await deep.consumer(name, 1000, x_selector="shard = 'match'") for name in ("one", "two", "three")]
    await until(lambda: len(stand_in.asked) > 2)
    assert deep.queue("one").purge(deep.clock()) > 0
    stand_in.answer(2)
    host = deep.broker.hosts["/"]
    host.delete_queue(deep.queue("two"), deep.clock())
    while stand_in.answer():
        await consumers[2].take()
    search.forget_pending()
    search.submit = None
    found = await consumers[0].numbers()
    assert found == matching[: len(found)]
    await deep.publish([COUNT], "one", shard="match")
    assert (await consumers[0].all(1))[-1:] == [COUNT]
    deep.check()


async def test_who_waits_for_the_process_gets_no_turn_when_the_broker_stops(deep: Deep) -> None:
    await deep.publish(range(100))
    pager, search = deep.broker.pager, deep.broker.log.search
    assert pager is not None
    assert search is not None
    search.wait(lambda: pager.scanning.ask(deep.queue("q")))
    turns = pager.scanning.turns
    await deep.broker.stop()
    assert (search._waiting, pager.scanning._asking, pager.scanning.turns) == ({}, {}, turns)


async def test_without_the_setting_no_process_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with deep_broker(tmp_path) as deep:
        assert deep.broker.configuration.search_process
    monkeypatch.setattr(search_process.SearchProcess, "__init__", None)
    async with deep_broker(tmp_path, search_process=False) as deep:
        assert deep.broker.pager is not None
        assert deep.broker.pager.searching is None
