"""Places of spilled bodies: what a record looks like, and which of them are read together."""

from __future__ import annotations

from collections import deque
from pathlib import Path

from annulet.store.spill.spill_file import (
    DEAD,
    GAP_BYTES,
    LIVE,
    RECORD_HEADER,
    SPAN_BYTES,
    SpilledBody,
    SpillFile,
    spans_of,
)


def file_with(*lengths: int, number: int = 1) -> SpillFile:
    file = SpillFile(number, Path(f"{number}.spill"), deque())
    for length in lengths:
        file.begin_life(file.add(length), 1)
    return file


def ordinals(file: SpillFile, wanted: list[int]) -> list[list[int]]:
    return [span for _, span in spans_of([(file, ordinal) for ordinal in wanted])]


def test_records_lie_one_behind_the_other():
    file = file_with(10, 0, 5)
    header = RECORD_HEADER.size
    assert [file.extent(ordinal) for ordinal in range(3)] == [
        (0, 10 + header),
        (10 + header, 10 + 2 * header),
        (10 + 2 * header, 15 + 3 * header),
    ]
    assert (file.live, file.live_bytes, file.size) == (3, file.size, 15 + 3 * header)
    file.end_life(1)
    assert (file.live, file.live_bytes, file.states[1]) == (2, file.size - header, DEAD)


def test_a_record_is_its_bodys_only():
    file = file_with(3, 3)
    record = RECORD_HEADER.pack(file.checksum(0, b"abc"), 3) + b"abc"
    assert file.body_in(record, 0, 0) == b"abc"
    assert file.body_in(record[:-1] + b"d", 0, 0) is None, "changed"
    assert file.body_in(record[:-1], 0, 0) is None, "cut short"
    assert file.body_in(b"", 0, 0) is None
    assert file.body_in(record, len(record), 1) is None, "of another record"
    assert file_with(3, number=2).body_in(record, 0, 0) is None, "of another file"


def test_the_place_is_given_back_with_its_last_reference():
    file = file_with(3, 3)
    places = [SpilledBody(file, 0), SpilledBody(file, 1)]
    assert all(place.readable for place in places)
    assert len({place.number for place in places} | {0}) == 3
    other = places[1]
    del places
    assert list(file.released) == [(file, 0)]
    del other
    assert list(file.released) == [(file, 0), (file, 1)]


def test_a_place_leads_to_where_its_body_was_moved():
    first, second, third = (file_with(3, number=number) for number in (1, 2, 3))
    place = SpilledBody(first, 0)
    number = place.number
    first.lead_on(0, second, 0)
    second.lead_on(0, third, 0)
    assert place.where == (third, 0)
    assert place.readable
    assert place.number == number
    assert (second.moved, second.roots) == ({}, {}), "files between know nothing of it"
    third.end_life(0)
    assert not place.readable


def test_what_is_given_back_is_so_where_it_is_now():
    first, second = (file_with(3, number=number) for number in (1, 2))
    first.lead_on(0, second, 0)
    first.forget()
    assert first.give_back(0) is second
    assert (first.moved, second.roots, second.live) == ({}, {}, 0)
    assert second.give_back(0) is None, "it is not live any more"
    second.forget()
    assert not SpilledBody(second, 0).readable


def test_neighbours_are_read_together_up_to_a_span():
    file = file_with(*[SPAN_BYTES // 4] * 6)
    assert ordinals(file, [5, 3, 2, 1, 0, 4]) == [[0, 1, 2], [3, 4, 5]]
    assert ordinals(file_with(3 * SPAN_BYTES, 10), [0, 1]) == [[0], [1]], "a larger body alone"


def test_small_gaps_are_read_over():
    file = file_with(10, GAP_BYTES - 100, 10, GAP_BYTES + 100, 10)
    assert ordinals(file, [0, 2, 4]) == [[0, 2], [4]]


def test_files_are_read_apart_and_what_is_not_live_not_at_all():
    first, second = file_with(10, 10, 10), file_with(10, number=2)
    first.states[1] = DEAD
    spans = list(spans_of([(second, 0), (first, 2), (first, 1), (first, 0), (first, 0)]))
    assert spans == [(first, [0, 2]), (second, [0])]
    assert first.states[0] == LIVE
    assert list(spans_of([])) == []
