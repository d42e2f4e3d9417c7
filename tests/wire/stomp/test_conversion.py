from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annulet.core.base.typed_values import UnsignedLong, Uuid
from annulet.core.message.message import ContentView, Message, Origin
from annulet.core.message.neutral_content import BODY_DATA, BODY_LIST, BODY_MAP, BODY_TEXT, MessageContent
from annulet.wire.amqp091.messages.conversion import from_content as to_amqp_0_9_1
from annulet.wire.amqp091.messages.properties import VIEW as AMQP_0_9_1
from annulet.wire.amqp10.messages.conversion import from_content as to_amqp_1_0
from annulet.wire.amqp10.messages.view import VIEW as AMQP_1_0
from annulet.wire.stomp import names
from annulet.wire.stomp.conversion import CHARACTER_SETS, character_set, from_content, to_content
from annulet.wire.stomp.header_block import decode_block, encode_block
from annulet.wire.stomp.view import VIEW
from tests.wire.contents import contents

WRITERS = {AMQP_0_9_1: to_amqp_0_9_1, AMQP_1_0: to_amqp_1_0}
ORIGIN = Origin("e", "k", "", VIEW)
text = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
own = text.filter(lambda name: name and name not in names.STANDARD and not name.startswith(("x-", "JMS", "_AMQ")))
canonical = st.fixed_dictionaries(
    {},
    optional={
        "persistent": st.just("true"),
        "priority": st.integers(0, 255).map(str),
        "expiration": st.integers(1, 2**53).map(str),
        "expires": st.integers(1, 2**53).map(str),
        "amqp-message-id": text | st.just("ID:AMQP_ULONG:7"),
        "correlation-id": text,
        "reply-to": text,
        "type": text,
        "content-type": st.sampled_from(["text/plain", "text/html;charset=iso-8859-1", "application/json", "x"]),
        "content-encoding": st.just("gzip"),
        "JMSXGroupID": text,
        "JMSXGroupSeq": st.integers(-(2**31), 2**31 - 1).map(str),
        "user-id": text.filter(lambda name: not name.startswith("hex:")),
        "timestamp": st.integers(0, 2**53).map(str),
        "app-id": text,
        "reply-to-group-id": text,
        "amqp-to": text,
        "amq-msg-type": st.sampled_from(["text", "bytes"]),
        "x-delay": st.just("7"),
    },
)


def stored(headers: dict[str, str], body: bytes = b"") -> Message:
    return Message(encode_block(headers), body, ORIGIN)


def trip(message: Message) -> Message:
    header, body = from_content(to_content(message))
    return Message(header, body, ORIGIN)


@given(canonical, st.dictionaries(own, text, max_size=4), st.binary(max_size=20) | text.map(str.encode))
def test_a_stomp_message_comes_back_as_it_was(known: dict[str, str], mine: dict[str, str], body: bytes) -> None:
    headers = known | mine
    back = trip(stored(headers, body))
    assert back.body == body
    found = decode_block(back.header)
    kind = headers.pop("amq-msg-type", None)
    back_kind = found.pop("amq-msg-type", None)
    assert found == headers
    assert to_content(back).body_kind == to_content(stored(known, body)).body_kind
    assert back_kind in {kind, None, "bytes"}


@given(contents())
def test_any_content_can_be_written_and_the_second_trip_changes_nothing(content: MessageContent) -> None:
    header, body = from_content(content)
    first = Message(header, body, ORIGIN)
    second = trip(first)
    assert decode_block(second.header) == decode_block(first.header)
    assert second.body == first.body


@given(contents())
def test_nothing_is_dropped(content: MessageContent) -> None:
    header, _ = from_content(content)
    headers = decode_block(header)
    for name in content.application:
        shown = name.replace("\0", "␀")
        assert shown in headers or names.APPLICATION_PREFIX + shown in headers
    assert (content.subject is None) == ("type" not in headers)
    assert bool(content.deaths) <= ("x-death" in headers)


@pytest.mark.parametrize("identifier", ["m", UnsignedLong(7), Uuid(bytes(16)), b"\x01", "ID:AMQP_ULONG:7"])
def test_ids_keep_their_type(identifier: str | int | bytes) -> None:
    content = MessageContent()
    content.message_id = content.correlation_id = identifier
    header, body = from_content(content)
    back = to_content(Message(header, body, ORIGIN))
    assert (back.message_id, type(back.message_id)) == (identifier, type(identifier))
    assert (back.correlation_id, type(back.correlation_id)) == (identifier, type(identifier))


def test_application_properties_called_like_headers_get_a_prefix() -> None:
    content = MessageContent()
    content.application = {"destination": "x", "priority": 7, "": "empty", "x-opt-a": 1, "content-length": "9"}
    header, body = from_content(content)
    assert decode_block(header) == {
        "x-application-destination": "x",
        "x-application-priority": "7",
        "x-application-": "empty",
        "x-application-x-opt-a": "1",
        "x-application-content-length": "9",
    }
    assert to_content(Message(header, body, ORIGIN)).application["priority"] == "7"


