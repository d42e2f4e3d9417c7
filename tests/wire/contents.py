"""Contents of messages as Hypothesis strategies, and how two of them are compared, for the tests of all converters."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from annulet.core.base.death_trail import DeathRecord
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
from annulet.core.message.content_differences import same_value
from annulet.core.message.neutral_content import (
    BODY_DATA,
    BODY_LIST,
    BODY_MAP,
    BODY_SEQUENCE,
    BODY_TEXT,
    BODY_VALUE,
    MessageContent,
)

text = st.text(st.characters(codec="utf-8"), max_size=12)
name = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
symbol = st.text(st.characters(min_codepoint=1, max_codepoint=126), min_size=1, max_size=12)
single = st.floats(width=32, allow_nan=False)

simple = (
    st.none()
    | st.booleans()
    | text
    | st.binary(max_size=12)
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | single.map(Float32)
    | st.integers(-128, 127).map(Byte)
    | st.integers(0, 255).map(UnsignedByte)
    | st.integers(-(2**15), 2**15 - 1).map(Short)
    | st.integers(0, 2**16 - 1).map(UnsignedShort)
    | st.integers(-(2**31), 2**31 - 1).map(Int)
    | st.integers(0, 2**32 - 1).map(UnsignedInt)
    | st.integers(0, 2**64 - 1).map(UnsignedLong)
    | st.integers(-(2**63), 2**63 - 1).map(TimestampMilliseconds)
    | st.integers(0, 2**42).map(TimestampMilliseconds)
    | st.characters(codec="utf-8").map(Character)
    | symbol.map(Symbol)
    | st.binary(min_size=16, max_size=16).map(Uuid)
    | st.binary(min_size=4, max_size=4).map(Decimal32)
    | st.binary(min_size=8, max_size=8).map(Decimal64)
    | st.binary(min_size=16, max_size=16).map(Decimal128)
)
"""Values of the types application properties may have (AMQP 1.0 §3.2.5)."""


def _extended(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    keys = st.integers(0, 2**64 - 1).map(UnsignedLong)
    return (
        st.lists(inner, max_size=3)
        | st.dictionaries(text, inner, max_size=3)
        | st.dictionaries(symbol.map(Symbol), inner, min_size=1, max_size=3)
        | st.dictionaries(keys, inner, min_size=1, max_size=2).map(
            lambda table: MapPairs([part for pair in table.items() for part in pair])
        )
        | st.lists(text, min_size=1, max_size=3).map(Array)
        | st.tuples(st.integers(0, 2**64 - 1).map(UnsignedLong), inner).map(lambda pair: Described(list(pair)))
    )


value = st.recursive(simple, _extended, max_leaves=6)
identifier = (
    text
    | st.sampled_from(["ID:AMQP_ULONG:7", "ID:AMQP_ULONG:007", "ID:AMQP_UUID:x", "ID:AMQP_BINARY:0A", "i" * 300])
    | st.integers(0, 2**64 - 1).map(UnsignedLong)
    | st.binary(min_size=16, max_size=16).map(Uuid)
    | st.binary(max_size=300)
)

body = (
    st.tuples(st.just(BODY_DATA), st.binary(max_size=20) | text.map(str.encode))
    | st.tuples(st.just(BODY_TEXT), text)
    | st.tuples(st.just(BODY_VALUE), simple.filter(lambda item: type(item) is not str) | st.just(Array(["a"])))
    | st.tuples(st.just(BODY_MAP), st.dictionaries(text, value, max_size=3) | st.just(MapPairs([UnsignedInt(1), "x"])))
    | st.tuples(st.just(BODY_LIST), st.lists(value, max_size=3))
    | st.tuples(st.just(BODY_SEQUENCE), st.lists(st.lists(value, max_size=2), min_size=1, max_size=2))
)
annotations = st.dictionaries(symbol.map(lambda key: f"x-opt-{key}"), value, max_size=2)
content_type = st.sampled_from(
    ["text/plain", "text/plain; charset=utf-16", "text/x; charset=latin-9", "application/json", "amqp/map", "amqp/list",
     "amqp/value", "t" * 300]
)  # fmt: skip
address = st.sampled_from(["orders", "/queues/orders", "/queues/a%2Fb", "queue://x", "/exchanges/e/k", "e/k"]) | text
property_name = name | st.sampled_from(
    ["JMSXGroupID", "JMSXGroupSeq", "group-id", "x-group-id", "qpid.subject", "x-death", "x-annulet-content", "n" * 300,
     "x-message-id", "_AMQ_ORIG_ADDRESS", "x-opt-deaths"]
)  # fmt: skip
deaths = st.lists(
    st.builds(
        lambda queue, reason, count, seconds, keys: DeathRecord(
            queue=queue, reason=reason, exchange="e", routing_keys=tuple(keys), at=seconds * 1000, count=count
        ),
        text, st.sampled_from(["rejected", "expired"]), st.integers(1, 2**31), st.integers(0, 2**32),
        st.lists(text, min_size=1, max_size=2),
    ),
    max_size=2,
)  # fmt: skip

FIELDS = {
    "durable": st.booleans(),
    "priority": st.integers(-1, 255),
    "time_to_live": st.just(-1) | st.integers(1, 2**32 - 1),
    "message_id": st.none() | identifier,
    "correlation_id": st.none() | identifier,
    "user_id": st.none() | name.map(str.encode),
    "to": st.none() | address,
    "subject": st.none() | text,
    "reply_to": st.none() | address,
    "content_type": st.none() | content_type,
    "content_encoding": st.none() | st.sampled_from(["gzip", "utf-8"]),
    "absolute_expiry_time": st.none() | st.integers(-(2**63), 2**63 - 1),
    "creation_time": st.none() | st.integers(-(2**63), 2**63 - 1) | st.integers(0, 2**42),
    "group_id": st.none() | text,
    "group_sequence": st.none() | st.integers(0, 2**32 - 1),
    "reply_to_group_id": st.none() | text,
    "app_id": st.none() | text,
    "application": st.dictionaries(property_name, simple, max_size=4),
    "annotations": annotations,
    "footer": annotations,
    "deaths": deaths,
}


@st.composite
def contents(draw: st.DrawFn, **narrowed: st.SearchStrategy[Any]) -> MessageContent:
    """Draw the content of a message as AMQP 1.0 can have it; ``narrowed`` replaces strategies of fields."""
    content = MessageContent()
    for field, strategy in {**FIELDS, **narrowed}.items():
        setattr(content, field, draw(strategy))
    content.body_kind, content.body = draw(body)
    return content


def assert_same(one: MessageContent, other: MessageContent, *, apart_from: tuple[str, ...] = ()) -> None:
    """Compare two contents field by field, values with their types."""
    for field in (*FIELDS, "body_kind", "body"):
        if field in apart_from:
            continue
        mine, theirs = getattr(one, field), getattr(other, field)
        if field == "deaths":
            mine, theirs = [as_tuple(death) for death in mine], [as_tuple(death) for death in theirs]
        assert same_value(mine, theirs), f"{field}: {mine!r} is not {theirs!r}"


def as_tuple(death: DeathRecord) -> tuple[Any, ...]:
    return (
        death.queue, death.reason, death.exchange, death.routing_keys, death.at, death.count, death.original_expiration
    )  # fmt: skip
