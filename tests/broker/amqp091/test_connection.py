"""One connection: flow of output, the end, the memory alarm, time-outs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from pamqp import body, commands, frame, header

from annulet import testing
from annulet.broker.broker import Broker
from annulet.broker.connections.transport import (
    ANSWER_BYTES_MAX,
    CLOSE_ANSWER_SECONDS,
    CLOSE_GRACE_SECONDS,
    HEARTBEAT_MISSES_MAX,
    OUTPUT_BYTES_MAX,
)
from annulet.broker.turns.delivery_shares import DELIVERIES_TIMED, SHARE_LEAST, TURN_DELIVERIES, TURN_SECONDS
from annulet.core.base.sliced_work import AT_ONCE_MAX
from annulet.core.model.loss_ledger import LossListener, LossRecord
from annulet.wire.amqp091.connection.engine import HELD_OUTPUT_BYTES
from tests.broker.amqp091.peer import PROTOCOL_HEADER, Peer, bodies, persistent, publish, turns
from tests.broker.restarts import publish_all, queue_of
from tests.broker.timers import Timers

BASIC, CHANNEL, CONNECTION = commands.Basic, commands.Channel, commands.Connection
LARGE = b"x" * 400_000  # three of them reach the output limit


async def backlog(broker: Broker, count: int = 12) -> Peer:
    """A peer with two channels, and a deep and a shallow queue."""
    peer = await Peer(broker).open(1, 2)
    await peer.send(1, commands.Queue.Declare(queue="deep"), commands.Queue.Declare(queue="other"))
    await peer.send(1, publish(1, "deep", b"") + b"".join(_large("deep") for _ in range(count)))
    await peer.send(1, publish(1, "other", b"other"))
    await peer.take()
    return peer


def _large(queue: str) -> bytes:
    parts = [LARGE[at : at + 131_000] for at in range(0, len(LARGE), 131_000)]
    return b"".join(
        [
            frame.marshal(BASIC.Publish(0, "", queue), 1),
            frame.marshal(header.ContentHeader(0, len(LARGE), BASIC.Properties()), 1),
            *(frame.marshal(body.ContentBody(part), 1) for part in parts),
        ]
    )


# ---------------------------------------------------------------------- output


async def test_backlog_is_handed_out_in_bounded_pieces_and_to_the_end(broker: Broker) -> None:
    peer = await backlog(broker)
    queue = broker.hosts["/"].queues["deep"]
    peer.connection.pause_writing()
    await peer.send(1, BASIC.Consume(queue="deep", no_ack=True))
    assert queue.order.count == 13, "a peer that reads nothing gets nothing"
    peer.connection.resume_writing()
    assert peer.connection.engine.output_size < OUTPUT_BYTES_MAX + 2 * len(LARGE)
    await turns(20)
    assert queue.order.count == 0


async def test_a_share_of_deliveries_is_enough_for_a_turn(broker: Broker) -> None:
    broker.shares.computed = lambda: 0.0  # they take no time, however busy the machine is
    peer = await Peer(broker).open(1)
    await peer.send(1, commands.Queue.Declare(queue="q"))
    await peer.send(1, publish(1, "q", b"") * (SHARE_LEAST + 1))
    queue = broker.hosts["/"].queues["q"]
    peer.receive(frame.marshal(BASIC.Consume(queue="q", no_ack=True), 1))
    assert queue.order.count == 1, "small ones are not 1 MiB"
    assert peer.connection.engine.output_size < OUTPUT_BYTES_MAX
    await turns()
    assert queue.order.count == 0


@pytest.mark.parametrize(("part", "left"), [(1.0, SHARE_LEAST - 2 * DELIVERIES_TIMED), (0.9, 0)])
async def test_deliveries_that_take_long_are_enough_for_a_turn(broker: Broker, part: float, left: int) -> None:
    """1000 of a deep grouped queue, read in looks of 256, held the event loop for up to 35 ms."""
    moments = iter([0.0, 0.0])  # of the first delivery, and of the first look at the time
    seconds = part * TURN_SECONDS * SHARE_LEAST / TURN_DELIVERIES
    peer = await Peer(broker).open(1)
    await peer.send(1, commands.Queue.Declare(queue="q"))
    await peer.send(1, publish(1, "q", b"") * SHARE_LEAST)
    queue = broker.hosts["/"].queues["q"]
    broker.shares.computed = lambda: next(moments, seconds)
    peer.receive(frame.marshal(BASIC.Consume(queue="q", no_ack=True), 1))
    assert (queue.order.count, broker.shares.used_up) == (left, 1)
    await turns(5)
    assert queue.order.count == 0


async def test_a_share_of_a_turn_leaves_nothing_to_consumers_of_lower_priority(broker: Broker) -> None:
    high, low, publisher = [await Peer(broker).open(1) for _ in range(3)]
    await high.send(1, commands.Queue.Declare(queue="q"))
    await low.send(1, BASIC.Consume(queue="q", no_ack=True))
    await high.send(1, BASIC.Consume(queue="q", no_ack=True, arguments={"x-priority": 1}))
    await publisher.send(1, publish(1, "q") * (SHARE_LEAST + 10))
    received = [len(bodies(await peer.take())) for peer in (high, low)]
    assert received == [SHARE_LEAST + 10, 0]


async def test_deep_backlog_of_one_channel_does_not_starve_another(broker: Broker) -> None:
    peer = await backlog(broker, count=40)
    peer.receive(_bytes(1, BASIC.Consume(queue="deep", no_ack=True)))
    peer.receive(_bytes(2, BASIC.Consume(queue="other", no_ack=True)))
    await turns(4)
    assert broker.hosts["/"].queues["deep"].order.count > 0, "the backlog is not through yet"
    assert broker.hosts["/"].queues["other"].order.count == 0


async def test_peer_that_asks_and_does_not_read_is_not_read(broker: Broker) -> None:
    peer = await Peer(broker).open(1)
    peer.connection.pause_writing()
    peer.transport.buffered = ANSWER_BYTES_MAX + 1
    await peer.send(1, commands.Queue.Declare(queue="q"))
    assert not peer.transport.reading
    peer.transport.buffered = 0
    peer.connection.resume_writing()
    await turns()
    assert peer.transport.reading


async def test_confirms_leave_with_one_flush(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    peer = await Peer(broker).open(1)
    await peer.send(1, commands.Queue.Declare(queue="q"), commands.Confirm.Select())
    flushes = []
    flush = broker.flush
    monkeypatch.setattr(broker, "flush", lambda: (flushes.append(1), flush()))
    await peer.send(1, publish(1, "q"))
    assert len(flushes) == 1


# ---------------------------------------------------------------------- the end


@pytest.mark.parametrize("how", ["lost", "closed by the peer", "closed by us"])
async def test_the_turn_that_ends_a_connection_looks_at_nothing_of_what_its_channels_held(
    broker: Broker, how: str
) -> None:
    peer = await Peer(broker).open(1, 2)
    await peer.send(1, commands.Queue.Declare(queue="q"), *[publish(1, "q", b"%d" % n) for n in range(AT_ONCE_MAX + 2)])
    queue = broker.hosts["/"].queues["q"]
    for channel in (1, 2):
        await peer.send(channel, BASIC.Qos(prefetch_count=AT_ONCE_MAX // 2 + channel - 1), BASIC.Consume(queue="q"))
    while len(queue.delivering) <= AT_ONCE_MAX:
        await turns()
    if how == "lost":
        peer.connection.connection_lost(None)
    elif how == "closed by the peer":
        peer.receive(frame.marshal(CONNECTION.Close(200, "", 0, 0), 0))
    else:
        peer.connection.force_close("test")
    assert (queue.order.count, len(queue.delivering), queue.consumers.count) == (1, AT_ONCE_MAX + 1, 0)
    assert broker.worker.waiting == 2
    while broker.worker.waiting:
        await turns()
    entries = queue.browse()
    assert [int(entry.message.body) for entry in entries] == list(range(AT_ONCE_MAX + 2))
    assert [entry.delivery_count for entry in entries] == [1] * (AT_ONCE_MAX + 1) + [0]
    assert not queue.delivering


async def test_a_stop_puts_everything_back_that_is_on_its_way(tmp_path: Path) -> None:
    count = AT_ONCE_MAX + 1
    async with testing.broker(http=False, data_dir=tmp_path) as running:
        peer = await Peer(running.broker).open(1)
        messages = [persistent(1, "q", b"%d" % number) for number in range(count + 1)]
        await publish_all(running.broker, peer, frame.marshal(commands.Queue.Declare(queue="q", durable=True), 1))
        await publish_all(running.broker, peer, *messages)
        await peer.send(1, BASIC.Qos(prefetch_count=count), BASIC.Consume(queue="q"))
        queue = queue_of(running.broker)
        while len(queue.delivering) < count:
            await turns()
        peer.connection.connection_lost(None)
        assert len(queue.delivering) == count
    assert (len(queue.delivering), queue.order.count) == (0, count + 1)
    async with testing.broker(http=False, data_dir=tmp_path) as running:
        entries = queue_of(running.broker).browse()
        assert [int(entry.message.body) for entry in entries] == list(range(count + 1))
        assert [entry.delivery_count for entry in entries] == [1] * count + [0]


async def test_deleting_a_queue_tells_its_consumers(broker: Broker) -> None:
    peer, other = await Peer(broker).open(1), await Peer(broker).open(1)
    await peer.send(1, commands.Queue.Declare(queue="q"), BASIC.Consume(queue="q", consumer_tag="c"))
    await peer.take()
    await other.send(1, commands.Queue.Delete(queue="q"))
    assert (await peer.one(BASIC.Cancel)).consumer_tag == "c"


async def test_peer_that_does_not_answer_connection_close_is_cut(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer = await Peer(broker).open(1)
    timers = Timers(broker, monkeypatch)
    peer.connection.force_close("test")
    await turns()
    assert not peer.transport.closing
    assert timers.fire(peer.connection) == CLOSE_ANSWER_SECONDS
    assert peer.transport.closing


async def test_peer_that_half_closes_and_reads_nothing_is_cut(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    peer = await Peer(broker).open(1)
    timers = Timers(broker, monkeypatch)
    assert peer.connection.eof_received() is False
    assert timers.fire(peer.connection) == CLOSE_GRACE_SECONDS
    assert peer.transport.closing


async def test_defect_closes_this_connection_with_541_and_no_other(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer, other = await Peer(broker).open(1), await Peer(broker).open(1)

    def defect(*_: object) -> bool:
        raise RuntimeError("defect")

    monkeypatch.setattr(broker.authenticator, "allowed", defect)
    await peer.send(1, publish(1, "q"))
    monkeypatch.undo()
    assert (await peer.one(CONNECTION.Close)).reply_code == 541
    await other.ask(1, commands.Queue.Declare(queue="q"), commands.Queue.DeclareOk)


class FailingListener(LossListener):
    """Has a defect at the 700th loss."""

    def __init__(self) -> None:
        self.losses = 0

    def lost(self, record: LossRecord) -> None:
        self.losses += 1
        if self.losses == 700:
            raise RuntimeError("defect")


async def test_defect_in_a_slice_of_a_settlement_closes_with_541_and_what_was_not_settled_goes_back(
    broker: Broker,
) -> None:
    count = AT_ONCE_MAX + 1
    peer, other = await Peer(broker).open(1), await Peer(broker).open(1)
    await peer.send(1, commands.Queue.Declare(queue="q"), *[publish(1, "q", b"%d" % n) for n in range(count)])
    await peer.send(1, BASIC.Qos(prefetch_count=count), BASIC.Consume(queue="q"))
    queue = queue_of(broker)
    while len(queue.delivering) < count:
        await turns()
    await peer.take()
    broker.hosts["/"].ledger.listeners.append(FailingListener())
    await peer.send(1, BASIC.Nack(0, multiple=True, requeue=False))
    while queue.delivering:
        await turns()
    assert (await peer.one(CONNECTION.Close)).reply_code == 541
    assert (broker.worker.waiting, queue.consumers.count) == (0, 0)
    assert [int(entry.message.body) for entry in queue.browse()] == list(range(700, count))
    await other.ask(1, commands.Queue.Declare(queue="q"), commands.Queue.DeclareOk)


# ---------------------------------------------------------------------- the memory alarm


async def test_memory_alarm_holds_publishers_and_nobody_else(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    publisher, consumer = await Peer(broker).open(1), await Peer(broker).open(1)
    await publisher.send(1, commands.Queue.Declare(queue="q"), publish(1, "q"))
    await publisher.take()
    monkeypatch.setattr(broker.memory, "check", lambda: True)
    broker.tick()
    await publisher.one(CONNECTION.Blocked)
    assert (publisher.transport.reading, consumer.transport.reading) == (False, True)
    await consumer.ask(1, BASIC.Get(queue="q", no_ack=True), BASIC.GetOk)
    await consumer.send(1, publish(1, "q"))
    await consumer.one(CONNECTION.Blocked)
    monkeypatch.setattr(broker.memory, "check", lambda: False)
    broker.tick()
    await publisher.one(CONNECTION.Unblocked)
    assert (publisher.transport.reading, consumer.transport.reading) == (True, True)


async def test_blocked_connection_is_read_again_to_close(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    peer = await Peer(broker).open(1)
    await peer.send(1, commands.Queue.Declare(queue="q"), publish(1, "q"))
    monkeypatch.setattr(broker.memory, "check", lambda: True)
    broker.tick()
    await turns()
    assert not peer.transport.reading
    peer.connection.force_close("test")
    await turns()
    assert peer.transport.reading, "close-ok could never be read"
    await peer.send(0, CONNECTION.CloseOk())
    assert peer.transport.closing


# ---------------------------------------------------------------------- time-outs


async def test_silent_peer_is_given_up_after_its_heartbeats(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    timers = Timers(broker, monkeypatch)
    peer = await Peer(broker).open(heartbeat_seconds=10)
    for _ in range(2 * HEARTBEAT_MISSES_MAX + 1):
        assert timers.fire(peer.connection) == 5
        assert not peer.transport.closing
    timers.fire(peer.connection)
    assert peer.transport.closing
    assert broker.admission.silent_closed == 1


async def test_blocked_publisher_is_not_taken_for_silent(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    timers = Timers(broker, monkeypatch)
    peer = await Peer(broker).open(1, heartbeat_seconds=10)
    await peer.send(1, publish(1, "nowhere"))
    monkeypatch.setattr(broker.memory, "check", lambda: True)
    broker.tick()
    await turns()
    for _ in range(20):
        timers.fire(peer.connection)
    assert not peer.transport.closing


async def test_peer_that_does_not_finish_the_handshake_is_cut(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    timers = Timers(broker, monkeypatch)
    quick = Peer(broker)
    (handshake,) = timers.of(quick.connection)
    assert handshake.seconds == broker.configuration.handshake_timeout
    await quick.open()
    slow = Peer(broker)
    slow.receive(PROTOCOL_HEADER)
    assert timers.fire(slow.connection) == broker.configuration.handshake_timeout
    handshake.callback()  # it was due when the peer opened the connection
    assert (slow.transport.closing, quick.transport.closing) == (True, False)


async def test_large_bodies_arrive_whole(broker: Broker) -> None:
    peer = await backlog(broker, count=1)
    await peer.send(1, BASIC.Get(queue="deep", no_ack=True), BASIC.Get(queue="deep", no_ack=True))
    assert b"".join(bodies(await peer.take())) == LARGE


def _bytes(channel: int, method: commands.Basic.Consume) -> bytes:
    return frame.marshal(method, channel)


async def test_a_burst_of_gets_is_answered_as_fast_as_it_is_read(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A peer may ask in one read for more than there is memory."""
    peer = await Peer(broker).open(1)
    monkeypatch.setattr(peer.transport, "get_write_buffer_size", lambda: len(peer.transport.written))
    await peer.send(1, commands.Queue.Declare(queue="q"), publish(1, "q", b"x" * 100_000))
    await peer.take()
    count = 8 * HELD_OUTPUT_BYTES // 100_000
    pairs = [
        frame.marshal(what, 1)
        for number in range(1, count + 1)
        for what in (commands.Basic.Get(queue="q"), commands.Basic.Nack(number, False, True))
    ]
    peer.receive(b"".join(pairs))
    peer.connection.pause_writing()
    await turns(50)
    assert HELD_OUTPUT_BYTES <= len(peer.transport.written) <= ANSWER_BYTES_MAX + 2 * HELD_OUTPUT_BYTES
    assert not peer.transport.reading
    taken = 0
    async with asyncio.timeout(5):
        while taken < count:
            taken += sum(isinstance(item, commands.Basic.GetOk) for item in await peer.take())
            peer.connection.resume_writing()
    await turns()
    assert peer.transport.reading
    assert not peer.connection.engine.holding
