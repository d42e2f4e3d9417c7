"""What the engine calls that is neither a declaration nor a channel's: opening, and what goes with the connection."""

from __future__ import annotations

import pytest
from pamqp import commands

from annulet.broker.broker import Broker
from tests.broker.amqp091.peer import CLIENT_PROPERTIES, PROTOCOL_HEADER, Peer, publish, turns

BASIC, CHANNEL, CONNECTION = commands.Basic, commands.Channel, commands.Connection


@pytest.mark.parametrize("how", ["lost", "closed by the peer", "closed by us"])
async def test_what_a_connection_held_comes_back_once_however_it_ends(broker: Broker, how: str) -> None:
    peer = await Peer(broker).open(1, 2)
    await peer.send(1, commands.Queue.Declare(queue="q"), publish(1, "q", b"a"))
    await peer.send(1, BASIC.Consume(queue="q"))
    await peer.send(2, BASIC.Consume(queue="q"))
    if how == "lost":
        peer.connection.abort()
    elif how == "closed by the peer":
        await peer.send(0, CONNECTION.Close(200, "", 0, 0))
    else:
        peer.connection.force_close("test")
    await turns()
    queue = broker.hosts["/"].queues["q"]
    entry = queue.browse()[0]
    assert (queue.order.count, entry.delivery_count, entry.redelivered) == (1, 1, True)
    assert queue.counters.messages_delivered == 1, "a channel of the dying connection was served"


async def test_exclusive_and_auto_delete_queues_go_with_their_connection(broker: Broker) -> None:
    peer, other = await Peer(broker).open(1), await Peer(broker).open(1)
    await peer.send(1, commands.Queue.Declare(queue="mine", exclusive=True))
    await peer.send(1, commands.Queue.Declare(queue="shared", auto_delete=True), BASIC.Consume(queue="shared"))
    assert (await other.ask(1, BASIC.Consume(queue="mine"), CHANNEL.Close)).reply_code == 405
    peer.connection.abort()
    await turns()
    assert broker.hosts["/"].queues == {}


async def test_channel_flow_resumes_and_does_not_stop(broker: Broker) -> None:
    peer = await Peer(broker).open(1)
    assert (await peer.ask(1, CHANNEL.Flow(True), CHANNEL.FlowOk)).active
    assert (await peer.ask(1, CHANNEL.Flow(False), CONNECTION.Close)).reply_code == 540


async def test_recover_without_requeue_is_not_served(broker: Broker) -> None:
    peer = await Peer(broker).open(1)
    await peer.ask(1, BASIC.Recover(requeue=True), BASIC.RecoverOk)
    assert (await peer.ask(1, BASIC.Recover(requeue=False), CONNECTION.Close)).reply_code == 540


@pytest.mark.parametrize(("name", "code"), [("/", 0), ("nowhere", 530)])
async def test_only_virtual_hosts_that_are_there_are_entered(broker: Broker, name: str, code: int) -> None:
    peer = Peer(broker)
    peer.receive(PROTOCOL_HEADER)
    await peer.send(0, CONNECTION.StartOk(dict(CLIENT_PROPERTIES), "PLAIN", "\0guest\0guest", "en_US"))
    await peer.checked()
    await peer.take()
    await peer.send(0, CONNECTION.TuneOk(100, 131_072, 0), CONNECTION.Open(name))
    (answer,) = await peer.take()
    assert getattr(answer, "reply_code", 0) == code
    assert (peer.connection.host is broker.hosts["/"]) == peer.connection.opened == (not code)
