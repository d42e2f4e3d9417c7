from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path

import pytest

from annulet.store.log.checkpoint import BALLAST_FILE
from annulet.store.log.log import MessageLog
from annulet.store.log.quarantine import Quarantine
from annulet.store.log.upkeep import (
    BALLAST_BYTES,
    COPY_BYTES,
    CompactTask,
    RecordPieces,
    RemoveTask,
    SpareTask,
    allocate_file,
    ensure_ballast,
)
from annulet.store.segments.records import HEADER
from annulet.store.segments.scanning import read_record
from tests.store.log.test_log_tools import DIRECTORY, flush, message
from tests.store.simulated_files import SimulatedFile, SimulatedFiles


class WatchedFile(SimulatedFile):
    """Notes how much is read and written at once."""

    def __init__(self, file: SimulatedFile, most: list[int]) -> None:
        super().__init__(file.node, file.files)
        self.most = most

    def read(self, offset: int, length: int) -> bytes:
        self.most.append(length)
        return super().read(offset, length)

    def write(self, buffers: Sequence[bytes], offset: int) -> None:
        self.most.append(sum(map(len, buffers)))
        super().write(buffers, offset)


class WatchedFiles(SimulatedFiles):
    def __init__(self) -> None:
        super().__init__()
        self.most: list[int] = []

    def open(self, path: Path, *, create: bool = False) -> SimulatedFile:
        return WatchedFile(super().open(path, create=create), self.most)


def test_a_spare_that_does_not_fit_leaves_nothing() -> None:
    files = SimulatedFiles(BALLAST_BYTES + 100)
    task = SpareTask(DIRECTORY / "spare", 1000, files)
    task.run()
    assert task.error is not None
    assert task.error.errno == errno.ENOSPC
    assert task.file is None
    assert list(files.names_now) == [BALLAST_FILE]


def test_the_ballast_is_made_once() -> None:
    files = SimulatedFiles()
    ensure_ballast(DIRECTORY, files)
    ensure_ballast(DIRECTORY, files)
    assert files.used == BALLAST_BYTES


def test_removal_tells_what_went_before_it_failed() -> None:
    files = SimulatedFiles()
    for name in ("a", "b", "c"):
        allocate_file(DIRECTORY / name, 10, files)
    task = RemoveTask({1: DIRECTORY / "a", 2: DIRECTORY / "b", 3: DIRECTORY / "c"}, DIRECTORY, files)
    files.fail_at = files.operations + 2
    task.run()
    assert task.error is not None
    assert task.removed == [1]
    assert sorted(files.names_now) == ["b", "c"]


def test_allocation_reserves_the_whole_size() -> None:
    files = SimulatedFiles(100)
    with pytest.raises(OSError, match="No space"):
        allocate_file(DIRECTORY / "a", 101, files)
    assert allocate_file(DIRECTORY / "a", 100, files).size() == 100


def test_a_compaction_has_no_more_of_a_segment_in_memory_than_a_piece_or_one_large_record() -> None:
    files = WatchedFiles()
    log = MessageLog.open(DIRECTORY, files=files, segment_bytes=8 * COPY_BYTES)
    bodies = [bytes([number]) * 100_000 for number in range(25)]
    bodies[7] = b"large" * (COPY_BYTES // 4)
    records = [log.append(message(body), [(1, number + 1)]) for number, body in enumerate(bodies)]
    flush(log)
    segment = log.segments[1]
    live = [(record & 0xFFFFFF, segment.offsets[record & 0xFFFFFF]) for record in records if record % 5]
    files.most.clear()
    task = CompactTask(segment, live, files, Quarantine(DIRECTORY / "quarantine", files))
    task.run()
    assert task.error is None
    large = len(bodies[7]) + 1000
    assert max(files.most) <= COPY_BYTES + large, "what is waiting to be written, and the large record"
    assert sorted(files.most)[-3] <= COPY_BYTES + 101_000, "it is read once and written once"
    assert task.unreadable == 0
    data = bytes(files.names_now["000000000001.segment"].data)
    assert len(data) == task.size
    for ordinal, _ in live:
        record = read_record(data, task.offsets[ordinal], segment.seed)
        assert record is not None
        assert data[record.offset : record.end].endswith(bodies[ordinal])
    log.close()


def test_a_length_that_damage_made_enormous_reads_no_further_than_the_file() -> None:
    files = WatchedFiles()
    log = MessageLog.open(DIRECTORY, files=files, segment_bytes=2 * COPY_BYTES)
    log.append(message(b"body"), [(1, 1)])
    flush(log)
    segment = log.segments[1]
    place = segment.offsets[0]
    node = files.names_now["000000000001.segment"]
    node.data[place + 8 : place + 12] = b"\xff\xff\xff\x7f"
    assert HEADER.unpack_from(node.data, place)[2] > 1 << 30
    files.most.clear()
    assert RecordPieces(files.open(segment.path), segment.seed).record_at(place) is None
    assert max(files.most) <= len(node.data)
    log.close()
