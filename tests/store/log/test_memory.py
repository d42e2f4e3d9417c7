"""What only the log in memory does; what both do is in test_interface."""

from __future__ import annotations

import pytest

from annulet.store.files.errors import StoreError
from annulet.store.log.memory import MemoryLog
from annulet.store.segments.interface import Batch, MaintenanceTask
from tests.store.log.test_log_tools import message


def test_confirms_need_not_wait() -> None:
    log = MemoryLog()
    log.append(message(b"a"), [(1, 1)])
    assert log.take_batch() is None
    assert log.maintenance(checkpoint=True) is None


def test_nothing_is_kept_of_settled_records() -> None:
    log = MemoryLog()
    for number in range(100):
        record = log.append(message(b"a"), [(1, number), (2, number)])
        log.settle(record, 1)
        log.settle(record, 2)
    assert log.empty


def test_batches_and_tasks_of_other_logs_are_refused() -> None:
    log = MemoryLog()
    with pytest.raises(StoreError, match="batch 4"):
        log.write(Batch(4, 0))
    with pytest.raises(StoreError, match="batch 4"):
        log.complete(Batch(4, 0))
    with pytest.raises(StoreError, match="MaintenanceTask"):
        log.finish(MaintenanceTask())


def test_the_next_record_is_above_all_that_were_given() -> None:
    log = MemoryLog()
    first = log.next_record
    assert log.append(message(b"a"), [(1, 1)]) == first
    assert log.next_record == first + 1


def test_a_commit_settles_each_record_once_for_each_of_its_queues() -> None:
    log = MemoryLog()
    own = log.append(message(b"a"), [(1, 1)])
    shared = log.append(message(b"b"), [(1, 2), (2, 1)])
    transaction = log.begin()
    for record in (own, shared, own):
        log.settle(record, 1, transaction)
    log.settle(own, 3, transaction)  # a queue without records
    assert (log.statistics().settled, log.statistics().live_records) == (0, 2)
    log.commit(transaction)
    assert (log.statistics().settled, log.statistics().live_records) == (2, 1)
    log.settle(shared, 2)
    assert log.empty
