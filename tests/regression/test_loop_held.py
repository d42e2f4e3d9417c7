"""Issue 30, A8: nothing that a client sends holds the event loop for long."""

from __future__ import annotations

import threading

from pamqp import commands, frame

from annulet import testing
from annulet.broker.amqp091.declarations import COMMANDS_AT_ONCE
from annulet.broker.broker import Broker
from annulet.broker.durable_declarations import DurableDeclarations
from annulet.core.dropped_edges import SLICE_EDGES, SLICE_QUEUES
from annulet.store.definition_groups import DefinitionGroup
from tests.broker.amqp091.peer import Peer, turns
from tests.broker.conftest import disk_broker

__all__ = ["disk_broker"]

QUEUE = commands.Queue
CONNECTIONS = 8
PIPELINED = 300
BINDINGS = 4000
EXCLUSIVE = 1000


async def test_pipelined_durable_declarations_share_their_commits(disk_broker: Broker) -> None:
    """A8: "durable declares, one fsync each (8 connections × 1,500 pipelined: 10.5 s)"."""
    threads: list[str] = []
    run = disk_broker.catalogue.groups._run

    def noting(group: DefinitionGroup) -> None:
        threads.append(threading.current_thread().name)
        run(group)

    disk_broker.catalogue.groups._run = noting
    peers = [await Peer(disk_broker).open(1) for _ in range(CONNECTIONS)]
    for number, peer in enumerate(peers):
        methods = [QUEUE.Declare(queue=f"{number}-{each}", durable=True) for each in range(PIPELINED)]
        peer.receive(b"".join(frame.marshal(method, 1) for method in methods))
        assert len(disk_broker.hosts["/"].queues) <= (number + 1) * COMMANDS_AT_ONCE, "one turn takes some"
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
        peer = await Peer(broker).open(1)
        for first in range(0, EXCLUSIVE, COMMANDS_AT_ONCE):
            names = range(first, min(first + COMMANDS_AT_ONCE, EXCLUSIVE))
            await peer.send(1, *[QUEUE.Declare(queue=f"q{number}", exclusive=True) for number in names])
        while len(broker.hosts["/"].queues) < EXCLUSIVE:
            await turns()
        slices = broker.worker.slices
        peer.transport.abort()
        while broker.hosts["/"].queues:
            await turns()
        assert broker.worker.slices - slices >= EXCLUSIVE // SLICE_QUEUES // 2
