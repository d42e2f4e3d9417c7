from __future__ import annotations

from typing import Any

from annulet.broker.amqp10.session import Amqp10Session
from annulet.broker.broker import Broker
from annulet.broker.connections.transport import WRITE_BYTES
from annulet.core.base.sliced_work import AT_ONCE_MAX
from annulet.wire.amqp10.frames.link_frames import Disposition, Flow, Transfer
from annulet.wire.amqp10.frames.outcomes import Rejected
from annulet.wire.amqp10.frames.performatives import Begin, Close, End
from tests.broker.amqp091.peer import turns
from tests.broker.amqp10.peer import ACCEPTED, Peer, bodies, frame, message, queue_of


def session_of(peer: Peer, channel: int = 0) -> Amqp10Session:
    session = peer.connection.channels[channel]
    assert isinstance(session, Amqp10Session)
    return session


async def fill(broker: Broker, *contents: bytes, **options: Any) -> None:
    queue_of(broker, "q")
    peer = await Peer(broker).open()
    sender = await peer.sender("q")
    for content in contents:
        await peer.publish(sender, message(content, **options))
    await peer.lose()


async def test_sessions_of_a_connection_are_apart(broker: Broker) -> None:
    await fill(broker, b"a", b"b")
    peer = await Peer(broker).open(sessions=2)
    await peer.receiver("q", credit=1)
    await peer.receiver("q", credit=1, channel=1)
    first, second = await peer.deliveries()
    assert (first.number, second.number) == (0, 0)
    await peer.end(0)
    await peer.settle(ACCEPTED, second, channel=1)
    assert (broker.hosts["/"].queues["q"].order.count, set(peer.connection.channels)) == (1, {1})


async def test_the_end_returns_everything_once_and_the_channel_can_begin_again(broker: Broker) -> None:
    await fill(broker, b"a", b"b")
    peer = await Peer(broker).open()
    await peer.receiver("q", credit=5)
    first, _ = await peer.deliveries()
    await peer.settle(ACCEPTED, first)
    await peer.end()
    await peer.begin(0)
    await peer.one(Begin)
    await peer.receiver("q", credit=5)
    assert bodies(await peer.deliveries()) == [b"b"]


async def test_a_session_that_ends_does_not_serve_its_other_links(broker: Broker) -> None:
    await fill(broker, b"a", b"b", b"c")
    peer = await Peer(broker).open()
    for _ in range(3):
        await peer.receiver("q", credit=5)
    await peer.take()
    await peer.send(frame(End()))
    assert await peer.deliveries() == []
    queue = broker.hosts["/"].queues["q"]
    assert (queue.order.count, len(queue.delivering), queue.users) == (3, 0, 0)


async def test_the_peers_window_stops_transfers_and_opens_again(broker: Broker) -> None:
    """§2.5.6."""
    await fill(broker, *[b"%d" % number for number in range(10)])
    peer = await Peer(broker).open(sessions=0)
    await peer.begin(0, incoming_window=3)
    link = await peer.receiver("q")
    credit: dict[str, Any] = {"handle": link.handle, "link_credit": 100, "delivery_count": 0}
    window: dict[str, Any] = {"next_outgoing_id": 0, "outgoing_window": 10}
    await peer.send(Flow(next_incoming_id=0, incoming_window=3, **window, **credit))
    first = await peer.deliveries()
    assert 3 <= len(first) <= 4  # the one that finds the window closed is not withdrawn
    assert not session_of(peer).writable
    received = peer.transfers_received[0]
    assert received == 3
    await peer.send(Flow(next_incoming_id=received, incoming_window=100, **window))
    rest = await peer.deliveries()
    assert bodies([*first, *rest]) == [b"%d" % number for number in range(10)]


