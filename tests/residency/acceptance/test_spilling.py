"""A23: transient messages beyond the budget go to disk and come back in order, and the space is given back."""

from __future__ import annotations

import errno
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from pamqp import commands

from annulet import testing
from annulet.broker.broker import Broker
from annulet.core.paging.paged_fifo import KEEP_BYTES
from annulet.residency.bodies.budget import MIB
from annulet.store.files.files import OsFile
from annulet.store.spill.spill import SpillStore
from tests.broker.amqp091.peer import Peer, publish, turns
from tests.residency.acceptance.deep import Deep, body_of, deep_broker

QUEUE, BASIC, TX = commands.Queue, commands.Basic, commands.Tx
SIZE = 16 << 10
COUNT = 200
KEPT = KEEP_BYTES // SIZE + 1


def spill_of(broker: Broker) -> SpillStore:
    assert broker.pager is not None
    assert broker.pager.spill is not None
    return broker.pager.spill


async def rest(deep: Deep) -> None:
    """Return when nothing is being written, moved or removed, and what was given back is known."""
    pager = deep.broker.pager
    assert pager is not None
    for _ in range(3):
        deep.tick()
        while pager.run():
            await turns()
        await pager.idle()
        await turns()
    deep.check()


async def fill(deep: Deep, name: str = "q", count: int = COUNT, **options: object) -> None:
    await deep.publish(range(count), name, size=SIZE, durable=False, **options)
    await rest(deep)


def away(deep: Deep) -> int:
    assert deep.broker.pager is not None
    return deep.broker.pager.bodies_away[0]


async def declare(deep: Deep, name: str, *, durable: bool = False, **arguments: object) -> Peer:
    peer = await Peer(deep.broker).open(1)
    given = {key.replace("_", "-"): value for key, value in arguments.items()}
    await peer.send(1, QUEUE.Declare(queue=name, durable=durable, arguments=given))
    return peer


@pytest.mark.parametrize("durable", [True, False], ids=["durable queue", "queue that is not durable"])
async def test_a23_transient_messages_beyond_the_budget_wait_on_disk(deep: Deep, durable: bool) -> None:
    await declare(deep, "spilling", durable=durable)
    await fill(deep, "spilling")
    pager, spill = deep.broker.pager, spill_of(deep.broker)
    assert pager is not None
    assert pager.budget.used <= MIB + SIZE + COUNT * 640
    assert away(deep) >= COUNT - KEPT
    assert spill.used >= away(deep) * SIZE
    assert await deep.drained("spilling") == list(range(COUNT))
    await rest(deep)
    assert (spill.used, spill.bodies, away(deep), pager.drift) == (0, 0, 0, 0)
    assert list((deep.broker.configuration.data_directory / "spill").iterdir()) == []


async def test_producers_wait_for_nothing_while_bodies_are_written(deep: Deep) -> None:
    """The far end goes: what came first is served from memory, without a read."""
    await fill(deep)
    read = deep.paging.bodies_read
    consumer = await deep.consumer(prefetch=KEPT - 2)
    assert await consumer.all(KEPT - 2) == list(range(KEPT - 2))
    assert deep.paging.bodies_read == read
    await consumer.leave()
    assert await deep.drained() == list(range(COUNT))


async def test_persistent_and_transient_messages_of_one_queue_keep_their_order(deep: Deep) -> None:
    for start in range(0, COUNT, 20):
        await deep.publish(range(start, start + 20), size=SIZE, durable=start % 40 == 0)
    await rest(deep)
    assert deep.queue().statistics().messages_paged > 0
    assert away(deep) > 0
    assert await deep.drained() == list(range(COUNT))


async def test_one_body_for_all_queues_until_the_last_is_done(deep: Deep) -> None:
    peer = await declare(deep, "first")
    await declare(deep, "second", durable=True)
    for name in ("first", "second"):
        await peer.send(1, QUEUE.Bind(queue=name, exchange="amq.fanout"))
    host, spill = deep.broker.hosts["/"], spill_of(deep.broker)
    await peer.send(1, *[publish(1, "", body_of(number, SIZE), exchange="amq.fanout") for number in range(COUNT)])
    await rest(deep)
    assert away(deep) >= 2 * (COUNT - KEPT)
    assert spill.bodies <= COUNT
    await peer.send(1, QUEUE.Purge(queue="first"))
    await rest(deep)
    assert host.queues["first"].order.count == 0
    assert spill.bodies >= COUNT - KEPT
    assert await deep.drained("second") == list(range(COUNT))
    await rest(deep)
    assert (spill.used, spill.bodies) == (0, 0)


async def test_dead_letters_of_spilled_messages_are_whole(deep: Deep) -> None:
    await declare(deep, "dying", x_dead_letter_exchange="", x_dead_letter_routing_key="q")
    await fill(deep, "dying", expires_at=deep.clock() + 1000)
    assert away(deep) > 0
    deep.clock.advance(2000)
    deep.broker.hosts["/"].tick(deep.clock())
    while deep.queue("dying").order.count or deep.broker.hosts["/"].dead_letters.waiting:
        await turns()
    await rest(deep)
    assert await deep.drained() == list(range(COUNT))


