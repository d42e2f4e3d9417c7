"""What the tick finds although nothing kept it is a wake-up that was lost: it is done, counted and said in the log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from annulet.broker.paging import lost_wakes
from annulet.broker.paging import pager as pager_module
from annulet.broker.paging.lost_wakes import QUEUE_COST, LostWakes, on_disk
from annulet.broker.paging.pager import CHUNK
from annulet.core.message.message import Message, Origin
from annulet.core.queue.queue import Queue
from annulet.store.files.files import OsFile
from annulet.wire.amqp091.messages.properties import VIEW
from tests.broker.amqp091.peer import turns
from tests.residency.acceptance.deep import SIZE, Consumer, Deep, body_of, deep_broker, refuse

COUNT = 2000
CREDIT = 50
KINDS: dict[str, dict[str, Any]] = {
    "rows": {},
    "levels": {"x_max_priority": 9},
    "bodies": {"x_priorities": 10, "x_priority_discipline": "ageing", "x_priority_age": 1 << 31},
    "groups": {"x_group_mode": "sticky"},
}


async def deep_queue(deep: Deep, **arguments: Any) -> Queue:
    queue = await deep.declare("q", **arguments)
    options = {"group_id": "g"} if "x_group_mode" in arguments else {}
    await deep.publish(range(COUNT), **options)
    await deep.settled()
    assert on_disk(queue) > 0
    return queue


async def held(deep: Deep, **arguments: Any) -> Consumer:
    consumer = await deep.consumer(prefetch=CREDIT, **arguments)
    assert await consumer.all(CREDIT) == list(range(CREDIT))
    await deep.written()
    return consumer


def settle_in_silence(queue: Queue) -> None:
    """Acknowledge all that is in delivery, and let nobody know that there is credit again."""
    for entry in list(queue.delivering):
        queue.acknowledge(entry)


@pytest.mark.parametrize("kind", KINDS)
async def test_credit_that_nobody_was_told_of_is_found_with_the_second_tick(tmp_path: Path, kind: str) -> None:
    async with deep_broker(tmp_path / "data") as deep:
        queue = await deep_queue(deep, **KINDS[kind])
        consumer = await held(deep)
        settle_in_silence(queue)
        with capture_logs() as logs:
            deep.tick()
            assert (await consumer.numbers(), deep.paging.found_by_tick) == ([], 0), "it may be due in the next turn"
            deep.tick()
            assert await consumer.numbers() == list(range(CREDIT, 2 * CREDIT))
        assert deep.paging.found_by_tick >= CREDIT, "and what was read for it"
        (line,) = [line for line in logs if line["log_level"] == "error"]
        assert (line["queue"], line["to"], line["messages"]) == ("q", "deliver", deep.paging.found_by_tick)
        found = deep.paging.found_by_tick
        deep.tick()
        deep.tick()
        assert deep.paging.found_by_tick == found, "once"
        await consumer.leave()


async def test_reads_for_them_count_where_they_are_more(tmp_path: Path) -> None:
    async with deep_broker(tmp_path / "data") as deep:
        queue = await deep_queue(deep)
        front = queue.order.count - on_disk(queue)
        consumer = await deep.consumer(prefetch=front - 1)
        assert len(await consumer.all(front - 1)) == front - 1
        loaded = deep.paging.loaded
        for entry in list(queue.delivering)[:2]:
            queue.acknowledge(entry)
        deep.tick()
        deep.tick()
        assert len(await consumer.numbers()) == 2
        assert deep.paging.found_by_tick == deep.paging.loaded - loaded > 2
        await consumer.leave()


async def test_what_moves_between_two_ticks_was_not_lost(tmp_path: Path) -> None:
    async with deep_broker(tmp_path / "data") as deep:
        queue = await deep_queue(deep)
        consumer = await held(deep)
        settle_in_silence(queue)
        deep.tick()
        (entry,) = queue.acquire(1, -1, deep.clock())  # which serves everybody
        assert await consumer.numbers() == list(range(CREDIT + 1, 2 * CREDIT + 1))
        deep.tick()
        assert deep.paging.found_by_tick == 0
        queue.return_entries([entry], deep.clock())
        await consumer.leave()


async def paused(deep: Deep, queue: Queue, patch: pytest.MonkeyPatch) -> None:
    queue.pause(deep.clock())


async def full(deep: Deep, queue: Queue, patch: pytest.MonkeyPatch) -> None:
    assert queue.acquire(CREDIT, -1, deep.clock())  # all that may be out


async def at_work(deep: Deep, queue: Queue, patch: pytest.MonkeyPatch) -> None:
    queue.turn_asked = True


async def due(deep: Deep, queue: Queue, patch: pytest.MonkeyPatch) -> None:
    assert deep.broker.pager is not None
    deep.broker.pager.scanning._asking[queue] = None


async def refusing(deep: Deep, queue: Queue, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OsFile, "read", refuse)
    for pages in queue.order.page_parts():
        pages.stalled = True


@pytest.mark.parametrize(
    ("keep", "arguments"),
    [(paused, {}), (full, {"x_in_flight_max": CREDIT}), (at_work, {}), (due, {}), (refusing, {})],
)
async def test_what_something_keeps_waits_for_that(
    tmp_path: Path, keep: Any, arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with deep_broker(tmp_path / "data") as deep:
        queue = await deep_queue(deep, **arguments)
        consumer = await held(deep)
        settle_in_silence(queue)
        await keep(deep, queue, monkeypatch)
        deep.tick()
        deep.tick()
        assert deep.paging.found_by_tick == 0
        monkeypatch.undo()
        await consumer.leave()


@pytest.mark.parametrize("kind", ["rows", "bodies"])
async def test_a_disk_that_gives_again_is_what_the_tick_is_there_for(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with deep_broker(tmp_path / "data") as deep:
        queue = await deep_queue(deep, **KINDS[kind])
        with monkeypatch.context() as patch:
            patch.setattr(OsFile, "read", refuse)
            consumer = await deep.consumer(prefetch=COUNT)
            found = await consumer.all(queue.order.count - on_disk(queue))
            for _ in range(3):
                deep.tick()
        deep.tick()
        deep.tick()
        assert [*found, *await consumer.all(COUNT - len(found))] == list(range(COUNT))
        assert deep.paging.postponed > 0
        assert deep.paging.found_by_tick == 0
        await consumer.leave()


async def test_who_waits_for_a_match_is_woken_in_vain(tmp_path: Path) -> None:
    async with deep_broker(tmp_path / "data") as deep:
        queue = await deep_queue(deep)
        consumer = await deep.consumer(prefetch=CREDIT, x_selector="shard = 'none'")
        browser = await deep.consumer(prefetch=CREDIT, x_browse="snapshot")
        assert await consumer.all(1) == [], "it has looked at all"
        assert len(await browser.all(CREDIT)) == CREDIT
        assert any(consumer.ready for consumer in queue.consumers)
        for _ in range(3):
            deep.tick()
            await deep.written()
        assert await consumer.numbers() == []
        assert deep.paging.found_by_tick == 0
        await consumer.leave()
        await browser.leave()


async def test_a_turn_of_paging_that_did_not_come_is_made_up_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pager_module, "SLICE", CHUNK)
    async with deep_broker(tmp_path / "data") as deep:
        queue, pager = await deep.declare("q"), deep.broker.pager
        assert pager is not None
        host, now = deep.broker.hosts["/"], deep.clock()
        origin, targets = Origin("", "q", "guest@test", VIEW), host.route("", "q")
        with monkeypatch.context() as patch:
            patch.setattr(pager, "_go_on_soon", lambda: None)  # so the next slice never comes
            for number in range(4 * CHUNK):
                message = Message(b"\0\0", body_of(number, SIZE), origin, durable=True, accepted_at=now)
                host.publisher.publish(message, targets, now)
            await deep.broker.commit.durable()
            await turns()
            assert pager.budget.exceeded()
            rows = queue.order.paged_count()
            assert 0 < rows < 3 * CHUNK
            with capture_logs() as logs:
                deep.tick()
        assert deep.paging.found_by_tick == queue.order.paged_count() - rows > 0
        (line,) = [line for line in logs if line["log_level"] == "error"]
        assert (line["queue"], line["to"]) == ("q", "page")
        deep.paging.found_by_tick = 0
        await deep.written()
        deep.tick()
        assert deep.paging.found_by_tick == 0


async def test_every_queue_is_looked_at_however_many_consumers_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with deep_broker(tmp_path / "data") as deep:
        first, second, third = [await deep.declare(name) for name in ("first", "second", "third")]
        consumers = [await deep.consumer("second", 1) for _ in range(QUEUE_COST)]
        wakes, looked = LostWakes(deep.paging, lambda queue: False), []
        monkeypatch.setattr(wakes, "_waits", lambda queue: looked.append(queue.name))
        monkeypatch.setattr(lost_wakes, "CONSUMERS_LOOKED_AT", 2 * QUEUE_COST)
        for names in (["third", "second"], ["first"], ["third", "second"]):
            wakes.serve({first: None, second: None}, {second: None, third: None}, deep.clock())
            assert looked == names
            looked.clear()
        for consumer in consumers:
            await consumer.leave()
