from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from annulet.wire.amqp091.connection.body_frame import BodyFrame


@given(st.binary(min_size=1, max_size=40), st.binary(max_size=5), st.lists(st.integers(1, 40), min_size=1, max_size=5))
def test_a_frame_comes_back_whole_and_what_follows_it_is_left(payload: bytes, behind: bytes, cuts: list[int]) -> None:
    octets = payload + b"\xce"
    edges = sorted({min(cut, len(payload)) for cut in cuts})
    frame = BodyFrame()
    frame.begin(7, b"head" + octets[: edges[0]], 4, len(octets) - edges[0])
    for start, stop in pairwise(edges):
        assert frame.add(b"before" + octets[start:stop], 6) == 6 + stop - start
        assert (frame.size, frame.missing) == (stop, len(octets) - stop)
    assert frame.add(octets[edges[-1] :] + behind, 0) == len(octets) - edges[-1]
    assert (frame.number, frame.missing, frame.end, frame.size) == (7, 0, 0xCE, len(payload))
    assert b"".join(frame.take()) == payload
    assert frame.size == 0


def test_the_octet_it_ends_with_is_told_and_is_no_part_of_it() -> None:
    frame = BodyFrame()
    frame.begin(1, b"ab", 0, 2)
    assert frame.add(b"c\x00d", 0) == 2
    assert (frame.missing, frame.end, b"".join(frame.take())) == (0, 0, b"abc")


def test_a_dropped_frame_is_gone() -> None:
    frame = BodyFrame()
    frame.begin(1, b"ab", 0, 2)
    frame.drop()
    assert (frame.size, frame.take()) == (0, [])
