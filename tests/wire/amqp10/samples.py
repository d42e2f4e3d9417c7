"""Values and composite values of every type, for tests that go through all of them."""

from __future__ import annotations

import math
import struct
from typing import Any

from hypothesis import strategies as st

from annulet.core.base.typed_values import (
    INTEGER_RANGES,
    Array,
    Character,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float32,
    MapPairs,
    Symbol,
    TimestampMilliseconds,
    UnsignedLong,
    Uuid,
)
from annulet.wire.amqp10.frames.performatives import (
    Accepted,
    Attach,
    Begin,
    Close,
    Coordinator,
    Declared,
    Detach,
    Disposition,
    End,
    Error,
    Flow,
    Modified,
    Open,
    Received,
    Rejected,
    Released,
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
    Source,
    Target,
    TransactionalState,
    Transfer,
)
from annulet.wire.amqp10.messages.sections import Header, Properties, encode_header, encode_properties, encode_section
from annulet.wire.amqp10.types.composite import Composite

texts = st.text(st.characters(codec="utf-8"), max_size=20)
symbols = st.text(st.characters(codec="ascii"), max_size=20).map(Symbol)
octets = st.binary(max_size=20)
integers = st.one_of([st.integers(least, greatest).map(kind) for kind, least, greatest in INTEGER_RANGES])
leaves = st.one_of(
    st.none(),
    st.booleans(),
    integers,
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-(2**63), 2**63 - 1).map(TimestampMilliseconds),
    st.floats(),
    st.floats(width=32).map(Float32),
    st.characters(codec="utf-8").map(Character),
    texts,
    symbols,
    octets,
    st.text("ab", min_size=250, max_size=260),
    st.binary(min_size=16, max_size=16).map(Uuid),
    st.binary(min_size=4, max_size=4).map(Decimal32),
    st.binary(min_size=8, max_size=8).map(Decimal64),
    st.binary(min_size=16, max_size=16).map(Decimal128),
)
arrays = st.one_of(
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5).map(Array),
    st.lists(st.integers(-100, 100), max_size=5).map(Array),
    st.lists(st.integers(0, 2**64 - 1).map(UnsignedLong), max_size=5).map(Array),
    st.lists(st.booleans(), max_size=5).map(Array),
    st.lists(symbols, max_size=5).map(Array),
    st.lists(st.text("x", max_size=300), max_size=3).map(Array),
    st.lists(st.lists(st.integers(0, 300), max_size=2), max_size=3).map(Array),
    st.lists(st.dictionaries(symbols, texts, max_size=2), max_size=3).map(Array),
    st.lists(st.integers(0, 300).map(lambda number: Described([Symbol("d"), number])), max_size=3).map(Array),
    st.lists(st.lists(st.booleans(), min_size=1, max_size=2).map(Array), max_size=3).map(Array),
)
keys = texts | symbols
values = st.recursive(
    leaves | arrays,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(keys, inner, max_size=4),
        st.tuples(symbols | st.integers(0, 2**64 - 1).map(UnsignedLong), inner).map(lambda pair: Described(list(pair))),
        st.tuples(integers, inner).map(lambda pair: MapPairs(list(pair))),
    ),
    max_leaves=8,
)


def shape(value: Any) -> Any:
    """Return a value so that two are equal only when their types are as well, and NaN equals itself."""
    kind = type(value).__name__
    if isinstance(value, float):
        return kind, "nan" if math.isnan(value) else struct.pack(">d", value)
    if isinstance(value, dict):
        return kind, [(shape(key), shape(item)) for key, item in value.items()]
    if isinstance(value, list):
        return kind, [shape(item) for item in value]
    return kind, value


ERROR = Error("amqp:not-found", "no queue 'q'", {"volatile": True})
SOURCE = Source(
    "q", 2, "never", 60, False, {"x-opt": 1}, "copy", {"f": Described([Symbol("x"), "a=1"])}, Modified(True, True),
    ["amqp:accepted:list", "amqp:released:list"], ["queue"],
)  # fmt: skip
UNSETTLED = {b"1": None, b"2": Accepted(), b"3": TransactionalState(b"t", Rejected(ERROR)), b"4": Received(1, 2**63)}

COMPOSITES: list[Composite] = [
    Open("container"),
    Open("c", "h", 512, 10, 30000, ["de"], ["en", "de"], ["a"], ["b", "c"], {"product": "Annulet", "n": 1}),
    Begin(None, 0, 1, 2),
    Begin(7, 2**32 - 1, 300, 2**31, 255, ["a"], ["b"], {"p": [1, "x"]}),
    Attach("n", 0, True),
    Attach("n", 300, False, 1, 1, SOURCE, Target("t", 1, "link-detach", 1, True, {"y": 2}, ["topic"]), UNSETTLED, True,
           5, 2**64 - 1, ["a"], ["b"], {"priority": 3}),
    Attach("n", 1, False, 0, 0, Source(), Coordinator(["amqp:local-transactions"]), {}),
    Flow(None, 1, 2, 3),
    Flow(1, 2, 300, 2**32 - 1, 5, 6, 700, 8, True, True, {"a": 1}),
    Flow(1, 2, 300, 2**32 - 1, 5, 6, 700, None, False, True),
    Transfer(0),
    Transfer(300, 1, b"tag", 0, False, True, 1, Received(1, 2), True, True, True),
    Transfer(1, 2**32 - 1, b"t" * 32, 5, True, False, None, TransactionalState(b"t", Accepted())),
    Disposition(True, 0),
    Disposition(False, 2**31, 2**32 - 1, True, Accepted(), True),
    Disposition(True, 1, 2, False, Modified(True, False, {"x-opt-a": "b"})),
    Disposition(True, 1, None, False, Declared(b"transaction")),
    Disposition(True, 1, None, False, Released()),
    Disposition(True, 1, None, False, Rejected(ERROR)),
    Detach(0),
    Detach(1, True, ERROR),
    End(), End(ERROR), Close(), Close(Error("amqp:internal-error", "x" * 300)),
    SaslMechanisms(["PLAIN", "SCRAM-SHA-256"]),
    SaslInit("PLAIN", b"\0guest\0secret", "host"),
    SaslChallenge(b"r=nonce"), SaslResponse(b"p=proof"), SaslOutcome(0), SaslOutcome(1, b"v=signature"),
]  # fmt: skip
"""Performatives and SASL frame bodies with few and with all fields."""

PROPERTIES = Properties(
    "id", b"guest", "to", "subject", "reply", UnsignedLong(7), "text/plain", "gzip", 1, -1, "group", 2, "other"
)
MESSAGE = b"".join(
    [
        encode_header(Header(True, 7, 60000, True, 3)),
        encode_section(0x71, {"x-opt-to": "a"}),
        encode_section(0x72, {"x-opt-delivery-time": 5, "x-opt-key": Uuid(b"0123456789abcdef")}),
        encode_properties(PROPERTIES),
        encode_section(0x74, {"region": "eu", "count": 3, "ratio": 0.5, "none": None}),
        encode_section(0x75, b"first"),
        encode_section(0x75, b"second"),
        encode_section(0x78, {"x-crc": 1}),
    ]
)
"""A message with every section."""
