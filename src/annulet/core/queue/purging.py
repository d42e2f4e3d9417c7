"""Emptying a queue of any depth at once: a purge, or a deletion.

The queue is empty for all clients when the call returns, and counters are exact. The log gets ranges of records, so
that no later crash restores messages. The rest is done in slices: writing the newest losses into the ledger, which
keeps no more, and freeing the memory.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final

from annulet.core.base.sliced_work import AT_ONCE_MAX, SLICE_MESSAGES, SlicedWork
from annulet.core.deliveries.bodies import let_go
from annulet.core.model.compact_messages import CompactDelivery, entry_in
from annulet.core.model.effects import GoneRecords
from annulet.core.model.entry import REMOVED, QueueEntry, sequence_of
from annulet.core.policies.staged_batches import StagedEntries
from annulet.core.searching.deep_lanes import DeepLanes

if TYPE_CHECKING:
    from annulet.core.base.removal_reasons import RemovalReason
    from annulet.core.model.queue_area import QueueArea
    from annulet.core.policies.expiry import ExpiryBlock
    from annulet.core.policies.retention import Retention
    from annulet.core.queue.entries import QueueEntries

RELEASED_PER_SLICE: Final = 5000
"""Messages whose memory is given back in one slice: 1 ms."""

TIMES_PER_SLICE: Final = 4
"""Blocks of about 1000 times of expiry that are freed with them."""


def suits(queue: QueueEntries) -> bool:
    """Return whether a queue has to be emptied by :func:`empty`: a deep one, or one with hidden messages that stay."""
    many = queue.order.count + queue.schedule.count > AT_ONCE_MAX or bool(queue.hidden)
    return many and (queue.lanes is None or isinstance(queue.order, DeepLanes))


def empty(queue: QueueEntries, reason: RemovalReason, now: int) -> int:
    """Remove all pending and scheduled messages that are not hidden, in a queue without lanes, or with deep ones.

    Returns how many.
    """
    order = queue.order
    kept = StagedEntries(queue)
    entries = order.in_memory()
    size = queue.shown_bytes() + queue.shown_scheduled_bytes()
    pages = order.take_pages()
    order.clear()
    queue.pending_bytes = 0
    kept.put_back()
    entries += queue.schedule.take_all()
    kept.schedule_again()
    entries = queue.shown(entries)
    return _let_go(queue, entries, Gone(pages), size, reason, now)


def empty_deliveries(queue: QueueEntries, reason: RemovalReason, now: int) -> None:
    """Remove all messages in delivery: the queue is deleted.

    Compact ones stay compact, except the newest, which the ledger records.
    """
    size = queue.delivering_bytes
    slots = queue.delivering.slots()
    recorded_from = max(0, len(slots) - queue.ledger.records_max)  # the ledger of an event log records none
    newest = [entry_in(slot) for slot in slots[recorded_from:]]
    del slots[recorded_from:]
    gone = Gone(None)
    entries: list[QueueEntry] = []
    for slot in slots:
        if isinstance(slot, CompactDelivery):
            gone.folded.append(slot)
        else:
            entries.append(slot)
    entries += newest
    for entry in entries:
        queue.unmark_delivering(entry)
    if gone.folded:
        kinds, folded_bytes = queue.take_folded(gone.folded, everything=True)
        for kind in kinds:
            kind.consumer = None
            kind.removed = True
        assert queue.bodies is not None
        queue.bodies.count -= len(gone.folded)
        queue.bodies.bytes -= folded_bytes
    _let_go(queue, entries, gone, size, reason, now)


def _let_go(
    queue: QueueEntries, found: list[QueueEntry], gone: Gone, size: int, reason: RemovalReason, now: int
) -> int:
    """Account for entries removed from the collections, and leave the rest to slices.

    All are processed in one pass: with very many, loading them into the processor's cache is the main cost.
    """
    pages = gone.pages
    _mark(gone, found, queue.effects.written_below())
    entries = gone.entries
    _forget(queue, gone)
    if queue.evictions is not None:
        queue.evictions.compact(queue.order.count)
    count = len(entries) + len(gone.folded) + (0 if pages is None else pages.rows)
    queue.counters.removed[reason] += count
    queue.counters.bytes_removed += size
    if queue.events is not None:
        queue.events.emptied(count, reason, now)
    settled = queue.effects.emptied(queue, gone)
    queue.effects.later(Emptying(queue, gone, reason, now, settled=settled), now)
    return count


def _mark(gone: Gone, found: list[QueueEntry], written_below: int) -> None:
    """Mark entries as removed, and collect their facts."""
    entries = gone.entries
    lowest, highest = written_below, 0
    before = durable = 0
    ascending = True
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
        record, sequence = message.record, entry.sequence
        if 0 < record < written_below:
            lowest = min(lowest, record)
            highest = max(highest, record)
        elif record:
            gone.unwritten.append(record)
        ascending = ascending and before <= sequence
        before = sequence
        if message.durable:
            durable += 1
        if entry.delivery_count or message.deliver_at:
            gone.noted.append(entry)
    gone.lowest, gone.highest, gone.durable = lowest if highest else 0, highest, durable
    if not ascending:  # this check is less work than sorting a sorted list
        entries.sort(key=sequence_of)


def _forget(queue: QueueEntries, gone: Gone) -> None:
    """Remove the entries from the other structures: one by one if these have others too."""
    retention, accounts = queue.retention, queue.accounts
    alone = not (queue.delivering or queue.hidden or queue.returns)
    if accounts is not None:
        if gone.pages is not None:
            accounts.rows_gone(queue, gone.pages)
        for entry in gone.entries:
            accounts.released(entry)
    if retention is not None and alone:
        gone.retention = retention.detached()
    elif retention is not None:
        for entry in gone.entries:
            retention.forget(entry)
    if queue.expiry is not None and alone:
        gone.times = queue.expiry.detached()
    elif queue.expiry is not None:
        queue.expiry.sweep()


class Gone(GoneRecords):
    """The removed contents of a queue: ``entries`` by sequence, and the rows of ``pages``.

    ``durable``: how many messages are. ``retention`` and ``times`` are the queue's data of these entries only. Those
    ``folded`` were in delivery and older: all are durable, and none has to be recorded.
    """

    def __init__(self, pages: QueueArea | None) -> None:
        super().__init__(pages)
        self.entries: list[QueueEntry] = []
        self.folded: list[CompactDelivery] = []
        self.durable = 0
        self.retention: Retention | None = None
        self.times: list[ExpiryBlock] = []


class Emptying(SlicedWork):
    """The remaining work for entries (by sequence) and rows removed from a queue.

    By sequence there are entries, rows, entries. ``settled``: all of them are settled in the log already.
    """

    def __init__(
        self,
        queue: QueueEntries,
        gone: Gone,
        reason: RemovalReason,
        now: int,
        *,
        settled: bool,
    ) -> None:
        super().__init__()
        entries, pages = gone.entries, gone.pages
        self._queue = queue
        self._reason = reason
        self._at = now
        self._entries = entries
        self._folded = gone.folded
        self._retention, self._times = gone.retention, gone.times
        self._pages = pages
        self._settled = settled
        self._position = 0  # the next entry to process
        self._releasing = False  # all is recorded
        rows = 0 if pages is None else pages.rows
        first = pages.first_sequence() if pages is not None and rows else 0
        self._before = bisect_left(entries, first, key=sequence_of) if rows else len(entries)
        unrecorded = max(0, len(entries) + rows - queue.ledger.records_max)  # only counted in the ledger
        self._skipped_before = min(unrecorded, self._before)
        unrecorded -= self._skipped_before
        skipped_rows = pages.skip(min(unrecorded, rows)) if pages is not None and settled else 0
        self._skipped_behind = max(0, unrecorded - rows)
        self._note_skipped(skipped_rows + len(gone.folded), gone.durable)
        self.reads = pages is not None and pages.rows > 0

    def _note_skipped(self, rows: int, durable: int) -> None:
        """Count unrecorded losses in the ledger: ``rows``, compact messages and entries, of which ``durable`` are
        durable.

        These are counted by looking at the others, of which there are no more than the ledger records.
        """
        queue = self._queue
        behind = self._before + self._skipped_behind
        count = self._skipped_before + behind - self._before
        skipped = rows  # messages on disk only are durable
        if queue.queue_id and count:
            recorded = self._entries[self._skipped_before : self._before] + self._entries[behind:]
            skipped += durable - sum([entry.message.durable for entry in recorded])
        queue.ledger.skip(count + rows, skipped)

    def step(self, now: int) -> bool:
        """Record the next losses, older ones first; then free the memory of the rest."""
        del now
        entries, pages = self._entries, self._pages
        if self._releasing:
            return self._release()
        if self._folded and not self._settled:
            for held in self._folded[-SLICE_MESSAGES:]:
                self._finish(entry_in(held), recorded=False)
            del self._folded[-SLICE_MESSAGES:]
        elif self._position < self._before:
            self._look(self._before)
        elif pages is not None and pages.rows:
            self._read(pages)
        elif self._position < len(entries):
            self._look(len(entries))
        else:
            self._pages = None
            self._releasing = True
        return True

    def _release(self) -> bool:
        """Free a part of the rest. Returns whether there is more."""
        entries = self._entries
        if self._retention is not None:  # a key references its messages, and they reference it
            for entry in entries[-RELEASED_PER_SLICE:]:
                self._retention.forget(entry)
        del entries[-RELEASED_PER_SLICE:]
        del self._folded[-RELEASED_PER_SLICE:]
        del self._times[-TIMES_PER_SLICE:]
        return bool(entries or self._folded or self._times)

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
        """Load the next rows for their loss records; those that the disk refuses get incomplete ones."""
        loaded = pages.load(insist=False)
        if loaded is None:
            loaded = pages.take_unread()
        elif pages.lost:
            self._queue.ledger.skip(pages.lost, pages.lost)
        for entry in loaded:
            if entry.state != REMOVED:  # those kept among the rows are in the list
                entry.state = REMOVED
                self._finish(entry, recorded=True)
