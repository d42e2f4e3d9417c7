"""Consumers that do not settle in time, over each protocol: what ends, what comes back, and how time is extended."""

from __future__ import annotations

from typing import Any

import pytest
from pamqp import commands

from annulet import testing
from annulet.broker.broker import Broker
from annulet.broker.connections.consumer_timeouts import ROUND_MILLISECONDS_MOST, SESSIONS_PER_TICK, ConsumerTimeouts
from annulet.testing.clock import VirtualClock
from annulet.wire.amqp10.frames.outcomes import Received
from annulet.wire.amqp10.frames.performatives import Detach
from annulet.wire.amqp10.types import conditions
from tests.broker.amqp091.peer import Peer, bodies, publish, turns
from tests.broker.amqp10.peer import Peer as Peer10
from tests.broker.amqp10.peer import message
from tests.broker.conftest import leave
from tests.broker.stomp.peer import Peer as StompPeer

BASIC, CHANNEL, QUEUE = commands.Basic, commands.Channel, commands.Queue
TIMEOUT = 40_000


async def pass_time(broker: Broker, milliseconds: int) -> None:
    """Let time pass in steps of a round, and look at the sessions in each."""
    assert isinstance(broker.clock, VirtualClock)
    while milliseconds > 0:
        broker.clock.advance(min(milliseconds, ROUND_MILLISECONDS_MOST))
        milliseconds -= ROUND_MILLISECONDS_MOST
        broker.consumer_timeouts.tick(broker.clock())
        await turns()


def count(broker: Broker) -> int:
    return broker.hosts["/"].queues["q"].order.count


async def consuming(broker: Broker, arguments: dict[str, Any] | None = None, *, own: int = -1) -> Peer:
    """Return a client that holds two deliveries."""
    peer = await Peer(broker).open(1, 2)
    await peer.send(1, QUEUE.Declare(queue="q", arguments=arguments), publish(1, "q", b"a"), publish(1, "q", b"b"))
    consumer = {"x-consumer-timeout": own} if own >= 0 else None
    await peer.send(1, BASIC.Consume(queue="q", consumer_tag="slow", arguments=consumer))
    assert bodies(await peer.take()) == [b"a", b"b"]
    return peer


async def test_a_channel_is_closed_and_gives_back_what_it_holds(broker: Broker) -> None:
    peer = await consuming(broker, {"x-consumer-timeout": TIMEOUT})
    await peer.send(1, BASIC.Ack(1))
    await pass_time(broker, TIMEOUT)
    assert await peer.take() == [], "not early"
    await pass_time(broker, 2 * ROUND_MILLISECONDS_MOST)
    closed = await peer.one(CHANNEL.Close)
    assert closed.reply_code == 406
    assert "delivery 2 of consumer 'slow' of queue 'q' was not settled within 40000 ms" in closed.reply_text
    assert count(broker) == 1
    assert broker.consumer_timeouts.timed_out == 1
    await peer.send(2, BASIC.Get(queue="q"))
    assert (await peer.one(BASIC.GetOk)).redelivered


async def test_nothing_ends_a_consumer_unless_something_says_so(broker: Broker) -> None:
    peer = await consuming(broker)
    await pass_time(broker, 24 * 3_600_000)
    assert await peer.take() == []


@pytest.mark.parametrize("own", [TIMEOUT, 0])
async def test_a_consumer_has_its_own_time(broker: Broker, own: int) -> None:
    peer = await consuming(broker, {"x-consumer-timeout": 5_000 if own == 0 else 10 * TIMEOUT}, own=own)
    await pass_time(broker, TIMEOUT + 2 * ROUND_MILLISECONDS_MOST)
    assert [type(item) for item in await peer.take()] == ([CHANNEL.Close] if own else [])


async def test_the_servers_time_and_a_policy_over_it() -> None:
    async with testing.broker(http=False, clock=VirtualClock(), consumer_timeout=TIMEOUT) as running:
        broker = running.broker
        peer = await consuming(broker)
        broker.hosts["/"].policies.set("patient", "^q$", {"consumer-timeout": 3 * TIMEOUT})
        await pass_time(broker, 2 * TIMEOUT)
        assert await peer.take() == []
        broker.hosts["/"].policies.remove("patient")
        await pass_time(broker, ROUND_MILLISECONDS_MOST)
        assert (await peer.one(CHANNEL.Close)).reply_code == 406
        leave(broker)


async def test_what_was_got_without_a_consumer_has_the_time_of_its_queue(broker: Broker) -> None:
    peer = await Peer(broker).open(1)
    await peer.send(1, QUEUE.Declare(queue="q", arguments={"x-consumer-timeout": TIMEOUT}), publish(1, "q"))
    await peer.send(1, BASIC.Get(queue="q"))
    await peer.take()
    await pass_time(broker, TIMEOUT + 2 * ROUND_MILLISECONDS_MOST)
    assert (await peer.one(CHANNEL.Close)).reply_code == 406
    assert count(broker) == 1


