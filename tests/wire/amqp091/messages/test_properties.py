from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import commands

from annulet.core.base.death_trail import GIVEN, DeathRecord
from annulet.core.message.message import Message, Origin
from annulet.wire.amqp091.messages.properties import (
    VIEW,
    BasicProperties,
    decode_properties,
    encode_properties,
    read_publish_facts,
)
from annulet.wire.amqp091.types.errors import LocalProtocolError, RemoteProtocolError

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


def view_of(headers: dict[str, Any] | None = None, *, key: str = "k", **values: Any) -> Message:
    encoded = encode_properties(ours({**values, "headers": headers}))
    return Message(encoded, b"", Origin("e", key, "", VIEW), accepted_at=1000)


def test_the_view_answers_what_queues_ask() -> None:
    message = view_of({"x-delay": 500, "x-schedule-id": "s", "_AMQ_DUPL_ID": b"\x01", "CC": ["c", "d"]}, priority=7)
    assert (VIEW.given_priority(message), VIEW.deliver_at(message)) == (7, 1500)
    assert (VIEW.schedule_id(message), VIEW.duplicate_id(message)) == ("s", "01")
    assert VIEW.routing_keys(message) == ("k", "c", "d")
    bare = view_of()
    assert (VIEW.given_priority(bare), VIEW.deliver_at(bare), VIEW.schedule_id(bare)) == (-1, 0, "")
    assert (VIEW.duplicate_id(bare), VIEW.routing_keys(bare), VIEW.deaths(bare)) == ("", ("k",), [])


def test_a_trail_that_its_publisher_wrote_is_no_death_and_the_next_one_takes_its_place() -> None:
    written = {"x-death": [{"queue": "other", "reason": "expired"}], "x-first-death-reason": "expired", "mine": 1}
    assert [record.queue for record in VIEW.deaths(view_of(written))] == ["other"]
    sent = view_of({**written, GIVEN: True})
    assert VIEW.deaths(sent) == []
    death = DeathRecord(queue="q", reason="rejected", exchange="e", routing_keys=("k",))
    copy = Message(VIEW.forwarded_header(sent, [death], {}, rerouted=False), b"", sent.origin)
    headers = decode_properties(copy.header).headers or {}
    assert (headers["mine"], headers["x-first-death-reason"], GIVEN in headers) == (1, "rejected", False)
    assert [record.queue for record in VIEW.deaths(copy)] == ["q"]


@pytest.mark.parametrize("name", ["group-id", "JMSXGroupID", "x-group-id"])
def test_every_name_of_a_group(name: str) -> None:
    assert VIEW.properties(view_of({name: "g"})).group_id == "g"


def test_the_view_does_not_raise_for_what_a_channel_would_refuse() -> None:
    message = view_of({"x-delay": "soon", "x-schedule-id": 5, "_AMQ_DUPL_ID": 5, "CC": "c", "x-death": [1]})
    assert (VIEW.deliver_at(message), VIEW.schedule_id(message), VIEW.duplicate_id(message)) == (0, "", "")
    assert VIEW.routing_keys(message) == ("k",)
    assert [record.reason for record in VIEW.deaths(message)] == [""]


def test_the_view_annotates() -> None:
    message = view_of({"a": 1, "b": 2}, expiration="60", type="t")
    decoded = decode_properties(VIEW.annotated(message, {"b": 3}, without=("a",), expires=False))
    assert (decoded.headers, decoded.expiration, decoded.type) == ({"b": 3}, None, "t")
    assert decode_properties(VIEW.annotated(message, {})).expiration == "60"


