"""A drain of an AMQP 1.0 link gives all that is there before it gives the credit back (§2.6.7), however deep it stands.

JMS's ``receiveNoWait`` and ``QueueBrowser`` stand on that.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from annulet.broker.broker import Broker
from annulet.wire.amqp10.frames.performatives import Source
from annulet.wire.amqp10.frames.terminus import DISTRIBUTION_COPY
from tests.broker.amqp10.peer import Peer, PeerLink
from tests.broker.amqp10.test_sources import selector
from tests.residency.acceptance.deep import Deep, deep_broker, number_of

MANY = 6000
CREDIT = 50
PATIENCE_SECONDS = 60
"""A guard against a hang: looks at a deep queue take their turns."""


@pytest.fixture
async def deep(tmp_path: Path) -> AsyncIterator[Deep]:
    async with deep_broker(tmp_path) as running:
        yield running


async def fill(deep: Deep, name: str = "q", *, in_memory: bool = False, **arguments: Any) -> None:
    """Publish many messages of which the last one says so, one in a hundred is rare, and all are of two groups."""
    queue = await deep.declare(name, **arguments)
    if in_memory:
        queue.matchers.lanes_max = 100
    last = MANY - 1
    common = {"durable": not in_memory, "size": 200}
    for start in range(0, last, 100):
        group = {"JMSXGroupID": "held" if start < MANY // 2 else "free"}
        await deep.publish([start], name, **common, **group, what="rare")
        await deep.publish(range(start + 1, min(start + 100, last)), name, **common, **group, what="common")
    await deep.publish([last], name, **common, JMSXGroupID="free", what="last")


async def drained(peer: Peer, link: PeerLink, credit: int = CREDIT) -> list[int]:
    """Drain a link; return the numbers of what came before the credit was given back."""
    await peer.take()
    link.flows.clear()
    await peer.credit(link, credit, drain=True)
    numbers: list[int] = []
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not any(flow.link_credit == 0 for flow in link.flows):
            await asyncio.sleep(0.001)
            numbers += [number_of(one.body) for one in await peer.deliveries()]
    return numbers


def source(*, browses: bool = False, what: str = "") -> Source:
    mode = {"distribution_mode": DISTRIBUTION_COPY} if browses else {}
    chosen = {"filter": selector(f"what = '{what}'")} if what else {}
    return Source("q", **mode, **chosen)  # type: ignore[arg-type]


RARE = range(0, MANY - 1, 100)


@pytest.mark.parametrize("in_memory", [True, False], ids=["in memory", "on disk"])
@pytest.mark.parametrize("browses", [False, True], ids=["consumer", "browser"])
async def test_all_there_is_comes_before_the_answer(deep: Deep, *, in_memory: bool, browses: bool) -> None:
    """B22: selectors on a queue of 10,000 in memory, browsers and selectors on queues mostly on disk."""
    await fill(deep, in_memory=in_memory)
    assert (deep.queue().order.paged_count() > MANY // 2) is not in_memory
    for what, expected in (("", list(range(CREDIT))), ("rare", list(RARE)[:CREDIT]), ("last", [MANY - 1]), ("no", [])):
        peer = await open_on(deep.broker)
        link = await peer.receiver(None, source=source(browses=browses, what=what))
        assert await drained(peer, link) == expected, what
        await peer.lose()


@pytest.mark.parametrize("mode", ["sticky", "shared"])
async def test_what_stands_behind_a_held_group_comes_too(deep: Deep, mode: str) -> None:
    """B22: groups whose front is held by another consumer."""
    await fill(deep, x_group_mode=mode)
    owner = await open_on(deep.broker)
    await owner.receiver("q", credit=1)
    assert len(await owner.deliveries()) == 1
    peer = await open_on(deep.broker)
    link = await peer.receiver("q")
    assert await drained(peer, link) == list(range(MANY // 2, MANY // 2 + CREDIT))


async def test_credit_without_a_drain_ends_the_wait(deep: Deep) -> None:
    """B22, its kind: a client that changes its mind while the answer is on its way gets messages and no answer."""
    await fill(deep)
    peer = await open_on(deep.broker)
    link = await peer.receiver(None, source=source(what="last"))
    await peer.send(peer.flow(link, 2, drain=True), peer.flow(link, 2), channel=link.channel)
    numbers: list[int] = []
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not numbers:
            await asyncio.sleep(0.001)
            numbers = [number_of(one.body) for one in await peer.deliveries()]
    assert numbers == [MANY - 1]
    assert not deep.queue().draining
    assert not link.flows


async def open_on(broker: Broker) -> Peer:
    return await Peer(broker).open()
