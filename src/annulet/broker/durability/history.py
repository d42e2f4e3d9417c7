"""The recorder: the data written to the history, the time of writing, and the handling of a file that cannot be
written.

Notes gather on the loop, as records gather in the log's window; the commit pipeline takes both together and its disk
thread writes the log first, then the history, before anybody is told. A history that cannot be written is logged,
counted and tried again with the next window: it never makes a publish fail.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog

from annulet.store.database.history import WRITE_ERRORS
from annulet.store.database.history_batch import HistoryBatch
from annulet.store.files.full_disk import FULL_DISK

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.model.queue_state import QueueState
    from annulet.store.database.history import History

logger = structlog.get_logger(__name__)

COUNTERS_MILLISECONDS: Final = 10_000
"""Time between two rounds of writing the counters of durable queues: the possible loss in a crash."""

COUNTERS_SLICE: Final = 1000
"""Queues looked at in one tick of the broker: less than a millisecond when nothing changed."""


class HistoryRecorder:
    """Collects notes and writes them. All of it belongs to the loop, except :meth:`write`."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.pending = HistoryBatch()  # the content of the next window
        self.changed: set[QueueState] = set()  # whose counters it takes along; always the same object
        self.batches = 0  # written
        self.failures = 0  # writes that failed and are tried again
        self.failed = False  # the last write failed
        self._open_records: dict[int, int] = {}  # open transaction of the log -> its first record
        self._reduced: dict[int, set[QueueState]] = {}  # open transaction -> the queues that messages left in it

    # ------------------------------------------------------------------ transactions

    def transaction_stores(self, transaction: int, record: int) -> None:
        """Note the first record of an open transaction: it takes effect after records with higher ids."""
        self._open_records.setdefault(transaction, record)

    def transaction_removes(self, transaction: int, queue: QueueState) -> None:
        """Note a queue whose counters say that a message left, as the log does not before the commit."""
        self._reduced.setdefault(transaction, set()).add(queue)

    def transaction_ended(self, transaction: int) -> None:
        """Forget a transaction that was committed or aborted."""
        self._open_records.pop(transaction, None)
        self.changed.update(self._reduced.pop(transaction, ()))

    # ------------------------------------------------------------------ batches

    def take(self, next_record: int, *, deferring: bool = False) -> HistoryBatch | None:
        """Hand out the notes, ``None`` without any. ``next_record`` is the log's, after its batch.

        Counters are those of this moment, so they count a message as removed if the log does, and not before: in a
        transaction that is open they wait.

        ``deferring``: the log's settlements wait in memory until a full disk has room. Losses and counters wait with
        them: a crash brings back the messages they were of.
        """
        if self.changed and not deferring:
            self._take_counters()
        batch = self.pending
        if not batch:
            return None
        self.pending = HistoryBatch()
        if deferring:
            self.pending.losses, batch.losses = batch.losses, self.pending.losses
            if not batch:
                return None
        batch.next_record = min(next_record, *self._open_records.values()) if self._open_records else next_record
        return batch

    def _take_counters(self) -> None:
        waiting = {queue for queues in self._reduced.values() for queue in queues} & self.changed
        for queue in self.changed - waiting:
            if not queue.deleted:
                self.pending.counters[queue.queue_id] = queue.counters.as_dict()
        self.changed.clear()
        self.changed.update(waiting)

    def write(self, batch: HistoryBatch) -> Exception | None:
        """Disk thread: write a batch. Returns what went wrong, if anything."""
        try:
            self.history.write(batch)
        except WRITE_ERRORS as error:
            return error
        return None

    def finish(self, batch: HistoryBatch, error: Exception | None) -> None:
        """Account for a batch. An unwritten one goes before later notes."""
        if error is None:
            self.batches += 1
            self.failed = False
            return
        self.failures += 1
        FULL_DISK.note(error, Path(self.history.path).parent, "losses, duplicate ids and delivery counts")
        if not self.failed:
            self.failed = True
            logger.error(
                "history cannot be written", file=self.history.path, error=str(error),
                remedy="free or repair the disk; it is tried again, and new records are kept in memory",
            )  # fmt: skip
        batch.absorb(self.pending)
        self.pending = batch

    def write_now(self, next_record: int, *, deferring: bool = False) -> None:
        """Write the notes, on the loop: for a stop, when the disk thread has ended; else as :meth:`take`."""
        batch = self.take(next_record, deferring=deferring)
        if batch is not None:
            self.finish(batch, self.write(batch))


class CounterRounds:
    """Has the counters of durable queues written that changed, a slice at a time, round after round.

    The reasons for which persistent messages left, other than acknowledgement, are written with the window of their
    departure.
    """

    def __init__(self, recorder: HistoryRecorder) -> None:
        self._recorder = recorder
        self._written: dict[int, int] = {}  # queue id -> sum of its counters when they were written last
        self._seen: dict[int, int] = {}  # the same, of the round under way
        self._round: Iterator[QueueState] | None = None
        self._begun_at = 0

    def tick(self, hosts: Iterable[VirtualHost], now: int) -> bool:
        """Look at the next slice. Returns whether anything was noted and has to be written."""
        if self._round is None:
            if now - self._begun_at < COUNTERS_MILLISECONDS:
                return False
            self._begun_at = now
            self._seen = {}
            self._round = iter([queue for host in hosts for queue in host.queues.values() if queue.queue_id])
        noted = False
        for _ in range(COUNTERS_SLICE):
            queue = next(self._round, None)
            if queue is None:
                self._round = None
                self._written = self._seen  # without the queues that are gone
                break
            noted |= self._look(queue)
        return noted

    def _look(self, queue: QueueState) -> bool:
        if queue.deleted:
            return False
        counters = queue.counters
        total = (
            counters.messages_added
            + counters.messages_delivered
            + counters.messages_returned
            + counters.messages_browsed
            + sum(counters.removed.values())
        )  # each only grows, so their sum is the same as long as they are
        self._seen[queue.queue_id] = total
        if self._written.get(queue.queue_id) == total:
            return False
        self._recorder.changed.add(queue)
        return True
