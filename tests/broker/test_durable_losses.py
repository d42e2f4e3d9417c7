"""Losses are remembered over restarts with the settlement of what was lost, and not before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest

from annulet.broker.broker import Broker
from annulet.broker.turns.sliced_work import SlicedWorker
from annulet.core.host.dead_letters import FORWARDED_AT_ONCE
from annulet.core.message.message import Message, Origin
from annulet.store.database.history import History
from annulet.store.files.data_format import HISTORY_FILE
from annulet.store.files.errors import DiskFullError, StoreError
from annulet.store.segments.interface import Log
from annulet.wire.amqp091.messages.properties import VIEW, BasicProperties, encode_properties
from tests.broker.durability.test_commit import Remembering, SteeredLog
from tests.broker.durability.test_effects import NOW, House
from tests.broker.security.test_tls_listeners import until
from tests.store.database.test_history_tools import loss

COUNT = FORWARDED_AT_ONCE + 2
"""Two more than are sent on at once."""


class Sending(House):
    """A house whose messages expire at ``NOW`` and are then sent on to another queue."""

    def __init__(self) -> None:
        super().__init__()
        self.worker = self.effects.worker = SlicedWorker(asyncio.get_running_loop(), lambda: NOW, self.log)
        targets = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
        self.queue, self.dead = (
            self.host.declare_queue(name, now=NOW, durable=True, arguments=arguments, queue_id=queue_id)
            for queue_id, (name, arguments) in enumerate((("q", {"x-message-ttl": 1, **targets}), ("dead", {})), 1)
        )

    def fill(self, count: int) -> None:
        """Publish some to the queue."""
        header = encode_properties(BasicProperties())
        for _ in range(count):
            message = Message(header, b"body", Origin("", "q", "guest@test", VIEW), durable=True, accepted_at=NOW - 1)
            self.host.publisher.publish(message, self.host.route("", "q"), NOW - 1)

    def counted(self, reason: str) -> int:
        """Return how many left the queue for a reason, as the next window has it; 0 where it has no counters."""
        batch = self.history.take(1)
        counters = {} if batch is None else batch.counters
        if batch is not None:
            self.history.finish(batch, OSError("not written"))  # what was noted is to be looked at later, too
        return counters.get(self.queue.queue_id, {}).get(f"removed.{reason}", 0)

    def expire(self) -> None:
        """Have all of it expire as very much does, which notes before how many the ledger would keep."""
        self.queue.expire_later(NOW)
        assert self.queue.expiring is not None
        assert not self.queue.expiring.step(NOW)


@pytest.fixture
async def house() -> AsyncIterator[Sending]:
    house = Sending()
    yield house
    await house.pipeline.close()
    house.catalogue.close()
    house.history.history.close()


async def test_a_loss_is_remembered_when_the_message_is_settled(house: Sending) -> None:
    """A crash between two slices brings back what was not sent yet: it would be lost and there."""
    house.fill(COUNT)
    house.expire()
    assert len(house.host.ledger) == COUNT, "an operator sees it at once"
    assert (house.dead.order.count, house.losses()) == (FORWARDED_AT_ONCE, [*range(1, FORWARDED_AT_ONCE + 1)])
    assert (house.queue.statistics().messages_expired, house.counted("expired")) == (COUNT, FORWARDED_AT_ONCE)
    house.worker.finish()
    assert (house.dead.order.count, house.losses()) == (COUNT, [*range(1, COUNT + 1)])
    assert house.counted("expired") == COUNT


async def test_a_loss_without_a_record_is_counted_when_the_message_is_settled(house: Sending) -> None:
    house.host.ledger.records_max = 1
    house.fill(COUNT)
    house.expire()
    assert (house.notes.losses["/"].count, house.losses()) == (FORWARDED_AT_ONCE, [])
    house.worker.finish()
    assert (house.notes.losses["/"].count, house.losses()) == (COUNT, [COUNT])


async def test_what_could_not_be_sent_on_is_not_remembered_as_lost(
    house: Sending, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its record stays, and with it the next start has the message."""

    def refuse(*_: object) -> None:
        raise DiskFullError("no disk space")

    house.fill(2)
    monkeypatch.setattr(house.log, "append", refuse)
    house.queue.tick(NOW)
    assert "no disk space" in house.host.dead_letters.last_failure
    assert (house.queue.unsent, house.live) == ([1, 2], 2)
    assert (len(house.host.ledger), house.losses()) == (2, [])
    assert (house.queue.statistics().messages_expired, house.counted("expired")) == (2, 0)


async def test_in_a_transaction_a_loss_is_remembered_with_its_commit(house: Sending) -> None:
    house.fill(1)
    house.effects.begin_transaction()
    house.queue.tick(NOW)
    assert (house.losses(), house.counted("expired")) == ([], 0)
    house.effects.end_transaction()
    assert (house.losses(), house.counted("expired")) == ([1], 1)


async def test_while_settlements_wait_for_disk_space_losses_wait_with_them() -> None:
    log = SteeredLog()
    remembering = Remembering(log)
    pipeline, notes, history = remembering.pipeline, remembering.recorder, remembering.history
    log.deferred = True
    for sequence in (1, 2):
        remembering.note(sequence)
        notes.pending.note_loss("/", loss(sequence))
        await pipeline.durable()
        assert history.losses("/") == ([], 0)
        assert notes.batches == sequence, "everything else is written"
        await pipeline.durable()
        assert notes.batches == sequence, "nothing was left to write"
    log.deferred = False
    await pipeline.durable()
    found, total = history.losses("/")
    assert ([record.sequence for record in found], total) == ([1, 2], 2)
    await pipeline.close()
    history.close()


class FullLog:
    """A log on a disk that has no room for settlements, and perhaps none for the checkpoint of its end."""

    deferring = True

    def __init__(self, log: Log, *, ends: bool) -> None:
        self._log = log
        self._ends = ends

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def close(self) -> None:
        self._log.close()
        if not self._ends:
            raise StoreError("no disk space")


@pytest.mark.parametrize("ends", [False, True])
async def test_a_stop_remembers_losses_that_wait_for_disk_space_if_the_log_does(
    disk_broker: Broker, tmp_path: Path, *, ends: bool
) -> None:
    recorder, full = disk_broker.history, FullLog(disk_broker.log, ends=ends)
    assert recorder is not None
    recorder.pending.note_loss("/", loss(1))
    disk_broker.log = disk_broker.commit.log = cast("Log", full)
    await disk_broker.stop()
    with closing(History(tmp_path / HISTORY_FILE)) as history:
        found, total = history.losses("/")
    assert ([record.sequence for record in found], total) == (([1], 1) if ends else ([], 0))


async def test_losses_that_waited_are_written_when_there_is_room_though_nothing_else_is(disk_broker: Broker) -> None:
    recorder, full = disk_broker.history, FullLog(disk_broker.log, ends=True)
    assert recorder is not None
    await disk_broker.commit.durable()
    disk_broker.commit.log = cast("Log", full)
    recorder.pending.note_loss("/", loss(1))
    await disk_broker.commit.durable()
    assert recorder.history.losses("/") == ([], 0)
    disk_broker.commit.log = disk_broker.log
    written = recorder.batches
    disk_broker.tick()
    await until(lambda: recorder.batches > written)
    assert recorder.history.losses("/")[1] == 1
