"""A3: no protocol lets a queue be declared that sends messages where its maker may not write."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from annulet import testing
from annulet.broker.broker import Broker
from annulet.testing.clock import VirtualClock
from annulet.wire.amqp10.frames.terminus import Source, Target
from annulet.wire.amqp10.types import conditions
from tests.broker.amqp10 import peer as amqp10
from tests.broker.stomp import peer as stomp

TARGETS = ("x-dead-letter-address", "x-dead-letter-exchange", "x-expiry-address", "x-dropped-address")
FORBIDDEN = "audit"


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    """A broker whose guest may do everything but write to ``audit``, which is a queue."""
    async with testing.broker(http=False, clock=VirtualClock()) as running:
        amqp10.queue_of(running.broker, FORBIDDEN)
        amqp10.permit(running.broker, write=f"^(?!{FORBIDDEN}$)")
        yield running.broker
        for connection in list(running.broker.connections):
            connection.abort()


def definitions(broker: Broker) -> tuple[list[str], list[str], int, list[str]]:
    """Return all there is: queues, exchanges, bindings, and what is written down."""
    host = broker.hosts["/"]
    return (
        sorted(host.queues),
        sorted(host.exchanges),
        len(list(host.bindings())),
        sorted(record.name for record in broker.catalogue.queues("/")),
    )


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("command", ["SEND", "SUBSCRIBE"])
async def test_a_stomp_queue_with_a_forbidden_target(broker: Broker, command: str, target: str) -> None:
    """A3: STOMP SEND and SUBSCRIBE headers."""
    before = definitions(broker)
    client = await stomp.Peer(broker).open()
    await client.send(command, {"destination": "/queue/new", "id": "s", target: FORBIDDEN, "x-message-ttl": "1"})
    assert f"write access to '{FORBIDDEN}' in vhost '/' refused" in await client.error()
    assert definitions(broker) == before


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("headers", [{}, {"durable": "true"}, {"durable-subscription-name": "name"}])
async def test_a_stomp_subscription_with_a_forbidden_target(
    broker: Broker, headers: dict[str, str], target: str
) -> None:
    """A3: STOMP durable subscriptions, and those that are not."""
    broker.hosts["/"].nodes.declare_address("news", ("multicast",), durable=False)
    before = definitions(broker)
    client = await stomp.Peer(broker).open()
    await client.send("SUBSCRIBE", {"destination": "/topic/news", "id": "s", target: FORBIDDEN, **headers})
    assert f"write access to '{FORBIDDEN}' in vhost '/' refused" in await client.error()
    assert definitions(broker) == before


async def test_a_refused_change_of_a_durable_subscription_loses_none_of_its_messages(broker: Broker) -> None:
    """A3: one that is there is replaced only when the new one may be made."""
    client = await stomp.Peer(broker).open()
    subscribing = {"destination": "/topic/news", "id": "s", "durable": "true"}
    await client.request("SUBSCRIBE", subscribing)
    client.lose()
    await client.settle()
    sender = await stomp.Peer(broker).open()
    await sender.request("SEND", {"destination": "/topic/news"}, b"x")
    (queue,) = [queue for name, queue in broker.hosts["/"].queues.items() if name.endswith(".s")]
    for refused in ({"x-dead-letter-address": FORBIDDEN}, {"x-ring-size": "many"}):
        client = await stomp.Peer(broker).open()
        await client.send("SUBSCRIBE", {**subscribing, **refused})
        await client.error()
        assert not queue.deleted
        assert queue.order.count == 1


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["x-", ""])
@pytest.mark.parametrize("receiving", [True, False])
async def test_a_dynamic_node_with_a_forbidden_target(broker: Broker, target: str, name: str, receiving: bool) -> None:
    """A3: AMQP 1.0 dynamic nodes, by arguments with and without the ``x-``."""
    before = definitions(broker)
    client = await amqp10.Peer(broker).open()
    properties = {name + target.removeprefix("x-"): FORBIDDEN}
    if receiving:
        link = await client.receiver(None, source=Source(dynamic=True, dynamic_node_properties=properties))
    else:
        link = await client.sender(None, target=Target(dynamic=True, dynamic_node_properties=properties))
    error = await client.refusal(link)
    assert error.condition == conditions.UNAUTHORIZED_ACCESS
    assert definitions(broker) == before
    assert not broker.dynamic_nodes.get("/")


async def test_a_send_that_is_refused_declares_nothing(broker: Broker) -> None:
    """A3: nothing is declared for a command that is refused, whatever it is refused for."""
    for headers, text in (
        ({"x-ring-size": "5"}, "write access to 'amq.default'"),
        ({}, "write access to 'amq.default'"),
        ({"reply-to": "/temp-queue/r"}, "write access to 'amq.default'"),
    ):
        amqp10.permit(broker, write="^new$")
        before = definitions(broker)
        client = await stomp.Peer(broker).open()
        await client.send("SEND", {"destination": "/queue/new", **headers})
        assert text in await client.error()
        assert definitions(broker) == before
    amqp10.permit(broker)
    for refused in ({"priority": "high"}, {"user-id": "other"}, {"x-ring-size": "5", "expires": "soon"}):
        before = definitions(broker)
        client = await stomp.Peer(broker).open()
        await client.send("SEND", {"destination": "/queue/new", **refused})
        await client.error()
        assert definitions(broker) == before


async def test_a_subscribe_that_is_refused_declares_nothing(broker: Broker) -> None:
    """A3: the same for what a consumer makes."""
    amqp10.permit(broker, read="^other$")
    for destination in ("/queue/new", "/topic/new", "/temp-queue/new"):
        before = definitions(broker)
        client = await stomp.Peer(broker).open()
        await client.send("SUBSCRIBE", {"destination": destination, "id": "s"})
        assert "read access to" in await client.error()
        assert definitions(broker) == before
    amqp10.permit(broker)
    before = definitions(broker)
    client = await stomp.Peer(broker).open()
    await client.send("SUBSCRIBE", {"destination": "/queue/new", "id": "s", "x-max-consumers": "0"})
    assert "max-consumers" in await client.error()
    assert definitions(broker) == before


async def test_an_attach_that_is_refused_makes_nothing(broker: Broker) -> None:
    """A3: and for what an AMQP 1.0 link makes."""
    client = await amqp10.Peer(broker).open()
    for rights, name in (({"write": "^new$"}, "new"), ({"write": "^amq"}, "topic://new")):
        amqp10.permit(broker, **rights)
        before = definitions(broker)
        error = await client.refusal(await client.sender(name))
        assert error.condition == conditions.UNAUTHORIZED_ACCESS
        anonymous = await client.sender(None)
        outcome = await client.publish(anonymous, amqp10.message(to=name))
        assert conditions.UNAUTHORIZED_ACCESS in repr(outcome)
        assert definitions(broker) == before
    amqp10.permit(broker, read="^other$")
    before = definitions(broker)
    for source in (Source("new"), Source("topic://new"), Source(dynamic=True)):
        error = await client.refusal(await client.receiver(None, source=source))
        assert error.condition == conditions.UNAUTHORIZED_ACCESS
    assert definitions(broker) == before
