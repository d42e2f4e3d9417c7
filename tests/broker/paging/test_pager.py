"""Deep backlogs in a broker with a small budget: little stays in memory, and nobody but the memory notices."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from types import FrameType

import pytest
from pamqp import commands

import annulet
from annulet import _build, testing
from annulet.broker.broker import Broker
from annulet.broker.paging import pager as pager_module
from annulet.broker.paging.pager import CHUNK, DEEP_LATE, SLICE, Pager
from annulet.core.base.errors import PreconditionFailed
from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.settings import QueueSettings
from annulet.core.base.sliced_work import SLICE_MESSAGES
from annulet.core.paging.paged_fifo import KEEP_MESSAGES, PagedFifo
from annulet.core.paging.row_conditions import ENTRY_BYTES
from annulet.core.policies.matchers import FOUND_MESSAGES
from annulet.core.queue.queue import Queue
from annulet.core.queue.queue_scan import Scan
from annulet.residency.bodies.budget import MIB
from annulet.testing.clock import VirtualClock
from tests.broker.amqp091.peer import Peer, bodies, persistent, turns
from tests.broker.conftest import leave
from tests.broker.restarts import crash, queue_of

QUEUE, BASIC = commands.Queue, commands.Basic
COUNT = 2500
SIZE = 1024


def body(number: int) -> bytes:
    return b"%0*d" % (SIZE, number)


@pytest.fixture(scope="module")
def backlog(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with a deep queue, left as after a kill; tests work on copies."""
    return tmp_path_factory.mktemp("backlog")


@pytest.fixture
async def broker(tmp_path: Path, backlog: Path) -> AsyncIterator[Broker]:
    """A broker with 2,500 messages of 1 KiB in ``q``, that were published to another one which was killed."""
    copy = backlog / "data"
    if not copy.exists():
        async with testing.broker(
            http=False, data_dir=backlog / "first", clock=VirtualClock(), body_budget_bytes=MIB
        ) as running:
            await fill(running.broker)
            await crash(running.broker, backlog / "first", copy)
            leave(running.broker)
    shutil.copytree(copy, tmp_path / "data")
    async with testing.broker(
        http=False, data_dir=tmp_path / "data", clock=VirtualClock(), body_budget_bytes=MIB
    ) as running:
        yield running.broker
        leave(running.broker)


async def fill(broker: Broker, first: int = 0, count: int = COUNT, name: str = "q") -> None:
    peer = await Peer(broker).open(1)
    await peer.send(1, QUEUE.Declare(queue=name, durable=True))
    for start in range(first, first + count, 250):
        await peer.send(1, *(persistent(1, name, body(number)) for number in range(start, start + 250)))
        await broker.commit.durable()
    await turns()


async def settled(broker: Broker) -> Queue:
    """Return the deep queue when everything is written and paged."""
    await broker.commit.durable()
    pager = broker.pager
    assert pager is not None
    while pager.run():
        await turns()
    return queue_of(broker)


async def drained(broker: Broker, name: str = "q") -> list[int]:
    """Return what a consumer gets, which acknowledges all."""
    peer = await Peer(broker).open(1)
    await peer.send(1, BASIC.Qos(prefetch_count=300), BASIC.Consume(queue=name))
    found: list[int] = []
    while True:
        frames = await peer.take()
        got = bodies(frames)
        if not got:
            await broker.commit.durable()
            return found
        found += [int(content) for content in got]
        tags = [item.delivery_tag for item in frames if isinstance(item, BASIC.Deliver)]
        await peer.send(1, BASIC.Ack(tags[-1], multiple=True))


