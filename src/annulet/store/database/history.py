"""The history: state of queues and operators beside definitions and messages, in one SQLite file.

Losses, duplicate ids, delivery counts, paused queues, the audit trail, counters of the running broker. It is evidence
and memory, not content: the file follows the message log (a batch here is written when the log's batch is on disk) and
is durable against the death of the process (WAL, ``synchronous=NORMAL``); batches with duplicate ids are synced
(``FULL``), because a confirm promises them.

Losses and duplicate ids are stored by the page, one row a batch: a row per loss would cost a busy ring more than its
messages do.
"""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from dataclasses import astuple
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.model.audit_trail import AUDIT_ENTRIES_MAX, AuditEntry
from annulet.core.model.loss_ledger import LEDGER_RECORDS_MAX, LossRecord
from annulet.store.database.count_notes import BLOCK_SEQUENCES, KnownCounts, counts_after
from annulet.store.database.database import READ_ERRORS, DatabaseKind, open_database, unreadable
from annulet.store.database.database_copy import copy_database
from annulet.store.database.history_batch import EntryState
from annulet.store.database.journal import find_damage
from annulet.store.files.errors import HistoryError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from annulet.store.database.history_batch import AddressKey, DuplicateNotes, HistoryBatch, LossNotes
    from annulet.store.database.journal import JournalDamage

SCHEMA_VERSION: Final = 2
"""Written into the file; a file of a newer version is refused."""

DELIVERY_COUNTS: Final = """
CREATE TABLE delivery_counts (
    queue_id INTEGER NOT NULL, block INTEGER NOT NULL, counts BLOB NOT NULL, PRIMARY KEY (queue_id, block));
"""
"""Since version 2; ``counts`` as :mod:`annulet.store.database.count_notes` has them."""

SCHEMA: Final = """
CREATE TABLE losses (
    virtual_host TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, records BLOB NOT NULL,
    PRIMARY KEY (virtual_host, first)) WITHOUT ROWID;
CREATE TABLE duplicates (
    virtual_host TEXT NOT NULL, address TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
    ids BLOB NOT NULL, PRIMARY KEY (virtual_host, address, first)) WITHOUT ROWID;
CREATE TABLE entry_states (
    queue_id INTEGER NOT NULL, sequence INTEGER NOT NULL, delivery_count INTEGER NOT NULL, deliver_at INTEGER NOT NULL,
    PRIMARY KEY (queue_id, sequence)) WITHOUT ROWID;
CREATE TABLE paused_queues (queue_id INTEGER PRIMARY KEY);
CREATE TABLE audit (number INTEGER PRIMARY KEY, entry BLOB NOT NULL);
CREATE TABLE queue_counters (queue_id INTEGER PRIMARY KEY, counters TEXT NOT NULL);
CREATE TABLE covered (name TEXT PRIMARY KEY, next_record INTEGER NOT NULL) WITHOUT ROWID;
"""

KIND: Final = DatabaseKind(
    "history",
    SCHEMA_VERSION,
    SCHEMA + DELIVERY_COUNTS,
    {1: DELIVERY_COUNTS},
    synced=False,
    error=HistoryError,
    remedy="restore it from a backup, or move it away to start with an empty loss ledger and audit trail, and no "
    "memory of duplicate ids, delivery counts and pauses",
)

QUEUE_TABLES: Final = ("entry_states", "delivery_counts", "paused_queues", "queue_counters")
"""The tables that contain a queue's id."""


def dropped_text(dropped: JournalDamage) -> str:
    """Say what a start drops of a history whose journal is damaged."""
    return (
        f"{dropped.text}: the last {dropped.transactions} changes of the history are dropped, and with them losses, "
        "duplicate ids, delivery counts, pauses and entries of the audit trail noted since then; messages are not "
        "concerned, a duplicate of one sent since then may be taken"
    )


LossRow: TypeAlias = tuple[str, int, str, str, int, int, int, int, str, int, str, str]
"""A loss as it is written: queue, sequence, reason, key, size, priority, times of acceptance and loss, publisher,
replacement, rule, target."""

AuditRow: TypeAlias = tuple[int, str, str, str, str, str, int, int, str]
"""The fields of an :class:`AuditEntry`."""

