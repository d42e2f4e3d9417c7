"""Transactions of a channel: their answers, the disk, and its failures; through real bytes."""

from __future__ import annotations

import pytest
from pamqp import commands, frame

from annulet.broker.broker import Broker
from annulet.store.files.errors import DiskFullError
from annulet.store.log.log import MessageLog
from annulet.store.segments.interface import Batch
from tests.broker.amqp091.confirming import confirming, fill_disk
from tests.broker.amqp091.peer import Peer, bodies, persistent, publish, settlements, turns
from tests.store.log.test_log_tools import space_of

BASIC, CHANNEL, QUEUE, TX = commands.Basic, commands.Channel, commands.Queue, commands.Tx


async def transactional(broker: Broker) -> Peer:
    peer = await Peer(broker).open(1)
    await peer.send(1, commands.Queue.Declare(queue="q", durable=True), TX.Select())
    await peer.take()
    return peer


async def test_commit_ok_waits_for_the_disk(disk_broker: Broker) -> None:
    peer = await transactional(disk_broker)
    peer.receive(persistent(1, "q"))
    assert await peer.take() == []
    peer.receive(_marshal(TX.Commit()))
    peer.connection.flush()
    assert not peer.transport.written
    await disk_broker.commit.durable()
    assert [type(item) for item in await peer.take()] == [TX.CommitOk]


