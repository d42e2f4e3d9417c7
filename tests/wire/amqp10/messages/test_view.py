from __future__ import annotations

import random
from typing import Any

import pytest

from annulet.core.base.death_trail import DeathRecord, with_death
from annulet.core.base.typed_values import Symbol, UnsignedInt, UnsignedLong, Uuid
from annulet.core.message.message import Message, Origin, PropertyValue
from annulet.core.message.selector_names import lookup_for
from annulet.wire.amqp10.messages.facts import SCHEDULE_NAMES
from annulet.wire.amqp10.messages.message import split_incoming, with_given_deaths
from annulet.wire.amqp10.messages.sections import (
    APPLICATION_PROPERTIES,
    DATA,
    MESSAGE_ANNOTATIONS,
    Header,
    Properties,
    encode_header,
    encode_properties,
    encode_section,
)
from annulet.wire.amqp10.messages.view import VIEW
from tests.wire.contents import as_tuple

ORIGIN = Origin("e", "k", "", VIEW)


def message(
    properties: Properties | None = None,
    application: dict[str, Any] | None = None,
    annotations: dict[str, Any] | None = None,
    header: Header | None = None,
) -> Message:
    payload = b"" if header is None else encode_header(header)
    payload += b"" if annotations is None else encode_section(MESSAGE_ANNOTATIONS, annotations)
    payload += b"" if properties is None else encode_properties(properties)
    payload += b"" if application is None else encode_section(APPLICATION_PROPERTIES, application)
    incoming = split_incoming(payload + encode_section(DATA, b"body"))
    return Message(incoming.header, incoming.body, ORIGIN, accepted_at=1000)


def with_header(source: Message, header: bytes) -> Message:
    return Message(header, source.body, ORIGIN, accepted_at=1000)


FULL = Properties(
    message_id=Uuid(bytes(16)), user_id=b"guest", to="q", subject="s", reply_to="r", correlation_id=UnsignedLong(7),
    content_type="text/plain", content_encoding="gzip", absolute_expiry_time=9000, creation_time=8000, group_id="g",
    group_sequence=3, reply_to_group_id="rg",
)  # fmt: skip


def test_standard_properties() -> None:
    found = VIEW.properties(message(FULL, {"n": UnsignedInt(7), "t": "x"}))
    assert found.message_id == "ID:AMQP_UUID:00000000-0000-0000-0000-000000000000"
    assert found.correlation_id == "ID:AMQP_ULONG:7"
    assert (found.reply_to, found.subject, found.group_id, found.user_id) == ("r", "s", "g", "guest")
    assert (found.content_type, found.content_encoding, found.timestamp) == ("text/plain", "gzip", 8000)
    assert found.application == {"n": 7, "t": "x"}
    assert found.malformed == ""


def test_what_the_sender_left_out_is_empty() -> None:
    found = VIEW.properties(message())
    assert (found.message_id, found.user_id, found.timestamp, found.application) == ("", "", 0, {})
    assert VIEW.given_priority(message()) == -1
    assert VIEW.given_priority(message(header=Header(priority=0))) == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n", 7), ("absent", None), ("symbol", "s"), ("JMSXGroupSeq", 3), ("_AMQ_ORIG_QUEUE", "dead"),
        ("x-first-death-reason", None), ("JMSMessageID", "ID:AMQP_UUID:00000000-0000-0000-0000-000000000000"),
        ("JMSType", "s"), ("AMQGroupID", "g"), ("amqp.user_id", "guest"), ("JMSXGroupID", "g"),
        ("m.x-opt-mine", "annotation"), ("m.absent", None), ("amqp.creation_time", 8000), ("AMQSize", 4),
    ],
)  # fmt: skip
def test_selectors_find_properties_annotations_and_names_of_jms(name: str, value: PropertyValue) -> None:
    found = message(
        FULL, {"n": UnsignedInt(7), "symbol": Symbol("s")}, {"x-opt-mine": "annotation", "x-opt-ORIG-QUEUE": "dead"}
    )
    assert lookup_for(found)(name) == value


def test_a_property_of_that_name_comes_before_the_annotation() -> None:
    found = message(application={"_AMQ_ORIG_QUEUE": "own"}, annotations={"x-opt-ORIG-QUEUE": "annotation"})
    assert VIEW.application_property(found, "_AMQ_ORIG_QUEUE") == "own"


def test_what_the_sender_asks_for() -> None:
    asked = message(
        application={"x-schedule-id": "a", "_AMQ_DUPL_ID": b"\x01"}, annotations={"x-opt-delivery-delay": 50}
    )
    assert VIEW.deliver_at(asked) == 1050
    assert (VIEW.schedule_id(asked), VIEW.duplicate_id(asked)) == ("a", "01")
    assert VIEW.routing_keys(asked) == ("k",)


def test_annotating_changes_nothing_else() -> None:
    original = message(FULL, {"n": 7, "leaves": 1}, {"x-opt-mine": "a"}, Header(True, 7, 5000))
    assert VIEW.annotated(original, {}) is original.header
    assert VIEW.annotated(original, {}, without=("absent",)) == original.header
    changed = with_header(
        original, VIEW.annotated(original, {"n": 8, "_AMQ_ORIG_ADDRESS": "a", "x-opt-new": 1}, without=("leaves",))
    )
    content = VIEW.content(changed)
    assert content.application == {"n": 8, "_AMQ_ORIG_ADDRESS": "a"}
    assert content.annotations == {"x-opt-mine": "a", "x-opt-new": 1}
    assert VIEW.annotation(changed, "x-opt-ORIG-ADDRESS") == "a"
    assert (content.time_to_live, content.absolute_expiry_time, content.priority) == (5000, 9000, 7)


