from __future__ import annotations

import errno
import random

import pytest

from annulet.store.log import checkpoint as checkpoint_module
from annulet.store.log.checkpoint import checkpoint_name, checkpoint_number
from annulet.store.log.log import MessageLog
from annulet.store.log.window import LogBatch
from annulet.store.segments.records import TYPE_VOID, Record, checksum_seed, segment_identity
from annulet.store.segments.scanning import scan
from annulet.store.segments.segment import segment_name
from tests.store.log.test_log_tools import DIRECTORY, SEGMENT, flush, live, message, opened, upkeep
from tests.store.simulated_files import SimulatedFiles


def original_and_copy(padding: int) -> tuple[SimulatedFiles, LogBatch]:
    """Return files that hold a message, and a batch to write that settles it and has its copy."""
    files = SimulatedFiles()
    log = opened(files)
    original = log.append(message(b"original"), [(1, 1)])
    flush(log)
    log.append(message(b"copy" + bytes(padding)), [(2, 1)])
    log.settle(original, 1)
    batch = log.take_batch()
    assert batch is not None
    return files, batch


def test_verdict_on_a_torn_batch_holds_after_later_writes() -> None:
    """The void record: once a settlement was ignored it stays ignored, whatever was written since."""
    judged = 0
    for seed in range(80):
        files, batch = original_and_copy(900)
        for part in batch.parts:
            part.file.write(part.buffers, part.offset)
        image = files.crashed(random.Random(seed))
        second = opened(image)
        first_verdict = set(live(second))
        second.append(message(b"later"), [(1, 2)])
        flush(second)
        assert set(live(opened(image.copied()))) == first_verdict | {b"later"}, f"seed {seed}"
        judged += b"original" in first_verdict
    assert judged > 0, "some image must have been torn"


@pytest.mark.parametrize("damaged", [0, 1])
def test_verdict_on_a_torn_batch_holds_with_one_of_its_records_damaged(damaged: int) -> None:
    """It is there twice: else a flipped bit would have the settlement count, whose message is not there."""
    files, batch = original_and_copy(300)
    part = batch.parts[0]
    written = bytearray(b"".join(part.buffers))
    written[100:200] = bytes(100)
    part.file.write([bytes(written)], part.offset)
    part.file.sync()
    image = files.crashed(random.Random(1))
    second = opened(image)
    assert set(live(second)) == {b"original"}
    second.append(message(b"later"), [(1, 2)])
    flush(second)
    data = image.names_now[segment_name(1)].data
    seed = checksum_seed(1, segment_identity(bytes(data), 1)[0])
    voids = [found for found in scan(bytes(data), seed) if isinstance(found, Record) and found.type == TYPE_VOID]
    assert len(voids) == 2
    data[voids[damaged].payload] ^= 1
    third = opened(image.copied())
    assert set(live(third)) == {b"original", b"later"}
    assert (third.report.corrupt_records, third.report.torn_tails) == (1, 1), "what was torn is not called corrupt"
    upkeep(third)


def test_what_a_torn_batch_brought_is_reported_until_a_checkpoint_has_it() -> None:
    """What its messages replaced is live again: who restores them has to replace it anew, also after two deaths."""
    files = SimulatedFiles()
    log = opened(files)
    original = log.append(message(b"original"), [(1, 1)])
    flush(log)
    for sequence in (2, 3):
        log.append(message(b"%d" % sequence), [(1, sequence), (2, sequence)])
    log.settle(original, 1)
    batch = log.take_batch()
    assert batch is not None
    written = b"".join(batch.parts[0].buffers).rstrip(b"\0")[:-1]  # all but the end of the seal
    batch.parts[0].file.write([written], batch.parts[0].offset)
    image = files.crashed(random.Random(1), cut=len(written))
    second = opened(image)
    assert (sorted(live(second)), second.report.torn_messages) == ([b"2", b"3", b"original"], {1: 2, 2: 2})
    second.append(message(b"later"), [(1, 4)])
    flush(second)
    image = image.copied()
    third = opened(image)
    assert third.report.torn_messages == {1: 2, 2: 2}
    third.append(message(b"more"), [(1, 5)])
    flush(third)
    upkeep(third, checkpoint=True)
    assert opened(image.copied()).report.torn_messages == {}


