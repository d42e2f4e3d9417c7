"""basic.get: one message or get-empty, in the order of the questions, also where an answer has to wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pamqp import commands, frame

from annulet.broker.broker import Broker
from annulet.core.base.sliced_work import AT_ONCE_MAX
from annulet.core.searching.grouped_lanes import GroupedLanes
from tests.broker.amqp091.peer import Peer, bodies, publish, turns
from tests.residency.acceptance.deep import deep_broker

BASIC, QUEUE = commands.Basic, commands.Queue
MANY = 2000
PATIENCE_SECONDS = 30
"""A guard against a hang."""


async def test_a_message_or_the_word_that_there_is_none(broker: Broker) -> None:
    peer = await Peer(broker).open(1)
    await peer.send(1, QUEUE.Declare(queue="q"), publish(1, "q", b"a"), publish(1, "q", b"b"))
    await peer.take()
    await peer.send(1, *[BASIC.Get(queue="q", no_ack=no_ack) for no_ack in (True, False, True)])
    frames = await peer.take()
    found = [item for item in frames if isinstance(item, (BASIC.GetOk, BASIC.GetEmpty))]
    assert [type(item) for item in found] == [BASIC.GetOk, BASIC.GetOk, BASIC.GetEmpty]
    assert [(item.delivery_tag, item.message_count) for item in found[:2]] == [(1, 1), (2, 0)]
    assert bodies(frames) == [b"a", b"b"]
    assert broker.hosts["/"].queues["q"].statistics().delivering_count == 1


@pytest.mark.parametrize("arguments", [{}, {"x-ring-size": 2 * AT_ONCE_MAX}], ids=["plain", "ring"])
async def test_a_get_waits_for_what_comes_back_in_slices(broker: Broker, arguments: dict[str, Any]) -> None:
    count = 2 * AT_ONCE_MAX
    peer = await Peer(broker).open(1)
    await peer.send(1, QUEUE.Declare(queue="q", arguments=arguments), BASIC.Consume(queue="q", consumer_tag="c"))
    await peer.send(1, *[publish(1, "q", b"%d" % number) for number in range(count)])
    await until(peer, BASIC.Deliver)
    await peer.send(1, BASIC.Cancel("c"), BASIC.Nack(0, multiple=True, requeue=True), BASIC.Get(queue="q", no_ack=True))
    assert bodies(await until(peer, BASIC.GetOk))[-1:] == [b"0"]
    assert broker.hosts["/"].queues["q"].statistics().pending_count == count - 1


@pytest.fixture
async def deep(tmp_path: Path) -> AsyncIterator[Broker]:
    async with deep_broker(tmp_path) as running:
        yield running.broker


async def grouped(broker: Broker) -> Peer:
    """Make a queue of which another consumer has all, deeper than its lanes; return a client that pulls."""
    owner = await Peer(broker).open(1)
    await owner.send(1, QUEUE.Declare(queue="q", durable=True, arguments={"x-group-mode": "sticky"}))
    queue = broker.hosts["/"].queues["q"]
    queue.matchers.lanes_max = 50
    await owner.send(1, *[publish(1, "q", headers={"JMSXGroupID": "held"}) for _ in range(MANY)])
    await owner.send(1, BASIC.Qos(prefetch_count=1), BASIC.Consume(queue="q"))
    assert isinstance(queue.lanes, GroupedLanes)
    queue.lanes.pull_looks = 1
    return await Peer(broker).open(1)


async def until(peer: Peer, kind: type[Any]) -> list[Any]:
    """Return what comes up to a method of a kind."""
    found: list[Any] = []
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not any(isinstance(item, kind) for item in found):
            await asyncio.sleep(0.001)
            found += await peer.take()
    return found


async def test_what_the_client_cannot_be_sent_closes_the_channel_later_too(deep: Broker) -> None:
    peer = await grouped(deep)
    small = await Peer(deep).open(1, frame_max=4096)
    await peer.send(1, publish(1, "q", headers={"JMSXGroupID": "free", "k": "v" * 5000}))
    small.receive(b"".join(frame.marshal(BASIC.Get(queue="q"), 1) for _ in range(2)))
    queue = deep.hosts["/"].queues["q"]
    assert queue.pull_waiters
    closed = (await until(small, commands.Channel.Close))[-1]
    assert (closed.reply_code, closed.class_id, closed.method_id) == (311, 60, 70)
    assert not queue.pull_waiters
    assert queue.statistics().message_count == MANY + 1


@pytest.mark.parametrize("more", [0, 1])
async def test_gets_that_wait_are_bounded(deep: Broker, monkeypatch: pytest.MonkeyPatch, more: int) -> None:
    monkeypatch.setattr("annulet.broker.amqp091.getting.GETS_WAITING_MAX", 3)
    peer = await grouped(deep)
    peer.receive(b"".join(frame.marshal(BASIC.Get(queue="q"), 1) for _ in range(3 + more)))
    queue = deep.hosts["/"].queues["q"]
    assert bool(queue.pull_waiters) is not bool(more)
    if more:
        closed = (await until(peer, commands.Channel.Close))[-1]
        assert (closed.reply_code, "3 basic.get" in closed.reply_text) == (406, True)
        assert peer.connection.engine.limit_hits == {"gets_waiting_max": 1}
    else:
        assert [type(item) for item in await until(peer, BASIC.GetEmpty)] == [BASIC.GetEmpty] * 3


async def test_notices_of_cancelled_consumers_wait_for_the_answer(deep: Broker) -> None:
    peer = await grouped(deep)
    await peer.send(1, QUEUE.Declare(queue="other"), BASIC.Consume(queue="other"))
    await peer.take()
    peer.receive(frame.marshal(BASIC.Get(queue="q"), 1) + frame.marshal(QUEUE.Delete(queue="other", nowait=True), 1))
    assert [type(item) for item in await until(peer, BASIC.Cancel)] == [BASIC.GetEmpty, BASIC.Cancel]


@pytest.mark.parametrize("abrupt", [False, True])
async def test_a_connection_that_ends_leaves_nothing_waiting(deep: Broker, *, abrupt: bool) -> None:
    peer = await grouped(deep)
    peer.receive(frame.marshal(BASIC.Get(queue="q"), 1))
    queue = deep.hosts["/"].queues["q"]
    assert queue.pull_waiters
    if abrupt:
        peer.transport.abort()
    else:
        peer.receive(frame.marshal(commands.Connection.Close(200, "", 0, 0), 0))
    await turns()
    assert not queue.pull_waiters
    assert queue.statistics().delivering_count == 1
