from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annulet.wire.amqp10.frames.link_frames import (
    MAX_DELIVERY_TAG_OCTETS,
    Disposition,
    Flow,
    Transfer,
    read_disposition,
    read_flow,
    read_state,
    read_transfer,
)
from annulet.wire.amqp10.frames.outcomes import (
    Accepted,
    DeliveryState,
    Modified,
    Received,
    Released,
    TransactionalState,
)
from annulet.wire.amqp10.types.composite import Composite, decode_composite
from annulet.wire.amqp10.types.composite_encoding import encode_composite
from annulet.wire.amqp10.types.errors import DecodeError

READERS = {Transfer: read_transfer, Disposition: read_disposition, Flow: read_flow}

numbers = st.integers(0, 2**32 - 1)
optional = st.none() | numbers
states = st.sampled_from(
    [None, Accepted(), Released(), Modified(True), Received(1, 2), TransactionalState(b"t", Accepted())]
)
flows = st.builds(
    Flow, optional, numbers, numbers, numbers, optional, optional, optional, optional, st.booleans(), st.booleans(),
    st.dictionaries(st.sampled_from(["a", "b"]), st.integers(0, 9), max_size=2),
)  # fmt: skip
transfers = st.builds(
    Transfer, numbers, optional, st.none() | st.binary(max_size=MAX_DELIVERY_TAG_OCTETS), optional,
    st.none() | st.booleans(), st.booleans(), st.sampled_from([None, 0, 1]), states, st.booleans(), st.booleans(),
    st.booleans(),
)  # fmt: skip
dispositions = st.builds(Disposition, st.booleans(), numbers, optional, st.booleans(), states, st.booleans())
frames = flows | transfers | dispositions


@given(frames)
def test_the_short_way_reads_what_the_tables_read(value: Composite) -> None:
    data = encode_composite(value)
    assert READERS[type(value)](data + b"more", 3, len(data) + 4) == (value, len(data))  # type: ignore[index]
    assert decode_composite(data, 0, len(data)) == (value, len(data))


@given(frames, st.integers(0, 2**32))
def test_the_short_way_refuses_what_the_tables_refuse(value: Composite, seed: int) -> None:
    data = bytearray(encode_composite(value))
    generator = random.Random(seed)
    for _ in range(20):
        octets = bytearray(data)
        octets[generator.randrange(3, len(octets))] = generator.randrange(256)
        end = generator.choice([len(octets), len(octets), generator.randrange(3, len(octets) + 1)])
        results = []
        for reader, start in ((decode_composite, 0), (READERS[type(value)], 3)):  # type: ignore[index]
            try:
                results.append(repr(reader(bytes(octets), start, end)))
            except DecodeError as error:
                results.append(str(error))
        assert results[0] == results[1]


@pytest.mark.parametrize("kind", [Transfer, Disposition, Flow])
def test_missing_and_surplus_fields_are_named_alike(kind: type[Composite]) -> None:
    code = {Transfer: 0x14, Disposition: 0x15, Flow: 0x13}[kind]  # type: ignore[index]
    for count in range(13):
        data = b"\x00\x53" + bytes((code, 0xC0, count + 1, count)) + b"\x40" * count
        with pytest.raises(DecodeError) as by_table:
            decode_composite(data, 0, len(data))
        with pytest.raises(DecodeError) as directly:
            READERS[kind](data, 3, len(data))  # type: ignore[index]
        assert str(directly.value) == str(by_table.value)


def test_delivery_tags_up_to_the_limit() -> None:
    data = encode_composite(Transfer(0, 1, b"t" * MAX_DELIVERY_TAG_OCTETS))
    assert read_transfer(data, 3, len(data))[0].delivery_tag == b"t" * MAX_DELIVERY_TAG_OCTETS
    data = b"\x00\x53\x14\xc0\x26\x03\x43\x43\xa0\x21" + b"t" * 33
    with pytest.raises(DecodeError, match=r"transfer\.delivery-tag has 33 octets, at most 32"):
        read_transfer(data, 3, len(data))


def test_states_in_every_encoding() -> None:
    forms = {b"\x00\x53\x24\x45": Accepted(), b"\x00\x53\x24\xc0\x01\x00": Accepted(), b"\x40": None,
             b"\x00\x80\0\0\0\0\0\0\0\x26\x45": Released()}  # fmt: skip
    for data, state in forms.items():
        found: tuple[DeliveryState | None, int] = read_state(b"\xff" + data + b"\xff", 1, len(data) + 1, "x")
        assert found == (state, len(data) + 1)
    with pytest.raises(DecodeError, match="x at octet 0"):
        read_state(b"\x00\x53\x28\x45", 0, 4, "x")
