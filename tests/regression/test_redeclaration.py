"""B25: declaring again what exists names the value that is in force, in every protocol that declares."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from annulet import testing
from annulet.broker.broker import Broker
from annulet.core.errors import PreconditionFailed
from annulet.core.queue import Queue
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
