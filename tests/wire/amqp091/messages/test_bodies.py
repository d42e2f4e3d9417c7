from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from annulet.core.base.typed_values import Array, Byte, MapPairs, Symbol, UnsignedLong, Uuid
from annulet.core.message.content_differences import same_value
from annulet.core.message.neutral_content import BODY_DATA, BODY_LIST, BODY_MAP, BODY_SEQUENCE, BODY_TEXT, BODY_VALUE
from annulet.wire.amqp091.messages.bodies import character_set, natural_body, read_body, write_body
from tests.wire.contents import body

MAP = bytes.fromhex("00000008 00000001 0161 0101")
LIST = bytes.fromhex("00000008 00000002 0101 0102")
LIST_OF_ONE = bytes.fromhex("00000006 00000001 0101")
JMS_MAP = bytes.fromhex("00000001 6100 0201")
JMS_STREAM = bytes.fromhex("0201 0202")


@given(body)
def test_every_body_comes_back_by_its_kind_and_note(given_body: tuple[str, Any]) -> None:
    kind, value = given_body
    written = write_body(kind, value, None)
    read = read_body(kind, written.note, written.octets, written.content_type)
    assert read is not None
    assert read[0] == kind
    assert same_value(read[1], value)


@pytest.mark.parametrize(
    ("octets", "content_type", "encoding", "kind", "value"),
    [
        (b"", None, None, BODY_VALUE, None),
        (b"x", None, None, BODY_DATA, b"x"),
        (b"", "application/octet-stream", None, BODY_DATA, b""),
        ("é".encode(), "text/plain", None, BODY_TEXT, "é"),
        (b"\xe9", "TEXT/x; charset=ISO-8859-1", None, BODY_TEXT, "é"),
        (b"\xe9", "text/plain", None, BODY_DATA, b"\xe9"),
        (b"a", "text/plain; charset=ebcdic", None, BODY_DATA, b"a"),
        (b"\xff\xfea\x00", "text/plain; charset=utf-16", None, BODY_TEXT, "a"),
        (b"\xfe\xff\x00a", "text/plain; charset=utf-16", None, BODY_DATA, b"\xfe\xff\x00a"),  # would not come back so
        (b"zip", "text/plain", "gzip", BODY_DATA, b"zip"),
        (b"{}", "application/json", None, BODY_DATA, b"{}"),
        (MAP, "amqp/map", None, BODY_MAP, {"a": Byte(1)}),
        (MAP[:-1], "amqp/map", None, BODY_DATA, MAP[:-1]),
        (LIST, "amqp/list", None, BODY_LIST, [Byte(1), Byte(2)]),
        (LIST[:-1], "amqp/list", None, BODY_DATA, LIST[:-1]),
        (b"", "amqp/map", None, BODY_MAP, {}),
        (JMS_MAP, "jms/map-message", None, BODY_MAP, {"a": Byte(1)}),
        (JMS_MAP[:-1], "jms/map-message", None, BODY_DATA, JMS_MAP[:-1]),
        (JMS_STREAM, "jms/stream-message", None, BODY_LIST, [Byte(1), Byte(2)]),
        (JMS_STREAM, "jms/stream-message", "gzip", BODY_DATA, JMS_STREAM),
    ],
)
def test_what_octets_and_content_type_say(
    octets: bytes, content_type: str | None, encoding: str | None, kind: str, value: Any
) -> None:
    read_kind, read = natural_body(octets, content_type, encoding)
    assert read_kind == kind
    assert same_value(read, value)


@pytest.mark.parametrize(
    ("kind", "value", "octets", "content_type"),
    [
        (BODY_TEXT, "é", "é".encode(), "text/plain"),
        (BODY_VALUE, None, b"", None),
        (BODY_VALUE, True, b"true", "text/plain"),
        (BODY_VALUE, UnsignedLong(7), b"7", "text/plain"),
        (BODY_VALUE, 1.5, b"1.5", "text/plain"),
        (BODY_VALUE, Symbol("s"), b"s", "text/plain"),
        (BODY_VALUE, b"x", b"x", None),
        (BODY_VALUE, Uuid(bytes(16)), b"00000000-0000-0000-0000-000000000000", "text/plain"),
        (BODY_VALUE, Array([Byte(1)]), LIST_OF_ONE, "amqp/list"),
        (BODY_MAP, {"a": Byte(1)}, MAP, "amqp/map"),
        (BODY_MAP, MapPairs([Byte(1), Byte(2)]), LIST, "amqp/list"),
        (BODY_LIST, [Byte(1), Byte(2)], LIST, "amqp/list"),
        (BODY_SEQUENCE, [[Byte(1)]], bytes.fromhex("0000000f 00000001 a9") + LIST_OF_ONE, "amqp/list"),
    ],
)
def test_what_consumers_get(kind: str, value: Any, octets: bytes, content_type: str | None) -> None:
    written = write_body(kind, value, None)
    assert (written.octets, written.content_type) == (octets, content_type)