def test_every_flipped_byte_is_counted_and_costs_at_most_its_own_record() -> None:
    files = SimulatedFiles()
    log = opened(files)
    for number in range(6):
        log.append(message(b"body %d" % number), [(1, number + 1)])
        if number % 2:
            flush(log)
    data = files.names_now[segment_name(1)].data
    end = len(data.rstrip(b"\0"))
    for place in range(end):
        damaged = files.copied()
        damaged.names_now[segment_name(1)].data[place] ^= 0x10
        after = opened(damaged)
        found = live(after)
        assert len(found) >= 5, f"byte {place}"
        report = after.report
        assert report.corrupt_records + report.torn_tails >= 1, f"byte {place} went unnoticed"
        assert report.damages, f"byte {place}"
        assert all(damage.segment == 1 for damage in report.damages)


def test_flips_in_a_cleanly_closed_log_are_corruption_not_tearing() -> None:
    files = SimulatedFiles()
    log = opened(files)
    for number in range(4):
        log.append(message(b"body %d" % number), [(1, number + 1)])
    log.close()
    end = len(files.names_now[segment_name(1)].data.rstrip(b"\0"))
    for place in range(64, end):
        damaged = files.copied()
        damaged.names_now[segment_name(1)].data[place] ^= 1
        after = opened(damaged)
        assert after.report.torn_tails == 0
        assert after.report.corrupt_records == 1, f"byte {place}"
        assert len(live(after)) + after.report.lost_records == 4


def test_a_record_inside_a_damaged_body_is_not_taken_for_one() -> None:
    other = SimulatedFiles()
    other._identities.seed(99)  # another log's segment
    foreign = opened(other)
    foreign.append(message(b"forged"), [(1, 1)])
    flush(foreign)
    inside = bytes(other.names_now[segment_name(1)].data[64:]).rstrip(b"\0")
    files = SimulatedFiles()
    log = opened(files)
    log.append(message(b"carrier" + inside), [(1, 1)])
    log.append(message(b"next"), [(1, 2)])
    flush(log)
    data = files.names_now[segment_name(1)].data
    data[data.index(b"carrier")] ^= 1
    assert set(live(opened(files.copied()))) == {b"next"}


def filled(files: SimulatedFiles) -> dict[bytes, int]:
    """Several segments, two checkpoints, half of the messages settled."""
    log = opened(files)
    kept = {}
    records = []
    for number in range(60):
        body = b"%03d" % number + bytes(1000)
        records.append((log.append(message(body), [(1, number + 1)]), body))
        flush(log)
        if number in (20, 40):
            upkeep(log, checkpoint=True)
    for index, (record, body) in enumerate(records):
        if index % 2:
            log.settle(record, 1)
        else:
            kept[body] = record
    flush(log)
    upkeep(log, checkpoint=True)
    return kept


def checkpoints(files: SimulatedFiles) -> list[str]:
    return sorted(name for name in files.names_now if checkpoint_number(name) is not None)


def test_a_damaged_checkpoint_falls_back_to_the_one_before() -> None:
    files = SimulatedFiles()
    kept = filled(files)
    assert len(checkpoints(files)) == 2
    files.names_now[checkpoints(files)[-1]].data[40] ^= 1
    log = opened(files.copied())
    assert log.report.checkpoint_fallback
    assert set(live(log)) == set(kept)


def test_without_any_sound_checkpoint_nothing_unsettled_is_lost() -> None:
    files = SimulatedFiles()
    kept = filled(files)
    for name in checkpoints(files):
        files.names_now[name].data[40] ^= 1
    log = opened(files.copied())
    assert log.report.checkpoint_fallback
    assert set(kept) <= set(live(log))


