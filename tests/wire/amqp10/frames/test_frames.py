from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annulet.wire.amqp10.frames.frames import (
    AMQP_HEADER,
    FRAME_AMQP,
    FRAME_HEADER_OCTETS,
    FRAME_SASL,
    HEARTBEAT_FRAME,
    MIN_MAX_FRAME_SIZE,
    PROTOCOL_AMQP,
    PROTOCOL_SASL,
    PROTOCOL_TLS,
    SASL_HEADER,
    TLS_HEADER,
    encode_frame,
    encode_frame_head,
    next_frame,
)
from annulet.wire.amqp10.types.errors import ConnectionFault, LocalProtocolError


@given(st.sampled_from([FRAME_AMQP, FRAME_SASL]), st.integers(0, 65535), st.binary(max_size=300))
def test_frames_both_ways_whole_and_cut_short(kind: int, channel: int, body: bytes) -> None:
    data = encode_frame(kind, channel, body)
    assert data == encode_frame_head(kind, channel, len(body)) + body
    frame = next_frame(b"before" + data + b"behind", 6, 6 + len(data), 512)
    assert frame is not None
    assert (frame.kind, frame.channel) == (kind, channel if kind == FRAME_AMQP else 0)
    assert (b"before" + data)[frame.start : frame.end] == body
    assert frame.end == 6 + len(data)
    for end in range(len(data)):
        assert next_frame(data, 0, end, 512) is None


def test_a_frame_without_body_is_a_heartbeat() -> None:
    assert encode_frame(FRAME_AMQP, 0, b"") == HEARTBEAT_FRAME
    frame = next_frame(HEARTBEAT_FRAME, 0, 8, 512)
    assert frame is not None
    assert frame.start == frame.end == 8


def test_an_extended_header_is_skipped() -> None:
    data = b"\x00\x00\x00\x11\x04\x00\x00\x05extended!"
    frame = next_frame(data, 0, len(data), 512)
    assert frame is not None
    assert data[frame.start : frame.end] == b"!"


@pytest.mark.parametrize(
    ("octets", "named"),
    [
        ("00000007", "7 octets, allowed are 8 to 512"),
        ("00000201", "513 octets, allowed are 8 to 512"),
        ("ffffffff", "4294967295 octets"),
        ("0000000802020000", "type 2"),
        ("0000000801000000", "data offset 1"),
        ("0000000803000000", "data offset 3 and 8 octets; allowed are 2 to 2"),
        ("00000010ff000000", "data offset 255"),
    ],
)
def test_impossible_frames_are_refused_by_their_header(octets: str, named: str) -> None:
    data = bytes.fromhex(octets)
    with pytest.raises(ConnectionFault, match=named) as raised:
        next_frame(data, 0, len(data), 512)
    assert raised.value.condition == "amqp:connection:framing-error"


def test_frames_up_to_the_limit_are_taken() -> None:
    data = encode_frame(FRAME_AMQP, 1, bytes(MIN_MAX_FRAME_SIZE - FRAME_HEADER_OCTETS))
    assert next_frame(data, 0, len(data), MIN_MAX_FRAME_SIZE) is not None
    with pytest.raises(ConnectionFault):
        next_frame(data, 0, len(data), MIN_MAX_FRAME_SIZE - 1)


@pytest.mark.parametrize(("kind", "channel", "size"), [(2, 0, 0), (0, -1, 0), (0, 65536, 0), (0, 0, 2**32), (0, 0, -1)])
def test_frames_that_do_not_exist_are_not_written(kind: int, channel: int, size: int) -> None:
    with pytest.raises(LocalProtocolError):
        encode_frame_head(kind, channel, size)


def test_protocol_headers() -> None:
    # §2.2, §5.2 and §5.3: name, protocol id, version 1.0.0
    headers = {PROTOCOL_AMQP: AMQP_HEADER, PROTOCOL_TLS: TLS_HEADER, PROTOCOL_SASL: SASL_HEADER}
    for number, header in headers.items():
        assert header == b"AMQP" + bytes((number, 1, 0, 0))
