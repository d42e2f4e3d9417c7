from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest

from annulet.store.files.files import OsFileSystem
from annulet.store.log import quarantine
from annulet.store.log.checkpoint import CHECKPOINT_PREFIX
from annulet.store.log.log import MessageLog
from annulet.store.log.quarantine import (
    NOTES_MAX,
    REASON_COMPACTION,
    REASON_READ,
    REASON_RECOVERY,
    DamageNote,
    DamageNotes,
    Quarantine,
    gap_length,
    quarantine_directory,
)
from annulet.store.segments.records import SEGMENT_HEADER_SIZE
from annulet.store.segments.segment import segment_name
from annulet.store.segments.segment_index import index_name
from tests.store.log.test_log_tools import SEGMENT, flush, live, message, reader_of, upkeep
from tests.store.log.test_log_tools import opened as opened_in_memory
from tests.store.simulated_files import SimulatedFiles


def opened(directory: Path) -> MessageLog:
    return MessageLog.open(directory, segment_bytes=SEGMENT)


def kept(directory: Path) -> dict[tuple[int, int], tuple[str, bytes]]:
    """What is in a quarantine: (segment, offset) -> (reason, bytes)."""
    found = {}
    for path in (directory / "quarantine").glob("*.json"):
        facts = json.loads(path.read_text())
        data = path.with_suffix(".record").read_bytes()
        assert len(data) == facts["length"]
        found[facts["segment"], facts["offset"]] = (facts["reason"], data)
    return found


def damage(path: Path, text: bytes) -> None:
    """Flip a bit of the record with this text."""
    data = bytearray(path.read_bytes())
    data[data.index(text)] ^= 1
    path.write_bytes(data)


def filled(directory: Path, count: int = 5) -> tuple[MessageLog, list[int]]:
    log = opened(directory)
    records = [log.append(message(b"body %02d" % number + bytes(900)), [(1, number + 1)]) for number in range(count)]
    flush(log)
    return log, records


def test_damage_found_at_start_is_set_aside_and_all_others_are_served(tmp_path: Path) -> None:
    directory = tmp_path / "messages"
    filled(directory)[0].close()
    damage(directory / segment_name(1), b"body 02")
    (directory / index_name(1)).unlink()  # else nobody looks at the record before it is read
    log = opened(directory)
    assert sorted(body[:7] for body in live(log)) == [b"body 00", b"body 01", b"body 03", b"body 04"]
    assert upkeep(log)[0] == "QuarantineTask"
    found = kept(tmp_path)
    assert [reason for reason, _ in found.values()] == [REASON_RECOVERY]
    assert b"body 02"[1:] in next(iter(found.values()))[1]
    statistics = log.statistics()
    assert (statistics.quarantined_records, statistics.quarantine_refused) == (1, 0)
    assert statistics.quarantined_bytes > 900
    log.close()
    again = opened(directory)
    upkeep(again)
    assert kept(tmp_path) == found, "the same place is kept once"
    assert again.statistics().quarantined_records == 1
    again.close()


def test_damage_found_when_a_record_is_read_back(tmp_path: Path) -> None:
    directory = tmp_path / "messages"
    log, records = filled(directory)
    damage(directory / segment_name(1), b"body 03")
    read = log.read(records)
    assert [record is None for record in read] == [False, False, False, True, False]
    log.read(records)
    upkeep(log)
    assert [reason for reason, _ in kept(tmp_path).values()] == [REASON_READ]
    assert log.statistics().quarantined_records == 1
    log.close()


def test_what_a_compaction_leaves_out_is_set_aside_first(tmp_path: Path) -> None:
    directory = tmp_path / "messages"
    log, records = filled(directory, 40)
    for number, record in enumerate(records):
        if number not in (3, 4) and record >> 24 == 1:
            log.settle(record, 1)
    damage(directory / segment_name(1), b"body 04")
    kinds: list[str] = []
    for number in range(4):
        log.append(message(b"later %d" % number + bytes(900)), [(1, 100 + number)])
        flush(log)
        kinds += upkeep(log, checkpoint=True)
    assert "CompactTask" in kinds
    assert [reason for reason, _ in kept(tmp_path).values()] == [REASON_COMPACTION]
    assert b"ody 04" in next(iter(kept(tmp_path).values()))[1]
    assert log.read([records[3]])[0] is not None
    assert log.read([records[4]]) == [None]
    log.close()


