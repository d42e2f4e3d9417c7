"""Rows 83, 91 to 95 and 100 of the Broker-J scenarios, and its quirks Q5 and Q8: what an AMQP 0-9-1 client meets.

Broker-J closes the connection for most errors; here an error closes its channel, as in RabbitMQ.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from pamqp import commands

from annulet import testing
from annulet.broker.broker import Broker
from annulet.core.configuration.arguments.unknown import REFUSE
from annulet.core.host.transaction import Transaction
from tests.broker.amqp091.peer import Peer, publish, settlements
from tests.broker.conftest import leave
from tests.scenarios.qpid.stage import Client, Stage


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    async with testing.broker(http=False, clock=testing.VirtualClock()) as running:
        yield running.broker
        leave(running.broker)


async def closed_with(peer: Peer, method: Any) -> tuple[int, str]:
    """Send a method that closes channel 1; return code and text."""
    close = await peer.ask(1, method, commands.Channel.Close)
    await peer.send(1, commands.Channel.CloseOk())
    return close.reply_code, close.reply_text


def depth(broker: Broker) -> int:
    return broker.hosts["/"].queues["q"].order.count


async def test_q5_expiration_is_a_time_to_live(broker: Broker) -> None:
    peer = await Peer(broker).open(1)
    await peer.send(1, commands.Queue.Declare(0, "q"), publish(1, "q", expiration="60000"))
    queue = broker.hosts["/"].queues["q"]
    assert queue.expires_at(queue.order.first()) == broker.clock() + 60_000


async def test_q8_who_publishes_into_a_full_queue_waits_and_nobody_else(broker: Broker) -> None:
    peer, other = await Peer(broker).open(1), await Peer(broker).open(1)
    arguments = {"qpid.policy_type": "PRODUCER_FLOW_CONTROL", "qpid.max_count": 1}
    await peer.send(1, commands.Queue.Declare(0, "q", arguments=arguments), commands.Queue.Bind(0, "q", "amq.fanout"))
    await peer.send(1, publish(1, "", exchange="amq.fanout") * 2)
    assert (peer.transport.reading, other.transport.reading, depth(broker)) == (False, True, 2)
    await other.send(1, commands.Basic.Get(0, "q", no_ack=True))
    await peer.take()
    assert (peer.transport.reading, depth(broker)) == (True, 1)


async def test_row_083_an_unknown_argument_is_refused(broker: Broker) -> None:
    """Broker-J may be told to ignore it, RabbitMQ always does; a limit that is ignored loses messages."""
    peer = await Peer(broker).open(1)
    await peer.ask(1, commands.Queue.Declare(0, "taken", arguments={"foo": "bar"}), commands.Queue.DeclareOk)
    broker.hosts["/"].unknown_arguments = REFUSE
    peer = await Peer(broker).open(1)
    code, text = await closed_with(peer, commands.Queue.Declare(0, "q", arguments={"foo": "bar"}))
    assert (code, "unknown queue argument 'foo'" in text) == (406, True)
    assert "q" not in broker.hosts["/"].queues


async def test_row_091_what_is_confirmed(broker: Broker) -> None:
    """Broker-J answers an unroutable mandatory message with nack; returned and confirmed it is in RabbitMQ and here."""
    peer = await Peer(broker).open(1)
    await peer.send(1, commands.Queue.Declare(0, "q"), commands.Confirm.Select())
    await peer.take()
    seen = []
    for message in (publish(1, "q"), publish(1, "nobody"), publish(1, "nobody", mandatory=True)):
        await peer.send(1, message)
        frames = await peer.take()
        returned = [item.reply_code for item in frames if isinstance(item, commands.Basic.Return)]
        seen.append((returned, [(kind, tag) for kind, tag, _ in settlements(frames)]))
    assert seen == [([], [("ack", 1)]), ([], [("ack", 2)]), ([312], [("ack", 3)])]


async def test_row_092_a_commit_returns_what_is_unroutable_and_needs_no_confirms(broker: Broker) -> None:
    """Broker-J has confirms within a transaction; RabbitMQ and we refuse them: ``commit-ok`` is the confirm."""
    peer = await Peer(broker).open(1)
    await peer.send(1, commands.Queue.Declare(0, "q"), commands.Tx.Select())
    await peer.send(1, publish(1, "nobody", mandatory=True), publish(1, "q"))
    frames = await peer.take()
    assert (settlements(frames), depth(broker)) == ([], 0)
    await peer.send(1, commands.Tx.Commit())
    frames = await peer.take()
    answers = [item for item in frames if isinstance(item, commands.Basic.Return | commands.Tx.CommitOk)]
    assert [type(item) for item in answers] == [commands.Basic.Return, commands.Tx.CommitOk]
    assert depth(broker) == 1
    assert (await closed_with(peer, commands.Confirm.Select()))[0] == 406


async def test_row_093_an_exclusive_queue_belongs_to_its_connection(broker: Broker) -> None:
    owner, other = await Peer(broker).open(1), await Peer(broker).open(1)
    await owner.send(1, commands.Queue.Declare(0, "q", exclusive=True))
    code, text = await closed_with(other, commands.Queue.Declare(0, "q", exclusive=True))
    assert (code, "belongs to another connection" in text) == (405, True)
    await owner.send(0, commands.Connection.Close(200, "", 0, 0))
    await other.send(1, commands.Channel.Open())
    await other.ask(1, commands.Queue.Declare(0, "q", exclusive=True), commands.Queue.DeclareOk)


async def test_row_094_a_queue_in_use_is_not_deleted_if_unused(broker: Broker) -> None:
    peer = await Peer(broker).open(1, 2)
    await peer.send(2, commands.Queue.Declare(0, "q"), commands.Basic.Consume(0, "q", "c"))
    code, text = await closed_with(peer, commands.Queue.Delete(0, "q", if_unused=True))
    assert (code, "1 consumers" in text) == (406, True)
    await peer.send(2, commands.Basic.Cancel("c"))
    await peer.ask(2, commands.Queue.Delete(0, "q", if_unused=True), commands.Queue.DeleteOk)


async def test_row_095_an_alternate_exchange_is_refused_with_the_name_to_use(broker: Broker) -> None:
    """Broker-J closes the connection with 404 for one that is unknown; here a target may come later."""
    peer = await Peer(broker).open(1)
    code, text = await closed_with(peer, commands.Queue.Declare(0, "q", arguments={"alternateExchange": "unknown"}))
    assert (code, "x-dead-letter-exchange" in text) == (406, True)
    await peer.send(1, commands.Channel.Open())
    declare = commands.Queue.Declare(0, "q", arguments={"x-dead-letter-exchange": "unknown"})
    await peer.ask(1, declare, commands.Queue.DeclareOk)


async def test_row_100_deleting_a_queue_cancels_its_consumers_and_lets_its_publishers_know(broker: Broker) -> None:
    peer = await Peer(broker).open(1, 2)
    await peer.send(1, commands.Queue.Declare(0, "q"), commands.Basic.Consume(0, "q", "c"))
    await peer.take()
    await peer.send(2, commands.Queue.Delete(0, "q"))
    assert (await peer.one(commands.Basic.Cancel)).consumer_tag == "c"
    await peer.send(1, publish(1, "q", mandatory=True))
    assert (await peer.one(commands.Basic.Return)).reply_code == 312


def test_row_100_a_transaction_outlives_a_queue_it_used() -> None:
    """Broker-J fails it; here what the queue held is gone with it, and the sends are reported as unroutable."""
    stage = Stage()
    queue, client = stage.declare(), Client(stage)
    stage.declare("other")
    client.listen(queue)
    stage.send("held")
    transaction = Transaction(client)
    transaction.acknowledge(1)
    stage.collect(transaction, "lost")
    stage.collect(transaction, "kept", to="other")
    stage.host.delete_queue(queue, stage.now)
    unroutable = transaction.commit(stage.host, stage.now)
    assert [message.body for message in unroutable] == [b"lost"]
    assert stage.held("other") == ["kept"]
    assert stage.effects.cancelled == ["c"]
