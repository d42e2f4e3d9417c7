"""AMQP 1.0 clients that mean harm or do not know better: the broker's memory is bounded and nobody else notices."""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Iterator

import pytest
from pika import spec

from tests.broker_process import BrokerProcess
from tests.clients.hostile import MESSAGE_BYTES, Bystander, Fortress, flood, fortress_in
from tests.clients.raw import RawClient, method
from tests.clients.raw10 import (
    ACCEPTED,
    AMQP_HEADER,
    BEGIN,
    DETACH,
    DISPOSITION,
    END,
    RECEIVER,
    SASL_HEADER,
    SENDER,
    TRANSFER,
    Composite,
    RawAmqp10,
    Uint,
    attach,
    begin,
    continued,
    data_message,
    encode,
    frame,
    link_flow,
    performative,
    transfer,
)
from tests.clients.support import Peer

pytestmark = pytest.mark.usefixtures("ours")

PIECE = b"x" * 65_000


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    yield from fortress_in(tmp_path_factory.mktemp("fortress"))


@pytest.fixture
def client(fortress: Fortress, bystander: Bystander) -> Iterator[RawAmqp10]:
    with RawAmqp10(fortress.peer) as client:
        yield client


# ---------------------------------------------------------------------- before the connection is open


@pytest.mark.parametrize("header", [b"AMQP\x00\x02\x00\x00", b"AMQP\x07\x01\x00\x00", b"AMQP\x00\x01\x01\x00"])
def test_an_unknown_version_is_answered_with_one_that_is_known(client: RawAmqp10, header: bytes) -> None:
    """§2.2."""
    client.send(header)
    assert client.read_header()[:4] == b"AMQP"
    assert client.read() is None


def test_an_amqp_header_before_the_login_of_a_peer_that_has_to(client: RawAmqp10) -> None:
    client.send(AMQP_HEADER)
    assert client.read_header() in {AMQP_HEADER, SASL_HEADER}


@pytest.mark.parametrize("garbage", [b"\0" * 200_000, b"\xff" * 200_000], ids=["zeros", "ones"])
def test_garbage_instead_of_a_login(client: RawAmqp10, garbage: bytes) -> None:
    client.send(SASL_HEADER, garbage)
    client.expect_end()


def test_no_more_is_taken_from_strangers_than_a_login_needs(client: RawAmqp10, fortress: Fortress) -> None:
    client.send(SASL_HEADER)
    client.send(struct.pack("!IBBH", 1 << 30, 2, 1, 0))
    sent = 0
    while client.send(b"x" * 65_536) and sent < 1 << 26:
        sent += 65_536
    assert sent < 1 << 24, "megabytes were taken from a peer that is not logged in"


def test_who_does_not_log_in_is_cut_and_who_did_is_not(client: RawAmqp10, fortress: Fortress) -> None:
    with RawAmqp10(fortress.peer) as silent, RawAmqp10(fortress.peer) as unopened:
        client.open()
        silent.send(SASL_HEADER)
        unopened.log_in()
        silent.expect_end()
        unopened.expect_end()
        client.session()


def test_five_hundred_who_never_log_in(fortress: Fortress, bystander: Bystander) -> None:
    strangers = [RawAmqp10(fortress.peer) for _ in range(500)]
    for stranger in strangers:
        stranger.send(SASL_HEADER[:6])
    with RawAmqp10(fortress.peer) as client:
        client.open().session()
    for stranger in strangers:
        stranger.socket.close()


# ---------------------------------------------------------------------- frames


@pytest.mark.parametrize("size", [0, 7, 0x7FFF_FFFF, 0xFFFF_FFF0])
def test_a_frame_of_an_impossible_size(client: RawAmqp10, size: int) -> None:
    client.open()
    client.send(struct.pack("!IBBH", size, 2, 0, 0))
    client.expect_close("amqp:connection:framing-error")


