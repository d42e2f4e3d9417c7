"""A small commit that the log has no room for: no consumer gets a message of it, and no delivery is settled."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from annulet.broker.durability.commit import CommitPipeline
from annulet.broker.durability.effects import HostEffects
from annulet.core.host.transaction import Transaction
from annulet.core.host.virtual_host import VirtualHost
from annulet.core.message.message import ContentView, Message, Origin
from annulet.core.queue.invariants import check_invariants
from annulet.core.queue.queue import Queue
from annulet.store.files.errors import DiskFullError, LogFailedError
from annulet.store.log.log import MessageLog
from tests.core.helpers import NOW, RecordingSession
from tests.databases import memory_catalogue
from tests.store.simulated_files import SimulatedFiles

SEGMENT = 16 << 10
CAPACITY = (1 << 20) + 6 * SEGMENT  # the ballast and six segments
ORIGIN = Origin("", "out", "guest@test", ContentView("none"))
HELD = 3
WIDE = 40


def durable(body: bytes) -> Message:
    return Message(b"", body, ORIGIN, durable=True, accepted_at=NOW)


class House:
    """A virtual host over a log on a small disk; a session holds deliveries, another one reads ``out``."""

    def __init__(self) -> None:
        self.files = SimulatedFiles(CAPACITY)
        self.log = MessageLog.open(Path("/simulated"), files=self.files, segment_bytes=SEGMENT)
        self.catalogue = memory_catalogue()
        pipeline = CommitPipeline(self.log, asyncio.get_running_loop())
        self.host = VirtualHost("/", HostEffects("/", self.log, pipeline, self.catalogue))
        self.out, self.work = self.declare("out"), self.declare("work")
        self.host.declare_exchange("wide", "fanout", durable=True)
        for number in range(WIDE):
            self.host.bind_queue(self.declare(f"wide {number}"), "wide", "")
        self.session, self.reader = RecordingSession(), RecordingSession()
        self.reader.consume(self.out)
        for number in range(HELD):
            self.publish("work", b"held %d" % number)
        self.session.consume(self.work, messages=HELD)

    def declare(self, name: str) -> Queue:
        queue_id = self.catalogue.add_queue("/", name, False, {})
        return self.host.declare_queue(name, now=NOW, durable=True, queue_id=queue_id)

    def publish(self, queue: str, body: bytes) -> None:
        self.host.publisher.publish(durable(body), self.host.route("", queue), NOW)

    def flush(self) -> None:
        batch = self.log.take_batch()
        if batch is not None:
            self.log.write(batch)
            self.log.complete(batch)

    def fill(self, left: int) -> None:
        """Fill the disk up to so many bytes, or a little more."""
        while self.log.has_room(left, NOW):
            self.publish("work", bytes(200))
            self.flush()

    def unchanged(self) -> None:
        assert self.reader.received == []
        assert (self.out.order.count, len(self.out.delivering)) == (0, 0)
        assert len(self.session.unacknowledged) == HELD
        assert len(self.work.delivering) == HELD
        assert all(self.host.queues[f"wide {number}"].order.count == 0 for number in range(WIDE))
        for queue in self.host.queues.values():
            check_invariants(queue)


def transaction_of(house: House) -> Transaction:
    transaction = Transaction(house.session)
    transaction.send(durable(b"first"), house.host.route("", "out"))
    for number in range(20):
        transaction.send(durable(b"wide %d" % number), house.host.route("wide", ""))
    transaction.acknowledge(HELD, multiple=True)
    return transaction


async def test_a_full_disk_in_the_middle_of_a_commit_leaves_nothing_of_it() -> None:
    """The first message was with its consumer when the log refused the next one."""
    house = House()
    house.fill(100)
    with pytest.raises(DiskFullError):
        transaction_of(house).commit(house.host, NOW)
    house.unchanged()
    house.files.capacity = 1 << 40
    assert house.log.retry()
    transaction = transaction_of(house)
    assert transaction.commit(house.host, NOW) == []
    assert house.reader.received == ["first"]
    assert min(house.session.unacknowledged) > HELD


async def test_a_full_disk_at_the_end_of_a_commit_leaves_nothing_of_it() -> None:
    """All messages of it had room, and the record of the commit had none."""
    house = House()
    house.fill(100)
    transaction = Transaction(house.session)
    transaction.send(durable(b"first"), house.host.route("", "out"))
    tags = list(house.session.unacknowledged)
    transaction.acknowledge(HELD, multiple=True)
    while True:  # others leave room for the message alone
        try:
            house.publish("work", b"")
        except DiskFullError:
            break
    with pytest.raises(DiskFullError):
        transaction.commit(house.host, NOW)
    house.unchanged()
    assert list(house.session.unacknowledged) == tags


async def test_a_disk_that_fails_at_a_commit_leaves_nothing_of_it() -> None:
    house = House()
    house.publish("work", bytes(SEGMENT - 3000))  # the commit needs the next segment
    house.files.fail_at = house.files.operations + 1
    with pytest.raises((DiskFullError, LogFailedError)):
        transaction_of(house).commit(house.host, NOW)
    house.unchanged()
