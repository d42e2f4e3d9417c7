"""Deep backlogs with holes over a crash: A10 to A12 of the design for massive queues, on the log itself.

The ordinary suite has 1/1000 of the messages and the long one 1/10; bounds are in proportion.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from annulet.store.log.checkpoint import CHECKPOINT_PREFIX
from annulet.store.log.log import MessageLog
from annulet.store.segments.segment import SEGMENT_SUFFIX
from tests.store.log.test_log_tools import flush, message, upkeep

COUNT = 10_000
COUNT_SOAK = 1_000_000
WINDOW = 500
SEGMENT = 64 << 10
BODY = bytes(200)
STATE_BYTES = 2_000_000
STATE_COUNT = 10_000_000
"""A11: the acknowledgement state of so many messages takes at most so many bytes."""
FIXED_BYTES = 4096
"""What a checkpoint of nothing may take beside it, and the headers of its segments."""
SEGMENT_OVERHEAD = 48
"""Bytes a checkpoint spends on each segment, however few records that has: they are 1/256 of the usual size here."""


def filled(directory: Path, count: int) -> tuple[MessageLog, list[int]]:
    """A log with ``count`` messages of one queue, all on disk."""
    log = MessageLog.open(directory, segment_bytes=SEGMENT)
    records = []
    for number in range(count):
        records.append(log.append(message(b"%08d" % number + BODY), [(1, number + 1)]))
        if number % WINDOW == WINDOW - 1:
            flush(log)
    flush(log)
    return log, records


def settle(log: MessageLog, records: list[int]) -> None:
    """Settle the records for queue 1, in windows; durable on return."""
    for start in range(0, len(records), WINDOW):
        for record in records[start : start + WINDOW]:
            log.settle(record, 1)
        flush(log)


def after_kill(directory: Path, target: Path) -> MessageLog:
    """Open what a kill at this moment would leave."""
    shutil.copytree(directory, target)
    return MessageLog.open(target, segment_bytes=SEGMENT)


def numbers(log: MessageLog) -> list[int]:
    return [int(recovered.body[:8]) for recovered in log.recovered()]


def size_of(directory: Path, prefix: str = "", suffix: str = "") -> int:
    return max(path.stat().st_size for path in directory.glob(f"{prefix}*{suffix}"))


def acknowledge_every_other(directory: Path, count: int) -> None:
    log, records = filled(directory / "log", count)
    settle(log, records[::2])
    upkeep(log, checkpoint=True)
    late = [record for index, record in enumerate(records) if index % 2 and index < count // 10]
    settle(log, late)  # behind the checkpoint: A10
    found = after_kill(directory / "log", directory / "killed")
    expected = [number for number in range(count) if number % 2 and number >= count // 10]
    assert numbers(found) == expected, "acknowledged ones came back, or others are lost"
    assert found.statistics().live_records == len(expected)
    segments = found.statistics().segments
    state = size_of(directory / "killed", CHECKPOINT_PREFIX)
    allowed = STATE_BYTES * count // STATE_COUNT + FIXED_BYTES + SEGMENT_OVERHEAD * segments
    assert state <= allowed, (state, allowed)
    found.close()
    log.close()


def acknowledge_all_but_the_first(directory: Path, count: int) -> None:
    log, records = filled(directory / "log", count)
    settle(log, records[1:])
    for number in range(3):  # a checkpoint that covers them, and one more, as any traffic brings
        log.append(message(b"%08d" % (count + number)), [(2, number + 1)])
        flush(log)
        upkeep(log, checkpoint=True)
    segments = sorted((directory / "log").glob(f"*{SEGMENT_SUFFIX}"))
    assert len(segments) <= 3, "two segments and one that was compacted"
    assert segments[0].stat().st_size < SEGMENT // 16, "the first message alone"
    found = after_kill(directory / "log", directory / "killed")
    assert numbers(found) == [0, count, count + 1, count + 2]
    found.close()
    log.close()


def test_every_other_message_acknowledged(tmp_path: Path) -> None:
    acknowledge_every_other(tmp_path, COUNT)


def test_all_but_the_first_acknowledged(tmp_path: Path) -> None:
    acknowledge_all_but_the_first(tmp_path, COUNT)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_every_other_of_a_million_acknowledged(tmp_path: Path) -> None:
    acknowledge_every_other(tmp_path, COUNT_SOAK)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_all_but_the_first_of_a_million_acknowledged(tmp_path: Path) -> None:
    acknowledge_all_but_the_first(tmp_path, COUNT_SOAK)
