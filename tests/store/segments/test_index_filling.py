"""The heads of records are read and not believed blindly: nothing checks their sums here."""

from __future__ import annotations

import time

import pytest

from annulet.core.message.message import Message, Origin
from annulet.store.segments.index_filling import (
    DENSE_PIECES,
    DENSE_RECORDS,
    LOOKS,
    PAUSE_SECONDS,
    Filling,
    OriginNumbers,
)
from annulet.store.segments.interface import NO_PRIORITY
from annulet.store.segments.records import encode_message, encode_origin
from annulet.store.segments.segment import SHARED
from annulet.store.segments.segment_index import UNREAD, SegmentIndex
from tests.store.log.test_log_tools import DIRECTORY, ORIGIN, asks_for, counting, message
from tests.store.simulated_files import SimulatedFile, SimulatedFiles

SEED = 5
LONG = Origin("exchange", "a longer key", "guest@127.0.0.1:1", ORIGIN.view)


def filled(data: bytes, offsets: list[int], queue: int = 0, piece: int = 4096) -> SegmentIndex:
    file = SimulatedFiles().open(DIRECTORY / "segment", create=True)
    file.write([data], 0)
    index = SegmentIndex(1, 2, len(data), len(data))
    index.offsets.extend(offsets)
    index.queues.extend([queue] * len(offsets))
    index.queue_ids.append(3)
    Filling(index, file, SEED, OriginNumbers(index, asks_for, UNREAD), piece).run()
    return index


def record(ordinal: int, targets: list[tuple[int, int]]) -> bytes:
    written = message(b"body", accepted_at=9)
    return encode_message(written, encode_origin(ORIGIN), targets, ordinal, 1, 0, SEED) + b"body"


def test_a_plain_record_is_known_by_its_head() -> None:
    index = filled(b"-" + record(0, [(3, 8)]), [1])
    assert (list(index.sequences), list(index.sizes), list(index.accepted_at)) == ([8], [4], [9])
    assert (list(index.origin_numbers), list(index.priorities)) == ([0], [NO_PRIORITY])
    assert index.origins == [encode_origin(ORIGIN)]


@pytest.mark.parametrize(
    ("place", "value"),
    [(0, b"x"), (12, b"\1"), (32, b"\2"), (43, b"\xff"), (55, b"\xff"), (60, b"\4"), (75, b"\xff")],
    ids=["magic", "ordinal", "type", "time", "origin's length", "queue", "sequence"],
)
def test_what_is_damaged_is_left_to_who_reads_it(place: int, value: bytes) -> None:
    data = bytearray(b"-" + record(0, [(3, 8)]))
    data[1 + place : 2 + place] = value
    index = filled(bytes(data), [1])
    assert (list(index.origin_numbers), list(index.offsets)) == ([UNREAD], [1])


def test_of_several_queues_each_is_kept_and_a_damaged_record_is_nowhere() -> None:
    data = b"-" + record(0, [(3, 8), (4, 1)])
    index = filled(data, [1], SHARED)
    assert (index.shared, list(index.sequences)) == ({0: (3, 8, 4, 1)}, [8])
    index = filled(data[:-1] + b"x", [1], SHARED)
    assert (index.shared, list(index.offsets)) == ({}, [0])
    index = filled(data[:60], [1], SHARED)
    assert list(index.offsets) == [0], "cut off"


