from __future__ import annotations

import os
import random
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import commands, frame

from annulet.wire.amqp091.connection.engine import HELD_OUTPUT_BYTES, ConnectionEngine
from annulet.wire.amqp091.connection.output import encode_destination
from annulet.wire.amqp091.types.constants import FRAME_SIZE_TOLERANCE, INITIAL_FRAME_MAX
from annulet.wire.amqp091.types.errors import ChannelError, ConnectionFault, LocalProtocolError
from tests.wire.amqp091.recorder import (
    PROTOCOL_HEADER,
    Recorder,
    engine_with,
    feed_variants,
    frame_of,
    frames,
    handshake,
    opened,
    publish,
)

if TYPE_CHECKING:
    from collections.abc import Callable

SESSION = b"".join(
    [
        handshake(channels=2),
        frame.marshal(commands.Queue.Declare(queue="q", arguments={"x-max-length": 3}), 1),
        publish(b"first", delivery_mode=2),
        publish(b"second"),
        publish(b""),
        publish(b"x" * 300, channel=2, exchange="other", headers={"a": 1}),
        publish(b"abcdefgh", room=3),
        frame.marshal(commands.Basic.Ack(7, True), 1),
        frame.marshal(commands.Basic.Ack(8), 2),
        frame_of(8, 0, b""),
        frame.marshal(commands.Channel.Close(200, "bye", 0, 0), 1),
        frame.marshal(commands.Connection.Close(200, "bye", 0, 0), 0),
    ]
)


def run(pieces: list[bytes]) -> tuple[list[Any], bytes, bool]:
    handler = Recorder()
    engine = engine_with(handler)
    for piece in pieces:
        engine.receive(piece)
    return handler.calls, b"".join(engine.take_output()), engine.closed


def test_a_session_is_the_same_however_it_is_cut() -> None:
    variants = feed_variants(SESSION)
    calls, output, closed = run(variants["whole"])
    assert closed
    assert [call for call in calls if call[0] == "publish"] == [
        ("publish", 1, "e", "k", False, False, b"\x10\x00\x02", b"first"),
        ("publish", 1, "e", "k", False, False, b"\x00\x00", b"second"),
        ("publish", 1, "e", "k", False, False, b"\x00\x00", b""),
        ("publish", 2, "other", "k", False, False, b"\x20\x00\x00\x00\x00\x04\x01ab\x01", b"x" * 300),
        ("publish", 1, "e", "k", False, False, b"\x00\x00", b"abcdefgh"),
    ]
    for name in ("octets", "pieces"):
        assert run(variants[name]) == (calls, output, closed), name


@given(st.lists(st.integers(1, len(SESSION) - 1), max_size=12))
def test_a_session_is_the_same_in_any_pieces(cuts: list[int]) -> None:
    edges = [0, *sorted(set(cuts)), len(SESSION)]
    pieces = [SESSION[start:stop] for start, stop in pairwise(edges)]
    assert run(pieces) == run([SESSION])


def test_what_follows_the_end_is_ignored() -> None:
    assert run([SESSION + publish(b"late")]) == run([SESSION])
    assert run([SESSION, publish(b"late")]) == run([SESSION])


def test_a_truncated_session_releases_everything_when_the_line_breaks() -> None:
    for size in range(0, len(SESSION), 3):
        handler = Recorder()
        engine = engine_with(handler)
        engine.receive(SESSION[:size])
        engine.connection_lost()
        engine.connection_lost()
        assert len(handler.named("connection_closed")) == 1
        assert sorted(handler.named("open_channel")) == sorted(handler.named("close_channel"))
        assert engine.closed


def test_corrupted_sessions_never_raise_and_release_everything() -> None:
    seed = int(os.environ.get("ANNULET_TEST_SEED", "20240917"))
    print(f"seed {seed}; repeat with ANNULET_TEST_SEED")
    generator = random.Random(seed)
    for _ in range(1500):
        data = bytearray(SESSION)
        for _ in range(generator.randint(1, 4)):
            data[generator.randrange(8, len(data))] = generator.randrange(256)
        handler = Recorder()
        engine = engine_with(handler)
        for start in range(0, len(data), 97):
            engine.receive(bytes(data[start : start + 97]))
            assert engine.unfinished_bytes <= engine.frame_limit + FRAME_SIZE_TOLERANCE + 97
        output = b"".join(engine.take_output())
        while output:
            size, _, _ = frame.unmarshal(output)  # whatever is answered is whole
            output = output[size:]
        engine.connection_lost()
        assert len(handler.named("connection_closed")) == 1
        assert sorted(handler.named("open_channel")) == sorted(handler.named("close_channel"))


