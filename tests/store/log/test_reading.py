"""Reading records back: whole, damaged, moved by compaction, across segments, and never one that may yet change."""

from __future__ import annotations

import pytest

from annulet.core.message.message import Origin
from annulet.store.log import reading
from annulet.store.log.log import MessageLog
from annulet.store.log.memory import MemoryLog
from annulet.store.segments.records import ORDINAL_BITS
from tests.store.log.test_log_tools import DIRECTORY, SEGMENT, View, flush, message, opened, reader_of, upkeep
from tests.store.simulated_files import SimulatedFiles

QUEUE = 3


def filled(files: SimulatedFiles, count: int, size: int = 100) -> tuple[MessageLog, list[int]]:
    log = opened(files)
    records = []
    for number in range(1, count + 1):
        records.append(log.append(message(b"%0*d" % (size, number), accepted_at=number), [(QUEUE, number)]))
        if number % 10 == 0:
            flush(log)
    flush(log)
    return log, records


def numbers(log: MessageLog, records: list[int]) -> list[int | None]:
    return [None if found is None else int(found.body) for found in log.read(records)]


def reads(files: SimulatedFiles, log: MessageLog, records: list[int]) -> int:
    """Return how many reads of a file these records take."""
    kinds: list[str] = []
    before, files.operation = files.operation, kinds.append  # type: ignore[method-assign]
    try:
        log.read(records)
    finally:
        files.operation = before  # type: ignore[method-assign]
    return kinds.count("read")


def test_messages_come_back_as_they_were_stored() -> None:
    log, records = filled(SimulatedFiles(), 20)
    found = log.read(records[4:6])[0]
    assert found is not None
    assert found.origin == ("exchange", "key", "guest@127.0.0.1:1", "amqp-0-9-1")
    assert (found.header, int(found.body), found.priority) == (b"header", 5, 4)
    assert (found.accepted_at, found.expires_at, found.targets) == (5, 0, [(QUEUE, 5)])
    log.close()


