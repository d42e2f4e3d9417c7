from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annulet.wire.amqp091.messages import property_reader as reading
from annulet.wire.amqp091.messages.properties import BasicProperties, encode_properties
from annulet.wire.amqp091.messages.property_reader import PropertyReader
from annulet.wire.amqp091.types.errors import RemoteProtocolError


def full_header() -> bytes:
    properties = BasicProperties()
    properties.content_type = "a"
    properties.content_encoding = "bc"
    properties.headers = {"n": 1}
    properties.delivery_mode = 2
    properties.priority = 9
    properties.correlation_id = "def"
    properties.reply_to = ""
    properties.expiration = "60"
    properties.timestamp = 2**63
    return encode_properties(properties)


def walk(header: bytes) -> list[object]:
    reader = PropertyReader(header)
    reader.to_headers()
    table = reader.table()
    reader.to_expiration()
    return [table, reader.text(reading.FLAG_EXPIRATION, "expiration"), reader.timestamp(), reader.position]


def test_a_walk_stops_where_it_is_told() -> None:
    header = full_header()
    assert walk(header) == [{"n": 1}, "60", 2**63, len(header)]


def test_what_is_absent_takes_no_octets() -> None:
    assert walk(b"\0\0") == [None, None, None, 2]


def test_headers_can_be_stepped_over() -> None:
    reader = PropertyReader(full_header())
    reader.to_headers()
    reader.skip_table()
    assert reader.octet(reading.FLAG_DELIVERY_MODE, "delivery-mode") == 2


def test_every_cut_is_a_syntax_error() -> None:
    header = full_header()
    for size in range(len(header)):
        with pytest.raises(RemoteProtocolError) as caught:
            walk(header[:size])
        assert caught.value.code == 502


@given(st.binary(max_size=40))
def test_no_octets_make_it_fail_otherwise(data: bytes) -> None:
    try:
        assert walk(data)[3] <= len(data)
    except RemoteProtocolError as error:
        assert error.code == 502  # noqa: PT017 - any other exception fails the test


def test_flags_name_fourteen_properties_and_no_more() -> None:
    flags = [value for name, value in vars(reading).items() if name.startswith("FLAG_")]
    assert sum(flags) | reading.FLAGS_UNDEFINED == 0xFFFF
    assert len(flags) == 14
