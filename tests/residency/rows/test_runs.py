"""Runs: four numbers for any number of neighbours, cut where one leaves."""

from __future__ import annotations

from array import array

import pytest

from annulet.residency.rows.runs import NARROW_MAX, Runs, column_for, column_of, records_of, starts_of_runs, total_of
from tests.residency.doubles import Disk, durable_queue, stored_entries


def rows(runs: Runs) -> list[tuple[int, int, int]]:
    """Return sequence, record and mark of each row."""
    columns = zip(runs.sequences, runs.records, runs.lengths, runs.marks, strict=True)
    return [
        (runs.base_sequence + sequence + place, runs.base_record + record + place, mark)
        for sequence, record, length, mark in columns
        for place in range(length)
    ]


def some() -> Runs:
    runs = Runs(100, 1000, "I")
    runs.append(105, 7, 1, 2)
    runs.lengthen(2)
    runs.append(110, 20, 1, 3)
    return runs


ROWS = [(105, 1007, 2), (106, 1008, 2), (107, 1009, 2), (110, 1020, 3)]


def test_a_run_is_lengthened() -> None:
    runs = some()
    assert rows(runs) == ROWS
    assert runs.lengthen(0) == 0
    assert len(runs.lengths) == 2


@pytest.mark.parametrize(("start", "lengths"), [(0, [2, 1]), (1, [1, 1, 1])])
def test_a_row_leaves_the_beginning_or_the_middle(start: int, lengths: list[int]) -> None:
    runs = some()
    runs.remove(0, start)
    assert rows(runs) == ROWS[:start] + ROWS[start + 1 :]
    assert list(runs.lengths) == lengths


def test_a_run_is_found_by_a_sequence_in_it_or_behind_it() -> None:
    runs = some()
    assert [runs.find(sequence) for sequence in (105, 107, 109, 110)] == [(0, 0), (0, 2), (0, 4), (1, 0)]
    for start in (2, 1, 0):
        runs.remove(0, start)
    assert rows(runs) == ROWS[3:]


def test_differences_take_four_bytes_while_they_fit() -> None:
    assert (column_for(NARROW_MAX), column_for(NARROW_MAX + 1)) == ("I", "Q")


@pytest.mark.parametrize(
    ("sequences", "records", "marks", "starts"),
    [
        ([7], [9], [2], []),
        ([7, 8, 9], [9, 10, 11], [2, 2, 2], []),
        ([7, 9, 11], [9, 11, 13], [2, 2, 2], [1, 2]),
        ([7, 8, 9, 10], [9, 10, 12, 13], [2, 2, 2, 2], [2]),
        ([7, 8, 10, 11], [9, 10, 11, 12], [2, 2, 2, 2], [2]),
        ([7, 8, 9, 10], [9, 10, 11, 12], [2, 4, 4, 2], [1, 3]),
        ([7, 8], [1 << 62, (1 << 62) + 1], [2, 2], []),
    ],
)
def test_a_run_begins_where_a_number_or_the_mark_does_not_go_on(
    sequences: list[int], records: list[int], marks: list[int], starts: list[int]
) -> None:
    assert starts_of_runs(sequences, records, marks) == starts


@pytest.mark.parametrize("numbers", [[], [7], [7, 7, 7], [7, 7, 8], [8, 7, 7]])
def test_a_column_has_the_numbers_it_is_made_of(numbers: list[int]) -> None:
    column = column_of("H", numbers)
    assert (column.typecode, column.tolist()) == ("H", numbers)


@pytest.mark.parametrize("sizes", [[7], [7, 7, 7], [7, 7, 8], [0, 0], [8, 7]])
def test_sizes_are_added_up_whether_they_are_equal_or_not(sizes: list[int]) -> None:
    assert total_of(sizes) == total_of(array("I", sizes)) == sum(sizes)


def test_the_records_of_what_stays_an_object_do_not_count() -> None:
    entries = stored_entries(durable_queue(), Disk(), 4)
    for entry, record in zip(entries, (5, 9, 2, 7), strict=True):
        entry.message.record = record
    assert records_of(entries, bytearray(4)) == (2, 9)
    assert records_of(entries, bytearray([0, 1, 1, 0])) == (5, 7)
    assert records_of(entries, bytearray([1, 1, 1, 1])) == (0, 0)


def test_a_row_is_inserted_as_a_run_or_joins_the_runs_beside_it() -> None:
    runs = Runs(100, 1000, "I")
    for sequence in (110, 106, 108, 107, 105):
        assert runs.takes(sequence, sequence + 900)
        runs.insert(sequence, sequence + 900, 2)
    assert rows(runs) == [(sequence, sequence + 900, 2) for sequence in (105, 106, 107, 108, 110)]
    assert list(runs.lengths) == [4, 1]
    assert not runs.takes(99, 1000)
    assert not runs.takes(100, 999)
    assert not runs.takes(100, 1001 + NARROW_MAX)


def test_what_was_taken_is_forgotten_and_the_rest_is_split_or_counted() -> None:
    runs = some()
    assert runs.take(2) == (2, 0)
    assert runs.stretch_from(0, 5) == (107, range(1009, 1010), 2)
    assert runs.count_by_origin(2, 110) == [0, 1]
    runs.forget_taken()
    assert rows(runs) == ROWS[2:]
    assert [runs.run_to_split_at(sequence) for sequence in (0, 107, 108, 111)] == [1, 0, 1, 0]
    right = runs.copy()
    assert (runs.keep(0, 1), right.keep(1, 2)) == (1, 1)
    assert (rows(runs), rows(right)) == (ROWS[2:3], ROWS[3:])
    assert (runs.following(), Runs(1, 1, "I").following()) == ((108, 1010, 2), (-1, -1, -1))
