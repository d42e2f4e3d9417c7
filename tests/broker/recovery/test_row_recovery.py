"""A broker that starts from segment indexes has what one has that reads every message: queue by queue, to the byte."""

from __future__ import annotations

import shutil
from array import array
from pathlib import Path
from typing import Any

import pytest
from pamqp import commands

from annulet import testing
from annulet.broker.broker import CATALOGUE_FILE, Broker
from annulet.broker.recovery.recovery import MessageRestorer
from annulet.broker.recovery.row_recovery import ROWS_PER_READ
from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.paging.paged_fifo import KEEP_MESSAGES
from annulet.core.paging.redelivered_ranges import redelivered_ranges
from annulet.core.queue.queue import Queue
from annulet.residency.bodies.budget import MIB
from annulet.store.database.catalogue import Catalogue
from annulet.store.database.definitions import LeaseRange, LeaseRecord
from annulet.store.database.history import History
from annulet.store.segments.interface import NO_PRIORITY, RecoveredRows
from annulet.testing.clock import VirtualClock
from tests.broker.amqp091.peer import Peer, bodies, persistent, turns
from tests.broker.restarts import crash, leave, publish_all, queue_of, send_with_id

QUEUE, BASIC, EXCHANGE = commands.Queue, commands.Basic, commands.Exchange
COUNT = 2000
SIZE = 1024
SEEN = 1200
"""Messages of ``deep`` that a consumer had: more than its front holds, so that some come back that would be rows."""

LIFE = 10_000_000
"""Milliseconds that messages of ``ring`` have."""

QUEUES: dict[str, dict[str, Any]] = {
    "deep": {},
    "ring": {"x-ring-size": 1900, "x-message-ttl": LIFE},
    "small": {},
    "ranked": {"x-max-priority": 9},
    "latest": {"x-last-value-key": "key"},
    "aging": {"x-message-ttl": 10_000_000},
    "grouped": {"x-group-mode": "sticky"},
}


def body(number: int) -> bytes:
    return b"%0*d" % (SIZE, number)


async def fill(broker: Broker) -> None:
    """Every kind of queue and message, alternating in the log, and some that a consumer has seen or settled."""
    peer = await Peer(broker).open(1)
    await peer.send(1, EXCHANGE.Declare(exchange="all", exchange_type="fanout", durable=True))
    for name, arguments in QUEUES.items():
        await peer.send(1, QUEUE.Declare(queue=name, durable=True, arguments=arguments))
    await peer.send(1, QUEUE.Bind(queue="deep", exchange="all"), QUEUE.Bind(queue="ring", exchange="all"))
    for start in range(0, COUNT, 250):
        batch = [persistent(1, "deep", body(number)) for number in range(start, start + 250)]
        batch += [persistent(1, "ring", b"%d" % number) for number in range(start, start + 250)]
        batch.append(persistent(1, "", b"to all", exchange="all"))
        batch.append(persistent(1, "deep", b"expires", expiration="100000000"))
        batch.append(persistent(1, "deep", b"later", headers={"x-delay": 50_000}))
        batch += [ranked(number) for number in range(start, start + 250)]
        batch += [grouped(number) for number in range(start, start + 200)]
        for name in ("small", "latest", "aging"):
            batch.append(
                persistent(1, name, b"%s %d" % (name.encode(), start), headers={"key": "k"}, priority=start % 7)
            )
        await publish_all(broker, peer, *batch)
    await peer.send(1, BASIC.Qos(prefetch_count=SEEN), BASIC.Consume(queue="deep"))
    frames = await peer.take()
    tags = [item.delivery_tag for item in frames if isinstance(item, BASIC.Deliver)]
    assert len(tags) == SEEN
    await peer.send(1, *(BASIC.Ack(tag) for tag in tags[:60:3]))
    await broker.commit.durable()
    await leave(peer)  # the others come back
    await turns()


def ranked(number: int) -> bytes:
    """A message of one of eight levels; the lowest has those whose sender said nothing, the fifth those with a 4."""
    given = {} if number % 8 == 0 else {"priority": number % 8}
    return persistent(1, "ranked", b"%d" % number, **given)


def grouped(number: int) -> bytes:
    """A message of the group that is first, or of one of four that come later."""
    return persistent(1, "grouped", b"%d" % number, headers={"group-id": group_of(number)})


