"""The mark of what was synced, and what a start says of a log that ends before it."""

from __future__ import annotations

from pathlib import Path

import pytest

from annulet.store.files.files import OsFileSystem
from annulet.store.files.marks import Mark
from annulet.store.log.log import MessageLog
from annulet.store.log.written_mark import WRITTEN_FILE, Written, load_written, written_mark
from annulet.store.segments.records import SEGMENT_HEADER_SIZE
from annulet.store.segments.segment import segment_name
from tests.store.log.test_log_tools import flush, live, message, upkeep

COUNT = 100


def killed(directory: Path, *, checkpoint_after: int = 0) -> MessageLog:
    """A log with a window for each of some messages, that is never closed."""
    log = MessageLog.open(directory)
    for number in range(1, COUNT + 1):
        log.append(message(b"%04d" % number), [(1, number)])
        flush(log)
        if number == checkpoint_after:
            upkeep(log, checkpoint=True)
    return log


def content_of(directory: Path) -> bytes:
    return (directory / segment_name(1)).read_bytes().rstrip(b"\0")


def test_the_mark_is_where_the_last_batch_ended(tmp_path: Path) -> None:
    log = killed(tmp_path)
    found = load_written(tmp_path, OsFileSystem())
    assert found == Written(COUNT, 1, log.written_ends()[1], COUNT)
    assert found.mark().generation == COUNT
    (tmp_path / WRITTEN_FILE).unlink()
    assert load_written(tmp_path, OsFileSystem()) == Written()
    written_mark(tmp_path, OsFileSystem()).begin(Mark(1, b"of another length"))
    assert load_written(tmp_path, OsFileSystem()) == Written()


@pytest.mark.parametrize("checkpoint_after", [0, 60])
@pytest.mark.parametrize("zeros", [False, True])
def test_a_log_that_was_cut_says_what_is_gone(tmp_path: Path, checkpoint_after: int, zeros: bool) -> None:
    killed(tmp_path, checkpoint_after=checkpoint_after)
    content = content_of(tmp_path)
    size = content.index(b"0081")  # inside the record: it and 19 that follow are gone
    cut = content[:size].ljust(len(content) if zeros else size, b"\0")
    (tmp_path / segment_name(1)).write_bytes(cut)
    again = MessageLog.open(tmp_path)
    assert sorted(live(again)) == [b"%04d" % number for number in range(1, 81)]
    assert again.report.lost_records == 20
    assert again.report.torn_tails == 0
    (short,) = [damage for damage in again.report.damages if damage.kind == "short"]
    assert short.messages == 20
    assert "20 messages that were written there are gone" in str(short)
    again.append(message(b"after"), [(1, COUNT + 1)])
    flush(again)
    third = MessageLog.open(tmp_path)
    assert b"after" in live(third)
    assert third.report.lost_records == 0, "it was said once"


def test_what_was_never_synced_is_a_torn_write(tmp_path: Path) -> None:
    log = killed(tmp_path)
    mark = (tmp_path / WRITTEN_FILE).read_bytes()
    log.append(message(b"not confirmed"), [(1, COUNT + 1)])
    flush(log)
    (tmp_path / WRITTEN_FILE).write_bytes(mark)
    content = content_of(tmp_path)
    (tmp_path / segment_name(1)).write_bytes(content[:-20])
    again = MessageLog.open(tmp_path)
    assert again.report.lost_records == 0
    assert again.report.torn_tails == 1
    assert len(live(again)) == COUNT + 1


def test_a_settlement_of_a_batch_that_was_synced_counts_although_its_seal_is_damaged(tmp_path: Path) -> None:
    log = killed(tmp_path)
    record = log.append(message(b"last"), [(1, COUNT + 1)])
    flush(log)
    log.settle(record, 1)
    flush(log)
    content = bytearray((tmp_path / segment_name(1)).read_bytes())
    content[len(content_of(tmp_path)) - 1] ^= 0xFF  # in the seal of the last batch, which has the settlement
    (tmp_path / segment_name(1)).write_bytes(content)
    again = MessageLog.open(tmp_path)
    assert b"last" not in live(again)
    assert (again.report.torn_tails, again.report.doubtful_places, again.report.lost_records) == (0, 1, 0)


def test_damage_in_the_last_batch_is_damage_and_is_kept(tmp_path: Path) -> None:
    killed(tmp_path)
    content = bytearray((tmp_path / segment_name(1)).read_bytes())
    content[content.index(b"0100")] ^= 1
    (tmp_path / segment_name(1)).write_bytes(content)
    again = MessageLog.open(tmp_path)
    assert len(live(again)) == COUNT - 1
    assert (again.report.torn_tails, again.report.corrupt_records, again.report.lost_records) == (0, 1, 1)
    upkeep(again)
    assert again.statistics().quarantined_records == 1


def test_a_segment_that_is_gone_behind_the_checkpoint_is_said(tmp_path: Path) -> None:
    killed(tmp_path)
    (tmp_path / segment_name(1)).unlink()
    again = MessageLog.open(tmp_path)
    assert again.report.lost_records == COUNT
    assert not live(again)


def test_a_clean_stop_is_covered_by_its_checkpoint(tmp_path: Path) -> None:
    killed(tmp_path).close()
    assert load_written(tmp_path, OsFileSystem()).offset > SEGMENT_HEADER_SIZE
    again = MessageLog.open(tmp_path)
    assert again.clean
    assert not again.report.damages
