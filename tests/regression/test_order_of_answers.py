"""B17: an answer comes before what it causes, in the order in which RabbitMQ's clients expect it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from amqp import Connection as PyAmqp
from amqp.exceptions import ConsumerCancelled
from pamqp import commands

from annulet import testing
from annulet.broker.broker import Broker
from annulet.testing.clock import VirtualClock
from tests.broker.amqp091.peer import Peer, persistent, publish
from tests.broker.conftest import leave


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    async with testing.broker(http=False, data_dir=tmp_path, clock=VirtualClock()) as running:
        yield running.broker
        leave(running.broker)


def names(frames: list[Any]) -> list[str]:
    return [frame.name for frame in frames if hasattr(frame, "name") and "Content" not in frame.name]


async def wait_for(peer: Peer, name: str) -> list[str]:
    """Return the names of the methods up to one that may wait for the disk, and what comes with it."""
    seen: list[str] = []
    async with asyncio.timeout(10):
        while name not in seen:
            seen += names(await peer.take())
            await asyncio.sleep(0.001)
    return seen + names(await peer.take())


async def test_delete_ok_comes_before_the_cancel_of_the_same_channels_consumer(broker: Broker) -> None:
    """B17: py-amqp raises ConsumerCancelled in the middle of delete otherwise."""
    peer = await Peer(broker).open(1)
    await peer.send(1, commands.Queue.Declare(queue="q"), commands.Basic.Consume(queue="q", consumer_tag="tag"))
    await peer.take()
    await peer.send(1, commands.Queue.Delete(queue="q"))
    assert names(await peer.take()) == ["Queue.DeleteOk", "Basic.Cancel"]


async def test_delete_ok_comes_before_the_cancels_of_other_channels_of_the_connection(broker: Broker) -> None:
    """B17: a client that waits for delete-ok on one channel reads what comes for the others as well."""
    peer = await Peer(broker).open(1, 2)
    await peer.send(2, commands.Queue.Declare(queue="q"), commands.Basic.Consume(queue="q", consumer_tag="tag"))
    await peer.take()
    await peer.send(1, commands.Queue.Delete(queue="q", nowait=True), commands.Queue.Declare(queue="r"))
    assert names(await peer.take()) == ["Basic.Cancel", "Queue.DeclareOk"], "nothing is waited for"
    await peer.send(2, commands.Basic.Consume(queue="r", consumer_tag="tag"))
    await peer.take()
    await peer.send(1, commands.Queue.Delete(queue="r"))
    assert names(await peer.take()) == ["Queue.DeleteOk", "Basic.Cancel"]


async def test_answers_that_wait_for_the_disk_come_before_cancels_too(broker: Broker) -> None:
    """B17: purge-ok of a durable queue whose purge ends a browser; commit-ok beside a queue that is deleted."""
    peer = await Peer(broker).open(1, 2)
    other = await Peer(broker).open(1)
    await peer.send(2, commands.Queue.Declare(queue="gone"), commands.Basic.Consume(queue="gone", consumer_tag="tag"))
    await peer.send(1, commands.Queue.Declare(queue="q", durable=True), persistent(1, "q", b"1"))
    await peer.take()
    await peer.send(1, commands.Queue.Purge(queue="q"))
    await other.send(1, commands.Queue.Delete(queue="gone"))
    assert await wait_for(peer, "Queue.PurgeOk") == ["Queue.PurgeOk", "Basic.Cancel"]
    await peer.send(2, commands.Queue.Declare(queue="gone"), commands.Basic.Consume(queue="gone", consumer_tag="tag"))
    await peer.send(1, commands.Tx.Select(), persistent(1, "q", b"2"))
    await peer.take()
    await peer.send(1, commands.Tx.Commit())
    await other.send(1, commands.Queue.Delete(queue="gone"))
    assert await wait_for(peer, "Tx.CommitOk") == ["Tx.CommitOk", "Basic.Cancel"]


async def test_recover_ok_and_qos_ok_come_before_the_deliveries_they_cause(broker: Broker) -> None:
    """B17: RabbitMQ answers first, and its queues deliver then."""
    peer = await Peer(broker).open(1)
    await peer.send(1, commands.Queue.Declare(queue="q"), commands.Basic.Qos(prefetch_count=1, global_=True))
    await peer.send(
        1, commands.Basic.Consume(queue="q", consumer_tag="tag"), publish(1, "q", b"1"), publish(1, "q", b"2")
    )
    await peer.take()
    await peer.send(1, commands.Basic.Recover(requeue=True))
    assert names(await peer.take()) == ["Basic.RecoverOk", "Basic.Deliver"]
    await peer.send(1, commands.Basic.Qos(prefetch_count=2, global_=True))
    assert names(await peer.take()) == ["Basic.QosOk", "Basic.Deliver"]


async def test_consume_ok_comes_before_and_cancel_ok_after_the_deliveries_of_a_consumer(broker: Broker) -> None:
    """B17: a tag is unknown to a client before consume-ok and after cancel-ok."""
    peer = await Peer(broker).open(1)
    await peer.send(1, commands.Queue.Declare(queue="q"), publish(1, "q", b"1"))
    await peer.take()
    await peer.send(1, commands.Basic.Consume(queue="q", consumer_tag="tag"))
    assert names(await peer.take()) == ["Basic.ConsumeOk", "Basic.Deliver"]
    await peer.send(1, publish(1, "q", b"2"), commands.Basic.Cancel(consumer_tag="tag"), publish(1, "q", b"3"))
    assert names(await peer.take()) == ["Basic.Deliver", "Basic.CancelOk"]


async def test_a_return_comes_before_the_ack_of_its_publish_and_before_commit_ok(broker: Broker) -> None:
    """B17: a client learns that a message was unroutable before it takes it for delivered."""
    peer = await Peer(broker).open(1, 2)
    await peer.send(1, commands.Confirm.Select())
    await peer.send(2, commands.Tx.Select())
    await peer.take()
    await peer.send(1, persistent(1, "nowhere", b"1", mandatory=True))
    assert names(await peer.take()) == ["Basic.Return", "Basic.Ack"]
    await peer.send(2, publish(2, "nowhere", b"1", mandatory=True))
    await peer.send(2, commands.Tx.Commit())
    assert await wait_for(peer, "Tx.CommitOk") == ["Basic.Return", "Tx.CommitOk"]


async def test_py_amqp_deletes_the_queue_it_consumes() -> None:
    """B17: the client that failed."""
    async with testing.broker(http=False) as running:
        host, port = running.broker.amqp_address

        def work() -> None:
            with PyAmqp(f"{host}:{port}", connect_timeout=10, read_timeout=10) as connection:
                channel = connection.channel()
                channel.queue_declare("q", auto_delete=False)
                channel.basic_consume("q", callback=lambda message: None)
                assert channel.queue_delete("q") == 0
                with pytest.raises(ConsumerCancelled):  # with the next it waits for, as at RabbitMQ
                    channel.queue_declare("q", auto_delete=False)

        await asyncio.to_thread(work)
