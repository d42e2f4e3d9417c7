from __future__ import annotations

from typing import Any

import pytest

from annulet.wire.amqp10.frames.performatives import (
    Accepted,
    Attach,
    Begin,
    Close,
    Declared,
    Error,
    Modified,
    Open,
    Received,
    Source,
    TransactionalState,
)
from annulet.wire.amqp10.types.composite import (
    MAX_SHOWN,
    STRING,
    Composite,
    CompositeType,
    Field,
    decode_composite,
    decode_nested,
    definition_by_code,
    definition_of,
    list_bounds,
    missing,
    read_descriptor,
)
from annulet.wire.amqp10.types.composite_encoding import encode_composite
from annulet.wire.amqp10.types.errors import DecodeError
from annulet.wire.amqp10.types.values import skip_value
from tests.wire.amqp10.samples import COMPOSITES


@pytest.mark.parametrize("value", COMPOSITES, ids=repr)
def test_composite_values_both_ways(value: Composite) -> None:
    data = encode_composite(value)
    decoded, stop = decode_composite(data + b"trailing", 0, len(data))
    assert (decoded, stop) == (value, len(data))
    assert encode_composite(decoded) == data


@pytest.mark.parametrize("value", COMPOSITES, ids=repr)
def test_composite_values_cut_short_are_errors_at_each_octet(value: Composite) -> None:
    data = encode_composite(value)
    for end in range(len(data)):
        with pytest.raises(DecodeError):
            decode_composite(data, 0, end)


@pytest.mark.parametrize("value", COMPOSITES, ids=repr)
def test_every_form_of_descriptor_and_list_is_read(value: Composite) -> None:
    data = encode_composite(value)
    definition = definition_of(value)
    symbol = f"amqp:{definition.name}:list".encode()
    fields = data[3:]
    count, start, stop = list_bounds(data, 3, len(data), "x")
    wide = b"\xd0" + (stop - start + 4).to_bytes(4, "big") + count.to_bytes(4, "big") + data[start:stop]
    for descriptor in (
        b"\x00\x80" + bytes(7) + bytes((definition.code,)),
        b"\x00\xa3" + bytes((len(symbol),)) + symbol,
        b"\x00\xb3" + len(symbol).to_bytes(4, "big") + symbol,
    ):
        for content in (fields, wide):
            octets = descriptor + content
            assert decode_composite(octets, 0, len(octets)) == (value, len(octets))


@pytest.mark.parametrize("value", COMPOSITES, ids=repr)
def test_one_field_too_many_is_named(value: Composite) -> None:
    definition = definition_of(value)
    most = len(definition.fields)
    fields = b"\x40" * (most + 1)
    data = definition.descriptor + bytes((0xC0, len(fields) + 1, most + 1)) + fields
    with pytest.raises(DecodeError, match=f"{definition.name} has {most + 1} fields, at most {most} are defined"):
        decode_composite(data, 0, len(data))


def names_of_mandatory_fields() -> list[tuple[CompositeType, str]]:
    definitions = {definition_of(value).name: definition_of(value) for value in [*COMPOSITES, Received(0, 0)]}
    return [
        (definition, label)
        for definition in definitions.values()
        for field, label in zip(definition.fields, definition.labels, strict=True)
        if field.mandatory
    ]


@pytest.mark.parametrize(
    ("definition", "label"), names_of_mandatory_fields(), ids=lambda item: getattr(item, "name", item)
)
def test_mandatory_fields_are_missed(definition: CompositeType, label: str) -> None:
    value = next((value for value in COMPOSITES if definition_of(value) is definition), Received(0, 0))
    data = encode_composite(value)
    _, position, _ = list_bounds(data, 3, len(data), "x")
    fields = []
    for field in definition.fields:
        stop = skip_value(data, position, len(data)) if position < len(data) else position
        fields.append(data[position:stop] or b"\x40")
        position = stop
        if f"{definition.name}.{field.label}" == label:
            fields[-1] = b"\x40"
    content = b"".join(fields)
    octets = definition.descriptor + b"\xd0" + (len(content) + 4).to_bytes(4, "big")
    octets += len(fields).to_bytes(4, "big") + content
    with pytest.raises(DecodeError, match=f"{label} is missing, but mandatory"):
        decode_composite(octets, 0, len(octets))


@pytest.mark.parametrize("definition", sorted({definition_of(value).code for value in COMPOSITES}))
def test_every_field_refuses_another_type_with_its_name(definition: int) -> None:
    found = definition_by_code(definition)
    assert found is not None
    value = next(value for value in COMPOSITES if definition_of(value) is found)
    data = encode_composite(value)
    _, start, _ = list_bounds(data, 3, len(data), "x")
    position = start
    for index, label in enumerate(found.labels):
        content = data[start:position] + b"\x40" * (index - _count(data, start, position)) + b"\x74decf"
        octets = found.descriptor + bytes((0xC0, len(content) + 1, index + 1)) + content
        with pytest.raises(DecodeError, match=label):
            decode_composite(octets, 0, len(octets))
        if position < len(data):
            position = skip_value(data, position, len(data))


def _count(data: bytes, start: int, stop: int) -> int:
    count = 0
    while start < stop:
        start = skip_value(data, start, stop)
        count += 1
    return count


