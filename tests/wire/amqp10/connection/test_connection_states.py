from __future__ import annotations

from typing import Any

import pytest

from annulet.wire.amqp10.connection.states import ConnectionState
from annulet.wire.amqp10.frames.frames import AMQP_HEADER, FRAME_SASL, SASL_HEADER, TLS_HEADER, encode_frame
from annulet.wire.amqp10.frames.limits import MAX_DESCRIPTION_OCTETS, MIN_REMOTE_IDLE_TIME_OUT
from annulet.wire.amqp10.frames.performatives import Close, End, Error, Flow, Open
from annulet.wire.amqp10.frames.sasl import SaslChallenge, SaslInit, SaslMechanisms, SaslOutcome, SaslResponse
from annulet.wire.amqp10.types import conditions
from annulet.wire.amqp10.types.errors import ConnectionFault, LinkFault, LocalProtocolError, SessionFault
from tests.wire.amqp10.recorder import (
    Recorder,
    attach_sender,
    begin,
    condition_of,
    engine_with,
    feed_variants,
    frame,
    frames,
    linked,
    login,
    open_frame,
    opened,
    sasl_frame,
    sent,
    transfer,
)


def letting_in(handler: Recorder) -> None:
    handler.actions["sasl_init"] = lambda *_: handler.engine.sasl_outcome(0)  # type: ignore[union-attr]


@pytest.mark.parametrize("way", ["whole", "octets", "pieces"])
def test_pipelined_login_open_and_close_are_answered_in_order(way: str) -> None:
    handler = Recorder()
    letting_in(handler)
    engine = engine_with(handler)
    for part in feed_variants(login() + open_frame(hostname="vhost") + frame(Close()))[way]:
        engine.receive(part)
    kinds = [item if isinstance(item, bytes) else type(item) for _, item in frames(engine)]
    assert kinds == [SASL_HEADER, SaslMechanisms, SaslOutcome, AMQP_HEADER, Open, Close]
    assert handler.order() == ["sasl_mechanisms", "sasl_init", "connection_opened", "connection_closed"]
    assert handler.named("connection_closed") == [("", "", True)]
    assert engine.closed
    assert engine.hostname == "vhost"


@pytest.mark.parametrize("way", ["whole", "octets"])
def test_input_waits_while_a_login_is_looked_at(way: str) -> None:
    handler = Recorder()
    engine = engine_with(handler)
    for part in feed_variants(login() + open_frame())[way]:
        engine.receive(part)
    assert not engine.authenticated
    assert "connection_opened" not in handler.order()
    engine.sasl_outcome(0)
    assert engine.opened
    assert handler.order()[-1] == "connection_opened"


def test_challenge_and_response() -> None:
    handler = Recorder()
    engine = engine_with(handler)
    engine.receive(SASL_HEADER + sasl_frame(SaslInit("PLAIN", b"a", "host")))
    assert handler.named("sasl_init") == [("PLAIN", b"a", "host")]
    engine.sasl_challenge(b"what")
    engine.receive(sasl_frame(SaslResponse(b"that")))
    assert handler.named("sasl_response") == [(b"that",)]
    engine.sasl_outcome(0, b"proof")
    engine.receive(AMQP_HEADER)
    assert engine.state is ConnectionState.AWAITING_OPEN
    assert engine.hostname == "host"


def test_challenge_and_outcome_are_what_the_owner_gave() -> None:
    handler = Recorder()
    engine = engine_with(handler)
    engine.receive(SASL_HEADER + sasl_frame(SaslInit("PLAIN")))
    engine.sasl_challenge(b"what")
    engine.receive(sasl_frame(SaslResponse(b"that")))
    engine.sasl_outcome(0, b"proof")
    assert [item for _, item in frames(engine)][2:] == [SaslChallenge(b"what"), SaslOutcome(0, b"proof")]


