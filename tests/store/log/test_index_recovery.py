"""A start by indexes finds what a start that reads every record finds, whatever happened before."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from annulet.core.message.message import Message, Origin
from annulet.store.files.errors import StoreError
from annulet.store.log.log import MessageLog
from annulet.store.log.recovery import READ_WORK
from annulet.store.segments.interface import NO_PRIORITY, RecoveredRows, RecoveryProgress
from annulet.store.segments.segment import segment_name
from annulet.store.segments.segment_index import index_name, index_number
from tests.store.log.test_log_tools import (
    DIRECTORY,
    ORIGIN,
    SEGMENT,
    asks_for,
    every_queue,
    flush,
    message,
    one_by_one,
    opened,
    restorable,
    upkeep,
    without_indexes,
)
from tests.store.simulated_files import SimulatedFiles
from tests.store.test_crash import SEED, Workload


def odd_queues(queue_id: int) -> bool:
    """May have rows, the others not."""
    return bool(queue_id % 2)


def same_as_read(files: SimulatedFiles) -> MessageLog:
    """Open the disk both ways and compare; return the log that used the indexes."""
    log = opened(files.copied())
    other = opened(without_indexes(files))
    read = sorted(one_by_one(other.recovered()))
    assert restorable(log) == restorable(log, odd_queues) == read == sorted(one_by_one(log.recovered()))
    assert other.report.indexed_segments == 0
    assert (log.clean, log.next_sequences, log.outcomes) == (other.clean, other.next_sequences, other.outcomes)
    assert (log.report.live_records, log.report.lost_records) == (other.report.live_records, other.report.lost_records)
    assert log.statistics().live_records == other.statistics().live_records
    return log


@pytest.mark.parametrize("number", range(30))
def test_random_histories(number: int) -> None:
    seed = SEED + number
    print(f"seed {seed}")  # repeat with ANNULET_TEST_SEED
    chance = random.Random(seed)
    work = Workload(SimulatedFiles(), chance)
    indexed = 0
    for _ in range(chance.randrange(2, 6)):
        for _ in range(chance.randrange(20, 200)):
            work.step()
        flush(work.log)
        work.completed()
        if chance.random() < 0.6:
            upkeep(work.log, checkpoint=True)
        if chance.random() < 0.5:
            work.log.close()
            image = work.files.copied()
        else:
            image = work.files.crashed(chance)
        indexed += same_as_read(image).report.indexed_segments
        work.files, work.log = image, opened(image)
        work.check(work.log)
    assert indexed or number, "the first seed has some"


def deep(files: SimulatedFiles, count: int = 80) -> MessageLog:
    """A log with several indexed segments."""
    log = opened(files)
    for number in range(count):
        log.append(message(b"%03d" % number + bytes(900)), [(1, number + 1)])
    flush(log)
    upkeep(log, checkpoint=True)
    return log


def progress_of(files: SimulatedFiles) -> list[RecoveryProgress]:
    seen: list[RecoveryProgress] = []
    MessageLog.open(DIRECTORY, files=files, segment_bytes=SEGMENT, asks_for=asks_for, progress=seen.append)
    return seen


def test_the_share_of_a_start_that_is_done_goes_by_what_is_read() -> None:
    files = SimulatedFiles()
    deep(files).close()
    read = progress_of(without_indexes(files))
    count = len(read)
    assert count > 4
    assert [each.share for each in read] == [(place + 1) / count for place in range(count)]
    kept = next(name for name in sorted(files.names_now) if index_number(name) is not None)
    image = files.copied()
    for name in list(image.names_now):
        if index_number(name) is not None and name != kept:
            image.remove(DIRECTORY / name)
    mixed = progress_of(image)
    assert mixed[0].share == 1 / (1 + READ_WORK * (count - 1)), "one of all is taken from its index"
    assert mixed[-1].share == 1
    damaged = files.copied()
    file = damaged.open(DIRECTORY / kept)
    file.write([b"no index"], 0)
    file.sync()
    found = progress_of(damaged)
    assert found[0].share == READ_WORK / (READ_WORK + count - 1), "which is known when it was come to"
    assert found[-1].share == 1


def test_the_log_knows_how_much_of_it_was_restored() -> None:
    files = SimulatedFiles()
    deep(files).close()
    log = opened(files)
    told = {log.report.restored_records for _ in log.restorable(every_queue)} | {log.report.restored_records}
    assert min(told) == 0
    assert max(told) == log.report.live_records == 80
    assert len(told) > 4, "with each segment"


def test_no_message_of_an_indexed_segment_is_read_at_start() -> None:
    files = SimulatedFiles()
    deep(files).close()
    log = opened(files)
    segments = log.statistics().segments
    assert log.report.indexed_segments == segments - 1, "the tail ended at the stop, a new one was begun"
    reads = files.operations
    found = list(log.restorable(every_queue))
    assert files.operations - reads <= 6 * segments
    assert [type(item) for item in found] == [RecoveredRows] * (segments - 1)
    assert sum(len(item.sizes) for item in found if isinstance(item, RecoveredRows)) == 80


def test_half_of_the_messages_acknowledged() -> None:
    files = SimulatedFiles()
    log = deep(files)
    for place, (record, queue_id, *_) in enumerate(restorable(log)):
        if place % 2:
            log.settle(record, queue_id)
    flush(log)
    log = same_as_read(files)
    assert [item[2] for item in restorable(log)] == list(range(1, 81, 2))
    assert log.report.indexed_segments >= 4


@pytest.mark.parametrize("clean", [True, False])
def test_a_damaged_index_costs_reading_and_is_written_anew(clean: bool) -> None:
    files = SimulatedFiles()
    log = deep(files)
    if clean:
        log.close()
    whole = opened(files.copied()).report.indexed_segments
    name = index_name(2)
    size = len(files.names_now[name].data)
    chance = random.Random(SEED)
    for place in (*range(0, size, 7), None):
        image = files.copied()
        data = image.names_now[name].data
        if place is None:
            del data[size // 2 :]
        else:
            data[place] ^= 1 << chance.randrange(8)
        assert same_as_read(image).report.indexed_segments == whole - 1
    log = opened(image)
    upkeep(log)
    assert image.names_now[name].data == files.names_now[name].data
    assert opened(image.copied()).report.indexed_segments >= whole


@pytest.mark.parametrize("change", ["cut", "longer", "wiped", "gone"])
def test_an_index_is_not_believed_about_another_file(change: str) -> None:
    files = SimulatedFiles()
    deep(files).close()
    whole = opened(files.copied()).report.indexed_segments
    name = segment_name(2)
    node = files.names_now[name]
    if change == "cut":
        del node.data[len(node.data) // 2 :]
    elif change == "longer":
        node.data.extend(b"x")
    elif change == "wiped":
        node.data[:] = bytes(len(node.data))
    else:
        del files.names_now[name]
    assert same_as_read(files).report.indexed_segments == whole - 1


def test_an_index_that_the_disk_refuses_costs_reading() -> None:
    """Wherever that is: at the first look, or when the messages are asked for."""
    files = SimulatedFiles()
    deep(files).close()
    expected = restorable(opened(files.copied()))
    whole = opened(files.copied()).report.indexed_segments
    for place in range(1, 13):
        image = files.copied()
        log = opened(image)
        image.fail_at = image.operations + place
        assert restorable(log) == expected
        assert image.failed_operation in ("open", "read")
    image = files.copied()
    fewer = 0
    for place in range(1, image.operations + 40):
        image = files.copied()
        image.fail_at = place
        try:
            log = opened(image)
        except StoreError:
            continue  # nothing but an index can be done without
        assert restorable(log) == expected
        fewer += log.report.indexed_segments == whole - 1
    assert fewer >= 4 * 2


def test_an_index_without_its_segment_goes() -> None:
    files = SimulatedFiles()
    deep(files).close()
    files.remove(DIRECTORY / segment_name(2))
    files.open(DIRECTORY / index_name(99), create=True).close()
    opened(files)
    numbers = {index_number(name) for name in files.names_now}
    assert 2 not in numbers
    assert 99 not in numbers


def test_a_tail_that_a_clean_stop_ended_is_not_written_to_again() -> None:
    files = SimulatedFiles()
    log = deep(files)
    tail = log.statistics().segments
    log.close()
    for _ in range(3):  # and starts without any messages leave no segments behind
        log = opened(files)
        record = log.append(message(b"later"), [(1, 1000)])
        assert record >> 24 == tail + 1
        log.settle(record, 1)
        log.close()
    log = opened(files)
    log.append(message(b"later"), [(1, 1000)])
    flush(log)
    assert len(restorable(same_as_read(files.crashed(random.Random(1))))) == 81


def test_unread_messages_stand_among_the_others_in_their_place() -> None:
    """A queue's messages come in record order, read or not, however they alternate."""
    for seed in range(SEED, SEED + 20):
        chance = random.Random(seed)
        files = SimulatedFiles()
        log = opened(files)
        for number in range(90):
            kind = chance.choice(["plain", "plain", "expires", "shared"] if seed % 2 else ["plain"])
            targets = [(1, number), (2, number)] if kind == "shared" else [(chance.choice([1, 2]), number)]
            log.append(message(b"%d" % number + bytes(200), expires_at=9 if kind == "expires" else 0), targets)
        log.append(message(bytes(3000)), [(3, 1)])
        flush(log)
        for record, queue_id, *_ in one_by_one(log.recovered()):
            if chance.random() < seed % 3 / 3:
                log.settle(record, queue_id)
        log.close()
        same_as_read(files)


