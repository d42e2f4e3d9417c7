"""What an index says of messages, when indexes are written, and what a disk that refuses them does."""

from __future__ import annotations

import errno
import random

import pytest

from annulet.core.message.message import Message, Origin
from annulet.store.log.log import MessageLog
from annulet.store.segments import index_building
from annulet.store.segments.index_building import IndexTask
from annulet.store.segments.interface import NO_PRIORITY
from annulet.store.segments.records import decode_origin
from annulet.store.segments.segment import SHARED, segment_name
from annulet.store.segments.segment_index import UNREAD, SegmentIndex, decode, index_name
from tests.store.log.test_log_tools import (
    DIRECTORY,
    ORIGIN,
    asks_for,
    counting,
    flush,
    message,
    one_by_one,
    opened,
    restorable,
    upkeep,
    without_indexes,
)
from tests.store.simulated_files import SimulatedFile, SimulatedFiles


def index_in(files: SimulatedFiles, number: int = 1) -> SegmentIndex:
    index = decode(bytes(files.names_now[index_name(number)].data))
    assert index is not None
    return index


def closed_log(files: SimulatedFiles, *messages: tuple[Message, list[tuple[int, int]]]) -> None:
    log = opened(files)
    for one, targets in messages:
        log.append(one, targets)
    log.append(message(bytes(2000)), [(9, 1)])  # a tail worth an index
    log.close()


def known(index: SegmentIndex) -> list[tuple[int, int, int, int, int]]:
    """Return ordinal, queue id, sequence, size and origin of what needs not be read."""
    return [
        (ordinal, index.queue_ids[queue], sequence, size, number)
        for ordinal, (queue, sequence, size, number) in enumerate(
            zip(index.queues, index.sequences, index.sizes, index.origin_numbers, strict=True)
        )
        if number != UNREAD and queue != SHARED
    ]


def test_queue_sequence_size_and_origin_are_those_of_the_record() -> None:
    files = SimulatedFiles()
    other = Message(b"header", b"m", Origin("e", "k", "p", ORIGIN.view), durable=True)
    plain = message(b"12345")
    closed_log(files, (plain, [(1, 1)]), (other, [(2, 3)]), (plain, [(2, 5)]), (other, [(1, 6)]))
    index = index_in(files)
    assert known(index) == [(0, 1, 1, 5, 0), (1, 2, 3, 1, 1), (2, 2, 5, 5, 0), (3, 1, 6, 1, 1), (4, 9, 1, 2000, 0)]
    assert [decode_origin(origin) for origin in index.origins] == [
        ("exchange", "key", "guest@127.0.0.1:1", "amqp-0-9-1"),
        ("e", "k", "p", "amqp-0-9-1"),
    ]


def test_what_a_row_cannot_keep_has_to_be_read() -> None:
    files = SimulatedFiles()
    timed = Message(b"later", b"m", ORIGIN, durable=True)
    closed_log(
        files,
        (message(b"m", accepted_at=6, expires_at=5), [(1, 1)]),
        (message(b"m"), [(1, 2), (2, 1)]),
        (timed, [(1, 3)]),
        (message(b"m"), [(1, 4)]),
    )
    index = index_in(files)
    assert known(index) == [(3, 1, 4, 1, 0), (4, 9, 1, 2000, 0)]
    assert (index.origin_numbers[1], index.sizes[1]) == (0, 1), "known for whoever takes rows of several queues"
    assert index.shared == {1: (1, 2, 2, 1)}


def test_priority_and_times_are_known_as_the_sender_gave_them() -> None:
    files = SimulatedFiles()
    closed_log(
        files,
        (message(b"m"), [(1, 1)]),
        (message(b"m", priority=0), [(1, 2), (2, 1)]),
        (Message(b"important", b"m", ORIGIN, durable=True), [(1, 3)]),
        (Message(b"important", b"m", ORIGIN, durable=True, priority=9), [(1, 4)]),
        (message(b"m", accepted_at=5, expires_at=5), [(1, 5)]),
    )
    assert list(index_in(files).accepted_at) == [0, 0, 0, 0, 5, 0]
    expected = [NO_PRIORITY, 0, 4, 9, NO_PRIORITY, NO_PRIORITY]
    assert list(index_in(files).priorities) == expected
    log = opened(files)
    found = [
        (rows.queue_id, list(rows.priorities), list(rows.accepted_at), list(rows.expires_at))
        for rows in log.restorable(lambda queue_id: True)
    ]
    log.close()
    times = [0, 0, 0, 0, 5]
    assert found == [(1, expected[:5], times, times), (2, [0], [0], [0]), (9, [NO_PRIORITY], [0], [0])]