@pytest.mark.skipif(_build.compiled(), reason="compiled functions are not seen by a profile function")
async def test_a_pass_with_nothing_to_do_asks_three_times(tmp_path: Path) -> None:
    """It follows each window of the log, also where no queue is deep."""
    rooms: list[str] = []
    package = Path(annulet.__file__).parent

    def profile(frame: FrameType, event: str, argument: object) -> None:
        caller = frame.f_back
        if event == "call" and caller is not None and Path(caller.f_code.co_filename).is_relative_to(package):
            called, calling = (Path(one.f_code.co_filename).parent for one in (frame, caller))
            if called != calling:
                rooms.append(f"{called.name}: {frame.f_code.co_qualname}")

    async with testing.broker(http=False, data_dir=tmp_path, clock=VirtualClock()) as running:
        pager = running.broker.pager
        assert pager is not None
        peer = await Peer(running.broker).open(1)
        await peer.send(1, QUEUE.Declare(queue="q", durable=True))
        await peer.send(1, persistent(1, "q", b"small"))
        await running.broker.commit.durable()
        sys.setprofile(profile)
        try:
            pager.window_written()
        finally:
            sys.setprofile(None)
        leave(running.broker)
    assert len(rooms) <= 3, rooms


async def test_a_deep_queue_takes_little_memory_and_is_delivered_in_order(broker: Broker) -> None:
    queue = await settled(broker)
    figures = queue.statistics()
    assert (figures.pending_count, figures.pending_bytes) == (COUNT, COUNT * SIZE)
    assert figures.messages_paged == COUNT - KEEP_MESSAGES
    assert broker.pager is not None
    assert broker.pager.queues_paging == 1
    assert await drained(broker) == list(range(COUNT))
    assert broker.pager.figures.loaded == COUNT - KEEP_MESSAGES
    figures = queue.statistics()
    assert (figures.message_count, figures.pending_bytes, figures.messages_paged) == (0, 0, 0)
    assert figures.messages_added == sum(figures.removed.values())
    assert broker.log.statistics().live_records == 0
    broker.pager.tick(broker.clock())
    assert (broker.pager.queues_paging, broker.pager.budget.used) == (0, 0)


async def test_a_queue_pages_while_it_is_filled_and_drained(broker: Broker) -> None:
    queue = await settled(broker)
    peer = await Peer(broker).open(1)
    await peer.send(1, BASIC.Qos(prefetch_count=100), BASIC.Consume(queue="q"))
    found: list[int] = []
    for start in range(COUNT, COUNT + 2000, 250):
        await fill(broker, start, 250)
        frames = await peer.take()
        found += [int(content) for content in bodies(frames)]
        tags = [item.delivery_tag for item in frames if isinstance(item, BASIC.Deliver)]
        await peer.send(1, BASIC.Ack(tags[-1], multiple=True))
        assert queue.order.count - queue.order.paged_count() <= KEEP_MESSAGES + CHUNK
    found += [int(content) for content in bodies(await peer.take())]
    peer.connection.abort()
    await turns()
    rest = await drained(broker)
    assert found == list(range(len(found)))
    assert rest == list(range(len(found) - 100, COUNT + 2000)), "with what was not acknowledged"


async def test_deliveries_that_come_back_go_first(broker: Broker) -> None:
    queue = await settled(broker)
    peer = await Peer(broker).open(1)
    await peer.send(1, BASIC.Qos(prefetch_count=2400), BASIC.Consume(queue="q"))
    assert len(bodies(await peer.take())) == 2400
    assert queue.order.first_sequence() == 2401
    peer.connection.abort()
    await turns()
    other = await Peer(broker).open(1)
    await other.send(1, BASIC.Qos(prefetch_count=2450), BASIC.Consume(queue="q"))
    broker.worker.finish()  # more came back than goes in one turn
    frames = await other.take()
    assert [int(content) for content in bodies(frames)] == list(range(2450))
    marks = [item.redelivered for item in frames if isinstance(item, BASIC.Deliver)]
    assert marks == [True] * 2450  # the crash before the test has marked all
    assert {entry.delivery_count for entry in queue.delivering} == {0, 1}
    other.connection.abort()
    await turns()
    assert await drained(broker) == list(range(COUNT))


