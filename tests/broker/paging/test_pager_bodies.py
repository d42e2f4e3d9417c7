"""Queues that are not plain in a broker with a small budget: bodies leave, or levels page, and nothing else changes."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pamqp import commands

from annulet import testing
from annulet.broker.broker import Broker
from annulet.broker.paging import pager as pager_module
from annulet.core.deliveries.delivery_table import BLOCK_TAGS
from annulet.core.paging.paged_fifo import KEEP_MESSAGES
from annulet.core.queue.queue import Queue
from annulet.residency.bodies.account_audit import RECOUNTED_WAITING_MAX
from annulet.residency.bodies.bodies import StoredBodies
from annulet.residency.bodies.budget import BODY_BYTES, MIB, drift_of
from annulet.testing.clock import VirtualClock
from tests.broker.amqp091.peer import Peer, bodies, persistent, turns
from tests.broker.conftest import leave
from tests.broker.restarts import crash, queue_of

QUEUE, BASIC = commands.Queue, commands.Basic
COUNT = 1750
SIZE = 1024

BY_AGE = {"x-priorities": 10, "x-priority-discipline": "ageing", "x-priority-age": 1 << 31}
"""Levels without rows: strict in effect, where all messages are of one time."""

SORTED_RING = {"x-sort-key": "rank", "x-ring-size": 10**6}
"""A sorted queue without rows: a ring knows which of its messages goes first."""


def body(number: int) -> bytes:
    return b"%0*d" % (SIZE, number)


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    async with testing.broker(
        http=False, data_dir=tmp_path / "data", clock=VirtualClock(), body_budget_bytes=MIB
    ) as running:
        yield running.broker
        leave(running.broker)


async def filled(broker: Broker, arguments: dict, options) -> None:
    peer = await Peer(broker).open(1)
    await peer.send(1, QUEUE.Declare(queue="q", durable=True, arguments=arguments))
    for start in range(0, COUNT, 250):
        numbers = range(start, start + 250)
        await peer.send(1, *(persistent(1, "q", body(number), **options(number)) for number in numbers))
        await broker.commit.durable()
        await turns()
    await paged(broker)


async def paged(broker: Broker) -> None:
    assert broker.pager is not None
    broker.pager.tick(broker.clock())
    while broker.pager.run():
        await turns()


async def consumed(broker: Broker, *, prefetch: int = 200, settle: bool = True) -> tuple[Peer, list[int]]:
    peer = await Peer(broker).open(1)
    await peer.send(1, BASIC.Qos(prefetch_count=prefetch), BASIC.Consume(queue="q"))
    found: list[int] = []
    while True:
        frames = await peer.take()
        got = bodies(frames)
        found += [int(content) for content in got]
        if not got or not settle:
            return peer, found
        tags = [item.delivery_tag for item in frames if isinstance(item, BASIC.Deliver)]
        await peer.send(1, BASIC.Ack(tags[-1], multiple=True))


COMPOSITIONS = {
    "priority": (
        BY_AGE,
        lambda number: {"priority": number % 10},
        lambda number: (-(number % 10), number),
    ),
    "sorted": (
        SORTED_RING,
        lambda number: {"headers": {"rank": COUNT - number}},
        lambda number: COUNT - number,
    ),
    "last value": (
        {"x-last-value-key": "key"},
        lambda number: {"headers": {"key": f"{number % 1500}"}},
        lambda number: number if number >= COUNT - 1500 else None,
    ),
    "groups": (
        {"x-group-mode": "sticky", "x-max-priority": 4},
        lambda number: {"headers": {"JMSXGroupID": f"{number % 7}"}},
        lambda number: number,
    ),
    "time to live": ({**BY_AGE, "x-message-ttl": 10**9}, lambda number: {}, lambda number: number),
}


@pytest.mark.parametrize("name", COMPOSITIONS)
async def test_bodies_leave_and_come_back_in_order(broker: Broker, name: str) -> None:
    arguments, options, rank = COMPOSITIONS[name]
    await filled(broker, arguments, options)
    pager, queue = broker.pager, queue_of(broker)
    assert pager is not None
    expected = sorted((number for number in range(COUNT) if rank(number) is not None), key=rank)
    count, size = pager.bodies_away
    assert (queue.order.count, size) == (len(expected), count * SIZE)
    assert count >= len(expected) - KEEP_MESSAGES
    assert pager.budget.used <= MIB + KEEP_MESSAGES * BODY_BYTES
    _, found = await consumed(broker)
    assert found == expected
    pager.tick(broker.clock())
    assert (pager.bodies_away, pager.drift, drift_of(queue)) == ((0, 0), 0, 0)
    assert not pager._bodies[queue].waiting, "what is gone is kept by nobody"
    assert queue.statistics().messages_unreadable == 0
    await broker.commit.durable()
    assert broker.log.statistics().live_records == 0


async def test_what_is_in_delivery_leaves_and_comes_back_without_being_read(broker: Broker) -> None:
    await filled(broker, {}, lambda number: {})
    pager, queue = broker.pager, queue_of(broker)
    assert pager is not None
    peer, found = await consumed(broker, prefetch=1500, settle=False)
    assert found == list(range(1500))
    await paged(broker)
    count, size = pager.bodies_away
    assert count > 700
    assert size == count * SIZE
    read = pager.figures.bodies_read
    peer.connection.abort()
    await turns()
    assert (pager.figures.bodies_read, len(queue.delivering), queue.order.count) == (read, 0, COUNT)
    assert (await consumed(broker))[1] == list(range(COUNT))
    assert drift_of(queue) == 0


async def test_accounts_of_queues_are_counted_anew_in_turn(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    await filled(broker, BY_AGE, lambda number: {})
    pager, queue = broker.pager, queue_of(broker)
    assert pager is not None
    assert COUNT <= RECOUNTED_WAITING_MAX
    assert pager.drift == 0
    assert queue.bodies is not None
    queue.bodies.bytes += 5
    pager.tick(broker.clock())
    assert pager.drift == 10, "in what is away, and in what is not"
    queue.bodies.bytes -= 5
    pager.tick(broker.clock())
    assert pager.drift == 0


async def test_a_disk_that_refuses_for_a_while_delays(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    await filled(broker, BY_AGE, lambda number: {})
    pager, queue = broker.pager, queue_of(broker)
    assert pager is not None
    away, _ = pager.bodies_away
    with monkeypatch.context() as patch:
        patch.setattr(broker.log, "read", refuse)
        peer, found = await consumed(broker)
        assert found == list(range(COUNT - away))
        pager.tick(broker.clock())
    assert (queue.order.count, pager.figures.unreadable) == (away, 0)
    assert pager.figures.postponed > 0
    peer.connection.abort()
    await turns()
    pager.tick(broker.clock())
    assert (await consumed(broker))[1] == list(range(COUNT - away, COUNT))


async def test_levels_of_strict_priorities_page_and_wait_for_the_disk_each(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(broker, {"x-max-priority": 2}, lambda number: {"priority": number % 3})
    pager, queue = broker.pager, queue_of(broker)
    assert pager is not None
    assert 0 < queue.statistics().messages_paged <= COUNT - KEEP_MESSAGES
    assert (pager.queues_paging, pager.bodies_away, drift_of(queue)) == (1, (0, 0), 0)
    expected = sorted(range(COUNT), key=lambda number: (-(number % 3), number))
    with monkeypatch.context() as patch:
        patch.setattr(broker.log, "messages", refuse)
        peer, found = await consumed(broker)
        assert found == expected[: len(found)], "nothing overtakes what the disk refuses"
        assert 0 < len(found) < COUNT
        pager.tick(broker.clock())
    peer.connection.abort()
    await turns()
    pager.tick(broker.clock())
    assert (await consumed(broker))[1] == expected[len(found) :]
    assert (queue.order.count, queue.pending_bytes) == (0, 0)


def refuse(*asked_for: object) -> None:
    raise OSError(5, "Input/output error")


async def test_after_a_crash_bodies_leave_while_messages_are_restored(broker: Broker, tmp_path: Path) -> None:
    await filled(broker, SORTED_RING, lambda number: {"headers": {"rank": COUNT - number}})
    await crash(broker, tmp_path / "data", tmp_path / "copy")
    async with testing.broker(
        http=False, data_dir=tmp_path / "copy", clock=VirtualClock(), body_budget_bytes=MIB
    ) as running:
        pager = running.broker.pager
        assert pager is not None
        await paged(running.broker)
        assert pager.bodies_away[0] >= COUNT - KEEP_MESSAGES
        assert (await consumed(running.broker))[1] == list(reversed(range(COUNT)))
        assert pager.drift == 0
        leave(running.broker)


async def test_a_closed_broker_leaves_nothing_behind(tmp_path: Path) -> None:
    """Compiled messages are no business of the garbage collector: no cycle may lead over one."""
    gc.collect()
    before = {id(found) for found in gc.get_objects() if isinstance(found, Queue)}
    async with testing.broker(
        http=False, data_dir=tmp_path / "data", clock=VirtualClock(), body_budget_bytes=MIB
    ) as running:
        await filled(running.broker, BY_AGE, lambda number: {"priority": number % 10})
        peer, _ = await consumed(running.broker, settle=False)
        assert queue_of(running.broker).bodies.count > 0
        leave(running.broker)
    del running, peer
    gc.collect()
    assert [found.name for found in gc.get_objects() if isinstance(found, Queue) and id(found) not in before] == []


@pytest.mark.parametrize("rows", [True, False])
async def test_a_queue_is_looked_at_before_it_has_very_many(
    tmp_path: Path, rows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the first had to leave all were looked at in one turn, which held the event loop for 40 ms."""
    monkeypatch.setattr(pager_module, "ADOPTED_LEAST", 1500)
    looks: list[int] = []
    adopt = StoredBodies.adopt

    def noted(self: StoredBodies, *, whole: bool = False) -> None:
        looks.append(len(self.queue.order.in_memory()))
        adopt(self, whole=whole)

    monkeypatch.setattr(StoredBodies, "adopt", noted)
    arguments = {} if rows else {"x-last-value-key": "key"}
    async with testing.broker(
        http=False, data_dir=tmp_path / "data", clock=VirtualClock(), body_budget_bytes=3 * MIB
    ) as running:
        broker = running.broker
        assert broker.pager is not None
        peer = await Peer(broker).open(1)
        await peer.send(1, QUEUE.Declare(queue="q", durable=True, arguments=arguments))
        for start in range(0, 4000, 250):
            numbers = range(start, start + 250)
            await peer.send(1, *(persistent(1, "q", body(number), headers={"key": number}) for number in numbers))
            await broker.commit.durable()
            queue = queue_of(broker)
            assert (queue.bodies is not None) is (queue.order.count >= 1500)
        await paged(broker)
        assert broker.pager.budget.used <= 3 * MIB
        assert (queue.order.paged_count() > 0, broker.pager.bodies_away[0] > 0) == (rows, not rows)
        assert looks == [1500]
        assert drift_of(queue) == 0
        leave(broker)


