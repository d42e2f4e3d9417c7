"""A segment behind the checkpoint that was cut, with later ones whole: what it cost is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from annulet.store.log.checkpoint import CHECKPOINT_PREFIX
from annulet.store.log.log import MessageLog
from annulet.store.segments.segment import segment_name
from annulet.store.segments.segment_index import index_path
from tests.store.log.test_log_tools import flush, live, message, upkeep

COUNT = 60
SEGMENT_BYTES = 16 << 10
BODY = 1000
WINDOW = 2
"""Messages of a batch."""


def body(number: int) -> bytes:
    return b"%04d" % number + bytes(BODY)


def killed(directory: Path, *, settled: range = range(0), index: bool = False) -> None:
    """Leave segments 1 to 5, of which none is in a checkpoint, of a log that is never closed."""
    log = MessageLog.open(directory, segment_bytes=SEGMENT_BYTES)
    records = {}
    for first in range(1, COUNT + 1, WINDOW):
        for number in range(first, first + WINDOW):
            records[number] = log.append(message(body(number)), [(1, number)])
        flush(log)
    for number in settled:
        log.settle(records[number], 1)
        flush(log)
    if index:  # written with a checkpoint, which is lost afterwards
        upkeep(log, checkpoint=True)
        for path in directory.glob(f"{CHECKPOINT_PREFIX}*"):
            path.unlink()
    assert (directory / segment_name(4)).exists()


def cut(directory: Path, number: int, text: bytes) -> None:
    """Cut a segment inside a record."""
    path = directory / segment_name(number)
    content = path.read_bytes()
    path.write_bytes(content[: content.index(text)])


def numbers(log: MessageLog) -> set[int]:
    return {int(found[:4]) for found in live(log)}


def in_segment(directory: Path, number: int) -> list[int]:
    content = (directory / segment_name(number)).read_bytes()
    return [one for one in range(1, COUNT + 1) if b"%04d" % one + bytes(50) in content]


def opened(directory: Path) -> MessageLog:
    return MessageLog.open(directory, segment_bytes=SEGMENT_BYTES)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_cut_before_other_segments_is_said(tmp_path: Path, number: int) -> None:
    killed(tmp_path)
    inside = in_segment(tmp_path, number)
    cut(tmp_path, number, b"%04d" % inside[5])
    log = opened(tmp_path)
    assert numbers(log) == set(range(1, COUNT + 1)) - set(inside[5:])
    assert log.report.doubtful_places >= 1
    shown = " ".join(map(str, log.report.damages))
    assert f"segment {number}" in shown


def test_a_cut_between_two_batches_leaves_no_other_trace(tmp_path: Path) -> None:
    killed(tmp_path)
    inside = in_segment(tmp_path, 2)
    path = tmp_path / segment_name(2)
    content = path.read_bytes()
    log = opened(tmp_path)
    offsets = log.segments[2].offsets
    log.close()
    place = max(found for found in offsets if content.index(b"%04d" % inside[5]) > found)
    killed_again = tmp_path / "again"
    killed(killed_again)
    path = killed_again / segment_name(2)
    path.write_bytes(path.read_bytes()[:place])
    log = opened(killed_again)
    (damage,) = log.report.damages
    assert (damage.kind, damage.segment, damage.messages) == ("cut", 2, -1)
    assert "an unknown number of messages are gone" in str(damage)
    assert (log.report.corrupt_records, log.report.doubtful_places, log.report.lost_records) == (1, 1, 0)


def test_an_emptied_segment_is_said(tmp_path: Path) -> None:
    killed(tmp_path)
    inside = in_segment(tmp_path, 2)
    (tmp_path / segment_name(2)).write_bytes(b"")
    log = opened(tmp_path)
    assert numbers(log) == set(range(1, COUNT + 1)) - set(inside)
    (damage,) = log.report.damages
    assert damage.kind == "cut"
    assert 2 in range(damage.segment, damage.segment + damage.length + 1), "a batch had records in segment 1 too"


def test_a_batch_in_many_segments_is_said_once(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for number in range(1, COUNT + 1):
        log.append(message(body(number)), [(1, number)])
    flush(log)
    log.append(message(b"after"), [(1, COUNT + 1)])
    flush(log)
    content = (tmp_path / segment_name(3)).read_bytes()
    (tmp_path / segment_name(3)).write_bytes(content[: log.segments[3].offsets[4]])
    again = opened(tmp_path)
    (damage,) = again.report.damages
    assert str(damage).startswith("one of segments 1 to ")
    assert (again.report.doubtful_places, len(live(again))) == (1, COUNT + 1 - len(in_segment(tmp_path, 2)) + 4)


@pytest.mark.parametrize("settled", [range(0), range(20, 24)])
def test_the_index_says_how_many_there_were(tmp_path: Path, settled: range) -> None:
    killed(tmp_path, settled=settled, index=True)
    assert index_path(tmp_path / segment_name(2)).exists()
    inside = in_segment(tmp_path, 2)
    cut(tmp_path, 2, b"%04d" % inside[5])
    log = opened(tmp_path)
    assert set(settled) <= set(inside[5:])
    assert log.report.lost_records == len(inside) - 5 - len(settled)
    assert any(damage.kind == "cut" and damage.segment == 2 for damage in log.report.damages)


def test_a_segment_that_is_missing_is_said_to_be_that(tmp_path: Path) -> None:
    killed(tmp_path)
    (tmp_path / segment_name(3)).unlink()
    log = opened(tmp_path)
    assert [(damage.kind, damage.segment) for damage in log.report.damages] == [("missing", 3)]


def test_nothing_is_said_of_a_log_that_was_killed(tmp_path: Path) -> None:
    killed(tmp_path)
    log = opened(tmp_path)
    assert (log.report.damages, log.report.corrupt_records) == ([], 0)
    log.append(message(b"more"), [(1, COUNT + 1)])
    flush(log)
    again = opened(tmp_path)
    assert (again.report.damages, again.report.corrupt_records) == ([], 0)
