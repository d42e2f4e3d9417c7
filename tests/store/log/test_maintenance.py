from __future__ import annotations

import errno

from annulet.store.log.checkpoint import checkpoint_number
from annulet.store.log.log import MessageLog
from annulet.store.log.upkeep import CompactTask, RemoveTask
from annulet.store.segments.records import ORDINAL_BITS
from annulet.store.segments.segment import segment_name, segment_number
from tests.store.log.test_log_tools import flush, live, message, opened, reader_of, space_of, upkeep
from tests.store.simulated_files import SimulatedFiles


def segments(files: SimulatedFiles) -> list[int]:
    return sorted(number for name in files.names_now if (number := segment_number(name)) is not None)


def test_a_checkpoint_waits_for_the_batch_it_describes() -> None:
    files = SimulatedFiles()
    log = opened(files)
    upkeep(log)
    log.append(message(b"a"), [(1, 1)])
    flush(log)
    log.append(message(b"b"), [(1, 2)])
    assert log.maintenance(checkpoint=True) is None  # the window is open: the picture is taken when it is sealed
    batch = log.take_batch()
    assert batch is not None
    assert log.maintenance() is None  # sealed, not durable
    log.write(batch)
    log.complete(batch)
    assert upkeep(log) == ["CheckpointTask"]
    assert log.statistics().checkpoints == 1


def test_a_checkpoint_that_is_not_due_is_not_written() -> None:
    log = opened(SimulatedFiles())
    assert "CheckpointTask" not in upkeep(log, checkpoint=True)
    log.append(message(b"a"), [(1, 1)])
    flush(log)
    assert "CheckpointTask" not in upkeep(log)
    assert "CheckpointTask" in upkeep(log, checkpoint=True)


def filled(log: MessageLog, count: int = 60) -> list[int]:
    """Write ``count`` messages of 1 KB to some segments of 16 KiB; return their records."""
    records = [log.append(message(bytes(1000) + b"%d" % number), [(1, number + 1)]) for number in range(count)]
    flush(log)
    return records


def test_an_idle_log_gives_everything_back_and_then_writes_nothing() -> None:
    """Asked time after time, as by a clock: nobody publishes any more, so bytes never ask for a checkpoint."""
    files = SimulatedFiles()
    log = opened(files)
    records = filled(log)
    assert len(segments(files)) > 3
    for record in records[1:]:
        log.settle(record, 1)
    flush(log)
    kinds = [upkeep(log, checkpoint=True) for _ in range(2)]
    assert "RemoveTask" in kinds[1]
    assert "CompactTask" in kinds[1]
    assert segments(files)[:1] == [1]
    assert len(segments(files)) == 2, "the one that holds the first message, and the open one"
    assert len(files.names_now[segment_name(1)].data) < 2000
    before = files.operations
    assert upkeep(log, checkpoint=True) == []
    assert files.operations == before
    assert len(live(opened(files.copied()))) == 1


def test_the_last_descriptor_of_a_segment_is_closed_before_its_file_is_removed() -> None:
    """Else the event loop would close it, and wait until all of its pages are given back."""
    log = opened(SimulatedFiles())
    records = filled(log)
    assert log.read(records[:3])[0] is not None
    assert reader_of(log).open_files == 1
    for record in records:
        log.settle(record, 1)
    flush(log)
    upkeep(log, checkpoint=True)
    task = log.maintenance(checkpoint=True)
    while task is not None and not isinstance(task, RemoveTask):
        task.run()
        log.finish(task)
        task = log.maintenance()
    assert task is not None
    assert reader_of(log).open_files == 0


def test_segments_a_start_finds_dead_go_without_new_traffic() -> None:
    files = SimulatedFiles()
    log = opened(files)
    for record in filled(log):
        log.settle(record, 1)
    flush(log)
    again = opened(files.copied())
    assert isinstance(space_of(again).files, SimulatedFiles)
    for _ in range(2):
        upkeep(again, checkpoint=True)
    assert len(segments(space_of(again).files)) == 1
    assert upkeep(again, checkpoint=True) == []