def test_sections_that_do_not_change_keep_their_octets() -> None:
    """§3.2: the bare message is immutable, so also how its sender wrote it."""
    pair = b"\xb1\x00\x00\x00\x01n\x70\x00\x00\x00\x01"
    application = b"\x00\x53\x74\xd1" + (len(pair) + 4).to_bytes(4, "big") + b"\x00\x00\x00\x02" + pair  # map32
    original = message(FULL, annotations={"x-opt-mine": 1})
    original = with_header(original, original.header + application)
    copy = dead(original)
    assert VIEW.annotation(copy, "x-opt-last-death-reason") == "rejected"
    assert copy.header.endswith(application)


def test_without_expiry_neither_time_is_left() -> None:
    original = message(FULL, header=Header(True, 7, 5000))
    content = VIEW.content(with_header(original, VIEW.annotated(original, {}, expires=False)))
    assert (content.durable, content.priority, content.time_to_live, content.absolute_expiry_time) == (
        True, 7, -1, None
    )  # fmt: skip
    assert content.message_id == FULL.message_id
    plain = message(Properties(message_id="m"), header=Header(True))
    assert VIEW.annotated(plain, {}, expires=False) == plain.header


def test_what_was_put_on_comes_off_again() -> None:
    original = message(FULL, {"n": 7})
    names = ("_AMQ_ORIG_ADDRESS", "_AMQ_ORIG_QUEUE", "_AMQ_ORIG_MESSAGE_ID")
    added = with_header(original, VIEW.annotated(original, dict.fromkeys(names, "x")))
    assert all(VIEW.application_property(added, name) == "x" for name in names)
    assert VIEW.annotated(added, {}, without=names) == original.header


def dead(source: Message, **fields: Any) -> Message:
    death = DeathRecord(
        **{"queue": "q", "reason": "rejected", "exchange": "e", "routing_keys": ("k",), "at": 5, **fields}
    )
    deaths = with_death(VIEW.deaths(source), death)
    return with_header(source, VIEW.forwarded_header(source, deaths, {"_AMQ_ORIG_QUEUE": "q"}, rerouted=True))


def test_a_trail_that_its_publisher_wrote_is_no_death_and_the_next_one_takes_its_place() -> None:
    copy = dead(message(Properties(message_id="m"), {"n": 7}, {"x-opt-mine": 1}))
    sent = with_header(copy, with_given_deaths(copy.header))
    assert VIEW.deaths(sent) == []
    again = dead(sent, queue="p", reason="expired")
    assert [record.queue for record in VIEW.deaths(again)] == ["p"]
    assert VIEW.annotation(again, "x-opt-first-death-queue") == "p"
    assert (VIEW.annotation(again, "x-opt-mine"), VIEW.annotation(again, "x-opt-deaths-given")) == (1, None)


def test_a_dead_letter_carries_its_trail_as_annotations_and_the_bare_message_as_it_was() -> None:
    original = message(Properties(message_id="m"), {"n": 7}, {"x-opt-mine": 1}, Header(True, 7, 5000))
    copy = dead(original)
    assert VIEW.annotation(copy, "x-opt-first-death-queue") == "q"
    assert VIEW.annotation(copy, "x-opt-last-death-reason") == "rejected"
    assert VIEW.application_property(copy, "_AMQ_ORIG_QUEUE") == "q"
    assert VIEW.application_property(copy, "x-first-death-exchange") == "e"
    assert VIEW.properties(copy).application == {"n": 7}
    (record,) = VIEW.deaths(copy)
    assert record.original_expiration == "5000"
    assert VIEW.content(copy).time_to_live == -1
    again = dead(copy, queue="p", reason="expired", at=9)
    assert VIEW.annotation(again, "x-opt-first-death-queue") == "q"
    assert VIEW.annotation(again, "x-opt-last-death-queue") == "p"
    assert [record.queue for record in VIEW.deaths(again)] == ["p", "q"]
    assert [as_tuple(death) for death in VIEW.content(again).deaths] == [
        as_tuple(death) for death in VIEW.deaths(again)
    ]


def test_a_dead_letter_is_not_scheduled_again() -> None:
    asking = {name.decode(): "5" for name in SCHEDULE_NAMES if b"cancel" not in name}
    copy = dead(message(application=asking))
    assert VIEW.deliver_at(copy) == 0
    assert VIEW.schedule_id(copy) == ""
    assert VIEW.properties(copy).application == {}
    assert VIEW.deliver_at(dead(message(annotations={"x-opt-delivery-time": 5}))) == 0


def test_views_never_raise_where_queues_ask() -> None:
    """Octets that no door let in: every truncation, and random ones changed."""
    whole = dead(message(FULL, {"n": 7, "x-schedule-id": "a"}, {"x-opt-mine": [1, {"a": 2}]}, Header(True, 7, 5000)))
    chance = random.Random(10)
    corrupted = [whole.header[:end] for end in range(len(whole.header))]
    for _ in range(500):
        octets = bytearray(whole.header)
        for _ in range(chance.randint(1, 4)):
            octets[chance.randrange(len(octets))] = chance.randrange(256)
        corrupted.append(bytes(octets))
    for header in corrupted:
        broken = with_header(whole, header)
        properties = VIEW.properties(broken)
        assert isinstance(properties.malformed, str)
        for name in ("n", "JMSXGroupSeq", "_AMQ_ORIG_QUEUE"):
            VIEW.application_property(broken, name)
        assert VIEW.annotation(broken, "x-opt-absent") is None
        assert isinstance(VIEW.deaths(broken), list)
        assert VIEW.deliver_at(broken) >= 0
        assert isinstance(VIEW.schedule_id(broken) + VIEW.duplicate_id(broken), str)
        assert -1 <= VIEW.given_priority(broken) <= 255
        assert VIEW.content(broken).body is not None