def test_what_was_misread_and_is_sound_is_left_alone(tmp_path: Path) -> None:
    directory = tmp_path / "messages"
    log, _ = filled(directory)
    offset = SEGMENT_HEADER_SIZE
    assert gap_length((directory / segment_name(1)).read_bytes(), log.segments[1].seed, offset) == 0
    reader_of(log).damaged.add(DamageNote(1, offset, 0, REASON_READ))
    upkeep(log)
    assert kept(tmp_path) == {}
    log.close()


def test_neighbours_are_one_place(tmp_path: Path) -> None:
    directory = tmp_path / "messages"
    log, records = filled(directory)
    for text in (b"body 01", b"body 02"):
        damage(directory / segment_name(1), text)
    log.read(records)
    upkeep(log)
    assert len(kept(tmp_path)) == 1
    log.close()


def test_the_bounds_hold_and_what_is_beyond_them_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quarantine, "QUARANTINE_RECORDS_MAX", 3)
    monkeypatch.setattr(quarantine, "QUARANTINE_BYTES_MAX", 100)
    held = Quarantine(tmp_path / "quarantine", OsFileSystem())
    assert held.keep(DamageNote(1, 0, 0, "test"), bytes(60))
    assert not held.keep(DamageNote(1, 100, 0, "test"), bytes(41)), "bytes"
    assert held.keep(DamageNote(1, 100, 0, "test"), bytes(40))
    assert held.keep(DamageNote(1, 200, 0, "test"), b"")
    assert not held.keep(DamageNote(1, 300, 0, "test"), b""), "records"
    assert (held.records, held.bytes, held.refused) == (3, 100, 2)
    again = Quarantine(tmp_path / "quarantine", OsFileSystem())
    assert (again.records, again.bytes, again.refused) == (3, 100, 0)
    notes = DamageNotes(DamageNote(1, number, 0, "test") for number in range(NOTES_MAX + 2))
    assert notes.dropped == 2
    assert len(notes.take()) == NOTES_MAX
    assert not notes


def test_a_disk_that_refuses_hurts_nothing_but_the_evidence() -> None:
    """The log goes on, the place is counted as not kept, and it is not tried for ever."""
    for error in (errno.EIO, errno.ENOSPC):
        files = SimulatedFiles()
        log = opened_in_memory(files)
        log.append(message(b"one" + bytes(300)), [(1, 1)])
        log.append(message(b"two" + bytes(300)), [(1, 2)])
        flush(log)
        log.close()
        data = files.names_now[segment_name(1)].data
        data[data.index(b"one")] ^= 1
        log = opened_in_memory(files)
        task = log.maintenance()
        assert type(task).__name__ == "QuarantineTask"
        files.fail_with = error
        files.fail_at = files.operations + 4
        task.run()
        assert isinstance(task.error, OSError)
        log.finish(task)
        upkeep(log)
        assert log.statistics().quarantine_refused == 1
        assert log.statistics().maintenance_errors == 1
        log.append(message(b"three"), [(1, 3)])
        flush(log)
        assert not log.statistics().failed


def test_a_quarantine_that_cannot_be_read_is_empty_and_said(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    (tmp_path / "quarantine").write_text("a file")
    assert Quarantine(tmp_path / "quarantine", OsFileSystem()).records == 0
    assert "cannot be read" in caplog.text


def test_places(tmp_path: Path) -> None:
    assert quarantine_directory(tmp_path / "messages") == tmp_path / "quarantine"
    assert quarantine_directory(tmp_path / "other") == tmp_path / "other" / "quarantine"
    assert CHECKPOINT_PREFIX not in str(quarantine_directory(tmp_path))