@given(st.binary(min_size=1, max_size=80))
def test_noise_on_an_open_connection_never_raises(noise: bytes) -> None:
    engine, handler = opened()
    engine.receive(noise)
    engine.receive(frame_of(1, 1, noise))
    engine.receive(frame_of(2, 1, noise))
    engine.connection_lost()
    assert len(handler.named("connection_closed")) == 1


@pytest.mark.parametrize(
    "start", [b"GET / HTTP/1.1\r\n", b"AMQP\x00\x01\x00\x00", b"AMQP\x03\x01\x00\x00", b"\x16\x03"]
)
def test_a_wrong_protocol_header_is_answered_with_ours(start: bytes) -> None:
    for pieces in feed_variants(start).values():
        handler = Recorder()
        engine = engine_with(handler)
        for piece in pieces:
            engine.receive(piece)
        assert engine.take_output() == [PROTOCOL_HEADER]
        assert engine.closed
        assert len(handler.named("connection_closed")) == 1


def close_code(engine: ConnectionEngine) -> int:
    found = frames(engine)
    assert len(found) == 1, found
    channel, method = found[0]
    assert (channel, method.name) == (0, "Connection.Close")
    return int(method.reply_code)


WRONG_FRAMES = [
    (frame_of(4, 1, b""), 501),
    (frame_of(1, 1, commands.Basic.Qos().marshal())[:-1] + b"\x00", 501),
    (b"\x03\x00\x01\x7f\xff\xff\xff\x00", 501),
    (b"\x03\x00\x01\xff\xff\xff\xff\x00", 501),
    (frame_of(8, 0, b"x"), 501),
    (frame_of(8, 1, b""), 505),
    (frame_of(2, 0, b"\x00\x3c" + b"\0" * 12), 505),
    (frame_of(3, 0, b"x"), 505),
    (frame_of(3, 1, b"x"), 505),
    (frame_of(2, 1, b"\x00\x3c" + b"\0" * 12), 505),
    (frame_of(2, 9, b"\x00\x3c" + b"\0" * 12), 505),
    (frame_of(1, 0, b"\x00\x3c\x00\x0a" + b"\0" * 7), 503),
    (frame_of(1, 1, b"\x00"), 502),
    (frame_of(1, 1, b"\x00\x3c\x00\x0a"), 502),
    (frame_of(1, 1, b"\x00\x3c\x00\xff"), 540),
    (frame_of(1, 1, b"\x00\x63\x00\x0a"), 540),
    (frame.marshal(commands.Basic.QosOk(), 1), 503),
    (frame.marshal(commands.Channel.CloseOk(), 1), 503),
    (frame.marshal(commands.Channel.Open(), 1), 504),
    (frame.marshal(commands.Basic.Qos(), 2), 504),
    (frame.marshal(commands.Basic.Publish(), 2), 504),
    (frame.marshal(commands.Connection.Open("/"), 0), 504),
]


@pytest.mark.parametrize("active", [True, False])
def test_flow_ok_is_read_whenever_it_comes(active: bool) -> None:
    """A client may answer a channel.flow that has been taken back meanwhile."""
    engine, _ = opened()
    engine.receive(frame.marshal(commands.Channel.FlowOk(active), 1))
    assert frames(engine) == []


@pytest.mark.parametrize(("data", "code"), WRONG_FRAMES)
def test_wrong_frames_close_with_the_right_code(data: bytes, code: int) -> None:
    for pieces in feed_variants(data).values():
        engine, handler = opened()
        for piece in pieces:
            engine.receive(piece)
        assert close_code(engine) == code
        assert handler.named("close_channel") == [(1,)]
        assert handler.calls[-1][:2] == ("connection_closed", code)
        assert engine.closed is (code == 501 and data[0] != 8)  # only lost frame boundaries end it without close-ok
        engine.receive(frame.marshal(commands.Basic.Ack(1), 1) + frame.marshal(commands.Connection.CloseOk(), 0))
        assert engine.closed
        assert handler.named("acknowledge") == []


@pytest.mark.parametrize(
    ("excess", "accepted"), [(0, True), (FRAME_SIZE_TOLERANCE, True), (FRAME_SIZE_TOLERANCE + 1, False)]
)
def test_frame_max_at_its_bound(excess: int, accepted: bool) -> None:
    engine, handler = opened(frame_max=4096)
    body = b"x" * (4096 - 8 + excess)
    engine.receive(publish(b"warm"))
    engine.receive(publish(body))
    assert len(handler.named("publish")) == (2 if accepted else 1)
    assert engine.closed is not accepted


