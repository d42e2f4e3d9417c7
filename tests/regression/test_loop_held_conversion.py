"""No content of a message holds the event loop for long when it is read or delivered by another protocol.

What is asserted is how much is done, not how long it takes: the machine that runs the tests may do other things.
"""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator

import pytest
from pamqp import commands, frame, header

from annulet import testing
from annulet.broker.broker import Broker
from annulet.broker.connections import views
from annulet.broker.connections.payloads import payload_of
from annulet.broker.operation.looking import describe_entry
from annulet.broker.settings.limits import Limits
from annulet.core.message.conversion_bounds import CONVERTED_VALUES_MAX, ENCODED_TYPE
from annulet.core.message.message import Message, Origin
from annulet.testing.clock import VirtualClock
from annulet.wire.amqp091.messages.properties import VIEW as AMQP_0_9_1
from annulet.wire.amqp091.messages.properties import BasicProperties, encode_properties
from annulet.wire.amqp091.types.constants import FRAME_BODY
from annulet.wire.amqp10.frames.outcomes import Rejected
from annulet.wire.amqp10.messages.message import split_incoming
from annulet.wire.amqp10.messages.sections import (
    APPLICATION_PROPERTIES,
    BODY_SECTIONS_MAX,
    DATA,
    DELIVERY_ANNOTATIONS,
    LIMIT_HEADER,
    LIMIT_SECTIONS,
    SEQUENCE,
    VALUE,
    encode_section,
)
from annulet.wire.amqp10.messages.view import VIEW as AMQP_1_0
from annulet.wire.amqp10.types import conditions
from tests.broker.amqp091.old_peer import OldPeer
from tests.broker.amqp091.peer import Peer as Amqp091Peer
from tests.broker.amqp091.peer import bodies, turns
from tests.broker.amqp10.peer import ACCEPTED, message, queue_of
from tests.broker.amqp10.peer import Peer as Amqp10Peer
from tests.broker.amqp10.peer import bodies as bodies_of_1_0
from tests.broker.amqp10.peer import frame as performative_frame
from tests.broker.conftest import leave
from tests.broker.stomp.peer import Peer as StompPeer
from tests.wire.amqp091.old_versions import HEADER_0_8, HEADER_0_9

ELEMENTS = 1_000_000
CONVERSION_SECONDS = 0.01


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    async with testing.broker(http=False, clock=VirtualClock()) as running:
        yield running.broker
        leave(running.broker)


def million_elements() -> bytes:
    return b"\x00\x53\x77\xd0" + struct.pack(">II", ELEMENTS + 4, ELEMENTS) + b"\x45" * ELEMENTS


def of_1_0(broker: Broker, payload: bytes) -> Message:
    incoming = split_incoming(payload)
    origin = Origin("", "q", "guest@x", AMQP_1_0)
    return Message(incoming.header, incoming.body, origin, accepted_at=broker.clock())


# ---------------------------------------------------------------------- the size of one message


async def test_a_get_of_a_large_list_brings_its_octets(broker: Broker) -> None:
    """A8: one basic.get of eight times as many took 14 s and 918 MB."""
    queue = queue_of(broker, "q")
    payload = million_elements()
    queue.enqueue(of_1_0(broker, payload), broker.clock())
    peer = await Amqp091Peer(broker).open(1)
    await peer.send(1, commands.Basic.Get(queue="q", no_ack=True))
    frames = await peer.take()
    (found,) = [item for item in frames if isinstance(item, header.ContentHeader)]
    assert found.properties.content_type == ENCODED_TYPE
    assert b"".join(bodies(frames)) == payload


async def test_stomp_gets_the_octets_of_a_large_list(broker: Broker) -> None:
    """A8: the same by STOMP."""
    queue = queue_of(broker, "q")
    payload = encode_section(VALUE, [None] * (CONVERTED_VALUES_MAX + 1))
    queue.enqueue(of_1_0(broker, payload), broker.clock())
    peer = await StompPeer(broker).open()
    await peer.send("SUBSCRIBE", id="s", destination="/queue/q")
    (found,) = await peer.messages(1)
    assert (found.headers["content-type"], found.body) == (ENCODED_TYPE, payload)


