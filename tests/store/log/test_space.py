"""A full disk, and every file operation failing once."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from annulet.store.files.errors import DiskFullError, LogFailedError, StoreError
from annulet.store.log.log import MessageLog
from annulet.store.segments.records import RECORD_BYTES_MAX
from tests.store.log.test_log_tools import SEGMENT, flush, live, message, opened, upkeep
from tests.store.simulated_files import SimulatedFiles

CAPACITY = (1 << 20) + 6 * SEGMENT  # the ballast and six segments


def fill(log: MessageLog) -> list[int]:
    records = []
    while log.has_room(1000, 0):
        records.append(log.append(message(b"%04d" % len(records) + bytes(996)), [(1, len(records) + 1)]))
        flush(log)
        upkeep(log)
        assert len(records) < 1000, "the disk never got full"
    return records


def test_a_full_disk_refuses_publishes_and_goes_on_settling_until_there_is_room() -> None:
    files = SimulatedFiles(CAPACITY)
    log = opened(files)
    records = fill(log)
    assert log.statistics().disk_full
    with pytest.raises(DiskFullError, match="free space"):
        log.append(message(bytes(SEGMENT)), [(1, 1)])
    for record in records:
        log.settle(record, 1)
        flush(log)
    assert log.statistics().live_records == 0
    for _ in range(6):
        upkeep(log)
        flush(log)
    assert log.has_room(1000, 10_000)
    log.append(message(b"again"), [(1, 999)])
    flush(log)
    assert set(live(opened(files.copied()))) == {b"again"}


def test_the_disk_is_asked_again_once_a_second_and_on_demand() -> None:
    files = SimulatedFiles(CAPACITY)
    log = opened(files)
    fill(log)
    files.capacity = 1 << 40
    assert not log.has_room(1000, 999)
    assert log.has_room(1000, 1000)
    assert not log.statistics().disk_full
    files = SimulatedFiles(CAPACITY)
    log = opened(files)
    fill(log)
    assert not log.retry()
    files.capacity = 1 << 40
    assert log.retry()


def test_a_message_larger_than_a_segment_gets_its_own() -> None:
    files = SimulatedFiles()
    log = opened(files)
    body = bytes(range(256)) * 1024
    assert log.has_room(len(body), 0)
    log.append(message(b"before"), [(1, 1)])
    log.append(message(body), [(1, 2)])
    log.append(message(b"after"), [(1, 3)])
    flush(log)
    assert list(live(opened(files.copied()))) == [b"before", body, b"after"]


def traffic(files: SimulatedFiles, done: set[bytes], sent: set[bytes]) -> None:
    """Write, settle, checkpoint and close; note what was completed."""
    log = opened(files)
    settled: list[tuple[int, bytes]] = []
    for number in range(30):
        body = b"%03d" % number + bytes(1000)
        sent.add(body)
        record = log.append(message(body), [(1, number + 1)])
        if number % 3 == 0:
            settled.append((record, body))
        flush(log)
        done.add(body)
        if number % 10 == 9:
            for old, gone in settled:
                done.discard(gone)
                log.settle(old, 1)
            flush(log)
            settled.clear()
            upkeep(log, checkpoint=True)
    log.close()


@pytest.mark.parametrize("kind", [errno.EIO, errno.ENOSPC])
def test_each_file_operation_fails_once(kind: int) -> None:
    """Whatever fails: a clear error or none, nothing completed is lost, and the next start works."""
    counting = SimulatedFiles()
    traffic(counting, set(), set())
    operations = set()
    refusals: list[str] = []
    for place in range(1, counting.operations + 1):
        files = SimulatedFiles()
        files.fail_at, files.fail_with = place, kind
        done: set[bytes] = set()
        sent: set[bytes] = set()
        try:
            traffic(files, done, sent)
        except StoreError as error:
            refusals.append(str(error))
        operations.add(files.failed_operation)
        found = set(live(opened(files.copied())))
        assert done <= found <= sent, f"{files.failed_operation} at {place}"
    assert all("; " in text for text in refusals), "an error without its remedy"
    assert {"write", "sync", "allocate", "rename", "sync_directory", "remove", "open", "truncate"} <= operations


def test_a_spare_that_cannot_be_put_in_place_fails_the_log() -> None:
    """A ring lets its oldest go before the record of the newest asks for room: neither may reach the disk then."""
    files = SimulatedFiles()
    log = opened(files)
    record = log.append(message(b"confirmed"), [(1, 1)])
    flush(log)
    assert "SpareTask" in upkeep(log)
    log.settle(record, 1)
    with pytest.raises(LogFailedError, match="restart"):  # noqa: PT012 - which of them it is does not matter
        for number in range(40):
            assert log.has_room(1000, 0)
            files.fail_at = files.operations + 1
            log.append(message(bytes(1000)), [(1, 2 + number)])
    assert files.failed_operation == "rename"
    assert log.statistics().failed
    assert not log.has_room(1, 0)
    with pytest.raises(LogFailedError, match="put segment"):
        log.take_batch()
    assert log.maintenance() is None
    log.close()
    assert set(live(opened(files.copied()))) == {b"confirmed"}


@pytest.mark.parametrize("operation", ["write", "sync"])
def test_a_failed_write_is_never_tried_again(operation: str) -> None:
    files = SimulatedFiles()
    log = opened(files)
    upkeep(log)
    log.append(message(b"first"), [(1, 1)])
    flush(log)
    log.append(message(b"second"), [(1, 2)])
    batch = log.take_batch()
    assert batch is not None
    log.append(message(b"third"), [(1, 3)])
    following = log.take_batch()
    assert following is not None
    files.fail_at = files.operations + (1 if operation == "write" else 2)
    with pytest.raises(LogFailedError, match="restart"):
        log.write(batch)
    assert files.failed_operation == operation
    with pytest.raises(LogFailedError, match="earlier write failed"):
        log.write(following)
    with pytest.raises(LogFailedError):
        log.append(message(b"fourth"), [(1, 4)])
    assert not log.has_room(1, 0)
    assert log.maintenance() is None
    assert log.statistics().failed
    log.close()
    after = opened(files.copied())
    assert not after.clean
    assert set(live(after)) == {b"first"}


def test_room_for_a_huge_transaction_is_not_one_huge_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Offsets in a segment have 32 bits."""
    asked: list[int] = []

    def allocate_file(path: Path, size: int, files: SimulatedFiles) -> object:
        asked.append(size)
        return files.open(path, create=True)

    log = opened(SimulatedFiles())
    monkeypatch.setattr("annulet.store.log.space.allocate_file", allocate_file)
    assert log.has_room(5 << 30, 0)
    assert RECORD_BYTES_MAX <= asked[0] < 1 << 32
    assert log.has_room(5 << 30, 0)
    assert len(asked) == 1, "it is there already"


