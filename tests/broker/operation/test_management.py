"""Management operations in a running broker: slices between clients, stop, restart."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from annulet.broker.broker import Broker
from annulet.broker.operation.management import ManagementOperations
from annulet.core.base.errors import NotFound, PreconditionFailed
from annulet.core.management import Operation, change_priority, purge, select
from annulet.core.management.operation import CANCELLED, FINISHED, SLICE_MESSAGES
from annulet.core.queue.queue import Queue
from annulet.testing import broker
from annulet.testing.clock import VirtualClock
from tests.broker.restarts import queue_of, send_with_id


def filled(running: Broker, count: int, name: str = "q", *, durable: bool = False) -> Queue:
    host = running.hosts["/"]
    queue_id = running.catalogue.add_queue("/", name, False, {}) if durable else 0
    queue = host.declare_queue(name, now=running.clock(), durable=durable, queue_id=queue_id)
    for number in range(count):
        send_with_id(running, f"{name}{number}", key=name)
    return queue


def purging(running: Broker, queue: Queue) -> Operation:
    return purge(running.hosts["/"], queue, user="anna", now=running.clock())


async def ended(operation: Operation) -> int:
    """Wait for the end; return how many turns of the loop it took."""
    turns = 0
    while not operation.ended:
        await asyncio.sleep(0)
        turns += 1
    return turns


async def test_one_slice_a_turn_and_operations_take_turns() -> None:
    async with broker(http=False) as running:
        management = running.broker.management
        long = purging(running.broker, filled(running.broker, 3 * SLICE_MESSAGES, "long"))
        short = purging(running.broker, filled(running.broker, 1, "short"))
        assert (management.start(long), management.start(short)) == (1, 2)
        assert long.done == 0
        assert await ended(short) <= 3
        assert 0 < long.done <= 2 * SLICE_MESSAGES
        await ended(long)
        assert (long.state, long.done) == (FINISHED, 3 * SLICE_MESSAGES)
        assert [number for number, _ in management.operations("/", "long")] == [1]
        assert management.operation(2, "/", "short") is short
        for number, host, queue in ((1, "/", "short"), (1, "other", "long"), (3, "/", "long")):
            with pytest.raises(NotFound, match=f"no operation {number}; the last one is 2"):
                management.operation(number, host, queue)


async def test_a_cancelled_operation_does_no_more() -> None:
    async with broker(http=False) as running:
        queue = filled(running.broker, 2 * SLICE_MESSAGES)
        operation = purging(running.broker, queue)
        number = running.broker.management.start(operation)
        await asyncio.sleep(0)
        running.broker.management.cancel(number, "/", "q")
        await asyncio.sleep(0.01)
        assert (operation.state, queue.order.count) == (CANCELLED, 2 * SLICE_MESSAGES - operation.done)


async def test_a_stop_ends_operations_and_the_next_broker_knows_how_far_they_came(tmp_path: Path) -> None:
    async with broker(data_dir=tmp_path, http=False) as running:
        queue = filled(running.broker, 2 * SLICE_MESSAGES, durable=True)
        operation = purging(running.broker, queue)
        running.broker.management.start(operation)
        await asyncio.sleep(0)
        assert operation.done == SLICE_MESSAGES
    assert operation.state == CANCELLED
    with pytest.raises(PreconditionFailed, match="the broker is stopping"):
        running.broker.management.start(operation)
    with pytest.raises(PreconditionFailed, match="the preview is not complete"):
        await running.broker.management.preview(operation.preview())
    async with broker(data_dir=tmp_path, http=False) as running:
        assert queue_of(running.broker).order.count == 2 * SLICE_MESSAGES - operation.done
        (entry,) = running.broker.audit.query(operation="purge")
        assert (entry.count, entry.user, entry.outcome.split(";")[0]) == (operation.done, "anna", "cancelled")


async def test_what_an_operation_changed_is_durable(tmp_path: Path) -> None:
    async with broker(data_dir=tmp_path, http=False) as running:
        queue = filled(running.broker, 3, durable=True)
        operation = change_priority(
            running.broker.hosts["/"], queue, select(ids=[2]), 9, user="anna", now=running.broker.clock()
        )
        running.broker.management.start(operation)
        await ended(operation)
    async with broker(data_dir=tmp_path, http=False) as running:
        kept = queue_of(running.broker).order.entries()
        assert [(entry.sequence, entry.message.priority) for entry in kept] == [(1, 4), (3, 4), (4, 9)]


async def test_a_defect_in_one_operation_ends_it_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async with broker(http=False) as running:
        bad = purging(running.broker, filled(running.broker, 1, "bad"))
        good = purging(running.broker, filled(running.broker, 1, "good"))

        def fail(now: int) -> bool:
            raise ValueError(now)

        monkeypatch.setattr(bad, "step", fail)
        for operation in (bad, good):
            running.broker.management.start(operation)
        await ended(good)
        assert (bad.state, good.state) == (CANCELLED, FINISHED)


async def test_a_preview_of_a_deep_queue_lets_others_run() -> None:
    management = ManagementOperations(VirtualClock())
    async with broker(http=False) as running:
        operation = purging(running.broker, filled(running.broker, 2 * SLICE_MESSAGES))
        counting = asyncio.ensure_future(management.preview(operation.preview()))
        await asyncio.sleep(0)
        assert not counting.done()
        assert (await counting).count == 2 * SLICE_MESSAGES
        assert operation.done == 0


async def test_a_preview_that_is_given_up_half_way_holds_nothing() -> None:
    async with broker(http=False) as running:
        queue = filled(running.broker, 3 * SLICE_MESSAGES)
        counting = asyncio.ensure_future(running.broker.management.preview(purging(running.broker, queue).preview()))
        await asyncio.sleep(0)
        assert queue.pinned_upto == 3 * SLICE_MESSAGES
        counting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await counting
        assert queue.pinned_upto == 0