def test_a_data_offset_beyond_the_frame(client: RawAmqp10) -> None:
    client.open()
    client.send(struct.pack("!IBBH", 16, 200, 0, 0) + b"x" * 8)
    client.expect_close("amqp:connection:framing-error")


@pytest.mark.parametrize("seed", range(6))
def test_garbage_after_open(client: RawAmqp10, seed: int) -> None:
    client.open()
    client.send(random.Random(seed).randbytes(20_000))
    client.expect_close("amqp:connection:framing-error", "amqp:decode-error")


@pytest.mark.parametrize("seed", range(6))
def test_garbage_in_frames(client: RawAmqp10, seed: int) -> None:
    client.open().session()
    client.send(frame(random.Random(seed).randbytes(1000)))
    client.expect_close("amqp:decode-error", "amqp:connection:framing-error", "amqp:not-implemented")


HUGE_COUNT = b"\x00\x53\x12\xd0" + struct.pack("!II", 20, 2**32 - 1) + b"\x40" * 16
HUGE_LIST = b"\x00\x53\x12\xc0\x10\x01\xd0" + struct.pack("!II", 2**32 - 1, 2**32 - 1) + b"\x40" * 5
HUGE_ARRAY = b"\x00\x53\x12\xc0\x10\x01\xf0" + struct.pack("!II", 9, 2**32 - 1) + b"\x40" * 5
DEEP = b"\x00\x53\x12\xd0" + struct.pack("!II", 60_004, 1) + b"\xc0\x03\x01" * 20_000


@pytest.mark.parametrize("body", [HUGE_COUNT, HUGE_LIST, HUGE_ARRAY, DEEP], ids=["fields", "list", "array", "depth"])
def test_a_performative_that_announces_the_impossible(client: RawAmqp10, body: bytes) -> None:
    client.open().session()
    client.send(frame(body))
    client.expect_close("amqp:decode-error", "amqp:invalid-field")


# ---------------------------------------------------------------------- sessions and links


def test_ten_thousand_sessions(client: RawAmqp10) -> None:
    client.open()
    for channel in range(10_000):
        if not client.send(begin(channel)):
            break
    client.expect_close("amqp:connection:framing-error", "amqp:not-allowed", "amqp:resource-limit-exceeded")


def test_ten_thousand_links(client: RawAmqp10, bystander: Bystander) -> None:
    queue = bystander.declare()
    client.open().session()
    for first in range(0, 10_000, 100):
        links = [attach(f"link-{number}", number, SENDER, queue) for number in range(first, first + 100)]
        if not client.send(*links):
            break
    answer = client.read(END, 0x18)
    assert answer is not None, "the connection ended without a reason"
    assert b"handle" in answer.body, answer


def test_a_link_again_and_again(client: RawAmqp10, bystander: Bystander, fortress: Fortress) -> None:
    """Handles that are given back may be used again, as often as one likes."""
    queue = bystander.declare()
    client.open().session()
    for _ in range(20):
        pairs = [
            attach(f"again-{number}", 0, RECEIVER, queue) + performative(DETACH, Uint(0), True) for number in range(100)
        ]
        client.send(*pairs)
        for _ in pairs:
            assert client.read(DETACH)


def test_a_name_of_half_a_megabyte(client: RawAmqp10) -> None:
    client.open().session()
    client.send(attach("n" * 500_000, 0, SENDER, "q"))
    client.expect_close("amqp:connection:framing-error")


def test_an_unattached_handle(client: RawAmqp10) -> None:
    client.open().session()
    client.send(transfer(7, 0, b"x"))
    client.expect_error(END, "amqp:session:unattached-handle")


# ---------------------------------------------------------------------- transfers


def test_a_message_that_never_ends(client: RawAmqp10, bystander: Bystander, fortress: Fortress) -> None:
    queue = bystander.declare()
    client.open().session()
    client.link(0, SENDER, queue)
    client.send(transfer(0, 0, data_message(b"x" * 1000), more=True))
    for _ in range(600):  # 39 MB
        if not client.send(continued(0, PIECE)):
            break
    client.expect_error(DETACH, "amqp:link:message-size-exceeded")


