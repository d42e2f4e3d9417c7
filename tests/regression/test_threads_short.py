"""A broker serves on while the system gives it no new thread (issue 30, A7)."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pamqp import commands

from annulet import testing
from annulet.broker.broker import Broker
from annulet.broker.network.listening import PeerFacts
from tests.broker.amqp091.peer import Peer, persistent


@pytest.fixture
async def short_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Broker]:
    """Yield a broker that was started, and gets no thread any more."""
    async with testing.broker(data_dir=tmp_path, http=False) as running:

        def no_thread(_: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", no_thread)
            yield running.broker


async def test_a_durable_declaration_is_answered_without_a_new_thread(short_broker: Broker) -> None:
    """A7: the first declaration found no thread, and no later one was answered until a restart."""
    peer = await Peer(short_broker).open(1)
    for name in ("first", "second"):
        await peer.send(1, commands.Queue.Declare(queue=name, durable=True))
        assert [type(method) for method in await peer.take()] == [commands.Queue.DeclareOk]


async def test_a_persistent_message_is_confirmed_without_a_new_thread(short_broker: Broker) -> None:
    """A7, a brother: the message log's thread was started with the first window."""
    peer = await Peer(short_broker).open(1)
    await peer.send(1, commands.Queue.Declare(queue="q", durable=True), commands.Confirm.Select())
    await peer.take()
    peer.receive(persistent(1, "q"))
    await short_broker.commit.durable()
    await short_broker.commit.maintain(checkpoint=True)
    assert [type(method) for method in await peer.take()] == [commands.Basic.Ack]


async def test_passwords_are_checked_without_a_new_thread(short_broker: Broker) -> None:
    """A7, a brother: a right password was refused, as no thread could check it."""
    local = PeerFacts("127.0.0.1", 1, is_loopback=True)
    assert await short_broker.authenticator.login("guest", "wrong", peer=local) is None
    assert await short_broker.authenticator.login("guest", "guest", peer=local) is not None
    assert short_broker.authenticator.statistics().hashed >= 1