@pytest.mark.parametrize("code", [1, 2, 3, 4])
def test_a_failed_login_ends_the_connection(code: int) -> None:
    handler = Recorder()
    engine = engine_with(handler)
    engine.receive(login() + open_frame())
    engine.sasl_outcome(code)
    assert [item for _, item in frames(engine)][-1] == SaslOutcome(code)
    assert engine.closed
    assert handler.named("connection_closed")[0][0] == conditions.UNAUTHORIZED_ACCESS
    engine.sasl_outcome(0)  # the owner's answer may come after the end
    assert not engine.opened


def test_the_owner_answers_a_login_once_and_with_a_code_of_the_standard() -> None:
    engine = engine_with(Recorder())
    with pytest.raises(LocalProtocolError, match="sasl_outcome while awaiting_header"):
        engine.sasl_outcome(0)
    with pytest.raises(LocalProtocolError, match="SASL outcome 5"):
        engine.sasl_outcome(5)


@pytest.mark.parametrize(
    ("data", "condition"),
    [
        (sasl_frame(SaslResponse(b"")), conditions.ILLEGAL_STATE),
        (sasl_frame(SaslOutcome(0)), conditions.ILLEGAL_STATE),
        (open_frame(), conditions.CONNECTION_FRAMING_ERROR),
        (encode_frame(FRAME_SASL, 0, b"\x00\x53\x41\xc0"), conditions.DECODE_ERROR),
        (encode_frame(FRAME_SASL, 0, bytes(505)), conditions.CONNECTION_FRAMING_ERROR),
    ],
)
def test_a_wrong_frame_of_a_login_ends_the_connection_without_a_close(data: bytes, condition: str) -> None:
    handler = Recorder()
    engine = engine_with(handler)
    engine.receive(SASL_HEADER + data)
    assert engine.closed
    assert [type(item) for _, item in frames(engine)] == [bytes, SaslMechanisms]
    assert handler.named("connection_closed")[0][0] == condition


def test_a_mechanism_that_was_not_offered_fails_the_login() -> None:
    handler = Recorder()
    engine = engine_with(handler)
    engine.receive(SASL_HEADER + sasl_frame(SaslInit("GSSAPI")))
    assert [item for _, item in frames(engine)][-1] == SaslOutcome(1)
    assert engine.closed
    assert handler.order() == ["sasl_mechanisms", "connection_closed"]


def test_a_sasl_frame_of_512_octets_is_taken() -> None:
    handler = Recorder()
    engine = engine_with(handler)
    size = len(sasl_frame(SaslInit("PLAIN", bytes(200))))
    data = sasl_frame(SaslInit("PLAIN", bytes(200), "h" * (512 - size - 2)))
    data = sasl_frame(SaslInit("PLAIN", bytes(200), "h" * (512 - size - 2 + 512 - len(data))))
    assert len(data) == 512
    engine.receive(SASL_HEADER + data)
    assert len(handler.named("sasl_init")) == 1


@pytest.mark.parametrize("wrong", [b"HTTP/1.1", b"AMQP\x00\x00\x09\x01", TLS_HEADER, b"AMQP\x00\x01\x00\x01", b"GET"])
def test_a_wrong_header_is_answered_with_the_right_one(wrong: bytes) -> None:
    for require, right in ((True, SASL_HEADER), (False, AMQP_HEADER)):
        handler = Recorder()
        engine = engine_with(handler, require_sasl=require)
        engine.receive(wrong)
        assert b"".join(engine.take_output()) == right
        assert engine.closed
        assert len(handler.named("connection_closed")) == 1


def test_skipping_sasl_needs_leave() -> None:
    for allowed in (False, True):
        handler = Recorder()
        handler.anonymous = allowed
        engine = engine_with(handler)
        engine.receive(AMQP_HEADER + open_frame())
        assert engine.opened is allowed
        assert b"".join(engine.take_output())[:8] == (AMQP_HEADER if allowed else SASL_HEADER)
        assert len(handler.named("anonymous_allowed")) == 1