async def test_empty_commit_does_not_overtake_the_one_before_it(
    disk_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer = await transactional(disk_broker)
    answered: list[int] = []
    complete = disk_broker.log.complete

    def completing(batch: Batch) -> None:
        answered.append(len(peer.transport.written))
        complete(batch)

    monkeypatch.setattr(disk_broker.log, "complete", completing)
    peer.receive(persistent(1, "q") + _marshal(TX.Commit()) + _marshal(TX.Commit()))
    await disk_broker.commit.durable()
    assert answered[0] == 0, "commit-ok of the empty commit left before the first was durable"
    assert [type(item) for item in await peer.take()] == [TX.CommitOk, TX.CommitOk]
    await peer.send(1, TX.Commit())
    await peer.one(TX.CommitOk)


async def test_answers_to_later_methods_of_the_channel_do_not_overtake_commit_ok(disk_broker: Broker) -> None:
    """A8: declare-ok, get-empty and close-ok were sent at once, commit-ok when it was durable."""
    peer = await transactional(disk_broker)
    later = (TX.Commit(), QUEUE.Declare(queue="q", passive=True), BASIC.Get(queue="q"), CHANNEL.Close(200, "", 0, 0))
    peer.receive(persistent(1, "q") + b"".join(_marshal(method) for method in later))
    assert not peer.transport.written
    await disk_broker.commit.durable()
    kinds = [type(item) for item in await peer.take() if isinstance(item, frame.base.Frame)]
    assert kinds == [TX.CommitOk, QUEUE.DeclareOk, BASIC.GetOk, CHANNEL.CloseOk]


async def test_what_has_no_answer_and_other_channels_go_on_before_commit_ok(disk_broker: Broker) -> None:
    peer = await transactional(disk_broker)
    await peer.send(2, CHANNEL.Open())
    await peer.take()
    peer.receive(persistent(1, "q") + _marshal(TX.Commit()) + persistent(1, "q"))
    peer.receive(frame.marshal(QUEUE.Declare(queue="q", passive=True), 2))
    peer.connection.flush()
    assert peer.transport.written, "channel 2 has its answer"
    transaction = peer.connection.channels[1].transaction
    assert transaction is not None
    assert transaction.operations == 1, "the publish is of the next transaction"
    await disk_broker.commit.durable()
    assert [type(item) for item in await peer.take()] == [QUEUE.DeclareOk, TX.CommitOk]


async def test_a_channel_that_ends_before_commit_ok_can_be_opened_again(disk_broker: Broker) -> None:
    """Nothing on the new channel waits for the commit of the former one, and its own commits are waited for."""
    peer = await transactional(disk_broker)
    failing = [persistent(1, "q"), _marshal(TX.Commit()), publish(1, "q", exchange="no such exchange")]
    later = (CHANNEL.CloseOk(), CHANNEL.Open(), TX.Select())
    again = [persistent(1, "q"), *map(_marshal, (TX.Commit(), QUEUE.Declare(queue="q", passive=True)))]
    peer.receive(b"".join([*failing, *map(_marshal, later), *again]))
    await disk_broker.commit.durable()
    kinds = [type(item) for item in await peer.take()]
    assert kinds == [CHANNEL.Close, CHANNEL.OpenOk, TX.SelectOk, TX.CommitOk, QUEUE.DeclareOk]


async def test_input_that_waits_for_commit_ok_ends_with_its_connection(disk_broker: Broker) -> None:
    peer = await transactional(disk_broker)
    peer.receive(persistent(1, "q") + _marshal(TX.Commit()) + _marshal(QUEUE.Declare(queue="q", passive=True)))
    peer.connection.connection_lost(None)
    await disk_broker.commit.durable()
    await turns()
    assert disk_broker.connections == set()
    assert disk_broker.hosts["/"].queues["q"].order.count == 1


async def test_unroutable_sends_of_a_transaction_are_counted_and_the_mandatory_returned(broker: Broker) -> None:
    peer = await transactional(broker)
    await peer.send(1, publish(1, "nowhere", b"kept quiet"), publish(1, "nowhere", b"returned", mandatory=True))
    assert await peer.take() == []
    await peer.send(1, TX.Commit())
    frames = await peer.take()
    assert bodies(frames) == [b"returned"]
    assert type(frames[-1]) is TX.CommitOk
    assert broker.unroutable == 2


async def test_transaction_of_acknowledgements_is_refused_whole_when_the_disk_is_full(
    disk_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer = await transactional(disk_broker)
    await peer.send(1, persistent(1, "q"), TX.Commit())
    await disk_broker.commit.durable()
    await peer.send(1, BASIC.Consume(queue="q"))
    await peer.take()
    fill_disk(disk_broker, monkeypatch)
    await peer.send(1, BASIC.Ack(1), TX.Commit())
    assert (await peer.one(CHANNEL.Close)).reply_code == 506
    queue = disk_broker.hosts["/"].queues["q"]
    assert (queue.order.count, queue.statistics().messages_acknowledged) == (1, 0)


async def test_commit_that_the_log_refuses_leaves_no_transaction_open(
    disk_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer = await transactional(disk_broker)

    def roll(*_: object) -> None:
        raise DiskFullError("no disk space")

    log = disk_broker.log
    assert isinstance(log, MessageLog)
    monkeypatch.setattr(space_of(log), "roll", roll)
    log._free = 0  # the segment is full
    await peer.send(1, persistent(1, "q"), TX.Commit())
    assert (await peer.one(CHANNEL.Close)).reply_code == 506
    monkeypatch.undo()
    assert disk_broker.log.statistics().open_transactions == 0
    other = await confirming(disk_broker, durable=True)
    await other.send(1, persistent(1, "q"))
    await disk_broker.commit.durable()
    assert [kind for kind, _, _ in settlements(await other.take())] == ["ack"]
    assert disk_broker.log.statistics().live_records == 1


async def test_exchange_made_internal_before_the_commit_takes_nothing_and_breaks_nothing(broker: Broker) -> None:
    peer = await Peer(broker).open(1, 2)
    await peer.send(1, commands.Exchange.Declare(exchange="e"), TX.Select(), publish(1, "k", exchange="e"))
    await peer.send(2, commands.Exchange.Delete(exchange="e"))
    await peer.send(2, commands.Exchange.Declare(exchange="e", internal=True))
    await peer.take()
    await peer.send(1, TX.Commit())
    await peer.one(TX.CommitOk)
    assert broker.unroutable == 1
    assert broker.log.statistics().open_transactions == 0


async def test_rollback_leaves_deliveries_unsettled_and_closing_returns_them(broker: Broker) -> None:
    peer = await transactional(broker)
    await peer.send(1, publish(1, "q", b"a"), TX.Commit(), BASIC.Consume(queue="q"))
    await peer.take()
    await peer.send(1, BASIC.Ack(1), publish(1, "q", b"dropped"), TX.Rollback())
    assert [type(item) for item in await peer.take()] == [TX.RollbackOk]
    assert len(broker.hosts["/"].queues["q"].delivering) == 1
    await peer.send(1, BASIC.Ack(1), CHANNEL.Close(200, "", 0, 0))
    queue = broker.hosts["/"].queues["q"]
    assert [entry.message.body for entry in queue.browse()] == [b"a"]
    assert queue.order.count == 1


async def test_disk_failure_under_a_commit_closes_the_channel(
    disk_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer = await transactional(disk_broker)

    def write(batch: Batch) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(disk_broker.log, "write", write)
    peer.receive(persistent(1, "q") + _marshal(TX.Commit()))
    await disk_broker.failed()
    await turns()
    assert (await peer.one(CHANNEL.Close)).reply_code == 506


def _marshal(method: commands.Tx.Commit) -> bytes:
    return frame.marshal(method, 1)