def test_the_event_loop_may_pass_after_each_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    data, offsets = neighbours(10)
    index = filled(data, offsets, piece=2 * len(data) // 10)
    assert list(index.sequences) == list(range(8, 18))
    assert pauses == [PAUSE_SECONDS] * 5


def neighbours(count: int) -> tuple[bytes, list[int]]:
    data, offsets = bytearray(b"-"), []
    for ordinal in range(count):
        offsets.append(len(data))
        data += record(ordinal, [(3, 8 + ordinal)])
    return bytes(data), offsets


@pytest.mark.parametrize(("in_a_piece", "dense"), [(DENSE_RECORDS - 1, False), (DENSE_RECORDS, True)])
def test_of_records_that_lie_dense_more_is_read_at_once_without_a_pause(
    monkeypatch: pytest.MonkeyPatch, in_a_piece: int, dense: bool
) -> None:
    pauses: list[float] = []
    read: list[int] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    monkeypatch.setattr(SimulatedFile, "read", counting(SimulatedFile.read, read))
    data, offsets = neighbours(5 * DENSE_RECORDS)
    size = offsets[1] - offsets[0]
    index = filled(data, offsets, piece=size * in_a_piece)
    assert list(index.sequences) == list(range(8, 8 + 5 * DENSE_RECORDS))
    if dense:
        assert read == [DENSE_PIECES * size * in_a_piece, size * DENSE_RECORDS]
        assert len(pauses) == 1, "after the last"
    else:
        assert max(read) == size * in_a_piece
        assert len(pauses) == len(read) == 6


def headed(ordinal: int, header: bytes, origin: Origin = ORIGIN, **facts: int) -> bytes:
    written = Message(header, b"body", origin, durable=True, **facts)
    return encode_message(written, encode_origin(origin), [(3, 8 + ordinal)], ordinal, 1, 0, SEED) + b"body"


@pytest.mark.parametrize("piece", [4096, 200])
def test_neighbours_are_told_apart_by_any_octet_of_origin_and_header(piece: int) -> None:
    heads = [
        (b"header", ORIGIN, 4),
        (b"header", ORIGIN, 4),
        (b"header", LONG, 4),
        (b"important", LONG, 4),
        (b"important", LONG, 9),
        (b"header", LONG, 9),
        (b"headet", LONG, 4),  # as long, and asks for a time
        (b"header", LONG, 4),
        (b"beader", LONG, 4),
    ]
    data, offsets = b"-", []
    for ordinal, (header, origin, priority) in enumerate(heads):
        offsets.append(len(data))
        data += headed(ordinal, header, origin, priority=priority)
    index = filled(data, offsets, piece=piece)
    assert list(index.origin_numbers) == [0, 0, 1, 1, 1, 1, UNREAD, 1, UNREAD]
    none = NO_PRIORITY
    assert list(index.priorities) == [none, none, none, 4, 9, 9, 0, none, 0]
    assert list(index.sequences) == [8, 9, 10, 11, 12, 13, 0, 15, 0]
    assert index.origins == [encode_origin(ORIGIN), encode_origin(LONG)]


@pytest.mark.parametrize(("differ", "paused"), [(LOOKS - 1, 0), (LOOKS, 1), (2 * LOOKS - 1, 1), (2 * LOOKS, 2)])
def test_the_event_loop_may_pass_after_so_many_headers_that_differ(
    monkeypatch: pytest.MonkeyPatch, differ: int, paused: int
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    data, offsets = bytearray(b"-"), []
    for ordinal in range(2 * differ):  # pairs of neighbours are alike
        offsets.append(len(data))
        data += headed(ordinal, b"header" if ordinal & 2 else b"important")
    index = filled(bytes(data), offsets, piece=len(data))
    assert list(index.origin_numbers) == [0] * len(offsets)
    assert pauses == [PAUSE_SECONDS] * paused, "none after the piece, which is a long one"


@pytest.mark.parametrize("damaged", range(4))
def test_neighbours_of_a_damaged_record_are_known(damaged: int) -> None:
    data, offsets = bytearray(b"-"), []
    for ordinal in range(4):
        offsets.append(len(data))
        data += headed(ordinal, b"header")
    data[offsets[damaged]] ^= 1
    index = filled(bytes(data), offsets)
    assert [number == UNREAD for number in index.origin_numbers] == [place == damaged for place in range(4)]
    assert len(index.sizes) == len(index.sequences) == len(index.accepted_at) == len(index.expires_at) == 4


def test_a_hole_and_an_origin_above_the_signed_numbers_of_16_bits() -> None:
    many = 0x8000 + 2
    data, offsets = bytearray(b"-"), [0]
    origins = [Origin("e", str(number), "p", ORIGIN.view) for number in range(many)]
    for ordinal, origin in enumerate(origins, 1):
        offsets.append(len(data))
        data += headed(ordinal, b"header", origin)
    index = filled(bytes(data), offsets)
    assert list(index.origin_numbers) == [UNREAD, *range(many)]
    assert index.origins == [encode_origin(origin) for origin in origins]


def test_a_record_that_ends_with_the_file_inside_its_header() -> None:
    data = b"-" + headed(0, b"header") + headed(1, b"header")
    index = filled(data[: -len(b"header") - 2], [1, 1 + len(headed(0, b"header"))])
    assert (list(index.origin_numbers), list(index.sequences)) == ([0, UNREAD], [8, 0])