def test_a_second_sasl_header_is_refused() -> None:
    handler = Recorder()
    letting_in(handler)
    engine = engine_with(handler)
    engine.receive(login()[:-8] + SASL_HEADER)
    assert engine.closed


@pytest.mark.parametrize("extra", [0, 1])
def test_octets_before_authentication_are_bounded(extra: int) -> None:
    handler = Recorder()
    engine = engine_with(handler, max_unauthenticated_bytes=200)
    engine.receive(login())
    for _ in range(200 - len(login()) + extra):
        engine.receive(b"x")
    assert engine.closed is bool(extra)
    assert engine.limit_hits == ({"max_unauthenticated_bytes": 1} if extra else {})


def test_our_open_tells_our_limits_and_leaves_before_the_owner_is_told() -> None:
    handler = Recorder()
    engine = engine_with(
        handler, require_sasl=False, max_frame_size=4096, channel_max=7, idle_time_out=5000, properties={"product": "A"}
    )
    handler.actions["connection_opened"] = lambda _: engine.close("amqp:not-allowed", "no such host")
    engine.receive(AMQP_HEADER + open_frame(idle_time_out=30000))
    answers = [item for _, item in frames(engine)]
    own = answers[1]
    assert (own.container_id, own.max_frame_size, own.channel_max, own.idle_time_out) == ("annulet", 4096, 7, 5000)
    assert own.properties == {"product": "A"}
    assert answers[2].error.condition == "amqp:not-allowed"
    assert engine.remote_idle_time_out == 30000
    assert engine.remote_open is not None


def test_what_is_too_large_for_the_peer_is_left_out_of_our_open() -> None:
    engine = engine_with(Recorder(), require_sasl=False, properties={"product": "A" * 600})
    engine.receive(AMQP_HEADER + open_frame(max_frame_size=512))
    assert sent(engine, Open)[0].properties == {}
    assert engine.opened


@pytest.mark.parametrize(
    ("fields", "condition"),
    [
        ({"max_frame_size": 511}, conditions.FRAME_SIZE_TOO_SMALL),
        ({"idle_time_out": MIN_REMOTE_IDLE_TIME_OUT - 1}, conditions.INVALID_FIELD),
    ],
)
def test_an_open_that_asks_for_too_little_is_refused_after_ours(fields: dict[str, Any], condition: str) -> None:
    engine = engine_with(Recorder(), require_sasl=False)
    engine.receive(AMQP_HEADER + open_frame(**fields))
    answers = [item for _, item in frames(engine)]
    assert isinstance(answers[1], Open)
    assert answers[2].error.condition == condition


@pytest.mark.parametrize(
    "fields", [{"max_frame_size": 512}, {"idle_time_out": MIN_REMOTE_IDLE_TIME_OUT}, {"idle_time_out": 0}]
)
def test_an_open_at_the_bound_is_taken(fields: dict[str, Any]) -> None:
    engine = engine_with(Recorder(), require_sasl=False)
    engine.receive(AMQP_HEADER + open_frame(**fields))
    assert engine.opened


@pytest.mark.parametrize("data", [begin(), frame(Close()), frame(Flow()), transfer()])
def test_nothing_may_come_before_open_and_open_precedes_close(data: bytes) -> None:
    engine = engine_with(Recorder(), require_sasl=False)
    engine.receive(AMQP_HEADER + data)
    answers = [item for _, item in frames(engine)]
    assert [type(item) for item in answers] == [bytes, Open, Close]
    assert answers[2].error.condition == conditions.ILLEGAL_STATE


def test_a_second_open_is_an_error() -> None:
    engine, _ = opened()
    engine.receive(open_frame())
    assert condition_of(engine, Close) == conditions.ILLEGAL_STATE