@pytest.mark.parametrize("piece", [76, 77, 100, 150, 4096])
def test_pieces_of_any_size_give_the_same_index(monkeypatch: pytest.MonkeyPatch, piece: int) -> None:
    made = []
    for size in (index_building.PIECE_BYTES, piece):
        monkeypatch.setattr(index_building, "PIECE_BYTES", size)
        files = SimulatedFiles()
        closed_log(
            files,
            (message(b"m" * 5000), [(1, 1)]),
            (message(b"m" * 50, expires_at=3), [(1, 2)]),
            (message(b""), [(1, 3), (2, 1), (3, 7)]),
            (Message(b"h" * 300, b"m", ORIGIN, durable=True), [(1, 4)]),
            *((message(b"%d" % number), [(1 + number % 2, number)]) for number in range(10, 40)),
        )
        made.append(bytes(files.names_now[index_name(1)].data))
    identity = slice(8 + 12, None)
    assert made[0][identity] == made[1][identity]


def test_a_large_body_is_not_read() -> None:
    files = SimulatedFiles()
    log = MessageLog.open(DIRECTORY, files=files, segment_bytes=16 << 20, asks_for=asks_for)
    for number in range(3):
        log.append(message(bytes(3 << 20)), [(1, number)])
    flush(log)
    read: list[int] = []
    task = IndexTask(next(iter(log.segments.values())), asks_for, files)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SimulatedFile, "read", counting(SimulatedFile.read, read))
        task.run()
    assert task.error is None
    assert sum(read) <= 3 * index_building.PIECE_BYTES
    assert [item[3] for item in known(index_in(files))] == [3 << 20] * 3


def test_whether_somebody_may_have_a_duplicate_id_is_told() -> None:
    for header, told in ((b"header", False), (b"identified", True)):
        files = SimulatedFiles()
        closed_log(files, (Message(header, b"m", ORIGIN, durable=True), [(1, 1)]))
        assert index_in(files).duplicate_ids is told
        assert [ordinal for ordinal, *_ in known(index_in(files))] == [0, 1], "it needs not be read for that"


def test_messages_of_too_many_origins_have_to_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_building, "ORIGINS_MAX", 2)
    files = SimulatedFiles()
    origins = [Origin("e", f"k{number}", "p", ORIGIN.view) for number in range(4)]
    closed_log(files, *((Message(b"header", b"m", one, durable=True), [(1, n)]) for n, one in enumerate(origins * 2)))
    assert [ordinal for ordinal, *_ in known(index_in(files))] == [0, 1, 4, 5]
    assert restorable(opened(files)) == one_by_one(opened(without_indexes(files)).recovered())


def test_a_log_that_is_told_nothing_of_headers_reads_everything() -> None:
    files = SimulatedFiles()
    log = MessageLog.open(DIRECTORY, files=files, segment_bytes=16 << 10)
    log.append(message(bytes(3000)), [(1, 1)])
    log.close()
    assert known(index_in(files)) == []
    log = opened(files)
    assert [item[1:3] for item in restorable(log)] == [(1, 1)]


def filled(files: SimulatedFiles, count: int = 60) -> MessageLog:
    """A log whose first segments are closed and covered, none of them indexed."""
    log = opened(files)
    for number in range(count):
        log.append(message(b"%03d" % number + bytes(900)), [(1 + number % 2, number)])
    flush(log)
    task = log.maintenance(checkpoint=True)
    while type(task).__name__ != "CheckpointTask":
        assert task is not None
        task.run()
        log.finish(task)
        task = log.maintenance(checkpoint=True)
    task.run()
    log.finish(task)
    return log


