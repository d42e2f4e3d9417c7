"""What differs in AMQP 0-8 and 0-9, on streams written by hand."""

from __future__ import annotations

import os
import random
import re
import struct
from typing import Any

import pytest

from annulet.wire.amqp091.connection.engine import ConnectionEngine
from annulet.wire.amqp091.connection.methods import METHODS, decode_method, encode_method
from annulet.wire.amqp091.connection.states import CHANNEL_TRANSITIONS, CONNECTION_TRANSITIONS, ConnectionState
from annulet.wire.amqp091.connection.versions import (
    AMQP_0_8,
    AMQP_0_9,
    AMQP_0_9_1,
    AMQP_0_9_EXTENDED,
    VERSIONS,
    VERSIONS_BY_HEADER,
    ProtocolVersion,
    may_become_header,
)
from annulet.wire.amqp091.types.errors import ConnectionFault, RemoteProtocolError
from tests.wire.amqp091.old_versions import (
    CLOSE_IDS,
    HEADER_0_8,
    HEADER_0_9,
    HEADER_0_9_REVISED,
    HEADER_OF_AMQPLIB,
    Received,
    frame,
    handshake,
    long_string,
    method,
    publish,
    short_string,
    start_ok,
    take_apart,
)
from tests.wire.amqp091.recorder import PROTOCOL_HEADER, Recorder, engine_with, feed_variants

OLD_HEADERS = [HEADER_0_8, HEADER_OF_AMQPLIB, HEADER_0_9, HEADER_0_9_REVISED]
OLD_VERSIONS = [AMQP_0_8, AMQP_0_9]
ALL_CAPABILITIES = (
    short_string("capabilities")
    + b"F"
    + long_string(
        b"".join(
            short_string(name) + b"t\x01"
            for name in ("authentication_failure_close", "consumer_cancel_notify", "connection.blocked", "basic.nack")
        )
    )
)
old_headers = pytest.mark.parametrize("header", OLD_HEADERS, ids=["0-8", "amqplib", "0-9", "0-9-0"])
old_versions = pytest.mark.parametrize("version", OLD_VERSIONS, ids=lambda version: version.name)


def output(engine: ConnectionEngine) -> list[Received]:
    return take_apart(b"".join(engine.take_output()))


def opened(header: bytes, **options: Any) -> tuple[ConnectionEngine, Recorder]:
    handler = Recorder()
    engine = engine_with(handler)
    engine.receive(handshake(header, **options))
    assert engine.state is ConnectionState.OPEN
    engine.take_output()
    handler.calls.clear()
    return engine, handler


def closing(engine: ConnectionEngine, header: bytes) -> tuple[int, str, tuple[int, int]]:
    """Return code, text and the method blamed of the connection.close that is the only output."""
    (received,) = output(engine)
    assert (received.channel, received.method) == (0, (10, CLOSE_IDS[header][0]))
    (code,) = struct.unpack("!H", received.payload[:2])
    size = received.payload[2]
    class_id, method_id = struct.unpack("!HH", received.payload[3 + size :])
    return code, received.payload[3 : 3 + size].decode(), (class_id, method_id)


# ---------------------------------------------------------------------- the tables


def test_headers_choose_the_version() -> None:
    assert VERSIONS_BY_HEADER == {
        PROTOCOL_HEADER: AMQP_0_9_1,
        HEADER_0_9: AMQP_0_9,
        HEADER_0_9_REVISED: AMQP_0_9,
        HEADER_0_8: AMQP_0_8,
        HEADER_OF_AMQPLIB: AMQP_0_8,
    }
    assert [version.name for version in VERSIONS] == ["AMQP 0-9-1", "AMQP 0-9", "AMQP 0-8"]
    for header in VERSIONS_BY_HEADER:
        assert all(may_become_header(header[:size]) for size in range(9))
    for other in (b"G", b"AMQP\x02", b"AMQP\x01\x01\x08\x01", b"AMQP\x00\x01\x00\x00", HEADER_0_8 + b"\x01"):
        assert not may_become_header(other)