def test_an_open_transaction_survives_only_when_checkpoints_are_gone() -> None:
    files = SimulatedFiles()
    log = opened(files)
    transaction = log.begin()
    log.append(message(b"open"), [(1, 1)], transaction)
    flush(log)
    upkeep(log, checkpoint=True)
    assert live(opened(files.copied())) == {}
    for name in checkpoints(files):
        files.names_now[name].data[40] ^= 1
    uncertain = opened(files.copied())
    assert set(live(uncertain)) == {b"open"}
    assert uncertain.report.uncertain_transactions == 1


def test_a_missing_segment_is_reported_with_what_it_held() -> None:
    files = SimulatedFiles()
    kept = filled(files)
    held = [body for body, record in kept.items() if record >> 24 == 2]
    assert held
    del files.names_now[segment_name(2)]
    log = opened(files.copied())
    assert set(live(log)) == set(kept) - set(held)
    assert log.report.lost_records == len(held)
    assert any(damage.kind == "missing" and damage.segment == 2 for damage in log.report.damages)


def test_a_zeroed_or_cut_segment_is_reported() -> None:
    files = SimulatedFiles()
    kept = filled(files)
    held = [body for body, record in kept.items() if record >> 24 == 2]
    zeroed = files.copied()
    zeroed.names_now[segment_name(2)].data[:] = bytes(SEGMENT)
    cut = files.copied()
    del cut.names_now[segment_name(2)].data[64:]
    for damaged in (zeroed, cut):
        log = opened(damaged)
        assert set(live(log)) == set(kept) - set(held)
        assert log.report.lost_records == len(held)


def test_a_torn_tail_is_cut_and_the_log_goes_on() -> None:
    files = SimulatedFiles()
    log = opened(files)
    log.append(message(b"whole"), [(1, 1)])
    flush(log)
    log.append(message(b"torn" * 400), [(1, 2)])
    batch = log.take_batch()
    assert batch is not None
    torn = b"".join(batch.parts[0].buffers)[:900]  # longer than what is written over it later
    batch.parts[0].file.write([torn], batch.parts[0].offset)
    image = files.crashed(random.Random(1), cut=900)
    after = opened(image)
    assert after.report.torn_tails == 1
    assert after.report.torn_messages == {}
    assert after.report.corrupt_records == 0
    assert not after.clean
    after.append(message(b"more"), [(1, 3)])
    flush(after)
    last = opened(image.copied())
    assert set(live(last)) == {b"whole", b"more"}
    assert last.report.damages == []


def test_a_segment_whose_header_was_torn_is_emptied_for_good() -> None:
    """A later start has a checkpoint that lies behind it, and would take what is left of it for damage."""
    files = SimulatedFiles()
    log = opened(files)
    log.append(message(b"whole"), [(1, 1)])
    flush(log)
    upkeep(log)
    for number in range(20):
        log.append(message(b"torn" * 250), [(1, 2 + number)])
    batch = log.take_batch()
    assert batch is not None
    _, rolled = batch.parts
    rolled.file.write([bytes(64), b"".join(rolled.buffers)[64:900]], 0)  # without its first sector
    rolled.file.sync()
    files.sync_directory(DIRECTORY)
    image = files.crashed(random.Random(1))
    again = opened(image)
    assert (again.report.torn_tails, again.report.corrupt_records) == (1, 0)
    again.close()
    for later in (image.copied(), image.crashed(random.Random(2))):
        last = opened(later)
        assert set(live(last)) == {b"whole"}
        assert last.report.damages == []


def test_progress_is_told_after_each_segment() -> None:
    from annulet.store.log.log import MessageLog

    files = SimulatedFiles()
    filled(files)
    seen = []
    MessageLog.open(DIRECTORY, files=files.copied(), segment_bytes=SEGMENT, progress=seen.append)
    assert [each.segments_done for each in seen] == sorted(each.segments_done for each in seen)
    assert seen[-1].segments_done == seen[-1].segments_total
    totals = [each.bytes for each in seen]
    assert totals == sorted(totals)
    assert totals[-1] > SEGMENT, "bytes are a total"
    assert set(seen[-1].as_dict()) == {"segments_done", "segments_total", "records", "bytes"}
    shares = [each.share for each in seen]
    assert shares == sorted(shares)
    assert (shares[0] > 0, shares[-1]) == (True, 1.0)