@pytest.mark.parametrize(
    ("octets", "named"),
    [
        ("", "needs 1 octets"),
        ("45", "needed is a described type"),
        ("005399" + "45", "descriptor 0x99"),
        ("0080000000010000001045", "unknown descriptor '4294967312'"),
        ("00a30161" + "45", "unknown descriptor 'a'"),
        ("00a1016145", "unknown descriptor 'a'"),
        ("005318" + "40", "close at octet 3 has format code 0x40, needed is a list"),
        ("005318" + "c1", "needed is a list"),
        ("005318c00501", "says it has 5 octets"),
        ("005318c003404040", "close has 64 fields"),
        ("005318c003014040", "1 octets behind its last field"),
        ("005318c006010053244540", "close.error at octet 6 has the descriptor 0x24"),
    ],
)
def test_malformed_composite_values(octets: str, named: str) -> None:
    data = bytes.fromhex(octets)
    with pytest.raises(DecodeError, match=named):
        decode_composite(data, 0, len(data))


@pytest.mark.parametrize(
    ("octets", "named"),
    [
        ("005312c00804a1016e43415003", "attach.snd-settle-mode is 3, allowed are 0 to 2"),
        ("005312c00905a1016e4341405002", "attach.rcv-settle-mode is 2, allowed are 0 to 1"),
        ("005328c00402405203", "source.durable is 3, allowed are 0 to 2"),
        ("005344c003015005", "sasl-outcome.code is 5, allowed are 0 to 4"),
        ("005333c02401a021" + "61" * 33, "declared.txn-id has 33 octets, at most 32"),
        ("005331c0020101", "declare.global-id"),
    ],
)
def test_values_beyond_their_restriction_are_named(octets: str, named: str) -> None:
    data = bytes.fromhex(octets)
    with pytest.raises(DecodeError, match=named):
        decode_composite(data, 0, len(data))


def unsettled(content: str, count: int) -> bytes:
    octets = bytes.fromhex(content)
    fields = bytes.fromhex("a1016e434140404040") + bytes((0xC1, len(octets) + 1, count)) + octets
    return b"\x00\x53\x12\xc0" + bytes((len(fields) + 1, 8)) + fields


@pytest.mark.parametrize(
    ("content", "count", "named"),
    [
        ("4040", 2, "delivery tag None"),
        ("a0016140a0016140", 4, "delivery tag b'a'"),
        ("a00161", 1, "1 elements"),
        ("a0016140", 200, "200 elements in 4 octets"),
        ("a001614040", 2, "1 octets behind"),
        ("a1016140", 2, "attach.unsettled at octet"),
        ("a0016100531845", 2, "descriptor 0x18"),
    ],
)
def test_malformed_unsettled_maps(content: str, count: int, named: str) -> None:
    data = unsettled(content, count)
    with pytest.raises(DecodeError, match=named):
        decode_composite(data, 0, len(data))


def test_an_unsettled_map_is_not_the_same_as_none() -> None:
    data = unsettled("", 0)
    assert decode_composite(data, 0, len(data))[0].unsettled == {}
    none = encode_composite(Attach("n", 0, True))
    assert decode_composite(none, 0, len(none))[0].unsettled is None


def test_values_compare_by_class_and_fields() -> None:
    assert Error("a", "b") == Error("a", "b")
    assert Error("a", "b") != Error("a", "c")
    assert Accepted() != Declared(b"")
    assert Accepted() != "accepted"
    assert len({Error("a", "b"), Error("a", "b"), Error("a", "c")}) == 2


def test_fields_with_their_default_are_not_shown() -> None:
    assert repr(Open("c")) == "open(container_id='c')"
    assert repr(Begin(None, 0, 0, 0)) == "begin(next_outgoing_id=0, incoming_window=0, outgoing_window=0)"
    assert repr(Close(Error("a"))) == "close(error=error(condition='a'))"
    assert repr(TransactionalState(b"\x01", Modified(True))) == (
        "transactional-state(txn_id=x'01', outcome=modified(delivery_failed=True))"
    )


def test_long_fields_are_shown_up_to_the_limit() -> None:
    fits = "x" * (MAX_SHOWN - 2)
    assert repr(Open(fits)) == f"open(container_id={fits!r})"
    assert repr(Open(fits + "x")) == f"open(container_id='{fits}x...({MAX_SHOWN - 1}))"


def test_helpers() -> None:
    assert read_descriptor(b"\xff\x00\x53\x24\x45", 1, 5, "x") == (0x24, 4)
    assert decode_nested("x", Field("x", 12, allowed=(Source,)), b"\x40", 0, 1) == (None, 1)
    with pytest.raises(DecodeError, match="x at octet 0"):
        decode_nested("x", Field("x", 12, allowed=(Source,)), b"\x00\x53\x24\x45", 0, 4)
    assert definition_by_code(0x99) is None
    assert "x.y is missing" in str(missing("x.y"))
    assert Field("snd_settle_mode", STRING).label == "snd-settle-mode"


def test_missing_lists_and_maps_are_empty_and_not_shared() -> None:
    data = encode_composite(Open("c"))
    first, second = (decode_composite(data, 0, len(data))[0] for _ in range(2))
    assert first.offered_capabilities == []
    assert first.properties == {}
    first.offered_capabilities.append("a")
    first.properties["a"] = 1
    assert (second.offered_capabilities, second.properties) == ([], {})
    fresh: Any = Attach("n", 0, True)
    assert (fresh.properties, fresh.unsettled, fresh.desired_capabilities) == ({}, None, [])