@old_versions
def test_an_older_version_has_no_extension_and_every_other_method_of_the_states(version: ProtocolVersion) -> None:
    names = set(version.methods.by_name)
    for absent in (
        "connection.blocked", "connection.unblocked", "connection.update-secret", "exchange.bind", "exchange.unbind",
        "basic.nack", "confirm.select",
    ):  # fmt: skip
        assert absent not in names
    back = {newer: older for older, newer in version.renumbered.items()}
    for identifier in [key for _, key in CONNECTION_TRANSITIONS] + [key for _, key in CHANNEL_TRANSITIONS]:
        name = METHODS[identifier].name
        if name != "connection.update-secret":
            assert version.methods.by_identifier[back.get(identifier, identifier)].name == name
    for specification in version.methods.by_identifier.values():
        assert version.methods.by_identifier[specification.identifier] is specification
    assert len(version.methods.by_identifier) == len(names)


def test_what_differs_from_0_9_1_is_what_the_definitions_say() -> None:
    """The rows as ``amqp0-8.xml`` and ``amqp0-9.xml`` have them, against all others, which are those of 0-9-1."""
    for version, expected in (
        (AMQP_0_8, {"connection.redirect", "connection.close", "connection.close-ok", "channel.open-ok",
                    "channel.alert", "basic.consume", "basic.cancel", "basic.cancel-ok", "basic.ack"}),
        (AMQP_0_9, {"connection.redirect", "basic.cancel", "basic.cancel-ok", "basic.ack"}),
    ):  # fmt: skip
        different = set()
        for name, specification in version.methods.by_name.items():
            newer = AMQP_0_9_1.methods.by_name.get(name)
            if newer is None or (
                (newer.identifier, newer.senders, newer.has_content, [kind for _, kind in newer.arguments])
                != (
                    specification.identifier, specification.senders, specification.has_content,
                    [kind for _, kind in specification.arguments],
                )
            ):  # fmt: skip
                different.add(name)
        assert different == expected, version.name
    assert AMQP_0_8.methods.by_name["connection.close"].identifier == 10 << 16 | 60
    assert AMQP_0_8.methods.by_name["connection.redirect"].identifier == 10 << 16 | 50
    assert AMQP_0_9.methods.by_name["connection.redirect"].identifier == 10 << 16 | 42
    assert AMQP_0_8.channel_open_ok == b"\x00\x14\x00\x0b"
    assert AMQP_0_9.channel_open_ok == AMQP_0_9_1.channel_open_ok == b"\x00\x14\x00\x0b\x00\x00\x00\x00"


@old_versions
def test_every_method_reads_back(version: ProtocolVersion) -> None:
    for name, specification in version.methods.by_name.items():
        encoded = encode_method(name, None, version.methods)
        decoded = decode_method(encoded, specification.senders[0], version.methods)
        assert decoded.specification is specification
        assert set(decoded.arguments) == {argument for argument, _ in specification.arguments} | set(
            specification.absent
        )


def test_a_consumer_of_0_8_has_no_arguments_and_reads_as_one_with_none() -> None:
    arguments = struct.pack("!H", 1) + short_string("q") + short_string("tag") + b"\x02"
    decoded = decode_method(b"\x00\x3c\x00\x14" + arguments, "C", AMQP_0_8.methods)
    assert (decoded.table("arguments"), decoded.flag("no_ack")) == ({}, True)
    with pytest.raises(RemoteProtocolError, match="too many"):
        decode_method(b"\x00\x3c\x00\x14" + arguments + long_string(b""), "C", AMQP_0_8.methods)
    filtered = decode_method(b"\x00\x3c\x00\x14" + arguments + long_string(b"\x01xI\0\0\0\x07"), "C", AMQP_0_9.methods)
    assert filtered.table("arguments") == {"x": 7}


# ---------------------------------------------------------------------- negotiation


