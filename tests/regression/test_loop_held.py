"""Nothing that a client that is logged in sends holds the event loop for long: it is cut, and others have their turns.

What is asserted is that work is cut, not how long it takes: the machine that runs the tests may do other things.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator, Callable
from itertools import pairwise
from pathlib import Path

import pytest
from pamqp import commands, frame

from annulet import testing
from annulet.broker.broker import Broker
from annulet.broker.durability.durable_declarations import DurableDeclarations
from annulet.broker.settings.configuration import LOOPBACK, Endpoint
from annulet.broker.turns.input_shares import INPUT_SECONDS_MAX
from annulet.core.host.owned_queues import SLICE_QUEUES
from annulet.core.routing.dropped_edges import SLICE_EDGES
from annulet.store.database.definition_groups import DefinitionGroup
from annulet.testing.clock import VirtualClock
from annulet.wire.amqp10.frames.frames import AMQP_HEADER, FRAME_AMQP, FRAME_SASL, SASL_HEADER, encode_frame
from annulet.wire.amqp10.frames.performatives import Attach, Begin, Open, encode_performative
from annulet.wire.amqp10.frames.sasl import SaslInit
from annulet.wire.amqp10.frames.terminus import Source, Target
from annulet.wire.stomp.frames import Frame
from annulet.wire.stomp.frames import encode_frame as encode_stomp_frame
from tests.broker.amqp091.peer import PROTOCOL_HEADER, turns
from tests.broker.amqp091.peer import Peer as Amqp091Peer
from tests.broker.amqp10.peer import Peer as Amqp10Peer
from tests.broker.amqp10.peer import message, queue_of
from tests.broker.conftest import disk_broker, leave, slow_processor
from tests.broker.stomp.peer import Peer as StompPeer
from tests.certificates import Certificates

__all__ = ["disk_broker"]

BEGIN = Begin(None, 0, 100, 100)
CONNECTIONS = 8
PIPELINED = 300
WAITED = 100
BINDINGS = 4000
EXCLUSIVE = 1000
STEP = 16


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    async with testing.broker(http=False, clock=VirtualClock()) as running:
        yield running.broker
        leave(running.broker)


async def test_declarations_of_one_read_are_served_in_turns(broker: Broker) -> None:
    """A8: 64 KiB of queue.declare came in one read after quick publishes, and held the loop for 351 ms."""
    peer = await Amqp091Peer(broker).open(1)
    slow_processor(broker, 0.4 * INPUT_SECONDS_MAX)
    names = [f"q{number}" for number in range(30)]
    peer.receive(b"".join(frame.marshal(commands.Queue.Declare(queue=name), 1) for name in names))
    queues = broker.hosts["/"].queues
    served = [len(queues)]
    assert not peer.transport.reading
    while len(queues) < len(names):
        await turns(1)
        served.append(len(queues))
    assert max(after - before for before, after in pairwise(served)) <= 9  # 1, then 8 at most
    await turns()
    assert peer.transport.reading
    answers = [method.queue for method in await peer.take() if isinstance(method, commands.Queue.DeclareOk)]
    assert answers == names
    assert broker.inputs.rests >= 3


async def test_a_connection_waits_when_others_have_spent_the_turn(broker: Broker) -> None:
    """A8: what several connections send in one turn is counted together."""
    first, second = await Amqp091Peer(broker).open(1), await Amqp091Peer(broker).open(1)
    slow_processor(broker, 1.1 * INPUT_SECONDS_MAX)
    first.receive(frame.marshal(commands.Queue.Declare(queue="first"), 1))
    second.receive(frame.marshal(commands.Queue.Declare(queue="second"), 1))
    assert list(broker.hosts["/"].queues) == ["first"]
    assert not second.transport.reading
    await turns()
    assert list(broker.hosts["/"].queues) == ["first", "second"]
    assert second.transport.reading


async def test_a_connection_may_end_while_its_input_waits(broker: Broker) -> None:
    """A8: what waits of a connection that is gone is dropped with it."""
    peer, other = await Amqp091Peer(broker).open(1), await Amqp091Peer(broker).open(1)
    slow_processor(broker, 1.1 * INPUT_SECONDS_MAX)
    peer.receive(b"".join(frame.marshal(commands.Queue.Declare(queue=f"q{number}"), 1) for number in range(9)))
    peer.transport.abort()
    await turns()
    assert len(broker.hosts["/"].queues) <= 2
    await other.send(1, commands.Queue.Declare(queue="other"))
    await turns()
    assert "other" in broker.hosts["/"].queues


async def test_frames_of_amqp_1_0_are_served_in_turns(broker: Broker) -> None:
    """A8: the same with frames of AMQP 1.0."""
    peer = await Amqp10Peer(broker).open()
    slow_processor(broker, 1.1 * INPUT_SECONDS_MAX)
    sessions = peer.connection.engine.endpoints.sessions
    served = [len(sessions)]
    peer.receive(b"".join(encode_frame(FRAME_AMQP, number, encode_performative(BEGIN)) for number in range(5, 11)))
    while len(sessions) < served[0] + 6:
        served.append(len(sessions))
        assert not peer.transport.reading
        await turns(1)
    assert served[1] == served[0] + 1
    await turns()
    assert peer.transport.reading
    assert broker.inputs.rests >= 3


async def test_transfers_of_amqp_1_0_are_served_in_turns(broker: Broker) -> None:
    """A8: transfers are read on a way of their own, and are cut as well."""
    peer = await Amqp10Peer(broker).open()
    queue = queue_of(broker, "q")
    link = await peer.sender(queue.name)
    slow_processor(broker, 1.1 * INPUT_SECONDS_MAX)
    peer.receive(b"".join(peer.transfer(link, message(b"%d" % number)) for number in range(12)))
    served = [queue.counters.messages_added]
    while served[-1] < 12:
        assert not peer.transport.reading
        await turns(1)
        served.append(queue.counters.messages_added)
    assert served[0] == 1
    assert broker.inputs.rests >= 3


async def test_frames_of_stomp_are_served_in_turns(broker: Broker) -> None:
    """A8: the same with SEND frames of STOMP."""
    peer = await StompPeer(broker).open()
    slow_processor(broker, 1.1 * INPUT_SECONDS_MAX)
    peer.connection.data_received(b"".join(b"SEND\ndestination:/queue/s%d\n\nx\0" % number for number in range(6)))
    served = [len(broker.hosts["/"].queues)]
    while served[-1] < 6:
        await turns(1)
        served.append(len(broker.hosts["/"].queues))
    assert served[0] == 1
    assert broker.inputs.rests >= 3


# ---------------------------------------------------------------------- strangers over TLS


def hello() -> bytes:
    """Return what a client sends first."""
    context = ssl.create_default_context()
    outgoing = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


async def test_hellos_of_tls_that_come_in_one_turn_are_answered_in_several(tmp_path: Path) -> None:
    """A8: 300 hellos in one turn held the loop for 71 ms on amqps and 96 ms on https: one signature for each."""
    settings = Certificates(tmp_path).settings()
    async with testing.broker(http=False, tls={"amqps": settings}, amqps=Endpoint(LOOPBACK, 0)) as running:
        broker = running.broker
        port = int(running.urls["amqps"].rpartition(":")[2])
        sockets = [socket.create_connection((LOOPBACK, port)) for _ in range(100)]
        try:
            first = hello()
            while broker.admission.handshakes < len(sockets):  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.01)
            await turns(20)
            for client in sockets:
                client.sendall(first)
            time.sleep(0.1)  # noqa: ASYNC251 - all of them wait for the loop
            for client in sockets:
                client.setblocking(False)
            for client in sockets:
                answer = await asyncio.get_running_loop().sock_recv(client, 1)
                assert answer == b"\x16"  # a record of the hand-shake
            assert broker.input_turns.cut >= 1
        finally:
            for client in sockets:
                client.close()


def noted_commits(broker: Broker) -> list[str]:
    """Note the thread of each commit of definitions from now on, alone or in a group."""
    threads: list[str] = []
    catalogue = broker.catalogue
    run, commit = catalogue.groups._run, catalogue._commit

    def noting_group(group: DefinitionGroup) -> None:
        threads.append(threading.current_thread().name)
        run(group)

    def noting(*, changed: bool) -> None:
        threads.append(threading.current_thread().name)
        commit(changed=changed)

    catalogue.groups._run = noting_group
    catalogue._commit = noting  # type: ignore[method-assign]
    return threads


def behind_the_login_of_amqp_091(broker: Broker) -> None:
    """Send all in one read."""
    peer = Amqp091Peer(broker)
    opening = [
        (0, commands.Connection.StartOk({}, "PLAIN", "\0guest\0guest", "en_US")),
        (0, commands.Connection.TuneOk(100, 131_072, 0)),
        (0, commands.Connection.Open("/")),
        (1, commands.Channel.Open()),
        *((1, commands.Queue.Declare(queue=f"q{number}", durable=True)) for number in range(WAITED)),
    ]
    peer.receive(PROTOCOL_HEADER + b"".join(frame.marshal(method, channel) for channel, method in opening))


def behind_the_login_of_amqp_10(broker: Broker) -> None:
    """As above."""
    login = encode_frame(FRAME_SASL, 0, encode_performative(SaslInit("PLAIN", b"\0guest\0guest")))
    links = [
        Attach(f"l{number}", number, True, source=Source(f"q{number}", capabilities=["queue"]), target=Target("c"))
        for number in range(WAITED)
    ]
    frames = [encode_frame(FRAME_AMQP, 0, encode_performative(each)) for each in (Open("client"), BEGIN, *links)]
    Amqp10Peer(broker).receive(SASL_HEADER + login + AMQP_HEADER + b"".join(frames))


def behind_the_login_of_stomp(broker: Broker) -> None:
    """As above."""
    login = {"host": "/", "login": "guest", "passcode": "guest", "accept-version": "1.2"}
    frames = [Frame("CONNECT", login)]
    frames += [Frame("SUBSCRIBE", {"id": f"{each}", "destination": f"/queue/q{each}"}) for each in range(WAITED)]
    StompPeer(broker).connection.data_received(b"".join(encode_stomp_frame(each) for each in frames))


@pytest.mark.parametrize("send", [behind_the_login_of_amqp_091, behind_the_login_of_amqp_10, behind_the_login_of_stomp])
async def test_declarations_that_waited_for_the_login_share_their_commits(
    disk_broker: Broker, send: Callable[[Broker], None]
) -> None:
    """A8, a brother: what came in one read with the login was committed by the loop, with one fsync each."""
    threads = noted_commits(disk_broker)
    send(disk_broker)
    while len(disk_broker.hosts["/"].queues) < WAITED or disk_broker.definitions.pending or not threads:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    assert "MainThread" not in threads
    assert 0 < len(threads) < WAITED / 10
    assert len(disk_broker.catalogue.queues("/")) == WAITED  # this waits for a group that is being written


async def test_pipelined_durable_declarations_share_their_commits(disk_broker: Broker) -> None:
    """A8: "durable declares, one fsync each (8 connections × 1,500 pipelined: 10.5 s)"."""
    threads = noted_commits(disk_broker)
    peers = [await Amqp091Peer(disk_broker).open(1) for _ in range(CONNECTIONS)]
    for number, peer in enumerate(peers):
        methods = [commands.Queue.Declare(queue=f"{number}-{each}", durable=True) for each in range(PIPELINED)]
        peer.receive(b"".join(frame.marshal(method, 1) for method in methods))
    for number, peer in enumerate(peers):
        found = await peer.take()
        while len(found) < PIPELINED:
            found += await peer.take()
        assert [method.queue for method in found] == [f"{number}-{each}" for each in range(PIPELINED)]
    assert "MainThread" not in threads
    assert len(threads) < CONNECTIONS * PIPELINED / 10
    assert len(disk_broker.catalogue.queues("/")) == CONNECTIONS * PIPELINED


async def test_an_exchange_and_a_queue_with_very_many_bindings_go_in_slices() -> None:
    """A8: "exchange.delete with 100,000 bindings holds the loop 10.7 s", also its brother queue.delete."""
    async with testing.broker(http=False) as running:
        broker = running.broker
        host, now = broker.hosts["/"], broker.clock()
        declarations = DurableDeclarations(host, broker.catalogue)
        queues = [
            declarations.queue(name, now=now, durable=True, auto_delete=False, arguments={}) for name in ("a", "b")
        ]
        for exchange in ("first", "second"):
            declarations.exchange(exchange, "direct", durable=True, auto_delete=False, internal=False, arguments={})
            for number in range(BINDINGS):
                declarations.bind_queue(queues[number % 2], exchange, f"k.{number}", {})
        for delete in (lambda: host.delete_exchange("first"), lambda: host.delete_queue(queues[0], now)):
            slices = broker.worker.slices
            delete()
            assert broker.worker.waiting == 1
            broker.worker.finish()
            assert broker.worker.slices - slices >= BINDINGS // 2 // SLICE_EDGES
        assert len(list(host.bindings())) == BINDINGS // 2
        assert len(host.exchanges["second"].bindings) == BINDINGS // 2


async def test_a_connection_with_very_many_exclusive_queues_ends_in_slices() -> None:
    """A8, brother: connection close with 10,000 exclusive queues."""
    async with testing.broker(http=False) as running:
        broker = running.broker
        peer = await Amqp091Peer(broker).open(1)
        for first in range(0, EXCLUSIVE, STEP):
            names = range(first, min(first + STEP, EXCLUSIVE))
            await peer.send(1, *[commands.Queue.Declare(queue=f"q{number}", exclusive=True) for number in names])
        while len(broker.hosts["/"].queues) < EXCLUSIVE:
            await turns()
        slices = broker.worker.slices
        peer.transport.abort()
        while broker.hosts["/"].queues:
            await turns()
        assert broker.worker.slices - slices >= EXCLUSIVE // SLICE_QUEUES // 2
