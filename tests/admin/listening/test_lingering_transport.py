"""A socket of uvicorn's protocols lingers where input may follow its close, within a bound."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from annulet.admin.listening import lingering_transport
from annulet.admin.listening.lingering_transport import LingeringTransport
from annulet.broker.broker import Broker
from annulet.testing import broker as running_broker
from tests.broker.network.test_lingering import HalfClosing


class Peer:
    """A protocol that expects so many octets behind its close."""

    def __init__(self, most: int) -> None:
        self.loop = asyncio.get_running_loop()
        self.most = most
        self.told = 0

    def bytes_to_discard(self) -> int:
        return self.most

    def handed_over(self) -> None:
        self.told += 1


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    async with running_broker(http=False) as running:
        yield running.broker


class Served(HalfClosing):
    closed = False

    def close(self) -> None:
        self.closed = True

    def get_protocol(self) -> Any:
        return self.protocol


def served(broker: Broker, most: int) -> tuple[LingeringTransport, Served, Peer]:
    transport, peer = Served(), Peer(most)
    transport.set_protocol(peer)
    return LingeringTransport(transport, peer, broker), transport, peer  # type: ignore[arg-type]


async def test_a_socket_with_input_to_come_lingers_and_its_protocol_is_told_once(broker: Broker) -> None:
    socket, transport, peer = served(broker, 100)
    socket.close()
    socket.close()
    assert (peer.told, len(broker.lingering), socket.is_closing()) == (1, 1, True)
    assert transport.ended
    assert not transport.closed
    socket.release()
    broker.lingering.stop()


async def test_a_socket_without_input_to_come_is_closed_at_once(broker: Broker) -> None:
    socket, transport, peer = served(broker, 0)
    socket.close()
    assert (peer.told, len(broker.lingering), transport.closed) == (0, 0, True)


@pytest.mark.parametrize("room", [0, 1])
async def test_sockets_that_linger_are_bounded(broker: Broker, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    monkeypatch.setattr(lingering_transport, "LINGERING_MAX", 2)
    for _ in range(2 - room):
        served(broker, 100)[0].close()
    socket, transport, peer = served(broker, 100)
    socket.close()
    assert (peer.told, len(broker.lingering), transport.closed) == (room, 2, not room)
    broker.lingering.stop()


async def test_a_socket_that_another_protocol_has_is_not_closed_here(broker: Broker) -> None:
    socket, transport, peer = served(broker, 100)
    socket.detach()
    socket.close()
    assert (peer.told, len(broker.lingering), transport.closed) == (0, 0, False)