def group_of(number: int) -> str:
    return "first" if number < COUNT // 2 else f"group {number % 4}"


def state(queue: Queue) -> dict[str, Any]:
    """Everything a start restores of a queue, as it is before anybody looks at a message; then the messages."""
    found: dict[str, Any] = {
        "count": queue.order.count,
        "bytes": queue.pending_bytes,
        "next": queue.next_sequence,
        "scheduled": queue.schedule.count,
        "counters": queue.counters.as_dict(),
        "redelivered": redelivered_ranges(queue).lengths(),
        "first": queue.order.first_sequence(),
    }
    found["entries"] = [
        (
            entry.sequence,
            entry.message.body,
            entry.message.header,
            entry.message.priority,
            entry.message.accepted_at,
            entry.message.expires_at,
            entry.message.record,
            entry.message.origin.exchange,
            entry.message.origin.routing_key,
            entry.message.origin.publisher,
            entry.message.origin.view.name,
            entry.redelivered,
            entry.delivery_count,
        )
        for entry in queue.browse()
    ]
    return found


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory, left by a clean stop when a test asks for it first; tests work on copies."""
    return tmp_path_factory.mktemp("stopped")


async def left(folder: Path, copy: Path, *, clean: bool) -> Path:
    """Return a copy of the directory a broker left in good order, or of one that was killed after its next start."""
    if not (folder / "data").exists():
        async with testing.broker(http=False, data_dir=folder / "data", clock=VirtualClock()) as running:
            await fill(running.broker)
    shutil.copytree(folder / "data", copy)
    if clean:
        return copy
    killed = copy.with_name("killed")
    async with testing.broker(http=False, data_dir=copy, clock=VirtualClock(), body_budget_bytes=MIB) as running:
        send_with_id(running.broker, "one", b"with an id", key="deep")
        await crash(running.broker, copy, killed)
    return killed


async def states(directory: Path) -> tuple[dict[str, dict[str, Any]], int, int]:
    """Start there; return the state of all queues, how many segments were not read, and the rows of ``deep``."""
    async with testing.broker(http=False, data_dir=directory, clock=VirtualClock()) as running:
        broker = running.broker
        rows = queue_of(broker, "deep").order.paged_count()
        for name in ("ranked", "grouped"):
            assert (queue_of(broker, name).order.paged_count() > 0) is (rows > 0)
        found = {name: state(queue_of(broker, name)) for name in QUEUES}
        host = broker.hosts["/"]
        found["duplicates"] = {"known": host.publisher.duplicates.has("deep", "one")}
        return found, broker.log.report.indexed_segments, rows


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
async def test_same_as_read_one_by_one(tmp_path: Path, stopped: Path, clean: bool) -> None:
    directory = await left(stopped, tmp_path / "data", clean=clean)
    other = tmp_path / "other"
    shutil.copytree(directory, other)
    for index in (other / "messages").glob("*.index"):
        index.unlink()
    with_index, indexed, rows = await states(directory)
    one_by_one, nothing, none = await states(other)
    assert with_index == one_by_one
    assert (indexed > 0, nothing) == (True, 0)
    assert rows > COUNT - SEEN - 50
    assert none == 0, "all fits the budget, nothing had to page"
    entries = with_index["deep"]["entries"]
    assert len(entries) == COUNT + 16 - 20 + (not clean)
    assert sum(entry[-1] for entry in entries) > KEEP_MESSAGES, "deliveries are counted beyond the front"


async def test_rows_are_delivered_in_order_and_settled_for_good(tmp_path: Path, stopped: Path) -> None:
    directory = await left(stopped, tmp_path / "data", clean=True)
    for first in (True, False):
        async with testing.broker(http=False, data_dir=directory, clock=VirtualClock()) as running:
            broker = running.broker
            assert queue_of(broker, "ring").order.count == (1900 if first else 0)
            peer = await Peer(broker).open(1)
            await peer.send(1, BASIC.Qos(prefetch_count=500), BASIC.Consume(queue="ring"))
            found: list[bytes] = []
            while got := bodies(frames := await peer.take()):
                found += got
                tags = [item.delivery_tag for item in frames if isinstance(item, BASIC.Deliver)]
                await peer.send(1, BASIC.Ack(tags[-1], multiple=True))
            numbers = [int(content) for content in found if content != b"to all"]
            assert numbers == (list(range(COUNT - len(numbers), COUNT)) if first else [])
            await broker.commit.durable()
            await leave(peer)


async def test_rows_of_all_levels_are_delivered_by_priority(tmp_path: Path, stopped: Path) -> None:
    directory = await left(stopped, tmp_path / "data", clean=True)
    async with testing.broker(http=False, data_dir=directory, clock=VirtualClock()) as running:
        queue = queue_of(running.broker, "ranked")
        assert queue.order.paged_count() == COUNT - KEEP_MESSAGES
        peer = await Peer(running.broker).open(1)
        await peer.send(1, BASIC.Qos(prefetch_count=0), BASIC.Consume(queue="ranked", no_ack=True))
        numbers = [int(content) for content in bodies(await peer.take())]
        assert numbers == sorted(range(COUNT), key=lambda number: (-(number % 8), number))
        assert queue.order.count == queue.pending_bytes == 0
        await leave(peer)


async def test_groups_of_rows_go_on_behind_one_whose_owner_stalls(tmp_path: Path, stopped: Path) -> None:
    directory = await left(stopped, tmp_path / "data", clean=True)
    async with testing.broker(http=False, data_dir=directory, clock=VirtualClock()) as running:
        queue = queue_of(running.broker, "grouped")
        count = queue.order.count
        assert queue.order.paged_count() == count - KEEP_MESSAGES
        owner, other = await Peer(running.broker).open(1), await Peer(running.broker).open(1)
        await owner.send(1, BASIC.Qos(prefetch_count=1), BASIC.Consume(queue="grouped"))
        assert bodies(await owner.take()) == [b"0"]
        await other.send(1, BASIC.Qos(prefetch_count=0), BASIC.Consume(queue="grouped", no_ack=True))
        others = [number for start in range(COUNT // 2, COUNT, 250) for number in range(start, start + 200)]
        found: list[int] = []
        while len(found) < len(others):
            found += [int(content) for content in bodies(await other.take())]
            await turns()
        assert found == others
        assert queue.order.count == count - len(others) - 1
        await leave(owner)
        while queue.order.count:
            found += [int(content) for content in bodies(await other.take())]
            await turns()
        found += [int(content) for content in bodies(await other.take())]
        assert found[len(others) :] == [
            number for start in range(0, COUNT // 2, 250) for number in range(start, start + 200)
        ]
        await leave(other)


async def test_rows_expire_at_their_time_and_are_not_read_for_it(
    tmp_path: Path, stopped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, clock = await left(stopped, tmp_path / "data", clean=True), VirtualClock()
    async with testing.broker(http=False, data_dir=directory, clock=clock) as running:
        queue, host = queue_of(running.broker, "ring"), running.broker.hosts["/"]
        removed, size = queue.counters.bytes_removed, queue.pending_bytes
        assert queue.order.paged_count() > 0
        lost = {entry.sequence: entry.message for entry in queue.order.in_memory()}
        for refused in ("read", "messages"):
            monkeypatch.setattr(running.broker.log, refused, None)
        host.tick(clock() + LIFE - 1)
        assert queue.order.count == 1900
        host.tick(clock() + LIFE)
        queue.finish_slices(clock() + LIFE)
        assert (queue.order.count, queue.order.paged_count(), queue.pending_bytes) == (0, 0, 0)
        assert queue.counters.removed[RemovalReason.EXPIRED] == 1900
        assert queue.counters.bytes_removed == removed + size
        records = [record for record in host.ledger.query() if record.queue == "ring"][-1900:]
        assert [record.sequence for record in records] == sorted(record.sequence for record in records)
        for record in records:
            assert record.publisher
            assert (record.accepted_at, record.priority) == (clock(), 4)
            if record.sequence in lost:
                assert record.size == lost[record.sequence].size
        await running.broker.commit.durable()
    async with testing.broker(http=False, data_dir=directory, clock=VirtualClock()) as running:
        assert queue_of(running.broker, "ring").order.count == 0


@pytest.mark.parametrize("identified", [True, False])
async def test_what_the_history_does_not_know_is_read(tmp_path: Path, stopped: Path, identified: bool) -> None:
    """Without it every message may carry a duplicate id that nobody remembers, where any has one at all."""
    directory = await left(stopped, tmp_path / "data", clean=True)
    if identified:
        async with testing.broker(http=False, data_dir=directory, clock=VirtualClock()) as running:
            for number in range(1500):
                send_with_id(running.broker, f"id {number}", body(number), key="deep")
            await running.broker.commit.durable()
    (directory / "history.sqlite").unlink()
    History(directory / "history.sqlite").close()
    found, indexed, rows = await states(directory)
    assert indexed == 1 + identified
    assert found["deep"]["count"] == COUNT + 16 - 20 + 1500 * identified
    assert COUNT - KEEP_MESSAGES - 100 < rows < COUNT - KEEP_MESSAGES, "none of those with an id, nothing remembered"


def lease_messages(directory: Path, queue_id: int, held: list[int]) -> None:
    """Note in the catalogue of a broker that has stopped that a lease holds these sequences."""
    catalogue = Catalogue(directory / CATALOGUE_FILE)
    catalogue.set_lease(LeaseRecord("lease", "/", queue_id, 1, 0, 0, 0, len(held), "guest", generated=False))
    catalogue.add_lease_range("/", "lease", LeaseRange(1, len(held), array("Q", held).tobytes()))
    catalogue.close()


async def test_what_a_lease_holds_is_in_delivery_again_wherever_it_stood(tmp_path: Path, stopped: Path) -> None:
    directory = await left(stopped, tmp_path / "data", clean=True)
    async with testing.broker(http=False, data_dir=directory, clock=VirtualClock()) as running:
        queue = queue_of(running.broker, "ring")
        sequences = [entry.sequence for entry in queue.browse()]
        queue_id = queue.queue_id
    held = sorted([*sequences[1300:1310], *sequences[5:7], sequences[1500]])
    lease_messages(directory, queue_id, held)
    async with testing.broker(http=False, data_dir=directory, clock=VirtualClock()) as running:
        queue = queue_of(running.broker, "ring")
        assert queue.order.paged_count() > 0
        assert [entry.sequence for entry in queue.leased_entries()] == held
        waiting = [entry.sequence for entry in queue.browse() if entry.sequence not in held]
        assert waiting == [sequence for sequence in sequences if sequence not in held]
        assert queue.order.count == len(sequences) - len(held)


async def test_what_expires_on_disk_does_so_in_turn_after_a_restart_whoever_gave_it_its_time(tmp_path: Path) -> None:
    """As rows from the log's indexes, of which nothing is read: short lives are over, long ones not yet."""
    directory, clock = tmp_path / "data", VirtualClock()
    async with testing.broker(http=False, data_dir=directory, clock=clock, body_budget_bytes=MIB) as running:
        peer = await Peer(running.broker).open(1)
        await peer.send(1, QUEUE.Declare(queue="deep", durable=True))
        lives = [("1000", "5000", "")[number % 3] for number in range(2400)]
        for start in range(0, 2400, 300):
            batch = [
                persistent(1, "deep", body(number), **{"expiration": lives[number]} if lives[number] else {})
                for number in range(start, start + 300)
            ]
            await publish_all(running.broker, peer, *batch)
        await leave(peer)
    clock.advance(1000)
    async with testing.broker(http=False, data_dir=directory, clock=clock, body_budget_bytes=MIB) as running:
        queue, figures = queue_of(running.broker, "deep"), running.broker.pager.figures
        queue.tick(clock())
        await turns()
        assert queue.counters.removed[RemovalReason.EXPIRED] == 800
        assert (queue.order.count, figures.loads) == (1600, 0)
        assert queue.order.paged_count() > 800
        clock.advance(4000)
        queue.tick(clock())
        await turns()
        assert (queue.order.count, figures.loads) == (800, 0)
        assert [int(entry.message.body) for entry in queue.browse()] == list(range(2, 2400, 3))


