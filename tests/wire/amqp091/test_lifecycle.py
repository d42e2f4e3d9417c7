from __future__ import annotations

from typing import Any

import pytest
from pamqp import commands, frame

from annulet.wire.amqp091.constants import REPLY_NAMES
from annulet.wire.amqp091.engine import ConnectionEngine
from annulet.wire.amqp091.errors import ConnectionFault
from annulet.wire.amqp091.lifecycle import CAPABILITIES
from annulet.wire.amqp091.states import ConnectionState
from tests.wire.amqp091.recorder import CAPABLE, PROTOCOL_HEADER, Recorder, engine_with, frames, opened

CLOSE = frame.marshal(commands.Connection.Close(200, "bye", 0, 0), 0)
CLOSE_OK = frame.marshal(commands.Connection.CloseOk(), 0)
TUNE_OK = frame.marshal(commands.Connection.TuneOk(10, 8192, 5), 0)
OPEN = frame.marshal(commands.Connection.Open("/"), 0)


def start_ok(mechanism: str = "PLAIN", properties: dict[str, Any] | None = None) -> bytes:
    return frame.marshal(
        commands.Connection.StartOk(CAPABLE if properties is None else properties, mechanism, "\0u\0p", "en_US"), 0
    )


def reached(state: ConnectionState) -> tuple[ConnectionEngine, Recorder]:
    handler = Recorder()
    engine = engine_with(handler)
    for data in (PROTOCOL_HEADER, start_ok(), TUNE_OK, OPEN):
        if engine.state is not state:
            engine.receive(data)
    assert engine.state is state
    engine.take_output()
    return engine, handler


def test_the_handshake_step_by_step() -> None:
    handler = Recorder()
    engine = engine_with(handler, channel_max=100, frame_max=10_000, heartbeat=30)
    engine.receive(PROTOCOL_HEADER)
    ((_, start),) = frames(engine)
    assert (start.version_major, start.version_minor) == (0, 9)
    assert (start.mechanisms, start.locales) == ("PLAIN AMQPLAIN", "en_US")
    assert start.server_properties == {"product": "Annulet", "capabilities": dict.fromkeys(CAPABILITIES, True)}
    engine.receive(start_ok())
    ((_, tune),) = frames(engine)
    assert (tune.channel_max, tune.frame_max, tune.heartbeat) == (100, 10_000, 30)
    engine.receive(TUNE_OK)
    assert engine.take_output() == []
    assert (engine.channel_max, engine.frame_max, engine.heartbeat_interval) == (10, 8192, 5)
    engine.receive(OPEN)
    assert [method.name for _, method in frames(engine)] == ["Connection.OpenOk"]
    assert handler.calls == [
        ("authenticate", "PLAIN", b"\0u\0p", CAPABLE),
        ("open_virtual_host", "/"),
        ("connection_opened",),
    ]
    assert (engine.user, engine.virtual_host, engine.running) == ("guest", "/", True)
    assert engine.capabilities == CAPABLE["capabilities"]


@pytest.mark.parametrize(
    ("proposal", "code"),
    [
        ((10, 4096, 0), 0),
        ((1, 131072, 65535), 0),
        ((2047, 131072, 60), 0),
        ((0, 8192, 60), 530),
        ((2048, 8192, 60), 530),
        ((10, 4095, 60), 530),
        ((10, 0, 60), 530),
        ((10, 131073, 60), 530),
    ],
)
def test_tune_ok_may_lower_but_not_raise(proposal: tuple[int, int, int], code: int) -> None:
    engine, handler = reached(ConnectionState.TUNING)
    engine.receive(frame.marshal(commands.Connection.TuneOk(*proposal), 0))
    if not code:
        assert (engine.channel_max, engine.frame_max, engine.heartbeat_interval) == proposal
        assert engine.state is ConnectionState.OPENING
        return
    ((_, close),) = frames(engine)
    assert (close.reply_code, close.class_id, close.method_id) == (530, 10, 31)
    assert close.reply_text.startswith("NOT_ALLOWED - negotiated ")
    assert engine.closed
    assert len(handler.named("connection_closed")) == 1


def test_a_refused_user_is_told_when_the_client_understands() -> None:
    for properties, told in ((CAPABLE, True), ({}, False), ({"capabilities": "odd"}, False)):
        handler = Recorder()
        handler.user = None
        engine = engine_with(handler)
        engine.receive(PROTOCOL_HEADER)
        engine.take_output()
        engine.receive(start_ok(properties=properties))
        assert [method.reply_code for _, method in frames(engine)] == ([403] if told else [])
        assert engine.closed
        assert handler.calls[-1][:2] == ("connection_closed", 403)


