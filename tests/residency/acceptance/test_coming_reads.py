"""While a thread reads what comes next nobody waits for the disk, but who would take nothing for an empty queue."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pamqp import commands
from pamqp.body import ContentBody

from annulet.broker.amqp10.sources import SourceLink
from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.message.message import Message, Origin
from annulet.core.queue.queue import Queue
from annulet.core.searching.deep_lanes import DeepLanes
from annulet.store.files.files import OsFile
from annulet.wire.amqp091.messages.properties import VIEW
from tests.broker.amqp091.peer import Peer, turns
from tests.broker.amqp10 import peer as amqp10
from tests.residency.acceptance.deep import Consumer, Deep, body_of, deep_broker, number_of, refuse

COUNT = 6000
CREDIT = 300
BASIC = commands.Basic
KINDS: dict[str, dict[str, Any]] = {"rows": {}, "levels": {"x_max_priority": 9}}


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Peer, "waits", False)


class HeldThread:
    """Does what the log has read ahead when the test says so, in a thread."""

    def __init__(self, deep: Deep) -> None:
        self.works: list[Callable[[], None]] = []
        deep.broker.log.read_ahead_with(self.works.append)

    def run(self) -> None:
        thread = threading.Thread(target=lambda: [self.works.pop(0)() for _ in list(self.works)])
        thread.start()
        thread.join()


async def deep_queue(deep: Deep, **arguments: Any) -> Queue:
    queue = await deep.declare("q", **arguments)
    await deep.publish(range(COUNT))
    await deep.settled()
    assert queue.order.paged_count() > COUNT // 2
    return queue


async def all_there_is(consumer: Consumer) -> list[int]:
    """Take and acknowledge until no more comes."""
    found: list[int] = []
    await turns(20)
    while got := await consumer.numbers():
        found += got
        await consumer.acknowledge_all()
        await turns(20)
    return found


async def the_rest(consumer: Consumer, thread: HeldThread) -> list[int]:
    """Let the thread read, and take and acknowledge what comes, until there is nothing to read."""
    found: list[int] = []
    while thread.works:
        thread.run()
        found += await all_there_is(consumer)
    return found


@pytest.mark.parametrize("kind", KINDS)
async def test_a_consumer_waits_for_the_thread_and_the_loop_for_nothing(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with deep_broker(tmp_path / "data") as deep:
        await deep_queue(deep, **KINDS[kind])
        thread = HeldThread(deep)
        consumer = await deep.consumer(prefetch=CREDIT)
        found = await all_there_is(consumer)
        assert 0 < len(found) < COUNT
        readers: set[int] = set()
        read = OsFile.read

        def noted(file: OsFile, offset: int, length: int) -> bytes:
            readers.add(threading.get_ident())
            return read(file, offset, length)

        monkeypatch.setattr(OsFile, "read", noted)
        for _ in range(3):
            deep.tick()
            assert await all_there_is(consumer) == []
        found += await the_rest(consumer, thread)
        assert found == list(range(COUNT))
        assert readers
        assert threading.get_ident() not in readers
        assert deep.paging.found_by_tick == 0
        await consumer.leave()


async def test_what_the_thread_has_just_read_is_not_for_the_tick_to_find(tmp_path: Path) -> None:
    async with deep_broker(tmp_path / "data") as deep:
        await deep_queue(deep)
        thread = HeldThread(deep)
        consumer = await deep.consumer(prefetch=CREDIT)
        taken = len(await all_there_is(consumer))
        deep.tick()
        thread.run()
        deep.tick()
        assert deep.paging.found_by_tick == 0
        assert (await all_there_is(consumer))[0] == taken
        await consumer.leave()


async def test_a_drain_beside_a_selector_waits_for_the_thread_as_well(tmp_path: Path) -> None:
    async with deep_broker(tmp_path / "data") as deep:
        queue = await deep_queue(deep)
        selecting = await deep.consumer(x_selector="absent = 1")
        assert await selecting.all(0) == []
        assert isinstance(queue.lanes, DeepLanes)
        thread = HeldThread(deep)
        consumer = await deep.consumer(prefetch=CREDIT)
        found = await all_there_is(consumer)
        assert 0 < len(found) < COUNT
        assert thread.works
        found += await the_rest(consumer, thread)
        assert found == list(range(COUNT))
        await consumer.leave()
        await selecting.leave()


async def test_what_the_thread_cannot_read_is_read_and_accounted_for_by_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with deep_broker(tmp_path / "data") as deep:
        await deep_queue(deep)
        thread = HeldThread(deep)
        consumer = await deep.consumer(prefetch=CREDIT)
        found = await all_there_is(consumer)
        with monkeypatch.context() as patch:
            patch.setattr(OsFile, "read", refuse)
            thread.run()
            assert await all_there_is(consumer) == []
            assert deep.paging.postponed > 0, "the loop was told of it"
        deep.tick()
        found += await all_there_is(consumer)
        found += await the_rest(consumer, thread)
        assert found == list(range(COUNT))
        await consumer.leave()


async def test_who_pulls_does_not_wait_for_the_thread(tmp_path: Path) -> None:
    async with deep_broker(tmp_path / "data") as deep:
        await deep_queue(deep)
        thread = HeldThread(deep)
        consumer = await deep.consumer(prefetch=CREDIT)
        taken = len(await all_there_is(consumer))
        peer = await Peer(deep.broker).open(1)
        await peer.send(1, BASIC.Get(queue="q", no_ack=True))
        assert thread.works
        (body,) = [item for item in await peer.take() if isinstance(item, ContentBody)]
        assert number_of(body.value) == taken
        await consumer.leave()


async def up_to_the_thread(peer: amqp10.Peer, link: amqp10.PeerLink) -> list[int]:
    """Take and accept what a link is sent until it waits for the thread."""
    found: list[int] = []
    while got := await peer.deliveries():
        found += [number_of(body) for body in amqp10.bodies(got)]
        await peer.settle(amqp10.ACCEPTED, *got)
        await peer.credit(link, CREDIT)
    return found


async def test_a_drained_link_gets_all_there_is_though_the_thread_has_not_read_it(tmp_path: Path) -> None:
    """A receiver with no message after a drain concludes that the queue is empty (AMQP 1.0, 2.6.7)."""
    async with deep_broker(tmp_path / "data") as deep:
        await deep_queue(deep)
        thread = HeldThread(deep)
        peer = await amqp10.Peer(deep.broker).open()
        link = await peer.receiver("q", credit=CREDIT)
        found = await up_to_the_thread(peer, link)
        assert 0 < len(found) < COUNT
        assert thread.works
        while len(found) < COUNT:
            await peer.credit(link, CREDIT, drain=True)
            got = await peer.deliveries()
            assert len(got) == min(CREDIT, COUNT - len(found))
            found += [number_of(body) for body in amqp10.bodies(got)]
            await peer.settle(amqp10.ACCEPTED, *got)
        assert found == list(range(COUNT))


async def test_a_link_is_drained_whenever_the_thread_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between dispatch, which waits for it, and the answer, say."""
    async with deep_broker(tmp_path / "data") as deep:
        await deep_queue(deep)
        thread = HeldThread(deep)
        peer = await amqp10.Peer(deep.broker).open()
        link = await peer.receiver("q", credit=CREDIT)
        await up_to_the_thread(peer, link)
        answer = SourceLink.finish_drain

        def late(source: SourceLink) -> None:
            thread.run()
            answer(source)

        monkeypatch.setattr(SourceLink, "finish_drain", late)
        assert thread.works
        await peer.credit(link, CREDIT, drain=True)
        assert len(await peer.deliveries()) == CREDIT


