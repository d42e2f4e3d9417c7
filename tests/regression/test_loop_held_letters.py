"""A8: the deletion of a queue with very many dead letters on their way: in slices, answered after them, none lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator

import pytest
from pamqp import commands, frame

from annulet import testing
from annulet.broker.broker import Broker
from annulet.broker.operation.definitions.applying import read_document
from annulet.broker.turns import sliced_work
from annulet.core.host.dead_letters import FORWARDED_AT_ONCE, FORWARDED_PER_SLICE
from annulet.core.message.message import Message, Origin
from annulet.core.queue.queue import Queue
from annulet.testing.in_process import RunningBroker
from annulet.wire.amqp091.messages.properties import VIEW
from tests.broker.amqp091.peer import Peer, turns

MANY = FORWARDED_AT_ONCE + 40 * FORWARDED_PER_SLICE
LETTERS = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
QUEUE = commands.Queue


@pytest.fixture
async def running() -> AsyncIterator[RunningBroker]:
    async with testing.broker(durable=True) as started:
        yield started


async def with_letters(broker: Broker) -> tuple[Peer, Queue]:
    """Return a client, and a queue of which many letters wait."""
    peer = await Peer(broker).open(1)
    await peer.send(1, QUEUE.Declare(queue="dead", durable=True))
    await peer.send(1, QUEUE.Declare(queue="q", durable=True, arguments=LETTERS))
    await peer.take()
    host = broker.hosts["/"]
    queue, origin, route = host.queues["q"], Origin("", "q", "guest", VIEW), host.route("", "q")
    for number in range(MANY):
        body = b"%d" % number
        host.publisher.publish(Message(b"\x10\x00\x02", body, origin, durable=True), route, broker.clock())
    await broker.commit.durable()
    now = broker.clock()
    for entry in queue.acquire(MANY, -1, now):
        queue.reject(entry, now)
    await turns(1)
    assert host.dead_letters.left_of(queue)[0]
    return peer, queue


async def test_delete_sends_waiting_letters_in_slices_and_answers_after_them(
    running: RunningBroker,
) -> None:
    broker = running.broker
    peer, queue = await with_letters(broker)
    host = broker.hosts["/"]
    dead, left = host.queues["dead"], host.dead_letters.left_of(queue)[0]
    slices = broker.worker.slices
    peer.receive(
        frame.marshal(QUEUE.Delete(queue="q"), 1) + frame.marshal(QUEUE.Declare(queue="dead", passive=True), 1)
    )
    assert ("q" in host.queues, host.departures.count) == (False, 1)
    while host.departures.count:
        assert not peer.transport.written, "no answer before the last letter, and none overtakes it"
        sent, before = dead.order.count, broker.worker.slices
        await turns(1)
        assert dead.order.count - sent <= FORWARDED_PER_SLICE * (broker.worker.slices - before)
    assert broker.worker.slices - slices >= left // FORWARDED_PER_SLICE
    answers = await peer.take()
    while len(answers) < 2:
        answers += await peer.take()
    assert [type(each) for each in answers] == [QUEUE.DeleteOk, QUEUE.DeclareOk]
    assert (answers[1].message_count, dead.order.count) == (MANY, MANY)
    assert [record.name for record in broker.catalogue.queues("/")] == ["dead"]


async def test_definitions_are_pruned_when_the_last_letter_is_sent(running: RunningBroker) -> None:
    broker = running.broker
    _, queue = await with_letters(broker)
    document = await read_document(b'{"vhosts": [{"name": "/"}], "queues": [{"name": "dead"}]}')
    plan = await broker.definition_imports.apply(document, None, prune=True)
    assert [(step.action, step.item.name) for step in plan.steps] == [("delete", "q")]
    host = broker.hosts["/"]
    assert (host.departures.count, host.queues["dead"].order.count) == (0, MANY)
    assert [record.name for record in broker.catalogue.queues("/")] == ["dead"]
    assert queue.deleted


@pytest.mark.parametrize("again", [False, True])
async def test_a_kill_between_two_slices_loses_no_letter(
    running: RunningBroker, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    """The queue comes back with the rest; under another name if a new queue has taken its own."""
    peer, queue = await with_letters(running.broker)
    monkeypatch.setattr(sliced_work, "TURN_SECONDS", 0.0)  # no slice is done from here on
    name = f"q.deleted-{queue.queue_id}" if again else "q"
    await peer.send(1, QUEUE.Delete(queue="q", nowait=True))
    if again:
        await peer.send(1, QUEUE.Declare(queue="q", durable=True))
    await running.broker.commit.durable()
    assert running.broker.hosts["/"].departures.count == 1
    await running.crash()
    monkeypatch.undo()
    host = running.broker.hosts["/"]
    assert sorted(host.queues) == sorted({"dead", "q", name})
    found = Counter(bytes(entry.message.body) for each in (name, "dead") for entry in host.queues[each].browse())
    assert set(found) == {b"%d" % number for number in range(MANY)}
    assert host.queues[name].order.count < MANY, "some were sent"
    if again:
        assert host.queues["q"].order.count == 0


async def test_a_queue_with_a_taken_name_is_forgotten_in_the_end(running: RunningBroker) -> None:
    broker = running.broker
    peer, _ = await with_letters(broker)
    await peer.send(1, QUEUE.Delete(queue="q", nowait=True))
    await peer.send(1, QUEUE.Declare(queue="q", durable=True))
    await broker.commit.durable()
    host = broker.hosts["/"]
    while host.departures.count:
        await turns(1)
    await broker.commit.durable()
    assert [record.name for record in broker.catalogue.queues("/")] == ["dead", "q"]
    assert (host.queues["dead"].order.count, host.queues["q"].order.count) == (MANY, 0)
    await running.crash()
    assert sorted(running.broker.hosts["/"].queues) == ["dead", "q"]