def test_deferred_settlements_are_told_until_a_checkpoint_has_them() -> None:
    files = SimulatedFiles(CAPACITY)
    log = opened(files)
    records = fill(log)
    seen = False
    for record in records:
        log.settle(record, 1)
        flush(log)
        seen = seen or log.deferring
    assert seen, "the reserve is used up"
    upkeep(log)
    assert not log.deferring
    assert live(opened(files.copied())) == {}


@pytest.mark.parametrize("purged", [True, False], ids=["purged", "deleted"])
def test_what_is_purged_on_a_full_disk_is_told_to_be_deferred_until_a_checkpoint_has_it(purged: bool) -> None:
    files = SimulatedFiles(CAPACITY)
    log = opened(files)
    records = fill(log)
    kept = records.pop()
    while log._sealer._room() > 0 and len(records) > 2:  # so that not even the few bytes of a purge find room
        log.settle(records.pop(), 1)
        flush(log)
    flush(log)
    waiting = log.maintenance(checkpoint=True)  # taken before the purge: it knows nothing of it
    if purged:
        log.discard(1, [(records[0], records[-1])])
    else:
        log.forget_queue(1)
    flush(log)
    assert log.deferring
    assert waiting is not None
    waiting.run()
    log.finish(waiting)
    assert log.deferring, "only a checkpoint that was taken afterwards counts"
    upkeep(log, checkpoint=True)
    assert not log.deferring
    after = opened(files.copied())
    left = [found.record for found in after.recovered()]
    assert left == ([kept] if purged else [])


def test_a_checkpoint_wanted_in_a_cancelled_window_is_not_forgotten() -> None:
    log = opened(SimulatedFiles())
    upkeep(log)
    log.append(message(b"kept"), [(1, 1)])
    flush(log)
    record = log.append(message(b"cancelled"), [(1, 2)])
    assert log.maintenance(checkpoint=True) is None  # wanted: taken when the window is sealed
    log.settle(record, 1)
    assert log.take_batch() is None  # never sealed
    assert upkeep(log) == ["CheckpointTask"]


# ------------------------------------------------------------------ room for a transaction


def stuff(log: MessageLog, transaction: int = 0) -> int:
    """Append while the log takes anything. Returns how many it took."""
    count = 0
    try:
        while True:
            log.append(message(b"s%04d" % count), [(1, 10_000 + count)], transaction)
            count += 1
    except DiskFullError:
        return count


SMALL = [message(b"first"), message(b"second")]