@pytest.mark.parametrize(("header", "shown"), [(HEADER_0_8, (8, 0)), (HEADER_OF_AMQPLIB, (8, 0)), (HEADER_0_9, (0, 9))])
def test_start_shows_the_version_and_stays_within_its_field_types(header: bytes, shown: tuple[int, int]) -> None:
    engine = engine_with(Recorder())
    engine.receive(header)
    assert engine.output.version is VERSIONS_BY_HEADER[header]
    (start,) = output(engine)
    assert start.method == (10, 10)
    assert (start.payload[0], start.payload[1]) == shown
    size = struct.unpack("!I", start.payload[2:6])[0]
    assert start.payload[6 : 6 + size] == short_string("product") + b"S" + long_string(b"Annulet")


@old_headers
def test_the_hand_shake_up_to_a_channel(header: bytes) -> None:
    engine = engine_with(Recorder())
    engine.receive(handshake(header))
    assert [(received.channel, received.method) for received in output(engine)] == [
        (0, (10, 10)), (0, (10, 30)), (0, (10, 41)), (1, (20, 11)),
    ]  # fmt: skip
    assert (engine.user, engine.virtual_host) == ("guest", "/")


@pytest.mark.parametrize("header", [HEADER_0_8, HEADER_OF_AMQPLIB], ids=["0-8", "amqplib"])
def test_capabilities_mean_nothing_in_0_8(header: bytes) -> None:
    """A client that copies them without knowing must not get methods its version has not."""
    engine, _ = opened(header, capabilities=ALL_CAPABILITIES)
    engine.notices.send_blocked("memory")
    engine.notices.send_unblocked()
    engine.notices.send_cancel(1, "tag")
    assert output(engine) == []


@pytest.mark.parametrize("header", [HEADER_0_9, HEADER_0_9_REVISED], ids=["0-9", "0-9-0"])
def test_a_client_of_0_9_that_announces_capabilities_has_rabbitmqs_extensions(header: bytes) -> None:
    engine, handler = opened(header, capabilities=ALL_CAPABILITIES)
    assert (engine.output.version, engine.output.version.name) == (AMQP_0_9_EXTENDED, "AMQP 0-9")
    engine.notices.send_blocked("memory")
    engine.notices.send_unblocked()
    engine.notices.send_cancel(1, "tag")
    engine.output.send_confirm(1, 1, False)
    assert [received.method for received in output(engine)] == [(10, 60), (10, 61), (60, 30), (60, 80)]
    bind = b"\0\0" + short_string("d") + short_string("s") + short_string("k") + b"\0" + long_string(b"")
    engine.receive(
        method(1, 85, 10, b"\0")
        + method(1, 40, 30, bind)
        + method(1, 60, 120, struct.pack("!QB", 1, 2))
        + method(1, 60, 20, b"\0\0" + short_string("q") + short_string("c") + b"\0" + long_string(b""))
    )
    assert [call[0] for call in handler.calls] == ["confirm_select", "exchange_bind", "negative_acknowledge", "consume"]
    assert engine.output.version.methods.by_identifier == METHODS


def test_a_client_of_0_9_without_capabilities_gets_what_its_standard_has() -> None:
    engine, _ = opened(HEADER_0_9)
    assert engine.output.version is AMQP_0_9


@pytest.mark.parametrize("capabilities", [b"", ALL_CAPABILITIES], ids=["none", "all"])
@old_headers
def test_a_refused_user_learns_it_by_the_end_of_the_connection_unless_it_can_be_told(
    header: bytes, capabilities: bytes
) -> None:
    handler = Recorder()
    handler.user = None
    engine = engine_with(handler)
    engine.receive(header)
    engine.take_output()
    engine.receive(start_ok(capabilities))
    told = capabilities != b"" and header in {HEADER_0_9, HEADER_0_9_REVISED}
    assert (engine.closed, [received.method for received in output(engine)]) == (True, [(10, 50)] if told else [])


# ---------------------------------------------------------------------- the end