def test_after_our_close_all_is_discarded_until_the_peers() -> None:
    engine, handler = linked()
    engine.close("amqp:connection:forced", "going down")
    assert engine.state is ConnectionState.DISCARDING
    assert [type(item) for _, item in frames(engine)] == [Close]
    before = handler.order()
    engine.receive(transfer() + begin(1))
    engine.receive(encode_frame(0, 0, b"\x00\x53\x14\xff"))  # not even right
    assert handler.order() == before
    assert not engine.closed
    engine.receive(frame(Close()) + b"never read")
    assert engine.closed
    assert engine.take_output() == []


def test_a_plain_close_of_ours_waits_for_the_peers() -> None:
    engine, handler = opened()
    engine.close()
    engine.close("amqp:internal-error", "twice")
    assert engine.state is ConnectionState.CLOSE_SENT
    assert sent(engine, Close) == [Close()]
    engine.receive(frame(Close()))
    assert engine.closed
    assert handler.named("connection_closed") == [("", "", False)]


def test_the_peers_error_reaches_the_owner_after_links_and_sessions() -> None:
    engine, handler = linked()
    engine.receive(frame(Close(Error("amqp:internal-error", "bad day"))))
    assert handler.order() == ["detached", "detached", "session_ended", "connection_closed"]
    assert handler.named("connection_closed") == [("amqp:internal-error", "bad day", True)]
    assert sent(engine, Close) == [Close()]


def test_a_lost_connection_releases_everything_once() -> None:
    engine, handler = linked()
    engine.connection_lost("reset")
    engine.connection_lost("again")
    engine.receive(transfer())
    assert handler.order() == ["detached", "detached", "session_ended", "connection_closed"]
    assert all(not options["closed"] and options["by_peer"] for options in handler.options("detached"))
    assert engine.take_output() == []


def test_a_defect_of_the_owner_closes_and_passes() -> None:
    engine, handler = linked()
    handler.failures["delivery"] = ZeroDivisionError("defect")
    with pytest.raises(ZeroDivisionError):
        engine.receive(transfer() + transfer(1))
    assert condition_of(engine, Close) == conditions.INTERNAL_ERROR
    assert handler.order() == ["delivery", "detached", "detached", "session_ended", "connection_closed"]


def test_an_owner_that_fails_while_it_is_told_the_end_is_told_the_rest() -> None:
    engine, handler = linked()
    handler.failures["detached"] = ZeroDivisionError("defect")
    with pytest.raises(ZeroDivisionError):
        engine.receive(frame(Close()))
    handler.failures.clear()
    engine.connection_lost()
    assert handler.order().count("detached") == 2
    assert handler.order()[-2:] == ["session_ended", "connection_closed"]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ConnectionFault("amqp:not-allowed", "no"), Close),
        (SessionFault("amqp:not-allowed", "no"), End),
        (LinkFault("amqp:not-allowed", "no"), End),
    ],
)
def test_what_the_owner_raises_closes_what_it_names(error: Exception, kind: type[Any]) -> None:
    engine, handler = opened()
    handler.failures["session_began"] = error
    engine.receive(begin())
    assert condition_of(engine, kind) == "amqp:not-allowed"


def test_a_long_description_is_cut_to_the_smallest_frame() -> None:
    engine, _ = opened(open_fields={"max_frame_size": 512})
    engine.close("amqp:internal-error", "ü" * 5000)
    error = sent(engine, Close)[0].error
    assert error.description == "ü" * (MAX_DESCRIPTION_OCTETS // 2)


def test_nothing_follows_a_close_whatever_the_owner_does_when_told() -> None:
    engine, handler = linked()
    handler.actions["detached"] = lambda link, **_: engine.credit.grant_credit(handler.links["in"], 5)
    handler.actions["session_ended"] = engine.endpoints.end_session
    engine.receive(attach_sender("other", 5) + frame(Close()))
    assert [type(item) for _, item in frames(engine)][-1] is Close
