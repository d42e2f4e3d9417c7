"""What only frames show: octets that stay the same through everything, and links resumed on another connection."""

from __future__ import annotations

import base64
import json
import time
import urllib.request
from typing import Any

import pytest

from annulet.wire.amqp10.frames.performatives import decode_performative
from tests.broker_process import BrokerProcess
from tests.clients.raw10 import (
    ACCEPTED,
    ATTACH,
    DISPOSITION,
    RECEIVER,
    SENDER,
    SOURCE,
    TARGET,
    TRANSFER,
    Composite,
    RawAmqp10,
    Symbol,
    Uint,
    data_message,
    encode,
    link_flow,
    performative,
    transfer,
)
from tests.clients.support import PATIENCE_SECONDS, Peer, Scene, bodies

pytestmark = pytest.mark.usefixtures("ours")

REJECTED, RELEASED = 0x25, 0x26
DURABLE_UNSETTLED_STATE = Uint(2)
FIRST, SECOND = 0, 1
PROPERTIES = b"\x00\x53\x73"

BARE = b"".join(
    # every list, map and number in a longer encoding than ours: written anew they would differ
    [
        encode(Composite(0x73, ["id", b"guest", None, "subject"])),
        b"\x00\x53\x74" + encode({"n": Uint(1), "text": "t"}),
        data_message(b"first"),
        data_message(b"second"),
        b"\x00\x80" + (0x78).to_bytes(8, "big") + encode({Symbol("footer"): True}),
    ]
)
MESSAGE = encode(Composite(0x70, [True])) + b"\x00\x53\x72" + encode({Symbol("x-opt-own"): "kept"}) + BARE


@pytest.fixture
def lasting(mortal: BrokerProcess) -> Peer:
    return Peer(mortal.amqp_url, ours=True)


def attach_link(client: RawAmqp10, name: str, role: bool, address: str, *, second: int = FIRST, unsettled: Any = None):  # type: ignore[no-untyped-def]
    """Attach a link whose terminus keeps its unsettled state; return the broker's attach."""
    source = [address, DURABLE_UNSETTLED_STATE, Symbol("never")] if role == RECEIVER else []
    target = [address, DURABLE_UNSETTLED_STATE, Symbol("never")] if role == SENDER else []
    count = Uint(0) if role == SENDER else None
    fields = [name, Uint(0), role, 2, second, Composite(SOURCE, source), Composite(TARGET, target), unsettled, None]
    client.send(performative(ATTACH, *fields, count))
    answer = client.read(ATTACH)
    assert answer is not None
    return decode_performative(answer.body, 0, len(answer.body))[0]


def receive(client: RawAmqp10) -> tuple[Any, bytes]:
    """Return the next transfer and its payload."""
    frame = client.read(TRANSFER)
    assert frame is not None
    performative_, payload = decode_performative(frame.body, 0, len(frame.body))
    return performative_, frame.body[payload:]


def take_one(peer: Peer, queue: str, state: int) -> bytes:
    """Receive one message over a connection of its own, tell an outcome; return the payload."""
    with RawAmqp10(peer) as client:
        client.open().session()
        client.link(0, RECEIVER, queue)
        client.send(link_flow(0, 1))
        transferred, payload = receive(client)
        number = Uint(transferred.delivery_id)
        client.send(performative(DISPOSITION, True, number, None, False, Composite(state, [])))
        answer = client.read(DISPOSITION)  # settled by the broker: it has been carried out
        assert answer is not None
    return payload


