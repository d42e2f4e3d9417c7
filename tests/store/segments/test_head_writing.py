"""Files of heads are written behind the log, tell of what is in their segment, and go when that may change."""

from __future__ import annotations

import errno
import logging
from dataclasses import asdict
from pathlib import Path

import pytest

from annulet.core.message.message import Message
from annulet.store.files.errors import LogFailedError
from annulet.store.log.log import MessageLog
from annulet.store.log.upkeep import BALLAST_BYTES
from annulet.store.log.window import HeadRun
from annulet.store.segments.head_blocks import BLOCK_BYTES, BLOCK_BYTES_MAX, BLOCK_HEADER, RUN_BYTES_MAX, block_bounds
from annulet.store.segments.head_writing import PENDING_BYTES_MAX, PENDING_LEAST, HeadWriter, PendingHeads
from annulet.store.segments.records import ORDINAL_BITS
from annulet.store.segments.segment import Segment
from tests.store.head_tools import QUEUE, RED, Looked, coloured, head_files, opened, write_heads
from tests.store.log.test_log_tools import DIRECTORY, ORIGIN, flush, reader_of, space_of, upkeep
from tests.store.simulated_files import SimulatedFiles

MIXED = [b"red", b"blue", b"blue"]


def run_of(segment: Segment, size: int, first: int = 64) -> HeadRun:
    return HeadRun(segment, first, first + 5 * size, bytes(size))


def segment_of(number: int) -> Segment:
    return Segment(number, DIRECTORY / f"{number:012d}.segment", 1, 7)


def agree(log: MessageLog, files: SimulatedFiles) -> list[int]:
    """Compare both ways to look, for all segments with heads; return where the segment had to be read."""
    read = []
    for number in head_files(files):
        looked = Looked(files, log.segments[number], RED)
        assert looked.beside() == looked.alone()
        if looked.read:
            read.append(number)
    return read


def test_each_segment_gets_its_own_and_none_is_synced() -> None:
    files = SimulatedFiles()
    log = opened(files)
    records = coloured(log, MIXED * 20)
    segments = sorted({record >> ORDINAL_BITS for record in records})
    assert len(segments) > 3
    assert head_files(files) == segments
    assert agree(log, files) == []
    assert all(not node.durable for name, node in files.names_now.items() if name.endswith(".heads"))
    figures = log.statistics()
    total = sum(len(node.data) for name, node in files.names_now.items() if name.endswith(".heads"))
    assert (figures.heads_bytes_written, figures.heads_bytes_dropped, figures.heads_bytes_pending) == (total, 0, 0)
    log.close()


def test_upkeep_writes_them_when_enough_wait_and_a_clean_stop_the_rest() -> None:
    files = SimulatedFiles()
    log = opened(files)
    size = 0
    while size < PENDING_LEAST:
        assert "HeadTask" not in upkeep(log)
        log.append(Message(b"blue" * 4000, bytes(90_000), ORIGIN, durable=True), [(QUEUE, 1)])
        flush(log)
        size = log.statistics().heads_bytes_pending
    assert upkeep(log).count("HeadTask") == 1
    assert log.statistics().heads_bytes_pending == 0
    written = head_files(files)
    assert written
    last = coloured(log, MIXED)[-1]
    flush(log)
    log.close()
    assert last >> ORDINAL_BITS in head_files(files)


def test_without_being_told_to_it_writes_none() -> None:
    files = SimulatedFiles()
    log = opened(files, heads=False)
    coloured(log, MIXED * 20)
    upkeep(log, checkpoint=True)
    log.close()
    assert head_files(files) == []


def test_bodies_that_are_small_against_heads_get_none() -> None:
    """What decides is a run: of 256 messages, or of a window."""
    files = SimulatedFiles()
    log = opened(files)
    overhead = log.statistics().heads_bytes_written
    head = 76 + len(b"blue") + 4 * 4 + len(b"exchange") + len(b"key") + len(b"guest@127.0.0.1:1") + len(b"amqp-0-9-1")
    coloured(log, [b"blue"], size=4 * head - 1)
    assert log.statistics().heads_bytes_written == overhead
    coloured(log, [b"blue"], size=4 * head)
    assert log.statistics().heads_bytes_written > overhead
    coloured(log, [b"blue"] * 300, size=10, window=300)
    assert agree(log, files) == [1], "the small ones are read in the segment"


