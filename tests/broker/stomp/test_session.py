from __future__ import annotations

import pytest

from annulet.broker.broker import Broker
from annulet.broker.connections import views
from annulet.broker.stomp import session
from annulet.core.base.sliced_work import AT_ONCE_MAX
from annulet.core.message.message import Message, Origin
from annulet.core.message.neutral_content import MessageContent
from annulet.wire.amqp091.messages.properties import VIEW as AMQP091_VIEW
from annulet.wire.amqp091.messages.properties import BasicProperties, encode_properties
from annulet.wire.stomp.view import VIEW
from tests.broker.stomp.peer import Peer

QUEUE = "/queue/q"


def amqp_message(broker: Broker, body: bytes, **headers: object) -> Message:
    properties = BasicProperties()
    properties.content_type = "text/plain"
    properties.correlation_id = "c"
    properties.headers = dict(headers)  # type: ignore[arg-type]
    origin = Origin("", "q", "guest@x", AMQP091_VIEW)
    return Message(encode_properties(properties), body, origin, accepted_at=broker.clock())


async def test_a_message_of_another_protocol_is_converted(broker: Broker) -> None:
    peer = await Peer(broker).open()
    await peer.request("SUBSCRIBE", id="s", destination=QUEUE)
    host = broker.hosts["/"]
    host.publisher.publish(
        amqp_message(broker, b"hi", number=7, flag=True, nested={"a": [1]}), host.route("", "q"), broker.clock()
    )
    (message,) = await peer.messages(1)
    headers = message.headers
    assert (headers["destination"], headers["correlation-id"], headers["content-type"]) == (QUEUE, "c", "text/plain")
    assert (headers["number"], headers["flag"], headers["nested"]) == ("7", "true", '{"a":[1]}')
    assert message.body == b"hi"


async def test_replies_reach_a_queue_that_only_its_owner_may_read(broker: Broker) -> None:
    host = broker.hosts["/"]
    queue = host.declare_queue("replies", now=broker.clock(), owner=object())
    peer = await Peer(broker).open()
    for destination in ("replies", "/queue/replies", "/reply-queue/replies"):
        await peer.request("SEND", {"destination": destination}, b"42")
    assert queue.order.count == 3
    await peer.send("SUBSCRIBE", id="s", destination="replies")
    assert "belongs to another connection" in await peer.error()


