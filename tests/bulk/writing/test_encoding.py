"""Rows of a write as messages."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from annulet.bulk.protocol.errors import InvalidRequestError, OverLimitError
from annulet.bulk.writing.encoding import (
    HEADER_BYTES_MAX,
    Destination,
    PendingMessage,
    WriteDefaults,
    check_write_schema,
    encode_rows,
)
from annulet.core.configuration.arguments.values import MILLISECONDS_MAX
from annulet.wire.amqp091.messages.properties import VIEW, decode_properties

HERE = WriteDefaults(address="q")


def encode(defaults: WriteDefaults = HERE, **columns: Any) -> list[PendingMessage]:
    return list(encode_rows(pa.record_batch(columns), defaults, "p", 10, 1000))


def test_every_column_is_written() -> None:
    at = pa.array([dt.datetime(2024, 1, 2, tzinfo=dt.UTC)], pa.timestamp("us", tz="UTC"))
    properties = pa.array([[("a", "1"), ("n", None)]], pa.map_(pa.string(), pa.string()))
    (pending,) = encode(
        body=["ü"],
        message_id=["m"],
        content_type=["t"],
        content_encoding=["e"],
        correlation_id=["c"],
        reply_to=["r"],
        subject=["s"],
        group_id=["g"],
        priority=[7],
        expiration=[500],
        timestamp=at,
        persistent=[False],
        properties=properties,
        position=[4],
    )
    message = pending.message
    decoded = VIEW.properties(message)
    assert (message.body, message.durable, message.priority, pending.time_to_live) == ("ü".encode(), False, 7, 500)
    assert (decoded.message_id, decoded.content_type, decoded.content_encoding) == ("m", "t", "e")
    assert (decoded.correlation_id, decoded.reply_to, decoded.subject, decoded.group_id) == ("c", "r", "s", "g")
    assert decoded.timestamp == 1_704_153_600_000
    assert decoded.application == {"a": "1", "n": None, "group-id": "g"}
    basic = decode_properties(message.header)
    assert (basic.delivery_mode, basic.expiration, basic.priority) == (1, "500", 7)


def test_the_time_of_delivery_is_read_from_the_properties() -> None:
    rows = [[("x-delay", "250")], [("x-deliver-at", "5000"), ("x-delay", None)], [("a", "x-delay")], None]
    found = encode(body=["b"] * 4, properties=pa.array(rows, pa.map_(pa.string(), pa.string())))
    assert [pending.schedule.due_at(1000) for pending in found] == [1250, 5000, 0, 0]


def test_defaults() -> None:
    (pending,) = encode(body=pa.array([None], pa.binary()))
    assert (pending.message.body, pending.message.durable, pending.message.priority) == (b"", True, 4)
    assert pending.time_to_live == -1
    assert decode_properties(pending.message.header).delivery_mode == 2
    (transient,) = encode(WriteDefaults(address="q", persistent=False), body=[b""])
    assert transient.message.durable is False


@pytest.mark.parametrize(
    ("defaults", "columns", "expected"),
    [
        (HERE, {"address": "other", "routing_key": "k"}, Destination("q", "", "k")),
        (
            WriteDefaults(exchange="e", routing_key="k"),
            {"exchange": "x", "routing_key": "y"},
            Destination(None, "e", "k"),
        ),
        (WriteDefaults(exchange="e"), {"routing_key": "y"}, Destination(None, "e", "y")),
        (WriteDefaults(), {"exchange": "x", "address": "a", "routing_key": "y"}, Destination(None, "x", "y")),
        (WriteDefaults(), {"address": "a"}, Destination("a", "", "")),
        (WriteDefaults(), {"routing_key": "y"}, Destination(None, "", "y")),
        (WriteDefaults(routing_key="k"), {}, Destination(None, "", "k")),
    ],
)
def test_options_win_over_columns(defaults: WriteDefaults, columns: dict[str, str], expected: Destination) -> None:
    (pending,) = encode(defaults, body=[b""], **{name: [value] for name, value in columns.items()})
    assert pending.destination == expected


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({"priority": [256]}, "row 10, column priority: 256"),
        ({"priority": [-1]}, "row 10, column priority: -1"),
        ({"expiration": [-5]}, "give milliseconds to live"),
        ({"expiration": [MILLISECONDS_MAX + 1]}, "give milliseconds to live"),
        ({"expiration": [2**63 - 1]}, "give milliseconds to live"),
        ({"properties": pa.array([[("n", "v" * HEADER_BYTES_MAX)]], pa.map_(pa.string(), pa.string()))}, "are allowed"),
        ({"message_id": ["x" * 256]}, "longer than 255 octets"),
        ({"address": ["x" * 256]}, "address 'xxxx"),
        ({"timestamp": pa.array([-1], pa.timestamp("us", tz="UTC"))}, "before 1970"),
        ({"properties": pa.array([[("n" * 256, "v")]], pa.map_(pa.string(), pa.string()))}, "property name"),
        (
            {"properties": pa.array([[("x-delay", "soon")]], pa.map_(pa.string(), pa.string()))},
            "row 10, column properties: invalid header 'x-delay': 'soon'; give milliseconds",
        ),
        ({}, "row 10 has no destination"),
    ],
)
def test_bad_rows_name_row_and_column(columns: dict[str, Any], text: str) -> None:
    address = {} if not columns or "address" in columns else {"address": ["q"]}
    with pytest.raises(InvalidRequestError) as error:
        encode(WriteDefaults(), body=[b""], **address, **columns)
    assert text in str(error.value)


@pytest.mark.parametrize(("octets", "accepted"), [(999, True), (1000, True), (1001, False)])
def test_bodies_up_to_the_limit_of_every_sender(octets: int, accepted: bool) -> None:
    columns = {"body": [b"x" * octets], "address": ["q"]}
    if accepted:
        assert len(encode(WriteDefaults(), **columns)) == 1
        return
    with pytest.raises(
        OverLimitError, match=r"row 10: its body need 1001 bytes, 1000 are allowed \(max_message_bytes\)"
    ):
        encode(WriteDefaults(), **columns)


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"value": pa.string()}, "column 'value' is unknown"),
        ({"address": pa.string()}, "column 'body' is missing"),
        ({"body": pa.int64()}, "column 'body' has type int64, not binary or string"),
        ({"body": pa.string(), "properties": pa.map_(pa.string(), pa.int8())}, "column 'properties' has type"),
    ],
)
def test_bad_schemas(schema: dict[str, pa.DataType], text: str) -> None:
    with pytest.raises(InvalidRequestError) as error:
        check_write_schema(pa.schema(schema))
    assert text in str(error.value)


def test_columns_of_a_read_are_passed_over() -> None:
    check_write_schema(
        pa.schema({"body": pa.binary(), "position": pa.int64(), "sequence": pa.int64(), "redelivered": pa.bool_()})
    )


DICTIONARY = pa.dictionary(pa.int32(), pa.binary())


@pytest.mark.parametrize(
    "kind",
    [
        DICTIONARY,
        pa.list_(DICTIONARY),
        pa.struct({"a": DICTIONARY}),
        pa.map_(pa.string(), DICTIONARY),
        pa.run_end_encoded(pa.int32(), pa.string()),
        pa.opaque(DICTIONARY, "a", "b"),
    ],
    ids=str,
)
def test_ignored_columns_have_no_dictionaries(kind: pa.DataType) -> None:
    with pytest.raises(InvalidRequestError, match=r"column 'queue' has type .*: cast it to string, or leave it out"):
        check_write_schema(pa.schema({"body": pa.binary(), "queue": kind}))


@pytest.mark.parametrize("name", ["body", "properties", "queue"])
def test_a_column_named_twice_is_refused(name: str) -> None:
    types = {"body": pa.binary(), "properties": pa.map_(pa.string(), pa.string()), "queue": pa.string()}
    with pytest.raises(InvalidRequestError, match=f"column '{name}' is named twice; send one column of each name"):
        check_write_schema(pa.schema([*types.items(), (name, types[name])]))


@pytest.mark.parametrize("zone", ["Europe/Zurich", "America/New_York", "Asia/Kathmandu", "+05:45", "UTC"])
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_a_time_is_the_same_moment_in_any_zone(zone: str, unit: str) -> None:
    """The hour that comes twice included: 00:30 and 01:30 UTC are both 02:30 in Zurich, 05:30 and 06:30 in New York."""
    seconds = [1_792_888_200, 1_792_891_800, 1_793_511_000, 1_793_514_600, 0, 1_700_000_000]
    scale = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    times = pa.array([second * scale for second in seconds], pa.timestamp(unit, tz=zone))
    batch = pa.record_batch({"body": ["b"] * len(seconds), "timestamp": times})
    check_write_schema(batch.schema)
    found = list(encode_rows(batch, HERE, "p", 0, 1000))
    assert [VIEW.properties(pending.message).timestamp for pending in found] == [1000 * second for second in seconds]


def test_a_time_without_a_zone_is_refused_with_the_remedy() -> None:
    schema = pa.schema([("body", pa.string()), ("timestamp", pa.timestamp("us"))])
    with pytest.raises(InvalidRequestError, match=r"timestamp\[us\], which names no time zone.*cast it to timestamp"):
        check_write_schema(schema)
    with pytest.raises(InvalidRequestError, match=r"has type timestamp\[us, tz=UTC\], not string"):
        check_write_schema(pa.schema([("body", pa.string()), ("subject", pa.timestamp("us", tz="UTC"))]))
