from __future__ import annotations

import pytest

from annulet.broker.amqp10.service import Amqp10Service, session_of
from annulet.broker.broker import Broker
from annulet.store.files.errors import StoreError
from annulet.wire.amqp10.connection.handler import Amqp10Handler
from annulet.wire.amqp10.connection.session import EngineSession
from annulet.wire.amqp10.frames.outcomes import Error
from annulet.wire.amqp10.frames.performatives import Close, Detach, End
from annulet.wire.amqp10.types import conditions
from tests.broker.amqp10.peer import ACCEPTED, Peer, bodies, frame, message, queue_of


def test_every_call_of_the_engine_is_served() -> None:
    calls = {name for name in vars(Amqp10Handler) if not name.startswith("_")}
    assert calls <= set(vars(Amqp10Service))


async def test_sessions_are_the_connections_channels_while_they_last(broker: Broker) -> None:
    peer = await Peer(broker).open(sessions=3)
    assert set(peer.connection.channels) == {0, 1, 2}
    engine_session = peer.connection.channels[1].engine_session  # type: ignore[attr-defined]
    assert isinstance(engine_session, EngineSession)
    assert session_of(engine_session) is peer.connection.channels[1]
    await peer.end(1)
    assert set(peer.connection.channels) == {0, 2}
    await peer.send(Close())
    assert peer.connection.channels == {}


async def test_a_store_that_fails_refuses_the_link_and_nothing_else(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise StoreError("the catalogue is read-only")

    peer = await Peer(broker).open()
    with monkeypatch.context() as patch:
        patch.setattr(broker.catalogue, "add_queue", fail)
        error = await peer.refusal(await peer.receiver("q"))
    assert (error.condition, error.description) == (conditions.INTERNAL_ERROR, "the catalogue is read-only")
    await peer.receiver("q")
    assert broker.hosts["/"].queues["q"].users


async def test_a_defect_closes_one_connection_and_no_other(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    queue_of(broker, "q")
    peer, other = await Peer(broker).open(), await Peer(broker).open()
    sender = await other.sender("q")
    with monkeypatch.context() as patch:
        patch.setattr(broker.catalogue, "add_queue", lambda *_, **__: 1 // 0)
        await peer.receiver("new")
        error = (await peer.one(Close)).error
    assert error is not None
    assert error.condition == conditions.INTERNAL_ERROR
    assert "log" in (error.description or "")
    assert await other.publish(sender, message()) == ACCEPTED


async def test_a_peer_that_detaches_with_an_error_is_answered(broker: Broker) -> None:
    queue_of(broker, "q")
    peer = await Peer(broker).open()
    link = await peer.receiver("q", credit=1)
    await peer.take()
    await peer.send(frame(Detach(link.handle, True, Error("com.example:tired", "enough"))))
    detach = await peer.one(Detach)
    assert (detach.closed, detach.error) == (True, None)
    assert not broker.hosts["/"].queues["q"].users


async def test_a_peer_that_ends_with_an_error_is_answered(broker: Broker) -> None:
    queue_of(broker, "q")
    peer = await Peer(broker).open()
    sender = await peer.sender("q")
    await peer.publish(sender, message(b"a"))
    await peer.receiver("q", credit=1)
    assert bodies(await peer.deliveries()) == [b"a"]
    await peer.send(frame(End(Error("com.example:tired"))))
    assert (await peer.one(End)).error is None
    assert len(broker.hosts["/"].queues["q"].delivering) == 0


async def test_what_a_sender_settles_again_changes_nothing(broker: Broker) -> None:
    queue_of(broker, "q")
    peer = await Peer(broker).open()
    sender = await peer.sender("q", rcv_settle_mode=1, snd_settle_mode=0)
    assert await peer.publish(sender, message()) == ACCEPTED
    for _ in range(2):
        await peer.send(peer.settled_by_sender(0))
    assert not peer.connection.engine.closed
    assert await peer.publish(sender, message()) == ACCEPTED