def test_a_dead_segment_the_end_of_the_log_lies_in_asks_for_no_checkpoint() -> None:
    """Nothing was sealed behind it yet, so no checkpoint could cover it, however many were written."""
    files = SimulatedFiles()
    log = opened(files)
    records = filled(log, 10)
    for record in records:
        log.settle(record, 1)
    flush(log)
    upkeep(log, checkpoint=True)
    cancelled = [log.append(message(bytes(4000)), [(1, 100 + number)]) for number in range(4)]
    assert cancelled[-1] >> 24 > records[-1] >> 24, "the window goes on in the next segment"
    for record in cancelled:
        log.settle(record, 1)
    kinds = [upkeep(log, checkpoint=True).count("CheckpointTask") for _ in range(4)]
    assert kinds[1:] == [0, 0, 0], kinds


def test_a_request_waits_for_the_checkpoints_turn() -> None:
    log = opened(SimulatedFiles())
    filled(log, 1)
    first = log.maintenance()
    assert first is not None
    assert log.maintenance(checkpoint=True) is None  # one task at a time
    first.run()
    log.finish(first)
    assert "CheckpointTask" in upkeep(log)


def test_one_task_at_a_time() -> None:
    log = opened(SimulatedFiles())
    task = log.maintenance()
    assert task is not None
    assert log.maintenance() is None
    task.run()
    log.finish(task)


def test_dead_segments_go_once_both_kept_checkpoints_cover_them() -> None:
    files = SimulatedFiles()
    log = opened(files)
    records = []
    for number in range(60):
        records.append(log.append(message(bytes(1000) + b"%d" % number), [(1, number + 1)]))
        flush(log)
    upkeep(log, checkpoint=True)
    before = segments(files)
    for record in records:
        log.settle(record, 1)
    flush(log)
    upkeep(log, checkpoint=True)
    assert segments(files)[-1] == before[-1]
    log.append(message(b"last"), [(1, 100)])
    flush(log)
    upkeep(log, checkpoint=True)
    assert len(segments(files)) <= 2
    assert len([name for name in files.names_now if checkpoint_number(name)]) == 2
    assert set(live(opened(files.copied()))) == {b"last"}


def test_compaction_keeps_ids_and_frees_space() -> None:
    files = SimulatedFiles()
    log = opened(files)
    kept = {}
    for number in range(60):
        body = b"%02d" % number + bytes(1000)
        targets = [(1, number + 1), (2, number + 1)] if number % 14 == 0 else [(1, number + 1)]
        record = log.append(message(body), targets)
        flush(log)
        if number % 14 == 0:
            kept[body] = (record, [(2, number + 1)])
        log.settle(record, 1)
    flush(log)
    size = sum(len(files.names_now[segment_name(number)].data) for number in segments(files)[:4])
    for round_number in range(3):
        log.append(message(b"round %d" % round_number), [(3, round_number + 1)])
        flush(log)
        upkeep(log, checkpoint=True)
    assert log.statistics().compactions > 0
    assert sum(len(files.names_now[segment_name(number)].data) for number in segments(files)[:4]) < size // 4
    found = {each.body: (each.record, each.targets) for each in opened(files.copied()).recovered()}
    assert {body: found[body] for body in kept} == kept


def test_records_of_an_open_transaction_are_not_compacted() -> None:
    files = SimulatedFiles()
    log = opened(files)
    transaction = log.begin()
    log.append(message(b"open"), [(1, 1)], transaction)
    for number in range(60):
        log.settle(log.append(message(bytes(1000)), [(1, number + 2)]), 1)
        record = log.append(message(bytes(1000)), [(1, number + 100)])
        flush(log)
        log.settle(record, 1)
    for number in range(3):
        log.append(message(b"%d" % number), [(2, number + 1)])
        flush(log)
        upkeep(log, checkpoint=True)
    assert b"open" not in live(opened(files.copied()))
    log.commit(transaction)
    flush(log)
    assert b"open" in live(opened(files.copied()))


def test_failing_upkeep_is_counted_and_does_not_stop_the_log() -> None:
    files = SimulatedFiles()
    log = opened(files)
    task = log.maintenance()
    assert task is not None
    files.fail_at = files.operations + 1
    task.run()
    assert task.error is not None
    log.finish(task)
    assert log.statistics().maintenance_errors == 1
    log.append(message(b"a"), [(1, 1)])
    flush(log)
    assert set(live(opened(files.copied()))) == {b"a"}


