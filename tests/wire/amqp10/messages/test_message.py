from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given

from annulet.core.base.errors import InvalidArgument
from annulet.core.base.typed_values import Symbol, UnsignedLong
from annulet.core.message.message import Message, Origin
from annulet.wire.amqp10.messages.conversion import from_content
from annulet.wire.amqp10.messages.message import (
    FACTS_MAX,
    FORM_DATA,
    FORM_ENCODED,
    IncomingMessage,
    encode_delivery,
    find_section,
    read_facts,
    rebuilt,
    split_incoming,
)
from annulet.wire.amqp10.messages.sections import (
    APPLICATION_PROPERTIES,
    DATA,
    DELIVERY_ANNOTATIONS,
    FOOTER,
    HEADER,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
    SEQUENCE,
    VALUE,
    Header,
    Properties,
    decode_header,
    encode_header,
    encode_properties,
    encode_section,
    find_in_map,
    split_message,
)
from annulet.wire.amqp10.messages.view import VIEW
from annulet.wire.amqp10.types.errors import DecodeError
from annulet.wire.amqp10.types.values import decode_value
from tests.wire.contents import contents

ORIGIN = Origin("", "q", "", VIEW)
HEAD = encode_header(Header(True, 7, 5000))
ANNOTATIONS = encode_section(MESSAGE_ANNOTATIONS, {"x-opt-a": 1})
PROPERTIES_SECTION = encode_properties(Properties(message_id="m", user_id=b"guest", to="q", subject="s"))
APPLICATION = encode_section(APPLICATION_PROPERTIES, {"n": 7})
BODY = encode_section(DATA, b"payload")


def stored(payload: bytes, **facts: Any) -> Message:
    incoming = split_incoming(payload)
    return Message(incoming.header, incoming.body, ORIGIN, durable=incoming.durable, **facts)


def delivered(message: Message, **options: Any) -> bytes:
    chosen = {"delivery_count": 0, "first_acquirer": True, "now": 0, **options}
    return encode_delivery(message, **chosen)


# ---------------------------------------------------------------------- coming in


def test_a_data_section_is_stored_as_its_octets_and_delivery_annotations_are_not() -> None:
    hop = encode_section(DELIVERY_ANNOTATIONS, {"x-opt-hop": 1})
    incoming = split_incoming(HEAD + hop + ANNOTATIONS + PROPERTIES_SECTION + APPLICATION + BODY)
    assert incoming.header == bytes((FORM_DATA,)) + HEAD + ANNOTATIONS + PROPERTIES_SECTION + APPLICATION
    assert incoming.body == b"payload"
    assert (incoming.durable, incoming.priority, incoming.to, incoming.subject, incoming.user_id) == (
        True, 7, "q", "s", b"guest"
    )  # fmt: skip


@pytest.mark.parametrize("own", [b"", ANNOTATIONS], ids=["without annotations", "with its own"])
def test_the_schedule_may_be_asked_for_in_delivery_annotations(own: bytes) -> None:
    hop = encode_section(DELIVERY_ANNOTATIONS, {Symbol("x-opt-hop"): 1, Symbol("x-opt-delivery-time"): 5000})
    incoming = split_incoming(HEAD + hop + own + PROPERTIES_SECTION + BODY)
    assert incoming.due_at(1000) == 5000
    assert b"x-opt-hop" not in incoming.header
    assert read_facts(incoming.header).due_at(1000) == 5000  # it is known after a restart
    assert len(incoming.header) > len(HEAD + own + PROPERTIES_SECTION)
    kept = split_message(incoming.header[1:])
    assert kept.message_annotations is not None
    section = incoming.header[1:][kept.message_annotations.content : kept.message_annotations.end]
    found, _ = decode_value(section, 0, len(section))
    assert found["x-opt-delivery-time"] == 5000
    assert len(found) == (2 if own else 1)


@pytest.mark.parametrize(
    "body",
    [
        encode_section(VALUE, "text"), encode_section(SEQUENCE, [1]) + encode_section(SEQUENCE, [2]), BODY + BODY,
        BODY + encode_section(FOOTER, {"x-opt-f": 1}), encode_section(FOOTER, {"x-opt-f": 1}), b"",
    ],
)  # fmt: skip
def test_any_other_body_is_stored_as_it_came(body: bytes) -> None:
    incoming = split_incoming(HEAD + body)
    assert incoming.header[0] == FORM_ENCODED
    assert incoming.body == body


