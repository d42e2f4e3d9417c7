"""Messages as rows: what each column is, and how batches are cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annulet.bulk.protocol import schema
from annulet.bulk.protocol.errors import InvalidRequestError
from annulet.bulk.protocol.schema import (
    COLUMNS,
    MALFORMED,
    OCTETS,
    Row,
    property_text,
    property_value,
    record_batches,
    schema_of,
    select_columns,
)
from annulet.core.message.message import Message, Origin
from annulet.wire.amqp091.messages.properties import VIEW, BasicProperties, encode_properties


def row(position: int, body: bytes = b"x", header: bytes | None = None, exchange: str = "") -> Row:
    encoded = encode_properties(BasicProperties()) if header is None else header
    message = Message(encoded, body, Origin(exchange, "key", "", VIEW), accepted_at=1000)
    return Row(position, message, 0, 0, redelivered=False)


@given(st.lists(st.integers(0, 60), max_size=40), st.integers(1, 7))
def test_batches_are_bounded_and_complete(sizes: list[int], rows_max: int) -> None:
    rows = [row(position, b"x" * size) for position, size in enumerate(sizes)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schema, "BATCH_ROWS_MAX", rows_max)
        patch.setattr(schema, "BATCH_BYTES_MAX", 100)
        batches = list(record_batches(rows, "q", ["position", "body"]))
    assert [value for batch in batches for value in batch.column("position").to_pylist()] == list(range(len(sizes)))
    for batch in batches:
        assert 0 < batch.num_rows <= rows_max
        assert batch.num_rows == 1 or sum(map(len, batch.column("body").to_pylist())) <= 100


def test_a_sequence_is_the_position_where_that_is_of_no_lease() -> None:
    message = row(1).message
    rows = [row(7), Row(8, message, 0, 0, redelivered=False, sequence=42)]
    (batch,) = record_batches(rows, "q", ["sequence", "position"])
    assert batch.to_pylist() == [{"sequence": 7, "position": 7}, {"sequence": 42, "position": 8}]


def test_a_message_that_cannot_be_decoded_is_a_marked_row() -> None:
    (batch,) = record_batches([row(1), row(2, header=b"\x80\x00\x05ab"), row(3)], "q", COLUMNS)
    assert batch.schema == schema_of(COLUMNS)
    properties = batch.column("properties").to_pylist()
    assert properties[0] == properties[2] == []
    assert properties[1][0][0] == MALFORMED
    assert batch.column("body").to_pylist() == [b"x"] * 3


def test_address_is_the_exchange_or_the_queue() -> None:
    (batch,) = record_batches([row(1), row(2, exchange="amq.topic")], "q", ["address", "queue"])
    assert batch.to_pylist() == [{"address": "key", "queue": "q"}, {"address": "amq.topic", "queue": "q"}]


def test_a_body_that_is_stored_as_something_else_is_its_payload() -> None:
    rows = [row(1, b"stored", header=typed("application/x")), row(2, b"octets", header=typed("application/y"))]
    payloads = {b"stored": (b"text", "text/plain")}
    (batch,) = record_batches(rows, "q", ["body", "content_type"], lambda message: payloads.get(message.body))
    assert batch.to_pylist() == [
        {"body": b"text", "content_type": "text/plain"},
        {"body": b"octets", "content_type": "application/y"},
    ]


def typed(content_type: str) -> bytes:
    basic = BasicProperties()
    basic.content_type = content_type
    return encode_properties(basic)


def test_times_spark_cannot_hold_are_null() -> None:
    basic = BasicProperties()
    basic.timestamp = 2**63
    (batch,) = record_batches([row(1, header=encode_properties(basic))], "q", ["timestamp", "enqueued_at"])
    assert batch.column("timestamp").to_pylist() == [None]
    assert batch.column("enqueued_at").cast("int64").to_pylist() == [1_000_000]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        ("", ""),
        (True, "true"),
        (7, "7"),
        (0.5, "0.5"),
        (b"caf\xc3\xa9", "café"),
        (b"\xff", "data:application/octet-stream;base64,/w=="),
        (
            b"data:application/octet-stream;base64,/w==",
            OCTETS + "ZGF0YTphcHBsaWNhdGlvbi9vY3RldC1zdHJlYW07YmFzZTY0LC93PT0=",
        ),
        ([b"\xff"], '["data:application/octet-stream;base64,/w=="]'),
        ([1, "a", None, b"x"], '[1, "a", null, "x"]'),
        ({"k": {"n": 1}}, '{"k": {"n": 1}}'),
    ],
)
def test_property_text(value: object, text: str | None) -> None:
    assert property_text(value) == text  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "octets", [b"\xff", b"", b"\0\x80", bytes(range(256)), OCTETS.encode(), OCTETS.encode() + b"/w=="]
)
def test_octets_of_a_property_come_back(octets: bytes) -> None:
    value = property_value(property_text(octets))
    assert (value.encode() if isinstance(value, str) else value) == octets


@pytest.mark.parametrize("text", [None, "", "text", "\\xff", OCTETS + "no Base64!", "data:text/plain,x"])
def test_other_texts_of_properties_stay(text: str | None) -> None:
    assert property_value(text) == text


def test_columns_are_checked() -> None:
    assert select_columns(None) == list(COLUMNS)
    with pytest.raises(InvalidRequestError, match="did you mean 'routing_key'"):
        select_columns(["routingkey"])
    with pytest.raises(InvalidRequestError, match="named twice"):
        select_columns(["body", "body"])