async def test_a_window_that_opens_wakes_nobody_while_others_are_delivered_to(broker: Broker) -> None:
    """Deliveries are written before the turn ends; who is writable again is served when it does."""
    await fill(broker, *[b"%d" % number for number in range(4)])
    queue_of(broker, "large")
    peer = await Peer(broker).open(sessions=0)
    await peer.begin(0, incoming_window=1)
    await peer.begin(1)
    sender = await peer.sender("large", channel=1)
    for _ in range(8):
        await peer.publish(sender, message(bytes(WRITE_BYTES // 4)))
    small, large = await peer.receiver("q"), await peer.receiver("large", channel=1)
    window: dict[str, Any] = {"next_outgoing_id": 0, "outgoing_window": 10, "delivery_count": 0, "link_credit": 10}
    await peer.send(Flow(next_incoming_id=0, incoming_window=1, handle=small.handle, **window))
    assert not session_of(peer).writable
    await peer.take()
    opened = frame(Flow(next_incoming_id=1, incoming_window=10, next_outgoing_id=0, outgoing_window=10), 0)
    window["next_outgoing_id"] = 8
    await peer.send(opened, frame(Flow(next_incoming_id=0, incoming_window=10, handle=large.handle, **window), 1))
    served = [item.channel for item in await peer.take() if isinstance(item.performative, Transfer)]
    assert served == [0, *[1] * 8, 0, 0], "the first was handed in before"


async def test_what_never_left_does_not_count_as_delivered(broker: Broker) -> None:
    await fill(broker, b"a", b"b", b"c")
    peer = await Peer(broker).open(sessions=0)
    await peer.begin(0, incoming_window=1)
    link = await peer.receiver("q")
    await peer.send(
        Flow(
            next_incoming_id=0, incoming_window=1, next_outgoing_id=0, outgoing_window=10,
            handle=link.handle, link_credit=10, delivery_count=0,
        )
    )  # fmt: skip
    assert bodies(await peer.deliveries()) == [b"a"]
    await peer.end()
    other = await Peer(broker).open()
    await other.receiver("q", credit=5)
    again = await other.deliveries()
    assert bodies(again) == [b"a", b"b", b"c"]
    assert [item.header.delivery_count for item in again][1:] == [0, 0]


async def test_a_full_output_stops_deliveries_until_there_is_room(broker: Broker) -> None:
    await fill(broker, *[b"x" * 100_000 for _ in range(30)])
    peer = await Peer(broker).open()
    peer.connection.pause_writing()
    await peer.receiver("q", credit=30)
    assert await peer.deliveries() == []
    peer.connection.resume_writing()
    assert len(await peer.deliveries()) == 30


async def test_an_answer_waits_for_the_disk_and_tells_when_it_failed(disk_broker: Broker) -> None:
    queue_of(disk_broker, "q")
    peer = await Peer(disk_broker).open()
    sender = await peer.sender("q")
    await peer.take()
    session = session_of(peer)
    await peer.send(peer.transfer(sender, message(durable=False)))
    assert (await peer.one(Disposition)).state == ACCEPTED
    peer.receive(peer.transfer(sender, message(durable=True)))
    session.window_failed(disk_broker.commit.window)
    (told,) = [item for item in await peer.all(Disposition) if isinstance(item.state, Rejected)]
    assert isinstance(told.state, Rejected)
    assert told.state.error is not None
    assert "disk" in (told.state.error.description or "")


async def test_a_message_withheld_from_its_only_consumer_waits_for_another(broker: Broker) -> None:
    await fill(broker, b"x" * 1000)
    peer = await Peer(broker).open()
    small = await peer.receiver("q", credit=1, max_message_size=10, snd_settle_mode=1)
    await turns()
    queue = broker.hosts["/"].queues["q"]
    assert (queue.order.count, len(queue.delivering)) == (1, 0)
    await peer.detach(small)
    await peer.receiver("q", credit=1)
    assert bodies(await peer.deliveries()) == [b"x" * 1000]


async def test_the_memory_alarm_stops_reading_from_who_published(broker: Broker) -> None:
    queue_of(broker, "q")
    publisher, consumer = await Peer(broker).open(), await Peer(broker).open()
    await publisher.publish(await publisher.sender("q"), message())
    await consumer.receiver("q", credit=5)
    broker.memory_blocked = True
    for peer in (publisher, consumer):
        peer.connection.mark_dirty()
    await turns()
    assert (publisher.transport.reading, consumer.transport.reading) == (False, True)
    broker.memory_blocked = False
    publisher.connection.mark_dirty()
    await turns()
    assert publisher.transport.reading


async def test_lost_connections_return_everything_once(broker: Broker) -> None:
    await fill(broker, b"a", b"b", b"c")
    peer = await Peer(broker).open(sessions=2)
    await peer.receiver("q", credit=2)
    await peer.receiver("q", credit=2, channel=1)
    assert len(await peer.deliveries()) == 3
    await peer.lose()
    other = await Peer(broker).open()
    await other.receiver("q", credit=5)
    assert bodies(await other.deliveries()) == [b"a", b"b", b"c"]
    await other.send(Close())
    assert broker.hosts["/"].queues["q"].order.count == 3


async def test_sessions_that_end_together_give_much_back_in_slices(broker: Broker) -> None:
    count = AT_ONCE_MAX + 1
    await fill(broker, *[b"%d" % number for number in range(count + 1)])
    queue = broker.hosts["/"].queues["q"]
    peer = await Peer(broker).open(sessions=2)
    await peer.receiver("q", credit=count // 2)
    await peer.receiver("q", credit=count - count // 2, channel=1)
    while len(queue.delivering) < count:
        await peer.take()
    peer.connection.connection_lost(None)
    assert (queue.order.count, len(queue.delivering), queue.users) == (1, count, 0)
    while broker.worker.waiting:
        await turns()
    assert [(entry.sequence, entry.delivery_count) for entry in queue.browse()] == [
        *[(sequence, 1) for sequence in range(1, count + 1)], (count + 1, 0)
    ]  # fmt: skip
