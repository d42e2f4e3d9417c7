"""Qpid Proton, which has no part in our codec, reads what we write and writes what we read."""

from __future__ import annotations

import importlib
import sys
import uuid
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annulet.core.base.typed_values import (
    Array,
    Byte,
    Character,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float32,
    Int,
    MapPairs,
    Short,
    Symbol,
    TimestampMilliseconds,
    UnsignedByte,
    UnsignedInt,
    UnsignedLong,
    UnsignedShort,
    Uuid,
)
from annulet.wire.amqp10.frames.performatives import decode_performative
from annulet.wire.amqp10.messages.sections import (
    APPLICATION_PROPERTIES,
    DATA,
    DELIVERY_ANNOTATIONS,
    MESSAGE_ANNOTATIONS,
    VALUE,
    Header,
    Properties,
    decode_header,
    decode_properties,
    encode_header,
    encode_properties,
    encode_section,
    split_message,
)
from annulet.wire.amqp10.types.composite_encoding import encode_composite
from annulet.wire.amqp10.types.values import decode_value, encode_value
from tests.wire.amqp10.samples import COMPOSITES, shape, symbols, texts, values

PACKAGES = Path("/usr/lib/python3/dist-packages")

pytestmark = [
    pytest.mark.debian,
    pytest.mark.skipif(not (PACKAGES / "proton").is_dir(), reason="Debian's python3-qpid-proton is not installed"),
]


def load_proton() -> ModuleType:
    sys.path.append(str(PACKAGES))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a package built before our Python
            return importlib.import_module("proton")
    except ImportError as error:  # built for another Python
        pytest.skip(f"Debian's proton cannot be loaded: {error}")
    finally:
        sys.path.remove(str(PACKAGES))


@pytest.fixture(scope="module")
def proton() -> ModuleType:
    return load_proton()


def as_theirs(proton: ModuleType, value: Any) -> Any:
    """Return a value of ours in the types of Proton."""
    names: dict[type, str] = {
        UnsignedByte: "ubyte", UnsignedShort: "ushort", UnsignedInt: "uint", UnsignedLong: "ulong", Byte: "byte",
        Short: "short", Int: "int32", Float32: "float32", Character: "char", Symbol: "symbol",
        TimestampMilliseconds: "timestamp", Decimal32: "decimal32", Decimal64: "decimal64", Decimal128: "decimal128",
    }  # fmt: skip
    kind = type(value)
    if kind in {Decimal32, Decimal64}:
        return getattr(proton, names[kind])(int.from_bytes(value, "big"))
    if kind in names:
        base = next(base for base in (int, float, str, bytes) if isinstance(value, base))
        return getattr(proton, names[kind])(base(value))
    if kind is Uuid:
        return uuid.UUID(bytes=bytes(value))
    if kind is Described:
        return proton.Described(as_theirs(proton, value[0]), as_theirs(proton, value[1]))
    if kind is MapPairs:
        items = [as_theirs(proton, item) for item in value]
        return dict(zip(items[::2], items[1::2], strict=True))
    if isinstance(value, dict):
        return {as_theirs(proton, key): as_theirs(proton, item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_theirs(proton, item) for item in value]
    return value


def described_twice(value: Any) -> bool:
    """Whether a described value describes another, of which Proton 0.37 loses count inside lists and maps."""
    if isinstance(value, Described) and isinstance(value[1], Described):
        return True
    if isinstance(value, dict):
        return any(described_twice(item) for item in value.values())
    return isinstance(value, list) and any(described_twice(item) for item in value)


def theirs_of(proton: ModuleType, octets: bytes) -> bytes:
    """Let Proton read octets and write them again."""
    data = proton.Data()
    assert data.decode(octets) == len(octets)
    written: bytes = data.encode()
    return written


@given(values.filter(lambda value: not described_twice(value)))
def test_proton_reads_and_rewrites_our_values(value: Any) -> None:
    proton = load_proton()
    again = theirs_of(proton, encode_value(value))
    decoded, stop = decode_value(again, 0, len(again))
    assert stop == len(again)
    assert encode_value(decoded) == encode_value(value)


simple = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), texts, symbols,
        st.binary(max_size=20), st.integers(0, 2**64 - 1).map(UnsignedLong), st.integers(0, 255).map(UnsignedByte),
        st.integers(-(2**31), 2**31 - 1).map(Int), st.integers(-(2**15), 2**15 - 1).map(Short),
        st.integers(-128, 127).map(Byte), st.integers(0, 2**32 - 1).map(UnsignedInt),
        st.integers(0, 65535).map(UnsignedShort), st.integers(-(2**62), 2**62).map(TimestampMilliseconds),
        st.binary(min_size=16, max_size=16).map(Uuid), st.floats(width=32, allow_nan=False).map(Float32),
        st.characters(codec="utf-8", exclude_characters="\0").map(Character),
        st.binary(min_size=4, max_size=4).map(Decimal32), st.binary(min_size=8, max_size=8).map(Decimal64),
        st.binary(min_size=16, max_size=16).map(Decimal128),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3)
    | inner.map(lambda value: Described([Symbol("d"), value])),
    max_leaves=6,
)  # fmt: skip


@given(simple)
def test_values_written_by_proton_are_read(value: Any) -> None:
    proton = load_proton()
    data = proton.Data()
    data.put_object(as_theirs(proton, value))
    octets = data.encode()
    decoded, stop = decode_value(octets, 0, len(octets))
    assert (shape(decoded), stop) == (shape(value), len(octets))