def test_cancelled_messages_and_those_of_transactions_do_not_shift_the_others() -> None:
    files = SimulatedFiles()
    log = opened(files)
    transaction = log.begin()
    for number in range(9):
        owner = transaction if number in (2, 5) else 0
        message = Message(MIXED[number % 3], bytes(1000), ORIGIN, durable=True)
        record = log.append(message, [(QUEUE, number + 1)], owner)
        if number in (0, 4, 8):
            log.settle(record, QUEUE)
    log.commit(transaction)
    flush(log)
    write_heads(log)
    assert agree(log, files) == []
    looked = Looked(files, log.segments[1], RED)
    assert looked.alone() == [0, 3, 4, 6], "0 and 4 are nowhere"


def test_a_window_that_was_not_written_leaves_none() -> None:
    files = SimulatedFiles()
    log = opened(files)
    coloured(log, MIXED)
    before = bytes(files.names_now["000000000001.heads"].data)
    log.append(Message(b"red", bytes(1000), ORIGIN, durable=True), [(QUEUE, 9)])
    batch = log.take_batch()
    assert batch is not None
    files.fail_at = files.operations + 2  # its sync
    with pytest.raises(LogFailedError):
        log.write(batch)
    assert files.failed_operation == "sync"
    assert log.statistics().heads_bytes_pending == 0
    log.close()
    assert bytes(files.names_now["000000000001.heads"].data) == before


def test_what_goes_on_at_the_same_place_after_a_crash_has_no_old_heads() -> None:
    """The tail is cut back to what is sound and goes on there: what its heads told of may not be there any more."""
    files = SimulatedFiles()
    log = opened(files)
    coloured(log, MIXED)
    segment = log.segments[1]
    lost = segment.offsets[1]
    after = files.copied()
    after.names_now["000000000001.segment"].data[lost + 100] ^= 1  # and all behind is gone
    del after.names_now["000000000001.segment"].data[lost + 200 :]
    again = opened(after)
    assert head_files(after) == []
    message = Message(b"red", bytes(1000), ORIGIN, durable=True)
    assert again.append(message, [(QUEUE, 9)]) == 1 << ORDINAL_BITS | 1
    flush(again)
    assert again.segments[1].offsets[1] >= lost
    write_heads(again)
    assert agree(again, after) == [1], "what was there before the start is read"
    looked = Looked(after, again.segments[1], RED)
    assert looked.beside() == [0, 1]


def test_a_torn_end_that_is_cut_off_takes_the_heads_along() -> None:
    """Also of a segment that the log does not go on in, as another one follows."""
    files = SimulatedFiles()
    log = opened(files)
    records = coloured(log, MIXED * 9)
    last = records[-1] >> ORDINAL_BITS
    after = files.copied()
    del after.names_now["written"]  # a power loss may leave an older mark; with this one it would be no torn end
    name = f"{last:012d}.segment"
    after.names_now[name].data[:64] = bytes(64)
    before = f"{last - 1:012d}.segment"
    size = log.segments[last - 1].offsets[-1] + 50
    after.names_now[before].data[size:] = bytes(len(after.names_now[before].data) - size)
    again = opened(after)
    assert {last - 1, last} <= set(head_files(files))
    assert head_files(after) == [number for number in head_files(files) if number < last - 1]
    assert agree(again, after) == []


def test_a_start_that_goes_on_in_a_segment_begins_its_heads_anew() -> None:
    """However it ended: nobody knows what an older version has done to the segment meanwhile."""
    files = SimulatedFiles()
    log = opened(files)
    records = coloured(log, MIXED * 9)
    tail = records[-1] >> ORDINAL_BITS
    after = files.copied()
    again = opened(after, heads=False)
    assert space_of(again).tail.number == tail
    assert head_files(after) == list(range(1, tail))


def test_a_window_of_a_full_disk_gets_none() -> None:
    log = opened(SimulatedFiles())
    space_of(log).disk_full = True
    log.append(Message(b"red", bytes(1000), ORIGIN, durable=True), [(QUEUE, 1)])
    flush(log)
    figures = log.statistics()
    assert figures.heads_bytes_pending == 0
    assert figures.heads_bytes_dropped > 0


def with_large_heads(log: MessageLog, count: int) -> None:
    """Store so many messages whose heads are 16 KiB each, a window each."""
    for _ in range(count):
        message = Message(b"blue" * 4096, bytes(90_000), ORIGIN, durable=True)
        log.append(message, [(QUEUE, log.sequences.get(QUEUE, 0) + 1)])
        flush(log)


