from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import commands

from annulet.core.message import Message, Origin
from annulet.wire.amqp091.errors import LocalProtocolError, RemoteProtocolError
from annulet.wire.amqp091.properties import (
    VIEW,
    BasicProperties,
    decode_properties,
    encode_properties,
    read_publish_facts,
)

NAMES = [
    "content_type", "content_encoding", "headers", "delivery_mode", "priority", "correlation_id", "reply_to",
    "expiration", "message_id", "timestamp", "type", "user_id", "app_id", "cluster_id",
]  # fmt: skip
text = st.text(max_size=20)
drawn = st.fixed_dictionaries(
    {},
    optional={
        "content_type": text,
        "content_encoding": text,
        "headers": st.dictionaries(text.filter(bool), st.booleans() | text | st.integers(-(2**31), 2**31), max_size=3),
        "delivery_mode": st.sampled_from([1, 2]),
        "priority": st.integers(0, 255),
        "correlation_id": text,
        "reply_to": text,
        "expiration": text,
        "message_id": text,
        "timestamp": st.integers(0, 2**32 - 1),
        "message_type": text,
        "user_id": text,
        "app_id": text,
        "cluster_id": st.just(""),  # the oracle allows no other
    },
)


def ours(values: dict[str, Any]) -> BasicProperties:
    properties = BasicProperties()
    for name, value in values.items():
        setattr(properties, "type" if name == "message_type" else name, value)
    return properties


def as_dictionary(properties: BasicProperties) -> dict[str, Any]:
    return {name: getattr(properties, name) for name in NAMES}


@given(drawn)
def test_properties_both_ways_and_as_the_oracle_reads_them(values: dict[str, Any]) -> None:
    encoded = encode_properties(ours(values))
    decoded = decode_properties(encoded)
    assert as_dictionary(decoded) == as_dictionary(ours(values))
    flags = int.from_bytes(encoded[:2], "big")
    theirs = commands.Basic.Properties()
    theirs.unmarshal(flags, encoded[2:])
    for name, value in values.items():
        expected = datetime.fromtimestamp(value, UTC) if name == "timestamp" else value
        assert getattr(theirs, name) == expected, name
    facts = read_publish_facts(encoded)
    assert facts.delivery_mode == values.get("delivery_mode", 0)
    assert facts.priority == values.get("priority", -1)
    assert (facts.expiration, facts.user_id) == (values.get("expiration"), values.get("user_id"))
    assert facts.has_headers is ("headers" in values)


@given(drawn)
def test_what_the_oracle_writes_is_read(values: dict[str, Any]) -> None:
    theirs = dict(values)
    if "timestamp" in theirs:
        theirs["timestamp"] = datetime.fromtimestamp(theirs["timestamp"], UTC)
    written = {name: value for name, value in theirs.items() if value not in ("", {})}  # it leaves empty ones out
    decoded = decode_properties(commands.Basic.Properties(**written).marshal())
    kept = {name: values[name] for name in written}
    assert as_dictionary(decoded) == as_dictionary(ours(kept))


@given(drawn, st.data())
def test_cut_and_prolonged_properties_are_syntax_errors(values: dict[str, Any], data: st.DataObject) -> None:
    encoded = encode_properties(ours(values))
    size = data.draw(st.integers(0, len(encoded) - 1))
    with pytest.raises(RemoteProtocolError) as caught:
        decode_properties(encoded[:size])
    assert caught.value.code == 502
    with pytest.raises(RemoteProtocolError, match="behind its properties"):
        decode_properties(encoded + b"\0")


@given(st.binary(max_size=40))
def test_no_octets_make_a_reader_fail_otherwise(data: bytes) -> None:
    message = Message(data, b"", Origin("", "", "", VIEW))
    for read in (
        lambda: decode_properties(data),
        lambda: read_publish_facts(data),
        lambda: VIEW.application_property(message, "a"),
    ):
        try:
            read()
        except RemoteProtocolError as error:
            assert error.code == 502  # noqa: PT017 - any other exception fails the test


@pytest.mark.parametrize("flags", [1, 2, 3])
def test_flags_without_property_are_refused(flags: int) -> None:
    with pytest.raises(RemoteProtocolError, match="name no property"):
        decode_properties(flags.to_bytes(2, "big"))


def test_numbers_that_do_not_fit_are_our_own_error() -> None:
    with pytest.raises(LocalProtocolError, match="256"):
        encode_properties(ours({"priority": 256}))


def test_the_view() -> None:
    values = {
        "content_type": "text/plain", "content_encoding": "gzip", "message_id": "m", "correlation_id": "c",
        "reply_to": "r", "message_type": "t", "user_id": "u", "timestamp": 5, "headers": {"JMSXGroupID": "g", "n": 1},
    }  # fmt: skip
    message = Message(encode_properties(ours(values)), b"", Origin("e", "k", "", VIEW))
    seen = VIEW.properties(message)
    assert (seen.message_id, seen.correlation_id, seen.reply_to, seen.subject) == ("m", "c", "r", "t")
    assert (seen.content_type, seen.content_encoding, seen.user_id) == ("text/plain", "gzip", "u")
    assert (seen.group_id, seen.timestamp, seen.application) == ("g", 5000, {"JMSXGroupID": "g", "n": 1})
    assert VIEW.application_property(message, "n") == 1
    assert VIEW.application_property(message, "absent") is None
    bare = Message(b"\0\0", b"", Origin("", "", "", VIEW))
    assert VIEW.properties(bare).application == {}
    assert VIEW.application_property(bare, "n") is None
    assert VIEW.name == "amqp-0-9-1"