def test_how_many_records_come_with_so_many_bytes_is_known_unread() -> None:
    files = SimulatedFiles()
    log = opened(files)
    sizes = [100, 5000, 100, 100, 5000, 100]
    records = [log.append(message(bytes(size)), [(QUEUE, place + 1)]) for place, size in enumerate(sizes)]
    log.settle(records[3], QUEUE)  # in the window: it is never written
    flush(log)
    assert [log.fitting(records, size) for size in (1, 1000, 6000, 10_000, 12_000)] == [1, 1, 4, 4, 6]
    assert log.fitting(records[2:3], 1) == 1
    assert log.fitting([records[5], records[0]], 1000) == 2, "in any order"
    other = log.append(message(bytes(SEGMENT // 2)), [(QUEUE, 7)])
    last = log.append(message(bytes(SEGMENT // 2)), [(QUEUE, 8)])
    flush(log)
    assert other >> ORDINAL_BITS < last >> ORDINAL_BITS, "in another segment"
    assert log.fitting([records[0], other, last], SEGMENT // 4) == 1
    assert log.fitting([records[0], other, last], 2 * SEGMENT) == 3
    assert log.fitting([last, last + 5, 99 << ORDINAL_BITS], SEGMENT) == 3, "what is nowhere takes no time"
    log.close()


def test_a_message_of_several_queues_comes_with_all_of_them() -> None:
    log = opened(SimulatedFiles())
    record = log.append(message(b"both", expires_at=9), [(3, 1), (4, 7)])
    flush(log)
    log.settle(record, 3)
    found = log.read([record])[0]
    assert found is not None
    assert (found.body, found.expires_at, found.targets) == (b"both", 9, [(3, 1), (4, 7)])
    log.close()


def test_a_record_is_held_until_its_queue_is_done_with_it() -> None:
    log = opened(SimulatedFiles())
    both, one = (log.append(message(b"x"), targets) for targets in ([(3, 1), (4, 7)], [(3, 2)]))
    assert log.holds(one, 3), "not written yet, so nobody knows better"
    flush(log)
    assert [log.holds(both, queue) for queue in (3, 4, 5)] == [True, True, False]
    log.settle(both, 3)
    log.settle(one, 3)
    assert [log.holds(both, queue) for queue in (3, 4, 5)] == [False, True, False]
    assert not log.holds(one, 3)
    assert [log.held([one, both], queue) for queue in (3, 4, 5)] == [[], [1], []]


@pytest.mark.parametrize("size", [10, 2000, 12_000])
def test_rows_are_made_into_messages_as_they_are_read(size: int) -> None:
    files = SimulatedFiles()
    log, records = filled(files, 30, size)
    several = log.append(message(b"%05d" % 31, priority=7), [(9, 1), (QUEUE, 31)])
    flush(log)
    records.append(several)
    sequences = list(range(1, 32))
    origins = [Origin("", str(number), "", View()) for number in sequences]
    for chosen in (list(range(31)), list(range(5, 25)), [30], [3, 1, 2], [1, 5, 30, 2]):
        wanted = [records[place] for place in chosen]
        found = log.messages(
            QUEUE, wanted, [sequences[place] for place in chosen], [origins[place] for place in chosen]
        )
        for place, made, logged in zip(chosen, found, log.read(wanted), strict=True):
            assert made is not None
            assert logged is not None
            assert (made.header, made.body, made.priority) == (logged.header, logged.body, logged.priority)
            assert (made.accepted_at, made.record, made.durable) == (logged.accepted_at, records[place], True)
            assert (made.origin, made.expires_at) == (origins[place], 0)
    assert log.messages(QUEUE, records[:2], [1, 1], origins[:2])[1] is None  # another's record
    assert log.messages(QUEUE + 1, [several], [31], origins[:1]) == [None]
    assert log.report.lost_records == 0
    assert log.messages(QUEUE, [0, several + 1], [1, 2], origins[:2]) == [None, None]
    assert log.report.lost_records == 2
    assert log.messages(QUEUE, [], [], []) == []
    log.close()


def test_neighbouring_rows_are_made_into_messages_by_where_they_begin() -> None:
    log, records = filled(SimulatedFiles(), 30)
    records.append(log.append(message(b"%05d" % 31), [(9, 1), (QUEUE, 31)]))
    flush(log)
    start = records[0]
    assert records == list(range(start, start + 31))
    origins = [Origin("", str(number), "", View()) for number in range(32)]
    for first, behind in ((0, 20), (3, 4), (25, 31)):  # the last one is of several queues
        rows = range(start + first, start + behind)
        made = log.messages(QUEUE, rows, range(first + 1, behind + 1), origins[first:behind])
        assert [found and int(found.body) for found in made] == list(range(first + 1, behind + 1))
        assert [found and found.origin for found in made] == origins[first:behind]
        assert [found and found.record for found in made] == list(rows)
    assert log.messages(QUEUE, range(start, start + 3), range(2, 5), origins[:3]) == [None] * 3, "not what the rows say"
    assert log.report.lost_records == 0
    made = log.messages(QUEUE, range(start + 29, start + 32), range(30, 33), origins[:3])
    assert [found and int(found.body) for found in made] == [30, 31, None]
    assert log.report.lost_records == 1
    assert log.messages(QUEUE, range(0), range(0), []) == []
    log.close()


@pytest.mark.parametrize("place", [0, 4, 8, 12, 50, 90])
def test_a_damaged_row_is_reported_and_the_others_served(place: int) -> None:
    files = SimulatedFiles()
    log, records = filled(files, 30)
    segment = log.segments[records[9] >> ORDINAL_BITS]
    files.names_now[segment.path.name].data[segment.offsets[records[9] & 0xFFFFFF] + place] ^= 1
    sequences = list(range(6, 16))
    found = log.messages(QUEUE, records[5:15], sequences, [Origin("", "", "", View())] * 10)
    bodies = [None if made is None else int(made.body) for made in found]
    assert bodies == [6, 7, 8, 9, None, 11, 12, 13, 14, 15]
    assert log.report.lost_records == 1
    log.close()


def test_any_order_across_segments() -> None:
    log, records = filled(SimulatedFiles(), 400)
    assert len({record >> ORDINAL_BITS for record in records}) > 2
    wanted = [*range(0, 400, 7), *range(399, 0, -50), 0, 0]
    assert numbers(log, [records[place] for place in wanted]) == [place + 1 for place in wanted]
    log.close()


def test_neighbours_come_with_one_read() -> None:
    files = SimulatedFiles()
    log, records = filled(files, 100)
    log.read(records[:1])
    assert reads(files, log, records[:60]) == 1
    assert reads(files, log, records[:60:20]) == 1
    reader_of(log).gap_bytes_max = 1000
    assert reads(files, log, records[:60:20]) == 3
    reader_of(log).read_bytes_max = reading.TAIL_BYTES + 2000
    assert reads(files, log, records[:60]) > 3
    assert numbers(log, records[:60]) == list(range(1, 61))
    log.close()


def test_a_record_larger_than_what_is_read_at_once() -> None:
    files = SimulatedFiles()
    log = opened(files)
    records = [log.append(message(bytes([65 + n]) * 50_000), [(QUEUE, n + 1)]) for n in range(3)]
    flush(log)
    assert [found and (found.body[:1], len(found.body)) for found in log.read(records)] == [
        (b"A", 50_000), (b"B", 50_000), (b"C", 50_000),
    ]  # fmt: skip
    log.close()


def test_a_damaged_record_is_reported_and_the_others_served(caplog: pytest.LogCaptureFixture) -> None:
    files = SimulatedFiles()
    log, records = filled(files, 30)
    segment = log.segments[records[9] >> ORDINAL_BITS]
    offset = segment.offsets[records[9] & 0xFFFFFF]
    files.names_now[segment.path.name].data[offset + 90] ^= 1
    assert numbers(log, records[5:15]) == [6, 7, 8, 9, None, 11, 12, 13, 14, 15]
    assert log.statistics().lost_records == 1
    assert f"segment {segment.number} at offset {offset}" in caplog.text
    log.close()


def test_a_damaged_length_does_not_make_it_read_the_world() -> None:
    files = SimulatedFiles()
    log, records = filled(files, 30)
    segment = log.segments[records[9] >> ORDINAL_BITS]
    offset = segment.offsets[records[9] & 0xFFFFFF]
    files.names_now[segment.path.name].data[offset + 8 : offset + 12] = b"\xff\xff\xff\xff"
    assert numbers(log, records[8:10]) == [9, None]
    log.close()


def test_records_that_are_nowhere_are_damaged_ones() -> None:
    log, records = filled(SimulatedFiles(), 10)
    assert log.read([records[-1] + 1, 99 << ORDINAL_BITS]) == [None, None]
    log.close()


def test_a_file_that_cannot_be_read_says_so_and_nothing_is_counted() -> None:
    files = SimulatedFiles()
    log, records = filled(files, 10)
    files.fail_at = files.operations + 1
    with pytest.raises(OSError, match="Input/output"):
        log.read(records)
    assert log.statistics().lost_records == 0
    assert numbers(log, records) == list(range(1, 11))
    log.close()


def test_the_disk_is_not_asked_for_nothing() -> None:
    files = SimulatedFiles()
    log, records = filled(files, 10)
    files.fail_at = files.operations + 1
    assert (log.read([]), log.messages(QUEUE, [], [], []), log.lack([], [[b"text"]])) == ([], [], False)
    with pytest.raises(OSError, match="Input/output"):
        log.read(records)
    log.close()


def test_only_complete_batches_are_below_the_bound() -> None:
    log = opened(SimulatedFiles())
    first = log.append(message(b"1"), [(QUEUE, 1)])
    assert log.written_below <= first
    batch = log.take_batch()
    second = log.append(message(b"2"), [(QUEUE, 2)])
    assert batch is not None
    log.write(batch)
    assert log.written_below <= first
    log.complete(batch)
    assert first < log.written_below <= second
    flush(log)
    assert log.written_below > second
    log.close()


def test_an_open_transaction_keeps_the_bound_below_its_records() -> None:
    log = opened(SimulatedFiles())
    before = log.append(message(b"1"), [(QUEUE, 1)])
    transaction = log.begin()
    inside = log.append(message(b"2"), [(QUEUE, 2)], transaction)
    after = log.append(message(b"3"), [(QUEUE, 3)])
    flush(log)
    assert before < log.written_below <= inside
    log.commit(transaction)
    assert log.written_below > after
    log.close()


def test_what_was_recovered_can_be_read() -> None:
    files = SimulatedFiles()
    log, records = filled(files, 50)
    log.close()
    log = opened(files)
    assert log.written_below > records[-1]
    assert numbers(log, records) == list(range(1, 51))
    log.close()


def test_a_segment_that_is_compacted_meanwhile_is_read_all_along() -> None:
    files = SimulatedFiles()
    log, records = filled(files, 600)
    kept = records[::10]
    for record in records:
        if record not in kept:
            log.settle(record, QUEUE)
    flush(log)
    wanted = list(range(1, 601, 10))
    kinds = []
    for _ in range(300):
        task = log.maintenance(checkpoint=len(kinds) < 2)
        if task is None:
            break
        kinds.append(type(task).__name__)
        assert numbers(log, kept) == wanted
        task.run()
        assert numbers(log, kept) == wanted, f"during {kinds[-1]}"
        log.finish(task)
        assert numbers(log, kept) == wanted, f"after {kinds[-1]}"
        log.append(message(b"0"), [(9, len(kinds))])
        flush(log)
    assert "CompactTask" in kinds
    assert log.statistics().lost_records == 0
    log.close()


def test_descriptors_are_few_and_closed() -> None:
    files = SimulatedFiles()
    log, records = filled(files, 600)
    reader_of(log).open_files_max = 2
    assert len({record >> ORDINAL_BITS for record in records}) > 4
    assert numbers(log, records) == list(range(1, 601))
    assert reader_of(log).open_files == 2
    for record in records:
        log.settle(record, QUEUE)
    flush(log)
    for _ in range(3):
        log.append(message(b"x" * (SEGMENT // 2)), [(QUEUE, 1000)])
        flush(log)
        upkeep(log, checkpoint=True)
    assert reader_of(log).open_files == 0, "files of removed segments are closed"
    log.close()


def test_reading_ahead_asks_for_the_stretch() -> None:
    files = SimulatedFiles()
    log, records = filled(files, 30)
    log.prefetch(records[:20])
    ((offset, length),) = files.prefetched
    assert offset == log.segments[records[0] >> ORDINAL_BITS].offsets[0]
    assert length > 20 * 100
    files.fail_at = files.operations + 1
    reader_of(log).close()
    log.prefetch(records[:20])  # a hint that cannot be given is none
    log.close()


def test_many_neighbours_are_asked_for_together() -> None:
    files = SimulatedFiles()
    log = MessageLog.open(DIRECTORY, files=files, segment_bytes=1 << 20)
    records = [log.append(message(b"body"), [(QUEUE, number)]) for number in range(1, 2 * reading.TOGETHER + 11)]
    flush(log)
    log.prefetch(records)
    offsets = log.segments[records[0] >> ORDINAL_BITS].offsets
    assert files.prefetched == [(offsets[0], log.segments[records[0] >> ORDINAL_BITS].size - offsets[0])]
    log.close()


def test_a_log_in_memory_has_nothing_to_read() -> None:
    log = MemoryLog()
    assert log.written_below == 0
    with pytest.raises(NotImplementedError):
        log.read([1])
    with pytest.raises(NotImplementedError):
        log.prefetch([1])


def test_of_neighbours_it_is_known_that_no_header_has_the_octets() -> None:
    log, records = filled(SimulatedFiles(), 20)
    assert log.lack(records[:6], [[b"nowhere"]])
    assert log.lack(records[:6], [[b"header", b"nowhere"], [b"nor here"]])
    assert log.lack(records[:6], [[b"header", b"000003"]]), "it stands in a body"
    assert not log.lack(records[:6], [[b"nowhere"], [b"head", b"der"]])
    assert not log.lack([records[5], records[2]], [[b"nowhere"]]), "no neighbours: nothing is told of them"
    log.close()
