"""Definitions of one turn are one commit in a thread, and their answers wait for it."""

from __future__ import annotations

import shutil
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest
from pamqp import commands

from annulet import testing
from annulet.broker.broker import Broker
from annulet.store.database.catalogue import Catalogue
from annulet.store.database.definition_groups import DefinitionGroup
from annulet.store.files.data_format import CATALOGUE_FILE
from tests.broker.amqp091.peer import Peer, persistent, turns

QUEUE, EXCHANGE, BASIC = commands.Queue, commands.Exchange, commands.Basic
COUNT = 15


class Gate:
    """Stops the thread that commits groups until it is opened, and counts what comes through."""

    def __init__(self, broker: Broker) -> None:
        broker.inputs.computed = lambda: 0.0  # all of a read is served in its turn, however slow the machine is
        self.opened = threading.Event()
        self.commits = 0
        self.threads: set[str] = set()
        self._run = broker.catalogue.groups._run
        broker.catalogue.groups._run = self

    def __call__(self, group: DefinitionGroup) -> None:
        self.threads.add(threading.current_thread().name)
        assert self.opened.wait(30)
        self.commits += 1
        self._run(group)


def declares(count: int) -> list[QUEUE.Declare]:
    return [QUEUE.Declare(queue=f"q{number}", durable=True) for number in range(count)]


def hand_over(peer: Peer, *methods: commands.Queue.Declare | commands.Basic.Publish | bytes) -> None:
    """As one read, without waiting for answers."""
    from pamqp import frame

    peer.receive(b"".join(item if isinstance(item, bytes) else frame.marshal(item, 1) for item in methods))


def written(peer: Peer) -> int:
    return len(peer.transport.written)


async def test_declarations_of_one_turn_are_one_commit_and_are_answered_when_it_is_durable(disk_broker: Broker) -> None:
    peers = [await Peer(disk_broker).open(1) for _ in range(3)]
    gate = Gate(disk_broker)
    for number, peer in enumerate(peers):
        hand_over(peer, *[QUEUE.Declare(queue=f"{number}-{each}", durable=True) for each in range(COUNT)])
    assert len(disk_broker.hosts["/"].queues) == 3 * COUNT, "in memory at once"
    await turns(50)
    assert [written(peer) for peer in peers] == [0, 0, 0]
    other = await Peer(disk_broker).open(1)
    await other.send(1, QUEUE.Declare(queue="transient"))
    assert [type(method) for method in await other.take()] == [QUEUE.DeclareOk], "others are served"
    gate.opened.set()
    for number, peer in enumerate(peers):
        names = [method.queue for method in await peer.take()]
        assert names == [f"{number}-{each}" for each in range(COUNT)]
    assert gate.commits == 1
    assert "MainThread" not in gate.threads