async def test_a_start_looks_at_queues_with_very_many_before_anybody_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pager_module, "ADOPTED_LEAST", COUNT)
    monkeypatch.setattr(pager_module.Pager, "run", lambda self: False)
    arguments = {"x-last-value-key": "key"}
    for number in range(2):
        async with testing.broker(http=False, data_dir=tmp_path / "data", clock=VirtualClock()) as running:
            if not number:
                await filled(running.broker, arguments, lambda number: {"headers": {"key": number}})
            queue = queue_of(running.broker)
            assert (queue.order.count, queue.bodies is not None) == (COUNT, number == 1)
            leave(running.broker)


async def test_what_a_consumer_holds_for_long_is_folded_and_comes_back(broker: Broker) -> None:
    await filled(broker, {}, lambda _: {})
    pager, queue = broker.pager, queue_of(broker)
    assert pager is not None
    pager.held_least = 3 * BLOCK_TAGS
    peer, found = await consumed(broker, prefetch=0, settle=False)
    await paged(broker)
    assert found == list(range(COUNT))
    assert 0 < pager.held_folded == queue.delivering.folded < COUNT
    await peer.send(1, BASIC.Ack(100, multiple=True), BASIC.Nack(101, requeue=False), BASIC.Ack(103))
    assert len(queue.delivering) == COUNT - 102
    peer.transport.abort()
    await turns()
    while broker.worker.waiting:
        await turns()
    assert (queue.order.count, len(queue.delivering), pager.held_folded) == (COUNT - 102, 0, 0)
    _, again = await consumed(broker)
    assert again == [number for number in range(101, COUNT) if number != 102]


async def test_what_cannot_be_folded_is_looked_at_once(broker: Broker) -> None:
    await filled(broker, {}, lambda _: {})
    pager, queue = broker.pager, queue_of(broker)
    assert pager is not None
    pager.held_least = 3 * BLOCK_TAGS
    await consumed(broker, prefetch=0, settle=False)
    known = queue.delivering.entries()
    await paged(broker)
    await paged(broker)
    assert queue.bodies is not None
    assert queue.bodies.in_delivery > pager.held_least
    assert (len(known), pager.held_folded) == (COUNT, 0)
    assert pager._held_left[queue] == queue.bodies.in_delivery
    pager.tick(broker.clock())
    assert not pager._held
    pager.held_least = 0
    del known
    await paged(broker)
    assert pager.held_folded > 0