async def test_rows_count_as_work_so_that_others_get_their_turn(tmp_path: Path) -> None:
    async with testing.broker(http=False, data_dir=tmp_path / "data", clock=VirtualClock()) as running:
        peer = await Peer(running.broker).open(1)
        await peer.send(1, QUEUE.Declare(queue="deep", durable=True))
        queue, pager = queue_of(running.broker, "deep"), running.broker.pager
        assert pager is not None
        rows = RecoveredRows(
            queue.queue_id,
            range(5 << 24, (5 << 24) + 1600),
            range(1, 1601),
            array("I", [2 * MIB]) * 1600,
            array("H", [0]) * 1600,
            [("", "deep", "guest", "amqp-0-9-1"), ("", "other", "guest", "of a later version")],
            duplicate_ids=False,
            priorities=array("H", [NO_PRIORITY]) * 1600,
            accepted_at=array("Q", [0]) * 1600,
            expires_at=array("Q", [0]) * 1600,
        )
        restorer = MessageRestorer(running.broker)
        assert restorer.row_restorer(pager).restore(rows) == 1 + 1600 // ROWS_PER_READ
        assert queue.order.paged_count() == 1599, "the first was looked for"
        queue.order.clear()
        await leave(peer)


async def test_a_purge_takes_all_rows_and_nothing_of_a_lease(tmp_path: Path, stopped: Path) -> None:
    """What came back as rows is purged by ranges of records, in which there are leased ones beyond the front."""
    directory = await left(stopped, tmp_path / "data", clean=True)
    async with testing.broker(http=False, data_dir=directory, clock=VirtualClock()) as running:
        queue = queue_of(running.broker, "ring")
        sequences, queue_id = [entry.sequence for entry in queue.browse()], queue.queue_id
    held = sequences[1300:1310]
    lease_messages(directory, queue_id, held)
    async with testing.broker(http=False, data_dir=directory, clock=VirtualClock()) as running:
        queue = queue_of(running.broker, "ring")
        assert queue.order.paged_count() > 0
        assert queue.purge(0) == len(sequences) - len(held)
        await running.broker.commit.durable()
        await crash(running.broker, directory, tmp_path / "killed")
    async with testing.broker(http=False, data_dir=tmp_path / "killed", clock=VirtualClock()) as running:
        queue = queue_of(running.broker, "ring")
        assert running.broker.log.report.indexed_segments
        assert [entry.sequence for entry in queue.leased_entries()] == held
        assert queue.order.count == 0
        assert queue_of(running.broker, "deep").order.count == COUNT + 16 - 20