def test_before_tuning_frames_are_small() -> None:
    engine = engine_with(Recorder())
    engine.receive(PROTOCOL_HEADER)
    engine.take_output()
    engine.receive(b"\x01\x00\x00" + (INITIAL_FRAME_MAX + 1).to_bytes(4, "big") + b"\x00")
    assert close_code(engine) == 501
    assert engine.limit_hits == {"frame_max": 1}


def test_octets_before_authentication_are_bounded() -> None:
    handler = Recorder()
    engine = engine_with(handler, max_unauthenticated_bytes=1000)
    engine.receive(PROTOCOL_HEADER)
    engine.take_output()
    engine.receive(frame_of(8, 0, b"") * 124)
    assert not engine.closed
    engine.receive(b"\x08")
    assert close_code(engine) == 506
    assert engine.closed
    assert engine.limit_hits == {"max_unauthenticated_bytes": 1}


@pytest.mark.parametrize(
    "options", [{"frame_max": 4095}, {"channel_max": 0}, {"channel_max": 65536}, {"heartbeat": -1}]
)
def test_limits_out_of_range_are_our_own_error(options: dict[str, int]) -> None:
    with pytest.raises(LocalProtocolError, match=next(iter(options))):
        engine_with(Recorder(), **options)


def test_a_defect_of_the_handler_closes_with_541_and_passes() -> None:
    for warm in (False, True):
        engine, handler = opened()
        if warm:
            engine.receive(publish(b"warm"))
        handler.failures["publish"] = ZeroDivisionError()
        with pytest.raises(ZeroDivisionError):
            engine.receive(publish(b"x"))
        assert close_code(engine) == 541
        assert len(handler.named("connection_closed")) == 1


@pytest.mark.parametrize("warm", [False, True])
def test_errors_on_the_hot_and_on_the_general_path_are_the_same(warm: bool) -> None:
    engine, handler = opened(channels=2)
    if warm:
        engine.receive(publish(b"warm"))
    handler.calls.clear()
    handler.failures["publish"] = ChannelError(404, "no exchange 'e' in vhost '/'")
    engine.receive(publish(b"x") * 3 + publish(b"y", channel=2))
    (first, close), (second, other) = frames(engine)
    assert (first, close.name, close.reply_code, close.class_id, close.method_id) == (1, "Channel.Close", 404, 60, 40)
    assert close.reply_text == "NOT_FOUND - no exchange 'e' in vhost '/'"
    assert (second, other.name) == (2, "Channel.Close")
    assert handler.named("close_channel") == [(1,), (2,)]
    assert len(handler.named("publish")) == 2
    handler.failures = {"acknowledge": ConnectionFault(541, "no more")}
    engine.receive(frame.marshal(commands.Channel.CloseOk(), 1) + frame.marshal(commands.Channel.Open(), 1))
    frames(engine)
    engine.receive(frame.marshal(commands.Basic.Ack(1), 1) * 2)
    assert close_code(engine) == 541
    assert len(handler.named("acknowledge")) == 1


def test_the_hot_path_stops_when_the_handler_closes() -> None:
    engine, handler = opened()
    engine.receive(publish(b"warm"))
    handler.actions["publish"] = lambda: engine.close_connection(320, "shutdown")
    engine.receive(publish(b"x") * 5)
    assert len(handler.named("publish")) == 2
    assert close_code(engine) == 320


def test_receiving_is_noted_for_heartbeats() -> None:
    engine, _ = opened()
    engine.received_since_check = False
    engine.receive(b"\x08")
    assert engine.received_since_check
    engine.output.heartbeat()
    assert engine.output_size == 8
    assert engine.take_output() == [b"\x08\x00\x00\x00\x00\x00\x00\xce"]


