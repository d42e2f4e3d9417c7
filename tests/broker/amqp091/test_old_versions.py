"""Clients of AMQP 0-8 and 0-9 against the broker: hand-written octets in, frames taken apart by hand."""

from __future__ import annotations

import struct
from typing import Any

import pytest
import structlog
from pamqp import commands

from annulet.broker.broker import Broker
from tests.broker.amqp091.old_peer import TICKET, OldPeer
from tests.broker.amqp091.peer import Peer, bodies, publish
from tests.wire.amqp091.old_versions import (
    CLOSE_IDS,
    HEADER_0_8,
    HEADER_0_9,
    HEADER_OF_AMQPLIB,
    Received,
    long_string,
    method,
    short_string,
)
from tests.wire.amqp091.old_versions import publish as old_publish

BASIC, QUEUE = commands.Basic, commands.Queue
old_headers = pytest.mark.parametrize("header", [HEADER_0_8, HEADER_OF_AMQPLIB, HEADER_0_9], ids=["0-8", "lib", "0-9"])


def declare(queue: str, arguments: bytes = b"") -> bytes:
    return method(1, 50, 10, TICKET + short_string(queue) + b"\0" + long_string(arguments))


def get(queue: str, *, no_ack: bool = True) -> bytes:
    return method(1, 60, 70, TICKET + short_string(queue) + (b"\1" if no_ack else b"\0"))


def headers_in(content: Received) -> bytes:
    """Return the table of a content header that has only that property."""
    assert content.kind == 2
    flags, size = struct.unpack("!HI", content.payload[12:18])
    assert flags == 0x2000
    assert size == len(content.payload) - 18
    return content.payload[18:]


@pytest.fixture
async def newer(broker: Broker) -> Peer:
    return await Peer(broker).open(1)


@old_headers
async def test_messages_cross_both_ways(broker: Broker, newer: Peer, header: bytes) -> None:
    old = await OldPeer(broker, header).start()
    (declared,) = await old.say(declare("q"))
    assert declared.method == (50, 11)
    assert await old.say(old_publish(1, "", "q", b"from the old one")) == []
    await newer.send(1, BASIC.Get(queue="q", no_ack=True))
    assert bodies(await newer.take()) == [b"from the old one"]
    await newer.send(1, publish(1, "q", b"from the new one", headers={"flag": True, "many": [1, "two"]}))
    got, content, body = await old.say(get("q"))
    assert (got.method, body.payload) == ((60, 71), b"from the new one")
    items = short_string("0") + b"I\0\0\0\1" + short_string("1") + b"S" + long_string(b"two")
    assert headers_in(content) == (
        short_string("flag") + b"I\0\0\0\1" + short_string("many") + b"F" + long_string(items)
    )


@old_headers
@pytest.mark.parametrize("no_ack", [True, False])
async def test_deliveries_have_only_types_of_the_version(
    broker: Broker, newer: Peer, header: bytes, no_ack: bool
) -> None:
    old = await OldPeer(broker, header).start()
    await old.say(declare("q"), old.consume("q", no_ack=no_ack))
    await newer.send(1, publish(1, "q", b"x", headers={"flag": False}), publish(1, "q", b"y"))
    deliver, content, body, second, *_ = await old.received()
    assert (deliver.method, body.payload, second.method) == ((60, 60), b"x", (60, 60))
    assert headers_in(content) == short_string("flag") + b"I\0\0\0\0"
    await newer.send(1, BASIC.Get(queue="q", no_ack=True))
    if not no_ack:  # what the broker tells of a redelivery stays within the version too
        await old.say(method(1, 60, 100, b"\x01"))
        assert broker.hosts["/"].queues["q"].statistics().delivering_count == 2


@old_headers
async def test_what_the_broker_adds_is_in_types_of_the_version(broker: Broker, header: bytes) -> None:
    old = await OldPeer(broker, header).start()
    await old.say(declare("q"), old_publish(1, "", "q", b"x"))
    (_, content, _) = await old.say(get("q", no_ack=False))
    assert content.payload[12:] == b"\0\0"
    again = await old.say(method(1, 60, 90, struct.pack("!QB", 1, 1)), get("q", no_ack=False))
    assert headers_in(again[1]) == short_string("x-delivery-count") + b"I\0\0\0\1"