async def test_messages_of_several_queues_are_rows_where_all_of_them_page(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    count = KEEP_MESSAGES + 200
    async with testing.broker(http=False, data_dir=directory, clock=VirtualClock()) as running:
        peer = await Peer(running.broker).open(1)
        for exchange, names in (("plain", ("deep", "other")), ("mixed", ("third", "latest"))):
            await peer.send(1, EXCHANGE.Declare(exchange=exchange, exchange_type="fanout", durable=True))
            for name in names:
                arguments = {"latest": {"x-sort-key": "key"}}.get(name, {})
                await peer.send(1, QUEUE.Declare(queue=name, durable=True, arguments=arguments))
                await peer.send(1, QUEUE.Bind(queue=name, exchange=exchange))
            await publish_all(
                running.broker, peer, *(persistent(1, "", body(number), exchange=exchange) for number in range(count))
            )
        await leave(peer)
    async with testing.broker(http=False, data_dir=directory, clock=VirtualClock()) as running:
        queues = {name: queue_of(running.broker, name) for name in ("deep", "other", "third", "latest")}
        assert {name: queue.order.paged_count() for name, queue in queues.items()} == {
            "deep": 200,
            "other": 200,
            "third": 0,
            "latest": 0,
        }
        assert queues["third"].order.snapshot()[0].message is queues["latest"].order.snapshot()[0].message
        for queue in queues.values():
            assert queue.pending_bytes == count * SIZE
        assert queues["deep"].purge(0) == count
        assert [entry.message.body for entry in queues["other"].browse()] == [body(number) for number in range(count)]
        await running.broker.commit.durable()
        assert running.broker.log.statistics().live_records == 2 * count


async def test_messages_of_unknown_queues_are_dropped_for_good(tmp_path: Path, stopped: Path) -> None:
    directory = await left(stopped, tmp_path / "data", clean=True)
    async with testing.broker(http=False, data_dir=directory, clock=VirtualClock()) as running:
        running.broker.catalogue.delete_queue("/", "deep")
        await crash(running.broker, directory, tmp_path / "killed")
    async with testing.broker(http=False, data_dir=tmp_path / "killed", clock=VirtualClock()) as running:
        broker = running.broker
        assert broker.log.report.indexed_segments
        live = sum(queue_of(broker, name).order.count for name in QUEUES if name != "deep")
        await broker.commit.durable()
        assert broker.log.statistics().live_records == live