@pytest.mark.parametrize("traced", [False, True])
def test_input_waits_while_nobody_takes_what_it_asked_for(traced: bool) -> None:
    engine, handler = opened()
    body = b"x" * (HELD_OUTPUT_BYTES // 4)

    def held() -> bool:
        return engine.holding

    handler.actions["get"] = lambda: engine.output.send_get_ok(
        1, 1, False, encode_destination("", "q"), 0, b"\0\0", body
    )
    if traced:
        engine.output.trace = [].append
    gets = [frame.marshal(commands.Basic.Get(0, f"q{number}", True), 1) for number in range(10)]
    engine.receive(b"".join(gets))
    assert len(handler.named("get")) == 4
    assert held()
    engine.receive(gets[0])  # what comes meanwhile waits too, in its order
    engine.go_on()
    assert len(handler.named("get")) == 4
    for expected in (8, 11):
        engine.take_output()
        engine.go_on()
        assert len(handler.named("get")) == expected
    assert not held()
    assert engine.limit_hits == {"held_output_bytes": 2}
    assert [call[1] for call in handler.named("get")] == [*(f"q{number}" for number in range(10)), "q0"]
    engine.take_output()
    engine.receive(gets[1])
    assert len(handler.named("get")) == 12


# ---------------------------------------------------------------------- body frames in pieces

BODY = bytes(range(256)) * 4
UNFINISHED = publish(BODY)  # a frame of method, header and body each
BODY_FRAME = len(UNFINISHED) - len(BODY) - 8  # where that of the body begins


def outcome(data: bytes, cuts: list[int], meanwhile: Callable[[ConnectionEngine], None], *, traced: bool) -> list[Any]:
    """Return what the handler and the peer saw, the frames that were traced, and what is unfinished then."""
    engine, handler = opened(channels=2)
    lines: list[str] = []
    if traced:
        engine.output.trace = lines.append
    edges = [0, *cuts, len(data)]
    for start, stop in pairwise(edges):
        engine.receive(data[start:stop])
        if stop == len(data) - 1:
            meanwhile(engine)  # only the end octet of the last frame is missing
    return [handler.calls, b"".join(engine.take_output()), lines, engine.closed, engine.unfinished_bytes]


def nothing(engine: ConnectionEngine) -> None:
    assert not engine.closed


ENDINGS: dict[str, tuple[bytes, Callable[[ConnectionEngine], None]]] = {
    "complete": (UNFINISHED, nothing),
    "wrong end": (UNFINISHED[:-1] + b"\xcd", nothing),
    "more than announced": (UNFINISHED[:BODY_FRAME] + frame_of(3, 1, BODY + b"x"), nothing),
    "two frames, the last one in pieces": (publish(BODY, room=1000), nothing),
    "a part of the body": (UNFINISHED[:BODY_FRAME] + frame_of(3, 1, BODY[:-1]), nothing),
    "a channel that is not open": (frame_of(3, 9, BODY), nothing),
    "no content is awaited": (frame_of(3, 2, BODY), nothing),
    "the channel was closed": (
        UNFINISHED,
        lambda engine: engine.channel_table.close_channel_with_error(1, 404, "", 0, 0),
    ),
    "the connection closes": (UNFINISHED, lambda engine: engine.close_connection(320, "bye")),
    "the line broke": (UNFINISHED, lambda engine: engine.connection_lost()),
}


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_body_frame_in_pieces_is_what_it_is_whole(ending: str, traced: bool) -> None:
    data, meanwhile = ENDINGS[ending]
    last = len(data) - 1
    body = data.rindex(b"\x03\x00", 0, data.rindex(BODY[-200:-1]))  # the last body frame
    whole = outcome(data, [last] if meanwhile is not nothing else [], meanwhile, traced=traced)
    for cuts in (
        [body + 9, last],
        [last - 1, last],
        [body + 7, body + 8, last],
        [body + 8, body + 500, last],
        list(range(body, last + 1)),
    ):
        assert outcome(data, cuts, meanwhile, traced=traced) == whole, cuts


def test_pieces_of_a_body_frame_are_unfinished_octets() -> None:
    engine, handler = opened()
    engine.receive(UNFINISHED[: BODY_FRAME + 7 + 1000])
    assert engine.unfinished_bytes == 1000
    engine.receive(UNFINISHED[BODY_FRAME + 7 + 1000 : -1])
    assert engine.unfinished_bytes == len(BODY)
    engine.receive(UNFINISHED[-1:] + UNFINISHED[:3])
    assert engine.unfinished_bytes == 3
    assert [call[-1] for call in handler.named("publish")] == [BODY]


def test_input_behind_a_body_frame_waits_while_it_rests() -> None:
    engine, handler = opened()
    engine.receive(UNFINISHED[:-500])
    engine.rest()
    engine.receive(UNFINISHED[-500:] + UNFINISHED)
    assert handler.named("publish") == []
    engine.resting = False
    engine.go_on()
    assert [call[-1] for call in handler.named("publish")] == [BODY, BODY]
