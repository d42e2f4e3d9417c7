from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annulet.wire.amqp10.frames.link_frames import Flow
from annulet.wire.amqp10.frames.outcomes import Accepted, Error, Rejected
from annulet.wire.amqp10.frames.performatives import Disposition, Transfer, decode_performative
from annulet.wire.amqp10.frames.shortcuts import (
    ACCEPTED_STATE,
    NULL_STATE,
    encode_disposition,
    encode_flow,
    encode_transfer_head,
)
from annulet.wire.amqp10.types.composite_encoding import encode_composite
from annulet.wire.amqp10.types.errors import LocalProtocolError

numbers = st.sampled_from([0, 1, 255, 256, 2**31 - 1, 2**31, 2**32 - 1]) | st.integers(0, 2**32 - 1)
optional = st.none() | numbers


@given(numbers, numbers, st.binary(max_size=32), numbers, st.booleans(), st.booleans())
def test_transfers(handle: int, number: int, tag: bytes, form: int, settled: bool, more: bool) -> None:
    data = encode_transfer_head(handle, number, tag, form, settled, more)
    expected = Transfer(handle, number, tag, form, settled, more)
    assert decode_performative(data + b"payload", 0, len(data) + 7) == (expected, len(data))
    assert data == encode_composite(expected)


@given(st.booleans(), numbers, numbers, st.booleans(), st.integers(0, 400))
def test_dispositions(role: bool, first: int, last: int, settled: bool, size: int) -> None:
    last_given = None if last == first else last
    for encoded, state in (
        (ACCEPTED_STATE, Accepted()),
        (NULL_STATE, None),
        (encode_composite(Rejected(Error("a", "x" * size))), Rejected(Error("a", "x" * size))),
    ):
        data = encode_disposition(role, first, last, settled, encoded)
        decoded, stop = decode_performative(data, 0, len(data))
        assert isinstance(decoded, Disposition)
        assert stop == len(data)
        assert decoded.last in {last, last_given}
        decoded.last = last
        assert decoded == Disposition(role, first, last, settled, state)


def test_one_delivery_needs_no_last() -> None:
    assert encode_disposition(True, 5, 5, True, ACCEPTED_STATE) == bytes.fromhex("005315c00b0641520540410053244540")


@given(
    st.builds(
        Flow, optional, numbers, numbers, numbers, optional, optional, optional, optional, st.booleans(), st.booleans()
    )
)
def test_flows(flow: Flow) -> None:
    data = encode_flow(flow)
    assert decode_performative(data, 0, len(data)) == (flow, len(data))


def test_the_accepted_state_is_what_it_is_called() -> None:
    assert encode_composite(Accepted()) == ACCEPTED_STATE


def test_numbers_and_tags_are_bounded_at_the_limit() -> None:
    for number in (-1, 2**32):
        with pytest.raises(LocalProtocolError, match=f"{number}, allowed are 0 to 4294967295"):
            encode_transfer_head(0, number, b"", 0, True, False)
        with pytest.raises(LocalProtocolError, match="allowed"):
            encode_disposition(True, number, number, True, ACCEPTED_STATE)
        with pytest.raises(LocalProtocolError, match="allowed"):
            encode_flow(Flow(0, number, 0, 0))
    with pytest.raises(LocalProtocolError, match="33 octets, at most 32"):
        encode_transfer_head(0, 0, b"t" * 33, 0, True, False)
