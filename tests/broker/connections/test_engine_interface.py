"""The engines of all protocols have what a connection needs of them."""

from __future__ import annotations

import pytest

from annulet.broker.broker import Broker
from annulet.broker.connections.engine_interface import ConnectionEngine
from tests.broker.amqp091.peer import Peer as Amqp091Peer
from tests.broker.amqp10.peer import Peer as Amqp10Peer
from tests.broker.stomp.peer import Peer as StompPeer


@pytest.mark.parametrize("peer", [Amqp091Peer, Amqp10Peer, StompPeer])
async def test_an_engine_rests_from_the_next_frame_on_until_it_is_told_to_go_on(
    broker: Broker, peer: type[Amqp091Peer | Amqp10Peer | StompPeer]
) -> None:
    engine: ConnectionEngine = (await peer(broker).open()).connection.engine
    for name in (*ConnectionEngine.__annotations__, *[name for name in vars(ConnectionEngine) if name[0] != "_"]):
        assert hasattr(engine, name), name
    before = engine.unfinished_bytes
    engine.rest()
    engine.receive(b"\0\0")
    assert engine.unfinished_bytes == before + 2
    assert engine.resting