async def test_a_consumer_with_a_selector_sees_everything(broker: Broker) -> None:
    await settled(broker)
    peer = await Peer(broker).open(1)
    await peer.send(1, BASIC.Qos(prefetch_count=10))
    await peer.send(1, BASIC.Consume(queue="q", arguments={"x-selector": "absent IS NULL"}))
    assert [int(content) for content in bodies(await peer.take())] == list(range(10))
    assert queue_of(broker).statistics().messages_paged >= COUNT - KEEP_MESSAGES - FOUND_MESSAGES
    peer.connection.abort()
    await turns()
    assert await drained(broker) == list(range(COUNT))


async def test_a_browser_sees_everything_and_takes_nothing(broker: Broker) -> None:
    queue = await settled(broker)
    assert [int(entry.message.body) for entry in queue.browse()] == list(range(COUNT))
    assert await drained(broker) == list(range(COUNT))


async def test_entries_of_a_running_scan_stay_while_others_page(broker: Broker) -> None:
    queue = await settled(broker)
    scan = Scan(queue, pending=True, scheduled=False)
    await fill(broker, COUNT, 3000)
    await settled(broker)
    assert queue.statistics().messages_paged > 2000
    while not scan.prepare(1000):
        pass
    seen = 0
    while (entry := scan.following()) is not None:
        seen += queue.remove(entry, RemovalReason.DELETED, broker.clock())
    assert seen == COUNT
    assert await drained(broker) == list(range(COUNT, COUNT + 3000))


async def test_gets_and_leases_take_what_is_next(broker: Broker) -> None:
    queue = await settled(broker)
    now = broker.clock()
    taken = queue.acquire(2000, -1, now)
    assert [int(entry.message.body) for entry in taken] == list(range(2000))
    queue.return_entries(taken[1000:], now)
    for entry in taken[:1000]:
        queue.acknowledge(entry)
    assert await drained(broker) == list(range(1000, COUNT))


async def test_a_purge_leaves_nothing(broker: Broker) -> None:
    queue = await settled(broker)
    assert queue.purge(broker.clock()) == COUNT
    figures = queue.statistics()
    assert (figures.message_count, figures.pending_bytes, figures.messages_paged) == (0, 0, 0)
    assert figures.removed == {"purged": COUNT}
    assert broker.worker.waiting == 1
    while broker.worker.waiting:
        await turns()
    losses = list(broker.hosts["/"].ledger.query())
    assert [loss.sequence for loss in losses] == list(range(1, COUNT + 1))
    assert {loss.size for loss in losses} == {SIZE}
    await broker.commit.durable()
    await broker.commit.maintain()
    assert broker.log.statistics().live_records == 0


async def test_a_purge_that_answered_survives_a_crash_and_takes_nothing_else(broker: Broker, tmp_path: Path) -> None:
    """The crash comes before the first slice. What was in delivery, and what came afterwards, is all there is."""
    queue = await settled(broker)
    held = queue.acquire(1100, -1, broker.clock())
    queue.return_entries(held[5:], broker.clock())
    broker.worker._turn = lambda: None  # type: ignore[method-assign]
    peer = await Peer(broker).open(1)
    await peer.send(1, QUEUE.Purge(queue="q"))
    await broker.commit.durable()
    (answer,) = await peer.take()
    assert answer.message_count == COUNT - 5
    assert (queue.order.count, broker.worker.waiting) == (0, 1)
    await fill(broker, COUNT, 250)
    await crash(broker, tmp_path / "data", tmp_path / "copy")
    async with testing.broker(http=False, data_dir=tmp_path / "copy", body_budget_bytes=MIB) as running:
        assert await drained(running.broker) == [*range(5), *range(COUNT, COUNT + 250)]
        assert running.broker.log.statistics().live_records == 0
        leave(running.broker)


