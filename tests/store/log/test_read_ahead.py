"""Blocks that a thread has read: who finds them, when they go, and that no file is closed under the thread."""

from __future__ import annotations

import errno
import gc
import os
from collections.abc import Callable

import pytest

from annulet.core.message.message import Origin
from annulet.store.log.log import MessageLog
from annulet.store.log.read_ahead import (
    AHEAD_BYTES_MAX,
    BLOCK_BYTES_LEAST,
    BLOCK_BYTES_MAX,
    NEAR_BYTES_MAX,
    AheadBlock,
    ReadAhead,
)
from annulet.store.segments.records import ORDINAL_BITS, ORDINAL_MASK
from tests.store.log.test_log_tools import DIRECTORY, View, flush, message, upkeep
from tests.store.simulated_files import SimulatedFiles

QUEUE = 3
LEAST = BLOCK_BYTES_LEAST


class Thread:
    """Does what it was given when the test says so."""

    def __init__(self) -> None:
        self.works: list[Callable[[], None]] = []

    def submit(self, work: Callable[[], None]) -> None:
        self.works.append(work)

    def run(self) -> None:
        while self.works:
            self.works.pop(0)()


class PatternFile:
    """Has as many bytes as are asked for, at each offset the same."""

    def __init__(self, size: int = 1 << 30) -> None:
        self.length = size
        self.error = 0
        self.closed = False

    def read(self, offset: int, length: int) -> bytes:
        assert not self.closed, "the descriptor may be that of another file by now"
        if self.error:
            raise OSError(self.error, os.strerror(self.error))
        return bytes([offset % 251]) * max(0, min(length, self.length - offset))

    def prefetch(self, offset: int, length: int) -> None:
        assert not self.closed

    def write(self, buffers: object, offset: int) -> None:
        raise NotImplementedError

    def fileno(self) -> int:
        raise OSError(errno.EBADF, "no file of the system")

    def size(self) -> int:
        return self.length

    def allocate(self, size: int) -> None:
        raise NotImplementedError

    def truncate(self, size: int) -> None:
        raise NotImplementedError

    def sync(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        self.closed = True


def made() -> tuple[ReadAhead, Thread, PatternFile]:
    ahead, thread = ReadAhead(), Thread()
    ahead.submit = thread.submit
    return ahead, thread, PatternFile()


def test_without_a_thread_nothing_is_read_ahead() -> None:
    assert not ReadAhead().ask(PatternFile(), 1, 0, 0, LEAST)


@pytest.mark.parametrize(("length", "asked"), [(LEAST - 1, False), (LEAST, True)])
def test_small_stretches_are_left_to_the_system(length: int, asked: bool) -> None:
    ahead, thread, file = made()
    assert (ahead.ask(file, 1, 0, 0, length) is not None) is asked
    assert len(thread.works) == asked


def test_a_block_is_found_when_it_was_read_and_until_its_last_record_was() -> None:
    ahead, thread, file = made()
    assert ahead.ask(file, 1, 100, 9000, LEAST)
    assert ahead.find(1, 100, 5000) is None, "not read yet"
    thread.run()
    block = ahead.find(1, 100, 5000)
    assert block is not None
    assert (block.first, block.data) == (100, bytes([100]) * LEAST)
    assert ahead.find(2, 100, 5000) is None
    assert ahead.find(1, 99, 5000) is None
    assert ahead.find(1, 100 + LEAST, 9001) is None
    assert ahead.find(1, 5000, 9000) is block
    assert ahead.find(1, 5000, 9000) is None
    assert ahead.bytes == 0


@pytest.mark.parametrize("error", [0, errno.EIO])
def test_who_waits_for_a_block_is_told_once_when_the_thread_is_done(error: int) -> None:
    ahead, thread, file = made()
    file.error = error
    block = ahead.ask(file, 1, 100, 9000, LEAST)
    assert block is not None
    told: list[bool] = []
    stretch = block.stretch
    assert stretch.tell(lambda: told.append(stretch.ended))
    assert told == []
    thread.run()
    assert told == [True], "who looks now finds it, or reads it himself"
    assert not stretch.tell(lambda: told.append(stretch.ended)), "no need to wait"
    assert told == [True]
    assert gc.get_referents(stretch).count([]) == 1, "nobody is kept"


def test_what_the_thread_comes_to_late_is_there_for_as_long_as_anything_else() -> None:
    """Else it would be read, and nobody would find it."""
    ahead, thread, file = made()
    block = ahead.ask(file, 1, 100, 9000, LEAST)
    assert block is not None
    for _ in range(3):
        ahead.tidy()
    assert not block.stretch.dropped
    thread.run()
    ahead.tidy()
    assert not block.stretch.dropped, "it has just been read"
    ahead.tidy()
    assert block.stretch.dropped
    assert ahead.bytes == 0


def test_who_keeps_what_is_said_of_a_block_keeps_none_of_its_bytes() -> None:
    """Queues do so for as long as they are not served: ten thousand of them would keep 10 GiB."""
    files = SimulatedFiles()
    log, records, thread = filled(files, 1000, 1000)
    stretch = log.prefetch(records)
    assert stretch is not None
    thread.run()
    upkeep(log)
    upkeep(log)
    assert stretch.dropped
    assert log.statistics().read_ahead_bytes == 0
    held = gc.get_referents(stretch)
    assert not any(isinstance(one, (AheadBlock, bytes)) for one in [*held, *gc.get_referents(*held)])
    log.close()


def test_what_other_blocks_have_is_not_read_again() -> None:
    ahead, thread, file = made()
    first = ahead.ask(file, 1, 100, 9000, 2 * LEAST)
    following = ahead.ask(file, 1, 200, 9100, 3 * LEAST)
    assert following is not None
    assert following is not first
    assert (following.first, following.end) == (100 + 2 * LEAST, 200 + 3 * LEAST)
    assert ahead.ask(file, 1, 150, 9200, 2 * LEAST) is following, "these two have it together"
    assert ahead.ask(file, 1, 150, 9200, 100) is first
    assert ahead.ask(file, 2, 150, 9200, LEAST), "of another segment"
    assert len(thread.works) == 3
    thread.run()
    assert ahead.find(1, 200, 9000) is first
    assert ahead.find(1, 200, 9000) is first, "whoever else asked for it may come yet"


def test_what_somebody_else_asks_for_stays_for_him() -> None:
    ahead, thread, file = made()
    first = ahead.ask(file, 1, 100, 9000, LEAST)
    thread.run()
    ahead.tidy()
    assert ahead.ask(file, 1, 200, 9000, 1000) is first
    ahead.tidy()
    assert ahead.find(1, 200, 9000) is first
    ahead.tidy()
    ahead.tidy()
    assert ahead.bytes == 0


def test_what_could_not_be_read_is_asked_for_again() -> None:
    ahead, thread, file = made()
    file.error = errno.EIO
    first = ahead.ask(file, 1, 100, 9000, LEAST)
    thread.run()
    again = ahead.ask(file, 1, 100, 9000, LEAST)
    assert again is not None
    assert again is not first


@pytest.mark.parametrize("gap", [0, NEAR_BYTES_MAX, NEAR_BYTES_MAX + 1])
def test_a_block_begins_where_one_ends_a_little_before(gap: int) -> None:
    ahead, _, file = made()
    ahead.ask(file, 1, 100, 9000, LEAST)
    first = 100 + LEAST + gap
    block = ahead.ask(file, 1, first, first + 9000, LEAST)
    assert block is not None
    assert (block.first, block.end) == (100 + LEAST if gap <= NEAR_BYTES_MAX else first, first + LEAST)


def test_what_cannot_be_read_is_not_there() -> None:
    ahead, thread, file = made()
    file.error = errno.EIO
    ahead.ask(file, 1, 0, 9000, LEAST)
    thread.run()
    assert ahead.find(1, 0, 9000) is None
    file.error, file.length = 0, LEAST - 1
    ahead.ask(file, 1, 0, 9000, LEAST)
    thread.run()
    assert ahead.find(1, 0, 9000) is None, "the file is shorter than was thought"


@pytest.mark.parametrize("over", [-1, 0, 1])
def test_blocks_have_so_many_bytes_at_most(over: int) -> None:
    ahead, thread, file = made()
    for number in range(AHEAD_BYTES_MAX // BLOCK_BYTES_MAX - 1):
        assert ahead.ask(file, number, 0, 9000, BLOCK_BYTES_MAX)
    assert (ahead.ask(file, 9, 0, 9000, BLOCK_BYTES_MAX + over) is not None) is (over <= 0)
    assert ahead.bytes <= AHEAD_BYTES_MAX
    thread.run()
    assert (ahead.ask(file, 10, 0, 9000, BLOCK_BYTES_MAX) is not None) is (over > 0), "nobody has read from any"


def test_the_oldest_that_somebody_has_read_from_makes_room() -> None:
    ahead, thread, file = made()
    for number in range(AHEAD_BYTES_MAX // BLOCK_BYTES_MAX):
        ahead.ask(file, number, 0, 9000, BLOCK_BYTES_MAX)
    thread.run()
    assert ahead.find(2, 0, 1)
    assert ahead.find(1, 0, 1)
    assert ahead.ask(file, 9, 0, 9000, BLOCK_BYTES_MAX)
    assert ahead.find(1, 0, 1) is None
    assert ahead.find(0, 0, 1)
    assert ahead.find(2, 0, 1)


def test_what_nobody_uses_goes_with_the_next_round_but_one() -> None:
    ahead, thread, file = made()
    ahead.ask(file, 1, 0, 9000, LEAST)
    ahead.ask(file, 2, 0, 9000, LEAST)
    thread.run()
    ahead.tidy()
    assert ahead.find(2, 0, 1)
    ahead.tidy()
    assert ahead.bytes == LEAST
    assert ahead.find(1, 0, 1) is None
    assert ahead.find(2, 0, 1)


def test_what_is_dropped_while_it_is_read_counts_until_it_was() -> None:
    ahead, thread, file = made()
    ahead.ask(file, 1, 0, 9000, LEAST)
    ahead.release(1)
    assert ahead.bytes == LEAST
    thread.run()
    assert ahead.find(1, 0, 9000) is None
    ahead.tidy()
    assert ahead.bytes == 0


def test_a_file_is_closed_when_the_thread_is_done_with_it() -> None:
    ahead, thread, file = made()
    other = PatternFile()
    ahead.ask(file, 1, 0, 9000, LEAST)
    ahead.close(other)
    ahead.release(1)
    ahead.close(file)
    assert (other.closed, file.closed) == (True, False)
    ahead.tidy()
    assert not file.closed
    thread.run()
    ahead.tidy()
    assert file.closed


# ---------------------------------------------------------------------- in a log


def filled(files: SimulatedFiles, count: int, size: int) -> tuple[MessageLog, list[int], Thread]:
    """Return a log that has a thread, and its records."""
    log, thread = MessageLog.open(DIRECTORY, files=files, segment_bytes=4 << 20), Thread()
    log.read_ahead_with(thread.submit)
    records = [log.append(message(b"%0*d" % (size, n)), [(QUEUE, n)]) for n in range(1, count + 1)]
    flush(log)
    return log, records, thread


def numbers(log: MessageLog, records: list[int]) -> list[int | None]:
    sequences = [(record & ORDINAL_MASK) + 1 for record in records]
    found = log.messages(QUEUE, records, sequences, [Origin("", "", "", View())] * len(records))
    return [None if made is None else int(made.body[-9:]) for made in found]


def count_reads(log: MessageLog, files: SimulatedFiles, records: list[int]) -> int:
    before = files.operations
    assert numbers(log, records) == [(record & ORDINAL_MASK) + 1 for record in records]
    return files.operations - before


@pytest.mark.parametrize("count", [1000, 2500])
def test_neighbours_are_read_ahead_alike_however_they_are_named(count: int) -> None:
    """As a range in a few steps, unless they are more than a block: then as any others."""
    asked = []
    for kind in (list, tuple, lambda records: range(records[0], records[-1] + 1)):
        log, records, thread = filled(SimulatedFiles(), 2500, 1000)
        log.prefetch(kind(records[:count]))
        asked.append((len(thread.works), log.statistics().read_ahead_bytes))
        log.close()
    assert asked[0] == asked[1] == asked[2]
    assert asked[0][0] == (1 if count == 1000 else 2)


def test_what_is_nowhere_is_not_read_ahead() -> None:
    log, records, thread = filled(SimulatedFiles(), 1000, 1000)
    log.prefetch(range(records[-1] + 1, records[-1] + 300))
    log.prefetch(range(99 << ORDINAL_BITS, (99 << ORDINAL_BITS) + 300))
    assert thread.works == []
    log.close()


def test_rows_come_from_what_the_thread_has_read() -> None:
    files = SimulatedFiles()
    log, records, thread = filled(files, 1000, 1000)
    log.prefetch(records)
    assert len(thread.works) == 1, "neighbours in one block"
    assert log.statistics().read_ahead_bytes > 1000 * 1000
    assert count_reads(log, files, records[:100]) == 1, "the thread was not there yet"
    thread.run()
    assert count_reads(log, files, records[100:300]) == 0
    assert log.lack(records[300:350], [[b"nowhere"]])
    assert [found and int(found.body) for found in log.read(records[350:352])] == [351, 352]
    assert count_reads(log, files, records[352:]) == 0
    assert log.statistics().read_ahead_bytes == 0
    assert count_reads(log, files, records[352:]) == 1
    log.close()


def test_the_last_record_is_there_as_a_whole() -> None:
    files = SimulatedFiles()
    log, records, thread = filled(files, 8, 300_000)
    log.prefetch(records[:6])
    assert len(thread.works) == 1
    thread.run()
    assert count_reads(log, files, records[:6]) == 0
    log.prefetch(records[6:])
    thread.run()
    assert count_reads(log, files, records[6:]) == 0, "where the segment's last record ends is known too"
    log.close()


@pytest.mark.parametrize("size", [1000, 9000, 30_000])
def test_what_stands_in_several_blocks_is_joined(size: int) -> None:
    files = SimulatedFiles()
    log, records, thread = filled(files, 100 if size > 1000 else 600, size)
    part = 200_000 // size
    for start in range(0, len(records), part):
        log.prefetch(records[start : start + part])
        thread.run()
    for first, last in ((part - 1, part + 1), (part - 2, 3 * part), (0, part), (2 * part, 2 * part + 1)):
        assert numbers(log, records[first:last]) == list(range(first + 1, last + 1))
    log.close()


def test_a_load_over_the_end_of_a_block_is_not_read_again() -> None:
    files = SimulatedFiles()
    log, records, thread = filled(files, 600, 1000)
    log.prefetch(records[:300])
    log.prefetch(records[300:])
    thread.run()
    assert count_reads(log, files, records[200:400]) == 0
    assert count_reads(log, files, records[400:]) == 0
    assert log.statistics().read_ahead_bytes == 0
    log.close()


def test_what_was_not_written_yet_is_not_found_in_what_was_read_ahead() -> None:
    """Where the last record that was asked for ends, another may be written later, and not with the next number."""
    files = SimulatedFiles()
    log, records, thread = filled(files, 300, 1000)
    log.settle(log.append(message(b"none"), [(QUEUE, 301)]), QUEUE)  # in the window: it is never written
    later = log.append(message(b"%0300d" % 302), [(QUEUE, 302)])
    batch = log.take_batch()
    assert batch is not None
    log.prefetch(records)
    thread.run()
    log.write(batch)
    log.complete(batch)
    assert numbers(log, [later]) == [302]
    assert log.report.lost_records == 0
    log.close()


def test_what_a_compaction_moves_is_read_where_it_is_now() -> None:
    files = SimulatedFiles()
    log, records, thread = filled(files, 9000, 1000)
    first = [record for record in records if record >> ORDINAL_BITS == records[0] >> ORDINAL_BITS]
    log.prefetch(first[:1000])
    thread.run()
    log.prefetch(first[1000:2000])
    kept = set(first[::10])
    for record in first:
        if record not in kept:
            log.settle(record, QUEUE)
    flush(log)
    for _ in range(3):
        upkeep(log, checkpoint=True)
    assert log.statistics().compactions == 1
    assert log.statistics().read_ahead_bytes < 1200 * 1000, "what is being read only"
    thread.run()
    assert numbers(log, sorted(kept)) == list(range(1, len(first) + 1, 10))
    upkeep(log)
    assert log.statistics().read_ahead_bytes == 0
    log.close()
