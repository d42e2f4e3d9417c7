"""A queue and a topic of one name, as clients of Artemis have them: each gets what is sent to it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from annulet import testing
from annulet.broker.broker import Broker
from annulet.testing.clock import VirtualClock
from annulet.wire.amqp10.frames.performatives import Source, Target
from tests.broker.amqp10.peer import ACCEPTED, Peer, bodies, message, queue_of
from tests.broker.conftest import leave
from tests.broker.stomp.peer import Peer as StompPeer


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    async with testing.broker(http=False, clock=VirtualClock()) as running:
        yield running.broker
        leave(running.broker)


@pytest.mark.parametrize("kinds", [("queue", "topic"), ("topic", "queue")], ids=" first, then ".join)
async def test_in_stomp(broker: Broker, kinds: tuple[str, str]) -> None:
    """B19: /queue/x and /topic/x were refused beside each other."""
    peer = await StompPeer(broker).open()
    for kind in kinds:
        await peer.request("SUBSCRIBE", {"id": kind, "destination": f"/{kind}/x"})
    for kind in kinds:
        await peer.send("SEND", {"destination": f"/{kind}/x"}, kind.encode())
    found = {
        frame.headers["subscription"]: (frame.headers["destination"], frame.body) for frame in await peer.messages(2)
    }
    assert found == {kind: (f"/{kind}/x", kind.encode()) for kind in kinds}


@pytest.mark.parametrize("kinds", [("queue", "topic"), ("topic", "queue")], ids=" first, then ".join)
async def test_in_amqp_1_0(broker: Broker, kinds: tuple[str, str]) -> None:
    """B19: capabilities queue and topic of one address."""
    peer = await Peer(broker).open()
    links = {
        kind: await peer.receiver(None, source=Source("x", capabilities=[kind]), credit=5, name=kind) for kind in kinds
    }
    for kind in kinds:
        sender = await peer.sender(None, target=Target("x", capabilities=[kind]))
        assert await peer.publish(sender, message(kind.encode())) == ACCEPTED
    handles = {link.answer.handle: kind for kind, link in links.items() if link.answer is not None}
    assert {handles[one.handle]: one.body for one in await peer.deliveries()} == {kind: kind.encode() for kind in kinds}


async def test_a_name_without_a_type_is_still_the_queue(broker: Broker) -> None:
    """B19: what a bare name meant before the topic was there, it means afterwards."""
    queue = queue_of(broker, "x")
    peer = await Peer(broker).open()
    topic = await peer.receiver("topic://x", credit=5)
    assert topic.source.address == "topic://x"
    assert await peer.publish(await peer.sender("x"), message(b"bare")) == ACCEPTED
    assert queue.order.count == 1
    plain = await peer.receiver("x", credit=1)
    assert bodies(await peer.deliveries()) == [b"bare"]
    assert plain.source.address == "x"


async def test_declaring_headers_are_for_the_queue_beside_a_topic(broker: Broker) -> None:
    """B19, its kind: a destination spelt as a queue is declared as its headers say, topic or not."""
    peer = await StompPeer(broker).open()
    await peer.request("SUBSCRIBE", {"id": "t", "destination": "/topic/x"})
    await peer.request("SUBSCRIBE", {"id": "q", "destination": "/queue/x", "x-ring-size": "2"})
    assert broker.hosts["/"].queues["x"].settings.ring_size == 2