async def test_a_purge_gives_all_space_back_and_a_deletion_too(deep: Deep) -> None:
    peer = await declare(deep, "gone")
    await fill(deep)
    await fill(deep, "gone")
    spill = spill_of(deep.broker)
    assert spill.bodies > COUNT
    await peer.send(1, QUEUE.Purge(queue="q"), QUEUE.Delete(queue="gone"))
    while deep.broker.worker.waiting:
        await turns()
    await rest(deep)
    assert (spill.used, spill.bodies, away(deep)) == (0, 0, 0)


async def test_what_a_dead_consumer_held_comes_back_in_order_and_unread(deep: Deep) -> None:
    await fill(deep)
    consumer = await deep.consumer(prefetch=COUNT // 2)
    assert await consumer.all(COUNT // 2) == list(range(COUNT // 2))
    await rest(deep)
    assert away(deep) >= COUNT - KEPT - MIB // 8 // SIZE, "in delivery as well, but for an eighth of the share"
    written = spill_of(deep.broker).bodies_written
    read = deep.paging.bodies_read
    await consumer.leave()
    assert deep.paging.bodies_read == read
    assert await deep.drained() == list(range(COUNT))
    assert spill_of(deep.broker).bodies_written <= max(written, COUNT), "each is written once"


async def test_what_the_disk_refuses_stays_and_nothing_is_lost(deep: Deep, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(file: OsFile, buffers: Sequence[bytes], offset: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(OsFile, "write", refuse)
        host = deep.broker.hosts["/"]
        await deep.publish(range(COUNT), size=SIZE, durable=False)
        await rest(deep)
    assert (away(deep), host.queues["q"].order.count) == (0, COUNT)
    assert deep.paging.spill_refused > 0
    await rest(deep)
    assert away(deep) >= COUNT - KEPT, "as soon as the disk takes them"
    assert await deep.drained() == list(range(COUNT))


@pytest.fixture
async def limited(tmp_path: Path) -> AsyncIterator[Deep]:
    async with testing.broker(
        http=False, data_dir=tmp_path / "data", body_budget_bytes=MIB, spill_limit_bytes=2 * MIB
    ) as running:
        yield Deep(running.broker, running.broker.clock)


async def test_a_full_spill_store_leaves_the_rest_in_memory(limited: Deep) -> None:
    await limited.declare("q")
    await fill(limited)
    spill = spill_of(limited.broker)
    assert MIB < spill.used <= 2 * MIB
    assert limited.paging.spill_refused > 0
    assert limited.queue().order.count == COUNT
    assert await limited.drained() == list(range(COUNT))


async def test_transactions_browsers_and_leases_see_whole_messages(deep: Deep) -> None:
    peer = await declare(deep, "transacted")
    await peer.send(1, TX.Select())
    await peer.send(1, *[publish(1, "transacted", body_of(number, SIZE)) for number in range(COUNT)])
    await peer.send(1, TX.Commit())
    await rest(deep)
    assert away(deep) >= COUNT - KEPT
    browser = await deep.consumer("transacted", prefetch=COUNT, x_browse="snapshot")
    assert await browser.all(COUNT) == list(range(COUNT))
    await browser.leave()
    assert away(deep) >= COUNT - KEPT, "who looks takes nothing into memory"
    taken = deep.queue("transacted").acquire(COUNT, -1, deep.clock())
    await rest(deep)
    assert [int(entry.message.body[:12]) for entry in taken] == list(range(COUNT))
    assert not any(entry.message.absent for entry in taken), "what was pulled is read when its holder likes"


async def test_a_restart_forgets_what_was_spilled(tmp_path: Path) -> None:
    (tmp_path / "data" / "spill").mkdir(parents=True)
    (tmp_path / "data" / "spill" / "00000007.spill").write_bytes(b"of a broker that was killed")
    async with deep_broker(tmp_path / "data") as deep:
        assert spill_of(deep.broker).used == 0
        await deep.declare("q")
        await fill(deep)
        assert spill_of(deep.broker).used > 0
    assert list((tmp_path / "data" / "spill").iterdir()) == []


async def test_nothing_is_spilled_where_that_is_switched_off(tmp_path: Path) -> None:
    async with testing.broker(
        http=False, data_dir=tmp_path / "data", body_budget_bytes=MIB, spill_limit_bytes=0
    ) as running:
        deep = Deep(running.broker, running.broker.clock)
        await deep.declare("q")
        await fill(deep)
        assert running.broker.pager is not None
        assert (running.broker.pager.spill, away(deep)) == (None, 0)
        assert await deep.drained() == list(range(COUNT))
