from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from annulet.store.files.data_format import (
    BACKUP_FILE,
    FORMAT_FILE,
    LOG_DIRECTORY,
    STAGING_DIRECTORY,
    UNFINISHED_BACKUP,
    check_format,
)
from annulet.store.files.errors import BackupError
from annulet.store.inspection import backup
from annulet.store.inspection.backup import BackupCopy, Staging, check_target, open_staging, remove_staging
from annulet.store.log.log import MessageLog
from annulet.store.segments.head_blocks import heads_path
from annulet.store.segments.segment import segment_name
from tests.store.log.test_log_tools import SEGMENT, flush, live, message, upkeep

NOW = 1_700_000_000_000


def filled(data: Path, count: int = 40) -> tuple[MessageLog, list[int]]:
    log = MessageLog.open(data / LOG_DIRECTORY, segment_bytes=SEGMENT)
    records = [log.append(message(b"%03d" % number + bytes(1000)), [(1, number + 1)]) for number in range(count)]
    flush(log)
    return log, records


def staged(log: MessageLog, data: Path) -> Staging:
    staging = open_staging(data)
    staging.link_log(data / LOG_DIRECTORY, log.written_ends())
    return staging


def copied(staging: Staging, target: Path) -> BackupCopy:
    copy = BackupCopy(staging, target, NOW, threading.Event())
    copy.run()
    return copy


def test_the_copy_is_the_log_of_the_instant_whatever_happens_after_it(tmp_path: Path) -> None:
    """Publishing into the open segment, settling all, checkpoints, compaction and removal come after the instant."""
    data, target = tmp_path / "data", tmp_path / "backup"
    log, records = filled(data)
    log.settle(records[0], 1)
    flush(log)
    staging = staged(log, data)
    for record in records[1:]:
        log.settle(record, 1)
    for number in range(40):
        log.append(message(b"later %d" % number + bytes(1000)), [(1, 100 + number)])
        flush(log)
    for number in range(3):
        log.append(message(b"last %d" % number), [(1, 200 + number)])
        flush(log)
        upkeep(log, checkpoint=True)
    assert not (data / LOG_DIRECTORY / segment_name(1)).exists(), "removed, while the backup still has it"
    copy = copied(staging, target)
    assert copy.copied == staging.bytes
    staging.remove()
    assert not (data / STAGING_DIRECTORY).exists()
    found = MessageLog.open(target / LOG_DIRECTORY, segment_bytes=SEGMENT)
    assert sorted(body[:3] for body in live(found)) == [b"%03d" % number for number in range(1, 40)]
    assert not found.clean, "a start on a backup recovers: what was in delivery is marked redelivered"
    assert found.report.damages == []
    found.close()
    log.close()
    assert check_format(target) is not None
    manifest = json.loads((target / BACKUP_FILE).read_text())
    assert manifest["taken_at"] == NOW
    assert manifest["files"][f"{LOG_DIRECTORY}/{segment_name(1)}"] > 0
    assert (target.stat().st_mode & 0o777, (target / FORMAT_FILE).exists()) == (0o700, True)


def test_a_segment_that_takes_records_is_copied_up_to_its_sealed_end(tmp_path: Path) -> None:
    data = tmp_path / "data"
    log, _ = filled(data, 3)
    log.append(message(b"in the open window"), [(1, 50)])
    staging = staged(log, data)
    ends = log.written_ends()
    assert {file.name: file.bytes for file in staging.files}[f"{LOG_DIRECTORY}/{segment_name(1)}"] == ends[1] < SEGMENT
    copied(staging, tmp_path / "backup")
    found = MessageLog.open(tmp_path / "backup" / LOG_DIRECTORY, segment_bytes=SEGMENT)
    assert len(live(found)) == 3
    found.close()
    log.close()


def test_heads_are_left_out(tmp_path: Path) -> None:
    data = tmp_path / "data"
    log, _ = filled(data)
    heads_path(data / LOG_DIRECTORY / segment_name(1)).touch()
    staging = staged(log, data)
    assert f"{LOG_DIRECTORY}/{segment_name(1)}" in {file.name for file in staging.files}
    assert not [file.name for file in staging.files if file.name.endswith(".heads")]
    log.close()