@pytest.mark.parametrize("others", ["before the next window", "behind the next window"])
def test_what_was_promised_to_a_transaction_is_not_refused_when_others_have_filled_the_disk(others: str) -> None:
    files = SimulatedFiles(CAPACITY)
    log = opened(files)
    fill(log)
    settled = log.append(message(b"settled"), [(1, 5000)])
    flush(log)
    transaction = log.begin()
    log.promise(transaction, [(sent, 1) for sent in SMALL], 3)
    if others == "behind the next window":
        log.append(message(b"of others"), [(1, 5001)])
        flush(log)
    assert stuff(log)
    for number, sent in enumerate(SMALL):
        log.append(sent, [(2, number + 1)], transaction)
    log.settle(settled, 1, transaction)
    log.commit(transaction)
    flush(log)
    found = live(opened(files.copied()))
    assert {b"first", b"second"} <= set(found)
    assert b"settled" not in found


def test_a_promise_goes_along_to_the_next_segment() -> None:
    files = SimulatedFiles(CAPACITY)
    log = opened(files)
    transaction = log.begin()
    log.promise(transaction, [(sent, 1) for sent in SMALL], 0)
    before = log.statistics().segments
    fill(log)
    assert log.statistics().segments > before
    assert stuff(log)
    for number, sent in enumerate(SMALL):
        log.append(sent, [(2, number + 1)], transaction)
    log.commit(transaction)
    flush(log)
    assert {b"first", b"second"} <= set(live(opened(files.copied())))


@pytest.mark.parametrize(("bytes_of_one", "targets", "settlements"), [(3000, 1, 0), (10, 400, 0), (10, 1, 400)])
def test_a_promise_without_room_is_refused_and_takes_none(bytes_of_one: int, targets: int, settlements: int) -> None:
    """Records, their targets, and settlements count."""
    log = opened(SimulatedFiles(CAPACITY))
    fill(log)
    transaction = log.begin()
    with pytest.raises(DiskFullError, match="free space"):
        log.promise(transaction, [(message(bytes(bytes_of_one)), targets), (message(bytes(3000)), 1)], settlements)
    log.abort(transaction)
    transaction = log.begin()
    log.promise(transaction, [(message(b"small"), 1)], 1)
    log.abort(transaction)
    left = stuff(log)
    same = opened(SimulatedFiles(CAPACITY))
    fill(same)
    assert left == stuff(same)


def test_room_that_a_commit_did_not_use_is_for_others() -> None:
    log, same = opened(SimulatedFiles(CAPACITY)), opened(SimulatedFiles(CAPACITY))
    for each in (log, same):
        fill(each)
    transaction = log.begin()
    log.promise(transaction, [(sent, 1) for sent in SMALL], 50)
    log.commit(transaction)
    assert stuff(log) == stuff(same)


def test_a_write_that_fails_behind_a_promise_fails_the_batch_and_not_the_commit() -> None:
    """The messages are on their way to consumers then: as of every window that the disk does not take."""
    files = SimulatedFiles()
    log = opened(files)
    log.append(message(b"x"), [(1, 1)])
    batch = log.take_batch()
    assert batch is not None
    transaction = log.begin()
    log.promise(transaction, [(SMALL[0], 1)], 1)
    files.fail_at = files.operations + 1
    with pytest.raises(LogFailedError):
        log.write(batch)
    log.append(SMALL[0], [(1, 2)], transaction)
    log.commit(transaction)
    with pytest.raises(LogFailedError):
        log.take_batch()
    with pytest.raises(LogFailedError):
        log.append(SMALL[1], [(1, 3)])
    transaction = log.begin()
    with pytest.raises(LogFailedError):
        log.promise(transaction, [(SMALL[1], 1)], 0)


def test_a_promise_asks_for_all_that_an_append_asks_for() -> None:
    log = opened(SimulatedFiles())
    transaction = log.begin()
    with pytest.raises(StoreError, match="targets"):
        log.promise(transaction, [(message(b"x"), 1 << 16)], 0)
    with pytest.raises(StoreError, match="priority"):
        log.promise(transaction, [(message(b"x", priority=256), 1)], 0)


def test_only_what_was_promised_takes_from_the_promise() -> None:
    """A dead letter of the transaction comes on top, and must not take the room of the commit."""
    log = opened(SimulatedFiles(CAPACITY))
    fill(log)
    transaction = log.begin()
    log.promise(transaction, [(SMALL[0], 1)], 10)
    assert stuff(log, transaction)
    log.append(SMALL[0], [(1, 1)], transaction)
    with pytest.raises(DiskFullError):
        log.append(SMALL[0], [(1, 2)], transaction)
    log.commit(transaction)
