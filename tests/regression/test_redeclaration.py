"""B25: declaring again what exists names the value that is in force, in every protocol that declares."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from annulet import testing
from annulet.broker.broker import Broker
from annulet.core.base.errors import PreconditionFailed
from annulet.core.queue.queue import Queue
from annulet.testing.clock import VirtualClock
from tests.broker.amqp10.peer import queue_of
from tests.broker.stomp.peer import Peer

DESTINATION = "/queue/q"


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    async with testing.broker(http=False, clock=VirtualClock()) as running:
        yield running.broker
        for connection in list(running.broker.connections):
            connection.abort()


def redeclare(broker: Broker, ring_size: int) -> Queue:
    return queue_of(broker, "q", {"x-ring-size": ring_size})


@pytest.mark.parametrize("origin", ["operator", "policy 'short'"])
async def test_a_406_names_the_current_value_after_a_change_at_run_time(broker: Broker, origin: str) -> None:
    """B25: a 406 names the current value, also after a change at run time (operator or policy changes)."""
    host = broker.hosts["/"]
    queue = queue_of(broker, "q", {"x-ring-size": 10} if origin == "operator" else {})
    if origin == "operator":
        broker.operator_settings.change_queue(host, queue, {"ring-size": 20}, broker.clock())
        first = "'10'"
    else:
        broker.operator_settings.set_policy(host, "short", "^q$", {"ring-size": 20}, 0)
        first = "none"
    text = f"received '15' but current is '20', by {origin}, and it was declared with {first}; declare it with one of"
    with pytest.raises(PreconditionFailed, match=text):
        redeclare(broker, 15)
    assert redeclare(broker, 20) is queue
    assert queue_of(broker, "q", {"x-ring-size": 10} if origin == "operator" else {}) is queue
    client = await Peer(broker).open()
    await client.send("SUBSCRIBE", {"destination": DESTINATION, "id": "s", "x-ring-size": "15"})
    assert f"current is '20', by {origin}" in await client.error()


async def test_one_that_never_changed_is_told_in_rabbitmqs_words(broker: Broker) -> None:
    """B25: the words clients look for stay."""
    redeclare(broker, 10)
    with pytest.raises(PreconditionFailed, match="received '15' but current is '10'; declare it with the current"):
        redeclare(broker, 15)


SUBSCRIBING = {"destination": "/topic/news", "id": "s", "durable": "true"}


async def subscribed(broker: Broker, **arguments: str) -> Queue:
    """Make a durable subscription with these arguments, with a message that waits."""
    client = await Peer(broker).open()
    await client.request("SUBSCRIBE", {**SUBSCRIBING, **arguments})
    client.lose()
    await client.settle()
    (queue,) = broker.hosts["/"].queues.values()
    sender = await Peer(broker).open()
    await sender.request("SEND", {"destination": "/topic/news"}, b"x")
    assert queue.order.count == 1
    return queue


@pytest.mark.parametrize("arguments", [{"x-expires": "60000"}, {"x-ring-size": "5", "expires": "60000"}, {}])
async def test_a_durable_subscription_is_continued_with_its_arguments_and_without(
    broker: Broker, arguments: dict[str, str]
) -> None:
    """B25: one with x-expires was replaced each time, with what waited in it."""
    queue = await subscribed(broker, **arguments)
    for again in (arguments, {}):
        client = await Peer(broker).open()
        await client.send("SUBSCRIBE", {**SUBSCRIBING, "ack": "client", **again})
        (message,) = await client.messages(1)
        assert message.body == b"x"
        assert not queue.deleted
        client.lose()
        await client.settle()


async def test_other_arguments_for_a_durable_subscription_are_refused_and_lose_nothing(broker: Broker) -> None:
    """B25: the value in force is named, and may be given; the subscription was replaced, with what waited in it."""
    queue = await subscribed(broker, **{"x-ring-size": "5"})
    broker.operator_settings.change_queue(broker.hosts["/"], queue, {"ring-size": 6}, broker.clock())
    client = await Peer(broker).open()
    await client.send("SUBSCRIBE", {**SUBSCRIBING, "x-ring-size": "7"})
    assert "received '7' but current is '6', by operator" in await client.error()
    assert queue.order.count == 1
    client = await Peer(broker).open()
    await client.send("SUBSCRIBE", {**SUBSCRIBING, "x-ring-size": "6"})
    await client.messages(1)
    assert not queue.deleted
