"""Management of a queue deeper than memory: constant memory, exact counts and records, others served meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from annulet.broker.operation.looking import Sample
from annulet.core.management import Operation, copy_messages, delete_messages, move_messages, select
from annulet.core.management.operation import FINISHED, RUNNING
from annulet.core.paging.paged_fifo import KEEP_MESSAGES
from annulet.residency.bodies.budget import MIB
from annulet.store.files.files import OsFile
from tests.broker.amqp091.peer import turns
from tests.residency.acceptance.deep import Deep, deep_broker, refuse
from tests.residency.acceptance.test_depth import COST

COUNT = 2400


async def published(deep: Deep) -> None:
    """Put messages into the queue, in three parts of equal length with their number as the property ``part``."""
    for part in range(3):
        await deep.publish(range(part * COUNT // 3, (part + 1) * COUNT // 3), part=part)
    await deep.settled()
    assert deep.queue().statistics().messages_paged == COUNT - KEEP_MESSAGES


async def ended(deep: Deep, operation: Operation) -> int:
    """Return when an operation has ended, with the most bytes that the queue took in memory meanwhile."""
    most = 0
    while not operation.ended:
        most = max(most, deep.cost())
        await turns(1)
    await deep.written()
    return most


async def test_a_move_takes_what_it_selects_and_survives_a_restart(tmp_path: Path) -> None:
    async with deep_broker(tmp_path / "data") as deep:
        await deep.declare("q")
        await deep.declare("other")
        await published(deep)
        host, now = deep.broker.hosts["/"], deep.broker.clock()
        operation = move_messages(host, deep.queue(), select(selector="part = 1"), "other", user="anna", now=now)
        preview = await deep.broker.management.preview(operation.preview())
        assert (preview.count, deep.queue().statistics().messages_paged) == (COUNT // 3, COUNT - KEEP_MESSAGES)
        deep.broker.management.start(operation)
        assert await ended(deep, operation) <= KEEP_MESSAGES * COST, "nothing that was looked at stayed in memory"
        progress = operation.progress
        assert (progress.state, progress.total, progress.seen, progress.done) == (FINISHED, COUNT, COUNT, COUNT // 3)
    async with deep_broker(tmp_path / "data") as deep:
        assert await deep.drained("other") == list(range(COUNT // 3, 2 * COUNT // 3))
        assert await deep.drained() == [*range(COUNT // 3), *range(2 * COUNT // 3, COUNT)]
        assert await deep.live_records() == 0


async def test_a_copy_reads_everything_while_consumers_drain(deep: Deep) -> None:
    await deep.declare("other")
    await published(deep)
    host, now = deep.broker.hosts["/"], deep.broker.clock()
    consumer = await deep.consumer(prefetch=20)
    taken = await consumer.numbers()
    operation = copy_messages(host, deep.queue(), select(everything=True), "other", user="anna", now=now)
    deep.broker.management.start(operation)
    while operation.state == RUNNING:
        taken += await consumer.numbers()
        await consumer.acknowledge_all()
    assert operation.state == FINISHED
    assert len(taken) > 20, "consumers are served meanwhile"
    await consumer.leave()
    await deep.written()
    copied = await deep.drained("other")
    assert copied == sorted(set(copied))
    assert set(await deep.drained()) <= set(copied) | set(taken)
    assert set(range(COUNT)) == set(copied) | set(taken)


async def test_what_was_named_is_deleted_when_the_disk_gives_it(deep: Deep, monkeypatch: pytest.MonkeyPatch) -> None:
    await published(deep)
    host, now = deep.broker.hosts["/"], deep.broker.clock()
    operation = delete_messages(host, deep.queue(), select(ids=[2, 2000, 2300]), user="anna", now=now)
    with monkeypatch.context() as patch:
        patch.setattr(OsFile, "read", refuse)
        deep.broker.management.start(operation)
        await turns(50)
        assert (operation.waiting, operation.state, operation.done) == (True, RUNNING, 0)
    await ended(deep, operation)
    assert list(operation.ids) == [2, 2000, 2300]
    assert await deep.drained() == [number for number in range(COUNT) if number not in (1, 1999, 2299)]


@pytest.mark.parametrize("whole", [True, False])
async def test_what_was_looked_at_in_memory_leaves_it_when_the_budget_asks(tmp_path: Path, whole: bool) -> None:
    async with deep_broker(tmp_path, budget=8 * MIB) as deep:
        await deep.declare("q")
        await deep.declare("other")
        await deep.publish(range(4500))
        await deep.settled()
        sample = Sample(deep.queue(), select(everything=True), None, 4500 if whole else 1)
        while not sample.step(deep.clock()) and whole:
            pass
        assert sample.looked == (4500 if whole else 0)
        assert deep.queue().statistics().messages_paged == 0
        del sample
        await deep.publish(range(12_000), "other")
        await deep.settled()
        assert deep.queue().statistics().messages_paged > 1000
        assert deep.broker.pager is not None
        assert not deep.broker.pager.budget.exceeded()
        assert await deep.drained() == list(range(4500))


async def test_what_a_first_time_to_live_read_in_becomes_rows_again(tmp_path: Path) -> None:
    async with deep_broker(tmp_path, budget=MIB) as deep:
        await deep.declare("q")
        await deep.publish(range(6000))
        await deep.settled()
        deep.broker.hosts["/"].policies.set("times", "^q$", {"message-ttl": 10**9})
        assert deep.queue().settings.message_ttl == 10**9
        assert deep.queue().statistics().messages_paged == 0
        await deep.publish(range(6000, 6005))
        await deep.settled()
        assert deep.queue().statistics().messages_paged == 6005 - KEEP_MESSAGES
        deep.clock.advance(10**9)
        deep.queue().tick(deep.clock())
        await deep.settled()
        assert deep.queue().statistics().pending_count == 0