def test_many_messages_that_never_end(client: RawAmqp10, bystander: Bystander, fortress: Fortress) -> None:
    queue = bystander.declare()
    client.open().session()
    for handle in range(200):
        client.link(handle, SENDER, queue)
    for handle in range(200):  # 180 MB in messages each of which is allowed
        if not client.send(transfer(handle, handle, data_message(b""), more=True)):
            break
        if not all(client.send(continued(handle, PIECE)) for _ in range(14)):
            break
    answer = client.read(DETACH, END, 0x18)
    assert answer is not None, "the connection ended without a reason"
    assert b"amqp:resource-limit-exceeded" in answer.body, answer


def test_a_message_that_was_cut_off_is_no_message(client: RawAmqp10, bystander: Bystander) -> None:
    queue = bystander.declare()
    client.open().session()
    client.link(0, SENDER, queue)
    client.send(transfer(0, 0, data_message(b"whole")), transfer(0, 1, data_message(b"half")[:-2], more=True))
    client.socket.close()
    assert bystander.wait_for(queue, 1) == [b"whole"]


def test_sending_without_credit(client: RawAmqp10, bystander: Bystander) -> None:
    full = bystander.scene.queue(bystander.channel, arguments={"x-max-length": 10, "x-overflow": "block"})
    client.open().session()
    client.link(0, SENDER, full)
    for number in range(5000):
        if not client.send(transfer(0, number, data_message(b"flood" * 100))):
            break
    client.expect_error(DETACH, "amqp:link:transfer-limit-exceeded")


def test_a_payload_that_is_no_message(client: RawAmqp10, bystander: Bystander) -> None:
    queue = bystander.declare()
    client.open().session()
    client.link(0, SENDER, queue)
    client.send(transfer(0, 0, b"\x00\x53\x75\xb0\xff\xff\xff\xffnot so long", settled=False))
    answer = client.read(DISPOSITION, DETACH, END, 0x18)
    assert answer is not None
    assert b"amqp:decode-error" in answer.body, answer
    client.send(transfer(0, 1, data_message(b"fine")))
    if answer.code == DISPOSITION:
        assert bystander.wait_for(queue, 1) == [b"fine"]


# ---------------------------------------------------------------------- receivers


def test_a_reader_that_does_not_read(fortress: Fortress, bystander: Bystander) -> None:
    queue = bystander.declare(*[b"%d" % number for number in range(400)], size=200_000)  # 80 MB
    fortress.before = fortress.before + fortress.grown()  # the messages are in memory already
    with RawAmqp10(fortress.peer, receive_buffer=4096) as lazy:
        lazy.open().session()
        lazy.link(0, RECEIVER, queue)
        lazy.send(link_flow(0, 100_000))
        time.sleep(0.5)  # the broker has had time to write everything, if it were so careless
        fortress.check()
    assert len(bystander.wait_for(queue, 400)) == 400


def test_what_a_peer_held_comes_back_when_it_breaks_the_rules(client: RawAmqp10, bystander: Bystander) -> None:
    queue = bystander.declare(b"1", b"2", b"3")
    client.open().session()
    client.link(0, RECEIVER, queue)
    client.send(link_flow(0, 3))
    for _ in range(3):
        assert client.read(TRANSFER)
    client.send(frame(b"\x00\x53\x99\x45"))
    client.expect_close("amqp:decode-error", "amqp:not-implemented")
    assert bystander.wait_for(queue, 3) == [b"1", b"2", b"3"]


def test_what_a_peer_held_comes_back_when_it_vanishes(client: RawAmqp10, bystander: Bystander) -> None:
    queue = bystander.declare(b"1", b"2")
    client.open().session()
    client.link(0, RECEIVER, queue)
    client.send(link_flow(0, 2))
    assert client.read(TRANSFER)
    client.socket.close()
    assert bystander.wait_for(queue, 2) == [b"1", b"2"]


