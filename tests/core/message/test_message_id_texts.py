from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annulet.core.base.typed_values import UnsignedLong, Uuid
from annulet.core.message.content_differences import same_value
from annulet.core.message.message_id_texts import identifier_of, identifier_text, uuid_of, uuid_text

TEXTS = ["ID:AMQP_ULONG:", "ID:AMQP_UUID:", "ID:AMQP_BINARY:", "ID:AMQP_STRING:", "ID:AMQP_"]
looking_alike = st.builds(lambda parts, rest: "".join(parts) + rest, st.lists(st.sampled_from(TEXTS)), st.text())
identifiers = (
    st.text()
    | looking_alike
    | st.integers(0, 2**64 - 1).map(UnsignedLong)
    | st.binary(min_size=16, max_size=16).map(Uuid)
    | st.binary()
)


@given(identifiers)
def test_every_identifier_comes_back_from_its_text_with_its_type(identifier: str | int | bytes) -> None:
    assert same_value(identifier_of(identifier_text(identifier)), identifier)


@given(looking_alike | st.text())
def test_every_text_comes_back_from_its_identifier(text: str) -> None:
    assert identifier_text(identifier_of(text)) == text


@pytest.mark.parametrize(
    ("identifier", "text"),
    [
        ("order-7", "order-7"),
        ("ID:host-1", "ID:host-1"),
        (UnsignedLong(7), "ID:AMQP_ULONG:7"),
        (b"\x00\xff", "ID:AMQP_BINARY:00FF"),
        (Uuid(bytes(range(16))), "ID:AMQP_UUID:00010203-0405-0607-0809-0a0b0c0d0e0f"),
        ("ID:AMQP_ULONG:7", "ID:AMQP_STRING:ID:AMQP_ULONG:7"),
    ],
)
def test_texts_of_the_jms_mapping(identifier: str | int | bytes, text: str) -> None:
    assert identifier_text(identifier) == text


@pytest.mark.parametrize(
    "text",
    ["ID:AMQP_ULONG:", "ID:AMQP_ULONG:007", "ID:AMQP_ULONG:18446744073709551616", "ID:AMQP_ULONG:\u0664",
     "ID:AMQP_BINARY:0a", "ID:AMQP_BINARY:x", "ID:AMQP_UUID:7", "ID:AMQP_STRING:plain"],
)  # fmt: skip
def test_what_no_identifier_is_written_as_is_a_plain_text(text: str) -> None:
    assert identifier_of(text) == text


@given(st.binary(min_size=16, max_size=16))
def test_uuids_as_the_standard_library_writes_them(octets: bytes) -> None:
    text = str(uuid.UUID(bytes=octets))
    assert uuid_text(octets) == text
    assert uuid_of(text) == octets


@pytest.mark.parametrize("text", ["", "0" * 36, "00010203-0405-0607-0809-0A0B0C0D0E0F", "g" * 36, "\u0664" * 36])
def test_other_forms_of_uuids_are_texts(text: str) -> None:
    assert uuid_of(text) is None
