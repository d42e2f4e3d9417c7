"""``amq.ledger``: losses as messages, bounded, and none of its own."""

from __future__ import annotations

import asyncio
import json

import pytest
from pamqp import commands

from annulet import testing
from annulet.broker.broker import Broker
from annulet.broker.durability import ledger_queue as module
from annulet.broker.durability.ledger_queue import LEDGER_QUEUE
from annulet.core.base.errors import PreconditionFailed
from annulet.core.message.message import ContentView, Message, Origin
from annulet.core.model.loss_ledger import LEDGER_RECORDS_MAX
from annulet.core.queue.queue import Queue
from tests.broker.amqp091.peer import Peer, publish

QUEUE, BASIC = commands.Queue, commands.Basic
ORIGIN = Origin("", "q", "guest@test", ContentView("none"))


def lose(broker: Broker, count: int = 1, host: str = "/") -> None:
    """Let a queue drop messages."""
    queue = broker.hosts[host].declare_queue("q", now=broker.clock())
    for _ in range(count):
        queue.enqueue(Message(b"", b"body", ORIGIN, accepted_at=broker.clock()), broker.clock())
    queue.purge(broker.clock())


def ledger_queue(broker: Broker) -> Queue:
    return broker.hosts["/"].queues[LEDGER_QUEUE]


async def test_a_loss_is_a_message_that_says_everything() -> None:
    clock = testing.VirtualClock()
    async with testing.broker(http=False, clock=clock, ledger_queue=True) as running:
        peer = await Peer(running.broker).open(1)
        await peer.send(1, QUEUE.Declare(queue="ring", arguments={"x-ring-size": 1}))
        await peer.send(1, publish(1, "ring", b"four"), publish(1, "ring", b"5"))
        await asyncio.sleep(0)
        (entry,) = ledger_queue(running.broker).browse()
        message = entry.message
        view = message.origin.view
        properties = view.properties(message)
        assert (properties.content_type, properties.subject) == ("application/json", "loss")
        assert properties.timestamp == clock() // 1000 * 1000
        loss = json.loads(message.body)
        publisher = loss.pop("publisher")
        assert publisher.startswith("guest@")
        assert loss == {
            "vhost": "/", "queue": "ring", "sequence": 1, "reason": "replaced-ring", "rule": "ring-size=1", "key": "",
            "size": 4, "priority": 4, "accepted_at": clock(), "at": clock(), "age": 0, "replaced_by": 2,
            "forwarded_to": "",
        }  # fmt: skip
        headers = {name: view.application_property(message, name) for name in ("queue", "reason", "key", "size")}
        assert headers == {"queue": "ring", "reason": "replaced-ring", "key": "", "size": 4}
        assert view.application_property(message, "publisher") == publisher
        await peer.send(0, commands.Connection.Close(200, "", 0, 0))


async def test_a_consumer_gets_losses_as_they_happen() -> None:
    async with testing.broker(http=False, ledger_queue=True) as running:
        peer = await Peer(running.broker).open(1)
        await peer.send(1, BASIC.Consume(queue=LEDGER_QUEUE, no_ack=True))
        lose(running.broker, 3)
        await asyncio.sleep(0)
        statistics = ledger_queue(running.broker).statistics()
        assert (statistics.messages_delivered, statistics.message_count) == (3, 0)
        await peer.send(0, commands.Connection.Close(200, "", 0, 0))


async def test_losses_of_the_ledger_queue_make_no_losses() -> None:
    async with testing.broker(http=False, ledger_queue=True) as running:
        broker = running.broker
        lose(broker, 3)
        await asyncio.sleep(0)
        queue = ledger_queue(broker)
        assert queue.purge(broker.clock()) == 3
        await asyncio.sleep(0)
        assert queue.statistics().message_count == 0
        assert broker.hosts["/"].ledger.total == 3


async def test_it_is_bounded_and_gives_others_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SLICE", 2)
    async with testing.broker(http=False, ledger_queue=True) as running:
        queue = ledger_queue(running.broker)
        assert queue.settings.ring_size == LEDGER_RECORDS_MAX
        lose(running.broker, 5)
        counts = []
        for _ in range(4):
            await asyncio.sleep(0)
            counts.append(queue.order.count)
        assert counts == [2, 4, 5, 5]


async def test_losses_go_on_where_the_queue_cannot_be_declared_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with testing.broker(http=False, ledger_queue=True) as running:
        broker = running.broker
        host = broker.hosts["/"]

        def refuse() -> Queue:
            raise PreconditionFailed("no more queues")

        (feeding,) = (listener for listener in host.ledger.listeners if isinstance(listener, module.LedgerQueue))
        with monkeypatch.context() as patched:
            patched.setattr(feeding._fed, "_declare", refuse)
            host.delete_queue(ledger_queue(broker), broker.clock())
            lose(broker, 2)
            await asyncio.sleep(0)
            assert LEDGER_QUEUE not in host.queues
        lose(broker)
        await asyncio.sleep(0)
        assert ledger_queue(broker).order.count == 1
        assert host.ledger.total == 3


async def test_each_virtual_host_has_its_own_and_a_deleted_one_comes_back() -> None:
    async with testing.broker(http=False, ledger_queue=True) as running:
        broker = running.broker
        broker.create_host("other")
        lose(broker, host="other")
        await asyncio.sleep(0)
        assert ledger_queue(broker).order.count == 0
        other = broker.hosts["other"]
        other.delete_queue(other.queues[LEDGER_QUEUE], broker.clock())
        lose(broker, 2, host="other")
        await asyncio.sleep(0)
        assert other.queues[LEDGER_QUEUE].order.count == 2


async def test_there_is_none_unless_asked_for() -> None:
    async with testing.broker(http=False) as running:
        assert LEDGER_QUEUE not in running.broker.hosts["/"].queues
