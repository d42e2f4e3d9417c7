"""An index gives back what was put in, and is believed with the very file it was made of or not at all."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annulet.store.files.files import FileSystem
from annulet.store.segments.interface import NO_PRIORITY
from annulet.store.segments.records import SEGMENT_HEADER_SIZE, segment_header
from annulet.store.segments.segment import segment_name
from annulet.store.segments.segment_index import (
    UNREAD,
    NearNumbers,
    SegmentIndex,
    decode,
    index_name,
    index_number,
    load,
    stray,
)
from tests.store.log.test_log_tools import DIRECTORY
from tests.store.simulated_files import SimulatedFiles

NUMBER, IDENTITY, LENGTH = 7, 1234, 500
FIELDS = SegmentIndex.__init__.__code__.co_names  # every attribute that a new index is given


def index_of(sequences: list[int], sizes: list[int]) -> SegmentIndex:
    count = len(sequences)
    index = SegmentIndex(NUMBER, IDENTITY, LENGTH - 10, LENGTH)
    index.offsets = array("I", range(64, 64 + 3 * count, 3))
    index.queues = array("H", [number % 3 for number in range(count)])
    index.queue_ids = [5, 1 << 40, 6]
    index.shared = {2: (5, 6), 9: (1 << 40,)}
    index.sequences = array("Q", sequences)
    index.sizes = array("I", sizes)
    index.origin_numbers = array("H", [UNREAD if number % 5 == 4 else 0 for number in range(count)])
    index.origins = [b"first", b""]
    index.priorities = array("H", [number % 7 if number % 3 else NO_PRIORITY for number in range(count)])
    index.accepted_at = array("Q", [1_700_000_000_000 + number // 3 for number in range(count)])
    index.expires_at = array("Q", [at + number % 4 if number % 4 else 0 for number, at in enumerate(index.accepted_at)])
    index.voided = array("Q", [17])
    return index


@given(
    st.lists(st.tuples(st.integers(0, 1 << 63), st.integers(0, 1 << 30)), max_size=20)
    | st.integers(0, 30).map(lambda count: [(1000 + number, 1024) for number in range(count)])
)
def test_everything_comes_back(messages: list[tuple[int, int]]) -> None:
    index = index_of([sequence for sequence, _ in messages], [size for _, size in messages])
    found = decode(index.encode())
    assert found is not None
    assert {"sequences", "voided", "length"} <= set(FIELDS)
    for name in FIELDS:
        if name != "array":
            expected, value = getattr(index, name), getattr(found, name)
            assert value == expected or list(value) == list(expected), name


@given(st.lists(st.tuples(st.integers(0, 1 << 63), st.integers(0, 1 << 30)), max_size=20))
def test_places_alone(messages: list[tuple[int, int]]) -> None:
    index = index_of([sequence for sequence, _ in messages], [size for _, size in messages])
    found = decode(index.encode(), places_only=True)
    assert found is not None
    for name in ("offsets", "queues", "queue_ids", "shared", "voided", "origins", "size", "length", "identity"):
        assert getattr(found, name) == getattr(index, name), name
    assert not len(found.sizes) + len(found.sequences) + len(found.accepted_at) + len(found.origin_numbers)


def test_times_are_made_as_somebody_asks() -> None:
    index = index_of(list(range(30)), [1024] * 30)
    found = decode(index.encode())
    assert found is not None
    assert isinstance(found.accepted_at, NearNumbers)
    times = list(index.accepted_at)
    assert found.accepted_at[4] == times[4]
    assert list(found.accepted_at[5:9]) == times[5:9]
    assert array("Q", found.accepted_at) == index.accepted_at
    some = found.accepted_at.at([3, 5, 20, 29])
    assert (len(some), some[2], list(some[1:3])) == (4, times[20], [times[5], times[20]])
    assert list(some) == [times[3], times[5], times[20], times[29]]
    index.expires_at = array("Q", bytes(8 * 30))
    index.accepted_at = found.accepted_at
    again = decode(index.encode())
    assert again is not None
    assert list(again.accepted_at) == times


def test_a_column_of_times_that_is_too_short_is_no_index() -> None:
    index = index_of([1, 2, 4], [1, 2, 3])
    index.expires_at = array("Q", bytes(8 * 3))
    index.accepted_at = array("Q", [7, 9])
    assert decode(index.encode()) is None


def test_equal_numbers_and_those_that_grow_by_one_take_no_room() -> None:
    growing = list(range(7, 1007))
    small = len(index_of(growing, [1024] * 1000).encode())
    assert len(index_of([*growing[:-1], 1], [1024] * 1000).encode()) == small + 4 * 1000, "near each other"
    assert len(index_of([*growing[:-1], 1 << 40], [1024] * 1000).encode()) == small + 8 * 999
    assert len(index_of(growing, [1024] * 999 + [1]).encode()) == small + 4 * 999


@pytest.mark.parametrize("life", [0, 1, 60_001])
def test_one_life_for_all_takes_no_room(life: int) -> None:
    index = index_of(list(range(1000)), [1024] * 1000)
    index.expires_at = array("Q", bytes(8 * 1000))
    without = len(index.encode())
    index.expires_at = array("Q", [at + life - 1 if life else 0 for at in index.accepted_at])
    assert len(index.encode()) == without
    found = decode(index.encode())
    assert found is not None
    assert found.expires_at == index.expires_at


def test_no_other_bytes_are_an_index() -> None:
    data = index_of([1, 2, 4], [1, 2, 3]).encode()
    for place in range(len(data)):
        assert decode(data[:place]) is None
        for bit in (1, 128):
            assert decode(data[:place] + bytes([data[place] ^ bit]) + data[place + 1 :]) is None
    assert decode(data + b"\0") is None


def test_columns_of_different_lengths_are_no_index() -> None:
    index = index_of([1, 2, 4], [1, 2, 3])
    index.sizes.append(7)
    assert decode(index.encode()) is None
    index.sizes = array("I", [5, 5, 5])
    index.queues = array("H")
    assert decode(index.encode()) is None


def write(path: str, content: bytes, files: FileSystem) -> None:
    file = files.open(DIRECTORY / path, create=True)
    file.write([content], 0)
    file.close()


def disk(segment: bytes, *, number: int = NUMBER) -> SimulatedFiles:
    """A segment file and the index of one with ``IDENTITY`` and ``LENGTH``."""
    files = SimulatedFiles()
    write(segment_name(number), segment, files)
    write(index_name(number), index_of([1] * 10, [1] * 10).encode(), files)
    return files


HEADER = segment_header(NUMBER, IDENTITY)
REST = bytes(LENGTH - SEGMENT_HEADER_SIZE)


def test_the_segment_it_was_made_of() -> None:
    assert load(DIRECTORY / segment_name(NUMBER), NUMBER, disk(HEADER + REST)) is not None


@pytest.mark.parametrize(
    ("segment", "number"),
    [
        (HEADER + REST[:-1], NUMBER),
        (HEADER + REST + b"\0", NUMBER),
        (segment_header(NUMBER, IDENTITY + 1) + REST, NUMBER),
        (segment_header(8, IDENTITY) + REST, 8),
        (b"\0" + HEADER[1:] + REST, NUMBER),
        (bytes(LENGTH), NUMBER),
        (b"", NUMBER),
    ],
    ids=["shorter", "longer", "another", "another number", "one header damaged", "wiped", "empty"],
)
def test_any_other_segment(segment: bytes, number: int) -> None:
    assert load(DIRECTORY / segment_name(number), number, disk(segment, number=number)) is None


def test_no_index_at_all() -> None:
    files = disk(HEADER + REST)
    files.remove(DIRECTORY / index_name(NUMBER))
    assert load(DIRECTORY / segment_name(NUMBER), NUMBER, files) is None


def test_names() -> None:
    assert index_number(index_name(12)) == 12
    assert index_number(segment_name(12)) is None
    assert index_number("x.index") is None
    assert stray([index_name(1), index_name(2), segment_name(3)], {2}) == [index_name(1)]