WRITE_ERRORS: Final = (sqlite3.Error, OSError, ValueError, OverflowError)
"""Errors of a write: the disk, and values that cannot be stored (a text that is not Unicode, a number beyond 64
bits)."""


class History:
    """One file. Loading and closing belong to the loop, :meth:`write` to the disk thread, never both at a time.

    Raises :class:`HistoryError` when the file is damaged or of a newer version.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = str(path)
        self._synced = False  # the connection's synchronous is FULL
        self.dropped = find_damage(f"{path}-wal")  # what the start drops: the loss of evidence stops no messages
        self._connection = open_database(self.path, KIND)
        try:
            with self._reading():
                self._load_totals()
            self.check()
        except BaseException:
            self._connection.close()
            raise

    def _load_totals(self) -> None:
        self._loss_totals: dict[str, int] = dict(
            self._rows("SELECT virtual_host, MAX(last) FROM losses GROUP BY virtual_host")
        )
        self._duplicate_totals: dict[AddressKey, int] = {
            (host, address): last
            for host, address, last in self._rows(
                "SELECT virtual_host, address, MAX(last) FROM duplicates GROUP BY virtual_host, address"
            )
        }
        self._audit_total: int = self._rows("SELECT COALESCE(MAX(number), 0) FROM audit")[0][0]

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Name the file and the remedy if damaged data is read."""
        try:
            yield
        except READ_ERRORS as error:
            raise unreadable(self.path, KIND, error) from error

    def close(self) -> None:
        """Close the file. Idempotent."""
        self._connection.close()

    def copy_to(self, path: Path) -> None:
        """Write all of it to a new file, as it is now. The file is not synced. Raises :class:`BackupError`."""
        copy_database(self._connection, path)

    def _rows(self, statement: str, *values: object) -> list[Any]:
        return self._connection.execute(statement, values).fetchall()

    # ------------------------------------------------------------------ loading

    def check(self) -> None:
        """Read all of it. Raises :class:`HistoryError` as each of the following does, where something is damaged."""
        for host in self._loss_totals:
            self.losses(host)
        for _ in self.duplicates():
            pass
        self.next_record()
        self.delivery_counts()
        self.entry_states()
        self.paused_queues()
        self.audit()
        self.queue_counters()

    def losses(self, virtual_host: str) -> tuple[list[LossRecord], int]:
        """Return the latest losses, oldest first, and how many there ever were."""
        pages: list[list[LossRow]] = []
        count = 0
        statement = "SELECT records FROM losses WHERE virtual_host = ? ORDER BY first DESC"
        with self._reading():
            for (records,) in self._connection.execute(statement, (virtual_host,)):
                page = msgspec.json.decode(records, type=list[LossRow])
                pages.append(page)
                count += len(page)
                if count >= LEDGER_RECORDS_MAX:
                    break
            found = [_loss_from_row(row) for page in reversed(pages) for row in page]
        return found[-LEDGER_RECORDS_MAX:], self._loss_totals.get(virtual_host, 0)

    def duplicates(self) -> Iterator[tuple[str, str, list[str]]]:
        """Yield (virtual host, address, ids) of every address, the oldest id first. May be more than it remembers."""
        statement = "SELECT ids FROM duplicates WHERE virtual_host = ? AND address = ? ORDER BY first"
        for host, address in sorted(self._duplicate_totals):
            with self._reading():
                pages = [msgspec.json.decode(page, type=list[str]) for (page,) in self._rows(statement, host, address)]
            yield host, address, [duplicate_id for page in pages for duplicate_id in page]

    def next_record(self) -> int:
        """Return the log's first record whose duplicate id may be missing here; 0 when nothing was written yet."""
        with self._reading():
            rows = self._rows("SELECT next_record FROM covered WHERE name = 'duplicates'")
            return rows[0][0] if rows else 0

    def delivery_counts(self) -> KnownCounts:
        """Return the delivery counts of messages without other state. Some may have left since."""
        known = KnownCounts()
        statement = "SELECT queue_id, block, counts FROM delivery_counts"
        with self._reading():
            for queue_id, block, counts in self._connection.execute(statement):
                if len(counts) != BLOCK_SEQUENCES:
                    raise ValueError(f"{len(counts)} bytes of delivery counts")
                known.add(queue_id, block, counts)
        return known

    def entry_states(self) -> dict[int, dict[int, EntryState]]:
        """Return the state of other entries, by queue id and sequence. Some may have left since.

        If :meth:`delivery_counts` has one as well, that is newer.
        """
        states: dict[int, dict[int, EntryState]] = {}
        statement = "SELECT queue_id, sequence, delivery_count, deliver_at FROM entry_states"
        with self._reading():
            for queue_id, sequence, delivery_count, deliver_at in self._connection.execute(statement):
                states.setdefault(queue_id, {})[sequence] = EntryState(delivery_count, deliver_at)
        return states

    def paused_queues(self) -> set[int]:
        """Return the ids of the queues that were paused."""
        with self._reading():
            return {queue_id for (queue_id,) in self._rows("SELECT queue_id FROM paused_queues")}

    def audit(self) -> tuple[list[AuditEntry], int]:
        """Return the latest operations, oldest first, and how many there ever were."""
        with self._reading():
            rows = self._rows("SELECT entry FROM audit ORDER BY number DESC LIMIT ?", AUDIT_ENTRIES_MAX)
            entries = [AuditEntry(*msgspec.json.decode(entry, type=AuditRow)) for (entry,) in reversed(rows)]
        return entries, self._audit_total

    def queue_counters(self) -> dict[int, dict[str, int]]:
        """Return the counters last written, by queue id."""
        with self._reading():
            rows = self._rows("SELECT queue_id, counters FROM queue_counters")
            return {queue_id: msgspec.json.decode(text, type=dict[str, int]) for queue_id, text in rows}

    def queue_ids(self) -> set[int]:
        """Return the ids of all queues of which anything is known; some may be gone."""
        statement = " UNION ".join(f"SELECT queue_id FROM {table}" for table in QUEUE_TABLES)  # noqa: S608 - our names
        with self._reading():
            return {queue_id for (queue_id,) in self._rows(statement)}

    # ------------------------------------------------------------------ writing

    def write(self, batch: HistoryBatch) -> None:
        """Write a batch in one transaction: all of it or nothing. Raises one of :data:`WRITE_ERRORS`."""
        self._sync(wanted=bool(batch.duplicates))
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            loss_totals = {host: self._write_losses(host, notes) for host, notes in batch.losses.items()}
            duplicate_totals = {key: self._write_duplicates(key, notes) for key, notes in batch.duplicates.items()}
            audit_total = self._write_audit(batch)
            self._write_queues(batch)
            if batch.next_record and (batch.duplicates or batch.counters):
                self._connection.execute(
                    "INSERT OR REPLACE INTO covered VALUES ('duplicates', ?)", (batch.next_record,)
                )
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:  # SQLite may have rolled back already
                self._connection.execute("ROLLBACK")
            raise
        self._loss_totals.update(loss_totals)
        for key, total in duplicate_totals.items():
            self._duplicate_totals[key] = total
            if not total:  # forgotten, and nothing since
                del self._duplicate_totals[key]
        self._audit_total = audit_total

    def _sync(self, *, wanted: bool) -> None:
        if wanted != self._synced:
            self._connection.execute(f"PRAGMA synchronous={'FULL' if wanted else 'NORMAL'}")
            self._synced = wanted

    def _write_losses(self, virtual_host: str, notes: LossNotes) -> int:
        """Append a page and drop the pages that will not be loaded again. Returns the new total."""
        total = self._loss_totals.get(virtual_host, 0) + notes.count
        page = msgspec.json.encode(_rows_of_losses(notes.records))
        self._connection.execute(  # a page without records keeps the total, and gives way to the next
            "INSERT OR REPLACE INTO losses VALUES (?, ?, ?, ?)",
            (virtual_host, total - len(notes.records) + 1, total, page),
        )
        behind = total - LEDGER_RECORDS_MAX
        self._connection.execute(
            "DELETE FROM losses WHERE virtual_host = ? AND first <= ? AND last <= ?", (virtual_host, behind, behind)
        )
        return total

    def _write_duplicates(self, key: AddressKey, notes: DuplicateNotes) -> int:
        """The same for the ids of one address."""
        if notes.afresh:
            self._connection.execute("DELETE FROM duplicates WHERE virtual_host = ? AND address = ?", key)
        total = (0 if notes.afresh else self._duplicate_totals.get(key, 0)) + notes.count
        if notes.ids:
            self._connection.execute(
                "INSERT INTO duplicates VALUES (?, ?, ?, ?, ?)",
                (*key, total - len(notes.ids) + 1, total, msgspec.json.encode(list(notes.ids))),
            )
        behind = total - notes.cache_size
        self._connection.execute(
            "DELETE FROM duplicates WHERE virtual_host = ? AND address = ? AND first <= ? AND last <= ?",
            (*key, behind, behind),
        )
        return total

    def _write_audit(self, batch: HistoryBatch) -> int:
        total = self._audit_total
        for entry in batch.audit:
            total += 1
            self._connection.execute("INSERT INTO audit VALUES (?, ?)", (total, msgspec.json.encode(astuple(entry))))
        if batch.audit:
            self._connection.execute("DELETE FROM audit WHERE number <= ?", (total - AUDIT_ENTRIES_MAX,))
        return total

    def _write_queues(self, batch: HistoryBatch) -> None:
        connection = self._connection
        kept = [(*key, *state) for key, state in batch.entries.items() if state is not None]
        gone = [key for key, state in batch.entries.items() if state is None]
        connection.executemany("INSERT OR REPLACE INTO entry_states VALUES (?, ?, ?, ?)", kept)
        connection.executemany("DELETE FROM entry_states WHERE queue_id = ? AND sequence = ?", gone)
        self._write_counts(batch)
        paused = [(queue_id,) for queue_id, paused in batch.paused.items() if paused]
        resumed = [(queue_id,) for queue_id, paused in batch.paused.items() if not paused]
        connection.executemany("INSERT OR REPLACE INTO paused_queues VALUES (?)", paused)
        connection.executemany("DELETE FROM paused_queues WHERE queue_id = ?", resumed)
        counters = [(queue_id, msgspec.json.encode(values).decode()) for queue_id, values in batch.counters.items()]
        connection.executemany("INSERT OR REPLACE INTO queue_counters VALUES (?, ?)", counters)
        for table in QUEUE_TABLES if batch.gone_queues else ():
            statement = f"DELETE FROM {table} WHERE queue_id = ?"  # noqa: S608 - our names
            connection.executemany(statement, [(queue_id,) for queue_id in batch.gone_queues])

    def _write_counts(self, batch: HistoryBatch) -> None:
        """Apply the notes to the stored blocks; a block without a count has no row."""
        connection = self._connection
        for queue_id, blocks in batch.counts.blocks.items():
            for number, notes in blocks.items():
                place = (queue_id, number)
                found = connection.execute(
                    "SELECT counts FROM delivery_counts WHERE queue_id = ? AND block = ?", place
                ).fetchone()
                counts = counts_after(found[0] if found else b"", notes)
                if counts:
                    connection.execute("INSERT OR REPLACE INTO delivery_counts VALUES (?, ?, ?)", (*place, counts))
                elif found:
                    connection.execute("DELETE FROM delivery_counts WHERE queue_id = ? AND block = ?", place)


def _rows_of_losses(records: Iterable[LossRecord]) -> list[LossRow]:
    """Return the records' fields. Rules are put into words once per settings: they are most of the work."""
    words: dict[tuple[int, RemovalReason], tuple[str, str]] = {}
    rows = []
    for record in records:
        place = (id(record.settings), record.reason)
        if record.settings is None:
            text = (record.rule, record.forwarded_to)
        elif place in words:
            text = words[place]
        else:
            text = words[place] = (record.rule, record.forwarded_to)
        rows.append(
            (
                record.queue,
                record.sequence,
                record.reason.value,
                record.key,
                record.size,
                record.priority,
                record.accepted_at,
                record.at,
                record.publisher,
                record.replaced_by,
                *text,
            )
        )
    return rows


def _loss_from_row(row: LossRow) -> LossRecord:
    return LossRecord(
        queue=row[0],
        sequence=row[1],
        reason=RemovalReason(row[2]),
        key=row[3],
        size=row[4],
        priority=row[5],
        accepted_at=row[6],
        at=row[7],
        publisher=row[8],
        replaced_by=row[9],
        durable=True,
        rule=row[10],
        forwarded_to=row[11],
    )
