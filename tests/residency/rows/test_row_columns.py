"""Rows find their places in columns by their sequences, whatever is missing between these."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from annulet.residency.rows.row_columns import RowColumns


@given(st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=20), max_size=5))
def test_places_and_sequences(batches: list[list[int]]) -> None:
    columns, known, last = RowColumns(("any",)), list[int](), 0
    for steps in batches:
        added = []
        for step in steps:
            last += step
            added.append(last)
        columns._add_places(added)
        known += added
    copied = RowColumns(("any",))
    copied.take_places(columns)
    columns._add_places([last + 1])
    for place, sequence in enumerate(known):
        assert copied.sequence_at(place) == sequence
    for sequence in range(last + 3):
        before = sum(one < sequence for one in known)
        assert copied.place_from(sequence) == before
