"""What both logs promise, durable or in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from annulet.store.files.errors import StoreError
from annulet.store.log.log import MessageLog
from annulet.store.log.memory import MemoryLog
from annulet.store.segments.interface import Damage, Log, sequences_as_next
from tests.store.log.test_log_tools import every_queue, flush, message, upkeep


@pytest.fixture(params=["durable", "memory"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    made: Log = (
        MessageLog.open(tmp_path / "messages", segment_bytes=1 << 16) if request.param == "durable" else MemoryLog()
    )
    yield made
    made.close()


@pytest.mark.parametrize("sealed", [False, True])
def test_a_record_lives_until_each_of_its_queues_settled(log: Log, sealed: bool) -> None:
    record = log.append(message(b"a"), [(1, 1), (2, 1)])
    if sealed:
        flush(log)
    log.settle(record, 1)
    log.settle(record, 1)
    log.settle(record, 3)
    assert log.statistics().live_records == 1
    log.settle(record, 2)
    assert log.statistics().live_records == 0
    log.settle(record, 2)
    assert log.statistics().settled == 2


def test_ids_are_positive_and_never_equal(log: Log) -> None:
    records = []
    for _ in range(50):
        records.append(log.append(message(b"a"), [(1, 1)]))
        flush(log)
    assert len(set(records)) == 50
    assert min(records) > 0
    assert records == sorted(records)


def test_settlements_of_a_transaction_wait_for_its_commit(log: Log) -> None:
    record = log.append(message(b"a"), [(1, 1)])
    flush(log)
    transaction = log.begin()
    assert transaction > 0
    log.settle(record, 1, transaction)
    assert log.statistics().live_records == 1
    assert log.statistics().open_transactions == 1
    log.commit(transaction, ("query", 4))
    assert log.statistics().live_records == 0
    assert log.outcomes == {"query": 4}


@pytest.mark.parametrize("sealed", [False, True])
def test_abort_drops_what_was_appended_and_keeps_what_was_settled(log: Log, sealed: bool) -> None:
    record = log.append(message(b"a"), [(1, 1)])
    transaction = log.begin()
    log.append(message(b"b"), [(1, 2), (2, 1)], transaction)
    log.settle(record, 1, transaction)
    if sealed:
        flush(log)
    log.abort(transaction)
    assert log.statistics().live_records == 1


@pytest.mark.parametrize("sealed", [False, True])
def test_a_forgotten_queue_holds_nothing(log: Log, sealed: bool) -> None:
    for number in range(5):
        log.append(message(b"a"), [(1, number + 1), (2, number + 1)])
        log.append(message(b"b"), [(1, number + 10)])
    if sealed:
        flush(log)
    log.forget_queue(1)
    flush(log)
    upkeep(log)
    assert log.statistics().live_records == 5
    log.forget_queue(2)
    flush(log)
    upkeep(log)
    assert log.statistics().live_records == 0


def test_wrong_use_is_refused_by_name(log: Log) -> None:
    with pytest.raises(StoreError, match="transaction 77"):
        log.append(message(b"a"), [(1, 1)], 77)
    with pytest.raises(StoreError, match="transaction 77"):
        log.settle(1, 1, 77)
    with pytest.raises(StoreError, match="transaction 77"):
        log.commit(77)
    with pytest.raises(StoreError, match="transaction 77"):
        log.abort(77)
    with pytest.raises(StoreError, match="targets"):
        log.append(message(b"a"), [])
    with pytest.raises(StoreError, match="priority: 256"):
        log.append(message(b"a", priority=256), [(1, 1)])
    with pytest.raises(StoreError, match="query id"):
        log.commit(log.begin(), ("", 1))
    assert log.statistics().live_records == 0


def test_nothing_to_do_is_said_so(log: Log) -> None:
    assert log.take_batch() is None
    log.commit(log.begin())
    assert log.take_batch() is None
    assert log.has_room(1000, 0)
    assert log.retry()
    assert list(log.recovered()) == list(log.restorable(every_queue)) == []
    assert log.clean


def test_closed_means_closed(log: Log) -> None:
    log.close()
    with pytest.raises(StoreError, match="closed"):
        log.append(message(b"a"), [(1, 1)])


def test_damage_reads_as_a_sentence() -> None:
    assert str(Damage("corrupt", 3, 64, 10)) == "10 corrupt bytes at offset 64 of segment 3"
    assert "live records" in str(Damage("missing", 3, 0, 10))


def test_next_sequence_is_one_above_the_highest() -> None:
    assert sequences_as_next({1: 4}) == {1: 5}
