"""Emptying a queue of any depth at once: a purge, or a deletion.

Everybody sees an empty queue when the call returns, and counters are exact. The log is told by ranges of records, so
that no crash afterwards brings anything back. What is left to do in slices is to write the newest losses into the
ledger, which keeps no more than that, and to let go of the memory.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Final

from annulet.core.bodies import let_go
from annulet.core.deep_lanes import DeepLanes
from annulet.core.entry import REMOVED
from annulet.core.hidden import Kept, pending_bytes, scheduled_bytes, shown
from annulet.core.sliced import AT_ONCE_MAX, SLICE_MESSAGES, SlicedWork

if TYPE_CHECKING:
    from annulet.core.entry import QueueEntry
    from annulet.core.paging import QueueArea
    from annulet.core.queue import Queue
    from annulet.core.reasons import RemovalReason

RELEASED_PER_SLICE: Final = 5000
"""Messages whose memory is given back in one slice: 1 ms."""


def suits(queue: Queue) -> bool:
    """Say whether a queue is to be emptied by :func:`empty`: one that is deep, or that hides what is to stay."""
    many = queue.order.count + queue.schedule.count > AT_ONCE_MAX or bool(queue.hidden)
    return many and (queue.lanes is None or isinstance(queue.order, DeepLanes))


def empty(queue: Queue, reason: RemovalReason, now: int) -> int:
    """Remove all that is pending and scheduled, but for what is hidden, in a queue without lanes, or with deep ones.

    Returns how many.
    """
    order = queue.order
    kept = Kept(queue)
    entries = order.in_memory()
    size = pending_bytes(queue) + scheduled_bytes(queue)
    pages = order.take_pages()
    order.clear()
    queue.pending_bytes = 0
    kept.put_back()
    entries += queue.schedule.take_all()
    kept.schedule_again()
    entries = shown(queue, entries)
    return _let_go(queue, entries, pages, size, reason, now)


def empty_deliveries(queue: Queue, reason: RemovalReason, now: int) -> None:
    """Remove all that is in delivery: the queue is deleted."""
    entries = queue.delivering.entries()
    size = queue.delivering_bytes
    for entry in entries:
        queue.unmark_delivering(entry)
    _let_go(queue, entries, None, size, reason, now)


def _let_go(
    queue: Queue, found: list[QueueEntry], pages: QueueArea | None, size: int, reason: RemovalReason, now: int
) -> int:
    """Account for what is in no collection any more, and leave the rest to slices.

    All is looked at in one pass: with very many, what costs is to bring them into the processor's cache.
    """
    gone = Gone(pages)
    entries, records = gone.entries, gone.records
    for entry in found:
        if entry.state == REMOVED:
            continue
        entry.state = REMOVED
        message = entry.message
        if message.away:
            let_go(entry)
        else:
            message.near -= 1
        entries.append(entry)
        records.append(message.record)
        if entry.delivery_count or message.deliver_at:
            gone.noted.append(entry)
    keys, accounts = queue.keys, queue.accounts
    if keys is not None or accounts is not None:
        for entry in entries:
            if keys is not None:
                keys.forget(entry)
            if accounts is not None:
                accounts.released(entry.message)
    if queue.expiry is not None:
        queue.expiry.sweep()
    if queue.evictions is not None:
        queue.evictions.compact(queue.order.count)
    count = len(entries) + (0 if pages is None else pages.rows)
    queue.counters.removed[reason] += count
    queue.counters.bytes_removed += size
    if queue.events is not None:
        queue.events.emptied(count, reason, now)
    settled = queue.effects.emptied(queue, gone)
    entries.sort(key=attrgetter("sequence"))
    queue.effects.later(Emptying(queue, entries, pages, reason, now, settled=settled), now)
    return count


class Gone:
    """What a queue was emptied of: ``entries`` with their ``records`` (0: none), and the rows of ``pages``.

    ``noted`` are those entries of which ``Effects.entry_changed`` may have spoken.
    """

    def __init__(self, pages: QueueArea | None) -> None:
        self.entries: list[QueueEntry] = []
        self.records: list[int] = []
        self.noted: list[QueueEntry] = []
        self.pages = pages


class Emptying(SlicedWork):
    """What is left to do for entries (by sequence) and rows that a queue holds no more.

    By sequence there are entries, rows, entries. ``settled``: the log knows of all of them already.
    """

    def __init__(
        self,
        queue: Queue,
        entries: list[QueueEntry],
        pages: QueueArea | None,
        reason: RemovalReason,
        now: int,
        *,
        settled: bool,
    ) -> None:
        super().__init__()
        self._queue = queue
        self._reason = reason
        self._at = now
        self._entries = entries
        self._pages = pages
        self._settled = settled
        self._position = 0  # the next entry to look at
        self._releasing = False  # all is recorded
        rows = 0 if pages is None else pages.rows
        first = pages.first_sequence() if pages is not None and rows else 0
        self._before = len([entry for entry in entries if entry.sequence < first]) if rows else len(entries)
        unrecorded = max(0, len(entries) + rows - queue.ledger.records_max)  # counted in the ledger, and that is all
        self._skipped_before = min(unrecorded, self._before)
        unrecorded -= self._skipped_before
        skipped_rows = pages.skip(min(unrecorded, rows)) if pages is not None and settled else 0
        self._skipped_behind = max(0, unrecorded - rows)
        self._note_skipped(skipped_rows)
        self.reads = pages is not None and pages.rows > 0

    def _note_skipped(self, rows: int) -> None:
        queue = self._queue
        behind = self._before + self._skipped_behind
        count = self._skipped_before + behind - self._before
        durable = rows  # what is on disk is durable
        if queue.queue_id and count:
            skipped = self._entries[: self._skipped_before] + self._entries[self._before : behind]
            durable += sum([entry.message.durable for entry in skipped])
        queue.ledger.skip(count + rows, durable)

    def step(self, now: int) -> bool:
        """Record the next losses, older ones first; then give back the memory of what is left."""
        del now
        entries, pages = self._entries, self._pages
        if self._releasing:
            del entries[-RELEASED_PER_SLICE:]
            return bool(entries)
        if self._position < self._before:
            self._look(self._before)
        elif pages is not None and pages.rows:
            self._read(pages)
        elif self._position < len(entries):
            self._look(len(entries))
        else:
            self._pages = None
            self._releasing = True
        return True

    def _look(self, end: int) -> None:
        """Settle and record the next entries up to ``end``, as many as fit a slice."""
        if self._settled:
            skipped = self._skipped_before if self._position < self._before else self._before + self._skipped_behind
            self._position = max(self._position, skipped)
        end = min(end, self._position + SLICE_MESSAGES)
        behind = self._before + self._skipped_behind
        for place in range(self._position, end):
            entry = self._entries[place]
            skipped_too = place < self._skipped_before or self._before <= place < behind
            self._finish(entry, recorded=not skipped_too)
        self._position = max(self._position, end)

    def _finish(self, entry: QueueEntry, *, recorded: bool) -> None:
        queue = self._queue
        if recorded:
            queue.note_loss(entry, self._reason, self._at, 0)
        if not self._settled:
            queue.effects.removed(queue, entry, self._reason)
            if entry.message.record:
                queue.effects.settle(queue, entry)

    def _read(self, pages: QueueArea) -> None:
        """Bring in the next rows, so that their records say what they were; those the disk refuses without."""
        loaded = pages.load(insist=False)
        if loaded is None:
            loaded = pages.take_unread()
        elif pages.lost:
            self._queue.ledger.skip(pages.lost, pages.lost)
        for entry in loaded:
            if entry.state != REMOVED:  # those kept among the rows are in the list
                entry.state = REMOVED
                self._finish(entry, recorded=True)