@pytest.mark.parametrize("descriptor", [b"\x00\x80" + bytes(7), b"\x00\xa3\x10amqp:data:binary"])
def test_other_forms_of_descriptors_are_stored_short(descriptor: bytes) -> None:
    head = b"\x00\x80\x00\x00\x00\x00\x00\x00\x00\x70" + HEAD[3:]
    data = (descriptor + b"\x75" if descriptor[1] == 0x80 else descriptor) + BODY[3:]
    incoming = split_incoming(head + data)
    assert incoming.header == bytes((FORM_DATA,)) + HEAD
    assert incoming.body == b"payload"


def test_octets_of_data_with_a_long_length() -> None:
    assert split_incoming(encode_section(DATA, b"x" * 300)).body == b"x" * 300


@pytest.mark.parametrize("payload", [b"x", BODY + b"x", HEAD + HEAD, BODY + APPLICATION, HEAD[:-1]])
def test_what_is_no_message_is_refused(payload: bytes) -> None:
    with pytest.raises(DecodeError):
        split_incoming(payload)


@given(contents())
def test_every_truncated_message_is_refused_or_shorter(content: Any) -> None:
    payload = delivered(Message(*from_content(content), ORIGIN))
    chosen = random.Random(len(payload)).sample(range(len(payload)), min(len(payload), 20))
    for end in chosen:
        try:
            incoming = split_incoming(payload[:end])
        except (DecodeError, InvalidArgument):
            continue
        assert len(incoming.header) + len(incoming.body) <= len(payload) + 1


def test_times_to_live_and_expiry() -> None:
    def incoming(ttl: int | None, expiry: int | None) -> IncomingMessage:
        return split_incoming(
            encode_header(Header(ttl=ttl)) + encode_properties(Properties(absolute_expiry_time=expiry))
        )

    assert incoming(None, None).expires_at(1000) == 0
    assert incoming(0, None).expires_at(1000) == 0, "0 is for ever here"
    assert incoming(50, None).expires_at(1000) == 1050
    assert incoming(None, 1020).expires_at(1000) == 1020
    assert incoming(50, 1020).expires_at(1000) == 1020
    assert incoming(10, 1020).expires_at(1000) == 1010
    assert incoming(None, -5).expires_at(1000) == 0


def test_keys_that_are_no_texts_and_long_forms_of_keys() -> None:
    key = b"\xb3\x00\x00\x00\x13x-opt-delivery-time"
    content = b"\x80" + bytes(7) + b"\x07\x41" + key + b"\x80" + (3000).to_bytes(8, "big")
    section = b"\x00\x53\x72\xc1" + bytes((len(content) + 1, 4)) + content
    assert split_incoming(section + BODY).due_at(0) == 3000


def facts_twice(payload: bytes) -> tuple[object, object]:
    return split_incoming(payload).facts, split_incoming(payload).facts


def test_facts_are_remembered_within_a_bound() -> None:
    payloads = [encode_properties(Properties(message_id=f"m{number}")) + BODY for number in range(FACTS_MAX + 1)]
    first = split_incoming(payloads[0]).facts
    assert split_incoming(payloads[0]).facts is first
    for payload in payloads[1:]:
        one, other = facts_twice(payload)
        assert one is other
    assert split_incoming(payloads[0]).facts is not first, "as many others came since as are remembered"
    assert FACTS_MAX == 1024


def test_headers_too_long_or_with_a_duplicate_id_are_not_remembered() -> None:
    for payload in (
        encode_properties(Properties(message_id="m" * 600)) + BODY,
        encode_section(APPLICATION_PROPERTIES, {"_AMQ_DUPL_ID": "d"}) + BODY,
    ):
        one, other = facts_twice(payload)
        assert one is not other


# ---------------------------------------------------------------------- stored