def test_annotations_footer_and_octets_have_a_documented_form() -> None:
    content = MessageContent()
    content.annotations = {"x-opt-a": b"\xff", "other": 1}
    content.footer = {"sum": 2}
    content.user_id = b"\xff"
    header, body = from_content(content)
    assert decode_block(header) == {
        "user-id": "hex:ff",
        "x-opt-a": "ff",
        "x-annotation-other": "1",
        "x-footer-sum": "2",
    }
    back = to_content(Message(header, body, ORIGIN))
    assert (back.annotations, back.footer, back.user_id) == ({"x-opt-a": "ff", "other": "1"}, {"sum": "2"}, b"\xff")


def test_maps_lists_and_values_are_json() -> None:
    content = MessageContent()
    content.body_kind, content.body = BODY_MAP, {"a": [1, b"\x01"]}
    header, body = from_content(content)
    assert decode_block(header) == {"amq-msg-type": "map", "content-type": "application/json"}
    assert body == b'{"a":[1,"01"]}'
    back = to_content(Message(header, body, ORIGIN))
    assert (back.body_kind, back.body) == (BODY_MAP, {"a": [1, "01"]})


@pytest.mark.parametrize(
    "body",
    [b'{"a": NaN}', b'{"a": 1e999}',
     b"{", b"[1]", b"\xff", b"[" * 100_000, b'{"a": "\\ud800"}', b'{"\\udfff": 1}', b'{"a": 18446744073709551616}',
     b'{"a": [-9223372036854775809]}', b'{"a": ' + b"[" * 20 + b"]" * 20 + b"}"],
)  # fmt: skip
def test_a_body_that_is_not_what_it_says_is_octets(body: bytes) -> None:
    content = to_content(stored({"amq-msg-type": "map"}, body))
    assert (content.body_kind, content.body) == (BODY_DATA, body)


@pytest.mark.parametrize(
    ("content_type", "body", "kind"),
    [
        ("text/plain", b"abc", BODY_TEXT),
        ("text/plain", b"\xff", BODY_DATA),
        ("text/plain;charset=ISO-8859-1", b"\xff", BODY_TEXT),
        ("text/plain;charset=unknown", b"abc", BODY_DATA),
        ("application/json", b"{}", BODY_DATA),
        ("", b"abc", BODY_DATA),
    ],
)
def test_text_bodies(content_type: str, body: bytes, kind: str) -> None:
    content = to_content(stored({"content-type": content_type} if content_type else {}, body))
    assert content.body_kind == kind


def test_a_text_its_character_set_lacks_is_written_in_utf_8() -> None:
    content = MessageContent()
    content.content_type = "text/plain;charset=iso-8859-1"
    content.body_kind, content.body = BODY_TEXT, "€"
    header, body = from_content(content)
    assert (decode_block(header)["content-type"], body) == ("text/plain;charset=utf-8", "€".encode())


def test_every_character_set_exists() -> None:
    for name in CHARACTER_SETS:
        assert "a".encode(name) == b"a"
    assert character_set('text/plain; Charset="UTF-8"') == "utf-8"


def test_forever_is_not_at_once() -> None:
    assert to_content(stored({"expiration": "0", "expires": "0"})).time_to_live == -1
    content = to_content(stored({"persistent": "true", "destination": "/queue/x"}))
    assert content.durable
    assert (content.exchange, content.routing_key, content.to) == ("e", "k", None)


@pytest.mark.parametrize("view", [AMQP_0_9_1, AMQP_1_0], ids=lambda view: view.name)
@pytest.mark.parametrize(
    "body",
    [
        b'{"a": -9223372036854775808}',
        b'{"a": 18446744073709551615}',
        b'{"a": "\\ud83d\\ude00"}',
        b'{"a": ' + b"[" * 19 + b"]" * 19 + b"}",
    ],
)
def test_what_other_protocols_carry_is_the_map_it_says(view: ContentView, body: bytes) -> None:
    message = stored({"amq-msg-type": "map"}, body)
    assert VIEW.content(message).body_kind == BODY_MAP
    made = Message(*WRITERS[view](VIEW.content(message)), Origin("", "q", "", view))
    assert view.content(made).body == VIEW.content(message).body


@pytest.mark.parametrize("number", [2**63 - 1, 2**63, 2**64 - 1])
def test_numbers_only_ulong_has_come_back_in_what_they_are_in(number: int) -> None:
    content = MessageContent()
    content.body_kind, content.body = BODY_LIST, [[UnsignedLong(number)]]
    first = Message(*from_content(content), ORIGIN)
    back = to_content(first)
    assert (back.body_kind, back.body) == (BODY_LIST, [[number]])
    assert isinstance(back.body[0][0], UnsignedLong) is (number >= 2**63)
    assert decode_block(trip(first).header) == decode_block(first.header)


def test_values_with_blanks_around_them_are_what_send_took_them_for() -> None:
    content = to_content(stored({"persistent": " true", "priority": " 7", "expiration": "5 ", "JMSXGroupSeq": " -1"}))
    assert (content.durable, content.priority, content.time_to_live) == (True, 7, 5)
    assert content.group_sequence == 2**32 - 1
    assert content.application == {}
    assert VIEW.properties(stored({"timestamp": " 7"})).timestamp == 7


def test_a_place_in_a_group_beyond_its_range_stays_a_property() -> None:
    content = to_content(stored({"JMSXGroupSeq": "4294967296"}))
    assert content.group_sequence is None
    assert content.application == {"JMSXGroupSeq": "4294967296"}
