"""Lost positions are counted once, however often and in whatever parts they are asked for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from annulet.bulk.protocol.gaps import Gaps


def test_shares_and_repetitions_count_once() -> None:
    gaps = Gaps()
    assert gaps.note(0, 10, [3, 4, 9]) == 7
    assert gaps.note(0, 10, [3, 4, 9]) == 0
    assert gaps.note(5, 12, [9]) == 2
    assert (gaps.count, len(gaps)) == (9, 3)
    gaps.forget(8)
    assert (gaps.count, len(gaps)) == (9, 1)
    assert gaps.note(9, 12) == 0


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30), st.sets(st.integers(1, 60))), max_size=8))
def test_as_a_set_of_positions_would(asked: list[tuple[int, int, set[int]]]) -> None:
    gaps, model = Gaps(), set()
    for after, length, present in asked:
        span = range(after + 1, after + length + 1)
        model.update(position for position in span if position not in present)
        gaps.note(after, after + length, sorted(present.intersection(span)))
        assert gaps.count == len(model)
