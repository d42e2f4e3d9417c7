"""Input that breaks the rules of AMQP 0-9-1: the right answer on the right level, and nobody else is touched."""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from pika import spec

from tests.broker_process import BrokerProcess
from tests.clients.raw import (
    BODY,
    HEARTBEAT,
    METHOD,
    PROTOCOL_HEADER,
    RawClient,
    content_header,
    frame,
    method,
    publish,
)
from tests.clients.support import Peer, Scene, bodies, wait_until


@pytest.fixture
def bystander(scene: Scene) -> Iterator[str]:
    """Another client, in the middle of its work: its connection, its deliveries and its messages must stay."""
    channel = scene.channel()
    queue = scene.queue(channel)
    for body in (b"held", b"pending"):
        channel.basic_publish("", queue, body)
    method_, _, _ = channel.basic_get(queue)
    yield queue
    channel.basic_publish("", queue, b"later")
    channel.basic_nack(method_.delivery_tag, requeue=True)
    assert bodies(channel, queue) == [b"held", b"pending", b"later"]


@pytest.fixture
def client(peer: Peer, bystander: str) -> Iterator[RawClient]:
    with RawClient(peer) as client:
        yield client


@pytest.mark.parametrize(
    "header",
    [
        b"HTTP/1.1",
        b"AMQP\x00\x00\x09\x02",
        b"AMQP\x00\x00\x08\x00",
        b"\x16\x03\x01\x02\x00\x01\x00\x01",
    ],
    ids=["http", "0-9-2", "0-8-0", "tls"],
)
def test_a_bad_protocol_header_is_answered_with_the_newest(peer: Peer, client: RawClient, header: bytes) -> None:
    newest = b"AMQP\x00\x01\x00\x00" if peer.ours else PROTOCOL_HEADER
    client.send(header)
    received = b""
    while len(received) < 8:
        piece = client.socket.recv(8 - len(received))
        assert piece, received
        received += piece
    assert received == newest
    client.expect_end()


def test_a_protocol_header_may_come_in_pieces(client: RawClient) -> None:
    for octet in PROTOCOL_HEADER:
        client.send(bytes([octet]))
    client.read(spec.Connection.Start)


def test_everything_may_come_byte_by_byte(client: RawClient, scene: Scene) -> None:
    queue = scene.queue(scene.channel())
    client.open()
    whole = b"".join(
        (
            method(1, spec.Channel.Open()),
            publish(1, queue),
            content_header(1, 5),
            frame(BODY, 1, b"he"),
            frame(HEARTBEAT, 0, b""),
            frame(BODY, 1, b"llo"),
            method(1, spec.Basic.Get(queue=queue, no_ack=True)),
        )
    )
    for octet in whole:
        client.send(bytes([octet]))
    client.read(spec.Channel.OpenOk)
    client.read(spec.Basic.GetOk)


def test_a_method_before_start_ok_is_refused(client: RawClient) -> None:
    client.start()
    client.send(method(1, spec.Channel.Open()))
    while client.read() is not None:  # RabbitMQ just ends, a close with a reason is better
        continue


def test_a_method_before_open_is_refused(client: RawClient) -> None:
    client.log_in()
    client.send(method(1, spec.Channel.Open()))
    while (what := client.read()) is not None:
        assert not isinstance(what, spec.Channel.OpenOk)
        if isinstance(what, spec.Connection.Close):
            client.send(method(0, spec.Connection.CloseOk()))


def test_a_frame_larger_than_negotiated_is_refused(client: RawClient) -> None:
    client.open(frame_max=4096)
    client.open_channel()
    client.send(publish(1, "nowhere"), content_header(1, 10_000), frame(BODY, 1, b"x" * 5000))
    client.expect_close(501)


def test_a_frame_of_exactly_the_negotiated_size_is_fine(client: RawClient) -> None:
    client.open(frame_max=4096)
    client.open_channel()
    client.send(publish(1, "nowhere"), content_header(1, 4088), frame(BODY, 1, b"x" * 4088))
    client.send(method(1, spec.Confirm.Select()))
    client.read(spec.Confirm.SelectOk)