def test_finding_and_replacing_sections() -> None:
    header = bytes((FORM_DATA,)) + HEAD + APPLICATION
    assert find_section(header, HEADER) == 4
    assert find_section(header, PROPERTIES) == -1
    assert find_in_map(header, find_section(header, APPLICATION_PROPERTIES), len(header), b"n") == 7
    assert rebuilt(header, {PROPERTIES: PROPERTIES_SECTION, HEADER: b""}) == (
        bytes((FORM_DATA,)) + PROPERTIES_SECTION + APPLICATION
    )


@pytest.mark.parametrize(
    "octets", [b"\x01x", b"\x01\x00\x53\x70", b"\x01\x01\x53\x70\x45", b"\x01\x00\x53\x70\xc0\x09"]
)
def test_what_no_door_let_in_is_refused(octets: bytes) -> None:
    for read in (lambda: find_section(octets, FOOTER), lambda: rebuilt(octets, {}), lambda: read_facts(octets)):
        with pytest.raises(DecodeError):
            read()


# ---------------------------------------------------------------------- going out


@given(contents())
def test_what_was_stored_goes_out_and_comes_in_the_same(content: Any) -> None:
    message = Message(*from_content(content), ORIGIN, durable=content.durable)
    again = split_incoming(delivered(message))
    assert again.body == message.body
    kept = find_section(again.header, MESSAGE_ANNOTATIONS), find_section(message.header, MESSAGE_ANNOTATIONS)
    assert again.header[kept[0] :] == message.header[kept[1] :]


def test_the_header_section_is_that_of_the_delivery() -> None:
    message = stored(HEAD + BODY, expires_at=6000)
    payload = delivered(message, delivery_count=3, first_acquirer=False, now=2000)
    given_header = decode_header(payload, 3, len(payload) - len(BODY))
    assert given_header == Header(True, 7, 4000, False, 3)
    assert payload.endswith(BODY)


@pytest.mark.parametrize(("now", "left"), [(5999, 1), (6000, 1), (9000, 1), (0, 6000)])
def test_what_is_left_of_the_time_to_live_is_at_least_a_millisecond(now: int, left: int) -> None:
    payload = delivered(stored(HEAD + BODY, expires_at=6000), now=now)
    assert decode_header(payload, 3, len(payload) - len(BODY)).ttl == left


def test_no_time_to_live_is_made_up() -> None:
    by_time = stored(encode_header(Header(True)) + BODY, expires_at=6000)
    payload = delivered(by_time)
    assert decode_header(payload, 3, len(payload) - len(BODY)) == Header(True, None, None, True, 0)


@pytest.mark.parametrize(("count", "told"), [(0, 0), (1, 1), (255, 255), (256, 256), (2**32, 2**32 - 1)])
def test_delivery_counts(count: int, told: int) -> None:
    payload = delivered(stored(BODY), delivery_count=count)
    assert decode_header(payload, 3, len(payload) - len(BODY)).delivery_count == told


@pytest.mark.parametrize("size", [0, 1, 255, 256, 70_000])
def test_bodies_of_octets_of_every_size(size: int) -> None:
    body = bytes(size)
    payload = delivered(stored(encode_section(DATA, body)))
    assert payload.endswith(encode_section(DATA, body))


@pytest.mark.parametrize("own", [b"", ANNOTATIONS])
def test_annotations_of_a_delivery_are_put_over_the_messages_own(own: bytes) -> None:
    message = stored(HEAD + own + PROPERTIES_SECTION + BODY)
    payload = delivered(message, annotations={"x-opt-a": 2, "x-opt-b": UnsignedLong(3)})
    sections = split_message(payload)
    assert sections.message_annotations is not None
    start, end = sections.message_annotations.content, sections.message_annotations.end
    assert find_in_map(payload, start, end, b"x-opt-a") == 2
    assert find_in_map(payload, start, end, b"x-opt-b") == 3
    assert payload.endswith(PROPERTIES_SECTION + BODY)


def test_very_many_annotations_take_the_long_form() -> None:
    values = {f"x-opt-{number}": number for number in range(200)}
    payload = delivered(stored(BODY), annotations=values)
    assert split_incoming(payload).body == b"payload"
    section = split_message(payload).message_annotations
    assert section is not None
    assert find_in_map(payload, section.content, section.end, b"x-opt-199") == 199