def operate(process: BrokerProcess, queue: str, **operation: Any) -> None:
    """Ask for a management operation on all messages, and wait for its end."""
    token = base64.b64encode(b"guest:guest").decode()
    request = urllib.request.Request(
        f"{process.http_url}/api/v1/queues/%2F/{queue}/operations",
        json.dumps({"everything": True, **operation}).encode(),
        {"Authorization": f"Basic {token}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as response:
        path = response.headers["Location"]
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (progress := process.get(path))["state"] == "running":
        assert time.monotonic() < deadline, progress
    assert progress["done"] == 1, progress


def bare(payload: bytes) -> bytes:
    """Return a message from its properties on: what intermediaries may not change (§3.2), and the footer."""
    return payload[payload.index(PROPERTIES) :]


def test_the_bare_message_survives_a_kill_a_rejection_a_retry_and_a_move(mortal: BrokerProcess, lasting: Peer) -> None:
    scene = Scene(lasting)
    channel = scene.channel()
    dead, other = scene.queue(channel, durable=True), scene.queue(channel, durable=True)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    queue = scene.queue(channel, durable=True, arguments=arguments)
    scene.close_connections()
    with RawAmqp10(lasting) as client:
        client.open().session()
        client.link(0, SENDER, queue)
        client.send(transfer(0, 0, MESSAGE, settled=False))
        answer = client.read(DISPOSITION)
        assert answer is not None
        assert encode(Composite(ACCEPTED, []))[:3] in answer.body
    mortal.restart()
    seen = [take_one(lasting, queue, REJECTED), take_one(lasting, dead, RELEASED)]
    operate(mortal, dead, operation="retry")
    seen.append(take_one(lasting, queue, RELEASED))
    operate(mortal, queue, operation="move", destination=other)
    seen.append(take_one(lasting, other, ACCEPTED))
    assert [bare(payload) for payload in seen] == [BARE] * 4
    assert all(b"x-opt-own" in payload[: payload.index(PROPERTIES)] for payload in seen)
    scene.close()


def test_a_sender_that_resumes_on_another_connection_sends_nothing_twice(peer: Peer, scene: Scene) -> None:
    queue = scene.queue(scene.channel())
    name = scene.name("link")
    with RawAmqp10(peer) as client:
        client.open().session()
        attach_link(client, name, SENDER, queue, second=SECOND)
        client.send(transfer(0, 0, data_message(b"once"), settled=False))
        assert client.read(DISPOSITION)  # accepted, and never settled: the connection is lost
    tag = b"\0\0\0\0"
    with RawAmqp10(peer) as client:
        client.open().session()
        answer = attach_link(client, name, SENDER, queue, second=SECOND, unsettled={tag: None})
        assert [(bytes(known), repr(state)) for known, state in answer.unsettled.items()] == [(tag, "accepted()")]
        again = [Uint(0), Uint(0), tag, Uint(0), False, False, None, None, True]
        client.send(performative(TRANSFER, *again, payload=data_message(b"once")))
        assert client.read(DISPOSITION)
    assert bodies(scene.channel(), queue) == [b"once"]


def test_what_a_receiver_held_comes_again_on_another_connection_and_once(peer: Peer, scene: Scene) -> None:
    """The queue has it back as soon as the connection is lost, so the broker's unsettled map says nothing of it."""
    channel = scene.channel()
    queue, name = scene.queue(channel), scene.name("link")
    for number in range(3):
        channel.basic_publish("", queue, b"%d" % number)
    with RawAmqp10(peer) as client:
        client.open().session()
        attach_link(client, name, RECEIVER, queue)
        client.send(link_flow(0, 2))
        held = [receive(client)[0].delivery_tag for _ in range(2)]
    with RawAmqp10(peer) as client:
        client.open().session()
        answer = attach_link(client, name, RECEIVER, queue, unsettled={bytes(tag): None for tag in held})
        assert not answer.unsettled
        client.send(link_flow(0, 5))
        found = [receive(client) for _ in range(3)]
        assert [(one.resume, payload[-1:]) for one, payload in found] == [(False, b"0"), (False, b"1"), (False, b"2")]
        client.send(performative(DISPOSITION, True, Uint(0), Uint(2), False, Composite(ACCEPTED, [])))
        assert client.read(DISPOSITION)
    assert bodies(channel, queue) == []