@old_headers
def test_the_client_closes(header: bytes) -> None:
    engine, handler = opened(header)
    engine.receive(method(0, 10, CLOSE_IDS[header][0], struct.pack("!H", 200) + short_string("bye") + b"\0\0\0\0"))
    assert [received.method for received in output(engine)] == [(10, CLOSE_IDS[header][1])]
    assert engine.closed
    assert handler.calls == [("close_channel", 1), ("connection_closed", 200, "bye", True)]


@old_headers
def test_the_broker_closes(header: bytes) -> None:
    engine, handler = opened(header)
    engine.close_connection(320, "shut down")
    assert closing(engine, header) == (320, "CONNECTION_FORCED - shut down", (0, 0))
    engine.receive(publish(1, "", "q", b"late"))  # what follows is discarded
    engine.receive(method(0, 10, CLOSE_IDS[header][1]))
    assert engine.closed
    assert handler.named("publish") == []


def test_redirect_from_a_client_is_not_taken_for_close() -> None:
    for header, method_id in ((HEADER_0_8, 50), (HEADER_0_9, 42)):
        engine, _ = opened(header)
        engine.receive(method(0, 10, method_id, short_string("host:5672") + short_string("")))
        code, text, blamed = closing(engine, header)
        assert (code, blamed) == (503, (10, method_id))
        assert "connection.redirect is not for a client to send in AMQP 0-" in text
        engine.receive(method(0, 10, method_id, short_string("host:5672") + short_string("")))
        assert not engine.closed  # discarded while closing


@old_headers
def test_a_channel_closes_for_an_error_as_in_0_9_1(header: bytes) -> None:
    engine, _ = opened(header)
    engine.channel_table.close_channel_with_error(1, 404, "no queue", 50, 10)
    (received,) = output(engine)
    assert (received.channel, received.method) == (1, (20, 40))
    engine.receive(method(1, 20, 41) + method(1, 20, 10, short_string("")))
    assert [received.method for received in output(engine)] == [(20, 11)]


# ---------------------------------------------------------------------- what is served


TICKET = struct.pack("!H", 1)


@old_headers
def test_methods_reach_the_handler(header: bytes) -> None:
    engine, handler = opened(header)
    filter_table = b"" if header in {HEADER_0_8, HEADER_OF_AMQPLIB} else long_string(b"")
    engine.receive(
        method(1, 30, 10, short_string("/data") + b"\x1e")
        + method(1, 40, 10, TICKET + short_string("e") + short_string("topic") + b"\x02" + long_string(b""))
        + method(1, 50, 10, TICKET + short_string("q") + b"\x02" + long_string(b""))
        + method(
            1, 50, 20, TICKET + short_string("q") + short_string("e") + short_string("k") + b"\0" + long_string(b"")
        )
        + method(1, 50, 50, TICKET + short_string("q") + short_string("e") + short_string("k") + long_string(b""))
        + method(1, 60, 10, struct.pack("!IHB", 0, 5, 0))
        + method(1, 60, 20, TICKET + short_string("q") + short_string("c") + b"\x02" + filter_table)
        + publish(1, "e", "k", b"hello", flags=0x1000, properties=b"\x02", bits=1)
        + method(1, 60, 70, TICKET + short_string("q") + b"\x01")
        + method(1, 60, 80, struct.pack("!QB", 1, 0))
        + method(1, 60, 90, struct.pack("!QB", 2, 1))
        + method(1, 60, 100, b"\x01")
        + method(1, 60, 110, b"\x01")
        + method(1, 60, 30, short_string("c") + b"\0")
        + method(1, 90, 10)
    )
    assert handler.calls == [
        ("exchange_declare", 1, "e", "topic", False, True, False, False, False, {}),
        ("queue_declare", 1, "q", False, True, False, False, False, {}),
        ("queue_bind", 1, "q", "e", "k", False, {}),
        ("queue_unbind", 1, "q", "e", "k", {}),
        ("qos", 1, 0, 5, False),
        ("consume", 1, "q", "c", False, True, False, False, {}),
        ("publish", 1, "e", "k", True, False, b"\x10\x00\x02", b"hello"),
        ("get", 1, "q", True),
        ("acknowledge", 1, 1, False),
        ("reject", 1, 2, True),
        ("recover", 1, True),
        ("recover", 1, True),
        ("cancel", 1, "c", False),
        ("tx_select", 1),
    ]
    answers = output(engine)
    assert [received.method for received in answers] == [(30, 11), (60, 111)]  # recover of 0-8 and 0-9 has no answer
    assert answers[0].payload == TICKET


