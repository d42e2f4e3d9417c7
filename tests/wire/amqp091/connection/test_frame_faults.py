from __future__ import annotations

import pytest

from annulet.wire.amqp091.connection.frame_faults import check_channel_zero, end_fault, has_answer, head_fault
from annulet.wire.amqp091.connection.output import FrameWriter
from annulet.wire.amqp091.types.constants import FRAME_OVERHEAD, FRAME_SIZE_TOLERANCE
from annulet.wire.amqp091.types.errors import ConnectionFault


@pytest.mark.parametrize("kind", [1, 2, 3, 8])
def test_frames_up_to_the_limit_are_served(kind: int) -> None:
    output = FrameWriter()
    most = 4096 + FRAME_SIZE_TOLERANCE - FRAME_OVERHEAD
    assert head_fault(output, kind, 1, most, 4096) is None
    assert output.limit_hits == {}
    assert "frame_max is 4096" in str(head_fault(output, kind, 1, most + 1, 4096))
    assert output.limit_hits == {"frame_max": 1}


def test_an_unknown_kind_and_a_wrong_end_are_named() -> None:
    assert head_fault(FrameWriter(), 4, 2, 0, 4096) == "unknown frame type 4 on channel 2; send 1, 2, 3 or 8"
    assert end_fault(3, 7) == "frame on channel 3 ends with octet 7, not with 206"


@pytest.mark.parametrize(
    ("kind", "method", "expected"), [(1, 10, True), (1, 40, False), (1, 80, False), (2, 10, False)]
)
def test_methods_that_are_answered(kind: int, method: int, expected: bool) -> None:
    data = b"x" * 8 + (60 << 16 | method).to_bytes(4, "big")
    assert has_answer(kind, data, 1) is expected


@pytest.mark.parametrize(
    ("kind", "payload", "text"), [(8, b"x", "send none"), (2, b"", "open a channel"), (3, b"", "open a channel")]
)
def test_what_channel_zero_does_not_carry(kind: int, payload: bytes, text: str) -> None:
    with pytest.raises(ConnectionFault, match=text):
        check_channel_zero(kind, payload)


@pytest.mark.parametrize(("kind", "payload"), [(8, b""), (1, b"method")])
def test_what_channel_zero_carries(kind: int, payload: bytes) -> None:
    check_channel_zero(kind, payload)
