from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annulet.wire.stomp.constants import VERSION_1_0, VERSION_1_1, VERSION_1_2
from annulet.wire.stomp.frames import FrameReader
from annulet.wire.stomp.header_block import (
    block_for,
    changed_block,
    decode_block,
    encode_block,
    encode_line,
    find_header,
    header_octets,
)

text = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
headers = st.dictionaries(text.filter(bool), text, max_size=5)


@given(headers)
def test_a_block_says_what_was_put_in(given_headers: dict[str, str]) -> None:
    block = encode_block(given_headers)
    assert decode_block(block) == given_headers
    for name, value in given_headers.items():
        assert find_header(block, name) == value
    assert find_header(block, "is not there") is None


@given(headers, headers, st.lists(text, max_size=2))
def test_changes_replace_and_remove(base: dict[str, str], more: dict[str, str], without: list[str]) -> None:
    changed = decode_block(changed_block(encode_block(base), more, frozenset(without)))
    expected = {name: value for name, value in base.items() if name not in without} | more
    assert changed == expected


@given(headers, st.sampled_from([VERSION_1_1, VERSION_1_2]))
def test_a_block_of_each_version_is_read_by_its_clients(given_headers: dict[str, str], version: str) -> None:
    if version == VERSION_1_1:
        given_headers = {name.replace("\r", "x"): value.replace("\r", "x") for name, value in given_headers.items()}
    given_headers.pop("content-length", None)
    reader = FrameReader()
    reader.version = version
    reader.feed(b"MESSAGE\n" + block_for(encode_block(given_headers), version) + b"\n\0")
    frame = reader.next_frame()
    assert frame is not None
    assert frame.headers == given_headers


def test_1_0_and_1_1_get_what_they_can_have() -> None:
    block = encode_block({"a:b": "c:d\\e\nf\rg"})
    assert block_for(block, VERSION_1_2) == b"a\\cb:c\\cd\\\\e\\nf\\rg\n"
    assert block_for(block, VERSION_1_1) == b"a\\cb:c\\cd\\\\e\\nf\rg\n"
    assert block_for(block, VERSION_1_0) == b"a\\cb:c:d\\e\\nf\rg\n"
    plain = encode_block({"a": "b"})
    assert block_for(plain, VERSION_1_0) is plain


@pytest.mark.parametrize(
    ("value", "octets"), [("a\0b", "a␀b".encode()), ("\ud800", "���".encode()), ("ä", "ä".encode())]
)
def test_what_a_header_cannot_hold_is_replaced(value: str, octets: bytes) -> None:
    assert header_octets(value) == octets
    assert encode_line("x", value) == b"x:" + octets + b"\n"


def test_a_damaged_block_is_read_as_far_as_it_can_be() -> None:
    assert decode_block(b"no colon\na:1\na:2\n:x\nb:\\q\n") == {"a": "1", "b": "\\q"}
    assert find_header(b"b:1\na:2", "a") == "2"
