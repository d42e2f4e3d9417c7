"""The message log's twin for brokers that keep nothing: same calls, same answers, no disk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from annulet.core.message.message import Message
from annulet.store.database.definitions import KnownQueues
from annulet.store.files.errors import StoreError
from annulet.store.log.recovery import note_outcome
from annulet.store.segments.interface import (
    Batch,
    Log,
    LogStatistics,
    MaintenanceTask,
    RecoveredMessage,
    RecoveryReport,
)
from annulet.store.segments.records import check_message


class MemoryLog(Log):
    """Counts the contents of a durable log. There is never a batch to write, so confirms are sent at once."""

    def __init__(self) -> None:
        self.clean = True
        self.outcomes: dict[str, int] = {}
        self.next_sequences: dict[int, int] = {}
        self.sequences: dict[int, int] = {}
        self.report = RecoveryReport()
        self.known_queues = KnownQueues()
        self._record = 0
        self._queues: dict[int, set[int]] = {}  # queue id -> its live records
        self._shared: dict[int, int] = {}  # records of several queues -> queues that need them
        self._live = 0
        self._appended = 0
        self._settled = 0
        self._transactions: dict[int, tuple[list[int], dict[int, list[int]]]] = {}  # id -> (appended, settled by queue)
        self._next_transaction = 1
        self._closed = False

    @property
    def empty(self) -> bool:
        """Whether nothing is kept of any record."""
        return not self._queues and not self._shared

    @property
    def next_record(self) -> int:
        """Return the id of the next record."""
        return self._record + 1

    def recovered(self) -> Iterator[RecoveredMessage]:
        """Yield nothing: memory does not outlive the process."""
        return iter(())

    def append(self, message: Message, targets: Sequence[tuple[int, int]], transaction: int = 0) -> int:
        """Enter a record for each queue."""
        if self._closed:
            raise StoreError("the message log is closed")
        opened = self._transaction(transaction) if transaction else None
        check_message(message, len(targets), len(message.header) + message.size)
        self._record += 1
        record = self._record
        for queue_id, _ in targets:
            self._queues.setdefault(queue_id, set()).add(record)
        if len(targets) > 1:
            self._shared[record] = len(targets)
        self._live += 1
        self._appended += 1
        if opened is not None:
            opened[0].append(record)
        return record

    def settle(self, record: int, queue_id: int, transaction: int = 0) -> None:
        """Let the queue be done with the record, at once or at the transaction's commit."""
        if transaction:
            self._transaction(transaction)[1].setdefault(queue_id, []).append(record)
            return
        records = self._queues.get(queue_id)
        if records is None or record not in records:
            return
        records.remove(record)
        if not records:
            del self._queues[queue_id]
        self._settled += 1
        left = self._shared.get(record, 1) - 1
        if left:
            self._shared[record] = left
        else:
            self._shared.pop(record, None)
            self._live -= 1

    def begin(self) -> int:
        """Give out the next id."""
        transaction = self._next_transaction
        self._next_transaction += 1
        self._transactions[transaction] = ([], {})
        return transaction

    def commit(self, transaction: int, outcome: tuple[str, int] | None = None) -> None:
        """Apply the settlements; appended records are already counted."""
        _, settled = self._transaction(transaction)
        if outcome is not None and not outcome[0]:
            raise StoreError("outcome: the query id is empty; give the id of the streaming query")
        del self._transactions[transaction]
        for queue_id, records in settled.items():
            self._settle_together(queue_id, records)
        if outcome is not None:
            note_outcome(self.outcomes, outcome)

    def _settle_together(self, queue_id: int, records: list[int]) -> None:
        """Settle records of one queue in one turn of the loop: one by one, 99,000 hold it for 90 ms."""
        held = self._queues.get(queue_id, set())
        gone = held.intersection(records)
        held -= gone
        if not held:
            self._queues.pop(queue_id, None)
        self._count_settled(gone)

    def _count_settled(self, gone: set[int]) -> None:
        """Count records of one queue that are settled."""
        self._settled += len(gone)
        self._live -= len(gone)
        for record in gone & self._shared.keys():
            left = self._shared[record] - 1
            if left:
                self._shared[record] = left
                self._live += 1
            else:
                del self._shared[record]

    def abort(self, transaction: int) -> None:
        """Take the appended records back."""
        records, _ = self._transaction(transaction)
        del self._transactions[transaction]
        for record in records:
            for queue_id in [queue_id for queue_id, held in self._queues.items() if record in held]:
                self.settle(record, queue_id)

    def has_room(self, size: int, now: int) -> bool:  # noqa: ARG002 - the interface's question; memory is not ours
        """Always true: the broker's memory alarm blocks publishers."""
        return not self._closed

    def retry(self) -> bool:
        """Return true."""
        return True

    def take_batch(self) -> Batch | None:
        """Return ``None``: nothing is ever to be written."""
        return None

    def write(self, batch: Batch) -> None:
        """Refuse: no batch of this log exists."""
        raise StoreError(f"batch {batch.number} is not of this log, which keeps everything in memory")

    def complete(self, batch: Batch) -> None:
        """Refuse: no batch of this log exists."""
        raise StoreError(f"batch {batch.number} is not of this log, which keeps everything in memory")

    def forget_queue(self, queue_id: int) -> None:
        """Settle everything of the queue."""
        self._count_settled(self._queues.pop(queue_id, set()))

    def maintenance(self, *, checkpoint: bool = False) -> MaintenanceTask | None:  # noqa: ARG002 - nothing to write
        """Return ``None``: memory needs no upkeep."""
        return None

    def finish(self, task: MaintenanceTask) -> None:
        """Refuse: no task of this log exists."""
        raise StoreError(f"{type(task).__name__} is not a task of this log, which keeps everything in memory")

    def statistics(self) -> LogStatistics:
        """Return the counters."""
        return LogStatistics(
            appended=self._appended,
            settled=self._settled,
            live_records=self._live,
            open_transactions=len(self._transactions),
        )

    def close(self) -> None:
        """Forget everything."""
        self._closed = True
        self._queues.clear()
        self._shared.clear()
        self._live = 0

    def _transaction(self, transaction: int) -> tuple[list[int], dict[int, list[int]]]:
        opened = self._transactions.get(transaction)
        if opened is None:
            raise StoreError(f"transaction {transaction} is not open; begin() gives the ids")
        return opened
