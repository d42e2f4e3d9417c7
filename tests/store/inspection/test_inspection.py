from __future__ import annotations

import asyncio
import errno
import json
import os
import shutil
import sqlite3
import tempfile
import time
from pathlib import Path

import pytest

from annulet.store.database import catalogue
from annulet.store.files.data_format import (
    FORMAT_FILE,
    QUARANTINE_DIRECTORY,
    SPILL_DIRECTORY,
    STAGING_DIRECTORY,
    UNFINISHED_BACKUP,
)
from annulet.store.files.errors import DirectoryInUseError
from annulet.store.files.lock import DirectoryLock
from annulet.store.inspection import inspection
from annulet.store.inspection.inspection import ERROR, NOTE, WARNING, Inspection, inspect, repair
from annulet.store.log.log import MessageLog
from annulet.store.segments.segment import segment_name
from tests.store.data_directories import COUNT, fill
from tests.store.log.test_log_tools import flush, message


def now() -> int:
    return int(time.time() * 1000)


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a broker left that took some messages and was stopped cleanly. Not to be changed."""
    directory = tmp_path_factory.mktemp("closed") / "data"
    asyncio.run(fill(directory))
    return directory


@pytest.fixture
def data(closed: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return shutil.copytree(closed, tmp_path / "data")


def codes(found: Inspection, *severities: str) -> list[str]:
    return [finding.code for finding in found.findings if finding.severity in (severities or (ERROR, WARNING, NOTE))]


def state(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_a_clean_stop_leaves_nothing_to_say_and_looking_changes_nothing(data: Path) -> None:
    before = state(data)
    found = inspect(data, now())
    assert state(data) == before
    assert found.findings == []
    assert found.sound
    assert found.figures["log"]["live_messages"] == COUNT
    assert found.figures["log"]["live_by_queue"] == {"1": COUNT}
    assert found.figures["catalogue"]["queues"] == 1
    assert found.figures["history"]["schema"] == 2
    assert found.figures["quarantine"] == {"records": 0, "bytes": 0}
    assert found.figures["disk"]["used_bytes"] >= sum(map(len, before.values()))


def test_a_missing_directory_an_empty_one_and_another(tmp_path: Path) -> None:
    assert codes(inspect(tmp_path / "none", now()), ERROR) == ["no-directory"]
    found = inspect(tmp_path, now())
    assert found.sound
    assert codes(found) == ["empty"]
    (tmp_path / "letter.txt").touch()
    assert codes(inspect(tmp_path, now()), ERROR) == ["no-data"]
    assert codes(inspect(tmp_path / "letter.txt", now()), ERROR) == ["no-directory"]


def test_a_running_broker_is_named(data: Path) -> None:
    with DirectoryLock(data):
        found = inspect(data, now())
        assert codes(found) == ["in-use"]
        assert f"process {os.getpid()}" in found.findings[0].text
        assert "annulet backup" in found.findings[0].remedy
        with pytest.raises(DirectoryInUseError):
            repair(found)


def test_the_directory_is_locked_while_it_is_looked_at(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = []

    def look(*_: object) -> None:
        with pytest.raises(DirectoryInUseError):
            DirectoryLock(data).acquire()
        refused.append(True)

    inspect(data, now(), look)
    assert refused
    DirectoryLock(data).acquire()


@pytest.mark.parametrize(
    ("name", "text"),
    [(FORMAT_FILE, '{"format": 99, "written_by": "9.1.0"}'), (FORMAT_FILE, "nonsense"), (UNFINISHED_BACKUP, "")],
)
def test_what_a_broker_refuses_is_an_error_with_the_same_remedy(data: Path, name: str, text: str) -> None:
    (data / name).write_text(text)
    found = inspect(data, now())
    assert codes(found, ERROR) == ["format"]
    assert found.findings[0].remedy


def test_a_directory_without_format_file_is_fine(data: Path) -> None:
    (data / FORMAT_FILE).unlink()
    found = inspect(data, now())
    assert found.sound
    assert codes(found) == ["format-unversioned"]
    assert found.figures["log"]["live_messages"] == COUNT


@pytest.mark.parametrize("section", ["catalogue", "history"])
def test_sqlite_files_damaged_newer_and_missing(data: Path, section: str) -> None:
    path = data / f"{section}.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 77")
    connection.close()
    found = inspect(data, now())
    assert codes(found, ERROR) == [f"{section}-newer"]
    content = bytearray(path.read_bytes())
    content[4096 + 8 : 3 * 4096] = os.urandom(2 * 4096 - 8)
    path.write_bytes(content)
    found = inspect(data, now())
    assert codes(found, ERROR) == [f"{section}-damaged"]
    assert "backup" in next(finding for finding in found.findings if finding.severity == ERROR).remedy
    path.write_bytes(b"not SQLite" * 1000)
    assert codes(inspect(data, now()), ERROR) == [f"{section}-damaged"]
    path.unlink()
    severity = ERROR if section == "catalogue" else WARNING  # without a catalogue a broker does not start
    assert f"{section}-missing" in codes(inspect(data, now()), severity)


def full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(("module", "name"), [(shutil, "copyfile"), (tempfile, "mkdtemp")])
def test_no_room_for_a_copy_is_no_damage(
    data: Path, monkeypatch: pytest.MonkeyPatch, module: object, name: str
) -> None:
    monkeypatch.setattr(module, name, full)
    monkeypatch.setenv("TMPDIR", "/small")
    found = inspect(data, now())
    assert codes(found) == ["not-checked", "not-checked"]
    assert [finding.text.split()[0] for finding in found.findings] == ["catalogue.sqlite", "history.sqlite"]
    for finding in found.findings:
        assert finding.text.endswith(os.strerror(errno.ENOSPC))
        assert "free space in /small, or set TMPDIR" in finding.remedy
    assert found.figures["log"]["live_messages"] == COUNT, "the log is looked at all the same"


def test_no_room_for_what_sqlite_writes_is_no_damage(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    version = catalogue.KIND.version
    step = "PRAGMA max_page_count=1; CREATE TABLE other (number INTEGER);"
    monkeypatch.setattr(catalogue, "KIND", catalogue.KIND._replace(version=version + 1, migrations={version: step}))
    found = inspect(data, now())
    assert codes(found) == ["not-checked"]
    assert found.findings[0].text.endswith("database or disk is full")
    assert "catalogue" not in found.figures


def test_changes_that_are_only_in_the_journal_count(data: Path) -> None:
    """After ``kill -9`` the last definitions are in the write-ahead journal."""
    connection = sqlite3.connect(data / "catalogue.sqlite")
    connection.execute("INSERT INTO queues (virtual_host, name, auto_delete, arguments) VALUES ('/', 'new', 0, '{}')")
    connection.commit()
    assert (data / "catalogue.sqlite-wal").stat().st_size > 0
    assert inspect(data, now()).figures["catalogue"]["queues"] == 2
    connection.close()


def test_messages_and_leases_of_queues_nobody_knows(data: Path) -> None:
    with sqlite3.connect(data / "catalogue.sqlite") as connection:
        connection.execute("DELETE FROM queues")
        connection.execute("INSERT INTO leases VALUES ('/', 'lost', 9, 1, 1, 1, 1, 0, 0, '', '')")
    connection.close()
    found = inspect(data, now())
    assert codes(found, WARNING) == ["leases-of-unknown-queues", "messages-of-unknown-queues"]
    assert any(f"{COUNT} messages are of 1 queues" in finding.text for finding in found.findings)


def test_damage_is_an_error_where_it_costs_messages(data: Path) -> None:
    path = data / "messages" / segment_name(1)
    content = bytearray(path.read_bytes())
    content[500] ^= 1
    path.write_bytes(content)
    found = inspect(data, now())
    assert codes(found, ERROR) == ["log-lost"]
    assert "1 live messages cannot be read" in found.findings[0].text
    assert "segment 1" in found.findings[0].text
    assert found.figures["log"]["lost_messages"] == 1


def test_damage_behind_the_last_checkpoint_may_have_cost_a_message(data: Path) -> None:
    log = MessageLog.open(data / "messages")
    for number, body in enumerate([b"not in any checkpoint", b"behind it"], COUNT + 1):
        log.append(message(body), [(1, number)])
        flush(log)
    path = data / "messages" / segment_name(1)
    content = path.read_bytes()
    place = content.index(b"not in any checkpoint")
    path.write_bytes(content[:place] + b"X" + content[place + 1 :])
    found = inspect(data, now())
    assert codes(found, ERROR) == ["log-lost", "log-doubtful"]
    assert (found.figures["log"]["doubtful_places"], found.figures["log"]["lost_messages"]) == (1, 1)
    log.close()


def test_a_damaged_checkpoint_and_a_missing_log_are_warnings(data: Path) -> None:
    for path in (data / "messages").glob("checkpoint-*"):
        path.write_bytes(b"damaged")
    assert "checkpoint-damaged" in codes(inspect(data, now()), WARNING)
    shutil.rmtree(data / "messages")
    assert "log-missing" in codes(inspect(data, now()), WARNING)


def test_the_clock(data: Path) -> None:
    found = inspect(data, now() - 3_600_000)
    assert codes(found, WARNING) == ["clock"]
    assert f"{COUNT} messages" in found.findings[0].text


def test_repair_removes_temporary_files_and_nothing_else(data: Path) -> None:
    before = state(data)
    (data / "messages" / "spare-1.unfinished").touch()
    (data / "messages" / "000000000077.index").touch()
    (data / "format.json.unfinished").touch()
    (data / STAGING_DIRECTORY).mkdir()
    (data / STAGING_DIRECTORY / "000000000001.segment").touch()
    found = inspect(data, now())
    assert found.sound
    assert codes(found) == ["temporary", "orphan-index", "temporary"]
    assert len(repair(found)) == 4
    assert state(data) == before
    assert inspect(data, now()).findings == []


def test_files_nobody_knows_and_the_quarantine_are_told_and_stay(data: Path) -> None:
    (data / "letter.txt").touch()
    (data / "messages" / "letter.txt").touch()
    (data / SPILL_DIRECTORY / "00000001.spill").touch()
    (data / QUARANTINE_DIRECTORY).mkdir()
    (data / QUARANTINE_DIRECTORY / "1-64.json").write_text(json.dumps({}))
    (data / QUARANTINE_DIRECTORY / "1-64.record").write_bytes(bytes(98))
    found = inspect(data, now())
    assert codes(found, WARNING) == ["unknown-files", "unknown-files", "quarantine"]
    assert found.figures["quarantine"] == {"records": 1, "bytes": 100}
    assert repair(found) == []


def test_a_crash_is_noted_and_no_reason_to_act(data: Path) -> None:
    (data / "messages" / "open").touch()
    found = inspect(data, now())
    assert found.sound
    assert codes(found) == ["not-closed"]


def test_little_space(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = os.statvfs(data)
    free = usage.f_bavail * usage.f_frsize
    monkeypatch.setattr(inspection, "FREE_BYTES_WANTED", free * 2)
    assert codes(inspect(data, now()), WARNING) == ["disk-space"]
    monkeypatch.setattr(inspection, "FREE_BYTES_NEEDED", free * 2)
    assert codes(inspect(data, now()), ERROR) == ["disk-space"]


def test_permissions(data: Path) -> None:
    (data / "messages" / segment_name(1)).chmod(0o666)
    assert codes(inspect(data, now()), WARNING) == ["permissions"]
    if os.geteuid() == 0:
        os.chown(data / "catalogue.sqlite", 12345, -1)
        assert sorted(codes(inspect(data, now()), WARNING)) == ["owner", "permissions"]
