"""What the core's effects do to log and catalogue."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import structlog

from annulet.broker.commit import CommitPipeline
from annulet.broker.effects import HostEffects
from annulet.core.message import ContentView, Message, Origin
from annulet.core.queue import Queue
from annulet.core.virtual_host import VirtualHost
from annulet.store.catalogue import Catalogue
from annulet.store.errors import CatalogueError, DiskFullError
from annulet.store.log import MessageLog
from annulet.store.memory import MemoryLog

ORIGIN = Origin("e", "k", "guest@test", ContentView())
NOW = 1_000_000


class House:
    """A virtual host with real effects over a log in memory."""

    def __init__(self) -> None:
        self.log = MemoryLog()
        self.catalogue = Catalogue(":memory:")
        self.pipeline = CommitPipeline(self.log, asyncio.get_running_loop())
        self.effects = HostEffects("/", self.log, self.pipeline, self.catalogue)
        self.host = VirtualHost("/", self.effects)
        self.host.declare_exchange("e", "fanout", durable=True)

    def declare(self, name: str, *, durable: bool = True, **arguments: int) -> Queue:
        queue_id = self.catalogue.add_queue("/", name, False, dict(arguments)) if durable else 0
        queue = self.host.declare_queue(name, now=NOW, durable=durable, arguments=dict(arguments), queue_id=queue_id)
        self.host.bind_queue(queue, "e", "")
        return queue

    def publish(self, *, durable: bool = True) -> Message:
        message = Message(b"", b"body", ORIGIN, durable=durable)
        self.host.publish(message, self.host.route("e", "k"), NOW)
        return message

    @property
    def live(self) -> int:
        return self.log.statistics().live_records


@pytest.fixture
async def house() -> AsyncIterator[House]:
    house = House()
    yield house
    await house.pipeline.close()
    house.catalogue.close()


async def test_message_for_many_queues_is_one_record_until_all_are_done(house: House) -> None:
    first, second, transient = house.declare("a"), house.declare("b"), house.declare("t", durable=False)
    message = house.publish()
    assert (message.record, house.live) == (1, 1)
    transient.purge(NOW)
    first.purge(NOW)
    assert house.live == 1
    second.purge(NOW)
    assert house.live == 0


async def test_only_persistent_messages_in_durable_queues_are_stored(house: House) -> None:
    house.declare("t", durable=False)
    assert house.publish().record == 0
    house.declare("a")
    assert house.publish(durable=False).record == 0
    assert house.log.statistics().appended == 0


async def test_ring_victim_is_settled(house: House) -> None:
    house.declare("ring", **{"x-ring-size": 2})
    for _ in range(5):
        house.publish()
    assert (house.live, house.log.statistics().appended) == (2, 5)


async def test_deleted_queue_leaves_catalogue_and_log(house: House) -> None:
    queue = house.declare("a")
    house.publish()
    house.host.delete_queue(queue, NOW)
    assert house.catalogue.queues("/") == []
    assert house.live == 0


async def test_catalogue_that_refuses_stops_no_deletion_half_way(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise CatalogueError("disk full")

    queue = house.declare("a")
    house.publish()
    monkeypatch.setattr(house.catalogue, "delete_queue", refuse)
    monkeypatch.setattr(house.catalogue, "delete_exchange", refuse)
    with structlog.testing.capture_logs() as lines:
        house.host.delete_queue(queue, NOW)
        house.host.delete_exchange("e")
    assert house.live == 0
    assert [line["event"].split()[1] for line in lines] == ["queue", "exchange"]


async def test_transaction_counts_when_it_is_committed(house: House) -> None:
    queue = house.declare("a")
    house.effects.begin_transaction()
    house.publish()
    queue.purge(NOW)
    house.publish()
    assert house.live == 2, "the settlement waits for the commit"
    house.effects.end_transaction(("query", 7))
    assert house.live == 1
    assert house.log.outcomes == {"query": 7}
    assert house.log.statistics().open_transactions == 0


async def test_suspended_transaction_does_not_take_in_others(house: House) -> None:
    house.declare("a")
    house.effects.begin_transaction()
    house.publish()
    transaction = house.effects.suspend_transaction()
    house.publish()
    house.effects.resume_transaction(transaction)
    house.effects.abort_transaction()
    assert house.live == 1


async def test_commit_the_log_refuses_is_aborted(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise DiskFullError("no disk space")

    house.declare("a")
    house.effects.begin_transaction()
    house.publish()
    monkeypatch.setattr(house.log, "commit", refuse)
    with pytest.raises(DiskFullError):
        house.effects.end_transaction()
    assert (house.live, house.log.statistics().open_transactions) == (0, 0)
    house.publish()
    assert house.live == 1, "later messages are in no transaction"


async def test_settling_what_an_aborted_transaction_left_settles_nobody_elses_message(tmp_path: Path) -> None:
    """The log gives the ids of records that were never written out again."""
    log = MessageLog.open(tmp_path)
    catalogue = Catalogue(":memory:")
    effects = HostEffects("/", log, CommitPipeline(log, asyncio.get_running_loop()), catalogue)
    host = VirtualHost("/", effects)
    queue = host.declare_queue("q", now=NOW, durable=True, queue_id=catalogue.add_queue("/", "q", False, {}))
    route = host.route("", "q")
    left, sent = (Message(b"", body, ORIGIN, durable=True) for body in (b"left", b"sent"))
    effects.begin_transaction()
    host.publish(left, route, NOW)
    effects.abort_transaction()
    await effects.pipeline.durable()
    host.publish(sent, route, NOW)
    await effects.pipeline.durable()
    assert sent.record
    entry = next(entry for entry in queue.order.entries() if entry.message is left)
    effects.settle(queue, entry)
    await effects.pipeline.close()
    log.close()
    catalogue.close()
    assert [recovered.body for recovered in MessageLog.open(tmp_path).recovered()] == [b"sent"]