def test_a_forgotten_queue_stays_forgotten_before_and_after_the_sweep() -> None:
    files = SimulatedFiles()
    log = opened(files)
    for number in range(20):
        log.append(message(b"%02d" % number), [(1, number + 1), (2, number + 1)] if number % 2 else [(1, number + 1)])
    flush(log)
    log.forget_queue(1)
    flush(log)
    half = {b"%02d" % number for number in range(1, 20, 2)}
    assert set(live(opened(files.copied()))) == half
    upkeep(log, checkpoint=True)
    after = opened(files.copied())
    assert set(live(after)) == half
    assert 1 not in after.next_sequences
    assert segment_name(1) in files.names_now


def test_compaction_of_a_segment_ends() -> None:
    """What is left after compaction counts as live, however many ordinals the segment once gave out."""
    files = SimulatedFiles()
    log = opened(files)
    records = [log.append(message(bytes(40)), [(1, number + 1)]) for number in range(400)]
    flush(log)
    for number, record in enumerate(records):
        if number % 5:
            log.settle(record, 1)
    flush(log)
    kinds = []
    for number in range(4):
        log.append(message(b"%d" % number + bytes(15_000)), [(2, number + 1)])
        flush(log)
        kinds += upkeep(log, checkpoint=True)
    assert 0 < kinds.count("CompactTask") <= len({record >> 24 for record in records})  # each once
    again = opened(files.copied())
    assert len(live_records(again)) == 84
    assert "CompactTask" not in upkeep(again, checkpoint=True)


def in_delivery(log: MessageLog, left: int) -> list[int]:
    """Settle all but ``left`` of the first segment's messages, the last of which are on their way; return these."""
    records = filled(log)
    for number in range(2):  # both checkpoints that are kept are behind the segment
        log.append(message(b"more"), [(3, number + 1)])
        flush(log)
        upkeep(log, checkpoint=True)
    first = [record for record in records if record >> ORDINAL_BITS == records[0] >> ORDINAL_BITS]
    for record in first[:-left]:
        log.settle(record, 1)
    return first[-left:]


def test_a_segment_that_consumers_are_about_to_empty_is_not_compacted() -> None:
    log = opened(SimulatedFiles())
    for record in in_delivery(log, 3):
        assert "CompactTask" not in upkeep(log), "somebody settles at this moment"
        flush(log)
        log.settle(record, 1)
    flush(log)
    assert "RemoveTask" in upkeep(log)
    assert log.statistics().compactions == 0


def test_a_segment_that_nobody_empties_is_compacted_though_others_settle() -> None:
    log = opened(SimulatedFiles())
    left = in_delivery(log, 3)
    assert "CompactTask" not in upkeep(log)
    log.append(message(b"keeps the log busy"), [(2, 1)])
    assert "CompactTask" not in upkeep(log), "what was settled is not on disk"
    flush(log)
    log.append(message(b"keeps the log busy"), [(2, 2)])
    assert "CompactTask" in upkeep(log)
    assert set(left) <= set(live_records(log))


def test_a_compaction_that_found_no_space_is_tried_again_after_a_checkpoint() -> None:
    files = SimulatedFiles()
    log = opened(files)
    records = [log.append(message(bytes(900) + b"%d" % number), [(1, number + 1)]) for number in range(40)]
    flush(log)
    for record in records[1:]:
        log.settle(record, 1)
    flush(log)
    upkeep(log, checkpoint=True)
    log.append(message(b"filler"), [(2, 1)])
    flush(log)
    task = log.maintenance(checkpoint=True)
    while not isinstance(task, CompactTask):
        assert task is not None
        task.run()
        log.finish(task)
        task = log.maintenance()
    files.capacity = files.used
    task.run()
    log.finish(task)
    assert task.error is not None
    assert task.error.errno == errno.ENOSPC
    assert "CompactTask" not in upkeep(log)
    files.capacity = 1 << 40
    log.append(message(b"more"), [(2, 2)])
    flush(log)
    assert "CompactTask" in upkeep(log, checkpoint=True)


def live_records(log: MessageLog) -> list[int]:
    return [found.record for found in log.recovered()]
