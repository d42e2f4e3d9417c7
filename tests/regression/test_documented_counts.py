"""B26: the pages say what counts, and the broker does it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pamqp import commands

from annulet import testing
from annulet.broker.broker import Broker
from annulet.testing.clock import VirtualClock
from tests.broker.amqp091.peer import Peer, bodies, publish
from tests.broker.conftest import leave

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