def test_they_leave_the_reserve_for_checkpoints_alone() -> None:
    """A checkpoint on a full disk gives the ballast up, and the next one needs that room: without it nothing that is
    acknowledged would ever be given back."""
    files = SimulatedFiles()
    log = MessageLog.open(DIRECTORY, files=files, segment_bytes=8 << 20, heads=True)
    with_large_heads(log, 1)
    upkeep(log)
    files.capacity = files.used  # with the ballast and a spare, so nobody has noticed yet
    upkeep(log, checkpoint=True)
    assert not log.statistics().disk_full
    assert files.used + BALLAST_BYTES // 2 < files.capacity, "the ballast was given up"
    for _ in range(4):
        with_large_heads(log, 17)
        upkeep(log)
    assert files.used + BALLAST_BYTES // 2 < files.capacity
    assert log.statistics().heads_bytes_dropped > 0
    log.close()


def test_they_are_kept_again_when_the_reserve_is_back() -> None:
    files = SimulatedFiles()
    log = MessageLog.open(DIRECTORY, files=files, segment_bytes=4 << 20, heads=True)
    with_large_heads(log, 1)
    upkeep(log)
    files.capacity = files.used
    upkeep(log, checkpoint=True)
    with_large_heads(log, 20)
    assert "HeadTask" not in upkeep(log)
    files.capacity = 1 << 40
    with_large_heads(log, 20)  # goes on in the spare, so that another is made
    assert upkeep(log)[0] == "SpareTask"
    with_large_heads(log, 20)
    assert "HeadTask" in upkeep(log)
    assert space_of(log).tail.number in head_files(files)


def test_what_waits_when_the_disk_is_full_is_dropped_at_the_end_too() -> None:
    files = SimulatedFiles()
    log = opened(files)
    log.append(Message(b"red", bytes(1000), ORIGIN, durable=True), [(QUEUE, 1)])
    flush(log)
    waiting = log.statistics().heads_bytes_pending
    assert waiting
    space_of(log).disk_full = True
    log.close()
    assert head_files(files) == []
    assert log.statistics().heads_bytes_dropped == waiting


def test_the_last_checkpoint_of_a_stop_that_takes_the_reserve_leaves_them_none() -> None:
    files = SimulatedFiles()
    log = MessageLog.open(DIRECTORY, files=files, segment_bytes=4 << 20, heads=True)
    upkeep(log)
    with_large_heads(log, 1)
    files.capacity = files.used
    log.close()
    assert "ballast" not in files.names_now
    assert head_files(files) == []


def test_a_spare_is_made_before_they_are_written() -> None:
    """A disk that is slow to take them has as many waiting again at once; then nothing else would ever be done."""
    files = SimulatedFiles()
    log = MessageLog.open(DIRECTORY, files=files, segment_bytes=4 << 20, heads=True)
    with_large_heads(log, 20)
    assert upkeep(log, checkpoint=True) == ["CheckpointTask", "SpareTask", "HeadTask"]


def test_heads_whose_segment_is_gone_go_at_start() -> None:
    files = SimulatedFiles()
    log = opened(files)
    coloured(log, MIXED)
    log.close()
    after = files.copied()
    after.open(DIRECTORY / "000000000099.heads", create=True)
    opened(after, heads=False).close()
    assert 99 not in head_files(after)


def test_they_go_with_their_segment_and_when_it_is_compacted() -> None:
    files = SimulatedFiles()
    log = opened(files)
    records = coloured(log, MIXED * 20)
    kept = records[0]
    for record in records[1:]:
        log.settle(record, QUEUE)
    flush(log)
    for _ in range(3):
        upkeep(log, checkpoint=True)
    assert log.statistics().compactions == 1
    assert kept >> ORDINAL_BITS not in head_files(files)
    assert set(head_files(files)) <= set(log.segments)
    log.close()


def test_what_waits_is_forgotten_with_its_segment() -> None:
    pending = PendingHeads(SimulatedFiles())
    one, two = segment_of(1), segment_of(2)
    pending.add([run_of(one, 100), run_of(two, 50)], takes_heads=True)
    pending.forget((1,))
    assert pending.bytes == 50
    assert pending.task(least=51) is None
    assert pending.task(least=50) is not None
    assert pending.task(least=0) is None


def test_no_more_wait_than_the_bound_and_none_on_a_full_disk() -> None:
    pending = PendingHeads(SimulatedFiles())
    segment = segment_of(1)
    half = PENDING_BYTES_MAX // 2
    pending.add([run_of(segment, half), run_of(segment, half)], takes_heads=True)
    assert pending.bytes == PENDING_BYTES_MAX
    pending.add([run_of(segment, 1)], takes_heads=True)
    assert (pending.bytes, pending.figures()["heads_bytes_dropped"]) == (PENDING_BYTES_MAX, 1)
    pending.forget((1,))
    pending.add([run_of(segment, 10)], takes_heads=False)
    assert (pending.bytes, pending.figures()["heads_bytes_dropped"]) == (0, 11)