def test_a_forwarded_header_carries_the_trail_and_neither_expiration_nor_delay() -> None:
    message = view_of(
        {"a": 1, "x-delay": 5, "x-deliver-at": 5, "_AMQ_SCHED_DELIVERY": 5, "x-qpid-not-valid-before": 5,
         "x-schedule-id": "s", "CC": ["c"], "BCC": ["d"]},
        expiration="60", message_id="m",
    )  # fmt: skip
    death = DeathRecord(queue="q", reason="expired", exchange="e", routing_keys=("k",), at=5000)
    decoded = decode_properties(VIEW.forwarded_header(message, [death], {"o": "v"}, rerouted=False))
    assert (decoded.expiration, decoded.message_id) == (None, "m")
    assert decoded.headers == {
        "a": 1, "CC": ["c"], "o": "v",
        "x-death": [{
            "count": 1, "reason": "expired", "queue": "q", "time": 5, "exchange": "e", "routing-keys": ["k"],
            "original-expiration": "60",
        }],
        "x-first-death-exchange": "e", "x-first-death-queue": "q", "x-first-death-reason": "expired",
        "x-last-death-exchange": "e", "x-last-death-queue": "q", "x-last-death-reason": "expired",
    }  # fmt: skip


def test_a_second_death_keeps_the_first_and_another_key_drops_the_copies() -> None:
    first = DeathRecord(queue="q", reason="expired")
    once = Message(
        VIEW.forwarded_header(view_of({"CC": ["c"]}), [first], {}, rerouted=False), b"", Origin("", "", "", VIEW)
    )
    assert [record.queue for record in VIEW.deaths(once)] == ["q"]
    second = DeathRecord(queue="p", reason="rejected")
    headers = decode_properties(VIEW.forwarded_header(once, [second, first], {}, rerouted=True)).headers
    assert headers is not None
    assert (headers["x-first-death-queue"], headers["x-last-death-queue"]) == ("q", "p")
    assert "CC" not in headers
    assert isinstance(headers["x-death"], list)
    assert len(headers["x-death"]) == 2


@given(st.binary(max_size=40))
def test_no_octets_make_the_view_fail_otherwise(data: bytes) -> None:
    message = Message(data, b"", Origin("", "", "", VIEW))
    death = DeathRecord(queue="q", reason="expired")
    for ask in (
        lambda: VIEW.deliver_at(message),
        lambda: VIEW.duplicate_id(message),
        lambda: VIEW.forwarded_header(message, [death], {}, rerouted=True),
    ):
        try:
            ask()
        except RemoteProtocolError as error:
            assert error.code == 502  # noqa: PT017 - any other exception fails the test


@given(st.binary(max_size=60))
def test_what_queues_ask_never_fails(data: bytes) -> None:
    for octets in (data, b"\x20\x00" + len(data).to_bytes(4, "big") + data):
        message = Message(octets, b"", Origin("", "k", "", VIEW))
        seen = VIEW.properties(message)
        for name, value in seen.application.items():
            found = VIEW.application_property(message, name)
            assert repr(found) == repr(value)  # NaN is not equal to itself
        assert -1 <= VIEW.given_priority(message) <= 255
        assert isinstance(VIEW.schedule_id(message), str)
        assert VIEW.routing_keys(message)[0] == "k"
        assert isinstance(VIEW.deaths(message), list)


def test_what_cannot_be_decoded_counts_as_absent() -> None:
    nested = b"\x01aF\x00\x00\x00\x02\xffk"
    table = nested + b"\x01nt\x01" + b"\x01\xfft\x01" + b"\x01at\x01"
    content_type, message_id = b"\x02\xff\xff", b"\x01m"
    octets = b"\xa0\x80" + content_type + len(table).to_bytes(4, "big") + table + message_id
    message = Message(octets, b"", Origin("", "k", "", VIEW))
    seen = VIEW.properties(message)
    assert (seen.content_type, seen.message_id, seen.application) == ("", "m", {"n": True})
    assert "not UTF-8" in seen.malformed
    assert (VIEW.application_property(message, "a"), VIEW.application_property(message, "n")) == (None, True)
    cut = Message(octets[:-1], b"", Origin("", "k", "", VIEW))
    assert (VIEW.properties(cut).message_id, VIEW.properties(cut).application) == ("", {"n": True})
    assert VIEW.properties(view_of({"n": 1})).malformed == ""
