"""B18: what clients do with channel numbers and with immediate, answered as RabbitMQ does."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from pamqp import commands

from annulet import testing
from annulet.broker.broker import Broker
from annulet.testing.clock import VirtualClock
from tests.broker.amqp091.peer import Peer
from tests.broker.conftest import leave


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    async with testing.broker(http=False, clock=VirtualClock(), channel_max=3) as running:
        yield running.broker
        leave(running.broker)


async def test_channel_numbers_are_free_while_few_channels_are_open(broker: Broker) -> None:
    """B18: aiormq counts numbers up; only the number of open channels is bounded."""
    peer = Peer(broker)
    peer.channel_max = 3
    await peer.open(65_535, 40_000)
    for number in range(1, 65_535, 1000):
        await peer.ask(number, commands.Channel.Open(), commands.Channel.OpenOk)
        await peer.ask(number, commands.Channel.Close(200, "", 0, 0), commands.Channel.CloseOk)
    assert len(peer.connection.channels) == len(peer.connection.engine.output.channels) == 2
    await peer.ask(5, commands.Channel.Open(), commands.Channel.OpenOk)
    close = await peer.ask(6, commands.Channel.Open(), commands.Connection.Close)
    text = "NOT_ALLOWED - number of channels opened (3) has reached the negotiated channel_max (3)"
    assert (close.reply_code, close.reply_text) == (530, text)


async def test_immediate_is_refused_with_rabbitmqs_text(broker: Broker) -> None:
    """B18: clients compare the text."""
    peer = Peer(broker)
    peer.channel_max = 3
    await peer.open(1)
    await peer.ask(1, commands.Queue.Declare(queue="q"), commands.Queue.DeclareOk)
    publish = commands.Basic.Publish(routing_key="q", immediate=True)
    await peer.send(1, publish)
    await peer.send(1, b"\x02\x00\x01\x00\x00\x00\x0e\x00\x3c\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xce")
    close = await peer.one(commands.Connection.Close)
    assert (close.reply_code, close.reply_text) == (540, "NOT_IMPLEMENTED - immediate=true")