OTHER = Origin("elsewhere", "key", "guest@127.0.0.1:2", ORIGIN.view)
HOLES: dict[str, Callable[[int], bool]] = {
    "every other": lambda place: place % 2 == 0,
    "every third is left": lambda place: place % 3 != 0,
    "every third": lambda place: place % 3 == 1,
    "stretches": lambda place: place // 7 % 2 == 0,
    "the first": lambda place: place == 0,
    "the last": lambda place: place == 89,
    "all but the first": lambda place: place > 0,
    "all but the last": lambda place: place < 89,
    "the front": lambda place: place < 40,
    "at random": lambda place: random.Random(place).random() < 0.4,
    "none": lambda place: False,
}


@pytest.mark.parametrize("mixed", [False, True], ids=["alike", "mixed"])
@pytest.mark.parametrize("queues", [1, 2, 5])
@pytest.mark.parametrize("holes", HOLES)
def test_rows_around_holes_are_what_was_written(holes: str, queues: int, mixed: bool) -> None:
    """To the last column, whatever was acknowledged, and whose it was."""
    files = SimulatedFiles()
    log = opened(files)
    expected: list[tuple[Any, ...]] = []
    later = []
    sequences = dict.fromkeys(range(1, queues + 1), 0)
    for place in range(90):
        facts = {"accepted_at": 1000 + place}
        if mixed:
            facts |= {"priority": place % 4, "expires_at": 5000 + place % 3 if place % 5 else 0}
        origin = OTHER if mixed and place % 8 > 5 else ORIGIN
        written = Message(b"header", bytes(200 + mixed * place), origin, durable=True, **facts)
        shared = mixed and queues > 1 and place % 6 == 0
        targets = []
        for queue_id in sorted({1 + place % queues, 1 + (place + shared) % queues}):
            sequences[queue_id] += 1 + (mixed and place % 7 == 0)
            targets.append((queue_id, sequences[queue_id]))
        record = log.append(written, targets)
        for queue_id, sequence in targets:
            if not HOLES[holes](place) or (queue_id != targets[0][0] and place % 4 == 0):
                given = written.priority if mixed else NO_PRIORITY
                facts_of_row = (written.size, given, written.accepted_at, written.expires_at, origin.exchange)
                expected.append((queue_id, record, sequence, *facts_of_row))
            elif place % 20 < 15:
                later.append((record, queue_id))
            else:
                log.settle(record, queue_id)  # it is never written
        if place % 10 == 0:
            flush(log)
    log.append(message(bytes(4000)), [(99, 1)])
    flush(log)
    for record, queue_id in later:
        log.settle(record, queue_id)
    log.close()
    found: list[tuple[Any, ...]] = []
    for rows in opened(files).restorable(every_queue):
        assert isinstance(rows, RecoveredRows)
        assert list(rows.records) == sorted(rows.records)
        exchanges = [rows.origins[number][0] for number in rows.origin_numbers]
        columns: list[Sequence[Any]] = [rows.records, rows.sequences, rows.sizes, rows.priorities]
        columns += [rows.accepted_at, rows.expires_at, exchanges]
        found += [(rows.queue_id, *row) for row in zip(*columns, strict=True) if rows.queue_id != 99]
    assert sorted(found) == sorted(expected)