@pytest.mark.parametrize("mode", ["auto", "client"])
async def test_a_message_that_cannot_be_converted_dies_or_stays_for_others(
    broker: Broker, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(content: MessageContent) -> tuple[bytes, bytes]:
        raise ValueError("no")

    peer = await Peer(broker).open()
    await peer.request("SUBSCRIBE", id="s", destination=QUEUE, ack=mode)
    host = broker.hosts["/"]
    monkeypatch.setitem(views.WRITERS, VIEW, fail)
    host.publisher.publish(amqp_message(broker, b"odd"), host.route("", "q"), broker.clock())
    await peer.send("SEND", {"destination": QUEUE}, b"even")
    (message,) = await peer.messages(1)
    assert message.body == b"even"
    assert [entry.message.body for entry in host.queues["q"].order.entries()] == [b"odd"]


async def test_destination_lines_are_remembered_within_a_bound(broker: Broker) -> None:
    peer = await Peer(broker).open()
    await peer.request("SUBSCRIBE", id="s", destination="/exchange/amq.topic/#")
    for number in range(session.DESTINATIONS_MAX + 2):
        await peer.send("SEND", destination=f"/exchange/amq.topic/k{number}")
        (message,) = await peer.messages(1)
        assert message.headers["destination"] == f"/exchange/amq.topic/k{number}"
    opened = peer.connection.session
    assert opened is not None
    assert 0 < opened.lines_remembered <= session.DESTINATIONS_MAX


async def test_long_destination_lines_are_not_remembered(broker: Broker) -> None:
    peer = await Peer(broker).open()
    await peer.request("SUBSCRIBE", id="s", destination="/exchange/amq.topic/#")
    for size in (20, session.REMEMBERED_BYTES_MAX):
        destination = f"/exchange/amq.topic/{'k' * size}"
        await peer.send("SEND", destination=destination)
        (message,) = await peer.messages(1)
        assert message.headers["destination"] == destination
    opened = peer.connection.session
    assert opened is not None
    assert opened.lines_remembered == 1


async def test_a_routing_key_with_a_nul_breaks_no_frame(broker: Broker) -> None:
    """AMQP clients may send one; STOMP's frames end with it."""
    peer = await Peer(broker).open()
    await peer.request("SUBSCRIBE", id="s", destination="/exchange/amq.topic/#")
    host = broker.hosts["/"]
    message = amqp_message(broker, b"hi")
    message.origin = Origin("amq.topic", "a\0b", "guest@x", AMQP091_VIEW)
    host.publisher.publish(message, host.route("amq.topic", "a\0b"), broker.clock())
    (received,) = await peer.messages(1)
    assert (received.headers["destination"], received.body) == ("/exchange/amq.topic/a\u2400b", b"hi")


async def test_the_end_of_a_queue_ends_the_connection_with_the_reason(broker: Broker) -> None:
    peer = await Peer(broker).open()
    await peer.request("SUBSCRIBE", id="s", destination=QUEUE)
    host = broker.hosts["/"]
    host.delete_queue(host.queues["q"], broker.clock())
    await peer.settle()
    assert await peer.error() == "subscription 's' is over: queue 'q' was deleted"


async def test_deliveries_stop_while_the_peer_does_not_read(broker: Broker) -> None:
    peer = await Peer(broker).open()
    for _ in range(3):
        await peer.request("SEND", {"destination": QUEUE}, b"x" * 10)
    peer.connection.pause_writing()
    await peer.send("SUBSCRIBE", id="s", destination=QUEUE)
    assert peer.take() == []
    peer.connection.resume_writing()
    await peer.messages(3)


async def test_a_disk_that_fails_ends_the_connection_with_the_receipt(disk_broker: Broker) -> None:
    peer = await Peer(disk_broker).open()
    opened = peer.connection.session
    assert opened is not None
    opened.answer("one", stored=True)
    opened.answer("two", stored=True)
    opened.sends_failed([1, 2], "not durable")
    peer.connection.mark_dirty()
    await peer.settle()
    frame = await peer.next("ERROR")
    assert (frame.headers["message"], frame.headers["receipt-id"]) == ("not durable", "one")


async def test_a_full_disk_refuses_persistent_messages_and_takes_others(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker, "accepts_durable", lambda size, now: False)
    peer = await Peer(broker).open()
    await peer.request("SEND", destination=QUEUE)
    await peer.send("SEND", destination=QUEUE, persistent="true")
    assert "the disk of the message log is full" in await peer.error()
    assert broker.refused_publishes == 1


async def test_a_first_message_of_a_group_is_marked(broker: Broker) -> None:
    peer = await Peer(broker).open()
    arguments = {"x-group-key": "g", "x-group-first-key": "first"}
    await peer.request("SUBSCRIBE", {"id": "s", "destination": QUEUE, **arguments})
    for _ in range(2):
        await peer.send("SEND", destination=QUEUE, g="a")
    first, second = await peer.messages(2)
    assert first.headers["first"] == "true"
    assert "first" not in second.headers


async def test_the_turn_that_ends_a_connection_looks_at_nothing_of_what_it_held(broker: Broker) -> None:
    peer, count = await Peer(broker).open(), AT_ONCE_MAX + 1
    await peer.request("SUBSCRIBE", {"prefetch-count": str(count)}, id="s", destination=QUEUE, ack="client-individual")
    host = broker.hosts["/"]
    queue = host.queues["q"]
    for number in range(count + 1):
        host.publisher.publish(amqp_message(broker, b"%d" % number), host.route("", "q"), broker.clock())
    while len(queue.delivering) < count:
        await peer.settle()
    peer.connection.connection_lost(None)
    assert (queue.order.count, len(queue.delivering), queue.users) == (1, count, 0)
    while broker.worker.waiting:
        await peer.settle()
    assert [int(entry.message.body) for entry in queue.browse()] == list(range(count + 1))
    assert not queue.delivering