async def test_readers_without_a_protocol_get_the_octets_of_a_large_list(broker: Broker) -> None:
    """A8: HTTP and Spark decoded the whole list to show its first bytes."""
    queue = queue_of(broker, "q")
    large = of_1_0(broker, million_elements())
    assert payload_of(large) == (large.body, ENCODED_TYPE)
    queue.enqueue(large, broker.clock())
    (entry,) = queue.order.entries()
    described = describe_entry(entry, body_bytes=16)
    assert described["body_complete"] is False
    assert len(described["body"]) == 24


async def test_sections_beyond_the_bound_are_rejected(broker: Broker) -> None:
    """A8: 128 MiB of empty sequences are 33 million sections, each an object."""
    queue = queue_of(broker, "q")
    peer = await Amqp10Peer(broker).open()
    link = await peer.sender("q")
    assert await peer.publish(link, encode_section(SEQUENCE, []) * BODY_SECTIONS_MAX) == ACCEPTED
    outcome = await peer.publish(link, encode_section(SEQUENCE, []) * (BODY_SECTIONS_MAX + 1))
    assert isinstance(outcome, Rejected)
    assert outcome.error is not None
    assert outcome.error.condition == conditions.RESOURCE_LIMIT_EXCEEDED
    assert "16384 body sections" in (outcome.error.description or "")
    assert peer.connection.engine.limit_hits[LIMIT_SECTIONS] == 1
    assert queue.order.count == 1


@pytest.mark.parametrize("code", [APPLICATION_PROPERTIES, DELIVERY_ANNOTATIONS])
async def test_bytes_before_the_body_beyond_the_bound_are_rejected(code: int) -> None:
    """A8: 100,000 application properties were walked through at each look for one of them."""
    body = encode_section(DATA, b"")
    fits = encode_section(code, {f"{number:04x}": None for number in range(200)})
    beyond = encode_section(code, {f"{number:04x}": None for number in range(199)} | {"00c7": "x"})
    limits = Limits(max_header_bytes=len(fits))
    async with testing.broker(http=False, clock=VirtualClock(), limits=limits) as running:
        queue = queue_of(running.broker, "q")
        peer = await Amqp10Peer(running.broker).open()
        link = await peer.sender("q")
        assert await peer.publish(link, fits + body) == ACCEPTED
        outcome = await peer.publish(link, beyond + body)
        assert isinstance(outcome, Rejected)
        assert outcome.error is not None
        assert outcome.error.condition == conditions.RESOURCE_LIMIT_EXCEEDED
        assert f"{LIMIT_HEADER} is {len(fits)}" in (outcome.error.description or "")
        assert peer.connection.engine.limit_hits[LIMIT_HEADER] == 1
        assert queue.order.count == 1
        leave(running.broker)


# ---------------------------------------------------------------------- many messages in one turn


class SlowConversions:
    """A clock that only conversions let go on: each takes ``CONVERSION_SECONDS``."""

    def __init__(self) -> None:
        self.now = 0.0
        self.begun = False

    def thread_time(self) -> float:
        """Return the time for a conversion, which asks when it begins and when it ends."""
        self.begun = not self.begun
        if not self.begun:
            self.now += CONVERSION_SECONDS
        return self.now

    def computed(self) -> float:
        """Return the time for all others."""
        return self.now