def test_checkpoint_names_sort_by_number() -> None:
    assert [checkpoint_number(checkpoint_name(number)) for number in (1, 99, 10**11)] == [1, 99, 10**11]
    assert checkpoint_number("checkpoint-1.unfinished") is None


def test_the_checkpoint_before_still_finds_the_settlements_it_needs() -> None:
    """Segments go only when both kept checkpoints cover them: the older one needs the settlements in between."""
    files = SimulatedFiles()
    log = opened(files)
    records = [log.append(message(b"%02d" % number + bytes(1000)), [(1, number + 1)]) for number in range(30)]
    flush(log)
    upkeep(log, checkpoint=True)
    older = checkpoints(files)
    for record in records:
        log.settle(record, 1)
    flush(log)
    for number in range(40):  # the segment with the settlements is full, and dead, when the next checkpoint is taken
        record = log.append(message(bytes(1000) + b"%d" % number), [(2, number + 1)])
        flush(log)
        log.settle(record, 2)
    flush(log)
    upkeep(log, checkpoint=True)
    newer = [name for name in checkpoints(files) if name not in older]
    assert len(newer) == 1
    files.names_now[newer[0]].data[40] ^= 1
    fallen_back = opened(files.copied())
    assert fallen_back.report.checkpoint_fallback
    assert live(fallen_back) == {}, "settled messages came back"
    assert fallen_back.report.damages == []


def test_a_torn_write_is_never_called_corruption_later() -> None:
    """The verdict holds after later writes, checkpoints and a clean stop, in one segment or several."""
    torn = 0
    for seed in range(80):
        chance = random.Random(seed)
        files = SimulatedFiles()
        log = opened(files)
        for number in range(chance.randrange(1, 14)):
            log.append(message(b"%d" % number + bytes(1000)), [(1, number + 1)])
        flush(log)
        for number in range(20, 20 + chance.randrange(1, 20)):
            log.append(message(b"%d" % number + bytes(chance.choice([100, 1000]))), [(1, number + 1)])
        batch = log.take_batch()
        assert batch is not None
        for part in batch.parts:
            part.file.write(part.buffers, part.offset)
        image = files.crashed(chance)
        after = opened(image)
        torn += after.report.torn_tails
        assert after.report.corrupt_records == 0, f"seed {seed}"
        after.append(message(b"more"), [(1, 100)])
        flush(after)
        assert opened(image.copied()).report.corrupt_records == 0, f"seed {seed}"
        after.close()
        assert opened(image.copied()).report.corrupt_records == 0, f"seed {seed}, closed"
    assert torn > 40, "the images must be torn"


def test_a_queue_that_came_back_keeps_what_it_took_since() -> None:
    """The catalogue may fail to delete a queue: it comes back with its id, and must lose only what it held then."""
    files = SimulatedFiles()
    log = opened(files)
    log.append(message(b"before"), [(1, 1)])
    log.append(message(b"other"), [(2, 1)])
    flush(log)
    log.forget_queue(1)
    flush(log)
    again = opened(files)
    assert set(live(again)) == {b"other"}
    again.append(message(b"after"), [(1, 1)])
    flush(again)
    assert set(live(opened(files.copied()))) == {b"other", b"after"}


def test_a_discarded_range_is_settled_for_its_queue_and_no_other() -> None:
    files = SimulatedFiles()
    log = opened(files)
    targets = [[(1, 1)], [(2, 1)], [(1, 2), (2, 2)], [(1, 3)], [(1, 4)]]
    records = [log.append(message(b"%d" % number), pair) for number, pair in enumerate(targets)]
    flush(log)
    assert log.written_below > records[-1]
    log.discard(1, [(records[0], records[3])])
    assert set(live(opened(files.copied()))) == {b"0", b"1", b"2", b"3", b"4"}
    flush(log)
    for held in (files.copied(), files.copied()):
        found = live(opened(held))
        assert found == {b"1": [(2, 1)], b"2": [(2, 2)], b"4": [(1, 4)]}
    upkeep(log)
    assert log.statistics().live_records == 3
    log.hold_sweeps()
    log.discard(2, [(records[0], records[4])])
    flush(log)
    assert "SweepTask" not in upkeep(log, checkpoint=True)
    assert log.statistics().live_records == 3
    assert set(live(opened(files.copied()))) == {b"4"}
    log.release_sweeps()
    assert "SweepTask" in upkeep(log)
    assert log.statistics().live_records == 1