@old_headers
def test_content_goes_out_as_in_0_9_1(header: bytes) -> None:
    engine, _ = opened(header)
    engine.output.send_deliver(
        1, short_string("c"), 7, True, short_string("e") + short_string("k"), b"\x10\x00\x02", b"body"
    )
    deliver, content, body = output(engine)
    assert deliver.method == (60, 60)
    assert deliver.payload == short_string("c") + struct.pack("!QB", 7, 1) + short_string("e") + short_string("k")
    assert (content.kind, content.payload) == (2, struct.pack("!HHQHB", 60, 0, 4, 0x1000, 2))
    assert (body.kind, body.payload) == (3, b"body")


@pytest.mark.parametrize(
    ("header", "identifier", "words"),
    [
        (HEADER_0_8, (70, 10), "class file of AMQP 0-8 is not served; use class basic"),
        (HEADER_0_8, (80, 40), "class stream of AMQP 0-8 is not served"),
        (HEADER_0_8, (100, 20), "class dtx of AMQP 0-8 is not served"),
        (HEADER_0_8, (110, 10), "class tunnel of AMQP 0-8 is not served"),
        (HEADER_0_8, (120, 10), "class test of AMQP 0-8 is not served"),
        (HEADER_0_9, (120, 10), "class message of AMQP 0-9 is not served"),
        (HEADER_0_9, (20, 60), "channel.ping of AMQP 0-9 is not served"),
        (HEADER_0_8, (20, 60), "method 60 of class 20 is not in AMQP 0-8"),
        (HEADER_0_8, (60, 120), "basic.nack is not in AMQP 0-8; connect with the protocol header AMQP 0 0 9 1"),
        (HEADER_0_9, (60, 120), "basic.nack is not in AMQP 0-9; connect with the protocol header AMQP 0 0 9 1"),
        (HEADER_0_9, (85, 10), "confirm.select is not in AMQP 0-9"),
        (HEADER_0_8, (40, 30), "exchange.bind is not in AMQP 0-8"),
        (HEADER_0_8, (60, 999), "method 999 of class 60 is not in AMQP 0-8"),
    ],
)
def test_what_is_not_served_is_refused_by_name(header: bytes, identifier: tuple[int, int], words: str) -> None:
    engine, handler = opened(header)
    engine.receive(method(1, *identifier, b"\0" * 20) + frame(2, 1, struct.pack("!HHQH", identifier[0], 0, 0, 0)))
    code, text, blamed = closing(engine, header)
    assert (code, blamed) == (540, identifier)
    assert words in text
    assert handler.named("publish") == []


@pytest.mark.parametrize(("identifier", "name"), [((20, 30), "channel.alert"), ((60, 60), "basic.deliver")])
def test_methods_of_the_server_are_refused(identifier: tuple[int, int], name: str) -> None:
    engine, _ = opened(HEADER_0_8)
    engine.receive(method(1, *identifier))
    code, text, _ = closing(engine, HEADER_0_8)
    assert code == 503
    assert f"{name} is not for a client to send in AMQP 0-8" in text


@pytest.mark.parametrize("kind", [4, 5, 6, 7])
def test_out_of_band_and_trace_frames_are_refused(kind: int) -> None:
    engine, _ = opened(HEADER_0_8)
    engine.receive(frame(kind, 1, b"\0\x3c\0\x28"))
    assert closing(engine, HEADER_0_8)[0] == 501