def test_a_frame_that_claims_gigabytes_is_refused_at_once(client: RawClient) -> None:
    client.open()
    client.send(struct.pack("!BHI", METHOD, 0, 0xFFFF_FFF0) + b"\x00")  # no frame is shorter than 8 octets
    client.expect_close(501)


def test_a_large_frame_before_log_in_is_refused(client: RawClient) -> None:
    client.start()
    client.send(struct.pack("!BHI", METHOD, 0, 1 << 28), os.urandom(1000))
    while client.read() is not None:
        continue


def test_a_wrong_frame_end_is_refused(client: RawClient) -> None:
    client.open()
    client.send(method(1, spec.Channel.Open())[:-1] + b"\x00")
    client.expect_close(501)


def test_an_unknown_frame_type_is_refused(client: RawClient) -> None:
    client.open()
    client.send(frame(7, 0, b"what"))
    client.expect_close(501, 505)


def test_content_where_no_method_asked_for_it_is_refused(client: RawClient) -> None:
    client.open()
    client.open_channel()
    client.send(content_header(1, 5))
    client.expect_close(505)


def test_a_body_without_its_header_is_refused(client: RawClient) -> None:
    client.open()
    client.open_channel()
    client.send(publish(1, "q"), frame(BODY, 1, b"hello"))
    client.expect_close(505)


def test_a_method_in_the_middle_of_content_is_refused(client: RawClient) -> None:
    client.open()
    client.open_channel()
    client.send(publish(1, "q"), content_header(1, 10), frame(BODY, 1, b"hello"), method(1, spec.Tx.Select()))
    client.expect_close(505)


def test_a_second_header_is_refused(client: RawClient) -> None:
    client.open()
    client.open_channel()
    client.send(publish(1, "q"), content_header(1, 10), content_header(1, 10))
    client.expect_close(505)


def test_more_body_than_announced_is_refused(client: RawClient, scene: Scene, ours: Peer) -> None:
    """RabbitMQ 3.10 waits for ever."""
    queue = scene.queue(scene.channel())
    client.open()
    client.open_channel()
    client.send(publish(1, queue), content_header(1, 3), frame(BODY, 1, b"too long"))
    client.expect_close(501, 505)
    assert bodies(scene.channel(), queue) == []


def test_a_header_of_another_class_is_refused(client: RawClient) -> None:
    client.open()
    client.open_channel()
    client.send(publish(1, "q"), content_header(1, 0, class_id=50))
    client.expect_close(501, 505)


def test_interleaved_content_of_two_channels_is_fine(client: RawClient, scene: Scene) -> None:
    queue = scene.queue(scene.channel())
    client.open()
    client.open_channel(1)
    client.open_channel(2)
    client.send(publish(1, queue), publish(2, queue), content_header(2, 3), content_header(1, 3))
    client.send(frame(BODY, 1, b"one"), frame(BODY, 2, b"two"))
    client.send(method(1, spec.Confirm.Select()), method(2, spec.Confirm.Select()))
    client.read(spec.Confirm.SelectOk)
    client.read(spec.Confirm.SelectOk)
    reader = scene.channel()
    taken: list[bytes] = []
    wait_until(lambda: taken.extend(bodies(reader, queue)) or len(taken) == 2, reader.connection)
    assert sorted(taken) == [b"one", b"two"]


def test_content_on_channel_zero_is_refused(client: RawClient) -> None:
    client.open()
    client.send(content_header(0, 5))
    client.expect_close(503, 504, 505)


def test_a_channel_method_on_channel_zero_is_refused(client: RawClient) -> None:
    client.open()
    client.send(method(0, spec.Basic.Publish(exchange="", routing_key="q")))
    client.expect_close(503, 504, 505)


def test_a_connection_method_on_another_channel_is_refused(client: RawClient) -> None:
    client.open()
    client.open_channel()
    client.send(method(1, spec.Connection.Open(virtual_host="/")))
    client.expect_close(503, 504)


def test_a_channel_more_than_the_maximum_is_refused(client: RawClient) -> None:
    client.open(channel_max=5)
    for number in range(1, 6):
        client.open_channel(number)
    client.send(method(65_535, spec.Channel.Open()))
    client.expect_close(504, 530)


