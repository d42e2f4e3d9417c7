from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import decode

from annulet.core.base.death_trail import DeathRecord
from annulet.wire.amqp091.messages.annotations import annotate, decode_deaths, encode_deaths, replace_reply_to
from annulet.wire.amqp091.messages.properties import BasicProperties, decode_properties, encode_properties
from annulet.wire.amqp091.types.errors import LocalProtocolError, RemoteProtocolError
from annulet.wire.amqp091.types.values import Long, Timestamp, encode_table

ODD_FIELDS = (
    b"\x01as\x00\x07" + b"\x01bb\xff" + b"\x01cD\x02\x00\x00\x01\x3b" + b"\x01du\x00\x01" + b"\x01ef\x3f\x00\x00\x00"
)
"""Types that are read but never written: a 16-bit, an 8-bit, a decimal, an unsigned, a 32-bit float field."""

text = st.text(max_size=9)
drawn = st.fixed_dictionaries(
    {},
    optional={
        "content_type": text,
        "content_encoding": text,
        "headers": st.dictionaries(
            st.sampled_from(["a", "b", "c", "d"]), st.integers().map(lambda n: n % 2**40) | text
        ),
        "delivery_mode": st.sampled_from([1, 2]),
        "priority": st.integers(0, 255),
        "correlation_id": text,
        "reply_to": text,
        "expiration": text,
        "message_id": text,
        "timestamp": st.integers(0, 2**32),
        "type": text,
        "user_id": text,
        "app_id": text,
        "cluster_id": text,
    },
)


def header(values: dict[str, Any]) -> bytes:
    properties = BasicProperties()
    for name, value in values.items():
        setattr(properties, name, value)
    return encode_properties(properties)


@given(
    drawn, st.dictionaries(st.sampled_from(["b", "c", "x"]), st.integers(0, 9) | text),
    st.lists(st.sampled_from(["a", "b", "y"])), st.booleans(),
)  # fmt: skip
def test_it_is_decoding_changing_and_encoding_without_the_decoding(
    values: dict[str, Any], headers: dict[str, Any], without: list[str], expires: bool
) -> None:
    annotated = annotate(header(values), headers, without=tuple(without), expires=expires)
    expected = dict(values)
    kept = {name: value for name, value in values.get("headers", {}).items() if name not in {*headers, *without}}
    if "headers" in values or headers:
        expected["headers"] = {**kept, **headers}
    if not expires:
        expected.pop("expiration", None)
    assert annotated == header(expected)


@given(drawn)
def test_nothing_to_change_changes_nothing(values: dict[str, Any]) -> None:
    encoded = header(values)
    assert annotate(encoded, {}) is encoded
    if "expiration" not in values:
        assert annotate(encoded, {}, without=("x",), expires=False) is encoded


def test_fields_keep_the_types_they_came_with() -> None:
    encoded = b"\xa0\x00\x02ct" + len(ODD_FIELDS).to_bytes(4, "big") + ODD_FIELDS
    annotated = annotate(encoded, {"n": 1}, without=("b",))
    kept = ODD_FIELDS[:5] + ODD_FIELDS[9:]
    fields = kept + b"\x01nI\x00\x00\x00\x01"
    assert annotated == b"\xa0\x00\x02ct" + len(fields).to_bytes(4, "big") + fields


def test_every_field_of_a_repeated_name_goes() -> None:
    fields = b"\x01aV\x01bV\x01at\x01"
    assert annotate(b"\x20\x00" + len(fields).to_bytes(4, "big") + fields, {}, without=("a",)) == (
        b"\x20\x00\x00\x00\x00\x03\x01bV"
    )


def test_removing_the_last_field_leaves_an_empty_table() -> None:
    assert decode_properties(annotate(header({"headers": {"a": 1}}), {}, without=("a",))).headers == {}


def test_every_cut_is_a_syntax_error() -> None:
    values = {"content_type": "c", "headers": {"a": 1}, "priority": 1, "correlation_id": "i", "expiration": "5"}
    encoded = header(values)
    for size in range(len(encoded)):
        with pytest.raises(RemoteProtocolError) as caught:
            annotate(encoded[:size], {"n": 1}, expires=False)
        assert caught.value.code == 502


@given(st.binary(max_size=40))
def test_no_octets_make_it_fail_otherwise(data: bytes) -> None:
    try:
        annotate(data, {"n": 1}, without=("a",), expires=False)
    except RemoteProtocolError as error:
        assert error.code == 502  # noqa: PT017 - any other exception fails the test


def test_what_cannot_be_written_is_our_own_error() -> None:
    with pytest.raises(LocalProtocolError, match="beyond 64 bits"):
        annotate(b"\0\0", {"n": 2**64})


