"""What a page knows of its rows without reading them: the same for each row, however it is kept."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from annulet.residency.row_facts import RowFacts

Row = tuple[int, int, int, int]


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 2), st.integers(0, 2), st.integers(0, 255)), min_size=1))
def test_every_row_has_its_own_and_the_first_that_is_later_is_found(steps: list[Row]) -> None:
    facts, rows, sequence, accepted_at = RowFacts(), [], 0, 1_700_000_000_000
    for step, later, size, priority in steps:
        sequence, accepted_at = sequence + step, accepted_at + later
        facts.note(sequence, accepted_at, size << 40, priority)
        rows.append((sequence, accepted_at, size << 40, priority))
    for one in (facts, facts.copy()):
        assert [(number, *one.of(number)) for number, *_ in rows] == rows
        for until in range(1_700_000_000_000 - 1, accepted_at + 2):
            assert one.sequence_above(until) == next((number for number, at, *_ in rows if at > until), -1)


def test_rows_that_are_alike_take_no_room() -> None:
    facts = RowFacts()
    for sequence in range(1000):
        facts.note(sequence, 5, 1024, 4)
    assert len(facts._sequences) == 1


def test_a_copy_is_one_of_its_own() -> None:
    facts = RowFacts()
    facts.note(1, 5, 1024, 4)
    copied = facts.copy()
    facts.note(2, 6, 1024, 4)
    assert (facts.sequence_above(5), copied.sequence_above(5)) == (2, -1)