def test_a_method_on_a_channel_that_is_not_open_is_refused(client: RawClient) -> None:
    client.open()
    client.send(method(3, spec.Queue.Declare(queue="q")))
    client.expect_close(504)


def test_a_channel_may_be_open_once(client: RawClient) -> None:
    client.open()
    client.open_channel()
    client.send(method(1, spec.Channel.Open()))
    client.expect_close(503, 504)


def test_a_channel_may_be_reused_after_close_ok(client: RawClient) -> None:
    client.open()
    for _ in range(3):
        client.open_channel()
        client.send(method(1, spec.Channel.Close(reply_code=200, reply_text="", class_id=0, method_id=0)))
        client.read(spec.Channel.CloseOk)


def test_an_unknown_method_is_refused(client: RawClient, ours: Peer) -> None:
    """RabbitMQ 3.10 cuts the connection without a word."""
    client.open()
    client.open_channel()
    client.send(frame(METHOD, 1, struct.pack("!HH", 60, 9999)))
    client.expect_close(503, 540, 502, 501)


def test_arguments_cut_short_are_refused(client: RawClient) -> None:
    client.open()
    client.open_channel()
    client.send(frame(METHOD, 1, struct.pack("!HHHB", 50, 10, 0, 200) + b"short"))
    client.expect_close(501, 502, 503)


def test_a_table_that_lies_about_its_length_is_refused(client: RawClient) -> None:
    client.open()
    client.open_channel()
    declare = struct.pack("!HHHB", 50, 10, 0, 1) + b"q" + b"\x00" + struct.pack("!I", 1000) + b"\x01aI\x00"
    client.send(frame(METHOD, 1, declare))
    client.expect_close(501, 502, 503)


def test_a_server_method_from_a_client_is_refused(client: RawClient) -> None:
    client.open()
    client.open_channel()
    client.send(method(1, spec.Queue.DeclareOk(queue="q", message_count=0, consumer_count=0)))
    client.expect_close(503, 540, 505)


@pytest.mark.parametrize("seed", range(5))
def test_garbage_after_open_is_refused(client: RawClient, seed: int) -> None:
    client.open()
    client.send(random.Random(seed).randbytes(5000))
    client.expect_close(501, 502, 503, 504, 505)


def test_a_frame_max_below_the_least_is_refused(client: RawClient) -> None:
    client.log_in()
    client.send(method(0, spec.Connection.TuneOk(channel_max=1, frame_max=100, heartbeat=0)))
    client.send(method(0, spec.Connection.Open(virtual_host="/")))
    while (what := client.read()) is not None:
        assert not isinstance(what, spec.Connection.OpenOk)
        if isinstance(what, spec.Connection.Close):
            assert what.reply_code == 530
            client.send(method(0, spec.Connection.CloseOk()))


def test_a_client_that_vanishes_in_the_middle_of_a_message_leaves_no_message(client: RawClient, scene: Scene) -> None:
    queue = scene.queue(scene.channel())
    client.open()
    client.open_channel()
    client.send(publish(1, queue), content_header(1, 10), frame(BODY, 1, b"half"))
    client.socket.close()
    assert bodies(scene.channel(), queue) == []


def test_an_unknown_mechanism_is_refused(client: RawClient) -> None:
    client.start()
    client.send(method(0, spec.Connection.StartOk(client_properties={}, mechanism="UNHEARD-OF", response=b"x")))
    while (what := client.read()) is not None:
        assert not isinstance(what, spec.Connection.Tune)


@pytest.mark.usefixtures("ours")
def test_a_half_open_connection_is_cut_and_one_that_opened_is_not(tmp_path: Path) -> None:
    configuration = tmp_path / "annulet.toml"
    configuration.write_text("handshake_timeout = 1.0\n")
    with BrokerProcess(None, "--config", str(configuration)) as process:
        peer = Peer(process.amqp_url, ours=True)
        with RawClient(peer) as silent, RawClient(peer) as stuck, RawClient(peer) as opened:
            opened.open()
            stuck.log_in()
            silent.expect_end()
            stuck.expect_end()
            opened.open_channel()
