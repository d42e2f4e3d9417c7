"""Settlements, commits and fan-outs of very many messages are done in portions: nothing a client sends holds the loop.

What is asserted is that work is cut, and that its parts are in order, not how long it takes. The figures in the
docstrings are of ``python -m benchmarks.loop_holds``, pure Python, before.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pamqp import body, commands, frame, header

from annulet import testing
from annulet.broker.broker import Broker
from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.sliced_work import AT_ONCE_MAX, SLICE_MESSAGES
from annulet.core.host.sliced_commit import COMMIT_AT_ONCE_MAX, SLICE_OPERATIONS
from annulet.core.message.message import Message, Origin
from annulet.core.queue.emptying import MARKED_PER_SLICE
from annulet.core.queue.queue import Queue
from annulet.core.sessions.sliced_settlement import SLICE_REJECTED
from annulet.testing.clock import VirtualClock
from annulet.wire.amqp091.messages.properties import VIEW
from annulet.wire.amqp10.frames.frames import FRAME_AMQP, encode_frame
from annulet.wire.amqp10.frames.link_frames import Disposition, Flow
from annulet.wire.amqp10.frames.outcomes import (
    Accepted,
    Declare,
    Declared,
    Discharge,
    Modified,
    Rejected,
    TransactionalState,
)
from annulet.wire.amqp10.frames.performatives import encode_performative
from annulet.wire.amqp10.frames.terminus import Coordinator
from tests.broker.amqp091.peer import Peer as Amqp091Peer
from tests.broker.amqp091.peer import turns
from tests.broker.amqp10.peer import Peer as Amqp10Peer
from tests.broker.amqp10.peer import message, queue_of, value
from tests.broker.conftest import leave
from tests.broker.stomp.peer import Peer as StompPeer

MANY = AT_ONCE_MAX + 1
LARGE = COMMIT_AT_ONCE_MAX + 1
STEP = 100
PURGED = 2 * MARKED_PER_SLICE + 1


@pytest.fixture(params=[False, True], ids=["in memory", "on disk"])
async def broker(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Broker]:
    folder = tmp_path if request.param else None
    async with testing.broker(http=False, data_dir=folder, clock=VirtualClock()) as running:
        yield running.broker
        leave(running.broker)


def published(queue: str, exchange: str = "") -> bytes:
    """Return the frames of a durable message of one octet."""
    properties = commands.Basic.Properties(delivery_mode=2)
    method = commands.Basic.Publish(exchange=exchange, routing_key=queue)
    parts = (method, header.ContentHeader(body_size=1, properties=properties), body.ContentBody(b"x"))
    return b"".join(frame.marshal(part, 1) for part in parts)


def fill(broker: Broker, queue: Queue, count: int) -> None:
    """Publish so many messages."""
    host = broker.hosts["/"]
    origin, route = Origin("", queue.name, "guest", VIEW), host.route("", queue.name)
    for number in range(count):
        host.publisher.publish(Message(b"\x10\x00\x02", b"%d" % number, origin, durable=True), route, broker.clock())


async def largest_steps(broker: Broker, count: list[int], queue: Queue) -> int:
    """Return by how much the deliveries of a queue became fewer in one slice at most, until none is left."""
    most = 0
    while broker.worker.waiting or len(queue.delivering):
        before, slices = len(queue.delivering), broker.worker.slices
        await turns(1)
        done = broker.worker.slices - slices
        if done:
            most = max(most, (before - len(queue.delivering)) // done)
    count.append(broker.worker.slices)
    return most


async def settled_in_slices(broker: Broker, queue: Queue, each: int) -> None:
    """Check that the deliveries of a queue are settled slice by slice."""
    assert len(queue.delivering) == MANY
    assert broker.worker.waiting == 1
    slices: list[int] = [broker.worker.slices]
    assert await largest_steps(broker, slices, queue) <= each
    assert slices[1] - slices[0] >= MANY // each
    assert (queue.settling, len(queue.delivering), queue.order.count) == ([], 0, 0)


async def holding_091(broker: Broker, **arguments: object) -> tuple[Amqp091Peer, Queue]:
    """Let a channel hold very many deliveries."""
    peer = await Amqp091Peer(broker).open(1)
    queue = queue_of(broker, "q", arguments)
    fill(broker, queue, MANY)
    await peer.send(1, commands.Basic.Consume(queue="q", consumer_tag="c"))
    while len(queue.delivering) < MANY:
        await peer.take()
    return peer, queue


@pytest.mark.parametrize(
    "arguments",
    [{}, {"x-max-length": 10 * MANY, "x-overflow": "reject-publish"}, {"x-max-length": 10 * MANY}],
    ids=["plain", "rejects", "drops"],
)
@pytest.mark.parametrize("requeue", [None, False])
async def test_one_settlement_of_very_many_deliveries_is_done_in_slices(
    broker: Broker, arguments: dict[str, object], requeue: bool | None
) -> None:
    """A8: ack-multiple and nack-multiple of 100,000 on a queue with a limit: 188 ms and 742 ms."""
    peer, queue = await holding_091(broker, **arguments)
    if requeue is None:
        peer.receive(frame.marshal(commands.Basic.Ack(0, multiple=True), 1))
    else:
        peer.receive(frame.marshal(commands.Basic.Nack(0, multiple=True, requeue=False), 1))
    await settled_in_slices(broker, queue, SLICE_MESSAGES if requeue is None else SLICE_REJECTED)


async def test_a_channel_that_has_pulled_settles_in_slices_too(broker: Broker) -> None:
    """A8, brother."""
    peer, queue = await holding_091(broker)
    fill(broker, queue, 1)
    await peer.send(1, commands.Basic.Get(queue="q"), commands.Basic.Ack(MANY + 1))
    peer.receive(frame.marshal(commands.Basic.Ack(0, multiple=True), 1))
    await settled_in_slices(broker, queue, SLICE_MESSAGES)


async def holding_10(broker: Broker) -> tuple[Amqp10Peer, Queue]:
    """Let a session hold very many deliveries."""
    queue = queue_of(broker, "q")
    fill(broker, queue, MANY)
    peer = await Amqp10Peer(broker).open()
    link = await peer.receiver("q", credit=MANY)
    while len(queue.delivering) < MANY:
        await peer.take()
        await peer.send(Flow(0, 10 * MANY, 0, 10 * MANY, handle=link.handle, delivery_count=0, link_credit=MANY))
    return peer, queue


def encoded(performative: Disposition) -> bytes:
    """Encode a frame."""
    return encode_frame(FRAME_AMQP, 0, encode_performative(performative))


@pytest.mark.parametrize(
    ("state", "each"), [(Accepted(), SLICE_MESSAGES), (Rejected(), SLICE_REJECTED)], ids=["accepted", "rejected"]
)
async def test_one_disposition_of_very_many_deliveries_is_done_in_slices(
    broker: Broker, state: Accepted | Rejected, each: int
) -> None:
    """A8, brother: a disposition of AMQP 1.0 over 60,000 delivery ids."""
    peer, queue = await holding_10(broker)
    peer.receive(encoded(Disposition(True, 0, MANY - 1, True, state)))
    await settled_in_slices(broker, queue, each)


async def test_very_many_that_are_not_deliverable_here_come_back_in_slices(broker: Broker) -> None:
    """A8, brother: "modified" with undeliverable-here and with annotations, each of which is encoded anew."""
    peer, queue = await holding_10(broker)
    outcome = Modified(True, True, {"x-opt-note": "seen"})
    slices = broker.worker.slices
    peer.receive(encoded(Disposition(True, 0, MANY - 1, True, outcome)))
    while broker.worker.waiting or queue.returns:
        await turns(1)
    assert (queue.order.count, len(queue.delivering)) == (MANY, 0)
    assert broker.worker.slices - slices >= MANY // 100


async def test_an_ack_of_stomp_is_done_in_slices_and_its_receipt_comes_after_the_last(broker: Broker) -> None:
    """A8: cumulative ACK of 50,000: 120 ms."""
    queue = queue_of(broker, "q")
    fill(broker, queue, MANY)
    peer = await StompPeer(broker).open("1.1")
    await peer.send("SUBSCRIBE", id="1", destination="/queue/q", ack="client")
    identifier = ""
    while len(queue.delivering) < MANY or peer.transport.written:
        identifier = ([each.headers["message-id"] for each in peer.take()] or [identifier])[-1]
        await peer.settle()
    session = peer.connection.session
    assert session is not None
    peer.connection.data_received(
        f"ACK\nmessage-id:{identifier}\nsubscription:1\nreceipt:first\n\n\0".encode()
        + b"SEND\ndestination:/queue/other\nreceipt:second\n\nx\0"
    )
    assert len(queue.delivering) == MANY
    receipts: list[tuple[str, int]] = []
    while len(receipts) < 2:
        await peer.settle()
        receipts += [(each.headers["receipt-id"], len(queue.delivering)) for each in peer.take()]
    assert receipts == [("first", 0), ("second", 0)]


# ---------------------------------------------------------------------- commits


async def committed(broker: Broker, queue: Queue) -> None:
    """Check that a commit that has just been received is done in slices, and seen when it is done."""
    slices = broker.worker.slices
    assert queue.counters.messages_added == 0
    while not queue.shown_count():
        added, done = queue.counters.messages_added, broker.worker.slices
        await turns(1)
        assert queue.counters.messages_added - added <= SLICE_OPERATIONS * (broker.worker.slices - done)
    assert queue.shown_count() == LARGE
    assert broker.worker.slices - slices >= LARGE // SLICE_OPERATIONS


async def test_a_large_commit_is_done_in_slices_and_its_channel_waits(broker: Broker) -> None:
    """A8: tx.commit of 99,000 publishes: 609 ms in memory, 1,209 ms with a disk."""
    queue = queue_of(broker, "q")
    peer = await Amqp091Peer(broker).open(1)
    await peer.send(1, commands.Tx.Select())
    for first in range(0, LARGE, STEP):
        await peer.send(1, published("q") * min(STEP, LARGE - first))
    await peer.take()
    after = frame.marshal(commands.Queue.Declare(queue="after"), 1)
    peer.receive(frame.marshal(commands.Tx.Commit(), 1) + after)
    peer.receive(after)
    assert not peer.transport.reading
    assert "after" not in broker.hosts["/"].queues
    await committed(broker, queue)
    found = await peer.take()
    while len(found) < 3:
        found += await peer.take()
    kinds = [type(each) for each in found]
    assert sorted(kinds, key=str) == [commands.Queue.DeclareOk, commands.Queue.DeclareOk, commands.Tx.CommitOk]
    assert kinds[0] is commands.Tx.CommitOk or broker.configuration.data_directory, "it waits for the disk only"
    assert peer.transport.reading


async def test_a_connection_may_end_in_the_middle_of_its_commit(broker: Broker) -> None:
    """A commit that was received is done, as if it had been done at once."""
    queue = queue_of(broker, "q")
    peer = await Amqp091Peer(broker).open(1)
    await peer.send(1, commands.Tx.Select())
    await peer.send(1, published("q") * LARGE)
    await peer.take()
    slices = broker.worker.slices
    peer.receive(frame.marshal(commands.Tx.Commit(), 1))
    peer.transport.abort()
    while broker.worker.waiting:
        assert queue.shown_count() in (0, LARGE)
        await turns(1)
    assert queue.shown_count() == LARGE
    assert broker.worker.slices - slices >= LARGE // SLICE_OPERATIONS


async def test_a_large_discharge_is_done_in_slices(broker: Broker) -> None:
    """A8, brother: discharge."""
    peer = await Amqp10Peer(broker).open()
    queue = queue_of(broker, "q")
    sender = await peer.sender("q")
    link = await peer.attach("control", receiver=False, target=Coordinator())
    declared = await peer.publish(link, value(Declare()))
    assert isinstance(declared, Declared)
    for _ in range(LARGE):
        await peer.publish(sender, message(b"x"), state=TransactionalState(declared.txn_id))
    slices = broker.worker.slices
    assert isinstance(await peer.publish(link, value(Discharge(declared.txn_id, False))), Accepted)
    assert queue.shown_count() == LARGE
    assert broker.worker.slices - slices >= LARGE // SLICE_OPERATIONS


async def test_a_large_commit_of_stomp_is_done_in_slices_and_its_receipt_keeps_its_place(broker: Broker) -> None:
    """A8, brother: COMMIT."""
    peer = await StompPeer(broker).open()
    queue = queue_of(broker, "q")
    await peer.send("BEGIN", transaction="t")
    for _ in range(LARGE // STEP + 1):
        peer.connection.data_received(b"SEND\ndestination:/queue/q\ntransaction:t\n\nx\0" * STEP)
        await peer.settle()
    while peer.connection.engine.resting:
        await peer.settle()
    slices = broker.worker.slices
    peer.connection.data_received(
        b"COMMIT\ntransaction:t\nreceipt:first\n\n\0SEND\ndestination:/queue/after\nreceipt:second\n\nx\0"
    )
    assert "after" not in broker.hosts["/"].queues
    receipts: list[str] = []
    while len(receipts) < 2:
        await peer.settle()
        receipts += [each.headers["receipt-id"] for each in peer.take()]
    assert receipts == ["first", "second"]
    assert queue.shown_count() > LARGE
    assert broker.worker.slices - slices >= LARGE // SLICE_OPERATIONS


# ---------------------------------------------------------------------- one message to very many queues


def bind_many(broker: Broker) -> list[Queue]:
    """Bind more queues to an exchange than one turn may fill."""
    host = broker.hosts["/"]
    queues = [queue_of(broker, f"many{number}") for number in range(LARGE)]
    for queue in queues:
        host.bind_queue(queue, "amq.fanout", "")
    return queues


async def entered(broker: Broker, queues: list[Queue]) -> None:
    """Check that a message enters the queues slice by slice, and is seen in all at once."""
    seen: list[int] = []
    slices = broker.worker.slices
    while not seen or seen[-1] < LARGE:
        await turns(1)
        seen.append(sum(queue.shown_count() for queue in queues))
    assert set(seen) <= {0, LARGE}
    assert broker.worker.slices - slices >= LARGE // SLICE_OPERATIONS


async def test_a_publish_to_very_many_queues_is_done_in_slices_and_confirmed_behind_them(broker: Broker) -> None:
    """A8: one publish to 15,000 queues: 113 ms."""
    queues = bind_many(broker)
    peer = await Amqp091Peer(broker).open(1)
    await peer.send(1, commands.Confirm.Select())
    await peer.take()
    peer.receive(published("", "amq.fanout") + published("many0"))
    assert sum(queue.counters.messages_added for queue in queues) == 0
    await entered(broker, queues)
    confirmed = 0
    while confirmed < 2:
        acks = [each.delivery_tag for each in await peer.take() if isinstance(each, commands.Basic.Ack)]
        assert acks == sorted(acks)
        confirmed = max([confirmed, *acks])
    assert queues[0].order.count == 2


async def test_a_transfer_to_very_many_queues_is_done_in_slices(broker: Broker) -> None:
    """A8, brother."""
    queues = bind_many(broker)
    peer = await Amqp10Peer(broker).open()
    link = await peer.sender("/exchanges/amq.fanout")
    slices = broker.worker.slices
    assert isinstance(await peer.publish(link, message(b"x")), Accepted)
    assert sum(queue.shown_count() for queue in queues) == LARGE
    assert broker.worker.slices - slices >= LARGE // SLICE_OPERATIONS


async def test_a_send_of_stomp_to_very_many_queues_is_done_in_slices(broker: Broker) -> None:
    """A8, brother."""
    queues = bind_many(broker)
    peer = await StompPeer(broker).open()
    slices = broker.worker.slices
    await peer.send("SEND", body=b"x", destination="/exchange/amq.fanout", receipt="r")
    assert (await peer.next("RECEIPT")).headers["receipt-id"] == "r"
    assert sum(queue.shown_count() for queue in queues) == LARGE
    assert broker.worker.slices - slices >= LARGE // SLICE_OPERATIONS


async def test_a_purge_of_very_many_is_examined_in_slices(broker: Broker) -> None:
    """A8: a purge of 1,000,000 held the loop for 362 ms: all messages were examined in the turn of the command.

    The queue is empty for all at once; the purger learns of it when none can come back.
    """
    queue = queue_of(broker, "q")
    peer = await Amqp091Peer(broker).open(1)
    fill(broker, queue, PURGED)
    peer.receive(frame.marshal(commands.Queue.Purge(queue="q"), 1))
    assert (queue.order.count, queue.counters.removed[RemovalReason.PURGED]) == (0, PURGED)
    assert (queue.leaving, broker.worker.waiting) == (PURGED, 1)
    fill(broker, queue, 1)
    most, written = 0, len(peer.transport.written)
    while queue.emptying:
        assert len(peer.transport.written) == written
        left, slices = queue.leaving, broker.worker.slices
        await turns(1)
        most = max(most, (left - queue.leaving) // max(1, broker.worker.slices - slices))
    assert 0 < most <= MARKED_PER_SLICE
    assert (queue.leaving, queue.order.count) == (0, 1)
    await broker.commit.durable()
    assert [method.message_count for method in await peer.take()] == [PURGED]
