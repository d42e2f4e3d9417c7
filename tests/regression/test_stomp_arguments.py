"""B25: STOMP takes argument names without ``x-``, or refuses them with the nearest name."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from annulet import testing
from annulet.broker.broker import Broker
from annulet.testing.clock import VirtualClock
from tests.broker.stomp.peer import Peer

DESTINATION = "/queue/q"


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    async with testing.broker(http=False, clock=VirtualClock()) as running:
        yield running.broker
        for connection in list(running.broker.connections):
            connection.abort()


async def test_subscribe_takes_names_without_the_prefix(broker: Broker) -> None:
    """B25: for a queue, and for the queue of a subscription."""
    client = await Peer(broker).open()
    headers = {"ring-size": "2", "message-ttl": "5000", "dead-letter-address": "dead", "content-type": "text/plain"}
    await client.request("SUBSCRIBE", {"destination": DESTINATION, "id": "1", **headers})
    await client.request("SUBSCRIBE", {"destination": "/topic/t", "id": "2", "durable": "true", **headers})
    for queue in broker.hosts["/"].queues.values():
        settings = queue.settings
        assert (settings.ring_size, settings.message_ttl, settings.dead_letter_address) == (2, 5000, "dead")
    assert len(broker.hosts["/"].queues) == 2


@pytest.mark.parametrize(
    ("header", "near"), [("x-rng-size", "x-ring-size"), ("ring-sise", "ring-size"), ("x-max-lenght", "x-max-length")]
)
async def test_subscribe_refuses_a_misspelt_one(broker: Broker, header: str, near: str) -> None:
    """B25: with the nearest name."""
    client = await Peer(broker).open()
    await client.send("SUBSCRIBE", {"destination": DESTINATION, "id": "s", header: "2"})
    assert f"header '{header}' is unknown; did you mean '{near}'?" in await client.error()
    assert not broker.hosts["/"].queues


@pytest.mark.parametrize("header", ["x-stream-offset", "x-cancel-on-ha-failover", "mine", "transformation"])
async def test_subscribe_takes_headers_that_mean_nothing_here(broker: Broker, header: str) -> None:
    """B25: what works elsewhere is not refused."""
    client = await Peer(broker).open()
    await client.request("SUBSCRIBE", {"destination": DESTINATION, "id": "s", header: "2"})


@pytest.mark.parametrize(
    ("header", "near"), [("ring-size", "x-ring-size"), ("max-length", "x-max-length"), ("x-rng-size", "x-ring-size")]
)
async def test_a_send_that_makes_its_queue_refuses_them(broker: Broker, header: str, near: str) -> None:
    """B25: on SEND such a header is the message's, which is said before a queue is made without it."""
    client = await Peer(broker).open()
    await client.send("SEND", {"destination": DESTINATION, header: "2"})
    assert f"did you mean '{near}'?" in await client.error()
    assert not broker.hosts["/"].queues


async def test_a_send_to_a_queue_that_is_there_keeps_them(broker: Broker) -> None:
    """B25: and applications may name their headers as they like."""
    client = await Peer(broker).open()
    headers = {"x-request-id": "7", "priority": "4", "expires": "0", "overflow": "none"}
    await client.request("SEND", {"destination": DESTINATION, **headers})
    await client.request("SEND", {"destination": DESTINATION, "ring-size": "small"})
    await client.send("SUBSCRIBE", {"destination": DESTINATION, "id": "s"})
    first, second = await client.messages(2)
    assert first.headers["x-request-id"] == "7"
    assert second.headers["ring-size"] == "small"


async def test_a_temporary_queue_takes_arguments_and_refuses_others_later(broker: Broker) -> None:
    """B25: they were left unread without a word."""
    client = await Peer(broker).open()
    await client.request("SUBSCRIBE", {"destination": "/temp-queue/t", "id": "1", "ring-size": "2"})
    (queue,) = broker.hosts["/"].queues.values()
    assert queue.settings.ring_size == 2
    await client.request("SUBSCRIBE", {"destination": "/temp-queue/t", "id": "2", "ring-size": "2"})
    await client.request("SUBSCRIBE", {"destination": "/temp-queue/t", "id": "3"})
    await client.send("SUBSCRIBE", {"destination": "/temp-queue/t", "id": "4", "ring-size": "3"})
    assert "inequivalent arg 'x-ring-size'" in await client.error()
