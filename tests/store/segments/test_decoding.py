"""Records as they are written become messages; what is anything else is left to who looks closer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annulet.core.message.message import Message
from annulet.store.segments.decoding import (
    FIXED_BYTES,
    decode_rows,
    decode_run,
    first_doubtful,
    grow_by_one,
    stand_in_order,
    stands_at,
)
from annulet.store.segments.records import encode_control, encode_message, encode_origin
from tests.store.log.test_log_tools import ORIGIN, message

SEED = 77


def record(body: bytes, targets: list[tuple[int, int]], ordinal: int, seed: int = SEED) -> bytes:
    written = message(body, accepted_at=ordinal)
    return encode_message(written, encode_origin(ORIGIN), targets, ordinal, 1, 0, seed) + body


def test_what_a_row_says_is_decoded_and_nothing_else() -> None:
    parts = [
        record(b"one", [(3, 1)], 0),
        record(b"another queue's", [(4, 2)], 1),
        record(b"another sequence", [(3, 9)], 2),
        record(b"two queues", [(3, 4), (4, 1)], 3),
        record(b"another ordinal", [(3, 5)], 99),
        record(b"another file", [(3, 6)], 5, seed=1),
        encode_control(2, bytes(100), 1, 0, SEED),
        record(b"", [(3, 8)], 7),
        record(b"cut off", [(3, 9)], 8)[:-1],
    ]
    places, end = [], 1000
    for part in parts:
        places.append(end)
        end += len(part)
    found, others = decode_rows(
        b"".join(parts), 1000, places, SEED, 3, list(range(9)), list(range(1, 10)), [ORIGIN] * 9
    )  # fmt: skip
    assert others == [1, 2, 3, 4, 5, 6, 8]
    runs = [
        decode_run(b"".join(parts), 1000, [place], SEED, 3, row, row + 1, [ORIGIN]) for row, place in enumerate(places)
    ]
    assert [run and [(made.record, made.body) for made in run if made is not None] for run in runs] == [
        [(0, b"one")], *[None] * 6, [(7, b"")], None,
    ]  # fmt: skip
    assert decode_run(b"".join(parts), 1000, places[:2], SEED, 3, 0, 1, [ORIGIN] * 2) is None, "all or nothing"
    assert [None if made is None else made.body for made in found] == [b"one", *[None] * 6, b"", None]
    first = found[0]
    assert first is not None
    assert (first.header, first.origin, first.record, first.accepted_at) == (b"header", ORIGIN, 0, 0)
    assert (first.durable, first.expires_at, first.deliver_at) == (True, 0, 0)


def test_equal_headers_are_one_object() -> None:
    parts, headers = [], [b"header", b"header", b"other", b"header", b"header"]
    for ordinal, header in enumerate(headers):
        written = Message(header, b"body", ORIGIN, durable=True)
        parts.append(encode_message(written, encode_origin(ORIGIN), [(3, ordinal + 1)], ordinal, 1, 0, SEED) + b"body")
    places = [sum(map(len, parts[:number])) for number in range(len(parts))]
    found, others = decode_rows(b"".join(parts), 0, places, SEED, 3, [*range(5)], [*range(1, 6)], [ORIGIN] * 5)
    assert others == []
    run = decode_run(b"".join(parts), 0, places, SEED, 3, 0, 1, [ORIGIN] * 5)
    assert run is not None
    for messages in (found, run):
        made = [each.header for each in messages if each is not None]
        assert made == headers
        assert (made[0] is made[1], made[3] is made[4]) == (True, True)


def lack(data: bytes, first: int, places: list[int], needles: list[list[bytes]]) -> bool:
    return first_doubtful(data, first, places, 0, needles) == len(places)


@pytest.mark.parametrize("length", [0, FIXED_BYTES - 1])
def test_too_few_bytes_for_any_record(length: int) -> None:
    assert decode_rows(bytes(length), 5, [5], SEED, 3, [0], [1], [ORIGIN]) == ([None], [0])


def test_the_bytes_may_begin_before_the_first_record() -> None:
    data = record(b"before", [(3, 1)], 0) + record(b"one", [(3, 2)], 1)
    place = 500 + len(data) - len(record(b"one", [(3, 2)], 1))
    (made,), others = decode_rows(data, 500, [place], SEED, 3, [1], [2], [ORIGIN])
    assert (made and made.body, others) == (b"one", [])
    assert lack(data, 500, [place], [[b"nowhere"]])
    assert not lack(data, 500, [place], [[b"header"]])


@given(st.binary(max_size=40), st.binary(max_size=40), st.binary(max_size=40), st.integers(0, 39))
def test_octets_stand_at_a_place(before: bytes, text: bytes, behind: bytes, changed: int) -> None:
    data, begin, end = before + text + behind, len(before), len(before) + len(text)
    assert stands_at(data, begin, end, text)
    other = bytearray(text)
    if text:
        other[changed % len(text)] ^= 1
        assert not stands_at(data, begin, end, bytes(other))
        assert not stands_at(data, begin, end, text[:-1])
    assert not stands_at(data, begin, end, text + b"x")


def test_neighbours() -> None:
    assert grow_by_one([5])
    assert grow_by_one([5, 6, 7])
    assert not grow_by_one([5, 7, 6, 8])
    assert not grow_by_one([5, 5, 7])


def test_places_of_records_in_one_read() -> None:
    assert stand_in_order([5, 5, 9])
    assert not stand_in_order([5, 0, 9])
    assert not stand_in_order([0])
    assert not stand_in_order([5, 9, 8])


def test_only_headers_are_searched() -> None:
    parts = [record(b"red header", [(3, 1)], 0), record(b"blue", [(3, 2)], 1), record(b"", [(3, 3)], 2)]
    data, places = b"".join(parts), [7, 7 + len(parts[0]), 7 + len(parts[0] + parts[1])]
    assert lack(data, 7, places, [[b"red"], [b"blue"], [b"headers"], [b"header", b"red"]])
    assert not lack(data, 7, places, [[b"red"], [b"der", b"head"]])


def test_headers_of_messages_of_several_queues_are_searched_too() -> None:
    data = record(b"red", [(3, 4), (4, 1), (5, 9)], 1)
    assert lack(data, 0, [0], [[b"red"], [b"heade", b"reader"]])
    assert not lack(data, 0, [0], [[b"red"], [b"head", b"er"]])


@pytest.mark.parametrize(
    "other",
    [
        encode_control(2, bytes(100), 1, 0, SEED),
        record(b"cut off", [(3, 9)], 1)[:-1],
        record(b"cut off", [(3, 4), (4, 1)], 1)[:-1],
        bytes(FIXED_BYTES - 1),
        bytes(FIXED_BYTES),
    ],
)
def test_nothing_is_told_of_records_that_are_anything_else(other: bytes) -> None:
    first = record(b"one", [(3, 1)], 0)
    assert lack(first, 0, [0], [[b"nowhere"]])
    assert not lack(first + other, 0, [0, len(first)], [[b"nowhere"]])


def test_each_record_in_doubt_is_found_from_the_one_before_on() -> None:
    headers = [b"red", b"blue", b"green", b"dark red", b"grey"]
    parts = []
    for ordinal, header in enumerate(headers):
        written = Message(header, b"red", ORIGIN, durable=True)
        parts.append(encode_message(written, encode_origin(ORIGIN), [(3, ordinal + 1)], ordinal, 1, 0, SEED) + b"red")
    parts.insert(2, encode_control(2, bytes(100), 9, 0, SEED))
    places = [9 + sum(map(len, parts[:number])) for number in range(len(parts))]
    found, index = [], -1
    while (index := first_doubtful(b"".join(parts), 9, places, index + 1, [[b"red"], [b"grey"]])) < len(places):
        found.append(index)
    assert found == [0, 2, 4, 5], "no message is in doubt, too"
    assert first_doubtful(b"", 0, [], 0, [[b"red"]]) == 0


def test_neighbours_with_the_same_header_are_in_doubt_alike() -> None:
    parts = []
    for ordinal, header in enumerate([b"", b"blue", b"blue", b"red", b"red", b"blue", b"blue", b"red"]):
        written = Message(header, b"body", ORIGIN, durable=True)
        parts.append(encode_message(written, encode_origin(ORIGIN), [(3, ordinal + 1)], ordinal, 1, 0, SEED))
    data, places = b"".join(parts), [sum(map(len, parts[:number])) for number in range(len(parts))]
    for begin, following in enumerate([3, 3, 3, 3, 4, 7, 7, 7, 8]):
        assert first_doubtful(data, 0, places, begin, [[b"red"]]) == following
    assert first_doubtful(data, 0, places, 0, [[b"red"], []]) == 0, "there is nothing that an empty header lacks"
