from __future__ import annotations

from typing import Any

import pytest
from pamqp import commands, frame

from annulet.wire.amqp091.connection.engine import ConnectionEngine
from annulet.wire.amqp091.connection.handler import PENDING
from annulet.wire.amqp091.connection.negotiation import CAPABILITIES
from annulet.wire.amqp091.connection.states import ConnectionState
from annulet.wire.amqp091.types.constants import REPLY_NAMES
from annulet.wire.amqp091.types.errors import ConnectionFault
from tests.wire.amqp091.recorder import CAPABLE, PROTOCOL_HEADER, Recorder, engine_with, feed_variants, frames, opened

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
    assert (engine.channel_table.channel_max, engine.output.frame_max, engine.heartbeat_interval) == (10, 8192, 5)
    engine.receive(OPEN)
    assert [method.name for _, method in frames(engine)] == ["Connection.OpenOk"]
    assert handler.calls == [
        ("authenticate", "PLAIN", b"\0u\0p", CAPABLE),
        ("open_virtual_host", "/"),
        ("connection_opened",),
    ]
    assert (engine.user, engine.virtual_host, engine.running) == ("guest", "/", True)
    assert engine.notices.capabilities == CAPABLE["capabilities"]


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
        assert (engine.channel_table.channel_max, engine.output.frame_max, engine.heartbeat_interval) == proposal
        assert engine.state is ConnectionState.OPENING
        return
    ((_, close),) = frames(engine)
    assert (close.reply_code, close.class_id, close.method_id) == (530, 10, 31)
    assert close.reply_text.startswith("NOT_ALLOWED - negotiated ")
    assert not engine.closed
    engine.receive(CLOSE_OK)
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
    assert (close.class_id, close.method_id, engine.closed) == (10, 40, False)
    engine.receive(CLOSE_OK)
    assert engine.closed
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
    assert engine.closed is (state is ConnectionState.STARTING), "who is authenticated may read the reason"
    engine.receive(CLOSE_OK)
    assert engine.closed


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
    engine.output.send_confirm(1, 1, multiple=False)
    engine.output.heartbeat()
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
    engine.notices.send_blocked("low on memory" * 100)
    engine.notices.send_unblocked()
    first, second = (method for _, method in frames(engine))
    assert (first.name, second.name) == ("Connection.Blocked", "Connection.Unblocked")
    assert first.reason.startswith("low on memory")
    engine.notices.capabilities = {}
    engine.notices.send_blocked("low on memory")
    engine.notices.send_unblocked()
    assert engine.take_output() == []


def test_a_new_secret_is_answered() -> None:
    engine, handler = opened()
    engine.receive(frame.marshal(commands.Connection.UpdateSecret("new", "expired"), 0))
    assert [method.name for _, method in frames(engine)] == ["Connection.UpdateSecretOk"]
    assert handler.calls == [("update_secret", b"new", "expired")]


# ---------------------------------------------------------------------- a check that takes its time


class Checking(Recorder):
    """A handler that owes its answers, and records the responses to challenges."""

    def __init__(self) -> None:
        super().__init__()
        self.user = PENDING
        self.responses: list[bytes] = []

    def __getattribute__(self, name: str) -> Any:
        if name != "respond":
            return super().__getattribute__(name)

        def respond(response: bytes) -> str:
            object.__getattribute__(self, "responses").append(response)
            return PENDING

        return respond


def checking(**options: Any) -> tuple[ConnectionEngine, Checking]:
    handler = Checking()
    engine = engine_with(handler, **options)
    engine.receive(PROTOCOL_HEADER + start_ok())
    assert engine.state is ConnectionState.CHECKING
    engine.take_output()
    return engine, handler


@pytest.mark.parametrize("how", ["whole", "octets", "pieces"])
def test_what_comes_during_a_check_is_served_after_it(how: str) -> None:
    engine, handler = checking()
    for chunk in feed_variants(TUNE_OK + OPEN + OPEN[:5])[how]:
        engine.receive(chunk)
    assert engine.take_output() == []
    assert handler.named("open_virtual_host") == []
    engine.authentication_finished("alice")
    assert [type(method) for _, method in frames(engine)] == [commands.Connection.Tune, commands.Connection.OpenOk]
    assert (engine.user, engine.authenticated, engine.running) == ("alice", True, True)
    engine.receive(OPEN[5:])  # the half frame that waited too is put together
    assert [method.reply_code for _, method in frames(engine)] == [504]