async def test_a_purge_survives_a_crash_that_has_seen_a_checkpoint(broker: Broker, tmp_path: Path) -> None:
    queue = await settled(broker)
    broker.log.hold_sweeps()
    assert queue.purge(broker.clock()) == COUNT
    await broker.commit.durable()
    task = broker.log.maintenance(checkpoint=True)
    while task is not None:  # none of them is a sweep
        task.run()
        broker.log.finish(task)
        task = broker.log.maintenance()
    assert broker.log.statistics().live_records == COUNT
    await crash(broker, tmp_path / "data", tmp_path / "copy")
    async with testing.broker(http=False, data_dir=tmp_path / "copy", body_budget_bytes=MIB) as running:
        assert queue_of(running.broker).order.count == 0
        leave(running.broker)


async def test_a_deleted_queue_leaves_nothing(broker: Broker) -> None:
    queue = await settled(broker)
    assert broker.hosts["/"].delete_queue(queue, broker.clock()) == COUNT
    assert "q" not in broker.hosts["/"].queues
    await fill(broker, count=250)  # the name is free
    assert broker.hosts["/"].delete_queue(queue_of(broker), broker.clock()) == 250
    broker.worker.finish()
    await broker.commit.durable()
    await broker.commit.maintain()
    assert broker.log.statistics().live_records == 0
    assert broker.pager is not None
    broker.pager.tick(broker.clock())
    assert broker.pager.queues_paging == 0


@pytest.mark.parametrize(
    ("settings", "left"),
    [
        (QueueSettings(ring_size=1000, ring_trim_now=True), range(COUNT - 1000, COUNT)),
        (QueueSettings(max_length=1500, overflow="ring"), range(COUNT - 1500, COUNT)),
        (QueueSettings(max_length=1500, overflow="ring", evict="newest"), range(1500)),
        (QueueSettings(max_length=1500, overflow="page"), range(COUNT)),
        (QueueSettings(message_ttl=1000), range(COUNT)),
    ],
)
async def test_changed_settings_hold_for_what_is_on_disk(broker: Broker, settings: QueueSettings, left: range) -> None:
    queue = await settled(broker)
    queue.update(settings, broker.clock())
    assert await drained(broker) == list(left)


async def test_a_time_to_live_given_later_expires_what_was_on_disk(broker: Broker) -> None:
    queue = await settled(broker)
    queue.update(QueueSettings(message_ttl=1000), broker.clock())
    assert queue.expire(broker.clock() + 2000) == SLICE_MESSAGES
    queue.finish_slices(broker.clock() + 2000)
    assert queue.statistics().removed == {"expired": COUNT}


async def test_what_was_acknowledged_stays_away_over_a_crash(broker: Broker, tmp_path: Path) -> None:
    queue = await settled(broker)
    for entry in queue.acquire(1200, -1, broker.clock()):
        queue.acknowledge(entry)
    await crash(broker, tmp_path / "data", tmp_path / "copy")
    async with testing.broker(http=False, data_dir=tmp_path / "copy", body_budget_bytes=MIB) as running:
        figures = queue_of(running.broker).statistics()
        assert (figures.pending_count, figures.pending_bytes) == (COUNT - 1200, (COUNT - 1200) * SIZE)
        assert figures.messages_paged >= COUNT - 1200 - KEEP_MESSAGES
        assert [*queue_of(running.broker).order.page_parts()[0].redelivered_ranges()][-1][1] == COUNT
        assert await drained(running.broker) == list(range(1200, COUNT))
        leave(running.broker)


async def test_a_damaged_record_is_left_out_and_said(broker: Broker, tmp_path: Path) -> None:
    queue = await settled(broker)
    (segment,) = (tmp_path / "data" / "messages").glob("*.segment")
    data = bytearray(segment.read_bytes())
    place = data.index(body(2000))
    data[place : place + 4] = b"----"
    segment.write_bytes(data)
    assert await drained(broker) == [number for number in range(COUNT) if number != 2000]
    figures = queue.statistics()
    assert (figures.messages_unreadable, figures.message_count, figures.pending_bytes) == (1, 0, 0)
    assert figures.messages_added == sum(figures.removed.values())
    assert broker.log.statistics().live_records == 1, "the record stays in the log"