def test_a_block_ends_when_it_is_long_enough_and_none_is_longer_than_is_read() -> None:
    files = SimulatedFiles()
    writer = HeadWriter(files)
    segment, other = segment_of(1), segment_of(2)
    writer.write(
        [run_of(segment, BLOCK_BYTES - 1), run_of(segment, RUN_BYTES_MAX), run_of(segment, 10), run_of(other, 7)]
    )
    data = bytes(files.names_now["000000000001.heads"].data)
    bounds = block_bounds(data[: BLOCK_HEADER.size])
    assert bounds is not None
    assert BLOCK_BYTES + RUN_BYTES_MAX < bounds[0] < BLOCK_BYTES_MAX
    rest = data[BLOCK_HEADER.size + bounds[0] :]
    assert block_bounds(rest[: BLOCK_HEADER.size]) == (18, 64, 114)
    assert len(files.names_now["000000000002.heads"].data) == BLOCK_HEADER.size + 15
    writer.close()


def test_a_run_that_is_too_long_is_not_kept() -> None:
    files = SimulatedFiles()
    log = opened(files)
    for length in (RUN_BYTES_MAX - 500, RUN_BYTES_MAX):
        log.append(Message(b"x" * length, bytes(5 * RUN_BYTES_MAX), ORIGIN, durable=True), [(QUEUE, 1)])
        flush(log)
    assert RUN_BYTES_MAX - 500 < log.statistics().heads_bytes_pending <= RUN_BYTES_MAX


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("operation", [1, 2, 3])
def test_a_file_that_the_disk_refuses_is_given_up_and_messages_go_on(
    number: int, operation: int, caplog: pytest.LogCaptureFixture
) -> None:
    """At its creation, its first or its second block; said once, until one can be written."""
    files = SimulatedFiles()
    log = opened(files)
    segment = space_of(log).tail
    failing = PendingHeads(files)
    files.fail_with = number
    files.fail_at = files.operations + operation
    with caplog.at_level(logging.WARNING):
        for place in range(3):
            failing.add([run_of(segment, 100, 64 + place * 1000)], takes_heads=True)
            task = failing.task(least=1)
            assert task is not None
            task.run()
            assert task.error is None, "upkeep goes on"
        assert len(caplog.records) == 1
        files.fail_at = files.operations + 1
        failing.add([run_of(segment_of(8), 100)], takes_heads=True)
        failing.close(write=True)
        assert len(caplog.records) == 1
    written = max(0, operation - 2)
    figures = failing.figures()
    assert figures["heads_failures"] == 2
    assert figures["heads_bytes_dropped"] == 400 - 100 * written
    assert (figures["heads_bytes_written"] > 0) == (written > 0)
    assert not space_of(log).failed
    coloured(log, MIXED)
    assert not log.statistics().disk_full


def test_reading_with_the_search_uses_them_until_their_segment_is_released() -> None:
    files = SimulatedFiles()
    log = opened(files)
    records = coloured(log, MIXED * 20)
    assert log.search is not None
    asked: list[int] = []
    log.search.submit = lambda stretch: asked.append(stretch.number)
    log.search.ask([(records[0], records[0])], frozenset({(b"red",)}))
    stretch = log.search._stretches[asked[0]]
    assert len(log.search.files_of(stretch)) == 2
    reader_of(log).release(records[0] >> ORDINAL_BITS)
    assert log.search.files_of(stretch) == []
    log.search.ask([(records[-1], records[-1])], frozenset({(b"red",)}))
    files.remove(DIRECTORY / f"{records[-1] >> ORDINAL_BITS:012d}.heads")
    assert len(log.search.files_of(log.search._stretches[asked[1]])) == 1
    log.close()


def test_a_directory_with_heads_starts_with_and_without_them(tmp_path: Path) -> None:
    """On a real disk: a stop, a start without the setting, and one with it again find all messages."""
    counts = []
    for heads in (True, False, True):
        log = MessageLog.open(tmp_path, segment_bytes=1 << 16, heads=heads)
        counts.append(log.statistics().live_records)
        for number in range(200):
            log.append(Message(b"blue", bytes(1000), ORIGIN, durable=True), [(QUEUE, 1 + number)])
        flush(log)
        assert set(asdict(log.statistics())) >= set(space_of(log).heads.figures())
        log.close()
    assert counts == [0, 200, 400]
    names = {path.name for path in tmp_path.iterdir() if path.suffix == ".heads"}
    assert names
    assert names <= {path.with_suffix(".heads").name for path in tmp_path.glob("*.segment")}