@pytest.fixture
def slow(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> SlowConversions:
    clock = SlowConversions()
    monkeypatch.setattr(views, "time", clock)
    broker.inputs.computed = broker.shares.computed = clock.computed
    return clock


async def most_in_one_turn(clock: SlowConversions, messages: int) -> int:
    """Let all be converted. Returns how many were in one turn at most."""
    most, before = 0, 0.0
    while clock.now < messages * CONVERSION_SECONDS - CONVERSION_SECONDS / 2:
        most = max(most, round((clock.now - before) / CONVERSION_SECONDS))
        before = clock.now
        await turns(1)
    return max(most, round((clock.now - before) / CONVERSION_SECONDS))


@pytest.mark.parametrize("priority", [0, 1])
async def test_deliveries_that_are_converted_are_cut_by_their_time(
    broker: Broker, slow: SlowConversions, priority: int
) -> None:
    """A8: 64 messages were delivered between two looks at the clock, those of a consumer with priority without one."""
    queue = queue_of(broker, "q")
    for number in range(100):
        queue.enqueue(of_1_0(broker, message(b"%d" % number)), broker.clock())
    peer = await Amqp091Peer(broker).open(1)
    consume = commands.Basic.Consume(queue="q", no_ack=True, arguments={"x-priority": priority})
    peer.receive(frame.marshal(consume, 1))
    assert await most_in_one_turn(slow, 100) <= 3
    assert bodies(await peer.take()) == [b"%d" % number for number in range(100)]


@pytest.mark.parametrize("version", [HEADER_0_8, HEADER_0_9])
async def test_tables_for_versions_with_fewer_types_cut_them_as_well(
    broker: Broker, slow: SlowConversions, version: bytes
) -> None:
    """A8: 20 deliveries with 8,000 headers each to a client of 0-8 held the loop for 359 ms, pure."""
    queue = queue_of(broker, "q")
    basic = BasicProperties()
    basic.headers = {"float": 1.5}
    for number in range(50):
        origin = Origin("", "q", "", AMQP_0_9_1)
        queue.enqueue(Message(encode_properties(basic), b"%d" % number, origin), broker.clock())
    peer = await OldPeer(broker, version).start()
    peer.receive(peer.consume("q", no_ack=False))
    assert await most_in_one_turn(slow, 50) <= 3
    assert [each.payload for each in await peer.received() if each.kind == FRAME_BODY] == [
        b"%d" % one for one in range(50)
    ]


async def test_stomp_and_1_0_cut_them_as_well(broker: Broker, slow: SlowConversions) -> None:
    """A8: the same by the other protocols."""
    queue = queue_of(broker, "a")
    for number in range(50):
        queue.enqueue(of_1_0(broker, message(b"%d" % number)), broker.clock())
    stomp = await StompPeer(broker).open()
    stomp.connection.data_received(b"SUBSCRIBE\nid:s\ndestination:/queue/a\n\n\0")
    assert await most_in_one_turn(slow, 50) <= 3
    assert [found.body for found in await stomp.messages(50)] == [b"%d" % number for number in range(50)]
    slow.now = 0.0
    queue = queue_of(broker, "c")
    for number in range(50):
        queue.enqueue(Message(b"\0\0", b"%d" % number, Origin("", "c", "", AMQP_0_9_1)), broker.clock())
    receiver = await Amqp10Peer(broker).open()
    link = await receiver.receiver("c")
    receiver.receive(performative_frame(receiver.flow(link, 50)))
    assert await most_in_one_turn(slow, 50) <= 3
    assert bodies_of_1_0(await receiver.deliveries()) == [b"%d" % number for number in range(50)]


async def test_frames_whose_messages_are_converted_are_cut_by_their_time(broker: Broker, slow: SlowConversions) -> None:
    """A8: 32 transfers were served between two looks at the clock, if those before were quick."""
    queue_of(broker, "plain")
    queue_of(broker, "q")
    consumer = await Amqp091Peer(broker).open(1)
    await consumer.send(1, commands.Basic.Consume(queue="q", no_ack=True))
    peer = await Amqp10Peer(broker).open()
    quick, slowly = await peer.sender("plain"), await peer.sender("q")
    frames = [peer.transfer(quick, message(b"x")) for _ in range(60)]
    frames += [peer.transfer(slowly, message(b"%d" % number)) for number in range(40)]
    peer.receive(b"".join(frames))
    assert await most_in_one_turn(slow, 40) <= 3
    assert bodies(await consumer.take()) == [b"%d" % number for number in range(40)]
