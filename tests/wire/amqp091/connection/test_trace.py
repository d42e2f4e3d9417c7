from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import commands, frame, header

from annulet.wire.amqp091.connection.engine import ConnectionEngine, encode_destination, encode_short_string
from annulet.wire.amqp091.connection.methods import METHODS_0_9_1, encode_method
from annulet.wire.amqp091.connection.trace import (
    MAX_CHARACTERS_SHOWN,
    MAX_PAYLOAD_OCTETS_SHOWN,
    describe_frame,
    describe_output,
)
from annulet.wire.amqp091.connection.versions import AMQP_0_8
from tests.wire.amqp091.old_versions import HEADER_0_8
from tests.wire.amqp091.recorder import Recorder, engine_with, feed_variants, frame_of, handshake, opened, publish

METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8


def line_of(marshaled: bytes, sender: str = "C") -> str:
    channel = int.from_bytes(marshaled[1:3], "big")
    return describe_frame(marshaled[0], channel, marshaled[7:-1], sender, METHODS_0_9_1)


def traced(engine: ConnectionEngine) -> list[str]:
    lines: list[str] = []
    engine.output.trace = lines.append
    return lines


def test_a_method_shows_its_arguments_and_leaves_out_what_says_nothing() -> None:
    method = commands.Basic.Publish(exchange="e", routing_key="k", mandatory=True)
    assert line_of(frame.marshal(method, 7)) == "#7 basic.publish(exchange='e', routing_key='k', mandatory=True)"
    declare = commands.Queue.Declare(queue="q", durable=True, arguments={"x-ring-size": 3})
    assert line_of(frame.marshal(declare, 1)) == (
        "#1 queue.declare(queue='q', durable=True, arguments={'x-ring-size': 3})"
    )
    assert line_of(frame.marshal(commands.Queue.Declare(queue="q"), 1)) == "#1 queue.declare(queue='q')"
    assert line_of(frame.marshal(commands.Basic.CancelOk("t"), 1), "S") == "#1 basic.cancel-ok(consumer_tag='t')"
    assert line_of(frame.marshal(commands.Basic.Ack(0, multiple=True), 1)) == (
        "#1 basic.ack(delivery_tag=0, multiple=True)"
    )


def test_a_content_header_shows_size_and_properties_and_a_body_its_first_octets() -> None:
    properties = commands.Basic.Properties(delivery_mode=2, priority=0, headers={"a": 1}, content_type="text/plain")
    assert line_of(frame.marshal(header.ContentHeader(0, 5, properties), 1)) == (
        "#1 content header(body_size=5, content_type='text/plain', headers={'a': 1}, delivery_mode=2, priority=0)"
    )
    assert line_of(frame_of(BODY, 1, b"ab")) == "#1 body of 2 octets 61 62"
    assert line_of(frame_of(BODY, 1, b"")) == "#1 body of 0 octets"
    whole = b"a" * MAX_PAYLOAD_OCTETS_SHOWN
    assert line_of(frame_of(BODY, 1, whole)).endswith(" 61")
    assert line_of(frame_of(BODY, 1, whole + b"b")) == f"#1 body of 17 octets {whole.hex(' ')}..."
    assert line_of(frame_of(HEARTBEAT, 0, b"")) == "#0 heartbeat"
    assert line_of(frame_of(77, 0, b"ab")) == "#0 frame of type 77 with 2 octets"


@pytest.mark.parametrize(
    "secret",
    [
        frame.marshal(commands.Connection.StartOk({}, "PLAIN", "\0guest\0swordfish", "en_US"), 0),
        frame.marshal(commands.Connection.SecureOk("swordfish"), 0),
        frame.marshal(commands.Connection.UpdateSecret("swordfish", "expired"), 0),
        frame.marshal(commands.Connection.StartOk({}, "PLAIN", "\0guest\0swordfish", "en_US"), 0)[:-4] + b"\xce",
    ],
    ids=["start-ok", "secure-ok", "update-secret", "cut start-ok"],
)
def test_secrets_show_as_their_length_only(secret: bytes) -> None:
    line = line_of(secret)
    assert "swordfish" not in line
    assert b"swordfish".hex(" ") not in line
    assert " octets" in line


def test_challenges_show_as_their_length_only() -> None:
    line = line_of(frame.marshal(commands.Connection.Secure("swordfish"), 0), "S")
    assert line == "#0 connection.secure(challenge=<9 octets>)"


def test_what_a_peer_sends_does_not_break_the_line() -> None:
    method = encode_method("queue.declare", {"queue": "a\nb\x1b[2J", "arguments": {"x": "y" * 5000}})
    line = line_of(frame_of(METHOD, 1, method))
    assert line.isprintable()
    assert "queue='a\\nb\\x1b[2J'" in line
    assert len(line) < 2 * MAX_CHARACTERS_SHOWN + 100