LIMITS: dict[str, dict[str, Any]] = {
    "ring": {"x_ring_size": COUNT},
    "drops": {"x_max_length": COUNT, "x_overflow": "drop-head"},
    "rejects": {"x_max_length": COUNT, "x_overflow": "reject-publish"},
}


@pytest.mark.parametrize("kind", LIMITS)
async def test_nothing_goes_for_a_limit_that_a_consumer_has_room_for(tmp_path: Path, kind: str) -> None:
    async with deep_broker(tmp_path / "data") as deep:
        queue = await deep_queue(deep, **LIMITS[kind])
        thread = HeldThread(deep)
        consumer = await deep.consumer(prefetch=CREDIT)
        found: list[int] = []
        for number in range(COUNT, COUNT + 4 * CREDIT):  # so far the first ones are in memory
            if got := await consumer.numbers():
                found += got
                await consumer.acknowledge_all()
            message = Message(b"\0\0", body_of(number), Origin("", "q", "guest@test", VIEW), durable=True)
            assert queue.refusal(message) == ""
            queue.enqueue(message, deep.broker.clock())
        assert thread.works
        removed = queue.counters.removed
        assert sum(removed.values()) == removed[RemovalReason.ACKNOWLEDGED] == len(found)
        assert found
        assert found == list(range(len(found)))
        await consumer.leave()


async def test_who_is_served_first_of_other_levels_does_not_have_the_loop_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with deep_broker(tmp_path / "data") as deep:
        queue = await deep_queue(deep, x_max_priority=9)
        HeldThread(deep)
        consumer = await deep.consumer(prefetch=CREDIT)
        await all_there_is(consumer)
        monkeypatch.setattr(OsFile, "read", refuse)
        message = Message(b"\0\0", body_of(COUNT), Origin("", "q", "guest@test", VIEW), durable=True, priority=9)
        queue.enqueue(message, deep.broker.clock())
        assert await all_there_is(consumer) == [COUNT]
        assert deep.paging.postponed == 0
        await consumer.leave()


async def test_what_was_read_ahead_goes_when_its_consumer_does_not_go_on(tmp_path: Path) -> None:
    async with deep_broker(tmp_path / "data") as deep:
        await deep_queue(deep)
        thread = HeldThread(deep)
        consumer = await deep.consumer(prefetch=CREDIT)
        for _ in range(7):  # the thread is always in time
            thread.run()
            assert len(await consumer.numbers()) == CREDIT
            await consumer.acknowledge_all()
            await turns(20)
        thread.run()
        assert deep.broker.log.statistics().read_ahead_bytes > 0
        for _ in range(3):
            await deep.broker.commit.maintain()
        assert deep.broker.log.statistics().read_ahead_bytes == 0
        await consumer.leave()


async def test_a_queue_that_goes_while_the_thread_reads_is_not_served(tmp_path: Path) -> None:
    async with deep_broker(tmp_path / "data") as deep:
        queue = await deep_queue(deep)
        thread = HeldThread(deep)
        consumer = await deep.consumer(prefetch=CREDIT)
        await all_there_is(consumer)
        deep.broker.hosts["/"].delete_queue(queue, deep.broker.clock())
        thread.run()
        await turns(20)
        assert await consumer.numbers() == []
        await consumer.leave()
