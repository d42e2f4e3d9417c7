from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from annulet.wire.input_buffer import CHUNKS_JOINED, SMALL_CHUNK_OCTETS, InputBuffer, part_of


@given(st.lists(st.binary(min_size=1, max_size=9), max_size=2 * CHUNKS_JOINED + 2))
def test_input_comes_back_in_order_and_once(parts: list[bytes]) -> None:
    waiting = InputBuffer()
    for part in parts:
        waiting.add(part)
    assert waiting.size == sum(map(len, parts))
    assert (waiting.take(), waiting.size, waiting.take()) == (b"".join(parts), 0, b"")


def test_many_small_parts_are_few_objects() -> None:
    waiting = InputBuffer()
    for _ in range(CHUNKS_JOINED * 3):
        waiting.add(b"x")
    taken = waiting.take()
    assert taken == b"x" * CHUNKS_JOINED * 3
    waiting.add(taken)
    assert waiting.take() is taken  # one part is not copied


def test_dropped_input_is_gone() -> None:
    waiting = InputBuffer()
    waiting.add(b"x")
    waiting.drop()
    assert (waiting.size, waiting.take()) == (0, b"")


@given(st.lists(st.binary(min_size=1, max_size=9), max_size=CHUNKS_JOINED + 2))
def test_parts_come_back_in_order_and_once(parts: list[bytes]) -> None:
    waiting = InputBuffer()
    for part in parts:
        waiting.add(memoryview(part))
    assert b"".join(waiting.take_parts()) == b"".join(parts)
    assert (waiting.size, waiting.take_parts()) == (0, [])


def test_large_chunks_stay_as_they_are_and_small_ones_behind_them_are_joined() -> None:
    waiting = InputBuffer()
    large = [bytes(SMALL_CHUNK_OCTETS) for _ in range(CHUNKS_JOINED)]
    for chunk in large:
        waiting.add(chunk)
    for _ in range(CHUNKS_JOINED):
        waiting.add(b"x")
    assert waiting.size == CHUNKS_JOINED * (SMALL_CHUNK_OCTETS + 1)
    *former, last = waiting.take_parts()
    assert all(part is chunk for part, chunk in zip(former, large, strict=True))
    assert last == b"x" * CHUNKS_JOINED


def test_a_view_alone_is_taken_as_octets() -> None:
    waiting = InputBuffer()
    waiting.add(memoryview(b"abc")[1:])
    assert waiting.take() == b"bc"
    assert type(waiting.take()) is bytes


def test_a_part_keeps_no_more_than_a_seventh_beside_itself() -> None:
    read = bytes(range(80))
    assert part_of(read, 0, 80) is read
    for start, stop in ((10, 80), (0, 70), (5, 75), (11, 80), (0, 0), (79, 80)):
        part = part_of(read, start, stop)
        assert bytes(part) == read[start:stop]
        assert isinstance(part, memoryview) == (stop - start == 70), "a view of 69 octets would keep 11 others"