def test_an_unknown_mechanism_and_a_refused_virtual_host() -> None:
    engine, handler = reached(ConnectionState.STARTING)
    engine.receive(start_ok("CRAM-MD5"))
    assert [method.reply_code for _, method in frames(engine)] == [503]
    assert handler.named("authenticate") == []
    engine, handler = reached(ConnectionState.OPENING)
    handler.failures["open_virtual_host"] = ConnectionFault(530, "vhost / not found")
    engine.receive(OPEN)
    ((_, close),) = frames(engine)
    assert (close.reply_code, close.reply_text) == (530, "NOT_ALLOWED - vhost / not found")
    assert (close.class_id, close.method_id, engine.closed) == (10, 40, True)
    assert handler.named("connection_opened") == []


@pytest.mark.parametrize(
    ("state", "data"),
    [
        (ConnectionState.STARTING, TUNE_OK),
        (ConnectionState.STARTING, OPEN),
        (ConnectionState.STARTING, CLOSE_OK),
        (ConnectionState.STARTING, frame.marshal(commands.Connection.SecureOk("x"), 0)),
        (ConnectionState.TUNING, start_ok()),
        (ConnectionState.TUNING, OPEN),
        (ConnectionState.OPENING, TUNE_OK),
        (ConnectionState.OPENING, frame.marshal(commands.Channel.Open(), 0)),
        (ConnectionState.OPEN, start_ok()),
        (ConnectionState.OPEN, CLOSE_OK),
    ],
)
def test_methods_out_of_turn_are_504(state: ConnectionState, data: bytes) -> None:
    engine, handler = reached(state)
    engine.receive(data)
    assert [method.reply_code for _, method in frames(engine)] == [504]
    assert len(handler.named("connection_closed")) == 1
    assert engine.closed is (state is not ConnectionState.OPEN)


@pytest.mark.parametrize(
    "state", [ConnectionState.STARTING, ConnectionState.TUNING, ConnectionState.OPENING, ConnectionState.OPEN]
)
def test_the_peer_may_close_at_any_time(state: ConnectionState) -> None:
    engine, handler = reached(state)
    engine.receive(CLOSE)
    assert [method.name for _, method in frames(engine)] == ["Connection.CloseOk"]
    assert engine.closed
    assert handler.calls[-1] == ("connection_closed", 200, "bye", True)


@pytest.mark.parametrize("answer", [CLOSE, CLOSE_OK])
def test_our_close_waits_for_the_answer_and_discards_the_rest(answer: bytes) -> None:
    engine, handler = opened(channels=3)
    engine.close_connection(320, "shutdown")
    engine.close_connection(541, "again")
    assert handler.calls == [
        ("close_channel", 1),
        ("close_channel", 2),
        ("close_channel", 3),
        ("connection_closed", 320, "shutdown", False),
    ]
    ((_, close),) = frames(engine)
    assert (close.reply_code, close.reply_text) == (320, "CONNECTION_FORCED - shutdown")
    engine.receive(frame.marshal(commands.Queue.Declare(queue="q"), 1) + frame.marshal(commands.Channel.Open(), 9))
    engine.send_confirm(1, 1, multiple=False)
    engine.heartbeat()
    assert (engine.take_output(), engine.closed) == ([], False)
    engine.receive(answer)
    assert engine.closed
    assert [method.name for _, method in frames(engine)] == (["Connection.CloseOk"] if answer is CLOSE else [])
    assert len(handler.calls) == 4


@pytest.mark.parametrize(("code", "name"), sorted(REPLY_NAMES.items()))
def test_every_reply_code_closes_with_its_name(code: int, name: str) -> None:
    engine, _ = opened()
    engine.close_connection(code, "why", 60, 40)
    ((_, close),) = frames(engine)
    text = "why" if code == 200 else f"{name} - why"
    assert (close.reply_code, close.reply_text, close.class_id, close.method_id) == (code, text, 60, 40)


def test_blocked_and_unblocked_go_only_to_those_who_understand() -> None:
    engine, _ = opened()
    engine.send_blocked("low on memory" * 100)
    engine.send_unblocked()
    first, second = (method for _, method in frames(engine))
    assert (first.name, second.name) == ("Connection.Blocked", "Connection.Unblocked")
    assert first.reason.startswith("low on memory")
    engine.capabilities = {}
    engine.send_blocked("low on memory")
    engine.send_unblocked()
    assert engine.take_output() == []


def test_a_new_secret_is_answered() -> None:
    engine, handler = opened()
    engine.receive(frame.marshal(commands.Connection.UpdateSecret("new", "expired"), 0))
    assert [method.name for _, method in frames(engine)] == ["Connection.UpdateSecretOk"]
    assert handler.calls == [("update_secret", b"new", "expired")]