def test_dispositions_of_everything_there_could_be(client: RawAmqp10, bystander: Bystander) -> None:
    queue = bystander.declare(b"1")
    client.open().session()
    client.link(0, RECEIVER, queue)
    everything = performative(DISPOSITION, True, Uint(0), Uint(2**31 - 1), True, Composite(ACCEPTED, []))
    client.send(*[everything] * 1000)
    client.expect_error(END, "amqp:invalid-field")
    assert bystander.wait_for(queue, 1) == [b"1"]


def test_questions_whose_answers_nobody_reads(fortress: Fortress, bystander: Bystander) -> None:
    """An attach is answered with its own name (§2.6.3)."""
    queue = bystander.declare()
    with RawAmqp10(fortress.peer, receive_buffer=4096) as client:
        client.open().session()
        question = attach("n" * 100_000, 0, RECEIVER, queue) + performative(DETACH, Uint(0), True)
        flood(client.socket, question * 10, fortress)


def test_small_questions_with_large_answers(fortress: Fortress, bystander: Bystander) -> None:
    """A hundred kilobytes of 0-9-1's basic.get and basic.nack ask for a gigabyte."""
    queue = bystander.declare(b"large", size=MESSAGE_BYTES)
    question = b"".join(
        method(1, spec.Basic.Get(queue=queue)) + method(1, spec.Basic.Nack(delivery_tag=number, requeue=True))
        for number in range(1, 100_000)
    )
    with RawClient(fortress.peer) as client:
        client.open().open_channel()
        flood(client.socket, question, fortress)
    assert len(bystander.wait_for(queue, 1)) == 1


def test_credit_of_four_billion(client: RawAmqp10, bystander: Bystander) -> None:
    queue = bystander.declare(b"1", b"2")
    client.open().session()
    client.link(0, RECEIVER, queue)
    client.send(link_flow(0, 2**32 - 1))
    answer = client.read(TRANSFER, DETACH, END, 0x18)
    assert answer is not None


def test_heartbeats_by_the_million(client: RawAmqp10) -> None:
    client.open()
    client.send(frame(b"") * 200_000)
    client.session()


def test_a_begin_twice_on_a_channel(client: RawAmqp10) -> None:
    client.open().session()
    client.send(begin())
    answer = client.read(END, 0x18)
    assert answer is not None
    assert b"amqp:" in answer.body


def test_frames_on_a_channel_without_session(client: RawAmqp10) -> None:
    client.open()
    client.send(attach("x", 0, SENDER, "q", channel=9))
    client.expect_close("amqp:connection:framing-error", "amqp:not-allowed", "amqp:illegal-state")


def test_everything_may_come_byte_by_byte(client: RawAmqp10, bystander: Bystander) -> None:
    queue = bystander.declare()
    client.open()
    for octet in begin() + attach("slow", 0, SENDER, queue) + transfer(0, 0, data_message(b"slowly")):
        client.send(bytes([octet]))
    assert client.read(BEGIN)
    assert bystander.wait_for(queue, 1) == [b"slowly"]


def test_messages_are_bounded_by_what_is_announced(client: RawAmqp10, bystander: Bystander) -> None:
    queue = bystander.declare()
    client.open().session()
    client.link(0, SENDER, queue)
    body = b"x" * (MESSAGE_BYTES - 1000)
    whole = b"\x00\x53\x75" + encode(body)
    pieces = [whole[at : at + 60_000] for at in range(0, len(whole), 60_000)]
    client.send(transfer(0, 0, pieces[0], more=True))
    for piece in pieces[1:-1]:
        client.send(continued(0, piece))
    client.send(continued(0, pieces[-1], more=False))
    assert bystander.wait_for(queue, 1) == [body]


def test_the_broker_is_the_same_to_others(fortress: Fortress, ours: Peer) -> None:
    with RawAmqp10(fortress.peer) as client:
        client.open().session()