@pytest.mark.parametrize("damaged", [False, True], ids=["sound", "damaged"])
@pytest.mark.parametrize("purged", [True, False], ids=["purged", "deleted"])
@pytest.mark.parametrize("others", [False, True], ids=["removed", "compacted"])
def test_what_a_sweep_freed_before_a_crash_is_not_reported_as_lost(others: bool, purged: bool, damaged: bool) -> None:
    """Also not where the newest checkpoint is ``damaged``: the one before it does not know better."""
    files = SimulatedFiles()
    log = opened(files)
    kept = {b"%d" % number + bytes(500) for number in range(100) if others and number % 10 == 0}
    records = _alternating(log, kept)
    if purged:
        log.discard(1, [(records[0], records[-1])])
    else:
        log.forget_queue(1)
    flush(log)
    assert ("CompactTask" if others else "RemoveTask") in upkeep(log)
    _assert_nothing_is_lost(files, kept, damaged=damaged)


@pytest.mark.parametrize("purged", [True, False], ids=["purged", "deleted"])
@pytest.mark.parametrize("others", [False, True], ids=["removed", "compacted"])
def test_what_a_full_disk_lets_go_before_a_checkpoint_knows_is_not_reported_as_lost(
    others: bool, purged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkpoint fails, so what was swept goes without; then the newest one turns out to be damaged."""
    files = SimulatedFiles()
    log = opened(files)
    kept = {b"%d" % number + bytes(500) for number in range(100) if others and number % 10 == 0}
    records = _alternating(log, kept)

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    if purged:
        log.discard(1, [(records[0], records[-1])])
    else:
        log.forget_queue(1)
    flush(log)
    with monkeypatch.context() as patched:
        patched.setattr(checkpoint_module, "write_durably", refuse)
        upkeep(log)
    for _ in range(20):
        task = log.maintenance()
        assert task is not None
        task.run()
        log.finish(task)
        if type(task).__name__ == ("CompactTask" if others else "RemoveTask"):
            break
    _assert_nothing_is_lost(files, kept, damaged=True)


def _alternating(log: MessageLog, kept: set[bytes]) -> list[int]:
    records = []
    for number in range(100):
        body = b"%d" % number + bytes(500)
        records.append(log.append(message(body), [(2 if body in kept else 1, number + 1)]))
        flush(log)
    for body in (b"x", b"y"):  # both checkpoints that are kept know the records
        log.append(message(body), [(2, 1000)])
        flush(log)
        upkeep(log, checkpoint=True)
    return records


def _assert_nothing_is_lost(files: SimulatedFiles, kept: set[bytes], *, damaged: bool) -> None:
    copy = files.copied()
    if damaged:
        copy.names_now[max(name for name in copy.names_now if checkpoint_number(name))].data[20] ^= 1
    after = opened(copy)
    assert after.report.checkpoint_fallback is damaged
    assert (after.report.lost_records, after.report.damages) == (0, [])
    assert kept <= set(live(after))


def test_an_unfinished_sweep_in_a_checkpoint_ends_at_the_checkpoint() -> None:
    files = SimulatedFiles()
    log = opened(files)
    upkeep(log)
    log.append(message(b"before"), [(1, 1)])
    flush(log)
    log.forget_queue(1)
    flush(log)
    task = log.maintenance(checkpoint=True)
    assert type(task).__name__ == "CheckpointTask"
    assert task is not None
    task.run()
    log.finish(task)
    again = opened(files)
    again.append(message(b"after"), [(1, 1)])
    flush(again)
    assert set(live(opened(files.copied()))) == {b"after"}