def test_an_error_of_the_handler_closes_with_the_version_s_numbers() -> None:
    engine, handler = opened(HEADER_0_8)
    handler.failures["recover"] = ConnectionFault(540, "recover with requeue false")
    engine.receive(method(1, 60, 100, b"\0"))
    assert closing(engine, HEADER_0_8) == (540, "NOT_IMPLEMENTED - recover with requeue false", (60, 100))


# ---------------------------------------------------------------------- input in pieces


@old_headers
def test_a_session_is_the_same_however_it_is_cut(header: bytes) -> None:
    session = (
        handshake(header, channels=2)
        + publish(1, "e", "k", b"first", flags=0x1000, properties=b"\x02")
        + publish(2, "e", "k", b"x" * 300)
        + publish(1, "e", "k", b"")
        + method(1, 60, 80, struct.pack("!QB", 3, 1))
        + frame(8, 0, b"")
        + method(0, 10, CLOSE_IDS[header][0], struct.pack("!H", 200) + short_string("bye") + b"\0\0\0\0")
    )
    results = []
    for pieces in feed_variants(session).values():
        handler = Recorder()
        engine = engine_with(handler)
        for piece in pieces:
            engine.receive(piece)
        assert engine.closed
        assert len(handler.named("publish")) == 3
        results.append((handler.calls, b"".join(engine.take_output())))
    assert results[0] == results[1] == results[2]


@old_headers
def test_a_cut_session_releases_everything(header: bytes) -> None:
    session = handshake(header, channels=2) + publish(1, "e", "k", b"first")
    for size in range(len(session)):
        handler = Recorder()
        engine = engine_with(handler)
        engine.receive(session[:size])
        engine.connection_lost()
        assert len(handler.named("connection_closed")) == 1
        assert sorted(handler.named("open_channel")) == sorted(handler.named("close_channel"))


@pytest.mark.parametrize(
    "header", [b"HTTP/1.1", b"AMQP\x01\x01\x08\x01", b"AMQP\x00\x00\x08\x00", b"AMQP\x00\x01\x00\x00"]
)
def test_an_unknown_header_is_answered_with_the_newest_version(header: bytes) -> None:
    for pieces in ([header], [header[:5], header[5:]]):
        handler = Recorder()
        engine = engine_with(handler)
        for piece in pieces:
            engine.receive(piece)
        assert engine.take_output() == [PROTOCOL_HEADER]
        assert engine.closed
        assert re.search("AMQP 0-9-1, 0-9 or 0-8", handler.named("connection_closed")[0][1])


@old_headers
def test_corrupted_sessions_never_raise_and_release_everything(header: bytes) -> None:
    seed = int(os.environ.get("ANNULET_TEST_SEED", "20261121"))
    print(f"seed {seed}; repeat with ANNULET_TEST_SEED")
    generator = random.Random(seed)
    session = (
        handshake(header, channels=2)
        + method(1, 30, 10, short_string("/data") + b"\x1e")
        + method(1, 50, 10, TICKET + short_string("q") + b"\x02" + long_string(short_string("x") + b"I\0\0\0\1"))
        + publish(1, "e", "k", b"first", flags=0x2000, properties=long_string(short_string("k") + b"t\1"))
        + publish(2, "e", "k", b"x" * 300)
        + method(1, 60, 100, b"\x01")
        + method(0, 10, CLOSE_IDS[header][0], struct.pack("!H", 200) + short_string("bye") + b"\0\0\0\0")
    )
    for _ in range(500):
        data = bytearray(session)
        for _ in range(generator.randint(1, 4)):
            data[generator.randrange(8, len(data))] = generator.randrange(256)
        handler = Recorder()
        engine = engine_with(handler)
        for start in range(0, len(data), 97):
            engine.receive(bytes(data[start : start + 97]))
        for received in output(engine):  # whatever is answered is whole, and of this version
            if received.kind == 1:
                identifier = received.method[0] << 16 | received.method[1]
                assert "S" in engine.output.version.methods.by_identifier[identifier].senders, received
        engine.connection_lost()
        assert len(handler.named("connection_closed")) == 1
        assert sorted(handler.named("open_channel")) == sorted(handler.named("close_channel"))
