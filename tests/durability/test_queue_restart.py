"""What a queue's rules make of a real restart: stopped cleanly, started again on the same data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aio_pika
import pytest

import annulet.testing
from annulet.core.invariants import check_invariants
from annulet.core.queue import Queue
from annulet.core.settings import QueueSettings


class Site:
    """A broker that is stopped and started again on one data directory, one block at a time."""

    def __init__(self, directory: Path) -> None:
        self.clock = annulet.testing.VirtualClock()
        self._directory = directory

    def broker(self) -> Any:
        return annulet.testing.broker(data_dir=self._directory, http=False, clock=self.clock)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


async def declare(running: annulet.testing.RunningBroker, **arguments: Any) -> aio_pika.abc.AbstractChannel:
    connection = await aio_pika.connect(running.amqp_url)
    channel = await connection.channel(publisher_confirms=True)
    named = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    await channel.declare_queue("q", durable=True, arguments=named)
    return channel


async def publish(channel: aio_pika.abc.AbstractChannel, *bodies: str, **properties: Any) -> None:
    """Send persistent messages whose header ``k`` is the body's first letter."""
    for body in bodies:
        message = aio_pika.Message(
            body.encode(), delivery_mode=aio_pika.DeliveryMode.PERSISTENT, headers={"k": body[0]}, **properties
        )
        await channel.default_exchange.publish(message, "q")


def queue_of(running: annulet.testing.RunningBroker) -> Queue:
    queue = running.broker.hosts["/"].queues["q"]
    check_invariants(queue)
    return queue


def bodies(queue: Queue) -> list[str]:
    return [entry.message.body.decode() for entry in queue.order.entries()]


async def test_r17_a_restart_trims_no_more_than_lowering_did(site: Site) -> None:
    async with site.broker() as running:
        channel = await declare(running, ring_size=10)
        await publish(channel, *"abcdefghij")
        queue_of(running).update(QueueSettings(ring_size=3), site.clock())
        await publish(channel, "k")
        assert bodies(queue_of(running)) == list("bcdefghijk")
    async with site.broker() as running:
        queue = queue_of(running)
        assert bodies(queue) == list("bcdefghijk")
        queue.update(QueueSettings(ring_size=3, ring_trim_now=True), site.clock())
        assert bodies(queue) == list("ijk")


async def test_dropped_by_the_ring_is_dropped_for_good(site: Site) -> None:
    async with site.broker() as running:
        channel = await declare(running, ring_size=3)
        await publish(channel, *"abcde")
    async with site.broker() as running:
        queue = queue_of(running)
        assert bodies(queue) == ["c", "d", "e"]
        await publish(await declare(running, ring_size=3), "f")
        assert bodies(queue) == ["d", "e", "f"]
        assert queue.order.first().sequence == 4  # places go on where they were


async def test_l3_only_the_last_value_comes_back_and_is_replaced_by_the_next(site: Site) -> None:
    async with site.broker() as running:
        await publish(await declare(running, last_value_key="k"), "a1", "a2", "b1")
    async with site.broker() as running:
        assert bodies(queue_of(running)) == ["a2", "b1"]
        await publish(await declare(running, last_value_key="k"), "a3")
        assert bodies(queue_of(running)) == ["b1", "a3"]
        assert queue_of(running).key_count == 2


async def test_what_was_in_delivery_comes_back_in_place(site: Site) -> None:
    async with site.broker() as running:
        channel = await declare(running, ring_size=3)
        await publish(channel, "a", "b", "c")
        queue = await channel.get_queue("q")
        for _ in range(2):
            await queue.get(no_ack=False)
        await publish(channel, "d", "e")
        assert queue_of(running).statistics().message_count == 5
    async with site.broker() as running:
        assert bodies(queue_of(running)) == ["c", "d", "e"]  # the connection's end returned a and b to a full ring
        assert queue_of(running).statistics().messages_replaced == 2


async def test_an_acknowledged_message_does_not_come_back(site: Site) -> None:
    async with site.broker() as running:
        channel = await declare(running)
        await publish(channel, "a", "b")
        queue = await channel.get_queue("q")
        await (await queue.get()).ack()
        await channel.declare_queue("q", passive=True)  # acknowledgements have no answer, what follows them has
    async with site.broker() as running:
        assert bodies(queue_of(running)) == ["b"]


async def test_a_message_whose_time_came_while_the_broker_was_down_expires(site: Site) -> None:
    async with site.broker() as running:
        channel = await declare(running)
        await publish(channel, "short", expiration=5)
        await publish(channel, "long", expiration=500)
    site.clock.advance(5_000)
    async with site.broker() as running:
        running.broker.hosts["/"].tick(site.clock())
        assert bodies(queue_of(running)) == ["long"]


async def test_counters_continue_and_count_what_came_back_once(site: Site) -> None:
    async with site.broker() as running:
        channel = await declare(running, ring_size=2)
        await publish(channel, "a", "b", "c")
        await (await (await channel.get_queue("q")).get()).ack()
        await channel.declare_queue("q", passive=True)
        before = queue_of(running).statistics()
    async with site.broker() as running:
        after = queue_of(running).statistics()
    assert (before.messages_added, before.messages_replaced, before.messages_acknowledged) == (3, 1, 1)
    assert (after.messages_added, after.messages_replaced, after.messages_acknowledged) == (3, 1, 1)
    assert (after.message_count, after.delivering_count) == (1, 0)
