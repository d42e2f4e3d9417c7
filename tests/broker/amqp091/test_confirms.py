"""Confirms of publishes: their order, the disk, and its failures; through real bytes."""

from __future__ import annotations

import threading

import pytest
from pamqp import commands

from annulet.broker.broker import Broker
from annulet.store.files.errors import DiskFullError
from annulet.store.segments.interface import Batch
from tests.broker.amqp091.confirming import confirming, fill_disk
from tests.broker.amqp091.peer import Peer, persistent, publish, settlements, turns

BASIC, CHANNEL, QUEUE, TX = commands.Basic, commands.Channel, commands.Queue, commands.Tx


async def test_publishes_of_one_read_get_one_multiple_confirm(broker: Broker) -> None:
    peer = await confirming(broker)
    await peer.send(1, publish(1, "q") * 3)
    assert settlements(await peer.take()) == [("ack", 3, True)]


async def test_persistent_publish_is_confirmed_only_when_it_is_durable(
    disk_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer = await confirming(disk_broker, durable=True)
    written: list[Batch] = []
    write = disk_broker.log.write
    monkeypatch.setattr(disk_broker.log, "write", lambda batch: (written.append(batch), write(batch)))
    at_commit: list[int] = []
    complete = disk_broker.log.complete

    def completing(batch: Batch) -> None:
        at_commit.append(len(peer.transport.written))
        complete(batch)

    monkeypatch.setattr(disk_broker.log, "complete", completing)
    peer.receive(persistent(1, "q"))
    await disk_broker.commit.durable()
    assert len(written) == 1
    assert at_commit == [0], "a confirm left before the disk was done"
    assert settlements(await peer.take()) == [("ack", 1, True)]


async def test_transient_publish_behind_a_persistent_one_waits_with_it(disk_broker: Broker) -> None:
    peer = await confirming(disk_broker, durable=True)
    peer.receive(persistent(1, "q") + publish(1, "q"))
    peer.connection.flush()
    assert not peer.transport.written
    await disk_broker.commit.durable()
    assert settlements(await peer.take()) == [("ack", 2, True)]


async def test_first_publish_refused_for_a_full_disk_is_not_confirmed(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer = await confirming(broker, durable=True)
    fill_disk(broker, monkeypatch)
    await peer.send(1, persistent(1, "q"))
    assert settlements(await peer.take()) == [("nack", 1, False)]
    assert broker.hosts["/"].queues["q"].order.count == 0
    assert broker.refused_publishes == 1


async def test_refusal_comes_after_the_confirms_before_it_and_the_next_publish_is_taken(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer = await confirming(broker, durable=True)
    fill_disk(broker, monkeypatch)
    await peer.send(1, publish(1, "q") * 2 + persistent(1, "q"))
    assert settlements(await peer.take()) == [("ack", 2, True), ("nack", 3, False)]
    monkeypatch.undo()
    await peer.send(1, persistent(1, "q"))
    assert [(kind, tag) for kind, tag, _ in settlements(await peer.take())] == [("ack", 4)]


async def test_a_window_confirms_what_waits_for_it_and_not_what_was_refused_behind_that(
    disk_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer = await confirming(disk_broker, durable=True)
    pipeline, write, goes_on = disk_broker.commit, disk_broker.log.write, threading.Event()
    monkeypatch.setattr(disk_broker.log, "write", lambda batch: (goes_on.wait(), write(batch)))
    first = pipeline.window
    peer.receive(persistent(1, "q"))
    while pipeline.window == first:  # what comes now is of the next one
        await turns(1)
    peer.receive(persistent(1, "q") * 2)
    fill_disk(disk_broker, monkeypatch)
    peer.receive(persistent(1, "q"))
    assert settlements(await peer.take()) == [("nack", 4, False)]
    goes_on.set()
    await pipeline.durable()
    assert settlements(await peer.take()) == [("ack", 1, True), ("ack", 3, True)]


async def test_publish_that_the_log_refuses_although_it_had_room_is_refused(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer = await confirming(broker, durable=True)

    def append(*_: object) -> int:
        raise DiskFullError("no disk space")

    monkeypatch.setattr(broker.log, "append", append)
    await peer.send(1, persistent(1, "q"))
    assert settlements(await peer.take()) == [("nack", 1, False)]


async def test_without_confirms_a_full_disk_closes_the_channel(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    peer = await Peer(broker).open(1)
    await peer.send(1, commands.Queue.Declare(queue="q", durable=True))
    await peer.take()
    fill_disk(broker, monkeypatch)
    await peer.send(1, persistent(1, "q"))
    assert (await peer.one(CHANNEL.Close)).reply_code == 506


async def test_failed_disk_refuses_what_waited_and_everything_after(
    disk_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer = await confirming(disk_broker, durable=True)

    def write(batch: Batch) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(disk_broker.log, "write", write)
    peer.receive(persistent(1, "q") * 2)
    await disk_broker.failed()
    assert settlements(await peer.take()) == [("nack", 2, True)]
    await peer.send(1, persistent(1, "q"))
    assert settlements(await peer.take()) == [("nack", 3, False)]
    got = await peer.ask(1, BASIC.Get(queue="q"), BASIC.GetOk)
    assert got.message_count == 1, "consumers are served on"


async def test_mandatory_message_without_a_queue_is_returned_before_its_confirm(broker: Broker) -> None:
    peer = await confirming(broker)
    await peer.send(1, publish(1, "nowhere", mandatory=True))
    kinds = [type(item) for item in await peer.take()]
    assert kinds.index(BASIC.Return) < kinds.index(BASIC.Ack)
    assert broker.unroutable == 1


async def test_channel_closed_before_its_window_is_durable_gets_no_confirm(disk_broker: Broker) -> None:
    peer = await confirming(disk_broker, durable=True)
    peer.receive(persistent(1, "q"))
    await peer.send(1, CHANNEL.Close(200, "", 0, 0))
    await disk_broker.commit.durable()
    assert [type(item) for item in await peer.take()] == [CHANNEL.CloseOk]
    await peer.send(1, CHANNEL.Open())
    await peer.one(CHANNEL.OpenOk)