RECORD = DeathRecord(
    queue="q",
    reason="expired",
    exchange="e",
    routing_keys=("k", "c"),
    at=1_700_000_000_999,
    count=3,
    original_expiration="60",
)
FIELDS = {
    "count": 3, "reason": "expired", "queue": "q", "time": Timestamp(1_700_000_000), "exchange": "e",
    "routing-keys": ["k", "c"], "original-expiration": "60",
}  # fmt: skip


def as_dictionary(record: DeathRecord) -> dict[str, Any]:
    """Return the fields by name; compiled classes have no ``__slots__`` to list them."""
    return {name: getattr(record, name) for name in dir(record) if not name.startswith("_")}


def test_deaths_as_rabbitmq_writes_them() -> None:
    headers = encode_deaths([RECORD, DeathRecord(queue="p", reason="rejected")], first_known=False)
    assert headers == {
        "x-death": [
            FIELDS,
            {"count": 1, "reason": "rejected", "queue": "p", "time": 0, "exchange": "", "routing-keys": []},
        ],
        "x-first-death-exchange": "e", "x-first-death-queue": "q", "x-first-death-reason": "expired",
        "x-last-death-exchange": "e", "x-last-death-queue": "q", "x-last-death-reason": "expired",
    }  # fmt: skip
    encoded = encode_table(headers)
    assert b"\x05countl\x00\x00\x00\x00\x00\x00\x00\x03" in encoded  # clients cast it to 64 bits
    assert b"\x04timeT" in encoded
    theirs = decode.field_table(encoded)[1]
    assert theirs["x-death"][0]["count"] == 3


def test_the_first_death_is_written_once() -> None:
    assert not [name for name in encode_deaths([RECORD], first_known=True) if name.startswith("x-first")]


@pytest.mark.parametrize(("count", "expected"), [(1, "5000"), (2, None)])
def test_the_first_record_of_a_death_keeps_the_expiration(count: int, expected: str | None) -> None:
    record = DeathRecord(queue="q", reason="expired", count=count)
    (fields,) = encode_deaths([record], first_known=True, original_expiration="5000")["x-death"]  # type: ignore[misc, union-attr]
    assert fields.get("original-expiration") == expected  # type: ignore[union-attr]


def test_deaths_both_ways() -> None:
    (read,) = decode_deaths([dict(FIELDS)])
    assert as_dictionary(read) == {**as_dictionary(RECORD), "at": 1_700_000_000_000}
    assert encode_deaths([read], first_known=True)["x-death"] == [FIELDS]


@pytest.mark.parametrize("value", [None, "x", 5, {}, b""])
def test_what_is_no_list_is_no_trail(value: Any) -> None:
    assert decode_deaths(value) == []


def test_what_clients_write_into_a_trail_is_read_and_can_be_written() -> None:
    odd = [
        5, {"queue": 1, "reason": None, "routing-keys": ["k", 1], "time": -1, "count": -1, "exchange": []},
        {"time": 2**63 - 1, "count": 2**63 - 1, "routing-keys": "k"},
    ]  # fmt: skip
    read = decode_deaths(odd)  # type: ignore[arg-type]
    assert [(record.queue, record.reason, record.routing_keys, record.at, record.count) for record in read] == [
        ("", "", (), 0, 1), ("", "", ("k",), 0, 1), ("", "", (), 0, 1),
    ]  # fmt: skip
    assert encode_table(encode_deaths(read, first_known=False))


def test_long_is_a_number_written_wide() -> None:
    assert encode_table({"n": Long(1)}) == b"\x00\x00\x00\x0b\x01nl\x00\x00\x00\x00\x00\x00\x00\x01"
    with pytest.raises(LocalProtocolError, match="beyond 64 bits"):
        encode_table({"n": Long(2**63)})


def test_names_need_not_be_text() -> None:
    fields = b"\x01\xfft\x01" + b"\x01at\x01"
    header = b"\x20\x00" + len(fields).to_bytes(4, "big") + fields
    assert annotate(header, {}, without=("a",)) == b"\x20\x00\x00\x00\x00\x04\x01\xfft\x01"


@given(drawn)
def test_a_reply_to_is_replaced_and_nothing_else_changes(values: dict[str, Any]) -> None:
    given = header({**values, "reply_to": "asked"})
    replaced = replace_reply_to(given, "asked", "answered")
    assert replaced == header({**values, "reply_to": "answered"})


@given(drawn)
def test_another_reply_to_or_none_stays(values: dict[str, Any]) -> None:
    given = header(values)
    assert replace_reply_to(given, "asked", "answered") is given


def test_a_reply_to_that_is_cut_is_refused() -> None:
    given = header({"correlation_id": "c", "reply_to": "asked"})
    with pytest.raises(RemoteProtocolError):
        replace_reply_to(given[:-1], "asked", "answered")
