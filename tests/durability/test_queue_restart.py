"""What a queue's rules make of a real restart: stopped cleanly, started again on the same data."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.durability.site import Site, bodies, declare, publish, queue_of


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


async def test_dropped_by_the_ring_is_dropped_for_good(site: Site) -> None:
    async with site.broker() as running:
        channel = await declare(site, ring_size=3)
        await publish(channel, *"abcde")
    async with site.broker() as running:
        queue = queue_of(running)
        assert bodies(queue) == ["c", "d", "e"]
        await publish(await declare(site, ring_size=3), "f")
        assert bodies(queue) == ["d", "e", "f"]
        assert queue.order.first().sequence == 4  # places go on where they were


async def test_what_was_in_delivery_comes_back_in_place(site: Site) -> None:
    async with site.broker() as running:
        channel = await declare(site, ring_size=3)
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
        channel = await declare(site)
        await publish(channel, "a", "b")
        queue = await channel.get_queue("q")
        await (await queue.get()).ack()
        await channel.declare_queue("q", passive=True)  # acknowledgements have no answer, what follows them has
    async with site.broker() as running:
        assert bodies(queue_of(running)) == ["b"]


async def test_a_message_whose_time_came_while_the_broker_was_down_expires(site: Site) -> None:
    async with site.broker() as running:
        channel = await declare(site)
        await publish(channel, "short", expiration=5)
        await publish(channel, "long", expiration=500)
    site.clock.advance(5_000)
    async with site.broker() as running:
        running.broker.hosts["/"].tick(site.clock())
        assert bodies(queue_of(running)) == ["long"]


async def test_counters_continue_and_count_what_came_back_once(site: Site) -> None:
    async with site.broker() as running:
        channel = await declare(site, ring_size=2)
        await publish(channel, "a", "b", "c")
        await (await (await channel.get_queue("q")).get()).ack()
        await channel.declare_queue("q", passive=True)
        before = queue_of(running).statistics()
    async with site.broker() as running:
        after = queue_of(running).statistics()
    assert (before.messages_added, before.messages_replaced, before.messages_acknowledged) == (3, 1, 1)
    assert (after.messages_added, after.messages_replaced, after.messages_acknowledged) == (3, 1, 1)
    assert (after.message_count, after.delivering_count) == (1, 0)
