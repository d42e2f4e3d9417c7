from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from annulet.wire.input_buffer import CHUNKS_JOINED, InputBuffer


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
