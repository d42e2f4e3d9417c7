"""Names of queues beside the log: written with the batches, read after anything, tidied."""

from __future__ import annotations

from pathlib import Path

import pytest

from annulet.store.database.definitions import QueueName
from annulet.store.files.files import OsFileSystem
from annulet.store.log.log import MessageLog
from annulet.store.segments import queue_names
from annulet.store.segments.queue_names import (
    NAMES_FILE,
    QueueNames,
    decode_names,
    deleted_line,
    highest_id,
    load_names,
    name_line,
)
from tests.store.log.test_log_tools import flush, message
from tests.store.simulated_files import SimulatedFiles

WORK = QueueName(3, "/", "work\udcff\n", False, '{"x-ring-size":3}', "address", True)
OTHER = QueueName(4, "host", "other", True, "{}")


def test_lines_are_read_back_and_damaged_ones_are_counted() -> None:
    data = name_line(WORK) + name_line(OTHER) + deleted_line(4)
    known = decode_names(data)
    assert (known.queues, known.deleted, known.damaged) == ({3: WORK}, {4}, 0)
    for place in range(len(name_line(WORK)) * 8):
        flipped = bytearray(data)
        flipped[place // 8] ^= 1 << place % 8
        found = decode_names(bytes(flipped))
        assert 3 not in found.queues
        assert found.damaged
    assert decode_names(data[:-5]).damaged == 0, "a torn end"


def test_the_file_follows_what_it_is_told(tmp_path: Path) -> None:
    files = OsFileSystem()
    assert load_names(tmp_path, files) is None
    names = QueueNames(tmp_path, files)
    names.append([name_line(WORK)])
    names.append([name_line(OTHER), deleted_line(3)])
    names.close()
    known = load_names(tmp_path, files)
    assert known is not None
    assert known.queues == {4: OTHER}
    again = QueueNames(tmp_path, files)
    again.begin([WORK])
    again.append([name_line(OTHER)])
    assert (tmp_path / NAMES_FILE).read_bytes() == name_line(WORK) + name_line(OTHER)
    again.close()
    again.close()


def test_queues_that_came_and_went_are_left_out_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_names, "TIDY_BYTES", 2000)
    names = QueueNames(tmp_path, OsFileSystem())
    names.begin([WORK])
    for queue_id in range(10, 200):
        names.append([name_line(QueueName(queue_id, "/", "brief", False, "{}")), deleted_line(queue_id)])
    assert (tmp_path / NAMES_FILE).stat().st_size < 3000
    known = load_names(tmp_path, OsFileSystem())
    assert known is not None
    assert known.queues == {3: WORK}


def test_what_the_disk_refused_is_written_with_the_next_lines(caplog: pytest.LogCaptureFixture) -> None:
    files = SimulatedFiles()
    place = Path("/simulated")
    names = QueueNames(place, files)
    names.begin([])
    files.fail_at = files.operations + 1
    names.append([name_line(WORK)])
    assert files.failed_operation == "write"
    assert "names of queues cannot be written" in caplog.text
    names.append([name_line(OTHER)])
    known = load_names(place, files)
    assert known is not None
    assert known.queues == {3: WORK, 4: OTHER}


def test_the_log_has_the_name_on_disk_before_the_first_message(tmp_path: Path) -> None:
    log = MessageLog.open(tmp_path)
    log.name_queues([])
    log.name_queue(WORK)
    assert load_names(tmp_path, OsFileSystem()) is not None
    log.append(message(b"first"), [(3, 1)])
    flush(log)
    again = MessageLog.open(tmp_path)
    assert again.known_queues.queues == {3: WORK}
    again.name_queues([WORK])
    again.forget_queue(3)
    flush(again)
    third = MessageLog.open(tmp_path)
    assert (third.known_queues.queues, third.known_queues.deleted) == ({}, {3})
    assert highest_id(third.known_queues, {7: 1}) == 7
    assert highest_id(third.known_queues, {}) == 3
