"""The pace of spilling: who publishes faster than the disk takes bodies is not read meanwhile, and nobody else.

Nor is who publishes more when the budget and the spill store are both full, until consumers have made room.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from pamqp import commands

from annulet import testing
from annulet.broker.broker import Broker
from annulet.broker.paging.pager import Pager
from annulet.broker.paging.spill_pace import (
    LOOK_BYTES,
    SPILL_BEHIND,
    SPILL_BEHIND_BYTES,
    SPILL_FREE,
    SPILL_FULL,
    SPILL_GO_ON_BYTES,
    SpillPace,
)
from annulet.residency.bodies.budget import MIB
from annulet.store.spill.spill import SpillWrite
from tests.broker.amqp091.peer import Peer, RecordingTransport, persistent, publish, turns
from tests.broker.amqp10 import peer as amqp10
from tests.broker.conftest import leave, until
from tests.broker.stomp import peer as stomp

QUEUE, BASIC = commands.Queue, commands.Basic
SIZE = 64 << 10
PATIENCE = 10.0
"""Seconds on a busy machine; who waits goes on as soon as it is done."""


@dataclass
class Spills:
    """What is under way, and whether the store is full."""

    writes: int = 0
    full: bool = False


class Connection:
    def __init__(self) -> None:
        self.told: list[int] = []

    def pace(self, waits: int) -> None:
        self.told.append(waits)


def brought(pace: SpillPace, connection: Connection) -> None:
    """Have a connection bring a message to be spilled."""
    pace.note(1)
    assert pace.arrived == (pace.state != SPILL_FREE)
    pace.served(connection)


def test_who_brings_more_waits_once_until_the_disk_has_caught_up() -> None:
    pace, publisher, other = SpillPace(), Connection(), Connection()
    pace.look(SPILL_BEHIND_BYTES + 1, Spills(1))
    brought(pace, publisher)
    brought(pace, publisher)
    brought(pace, other)
    assert (len(pace), pace.waits, publisher.told) == (2, 2, [SPILL_BEHIND])
    pace.ended(other)
    pace.look(SPILL_BEHIND_BYTES + 1, Spills(2))
    assert (publisher.told, other.told) == ([SPILL_BEHIND], [SPILL_BEHIND])
    pace.look(SPILL_BEHIND_BYTES, Spills(1))
    assert (len(pace), publisher.told, other.told) == (0, [SPILL_BEHIND, SPILL_FREE], [SPILL_BEHIND])
    brought(pace, publisher)
    assert len(pace) == 0


def test_who_brings_more_than_a_full_store_takes_waits_until_half_of_the_bound() -> None:
    pace, publisher, other = SpillPace(), Connection(), Connection()
    pace.look(SPILL_BEHIND_BYTES, Spills(full=True))
    brought(pace, publisher)
    assert (pace.full, len(pace)) == (False, 0), "at the limit"
    pace.look(SPILL_BEHIND_BYTES + 1, Spills(1, full=True))
    brought(pace, publisher)
    assert (pace.full, publisher.told) == (True, [SPILL_FULL])
    pace.look(SPILL_GO_ON_BYTES + 1, Spills(full=True))
    assert pace.full
    brought(pace, other)
    assert (len(pace), publisher.told, other.told) == (2, [SPILL_FULL], [SPILL_FULL])
    pace.look(SPILL_GO_ON_BYTES, Spills(full=True))
    assert (pace.full, len(pace), other.told) == (False, 0, [SPILL_FULL, SPILL_FREE])


def test_who_waits_for_the_disk_is_told_when_the_store_is_full_and_when_there_is_room_again() -> None:
    pace, publisher = SpillPace(), Connection()
    pace.look(SPILL_BEHIND_BYTES + 1, Spills(1))
    brought(pace, publisher)
    for spills in (Spills(1, full=True), Spills(1)):
        pace.look(SPILL_BEHIND_BYTES + 1, spills)
    assert (len(pace), pace.waits, publisher.told) == (1, 1, [SPILL_BEHIND, SPILL_FULL, SPILL_BEHIND])
    pace.look(SPILL_BEHIND_BYTES + 1, None)
    assert publisher.told[-1] == SPILL_FREE, "nothing is spilled here"


def test_who_brings_nothing_does_not_wait_for_what_came_before_or_otherwise() -> None:
    pace, publisher, other = SpillPace(), Connection(), Connection()
    pace.look(SPILL_BEHIND_BYTES + 1, Spills(1))
    pace.note(1)  # as a message that expired, and was sent on
    for connection in (other, publisher, other):
        pace.arrived = False  # as a connection does when its input is handled
        if connection is publisher:
            pace.note(1)
        if pace.arrived:
            pace.served(connection)
    assert (publisher.told, other.told) == ([SPILL_BEHIND], [])


@pytest.mark.parametrize(("over", "writes"), [(SPILL_BEHIND_BYTES, 1), (1 << 40, 0)])
def test_nobody_waits_within_the_bound_nor_for_what_is_not_being_written(over: int, writes: int) -> None:
    pace = SpillPace()
    pace.look(over, Spills(writes))
    brought(pace, Connection())
    assert len(pace) == 0


def test_it_is_looked_at_again_as_soon_as_so_much_came_as_may() -> None:
    pace = SpillPace()
    assert [pace.note(SPILL_BEHIND_BYTES - 1), pace.note(1)] == [False, True]
    pace.look(SPILL_BEHIND_BYTES // 2, Spills(full=True))
    assert [pace.note(SPILL_BEHIND_BYTES // 2 - 1), pace.note(1)] == [False, True]
    pace.look(SPILL_BEHIND_BYTES, Spills(full=True))
    assert [pace.note(LOOK_BYTES - 1), pace.note(1)] == [False, True], "but not for each"


class Busy:
    """Keeps the thread that writes busy until it is let go."""

    error = None

    def __init__(self, pager: Pager) -> None:
        self.goes_on = threading.Event()
        pager._thread.submit(self, lambda: None)

    def run(self) -> None:
        assert self.goes_on.wait(60)

    def finish(self) -> None:
        """There is nothing to take note of."""

    def following(self) -> None:
        """Nothing follows."""


async def fallen_behind(broker: Broker, put: Callable[..., bytes] = publish) -> tuple[Peer, Busy, int]:
    """Return a publisher that is not read any more, what keeps the disk, and the bytes that were published."""
    assert broker.pager is not None
    busy = Busy(broker.pager)
    publisher = await Peer(broker).open(1)
    await publisher.send(1, QUEUE.Declare(queue="q"))
    return publisher, busy, await held(publisher.transport, lambda body: publisher.send(1, put(1, "q", body)))


async def held(transport: RecordingTransport, send: Callable[[bytes], Awaitable[object]]) -> int:
    """Send until nothing is read any more; return how many bytes were."""
    sent = 0
    while transport.reading:
        await send(bytes(SIZE))
        sent += SIZE
        assert sent < SPILL_BEHIND_BYTES + 8 * MIB, "it is to be held"
    return sent


async def caught_up(pager: Pager, busy: Busy) -> None:
    busy.goes_on.set()
    await pager.idle()
    await turns()


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    async with testing.broker(http=False, data_dir=tmp_path / "data", body_budget_bytes=MIB) as running:
        yield running.broker
        leave(running.broker)


async def test_a_publisher_is_not_read_while_the_disk_is_behind_and_others_are(broker: Broker) -> None:
    pager, pace = broker.pager, broker.spill_pace
    assert pager is not None
    consumer, durable = [await Peer(broker).open(1) for _ in range(2)]
    await durable.send(1, QUEUE.Declare(queue="q"), QUEUE.Declare(queue="kept", durable=True))
    await consumer.send(1, BASIC.Qos(prefetch_count=1), BASIC.Consume(queue="q"))
    publisher, busy, sent = await fallen_behind(broker)
    assert SPILL_BEHIND_BYTES < pager.budget.over < sent
    assert (len(pace), pace.waits) == (1, 1)
    assert publisher.connection.reading_paused
    pace.note(1)  # as of a message that expired, and was sent on
    await consumer.send(1, BASIC.Ack(delivery_tag=1))
    await durable.send(1, persistent(1, "kept", bytes(SIZE)))
    assert consumer.transport.reading
    assert durable.transport.reading, "its confirms, which wait for the log, are its pace"
    await caught_up(pager, busy)
    assert publisher.transport.reading
    assert (len(pace), pace.waits) == (0, 1)
    assert pager.budget.over < SIZE, "the budget is full of what is next to be delivered"
    assert pager.figures.spilled * SIZE >= SPILL_BEHIND_BYTES


async def test_it_is_the_same_over_amqp_1_0_and_stomp(broker: Broker) -> None:
    pager, now = broker.pager, broker.clock()
    assert pager is not None
    for name in ("first", "second"):
        broker.hosts["/"].declare_queue(name, now=now)
    amqp, other = await amqp10.Peer(broker).open(), await stomp.Peer(broker).open()
    link = await amqp.sender("first")
    senders: list[tuple[RecordingTransport, Callable[[bytes], Awaitable[object]]]] = [
        (amqp.transport, lambda body: amqp.publish(link, amqp10.message(body), settled=True)),
        (other.transport, lambda body: other.send("SEND", {"destination": "/queue/second"}, body)),
    ]
    for number, (transport, send) in enumerate(senders, 1):
        busy = Busy(pager)
        await held(transport, send)
        assert broker.spill_pace.waits == number
        await caught_up(pager, busy)
        assert transport.reading


async def test_persistent_messages_that_no_log_takes_are_paced_as_well(broker: Broker) -> None:
    pager = broker.pager
    assert pager is not None
    publisher, busy, _ = await fallen_behind(broker, persistent)
    await caught_up(pager, busy)
    assert publisher.transport.reading


async def test_who_refuses_messages_brings_their_dead_letters(broker: Broker) -> None:
    pager = broker.pager
    assert pager is not None
    consumer = await Peer(broker).open(1)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"}
    await consumer.send(1, QUEUE.Declare(queue="work", arguments=arguments), BASIC.Consume(queue="work"))
    await consumer.send(1, publish(1, "work", bytes(SIZE)))
    _, busy, _ = await fallen_behind(broker)
    assert consumer.transport.reading
    await consumer.send(1, BASIC.Nack(delivery_tag=1, requeue=False))
    assert not consumer.transport.reading
    await caught_up(pager, busy)
    assert consumer.transport.reading


def refuse(write: SpillWrite) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


async def test_who_waits_for_a_disk_that_refuses_is_read_again(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory alarm takes over."""
    pager = broker.pager
    assert pager is not None
    publisher, busy, _ = await fallen_behind(broker)
    with monkeypatch.context() as patch:
        patch.setattr(SpillWrite, "work", refuse)
        await caught_up(pager, busy)
        assert pager.budget.over > SPILL_BEHIND_BYTES, "nothing has left"
        assert pager.figures.spill_refused > 0
        assert publisher.transport.reading