@pytest.mark.parametrize("how", ["whole", "octets"])
def test_challenges_go_back_and_forth(how: str) -> None:
    engine, handler = checking(mechanisms="SCRAM-SHA-256 PLAIN")
    for number in (b"1", b"2"):
        engine.secure(b"challenge " + number)
        assert [method.challenge for _, method in frames(engine)] == ["challenge " + number.decode()]
        assert engine.state is ConnectionState.SECURING
        for chunk in feed_variants(frame.marshal(commands.Connection.SecureOk("response " + number.decode()), 0))[how]:
            engine.receive(chunk)
        assert engine.state is ConnectionState.CHECKING
    assert handler.responses == [b"response 1", b"response 2"]
    engine.authentication_finished("alice")
    assert [type(method) for _, method in frames(engine)] == [commands.Connection.Tune]


def test_an_answer_within_the_call_serves_the_rest_of_the_read_once() -> None:
    handler = Recorder()
    handler.user = PENDING
    engine = engine_with(handler)
    handler.actions["authenticate"] = lambda: engine.authentication_finished("bob")
    engine.receive(PROTOCOL_HEADER + start_ok() + TUNE_OK + OPEN)
    assert [method.name for _, method in frames(engine)] == ["Connection.Start", "Connection.Tune", "Connection.OpenOk"]
    assert handler.named("open_virtual_host") == [("/",)]


def test_a_refusal_after_a_check_and_answers_nobody_owes() -> None:
    engine, handler = checking()
    engine.authentication_finished(None)
    assert [method.reply_code for _, method in frames(engine)] == [403]
    assert engine.closed
    for answer in (lambda: engine.authentication_finished("alice"), lambda: engine.secure(b"x")):
        answer()
        assert engine.take_output() == []
    assert not engine.authenticated
    assert len(handler.named("connection_closed")) == 1


def test_a_connection_lost_during_a_check_stays_lost() -> None:
    engine, handler = checking()
    engine.receive(TUNE_OK)
    engine.connection_lost()
    engine.authentication_finished("alice")
    engine.secure(b"x")
    assert engine.take_output() == []
    assert len(handler.named("connection_closed")) == 1


@pytest.mark.parametrize(("extra", "closed"), [(-1, False), (0, False), (1, True)])
def test_what_waits_for_a_check_is_bounded(extra: int, closed: bool) -> None:
    used = len(PROTOCOL_HEADER + start_ok())
    engine, _ = checking(max_unauthenticated_bytes=used + 1000)
    for _ in range(999 + extra):  # in so many reads that their chunks are joined
        engine.receive(b"\x08")
    engine.receive(b"\x00")
    assert engine.closed is closed
    if closed:
        ((_, close),) = frames(engine)
        assert close.reply_code == 506
        assert "octets before authentication" in close.reply_text


def test_a_defect_in_what_waited_closes_with_541_and_is_raised() -> None:
    engine, handler = checking()
    engine.receive(TUNE_OK + OPEN)
    handler.failures["open_virtual_host"] = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        engine.authentication_finished("alice")
    assert [method.reply_code for _, method in frames(engine)[1:]] == [541]


def test_secure_ok_without_a_challenge_is_out_of_turn() -> None:
    engine, _ = reached(ConnectionState.TUNING)
    engine.receive(frame.marshal(commands.Connection.SecureOk("x"), 0))
    assert [method.reply_code for _, method in frames(engine)] == [504]


def test_the_owner_may_offer_other_mechanisms_before_the_header() -> None:
    engine = engine_with(Recorder())
    engine.mechanisms = "EXTERNAL"
    engine.receive(PROTOCOL_HEADER)
    ((_, start),) = frames(engine)
    assert start.mechanisms == "EXTERNAL"
    engine.receive(start_ok())
    ((_, close),) = frames(engine)
    assert (close.reply_code, "use one of EXTERNAL" in close.reply_text) == (503, True)
