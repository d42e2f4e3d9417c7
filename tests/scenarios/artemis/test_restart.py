"""Rows R17, L3, L16, L17, U5 and A5 of the Artemis scenarios: a real broker, ended and started on its data directory.

L16 and L17 are about prepared XA transactions, which AMQP 0-9-1 does not have: what is not committed when the broker
ends is undone, whether it is stopped or killed.
"""

from __future__ import annotations

from pathlib import Path

import aio_pika
import pytest
from pamqp.commands import Basic, Tx

from annulet.core.base.settings import QueueSettings
from tests.durability.site import Site, bodies, declare, persistent, publish, queue_of

KILLED = [pytest.param(False, id="stopped"), pytest.param(True, id="killed")]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path / "live")


async def test_r17_a_restart_trims_no_more_than_lowering_did(site: Site) -> None:
    """Artemis trims at the restart only, as loading inserts at the tail (§2.9); here ``ring-trim`` decides."""
    async with site.broker() as running:
        channel = await declare(site, ring_size=10)
        await publish(channel, *"abcdefghij")
        queue_of(running).update(QueueSettings(ring_size=3), site.clock())
        await publish(channel, "k")
        assert bodies(queue_of(running)) == list("bcdefghijk")
    async with site.broker() as running:
        queue = queue_of(running)
        assert bodies(queue) == list("bcdefghijk")
        queue.update(QueueSettings(ring_size=3, ring_trim_now=True), site.clock())
        assert bodies(queue) == list("ijk")


async def test_l3_only_the_last_value_comes_back_and_is_replaced_by_the_next(site: Site) -> None:
    async with site.broker() as running:
        await publish(await declare(site, last_value_key="k"), "a1", "a2", "b1")
    async with site.broker() as running:
        assert bodies(queue_of(running)) == ["a2", "b1"]
        await publish(await declare(site, last_value_key="k"), "a3")
        assert bodies(queue_of(running)) == ["b1", "a3"]
        assert queue_of(running).key_count == 2


async def begin(site: Site) -> aio_pika.abc.AbstractChannel:
    """Open a transaction on a channel of its own."""
    channel = await site.channel(confirms=False)
    answer = await (await channel.get_underlay_channel()).tx_select()
    assert isinstance(answer, Tx.SelectOk)
    return channel


@pytest.mark.parametrize("killed", KILLED)
async def test_l16_what_was_not_committed_was_not_sent(site: Site, tmp_path: Path, killed: bool) -> None:
    """Artemis can commit four prepared sends after the restart; here nothing of them is there."""
    after = site
    async with site.broker() as running:
        await publish(await declare(site, last_value_key="k"), "a0")
        channel = await begin(site)
        await publish(channel, "a1", "b2", "a3", "b4")
        await channel.declare_queue("q", passive=True)  # the sends arrived before the answer to this
        assert bodies(queue_of(running)) == ["a0"]
        if killed:
            after = await site.crash(tmp_path / "copy")
    async with after.broker() as running:
        assert bodies(queue_of(running)) == ["a0"]
        assert queue_of(running).statistics().messages_added == 1


@pytest.mark.parametrize("killed", KILLED)
async def test_l17_uncommitted_acknowledgements_bring_only_the_last_value_back(
    site: Site, tmp_path: Path, killed: bool
) -> None:
    after = site
    async with site.broker() as running:
        sender = await declare(site, last_value_key="k")
        channel = await begin(site)
        underlay = await channel.get_underlay_channel()
        for number in range(1, 7):
            await publish(sender, f"a{number}")
            taken = await underlay.basic_get("q", no_ack=False)
            assert isinstance(taken.delivery, Basic.GetOk)
            await underlay.basic_ack(taken.delivery.delivery_tag or 0)
        await channel.declare_queue("q", passive=True)
        statistics = queue_of(running).statistics()
        assert (statistics.delivering_count, statistics.messages_acknowledged) == (6, 0)
        if killed:
            after = await site.crash(tmp_path / "copy")
    async with after.broker() as running:
        assert bodies(queue_of(running)) == ["a6"]
        assert queue_of(running).key_count == 1


async def test_u5_a_smaller_cache_keeps_the_newest_ids(site: Site) -> None:
    site.address_settings["q"] = {"id-cache-size": 150}
    async with site.broker() as running:
        channel = await declare(site)
        for number in range(200):
            await publish(channel, "m", headers={"_AMQ_DUPL_ID": str(number)})
        assert running.broker.hosts["/"].publisher.duplicates.ids("q") == [str(number) for number in range(50, 200)]
        queue_of(running).purge(site.clock())
    site.address_settings["q"] = {"id-cache-size": 100}
    async with site.broker() as running:
        assert running.broker.hosts["/"].publisher.duplicates.ids("q") == [str(number) for number in range(100, 200)]
        channel = await begin(site)
        for number in range(150, 200):
            await publish(channel, "again", headers={"_AMQ_DUPL_ID": str(number)})
        with pytest.raises(aio_pika.exceptions.ChannelPreconditionFailed, match="duplicate id '150'"):
            await (await channel.get_underlay_channel()).tx_commit()
        assert bodies(queue_of(running)) == []
        await publish(await declare(site), "forgotten", headers={"_AMQ_DUPL_ID": "99"})
        assert bodies(queue_of(running)) == ["forgotten"]


async def test_a5_what_a_retroactive_address_holds_survives(site: Site) -> None:
    site.address_settings["news"] = {"retroactive-message-count": 10}
    for number in (1, 2):
        async with site.broker() as running:
            channel = await site.channel()
            exchange = await channel.declare_exchange("news", "address", durable=True)
            await exchange.publish(persistent(f"m{number}"), "", mandatory=False)
            (ring,) = running.broker.hosts["/"].addresses["news"].rings.values()
            assert bodies(ring) == [f"m{sent}" for sent in range(1, number + 1)]
            if number == 2:
                late = await channel.declare_queue("late", durable=True)
                await late.bind(exchange)
                assert bodies(queue_of(running, "late")) == ["m1", "m2"]