async def test_a_dead_letter_keeps_its_trail(broker: Broker, newer: Peer) -> None:
    """``x-death`` is an array of tables with 64-bit numbers: for 0-8 a table of tables with 32-bit ones."""
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    await newer.send(1, QUEUE.Declare(queue="q", arguments=arguments), QUEUE.Declare(queue="dead"))
    old = await OldPeer(broker, HEADER_0_8).start()
    await old.say(old_publish(1, "", "q", b"x"), get("q", no_ack=False), method(1, 60, 90, struct.pack("!QB", 1, 0)))
    _, content, _ = await old.say(get("dead"))
    table = headers_in(content)
    assert short_string("x-death") + b"F" in table
    assert short_string("count") + b"I\0\0\0\1" in table
    assert short_string("routing-keys") + b"F" + long_string(short_string("0") + b"S" + long_string(b"q")) in table


async def test_headers_that_grow_beyond_the_frame_are_withheld(broker: Broker, newer: Peer) -> None:
    """Booleans take four octets more as 0-8 has them; nothing else waits behind such a message."""
    old = await OldPeer(broker, HEADER_0_8).start(frame_max=4096)
    await old.say(declare("q"), old.consume("q"))
    many = {f"k{number:04}": True for number in range(480)}  # 8 octets each, 11 in 0-8
    await newer.send(1, publish(1, "q", b"large", headers=many), publish(1, "q", b"small", headers={"k": True}))
    assert [received.payload for received in await old.received() if received.kind == 3] == [b"small"]
    assert broker.deliveries_too_large == 1
    closed = await old.say(get("q"))
    assert closed[-1].method == (20, 40)
    assert struct.unpack("!H", closed[-1].payload[:2]) == (311,)
    text = closed[-1].payload[3 : 3 + closed[-1].payload[2]].decode()
    assert f"a frame of {20 + 2 + 4 + 480 * 11} bytes, but frame-max of this connection is 4096" in text
    await newer.send(1, BASIC.Get(queue="q", no_ack=True))
    assert bodies(await newer.take()) == [b"large"]


@old_headers
async def test_what_is_told_of_the_delivery_is_left_out_when_it_does_not_fit(broker: Broker, header: bytes) -> None:
    old = await OldPeer(broker, header).start(frame_max=4096)
    fitting = short_string("k") + b"S" + long_string(b"x" * (4096 - 20 - 2 - 4 - 7))
    properties = long_string(fitting)
    await old.say(declare("q"), old_publish(1, "", "q", b"x", flags=0x2000, properties=properties))
    await old.say(get("q", no_ack=False), method(1, 60, 90, struct.pack("!QB", 1, 1)))
    _, content, _ = await old.say(get("q"))
    assert headers_in(content) == fitting


@old_headers
async def test_an_unroutable_message_comes_back_as_it_was(broker: Broker, header: bytes) -> None:
    old = await OldPeer(broker, header).start()
    fields = short_string("mine") + b"S" + long_string(b"1")
    returned, content, body = await old.say(
        old_publish(1, "", "nowhere", b"x", flags=0x2000, properties=long_string(fields), bits=1)
    )
    assert returned.method == (60, 50)
    assert returned.payload == struct.pack("!H", 312) + b"".join(map(short_string, ["NO_ROUTE", "", "nowhere"]))
    assert (headers_in(content), body.payload) == (fields, b"x")


@old_headers
async def test_a_deleted_queue_ends_its_consumer_without_a_word(broker: Broker, newer: Peer, header: bytes) -> None:
    """basic.cancel from the broker is RabbitMQ's, for clients of 0-9-1 that say so."""
    old = await OldPeer(broker, header).start()
    await old.say(declare("q"), old.consume("q"))
    await newer.send(1, QUEUE.Delete(queue="q"))
    assert await old.received() == []
    (declared,) = await old.say(declare("q"))
    assert declared.payload == short_string("q") + struct.pack("!II", 0, 0)


@old_headers
async def test_the_broker_stops(broker: Broker, header: bytes) -> None:
    old = await OldPeer(broker, header).start()
    old.connection.force_close("broker shut down")
    (closed,) = await old.received()
    assert closed.method == (10, CLOSE_IDS[header][0])
    assert await old.say(method(0, 10, CLOSE_IDS[header][1])) == []
    assert old.transport.closing


@pytest.mark.parametrize(("header", "name"), [(HEADER_0_8, "AMQP 0-8"), (HEADER_0_9, "AMQP 0-9")], ids=["0-8", "0-9"])
async def test_the_log_names_the_version(broker: Broker, header: bytes, name: str) -> None:
    with structlog.testing.capture_logs() as lines:
        old = await OldPeer(broker, header).start()
        await Peer(broker).open()
    assert old.connection.protocol_name == name
    opened: list[Any] = [line["protocol"] for line in lines if line["event"] == "connection opened"]
    assert opened == [name, "AMQP 0-9-1"]
