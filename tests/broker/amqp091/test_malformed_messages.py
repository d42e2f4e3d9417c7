"""A sender's malformed header table: what publishing cannot see counts as absent, and nobody else is disturbed."""

from __future__ import annotations

import pytest
from pamqp import body, commands, frame, header

from annulet.broker.broker import Broker
from tests.broker.amqp091.peer import Peer, bodies

NESTED = b"F\x00\x00\x00\x02\xffk"  # a table of two octets whose field name says 255
BROKEN_TEXT = b"F\x00\x00\x00\x07\x01aS\x00\x00\x00\xff"  # a text inside that is longer than its table
UNKNOWN_TYPE = b"A\x00\x00\x00\x01Q"
NOT_UTF8 = b"F\x00\x00\x00\x03\x01\xfft"


def publish(channel: int, routing_key: str, fields: bytes, content: bytes = b"x", *, exchange: str = "") -> bytes:
    """Return basic.publish with a header table made of these octets."""
    properties = b"\x20\x00" + len(fields).to_bytes(4, "big") + fields
    payload = b"\x00\x3c\x00\x00" + len(content).to_bytes(8, "big") + properties
    content_header = b"\x02" + channel.to_bytes(2, "big") + len(payload).to_bytes(4, "big") + payload + b"\xce"
    return (
        frame.marshal(commands.Basic.Publish(0, exchange, routing_key), channel)
        + content_header
        + frame.marshal(body.ContentBody(content), channel)
    )


def field(name: str, value: bytes) -> bytes:
    """Return one field of a table."""
    return bytes((len(name),)) + name.encode() + value


async def consumer_of(broker: Broker, queue: str, arguments: dict[str, object], **options: object) -> Peer:
    """Return a connection that declared and consumes from a queue, with auto-acknowledge."""
    peer = await Peer(broker).open(1)
    await peer.send(
        1,
        commands.Queue.Declare(queue=queue, arguments=arguments),
        commands.Basic.Consume(queue=queue, no_ack=True, arguments=options or None),
    )
    await peer.take()
    return peer


async def received(peer: Peer) -> list[bytes]:
    """Return the bodies a peer got. pamqp cannot read these headers, so frames are cut apart by hand."""
    data, found = bytes(peer.transport.written), []
    peer.transport.written.clear()
    while data:
        size = 8 + int.from_bytes(data[3:7], "big")
        if data[0] == 3:
            found.append(data[7 : size - 1])
        data = data[size:]
    return found


QUEUES: list[tuple[str, dict[str, object]]] = [
    ("keyed", {"x-last-value-key": "k"}),
    ("grouped", {"x-group-mode": "sticky", "x-group-key": "k"}),
    ("fair", {"x-fair-key": "k"}),
    ("sorted", {"x-sort-key": "k"}),
    ("filtered", {"x-selector": "k IS NULL"}),
]


@pytest.mark.parametrize("value", [NESTED, BROKEN_TEXT, UNKNOWN_TYPE, NOT_UTF8], ids=["name", "text", "type", "utf-8"])
@pytest.mark.parametrize(("queue", "arguments"), QUEUES, ids=[name for name, _ in QUEUES])
async def test_a_malformed_value_is_no_value(
    broker: Broker, queue: str, arguments: dict[str, object], value: bytes
) -> None:
    consumer = await consumer_of(broker, queue, arguments)
    publisher = await Peer(broker).open(1)
    fields = field("k", value) + field("n", b"I\x00\x00\x00\x01")
    exchange = "amq.fanout" if queue == "filtered" else ""
    if exchange:
        await consumer.send(1, commands.Queue.Bind(queue=queue, exchange=exchange))
    await publisher.send(1, publish(1, queue, fields, b"malformed", exchange=exchange))
    await publisher.send(1, publish(1, queue, field("n", b"I\x00\x00\x00\x01"), b"whole", exchange=exchange))
    assert await received(consumer) == [b"malformed", b"whole"]
    assert not publisher.transport.closing
    assert not consumer.transport.closing


async def test_selectors_see_the_fields_that_can_be_read(broker: Broker) -> None:
    first = await consumer_of(broker, "q", {}, **{"x-selector": "k IS NOT NULL OR JMSCorrelationID = 'c'"})
    second = await Peer(broker).open(1)
    selector = {"x-selector": "n = 1 AND k IS NULL AND JMSCorrelationID IS NULL"}
    await second.send(1, commands.Basic.Consume(queue="q", no_ack=True, arguments=selector))
    await second.take()
    publisher = await Peer(broker).open(1)
    await publisher.send(1, publish(1, "q", field("k", NESTED) + field("n", b"I\x00\x00\x00\x01"), b"malformed"))
    assert (await received(first), await received(second)) == ([], [b"malformed"])


async def test_a_malformed_message_goes_to_its_dead_letter_queue(broker: Broker) -> None:
    arguments = {"x-max-length": 0, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    dead = await consumer_of(broker, "dead", {})
    publisher = await Peer(broker).open(1)
    await publisher.send(1, commands.Queue.Declare(queue="q", arguments=arguments))
    await publisher.send(1, publish(1, "q", field("x-death", NESTED) + b"\x01\xfft\x01", b"malformed"))
    assert await received(dead) == [b"malformed"]
    assert broker.hosts["/"].dead_letters.failures == 0


@pytest.mark.parametrize(
    "fields",
    [b"\xffk", field("k", b"Q"), field("k", b"S\x00\x00\x00\xff"), field("k", b"F\x00\x00\x00\xff")],
    ids=["name", "type", "text", "table"],
)
@pytest.mark.parametrize("queue", ["keyed", "plain"])
async def test_what_publishing_can_see_ends_the_senders_connection_only(
    broker: Broker, queue: str, fields: bytes
) -> None:
    consumer = await consumer_of(broker, queue, {"x-last-value-key": "k"} if queue == "keyed" else {})
    publisher = await Peer(broker).open(1)
    await publisher.send(1, publish(1, queue, fields))
    assert (await publisher.one(commands.Connection.Close)).reply_code == 502
    other = await Peer(broker).open(1)
    await other.send(1, publish(1, queue, b"", b"whole"))
    assert bodies(await consumer.take()) == [b"whole"]


async def test_a_headers_exchange_matches_what_can_be_read(broker: Broker) -> None:
    consumer = await consumer_of(broker, "q", {})
    await consumer.send(1, commands.Queue.Bind(queue="q", exchange="amq.headers", arguments={"x-match": "all", "n": 1}))
    await consumer.take()
    publisher = await Peer(broker).open(1)
    await publisher.send(
        1, publish(1, "", field("k", NESTED) + field("n", b"I\x00\x00\x00\x01"), b"m", exchange="amq.headers")
    )
    assert await received(consumer) == [b"m"]


def test_the_octets_of_this_module_are_what_clients_send() -> None:
    whole = header.ContentHeader(0, 1, commands.Basic.Properties(headers={"n": 1}))
    assert frame.marshal(whole, 1) in publish(1, "q", field("n", b"b\x01"))