@given(simple.filter(lambda value: not described_twice(value)))
def test_our_values_mean_the_same_to_proton(value: Any) -> None:
    proton = load_proton()
    data = proton.Data()
    data.decode(encode_value(value))
    data.rewind()
    data.next()
    expected = as_theirs(proton, value)
    found = data.get_object()
    assert found == expected
    assert type(found) is type(expected)


def test_arrays_written_by_proton_are_read(proton: ModuleType) -> None:
    rows = [
        ("LONG", [1, 300], Array([1, 300])),
        ("UINT", [proton.uint(0), proton.uint(1)], Array([UnsignedInt(0), UnsignedInt(1)])),
        ("SYMBOL", [proton.symbol("a"), proton.symbol("b")], Array([Symbol("a"), Symbol("b")])),
        ("STRING", ["a", "b" * 300], Array(["a", "b" * 300])),
        ("BOOL", [True, False], Array([True, False])),
        ("UUID", [uuid.UUID(int=1)], Array([Uuid(bytes(15) + b"\1")])),
    ]
    for kind, items, expected in rows:
        data = proton.Data()
        data.put_py_array(proton.Array(proton.UNDESCRIBED, getattr(proton.Data, kind), *items))
        octets = data.encode()
        decoded, stop = decode_value(octets, 0, len(octets))
        assert (shape(decoded), stop) == (shape(expected), len(octets))
    data = proton.Data()
    data.put_py_array(proton.Array(proton.symbol("d"), proton.Data.INT, proton.int32(1), proton.int32(2)))
    octets = data.encode()
    decoded, _ = decode_value(octets, 0, len(octets))
    assert shape(decoded) == shape(Array([Described([Symbol("d"), Int(1)]), Described([Symbol("d"), Int(2)])]))


@pytest.mark.parametrize("index", range(len(COMPOSITES)))
def test_performatives_survive_proton(index: int, proton: ModuleType) -> None:
    value = COMPOSITES[index]
    octets = theirs_of(proton, encode_composite(value))
    assert decode_performative(octets, 0, len(octets)) == (value, len(octets))


PROPERTIES = Properties(
    message_id=UnsignedLong(5),
    user_id=b"guest",
    to="q",
    subject="s",
    reply_to="r",
    correlation_id=Uuid(uuid.UUID(int=7).bytes),
    content_type="text/plain",
    content_encoding="gzip",
    absolute_expiry_time=12500,
    creation_time=3250,
    group_id="g",
    group_sequence=4,
    reply_to_group_id="h",
)


def test_a_message_of_proton_is_read(proton: ModuleType) -> None:
    message = proton.Message(
        body={"a": [1, "b"]}, id=proton.ulong(5), user_id=b"guest", address="q", subject="s", reply_to="r",
        correlation_id=uuid.UUID(int=7), content_type="text/plain", content_encoding="gzip", expiry_time=12.5,
        creation_time=3.25, group_id="g", group_sequence=4, reply_to_group_id="h", durable=True, priority=9, ttl=1.5,
        first_acquirer=True, delivery_count=2, properties={"k": 1, "t": "text"},
        annotations={proton.symbol("x-opt-a"): "b"}, instructions={proton.symbol("x-opt-i"): 1},
    )  # fmt: skip
    octets = message.encode()
    sections = split_message(octets)
    assert sections.header is not None
    assert sections.properties is not None
    assert sections.delivery_annotations is not None
    assert sections.message_annotations is not None
    assert sections.application_properties is not None
    assert decode_header(octets, sections.header.content, sections.header.end) == Header(True, 9, 1500, True, 2)
    properties = decode_properties(octets, sections.properties.content, sections.properties.end)
    assert properties == PROPERTIES
    found = [
        decode_value(octets, section.content, section.end)[0]
        for section in (
            sections.delivery_annotations, sections.message_annotations, sections.application_properties,
            sections.body[0],
        )
    ]  # fmt: skip
    assert found == [{"x-opt-i": 1}, {"x-opt-a": "b"}, {"k": 1, "t": "text"}, {"a": [1, "b"]}]


def test_a_message_without_body_is_read(proton: ModuleType) -> None:
    octets = proton.Message().encode()
    assert split_message(octets).body == []


@pytest.mark.parametrize(
    ("code", "body"), [(DATA, b"octets"), (VALUE, {"a": [1, "b"]}), (VALUE, "text"), (VALUE, None)]
)
def test_our_messages_are_read_by_proton(code: int, body: Any, proton: ModuleType) -> None:
    octets = b"".join(
        [
            encode_header(Header(True, 9, 1500, True, 2)),
            encode_section(DELIVERY_ANNOTATIONS, {"x-opt-i": 1}),
            encode_section(MESSAGE_ANNOTATIONS, {"x-opt-a": "b"}),
            encode_properties(PROPERTIES),
            encode_section(APPLICATION_PROPERTIES, {"k": 1, "t": "text"}),
            encode_section(code, body),
        ]
    )
    message = proton.Message()
    message.decode(octets)
    assert (message.durable, message.priority, message.ttl, message.first_acquirer, message.delivery_count) == (
        True, 9, 1.5, True, 2,
    )  # fmt: skip
    assert (message.id, message.correlation_id, message.user_id) == (5, uuid.UUID(int=7), b"guest")
    assert (message.address, message.subject, message.reply_to) == ("q", "s", "r")
    assert (message.content_type, message.content_encoding) == ("text/plain", "gzip")
    assert (message.expiry_time, message.creation_time) == (12.5, 3.25)
    assert (message.group_id, message.group_sequence, message.reply_to_group_id) == ("g", 4, "h")
    assert (message.properties, message.annotations, message.instructions) == (
        {"k": 1, "t": "text"}, {"x-opt-a": "b"}, {"x-opt-i": 1},
    )  # fmt: skip
    assert (message.body, message.inferred) == (body, code == DATA)
