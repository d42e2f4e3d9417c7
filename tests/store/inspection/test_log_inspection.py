from __future__ import annotations

from pathlib import Path

import pytest

from annulet.store.files.files import OsFileSystem
from annulet.store.inspection.log_inspection import CLOCK_TOLERANCE_MILLISECONDS, ReadOnlyFiles, inspect_log
from annulet.store.log.log import MessageLog
from annulet.store.segments.segment import segment_name
from tests.store.log.test_log_tools import SEGMENT, flush, message, reader_of, space_of, upkeep

NOW = 1_700_000_000_000


def opened(directory: Path) -> MessageLog:
    return MessageLog.open(directory, segment_bytes=SEGMENT)


def filled(directory: Path) -> MessageLog:
    """Some segments, a checkpoint, half of queue 1 settled."""
    log = opened(directory)
    records = [log.append(message(bytes(1000), accepted_at=NOW), [(1 + n % 2, n + 1)]) for n in range(60)]
    flush(log)
    for record in records[::4]:
        log.settle(record, 1)
    flush(log)
    upkeep(log, checkpoint=True)
    return log


def state(directory: Path) -> dict[str, tuple[bytes, int]]:
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in directory.iterdir()}


def test_figures_are_exact_and_nothing_is_changed(tmp_path: Path) -> None:
    log = filled(tmp_path)
    live = log.statistics().live_records
    log.close()
    before = state(tmp_path)
    told: list[tuple[int, int]] = []
    found = inspect_log(tmp_path, NOW, lambda read, total: told.append((read, total)))
    assert state(tmp_path) == before
    assert found.closed
    assert not found.damages
    assert found.report.live_records == live == 45
    assert found.live_by_queue == {1: 15, 2: 30}
    assert sum(segment.live for segment in found.segments) == live
    assert sum(segment.messages for segment in found.segments) == 60
    assert all(segment.damaged_bytes == 0 for segment in found.segments)
    assert told[-1] == (len(found.segments), len(found.segments))
    assert (found.future, found.ahead) == (0, 0)


def test_after_a_crash_nothing_is_cut_removed_or_marked(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.append(message(b"torn" * 300), [(1, 100)])
    batch = log.take_batch()
    assert batch is not None
    part = batch.parts[-1]
    part.file.write([b"".join(part.buffers)[:-40]], part.offset)
    number = part.segment.number
    before = state(tmp_path)
    found = inspect_log(tmp_path, NOW)
    assert state(tmp_path) == before
    assert not found.closed
    assert found.torn
    assert found.temporary, "the spare"
    assert found.segments[-1].number == number
    space_of(log).close()
    reader_of(log).close()


def test_damage_is_found_where_it_is(tmp_path: Path) -> None:
    filled(tmp_path).close()
    path = tmp_path / segment_name(2)
    data = bytearray(path.read_bytes())
    data[3000] ^= 1
    path.write_bytes(data)
    found = inspect_log(tmp_path, NOW)
    assert [(damage.kind, damage.segment) for damage in found.damages] == [("corrupt", 2)]
    by_number = {segment.number: segment for segment in found.segments}
    assert by_number[2].damaged_bytes == found.damages[0].length > 1000
    assert found.report.lost_records == 1


def test_a_clock_that_went_back_is_noticed(tmp_path: Path) -> None:
    filled(tmp_path).close()
    found = inspect_log(tmp_path, NOW - CLOCK_TOLERANCE_MILLISECONDS)
    assert found.future == 0, "at the tolerance"
    found = inspect_log(tmp_path, NOW - CLOCK_TOLERANCE_MILLISECONDS - 1)
    assert (found.future, found.ahead) == (60, CLOCK_TOLERANCE_MILLISECONDS + 1)


def test_names_are_told_apart(tmp_path: Path) -> None:
    filled(tmp_path).close()
    for name in (
        "spare-9.unfinished",
        "000000000001.index",
        "000000000099.index",
        "000000000001.heads",
        "000000000098.heads",
        "notes.txt",
    ):
        (tmp_path / name).touch()
    found = inspect_log(tmp_path, NOW)
    assert found.temporary == ["spare-9.unfinished"]
    assert found.orphan_indexes == ["000000000098.heads", "000000000099.index"]
    assert found.unknown == ["notes.txt"]


def test_a_wiped_header_costs_its_segment(tmp_path: Path) -> None:
    filled(tmp_path).close()
    path = tmp_path / segment_name(1)
    data = path.read_bytes()
    path.write_bytes(bytes(64) + data[64:])
    found = inspect_log(tmp_path, NOW)
    assert found.segments[0].records == 0
    assert found.segments[0].damaged_bytes > 10_000
    assert found.report.lost_records > 0


def test_files_that_are_only_looked_at_cannot_be_changed(tmp_path: Path) -> None:
    path = tmp_path / segment_name(1)
    path.write_bytes(b"content")
    files = ReadOnlyFiles()
    files.make_directory(tmp_path / "new")
    files.remove(path)
    files.rename(path, tmp_path / segment_name(2))
    files.sync_directory(tmp_path)
    file = files.open(path)
    file.write([b"other"], 0)
    file.truncate(0)
    file.allocate(100)
    file.sync()
    assert file.read(0, 100) == b"content"
    file.close()
    swallowing = files.open(tmp_path / "made", create=True)
    swallowing.write([b"x"], 0)
    assert swallowing.size() == 0
    swallowing.close()
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    assert path.read_bytes() == b"content"
    assert files.identity() == 0
    with pytest.raises(FileNotFoundError):
        files.open(tmp_path / "none")
    assert OsFileSystem().names(tmp_path) == files.names(tmp_path)