async def test_a_group_that_could_not_be_handed_over_is_committed_with_the_next(
    disk_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A7: the thread counted as busy from then on, and no later declaration was answered."""

    def no_thread(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    first, second = [await Peer(disk_broker).open(1) for _ in range(2)]
    errors: list[object] = []
    disk_broker.loop.set_exception_handler(lambda _, context: errors.append(context.get("exception")))
    with monkeypatch.context() as patch:
        patch.setattr(disk_broker.definitions._executor, "submit", no_thread)
        hand_over(first, *declares(1))
        await turns(20)
    assert [str(error) for error in errors] == ["can't start new thread"]
    assert written(first) == 0
    await second.send(1, QUEUE.Declare(queue="later", durable=True))
    for peer in (second, first):
        assert [type(method) for method in await peer.take()] == [QUEUE.DeclareOk]


async def test_answers_behind_a_declaration_keep_their_order(disk_broker: Broker) -> None:
    peer = await Peer(disk_broker).open(1)
    gate = Gate(disk_broker)
    hand_over(peer, *declares(1))
    await turns()
    hand_over(peer, QUEUE.Declare(queue="transient"), BASIC.Get(queue="q0"))
    gate.opened.set()
    found = [type(method) for method in await peer.take()]
    assert found == [QUEUE.DeclareOk, QUEUE.DeclareOk, BASIC.GetEmpty]


async def test_a_queue_is_durable_before_a_message_in_it(tmp_path: Path) -> None:
    async with testing.broker(data_dir=tmp_path / "data", http=False) as running:
        broker = running.broker
        peer = await Peer(broker).open(1)
        await peer.send(1, commands.Confirm.Select())
        await peer.take()
        hand_over(peer, QUEUE.Declare(queue="q", durable=True), persistent(1, "q"))
        await broker.commit.durable()
        shutil.copytree(tmp_path / "data", tmp_path / "killed")
        assert {type(method) for method in await peer.take()} == {QUEUE.DeclareOk, BASIC.Ack}
        peer.transport.abort()
        await turns()
    async with testing.broker(data_dir=tmp_path / "killed", http=False) as running:
        assert running.broker.hosts["/"].queues["q"].statistics().message_count == 1
        assert running.broker.orphans == {}


async def test_what_the_disk_refuses_is_undone_and_not_answered(disk_broker: Broker) -> None:
    peer = await Peer(disk_broker).open(1)
    await peer.send(1, EXCHANGE.Declare(exchange="old", exchange_type="direct", durable=True))
    await peer.take()
    catalogue, host = disk_broker.catalogue, disk_broker.hosts["/"]

    def refuse(group: DefinitionGroup) -> None:
        group.error = catalogue._refusal(sqlite3.OperationalError("disk is full"), "changes")

    run, catalogue.groups._run = catalogue.groups._run, refuse
    hand_over(
        peer,
        EXCHANGE.Declare(exchange="new", exchange_type="direct", durable=True),
        QUEUE.Declare(queue="q", durable=True),
        QUEUE.Bind(queue="q", exchange="old", routing_key="k"),
    )
    assert "q" in host.queues
    await turns()
    while not peer.connection.lost:
        await turns()
    assert written(peer) == 0, "nothing was promised"
    assert "q" not in host.queues
    assert "new" not in host.exchanges
    assert not host.exchanges["old"].bindings
    assert disk_broker.definitions.refused == 1
    catalogue.groups._run = run
    again = await Peer(disk_broker).open(1)
    await again.send(1, QUEUE.Declare(queue="q", durable=True))
    assert [type(method) for method in await again.take()] == [QUEUE.DeclareOk], "one by one for a while"
    assert not catalogue.groups.waiting


async def test_a_half_closed_connection_gets_its_answers(disk_broker: Broker) -> None:
    peer = await Peer(disk_broker).open(1)
    hand_over(peer, *declares(2))
    peer.connection.eof_received()
    assert written(peer) > 0
    disk_broker.definitions.settle()


async def test_a_clean_stop_writes_what_was_declared(tmp_path: Path) -> None:
    async with testing.broker(data_dir=tmp_path, http=False) as running:
        peer = await Peer(running.broker).open(1)
        hand_over(peer, *declares(COUNT))
    with closing(Catalogue(tmp_path / CATALOGUE_FILE)) as catalogue:
        assert len(catalogue.queues("/")) == COUNT


async def test_a_broker_in_memory_waits_for_nothing(broker: Broker) -> None:
    peer = await Peer(broker).open(1)
    hand_over(peer, *declares(2))
    assert not peer.connection.definitions_due
    assert not broker.definitions.pending
    broker.definitions.settle()
    await turns()
    assert written(peer) > 0


@pytest.mark.parametrize("count", [1, 300])
async def test_a_connection_that_ends_takes_its_queues_along_in_one_commit(disk_broker: Broker, count: int) -> None:
    peer = await Peer(disk_broker).open(1)
    await peer.send(1, *[QUEUE.Declare(queue=f"q{each}", durable=True, auto_delete=True) for each in range(count)])
    await peer.send(1, *[BASIC.Consume(queue=f"q{each}") for each in range(count)])
    await peer.take()
    gate = Gate(disk_broker)
    gate.opened.set()
    peer.transport.abort()
    await turns()
    assert not disk_broker.hosts["/"].queues
    disk_broker.definitions.settle()
    assert gate.commits <= 2