async def filled(broker: Broker) -> tuple[Peer, Pager]:
    """Return a publisher who waits for a store that is full."""
    pager = broker.pager
    assert pager is not None
    assert pager.spill is not None
    publisher, busy, _ = await fallen_behind(broker)
    await publisher.send(1, *[publish(1, "q", bytes(SIZE))] * (4 * MIB // SIZE))  # it was on its way
    pager.spill.limit = pager.spill.used  # with what is being written
    await caught_up(pager, busy)
    assert pager.figures.spilled > 0
    assert pager.figures.spill_refused > 0
    assert pager.budget.over > SPILL_BEHIND_BYTES
    return publisher, pager


async def test_who_waits_when_the_budget_and_the_store_are_full_goes_on_when_consumers_have_made_room(
    broker: Broker,
) -> None:
    durable, consumer = [await Peer(broker).open(1) for _ in range(2)]
    await durable.send(1, QUEUE.Declare(queue="kept", durable=True))
    publisher, pager = await filled(broker)
    assert broker.spill_pace.full
    assert not publisher.transport.reading
    blocked = [item for item in await publisher.take() if isinstance(item, commands.Connection.Blocked)]
    assert [item.reason for item in blocked] == ["spill store full"]
    await durable.send(1, persistent(1, "kept", bytes(SIZE)))
    assert durable.transport.reading, "what the log takes needs no room in this store"
    await consumer.send(1, BASIC.Consume(queue="q", no_ack=True))
    await until(lambda: publisher.transport.reading, PATIENCE)
    assert not broker.spill_pace.full
    assert any(isinstance(item, commands.Connection.Unblocked) for item in await publisher.take())
    assert pager.spill is not None
    assert pager.budget.over <= SPILL_GO_ON_BYTES or pager.spill.has_room(SIZE)


async def test_the_bound_holds_where_many_queues_share_what_comes(broker: Broker) -> None:
    """Between two ticks, while nothing can be written."""
    pager = broker.pager
    assert pager is not None
    assert pager.spill is not None
    publisher = await Peer(broker).open(1)
    names = [f"q{number}" for number in range(8)]
    for name in names:
        await publisher.send(1, QUEUE.Declare(queue=name))
    pager.spill.limit = SIZE
    names = names * (SPILL_BEHIND_BYTES // SIZE)
    sent = 0
    while publisher.transport.reading:
        await publisher.send(1, publish(1, names[sent], bytes(SIZE)))
        sent += 1
    assert SPILL_BEHIND_BYTES < sent * SIZE < SPILL_BEHIND_BYTES + 8 * MIB + 4 * MIB, "the floors are in the budget"


async def test_who_only_could_consume_waits_as_well_and_is_read_when_he_has_something_to_say(broker: Broker) -> None:
    await filled(broker)
    other = await Peer(broker).open(1)
    await other.send(1, QUEUE.Declare(queue="rare"), BASIC.Consume(queue="rare"))
    await other.send(1, publish(1, "q", bytes(SIZE)))
    assert not other.transport.reading
    third = await Peer(broker).open(1)
    await third.send(1, publish(1, "rare", b"x"))
    assert other.transport.reading
    tags = [item.delivery_tag for item in await other.take() if isinstance(item, BASIC.Deliver)]
    await other.send(1, commands.Tx.Select(), BASIC.Ack(delivery_tag=tags[0]))
    assert other.transport.reading, "its commit is to come"
    await other.send(1, commands.Tx.Commit())
    await turns()
    assert not other.transport.reading


async def test_who_holds_messages_is_told_that_the_store_is_full_and_read(broker: Broker) -> None:
    """His acknowledgements may be what makes room."""
    publisher, _ = await filled(broker)
    other = await Peer(broker).open(1)
    await other.send(1, BASIC.Qos(prefetch_count=1), BASIC.Consume(queue="q"))
    await other.send(1, publish(1, "q", bytes(SIZE)))
    assert other.transport.reading
    assert any(isinstance(item, commands.Connection.Blocked) for item in await other.take())
    assert len(broker.spill_pace) == 2
    queue = broker.hosts["/"].queues["q"]
    before = queue.statistics().messages_acknowledged
    await other.send(1, BASIC.Ack(delivery_tag=1))
    assert queue.statistics().messages_acknowledged == before + 1
    other.connection.abort()
    publisher.connection.abort()
    await turns()
    assert len(broker.spill_pace) == 0


async def test_who_waits_for_a_queue_that_is_deleted_is_read_again(broker: Broker) -> None:
    pager = broker.pager
    assert pager is not None
    publisher, busy, _ = await fallen_behind(broker)
    other = await Peer(broker).open(1)
    await other.send(1, QUEUE.Delete(queue="q"))
    await caught_up(pager, busy)
    assert (publisher.transport.reading, len(broker.spill_pace)) == (True, 0)
    assert pager.figures.spill_refused == 0


async def test_a_defect_of_paging_leaves_nobody_unread(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    pager = broker.pager
    assert pager is not None
    publisher, busy, _ = await fallen_behind(broker)

    def fail(*_: object) -> bool:
        raise RuntimeError("a defect")

    with monkeypatch.context() as patch:
        patch.setattr(pager, "_fold", fail)
        patch.setattr(pager.budget, "limit", 1 << 40)  # as if what was written had left
        with pytest.raises(RuntimeError, match="a defect"):
            pager.run()
    await turns()
    assert publisher.transport.reading
    await caught_up(pager, busy)


async def test_who_goes_meanwhile_is_forgotten(broker: Broker) -> None:
    assert broker.pager is not None
    publisher, busy, _ = await fallen_behind(broker)
    publisher.connection.abort()
    await turns()
    assert len(broker.spill_pace) == 0
    await caught_up(broker.pager, busy)


async def test_a_connection_that_closes_is_read_as_its_peer_has_to_answer(broker: Broker) -> None:
    assert broker.pager is not None
    publisher, busy, _ = await fallen_behind(broker)
    publisher.connection.force_close("it is told to")
    await turns()
    assert publisher.transport.reading
    await caught_up(broker.pager, busy)
