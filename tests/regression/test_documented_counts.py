"""B26: the pages say what counts, and the broker does it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pamqp import commands

from annulet import testing
from annulet.broker.broker import Broker
from annulet.core.message.message import Message, Origin
from annulet.testing.clock import VirtualClock
from annulet.wire.amqp091.messages.properties import VIEW
from annulet.wire.amqp10.frames.performatives import End
from annulet.wire.amqp10.types.conditions import RESOURCE_LIMIT_EXCEEDED
from tests.broker.amqp091.peer import Peer, bodies, publish
from tests.broker.amqp10.peer import ACCEPTED, Delivery, queue_of
from tests.broker.amqp10.peer import Peer as Peer10
from tests.broker.conftest import leave
from tests.wire.amqp10.recorder import condition_of, linked, transfer

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    async with testing.broker(http=False, clock=VirtualClock()) as running:
        yield running.broker
        leave(running.broker)


@pytest.mark.parametrize("arguments", [{}, {"x-overflow": "page", "x-max-length": 2}], ids=["address", "queue"])
async def test_a_ring_counts_what_is_paged(broker: Broker, arguments: dict[str, Any]) -> None:
    """B26: what is paged by an address or a queue is in the queue, and takes a place of its ring."""
    if not arguments:
        settings = {"max-size-messages": 2, "address-full-policy": "PAGE"}
        broker.hosts["/"].address_settings.set("q", settings)
    peer = await Peer(broker).open(1)
    await peer.send(1, commands.Queue.Declare(queue="q", arguments={"x-ring-size": 3, **arguments}))
    for number in range(6):
        await peer.send(1, publish(1, "q", b"%d" % number))
    await peer.take()
    await peer.send(1, commands.Basic.Consume(queue="q", no_ack=True))
    assert bodies(await peer.take()) == [b"3", b"4", b"5"]


def test_no_page_says_that_clients_of_0_9_are_gone() -> None:
    """B26: Perl's AnyEvent::RabbitMQ is one."""
    assert "No client of 0-9 is left" not in (DOCS / "amqp-0-8-and-0-9.md").read_text()


def documented_unsettled() -> int:
    """Return the bound of a session's unsettled deliveries as the page of AMQP 1.0 has it."""
    page = (DOCS / "amqp-1-0.md").read_text()
    (figure,) = re.findall(r"^\| unsettled deliveries of a session, each way \| (\d+) \|", page, re.MULTILINE)
    return int(figure)


async def test_a_session_gets_as_many_deliveries_as_the_page_says_until_it_settles_some(broker: Broker) -> None:
    """B26: the page had another number, and that the session ends."""
    most = documented_unsettled()
    queue = queue_of(broker, "q", durable=False)
    route = broker.hosts["/"].route("", "q")
    for _ in range(most + 2):
        broker.hosts["/"].publisher.publish(Message(b"", b"x", Origin("", "q", "test", VIEW)), route, broker.clock())
    peer = await Peer10(broker).open()
    receiver = await peer.receiver("q")
    seen: list[Delivery] = []
    while True:
        await peer.credit(receiver, 10_000)
        taken = await peer.deliveries()
        if not taken:
            break
        seen += taken
    assert (len(seen), queue.order.count) == (most, 2)
    await peer.settle(ACCEPTED, seen[-1])
    assert len(await peer.deliveries()) == 1


def test_a_session_that_leaves_more_unsettled_than_the_page_says_is_ended() -> None:
    """B26: what the client sends, and the broker has not settled."""
    most = documented_unsettled()
    engine, handler = linked(incoming_window=2 * most)
    engine.credit.grant_credit(handler.links["in"], 2 * most)
    engine.take_output()
    engine.receive(b"".join(transfer(number) for number in range(most)))
    assert engine.limit_hits == {}
    engine.receive(transfer(most))
    assert (condition_of(engine, End), engine.limit_hits) == (RESOURCE_LIMIT_EXCEEDED, {"max_unsettled": 1})
