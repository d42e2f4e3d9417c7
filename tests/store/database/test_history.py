"""The history's file: what was written is there after a crash of the process, bounded, all of a batch or nothing."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from annulet.core.base.settings import QueueSettings
from annulet.core.model.audit_trail import AuditEntry
from annulet.store.database import history as module
from annulet.store.database.history import WRITE_ERRORS, History
from annulet.store.database.history_batch import EntryState, HistoryBatch
from annulet.store.files.errors import HistoryError
from tests.store.database.test_history_tools import loss


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    history = History(tmp_path / "history.sqlite")
    yield history
    history.close()


@pytest.fixture
def reopened(history: History, tmp_path: Path) -> Iterator[Callable[[], History]]:
    """What the next broker reads of a process killed now: the file and its write-ahead log, copied."""
    opened: list[History] = []

    def reopen() -> History:
        copy = tmp_path / f"copy{len(opened)}"
        copy.mkdir()
        for file in tmp_path.glob("history.sqlite*"):
            shutil.copy(file, copy)
        opened.append(History(copy / "history.sqlite"))
        return opened[-1]

    yield reopen
    for copy in opened:
        copy.close()


def write_losses(history: History, *sequences: int, host: str = "/") -> None:
    batch = HistoryBatch()
    for sequence in sequences:
        batch.note_loss(host, loss(sequence))
    history.write(batch)


def write_ids(history: History, *ids: str, cache_size: int = 100, address: str = "a", next_record: int = 0) -> None:
    batch = HistoryBatch()
    for duplicate_id in ids:
        batch.note_duplicate("/", address, duplicate_id, cache_size)
    batch.next_record = next_record
    history.write(batch)


def rows(history: History, table: str) -> int:
    with sqlite3.connect(history.path) as connection:
        count: int = connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0]
    connection.close()
    return count


def counts_of(history: History) -> dict[tuple[int, int], int]:
    """Return the delivery counts by queue id and sequence."""
    known = history.delivery_counts()
    return {place: known.take(*place) for place in list(known.left())}


def test_a_new_file_knows_nothing(history):
    assert history.losses("/") == ([], 0)
    assert list(history.duplicates()) == []
    assert (history.next_record(), history.entry_states(), history.paused_queues()) == (0, {}, set())
    assert counts_of(history) == {}
    assert (history.audit(), history.queue_counters()) == (([], 0), {})


def test_a_loss_comes_back_with_every_field(history, reopened):
    batch = HistoryBatch()
    batch.note_loss("/", loss(1, rule="", settings=QueueSettings(ring_size=7)))
    history.write(batch)
    (record,), total = reopened().losses("/")
    assert total == 1
    assert (record.queue, record.sequence, record.reason.value, record.key) == ("q", 1, "replaced-ring", "k")
    assert (record.size, record.priority, record.accepted_at, record.at) == (11, 5, 1000, 2000)
    assert (record.publisher, record.replaced_by) == ("guest@test", 2)
    assert (record.rule, record.forwarded_to) == ("ring-size=7", "late")


def test_each_loss_keeps_the_words_of_its_own_queue(history, reopened):
    settings = [QueueSettings(ring_size=7), QueueSettings(ring_size=8, dropped_address="away")]
    batch = HistoryBatch()
    for sequence in range(4):
        batch.note_loss("/", loss(sequence, rule="", forwarded_to="", settings=settings[sequence % 2]))
    batch.note_loss("/", loss(4))
    history.write(batch)
    records, _ = reopened().losses("/")
    assert [record.rule for record in records] == ["ring-size=7", "ring-size=8"] * 2 + ["ring-size=1"]
    assert [record.forwarded_to for record in records] == ["", "dropped-address 'away'"] * 2 + ["late"]


def test_losses_go_on_over_restarts_by_virtual_host(history, reopened):
    write_losses(history, 1, 2)
    write_losses(history, 10, host="other")
    again = reopened()
    write_losses(again, 3)
    records, total = again.losses("/")
    assert ([record.sequence for record in records], total) == ([1, 2, 3], 3)
    assert again.losses("other")[1] == 1


def test_losses_are_bounded_on_disk_and_the_total_is_exact(history, reopened, monkeypatch):
    monkeypatch.setattr(module, "LEDGER_RECORDS_MAX", 10)
    for first in range(0, 40, 4):
        write_losses(history, *range(first, first + 4))
    records, total = reopened().losses("/")
    assert ([record.sequence for record in records], total) == (list(range(30, 40)), 40)
    assert rows(history, "losses") == 3  # the page that straddles the bound stays whole


def test_losses_that_were_only_counted_are_in_the_total(history, reopened):
    batch = HistoryBatch()
    batch.note_loss("/", loss(9))
    batch.losses["/"].count = 5
    history.write(batch)
    write_losses(history, 10)
    records, total = reopened().losses("/")
    assert ([record.sequence for record in records], total) == ([9, 10], 6)


def test_losses_without_any_record_keep_the_total(history, reopened):
    write_losses(history, 1)
    for _ in range(2):
        batch = HistoryBatch()
        batch.note_skipped("/", 20_000)
        assert batch
        history.write(batch)
    assert reopened().losses("/") == ([], 40_001)
    write_losses(history, 2, 3)
    records, total = reopened().losses("/")
    assert ([record.sequence for record in records], total) == ([2, 3], 40_003)


def test_duplicate_ids_come_back_in_order_and_bounded(history, reopened):
    for first in range(0, 40, 4):
        write_ids(history, *map(str, range(first, first + 4)), cache_size=10)
    write_ids(history, "x", address="b")
    (_, _, ids), (_, address, others) = reopened().duplicates()
    assert ids == [str(number) for number in range(28, 40)]
    assert (address, others) == ("b", ["x"])


def test_forgotten_ids_are_gone_and_later_ones_stay(history, reopened):
    write_ids(history, "1", "2")
    batch = HistoryBatch()
    batch.forget_duplicates("/", "a")
    history.write(batch)
    assert list(reopened().duplicates()) == list(history.duplicates()) == []
    batch.forget_duplicates("/", "a")
    batch.note_duplicate("/", "a", "3", 10)
    history.write(batch)
    write_ids(history, "4")
    assert list(reopened().duplicates()) == [("/", "a", ["3", "4"])]


def test_batches_with_duplicate_ids_are_synced_others_not(history):
    statements: list[str] = []
    history._connection.set_trace_callback(statements.append)
    write_losses(history, 1)
    write_ids(history, "1")
    write_ids(history, "2")
    write_losses(history, 2)
    assert [line for line in statements if "PRAGMA" in line] == ["PRAGMA synchronous=FULL", "PRAGMA synchronous=NORMAL"]


def test_what_the_ids_cover_of_the_log(history, reopened):
    write_ids(history, "1", next_record=77)
    write_losses(history, 1)
    assert reopened().next_record() == 77
    batch = HistoryBatch()
    batch.counters = {1: {}}
    batch.next_record = 99
    history.write(batch)
    assert reopened().next_record() == 99


def test_entries_pauses_and_counters_go_with_their_queue(history, reopened):
    batch = HistoryBatch()
    batch.entries = {(1, 5): EntryState(3, 0), (1, 6): EntryState(1, 4000), (2, 5): EntryState(1, 0)}
    for queue_id in (1, 2, 4):
        batch.counts.note(queue_id, 1000, 2)
    batch.paused = {1: True, 2: True, 3: True}
    batch.counters = {1: {"messages_added": 4}, 2: {"messages_added": 5}}
    history.write(batch)
    assert history.queue_ids() == {1, 2, 3, 4}
    batch = HistoryBatch()
    batch.entries = {(1, 5): None, (1, 6): EntryState(2, 0)}
    batch.paused = {3: False}
    batch.counts.note(4, 1000, 0)
    batch.forget_queue(2)
    history.write(batch)
    assert history.queue_ids() == {1}
    again = reopened()
    assert (again.entry_states(), counts_of(again)) == ({1: {6: (2, 0)}}, {(1, 1000): 2})
    assert again.paused_queues() == {1}
    assert again.queue_counters() == {1: {"messages_added": 4}}


def test_a_count_has_the_last_word_over_a_time_noted_before(history, reopened):
    batch = HistoryBatch()
    batch.entries = {(1, 5): EntryState(1, 4000), (1, 6): EntryState(1, 4000)}
    batch.counts.note(1, 5, 2)
    batch.counts.note(1, 6, 0)
    history.write(batch)
    again = reopened()
    assert counts_of(again) == {(1, 5): 2}, "a start asks for it first"
    assert again.entry_states() == {1: {5: (1, 4000), 6: (1, 4000)}}


def test_counts_of_a_block_are_written_over_those_it_had_and_an_empty_block_is_no_row(history, reopened):
    for change in ({1: 1, 2: 5, 600: 1}, {2: 6, 3: 1}, {1: 0}):
        batch = HistoryBatch()
        for sequence, count in change.items():
            batch.counts.note(9, sequence, count)
        history.write(batch)
    assert counts_of(reopened()) == {(9, 2): 6, (9, 3): 1, (9, 600): 1}
    assert rows(history, "delivery_counts") == 2
    batch = HistoryBatch()
    batch.counts.note(9, 600, 0)
    history.write(batch)
    assert rows(history, "delivery_counts") == 1


def test_a_file_of_the_first_version_is_brought_up(tmp_path):
    path = tmp_path / "history.sqlite"
    with sqlite3.connect(path) as connection:
        connection.executescript(module.SCHEMA + "INSERT INTO entry_states VALUES (1, 2, 3, 0); PRAGMA user_version=1")
    connection.close()
    history = History(path)
    assert history.entry_states() == {1: {2: (3, 0)}}
    batch = HistoryBatch()
    batch.counts.note(1, 3, 1)
    history.write(batch)
    assert (history.entry_states(), counts_of(history)) == ({1: {2: (3, 0)}}, {(1, 3): 1})
    history.close()


def test_audit_trail_is_bounded_and_its_total_exact(history, reopened, monkeypatch):
    monkeypatch.setattr(module, "AUDIT_ENTRIES_MAX", 3)
    entries = [AuditEntry(at, "/", "anna", "move", "q", "to=late", 7) for at in range(5)]
    for entry in entries:
        batch = HistoryBatch()
        batch.audit.append(entry)
        history.write(batch)
    assert reopened().audit() == (entries[2:], 5)
    assert rows(history, "audit") == 3


def test_a_batch_that_cannot_be_written_leaves_nothing(history, reopened):
    batch = HistoryBatch()
    batch.note_duplicate("/", "a", "1", 10)
    batch.audit.append(AuditEntry(1, "/", "anna", "purge", "q"))
    batch.note_loss("/", loss(1))
    batch.note_loss("/", loss(2, key="\ud800"))  # no file takes half a character
    with pytest.raises(WRITE_ERRORS):
        history.write(batch)
    again = reopened()
    assert (again.losses("/"), list(again.duplicates()), again.audit()) == (([], 0), [], ([], 0))
    write_losses(history, 3)
    assert history.losses("/")[1] == 1, "the total counts what was written"


def test_a_number_beyond_64_bits_is_one_of_the_write_errors(history):
    batch = HistoryBatch()
    batch.entries = {(1, 1): EntryState(1, 1 << 63)}
    with pytest.raises(WRITE_ERRORS):
        history.write(batch)


def test_a_damaged_file_is_named_with_the_remedy(tmp_path):
    damaged = tmp_path / "history.sqlite"
    damaged.write_bytes(b"not SQLite " * 100)
    with pytest.raises(HistoryError, match=r"history\.sqlite cannot be read.*move it away"):
        History(damaged)


def test_a_file_of_a_newer_version_is_refused(tmp_path):
    path = tmp_path / "history.sqlite"
    History(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version=99")
    connection.close()
    with pytest.raises(HistoryError, match="schema version 99"):
        History(path)
