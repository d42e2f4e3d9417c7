from __future__ import annotations

import pytest

from annulet.wire.amqp091.messages.header_keys import INDEXED_BYTES, HeaderKeys
from annulet.wire.amqp091.messages.properties import VIEW
from annulet.wire.amqp091.types.errors import RemoteProtocolError
from annulet.wire.amqp091.types.values import encode_table
from tests.wire.test_large_conversions import of_0_9_1


def test_values_are_found_by_name() -> None:
    keys = HeaderKeys()
    first, second = encode_table({"a": 1, "b": ["x"], "c": None}), encode_table({"a": 2})
    for _ in range(2):
        assert [keys.find(first, 0, name) for name in (b"a", b"b", b"c", b"d")] == [1, ["x"], None, None]
        assert keys.find(second, 0, b"a") == 2


def test_of_two_fields_of_one_name_the_first_counts() -> None:
    fields = encode_table({"a": 1})[4:] + encode_table({"a": 2})[4:]
    assert HeaderKeys().find(len(fields).to_bytes(4, "big") + fields, 0, b"a") == 1


def test_a_malformed_field_ends_the_table() -> None:
    fields = encode_table({"a": 1})[4:] + b"\x01b?" + encode_table({"c": 2})[4:]
    table = len(fields).to_bytes(4, "big") + fields
    assert [HeaderKeys().find(table, 0, name) for name in (b"a", b"b", b"c")] == [1, None, None]
    with pytest.raises(RemoteProtocolError):
        HeaderKeys().find(b"\x00\x00\x00\x09", 0, b"a")


def test_the_view_finds_the_same_in_few_and_in_many_headers() -> None:
    """A8: a selector with 100 names walked 100 times over 128 KiB of headers, 22 ms each."""
    few = {"a": 1, "b": "text", "n": None}
    many = {**{f"h{number:05}": number for number in range(INDEXED_BYTES // 10)}, **few}
    for headers in (few, many):
        message = of_0_9_1(headers=headers)
        assert (len(message.header) > INDEXED_BYTES) is (headers is many)
        assert {name: VIEW.application_property(message, name) for name in headers} == headers
        assert VIEW.application_property(message, "text") is None
        assert VIEW.application_property(message, "") is None
