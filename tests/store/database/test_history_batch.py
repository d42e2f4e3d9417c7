"""Notes for the history: the last word wins, bounds hold, and two batches make one."""

from __future__ import annotations

import pytest

from annulet.core.model.audit_trail import AuditEntry
from annulet.core.model.loss_ledger import LEDGER_RECORDS_MAX
from annulet.store.database.history_batch import EntryState, HistoryBatch
from tests.store.database.test_history_tools import loss

KEY = ("/", "a")


def ids(batch: HistoryBatch) -> list[str]:
    return list(batch.duplicates[KEY].ids)


@pytest.mark.parametrize(
    "note",
    [
        lambda batch: batch.note_loss("/", loss(1)),
        lambda batch: batch.note_duplicate("/", "a", "1", 10),
        lambda batch: batch.forget_duplicates("/", "a"),
        lambda batch: batch.forget_queue(1),
        lambda batch: batch.entries.update({(1, 1): None}),
        lambda batch: batch.counts.note(1, 1, 0),
        lambda batch: batch.paused.update({1: False}),
        lambda batch: batch.audit.append(AuditEntry(1, "/", "anna", "purge", "q")),
        lambda batch: batch.counters.update({1: {}}),
    ],
)
def test_any_note_is_something_to_write(note):
    batch = HistoryBatch()
    assert not batch
    note(batch)
    assert batch


def test_losses_beyond_the_ledgers_bound_are_counted_only():
    batch = HistoryBatch()
    for number in range(LEDGER_RECORDS_MAX + 5):
        batch.note_loss("/", loss(number))
    notes = batch.losses["/"]
    assert (notes.count, len(notes.records)) == (LEDGER_RECORDS_MAX + 5, LEDGER_RECORDS_MAX)
    assert notes.records[0].sequence == 5


def test_ids_beyond_the_addresss_cache_are_counted_only():
    batch = HistoryBatch()
    for number in range(5):
        batch.note_duplicate("/", "a", str(number), 3)
    assert (ids(batch), batch.duplicates[KEY].count) == (["2", "3", "4"], 5)
    batch.note_duplicate("/", "a", "5", 2)
    assert ids(batch) == ["4", "5"]


def test_two_batches_are_one_with_the_later_word():
    first, second = HistoryBatch(), HistoryBatch()
    first.note_loss("/", loss(1))
    second.note_loss("/", loss(2))
    second.note_loss("other", loss(3))
    first.entries = {(1, 1): EntryState(1, 0), (1, 2): EntryState(1, 0)}
    second.entries = {(1, 1): None, (1, 3): EntryState(2, 9)}
    first.counts.note(1, 7, 2)
    second.counts.note(1, 7, 3)
    first.paused, second.paused = {1: True, 2: True}, {1: False}
    first.counters, second.counters = {1: {"messages_added": 1}}, {1: {"messages_added": 2}}
    first.next_record, second.next_record = 10, 20
    first.absorb(second)
    assert [record.sequence for record in first.losses["/"].records] == [1, 2]
    assert first.losses["other"].count == 1
    assert first.entries == {(1, 1): None, (1, 2): EntryState(1, 0), (1, 3): EntryState(2, 9)}
    assert first.counts.noted(1, 7) == 3
    assert (first.paused, first.counters) == ({1: False, 2: True}, {1: {"messages_added": 2}})
    assert first.next_record == 20


def test_ids_of_two_batches_are_in_their_order_and_all_counted():
    first, second = HistoryBatch(), HistoryBatch()
    for number in range(4):
        first.note_duplicate("/", "a", str(number), 3)
        second.note_duplicate("/", "a", str(number + 4), 3)
    first.absorb(second)
    assert (ids(first), first.duplicates[KEY].count) == (["5", "6", "7"], 8)


def test_what_was_forgotten_later_is_gone_and_what_came_after_stays():
    first, second = HistoryBatch(), HistoryBatch()
    first.note_duplicate("/", "a", "old", 3)
    second.forget_duplicates("/", "a")
    second.note_duplicate("/", "a", "new", 3)
    first.paused, first.counters = {1: True}, {1: {}}
    second.forget_queue(1)
    first.absorb(second)
    assert (ids(first), first.duplicates[KEY].afresh) == (["new"], True)
    assert (first.paused, first.counters, first.gone_queues) == ({}, {}, {1})