async def test_a_disk_that_refuses_for_a_while_delays(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = await settled(broker)
    pager = broker.pager
    assert pager is not None
    with monkeypatch.context() as patch:
        patch.setattr(broker.log, "messages", refuse)
        found = await drained(broker)
        assert found == list(range(KEEP_MESSAGES))
        pager.tick(broker.clock())
    assert queue.order.count == COUNT - KEEP_MESSAGES
    assert pager.figures.postponed > 0
    for connection in list(broker.connections):
        connection.abort()
    await turns()
    pager.tick(broker.clock())
    assert await drained(broker) == list(range(KEEP_MESSAGES, COUNT))


def refuse(*asked_for: object) -> None:
    raise OSError(5, "Input/output error")


async def test_messages_of_an_undone_transaction_are_no_rows(broker: Broker) -> None:
    queue = await settled(broker)
    effects = broker.hosts["/"].effects
    effects.begin_transaction()
    held, message = Scan(queue, pending=True, scheduled=False), queue.browse()[0].message
    sample = type(message)(message.header, body(COUNT), message.origin, durable=True)
    effects.store(sample, [queue.enqueue(sample, broker.clock())])
    transaction = effects.suspend_transaction()
    await fill(broker, COUNT + 1, 1250)
    await settled(broker)
    assert queue.statistics().messages_paged == 0, "nothing behind it pages either"
    held.release()
    effects.resume_transaction(transaction)
    effects.abort_transaction()
    await fill(broker, COUNT + 1251, 250)
    await settled(broker)
    assert queue.statistics().messages_paged > 1000
    assert await drained(broker) == list(range(COUNT + 1501))


async def test_a_broker_in_memory_has_no_pager() -> None:
    async with testing.broker(http=False) as running:
        assert running.broker.pager is None


def over_budget(broker: Broker, monkeypatch: pytest.MonkeyPatch, **bounds: float) -> tuple[Queue, Pager]:
    """Return a queue with everything in memory and a new pager that has noted it, whose bounds are these."""
    queue = queue_of(broker)
    queue.order.entries()
    for name, value in bounds.items():
        monkeypatch.setattr(pager_module, name, value)
    pager = Pager(broker.log, broker.loop, MIB, broker.memory.left, broker.clock)
    pager.note(queue)
    return queue, pager


async def test_a_long_way_to_the_budget_is_gone_in_slices(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    queue, pager = over_budget(broker, monkeypatch, CHUNK=300, SLICE=600, SLICE_SECONDS=60)
    assert pager.run() is True
    assert queue.order.paged_count() == 600
    for _ in range(2):  # what comes for a slice that is due is no other one in the same turn
        pager.window_written()
        assert queue.order.paged_count() == 1200
    await turns()
    assert queue.order.paged_count() == COUNT - KEEP_MESSAGES


async def test_paging_leaves_the_loop_when_its_time_is_up(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    queue, pager = over_budget(broker, monkeypatch, CHUNK=300, SLICE_SECONDS=0, OWED_SECONDS=60)
    assert pager.run() is True
    assert queue.order.paged_count() == 300, "what others computed before there was something to page does not count"
    pager._worked = time.thread_time() - 60  # others took a minute
    assert pager.run() is False
    assert queue.order.paged_count() == COUNT - KEEP_MESSAGES


async def test_paging_gets_as_long_as_others_in_many_slices(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    queue, pager = over_budget(broker, monkeypatch, CHUNK=300, SLICE_SECONDS=0, OWED_SECONDS=0)
    assert pager.run() is True
    pager._worked = time.thread_time() - 60  # others took a minute
    for slices in (2, 3):
        assert pager.run() is True
        assert queue.order.paged_count() == 300 * slices, "whatever they took, one turn is no longer for it"
    monkeypatch.setattr(pager_module, "OWED_SECONDS", 60)
    assert pager.run() is False
    assert queue.order.paged_count() == COUNT - KEEP_MESSAGES, "they have not taken anything since"


@pytest.mark.parametrize("left", [DEEP_LATE, DEEP_LATE - 1])
async def test_a_far_deeper_queue_keeps_few(broker: Broker, monkeypatch: pytest.MonkeyPatch, left: int) -> None:
    queue = await settled(broker)
    pager = broker.pager
    assert pager is not None
    pager.budget.limit = 64 * MIB
    late = 500
    await fill(broker, COUNT, late)
    rows = COUNT - KEEP_MESSAGES
    pager.note(queue)
    assert pager.run() is False
    assert queue.order.paged_count() == rows, "1.5 MiB are not four shares of 64 MiB: there is room for what came"
    monkeypatch.setattr(pager_module, "DEEP_SHARES", 0)
    monkeypatch.setattr(pager_module, "CHUNK", late - left)
    for paged in (rows + late - left, rows + (late - left) * (1 + (left == DEEP_LATE))):
        pager.note(queue)
        assert pager.run() is False
        assert queue.order.paged_count() == paged
    assert await drained(broker) == list(range(COUNT + late))


async def test_one_run_pages_a_slice(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    queue, pager = over_budget(broker, monkeypatch, SLICE_SECONDS=60)
    assert SLICE > COUNT
    assert pager.run() is False
    assert queue.order.paged_count() == COUNT - KEEP_MESSAGES
    pager.window_written()
    assert pager.figures.paged_out == 0, "rows of pages that another pager made count there"


async def test_a_look_at_the_first_messages_does_not_bring_in_the_rest(broker: Broker) -> None:
    queue = await settled(broker)
    assert Scan(queue, pending=True, scheduled=False, leading=50).whole is False
    assert queue.statistics().messages_paged == COUNT - KEEP_MESSAGES
    assert await drained(broker) == list(range(COUNT))
    assert Scan(queue, pending=True, scheduled=False, leading=50).whole is True


async def test_what_has_nothing_to_page_is_asked_once(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = await settled(broker)
    pager = broker.pager
    assert pager is not None
    assert pager.budget.exceeded(), "its front alone is over the budget"
    asked: list[Queue] = []

    def page_out(queue: Queue, durable: int) -> int:
        del durable
        asked.append(queue)
        return 0

    monkeypatch.setattr(pager, "_page_out", page_out)
    pager.tick(broker.clock())
    for _ in range(5):
        assert pager.run() is False
    assert asked == [queue]
    pager.note(queue)
    assert pager.run() is False
    assert asked == [queue, queue], "a message came"
    pager.tick(broker.clock())
    assert asked == [queue, queue, queue]


# ---------------------------------------------------------------------- deeper than memory


async def test_who_needs_all_of_a_deeper_queue_is_refused(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = await settled(broker)
    monkeypatch.setattr(broker.memory, "left", lambda: SIZE)
    monkeypatch.setattr(broker.pager.store, "room", broker.memory.left)
    assert isinstance(queue.order, PagedFifo)
    monkeypatch.setattr(queue.order.pages, "_room", broker.memory.left)
    with pytest.raises(PreconditionFailed, match=r"a snapshot has to read all of it, .* raise memory_limit"):
        queue.browse()
    await turns()
    assert (queue.consumers.count, queue.statistics().messages_paged) == (0, COUNT - KEEP_MESSAGES)
    assert await drained(broker) == list(range(COUNT))


async def test_readers_are_let_in_as_soon_as_memory_takes_it(broker: Broker) -> None:
    queue = await settled(broker)
    assert isinstance(queue.order, PagedFifo)
    pages = queue.order.pages
    needed = pages.bytes + pages.rows * ENTRY_BYTES
    assert pages.room() <= broker.memory.limit
    for room, refused in ((needed - 1, True), (needed, False)):
        pages._room = lambda room=room: room  # type: ignore[attr-defined]
        assert bool(queue.order.reading_refusal()) is refused