def test_targets_that_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "data"
    (data / LOG_DIRECTORY).mkdir(parents=True)
    (tmp_path / "file").touch()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "something").touch()
    for place, reason in (
        (Path("relative"), "absolute path"),
        (data, "inside the data directory"),
        (data / "backup", "inside the data directory"),
        (tmp_path / "file", "is a file"),
        (tmp_path / "full", "is not empty"),
        (tmp_path / "none" / "backup", "there is no directory"),
    ):
        with pytest.raises(BackupError, match=reason):
            check_target(place, data)
    (tmp_path / "empty").mkdir()
    check_target(tmp_path / "empty", data)
    check_target(tmp_path / "new", data)
    usage = os.statvfs(tmp_path)
    monkeypatch.setattr(backup, "SPACE_KEPT", usage.f_bavail * usage.f_frsize * 2)
    with pytest.raises(BackupError, match="no room in"):
        check_target(tmp_path / "new", data)


def test_heads_need_no_room(tmp_path: Path) -> None:
    """The file has a length that the disk has no room for, and no blocks."""
    usage = os.statvfs(tmp_path)
    heads = heads_path(tmp_path / "data" / LOG_DIRECTORY / segment_name(1))
    heads.parent.mkdir(parents=True)
    heads.touch()
    os.truncate(heads, usage.f_bavail * usage.f_frsize * 2)
    check_target(tmp_path / "new", tmp_path / "data")
    heads.rename(heads.with_suffix(".other"))
    with pytest.raises(BackupError, match="no room in"):
        check_target(tmp_path / "new", tmp_path / "data")


@pytest.mark.parametrize("existing", [False, True])
def test_a_copy_that_fails_or_is_cancelled_leaves_the_target_as_it_was(tmp_path: Path, *, existing: bool) -> None:
    data, target = tmp_path / "data", tmp_path / "backup"
    if existing:
        target.mkdir()
    log, _ = filled(data)
    staging = staged(log, data)
    cancelled = threading.Event()
    cancelled.set()
    with pytest.raises(BackupError, match="cancelled"):
        BackupCopy(staging, target, NOW, cancelled).run()
    assert target.exists() is existing
    (staging.directory / LOG_DIRECTORY / segment_name(2)).unlink()
    with pytest.raises(FileNotFoundError):
        BackupCopy(staging, target, NOW, threading.Event()).run()
    assert target.exists() is existing
    assert not existing or list(target.iterdir()) == []
    log.close()


def test_a_segment_that_is_shorter_than_it_was_fails_the_backup(tmp_path: Path) -> None:
    data = tmp_path / "data"
    log, _ = filled(data)
    staging = staged(log, data)
    path = staging.directory / LOG_DIRECTORY / segment_name(1)
    path.unlink()
    path.write_bytes(b"short")
    with pytest.raises(BackupError, match=r"ended \d+ bytes early"):
        copied(staging, tmp_path / "backup")
    log.close()


def test_a_backup_that_was_killed_is_no_data_directory(tmp_path: Path) -> None:
    data, target = tmp_path / "data", tmp_path / "backup"
    log, _ = filled(data)
    copy = BackupCopy(staged(log, data), target, NOW, threading.Event())
    copy._undo = lambda: None  # type: ignore[method-assign] # the process died
    copy._cancelled.set()
    with pytest.raises(BackupError):
        copy.run()
    assert (target / UNFINISHED_BACKUP).exists()
    with pytest.raises(BackupError, match="not empty"):
        check_target(target, data)
    log.close()


def test_a_file_system_without_links_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    data = tmp_path / "data"
    log, _ = filled(data, 2)
    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(BackupError, match="hard links: stop the broker and copy"):
        staged(log, data)
    remove_staging(data)
    assert not (data / STAGING_DIRECTORY).exists()
    remove_staging(data)
    log.close()


def test_rows_that_wait_for_their_commit_are_in_it_and_half_written_ones_are_not(tmp_path: Path) -> None:
    data = tmp_path / "data"
    log, _ = filled(data, 2)
    (data / "stages" / "query").mkdir(parents=True)
    (data / "stages" / "query" / "1.arrow").write_bytes(b"rows")
    (data / "stages" / "query" / "2.part").write_bytes(b"ro")
    staging = staged(log, data)
    staging.link_stages(data / "stages")
    copied(staging, tmp_path / "backup")
    found = {path.name: path.read_bytes() for path in (tmp_path / "backup" / "stages").rglob("*") if path.is_file()}
    assert found == {"1.arrow": b"rows"}
    assert (tmp_path / "backup" / "stages" / "query").stat().st_mode & 0o777 == 0o700
    log.close()
