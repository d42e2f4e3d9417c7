"""A commit is one turn of the loop, so that nobody sees a part of it: the size of a transaction is bounded."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from pamqp import body, commands, frame, header

from annulet import testing
from annulet.broker.broker import Broker
from annulet.broker.settings.limits import Limits
from annulet.core.host.commit_plan import LIMIT_TRANSACTION
from annulet.testing.clock import VirtualClock
from annulet.wire.amqp10.frames.outcomes import Declare, Declared, Discharge, Rejected, TransactionalState
from annulet.wire.amqp10.frames.terminus import Coordinator
from tests.broker.amqp091.peer import Peer as Amqp091Peer
from tests.broker.amqp10.peer import Peer as Amqp10Peer
from tests.broker.amqp10.peer import message, queue_of, value
from tests.broker.conftest import leave
from tests.broker.stomp.peer import Peer as StompPeer

MOST = 10


def published(exchange: str, routing_key: str) -> bytes:
    """Return the frames of a message of one octet."""
    method = commands.Basic.Publish(exchange=exchange, routing_key=routing_key)
    parts = (method, header.ContentHeader(body_size=1), body.ContentBody(b"x"))
    return b"".join(frame.marshal(part, 1) for part in parts)


PUBLISH = published("", "q")


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    limits = Limits(max_transaction_operations=MOST)
    async with testing.broker(http=False, clock=VirtualClock(), limits=limits) as running:
        queue_of(running.broker, "q")
        yield running.broker
        leave(running.broker)


def count(broker: Broker) -> int:
    return broker.hosts["/"].queues["q"].order.count


async def test_a_channel_commits_as_much_as_is_allowed_and_no_more(broker: Broker) -> None:
    """A8: tx.commit of 100,000 publishes held the loop for 162 ms, and of more for longer, without a bound."""
    peer = await Amqp091Peer(broker).open(1)
    await peer.send(1, commands.Tx.Select())
    await peer.send(1, PUBLISH * MOST, commands.Tx.Commit())
    assert count(broker) == MOST
    assert isinstance((await peer.take())[-1], commands.Tx.CommitOk)
    await peer.send(1, PUBLISH * (MOST + 1), commands.Tx.Commit())
    close = (await peer.take())[-1]
    assert isinstance(close, commands.Channel.Close)
    assert close.reply_code == 406
    assert f"{MOST + 1} sends and settlements refused" in close.reply_text
    assert LIMIT_TRANSACTION in close.reply_text
    assert count(broker) == MOST
    assert peer.connection.engine.limit_hits == {LIMIT_TRANSACTION: 1}
    assert peer.connection.transacted_bytes == 0


async def test_settlements_count_as_sends_do_and_go_back(broker: Broker) -> None:
    """A8, brother: tx.commit of 100,000 acknowledgements held the loop for 161 ms."""
    peer = await Amqp091Peer(broker).open(1)
    await peer.send(1, PUBLISH * (MOST + 1))
    await peer.send(1, commands.Tx.Select(), commands.Basic.Consume(queue="q"))
    assert len(broker.hosts["/"].queues["q"].delivering) == MOST + 1
    await peer.send(1, commands.Basic.Ack(delivery_tag=0, multiple=True), commands.Tx.Commit())
    assert isinstance((await peer.take())[-1], commands.Channel.Close)
    assert count(broker) == MOST + 1


async def test_stomp_commits_as_much_as_is_allowed_and_no_more(broker: Broker) -> None:
    """A8, brother: COMMIT."""
    peer = await StompPeer(broker).open()
    for number, sends in (("1", MOST), ("2", MOST + 1)):
        await peer.send("BEGIN", transaction=number)
        for _ in range(sends):
            await peer.send("SEND", body=b"x", destination="/queue/q", transaction=number)
        await peer.send("COMMIT", transaction=number)
        assert count(broker) == MOST
    assert LIMIT_TRANSACTION in await peer.error()


async def test_amqp_1_0_discharges_as_much_as_is_allowed_and_no_more(broker: Broker) -> None:
    """A8, brother: discharge."""
    peer = await Amqp10Peer(broker).open()
    sender = await peer.sender("q")
    link = await peer.attach("control", receiver=False, target=Coordinator())
    answers = []
    for sends in (MOST, MOST + 1):
        declared = await peer.publish(link, value(Declare()))
        assert isinstance(declared, Declared)
        for _ in range(sends):
            await peer.publish(sender, message(b"x"), state=TransactionalState(declared.txn_id))
        answers.append(await peer.publish(link, value(Discharge(declared.txn_id, False))))
        assert count(broker) == MOST
    assert isinstance(answers[1], Rejected)
    assert answers[1].error is not None
    assert LIMIT_TRANSACTION in str(answers[1].error.description)


def bind_many(broker: Broker, exchange: str) -> None:
    """Bind so many queues that one message to the exchange is beyond the bound."""
    host = broker.hosts["/"]
    for number in range(MOST):
        queue_of(broker, f"many{number}")
        host.bind_queue(host.queues[f"many{number}"], exchange, "")


def entered(broker: Broker) -> int:
    return sum(queue.order.count for name, queue in broker.hosts["/"].queues.items() if name.startswith("many"))


async def test_queues_that_are_bound_after_the_sends_count(broker: Broker) -> None:
    """A8: 900 sends to a fanout, then 100 queues bound to it: 90,000 messages entered with a limit of 1000."""
    peer = await Amqp091Peer(broker).open(1)
    await peer.send(1, commands.Tx.Select(), published("amq.fanout", "") * 2)
    bind_many(broker, "amq.fanout")
    await peer.send(1, commands.Tx.Commit())
    close = (await peer.take())[-1]
    assert isinstance(close, commands.Channel.Close)
    assert close.reply_code == 406
    assert LIMIT_TRANSACTION in close.reply_text
    assert entered(broker) == 0
    assert peer.connection.engine.limit_hits == {LIMIT_TRANSACTION: 1}
    assert peer.connection.transacted_bytes == 0


async def test_queues_of_stomp_that_are_bound_after_the_sends_count(broker: Broker) -> None:
    """A8, brother: COMMIT."""
    peer = await StompPeer(broker).open()
    await peer.send("BEGIN", transaction="1")
    for _ in range(2):
        await peer.send("SEND", body=b"x", destination="/exchange/amq.fanout", transaction="1")
    bind_many(broker, "amq.fanout")
    await peer.send("COMMIT", transaction="1")
    assert LIMIT_TRANSACTION in await peer.error()
    assert entered(broker) == 0


async def test_queues_of_amqp_1_0_that_are_bound_after_the_sends_count(broker: Broker) -> None:
    """A8, brother: discharge."""
    peer = await Amqp10Peer(broker).open()
    sender = await peer.sender("/exchanges/amq.fanout")
    link = await peer.attach("control", receiver=False, target=Coordinator())
    declared = await peer.publish(link, value(Declare()))
    assert isinstance(declared, Declared)
    for _ in range(2):
        await peer.publish(sender, message(b"x"), state=TransactionalState(declared.txn_id))
    bind_many(broker, "amq.fanout")
    answer = await peer.publish(link, value(Discharge(declared.txn_id, False)))
    assert isinstance(answer, Rejected)
    assert answer.error is not None
    assert LIMIT_TRANSACTION in str(answer.error.description)
    assert entered(broker) == 0


async def test_dead_letters_of_a_transaction_count_for_each_of_their_queues(broker: Broker) -> None:
    """A8, brother: 900 rejections whose dead letters went to 100 queues each."""
    queue_of(broker, "dying", {"x-dead-letter-exchange": "amq.fanout"})
    bind_many(broker, "amq.fanout")
    peer = await Amqp091Peer(broker).open(1)
    await peer.send(1, published("", "dying"), commands.Tx.Select(), commands.Basic.Get(queue="dying"))
    await peer.send(1, commands.Basic.Nack(delivery_tag=1, requeue=False), commands.Tx.Commit())
    assert isinstance((await peer.take())[-1], commands.Channel.Close)
    assert entered(broker) == 0
    assert broker.hosts["/"].queues["dying"].order.count == 1
