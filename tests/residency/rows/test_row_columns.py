"""Rows find their places in columns by their sequences, whatever is missing between these."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from annulet.residency.rows.row_columns import RowColumns


class SomeColumns(RowColumns):
    def __init__(self) -> None:
        super().__init__(("any",))

    def add(self, sequences: list[int]) -> None:
        self._add_places(sequences)


@given(st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=20), max_size=5))
def test_places_and_sequences(batches: list[list[int]]) -> None:
    columns, known, last = SomeColumns(), list[int](), 0
    for steps in batches:
        added = []
        for step in steps:
            last += step
            added.append(last)
        columns.add(added)
        known += added
    copied = SomeColumns()
    copied.take_places(columns)
    columns.add([last + 1])
    for place, sequence in enumerate(known):
        assert copied.sequence_at(place) == sequence
    for sequence in range(last + 3):
        before = sum(one < sequence for one in known)
        assert copied.place_from(sequence) == before