def test_closed_segments_get_theirs_and_removed_ones_take_it_along() -> None:
    files = SimulatedFiles()
    log = filled(files)
    assert upkeep(log).count("IndexTask") == log.statistics().segments - 1
    assert index_name(1) in files.names_now
    assert index_name(log.statistics().segments) not in files.names_now, "the tail goes on"
    for record, queue_id, *_ in restorable(log):
        if record >> 24 == 1:
            log.settle(record, queue_id)
    flush(log)
    for number in range(2):
        log.append(message(b"more"), [(1, 1000 + number)])
        flush(log)
        upkeep(log, checkpoint=True)
    assert segment_name(1) not in files.names_now
    assert index_name(1) not in files.names_now


def test_a_compacted_segment_gets_another() -> None:
    files = SimulatedFiles()
    log = filled(files)
    upkeep(log)
    before = index_in(files).offsets
    for record, queue_id, *_ in restorable(log)[1:]:
        if record >> 24 == 1:
            log.settle(record, queue_id)
    flush(log)
    for number in range(2):
        log.append(message(b"more"), [(1, 1000 + number)])
        flush(log)
        upkeep(log, checkpoint=True)
    assert log.statistics().compactions == 1
    assert index_in(files).offsets != before
    log = opened(files.copied())
    assert log.report.indexed_segments >= 2
    assert restorable(log) == one_by_one(opened(without_indexes(files)).recovered())


def writing(files: SimulatedFiles) -> tuple[MessageLog, IndexTask]:
    log = filled(files)
    task = log.maintenance()
    while not isinstance(task, IndexTask):
        assert task is not None
        task.run()
        log.finish(task)
        task = log.maintenance()
    return log, task


def steps() -> int:
    """Count the disk's operations while an index is written."""
    files = SimulatedFiles()
    _, task = writing(files)
    before = files.operations
    task.run()
    assert task.error is None
    return files.operations - before


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("step", range(1, steps() + 1))
def test_a_disk_that_refuses_an_index_delays_it_and_a_crash_there_loses_nothing(step: int, code: int) -> None:
    files = SimulatedFiles()
    log, task = writing(files)
    files.fail_at, files.fail_with = files.operations + step, code
    task.run()
    files.fail_at = -1
    assert task.error is not None
    for seed in range(4):
        image = files.crashed(random.Random(seed))
        after = opened(image)
        assert restorable(after) == one_by_one(opened(without_indexes(image)).recovered())
        assert len(restorable(after)) == 60
    log.finish(task)
    assert log.statistics().maintenance_errors == 1
    assert not log.statistics().disk_full, "publishers are not held back for it"
    upkeep(log, checkpoint=True)
    log.append(message(b"more"), [(1, 1000)])
    flush(log)
    upkeep(log, checkpoint=True)
    assert decode(bytes(files.names_now[index_name(1)].data)) is not None, "written after the next checkpoint"


def test_a_damaged_record_is_read_at_start_and_reported() -> None:
    files = SimulatedFiles()
    log, task = writing(files)
    place = log.maintenance() is None and task.segment.offsets[3]
    files.names_now[segment_name(1)].data[place + 4] ^= 1  # the checksum: found out by whoever reads it
    files.names_now[segment_name(1)].data[task.segment.offsets[5]] ^= 1  # the magic: seen by the task
    task.run()
    log.finish(task)
    log = opened(files.copied())
    assert [item[0] & 0xFFFFFF for item in restorable(log)][:6] == [0, 1, 2, 3, 4, 6]
    assert log.report.lost_records == 1
    assert log.read([1 << 24 | 3]) == [None]


def test_a_damaged_record_of_several_queues_is_nowhere() -> None:
    """What is settled of it afterwards, from memory, must not end the next start."""
    files = SimulatedFiles()
    log = opened(files)
    shared = log.append(message(b"shared"), [(1, 1), (2, 1)])
    for number in range(60):
        log.append(message(bytes(900)), [(1, 2 + number)])
    flush(log)
    place = log.segments[1].offsets[shared & 0xFFFFFF]
    files.names_now[segment_name(1)].data[place] ^= 1
    upkeep(log, checkpoint=True)
    assert index_name(1) in files.names_now
    log.settle(shared, 2)
    log.forget_queue(2)
    flush(log)
    image = files.copied()
    log = opened(image)
    assert log.report.indexed_segments
    assert restorable(log) == one_by_one(opened(without_indexes(image)).recovered())
    assert len(restorable(log)) == 60
    log.settle(shared, 1)