@pytest.mark.parametrize(
    ("kind", "value", "content_type", "octets", "written_type"),
    [
        (BODY_MAP, {"a": Byte(1)}, "jms/map-message", JMS_MAP, "jms/map-message"),
        (BODY_LIST, [Byte(1), Byte(2)], "jms/stream-message", JMS_STREAM, "jms/stream-message"),
        (BODY_MAP, {"a": Byte(1)}, "jms/stream-message", MAP, "amqp/map"),
        (BODY_LIST, [Byte(1), Byte(2)], "jms/map-message", LIST, "amqp/list"),
        (BODY_LIST, [[Byte(1)]], "jms/stream-message", bytes.fromhex("0000000f 00000001 a9") + LIST_OF_ONE,
         "amqp/list"),
    ],
)  # fmt: skip
def test_a_message_of_the_jms_types_stays_one_while_they_can_say_it(
    kind: str, value: Any, content_type: str, octets: bytes, written_type: str
) -> None:
    written = write_body(kind, value, content_type)
    assert (written.octets, written.content_type) == (octets, written_type)


def test_a_text_too_long_for_the_encoding_comes_back() -> None:
    table = {"long": "é" * 40_000, "short": "é" * 20_000}
    written = write_body(BODY_MAP, table, None)
    assert read_body(BODY_MAP, written.note, written.octets, written.content_type) == (BODY_MAP, table)
    assert natural_body(written.octets, "amqp/map", None)[1] == {**table, "long": table["long"].encode()}


def test_data_is_not_copied() -> None:
    octets = b"payload"
    assert write_body(BODY_DATA, octets, "text/plain").octets is octets


def test_a_text_its_character_set_has_not_is_utf_8() -> None:
    written = write_body(BODY_TEXT, "\u0416", "text/plain; charset=iso-8859-1")
    assert written.octets == "\u0416".encode()
    assert read_body(BODY_TEXT, written.note, written.octets, "text/plain; charset=iso-8859-1") == (
        BODY_TEXT,
        "\u0416",
    )


@pytest.mark.parametrize(
    ("kind", "note", "octets"),
    [
        (BODY_TEXT, None, b"\xff"), (BODY_VALUE, None, b"x"), (BODY_VALUE, "int", b"x"), (BODY_VALUE, "int", b"-"),
        (BODY_VALUE, "uuid", b"x"), (BODY_VALUE, "boolean", b"yes"), (BODY_VALUE, "double", b"x"),
        (BODY_VALUE, "char", b"ab"), (BODY_VALUE, "symbol", "é".encode()), (BODY_VALUE, "decimal32", b"x"),
        (BODY_VALUE, "nothing", b"x"), (BODY_VALUE, "int", b"\xff"), (BODY_MAP, None, b"x"), (BODY_LIST, None, b"x"),
        (BODY_MAP, {"type": "map"}, b"b\x01"), (BODY_LIST, {"type": "array"}, LIST), (BODY_SEQUENCE, None, LIST),
        ("kind", None, LIST), ("kind", 7, b"x"),
    ],
)  # fmt: skip
def test_a_body_that_is_not_of_its_kind_any_more_is_told(kind: str, note: Any, octets: bytes) -> None:
    assert read_body(kind, note, octets, None) is None


@pytest.mark.parametrize(
    ("content_type", "charset"),
    [(None, "utf-8"), ("text/plain", "utf-8"), ('text/plain; a=b; CHARSET="UTF-16LE"', "utf-16le"),
     ("text/plain;charset=rot13", ""), ("text/plain;charset", "")],
)  # fmt: skip
def test_the_character_set_is_that_of_the_content_type(content_type: str | None, charset: str) -> None:
    assert character_set(content_type) == charset