async def test_a_publish_extends_the_time_of_a_delivery_and_goes_nowhere(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer = await consuming(broker, {"x-consumer-timeout": TIMEOUT})
    await peer.send(1, BASIC.Ack(1), commands.Confirm.Select())
    await peer.take()
    monkeypatch.setattr(broker.authenticator, "allowed", lambda user, virtual_host, kind, name: False)
    for number in range(1, 6):
        await pass_time(broker, TIMEOUT // 2)
        await peer.send(1, publish(1, "anything", headers={"x-extend-delivery": 2}, mandatory=True))
        assert [(type(item), item.delivery_tag) for item in await peer.take()] == [(BASIC.Ack, number)]
    assert broker.consumer_timeouts.extended == 5
    await peer.send(1, BASIC.Ack(2), publish(1, "", headers={"x-extend-delivery": 2}))
    closed = await peer.one(CHANNEL.Close)
    assert (closed.reply_code, "unknown delivery tag 2" in closed.reply_text) == (406, True)


async def test_a_link_is_detached_and_gives_back_what_it_holds(broker: Broker) -> None:
    broker.hosts["/"].declare_queue("q", now=broker.clock(), arguments={"x-consumer-timeout": TIMEOUT})
    peer = await Peer10(broker).open()
    sender, receiver = await peer.sender("q"), await peer.receiver("q", credit=5)
    await peer.publish(sender, message(b"a"))
    delivery = peer.deliveries_among(peer.kept + await peer.take())[0]
    for _ in range(4):
        await pass_time(broker, TIMEOUT // 2)
        await peer.settle(Received(0, 0), delivery, settled=False)
    assert broker.consumer_timeouts.extended == 4
    assert await peer.all(Detach) == []
    await pass_time(broker, TIMEOUT + 2 * ROUND_MILLISECONDS_MOST)
    detach = await peer.one(Detach)
    assert (detach.handle, detach.closed, detach.error.condition) == (1, True, conditions.LINK_DETACH_FORCED)
    assert "was not settled within 40000 ms" in detach.error.description
    assert count(broker) == 1
    del receiver


async def test_a_link_has_its_own_time(broker: Broker) -> None:
    broker.hosts["/"].declare_queue("q", now=broker.clock())
    peer = await Peer10(broker).open()
    await peer.receiver("q", credit=5, properties={"consumer-timeout": TIMEOUT})
    await peer.publish(await peer.sender("q"), message(b"a"))
    await pass_time(broker, TIMEOUT + 2 * ROUND_MILLISECONDS_MOST)
    assert len(await peer.all(Detach)) == 1
    refused = await peer.receiver("q", properties={"consumer-timeout": "soon"})
    assert "consumer-timeout" in ((await peer.refusal(refused)).description or "")


async def test_a_stomp_connection_ends_with_error(broker: Broker) -> None:
    peer = await StompPeer(broker).open()
    await peer.request("SEND", {"destination": "/queue/q"}, b"a")
    subscribe = {"destination": "/queue/q", "id": "1", "ack": "client-individual", "x-consumer-timeout": str(TIMEOUT)}
    await peer.send("SUBSCRIBE", subscribe)
    delivered = await peer.next("MESSAGE")
    for _ in range(4):
        await pass_time(broker, TIMEOUT // 2)
        await peer.request("SEND", {"destination": "/queue/q", "x-extend-delivery": delivered.headers["ack"]})
    assert count(broker) == 0
    await pass_time(broker, TIMEOUT + 2 * ROUND_MILLISECONDS_MOST)
    error = await peer.next("ERROR")
    assert "was not settled within 40000 ms" in error.headers["message"]
    assert count(broker) == 1


async def test_extending_what_stomp_does_not_hold_is_an_error(broker: Broker) -> None:
    peer = await StompPeer(broker).open()
    await peer.send("SEND", {"destination": "/queue/q", "x-extend-delivery": "nothing"})
    assert "not outstanding" in (await peer.next("ERROR")).headers["message"]


async def test_a_round_is_made_in_slices(broker: Broker) -> None:
    peer = await consuming(broker, {"x-consumer-timeout": TIMEOUT})
    timeouts = ConsumerTimeouts([peer.connection] * (SESSIONS_PER_TICK + 1), 0)
    now = broker.clock()
    timeouts.tick(now)
    left = 2 * (SESSIONS_PER_TICK + 1) - SESSIONS_PER_TICK  # two channels each
    assert timeouts.left == left
    timeouts.tick(now)
    timeouts.tick(now)
    assert timeouts.left == 0
    timeouts.tick(now)
    assert timeouts.left == 0, "the next round has its time"
