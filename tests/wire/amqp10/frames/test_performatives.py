from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annulet.wire.amqp10.frames.performatives import (
    Accepted,
    Attach,
    Begin,
    Detach,
    Open,
    Source,
    decode_performative,
    encode_performative,
)
from annulet.wire.amqp10.types.composite import Composite
from annulet.wire.amqp10.types.errors import DecodeError, LocalProtocolError
from tests.wire.amqp10.samples import COMPOSITES, symbols, texts, values

PAYLOAD = b"\x00\x53\x75\xa0\x04body"


@pytest.mark.parametrize("value", COMPOSITES, ids=repr)
def test_frame_bodies_both_ways_with_a_payload_behind(value: Composite) -> None:
    data = encode_performative(value)
    assert decode_performative(b"\xff\xff" + data + PAYLOAD, 2, 2 + len(data + PAYLOAD)) == (value, 2 + len(data))


@pytest.mark.parametrize("value", COMPOSITES, ids=repr)
def test_frame_bodies_cut_short_are_errors_at_each_octet(value: Composite) -> None:
    data = encode_performative(value)
    for end in range(len(data)):
        with pytest.raises(DecodeError):
            decode_performative(data, 0, end)


@pytest.mark.parametrize("value", COMPOSITES, ids=repr)
def test_corrupted_frame_bodies_are_errors_or_other_performatives(value: Composite) -> None:
    data = encode_performative(value)
    generator = random.Random(repr(value))
    for position in range(len(data)):
        changed = bytearray(data)
        changed[position] = generator.randrange(256)
        octets = bytes(changed) + PAYLOAD
        try:
            decoded, stop = decode_performative(octets, 0, len(octets))
        except DecodeError:
            continue
        assert 0 < stop <= len(octets)
        assert isinstance(decoded, Composite)


@pytest.mark.parametrize("code", [code for code in range(256) if not (0x10 <= code <= 0x18 or 0x40 <= code <= 0x44)])
def test_what_is_no_performative_is_refused(code: int) -> None:
    data = b"\x00\x53" + bytes((code,)) + b"\x45"
    with pytest.raises(DecodeError, match=f"frame body at octet 0 has the descriptor 0x{code:02x}"):
        decode_performative(data, 0, len(data))


@pytest.mark.parametrize("data", [b"", b"\x40", b"\x00", b"\x00\x40\x45", b"\x00\xa3\x01a\x45", b"\xa1\x01a"])
def test_what_is_no_described_list_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_performative(data, 0, len(data))


def test_other_things_are_not_encoded() -> None:
    for value in (None, "open", 1):
        with pytest.raises(LocalProtocolError, match="needed is a performative"):
            encode_performative(value)


def test_states_and_termini_are_encoded_as_well() -> None:
    assert encode_performative(Accepted()) == b"\x00\x53\x24\x45"
    assert encode_performative(Source()) == b"\x00\x53\x28\xc0\x0c\x0b" + b"\x40" * 11


def test_vectors_written_by_hand() -> None:
    # §2.7.1: fields in order, null for those left out in between
    data = bytes.fromhex("005310c01206a1016340700000020060000a40a3026465")
    assert decode_performative(data, 0, len(data)) == (Open("c", None, 512, 10, None, ["de"]), len(data))
    data = bytes.fromhex("005311c00a044043700000080052ff")
    assert decode_performative(data, 0, len(data)) == (Begin(None, 0, 2048, 255), len(data))
    assert decode_performative(bytes.fromhex("005316c003024341"), 0, 8)[0] == Detach(0, True)


@given(texts, st.integers(0, 2**32 - 1), st.lists(symbols, max_size=3), st.dictionaries(symbols, values, max_size=3))
def test_opens_of_any_content(name: str, size: int, names: list[str], properties: dict[str, Any]) -> None:
    data = encode_performative(Open(name, name, size, 7, size, [], names, names, [], properties))
    decoded, stop = decode_performative(data + PAYLOAD, 0, len(data) + len(PAYLOAD))
    assert isinstance(decoded, Open)
    assert stop == len(data)
    assert (decoded.container_id, decoded.max_frame_size, decoded.incoming_locales) == (name, size, names)
    assert encode_performative(decoded) == data


@given(st.dictionaries(st.binary(max_size=32), st.just(Accepted()) | st.none(), max_size=4))
def test_attaches_with_any_unsettled_map(unsettled: dict[bytes, Any]) -> None:
    data = encode_performative(Attach("n", 0, False, unsettled=unsettled))
    decoded, _ = decode_performative(data, 0, len(data))
    assert isinstance(decoded, Attach)
    assert decoded.unsettled == unsettled