@given(kind=st.sampled_from([METHOD, HEADER, BODY, HEARTBEAT]), payload=st.binary(max_size=80), data=st.data())
def test_any_octets_are_a_line(kind: int, payload: bytes, data: st.DataObject) -> None:
    if kind == METHOD:
        payload = data.draw(st.sampled_from(sorted(METHODS_0_9_1.by_identifier))).to_bytes(4, "big") + payload
    line = describe_frame(kind, 1, payload, data.draw(st.sampled_from("CS")), METHODS_0_9_1)
    assert line.startswith("#1 ")
    assert line.isprintable()


@pytest.mark.parametrize("size", range(12))
def test_a_header_too_short_says_so(size: int) -> None:
    assert describe_frame(HEADER, 1, b"\0" * size, "C", METHODS_0_9_1) == (
        f"#1 malformed content header with {size} octets"
    )


def test_methods_are_those_of_the_version() -> None:
    assert describe_frame(METHOD, 0, b"\x00\x0a\x00\x3d", "C", AMQP_0_8.methods) == "#0 connection.close-ok()"
    assert "malformed method frame with 4 octets" in describe_frame(METHOD, 0, b"\x00\x0a\x00\x3d", "C", METHODS_0_9_1)


def test_output_is_told_frame_by_frame_whatever_its_pieces() -> None:
    engine, _ = opened(frame_max=4096)
    engine.output.send_deliver(
        1, encode_short_string("t"), 9, redelivered=True, destination=encode_destination("e", "k"),
        header=b"\x00\x00", body=b"x" * 5000,
    )  # fmt: skip
    engine.output.heartbeat()
    output = engine.take_output()
    expected = [
        "#1 basic.deliver(consumer_tag='t', delivery_tag=9, redelivered=True, exchange='e', routing_key='k')",
        "#1 content header(body_size=5000)",
        f"#1 body of 4088 octets {' '.join(['78'] * 16)}...",
        f"#1 body of 912 octets {' '.join(['78'] * 16)}...",
        "#0 heartbeat",
    ]
    for pieces in feed_variants(b"".join(output)).values():
        assert describe_output(pieces, METHODS_0_9_1) == expected


@pytest.mark.parametrize("variant", ["whole", "octets", "pieces"])
def test_a_session_is_a_trace_in_both_directions(variant: str) -> None:
    engine = engine_with(Recorder())
    lines = traced(engine)
    ack = frame.marshal(commands.Basic.Ack(3), 1)
    heartbeat = frame_of(HEARTBEAT, 0, b"")
    for piece in feed_variants(handshake() + publish(b"hi", delivery_mode=1) + ack + heartbeat)[variant]:
        engine.receive(piece)
        engine.take_output()
    expected = [
        "<- protocol header b'AMQP\\x00\\x00\\t\\x01'",
        "-> #0 connection.start",
        "<- #0 connection.start-ok",
        "-> #0 connection.tune",
        "<- #0 connection.tune-ok",
        "<- #0 connection.open",
        "-> #0 connection.open-ok",
        "<- #1 channel.open",
        "-> #1 channel.open-ok",
        "<- #1 basic.publish",
        "<- #1 content header",
        "<- #1 body of 2 octets 68 69",
        "<- #1 basic.ack",
        "<- #0 heartbeat",
    ]
    if variant == "whole":  # one read, whose answers leave in one write
        expected.sort(key=lambda line: line.startswith("->"))
    assert [line.partition("(")[0] for line in lines] == expected
    assert not any("guest" in line for line in lines)


def test_a_trace_changes_nothing_that_is_served() -> None:
    stream = b"".join(publish(b"m" * size, message_id=str(size)) for size in (0, 1, 300, 140_000)) + frame.marshal(
        commands.Basic.Ack(3, multiple=True), 1
    )
    plain_engine, plain = opened()
    traced_engine, recorded = opened()
    lines = traced(traced_engine)
    plain_engine.receive(stream)
    traced_engine.receive(stream)
    assert recorded.calls == plain.calls
    assert len(plain.named("publish")) == 4
    assert len([line for line in lines if line.startswith("<- #1 basic.publish(")]) == 4
    traced_engine.output.trace = None
    del lines[:]
    traced_engine.receive(stream)
    assert not lines


def test_versions_and_unknown_headers_show() -> None:
    engine = engine_with(Recorder())
    lines = traced(engine)
    engine.receive(HEADER_0_8)
    engine.take_output()
    assert lines[0] == "<- protocol header b'AMQP\\x01\\x01\\x08\\x00'"
    assert lines[1].startswith("-> #0 connection.start(version_major=8, ")
    engine = engine_with(Recorder())
    lines = traced(engine)
    engine.receive(b"GET / HTTP/1.1\r\n")
    engine.take_output()
    assert lines == ["<- protocol header b'GET / HT'", "-> protocol header b'AMQP\\x00\\x00\\t\\x01'"]
