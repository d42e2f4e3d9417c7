"""The removed contents of a queue: examined, settled, recorded and freed in slices.

It is in no collection of the queue any more, so only this work comes to it. The log is told by ranges of records, when
the last of it is examined: until then a crash brings all of it back, and :meth:`Emptying.when_told` tells a client that
the messages cannot come back. The ledger gets the newest losses, of which it keeps no more; others are counted.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from annulet.core.base.sliced_work import SLICE_MESSAGES, SlicedWork
from annulet.core.deliveries.bodies import let_go
from annulet.core.deliveries.delivery_table import BLOCK_TAGS
from annulet.core.model.compact_messages import CompactDelivery, SharedFields, entry_in
from annulet.core.model.effects import GoneRecords
from annulet.core.model.entry import BEHIND_ALL, DELIVERING, REMOVED, sequence_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from annulet.core.base.removal_reasons import RemovalReason
    from annulet.core.model.consumer import DeliveryOwner
    from annulet.core.model.entry import QueueEntry
    from annulet.core.model.queue_area import QueueArea
    from annulet.core.policies.eviction import EvictionIndex
    from annulet.core.policies.expiry import ExpiryBlock
    from annulet.core.policies.retention import Retention
    from annulet.core.policies.schedule import ScheduleIndex
    from annulet.core.queue.entries import QueueEntries

MARKED_PER_SLICE: Final = 4000
"""Messages that are examined in one slice: 1 to 2 ms, most of it to fetch them into the processor's cache."""

DELIVERIES_PER_SLICE: Final = 2000
"""Messages in delivery that are taken out and examined in one slice: 1 to 2 ms, more of those that stood folded."""

RELEASED_PER_SLICE: Final = 5000
"""Messages whose memory is given back in one slice: 1 ms."""

TIMES_PER_SLICE: Final = 4
"""Blocks of about 1000 times of expiry that are freed with them."""


class Part:
    """Removed entries on one side of the rows: the ``newest`` by sequence, and ``older`` ones in any order."""

    def __init__(self, newest_max: int) -> None:
        self.older: list[QueueEntry] = []
        self.newest: list[QueueEntry] = []
        self._newest_max = newest_max

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.older) + len(self.newest)

    def add(self, entries: list[QueueEntry]) -> None:
        """Add some. So no slice has to sort all of a million: those that no ledger will record stay as they come."""
        newest = self.newest
        newest += entries
        if len(newest) > 2 * self._newest_max + MARKED_PER_SLICE:
            self._cut()

    def _cut(self) -> None:
        newest = self.newest
        newest.sort(key=sequence_of)
        count = len(newest) - self._newest_max
        self.older += newest[:count]
        del newest[:count]

    def stretches(self, unrecorded: int) -> list[tuple[list[QueueEntry], bool]]:
        """Return them, oldest first, in lists with whether they are recorded; this many of the oldest are not.

        Nothing is left here: the memory of the lists is given back in slices.
        """
        older, newest = self.older, self.newest
        self.older, self.newest = [], []
        newest.sort(key=sequence_of)
        cut = unrecorded - len(older)
        found = [(older, False), (newest[:cut], False), (newest[cut:], True)]
        return [(entries, recorded) for entries, recorded in found if entries]


class LeftDeliveries:
    """The messages that a deleted queue has in delivery: taken out of it a part at a time, in the order of the queue.

    Clients may hold any number. Until its turn comes such a message keeps its state, and the queue lets nothing settle
    or return it. Deliveries that a command settled before the deletion are not lost: they come to their end first
    (:mod:`annulet.core.sessions.sliced_settlement`).
    """

    def __init__(self, queue: QueueEntries) -> None:
        self.settling = bool(queue.settling)  # some were settled before, and their turn has not come
        self.holders: dict[DeliveryOwner, None] = {}  # sessions that had those taken out so far
        self._queue = queue
        self._numbers: list[int] | None = None  # of the blocks that are left, descending
        self._unseen = 0  # deliveries that were in these
        self._gone: dict[SharedFields, SharedFields] = {}  # what folded ones are of that were taken out
        self._waiting: list[Callable[[], None]] = []

    def when_settled(self, done: Callable[[], None]) -> None:
        """Call this when those that were settled before the deletion have come to their end."""
        self._waiting.append(done)

    def settle(self, now: int) -> bool:
        """Let some of those come to their end. Returns whether there may be more."""
        queue = self._queue
        if queue.hurry_settlements():
            queue.finish(now)
            return True
        self.end_settling()
        return False

    def end_settling(self) -> None:
        """Nothing that was settled before the deletion is left, or a defect has met one of these."""
        self.settling = False
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            done()

    def take(self, most: int, recorded_max: int) -> tuple[list[QueueEntry], list[CompactDelivery], int]:
        """Take about ``most`` out of delivery. Returns entries, those that stay folded, and their body bytes.

        The newest ``recorded_max`` of all do not stay folded. Nothing when all are out.
        """
        queue = self._queue
        if self._numbers is None:
            self._numbers = queue.delivering.block_numbers()
            self._numbers.reverse()
            self._unseen = len(queue.delivering)
        entries: list[QueueEntry] = []
        folded: list[CompactDelivery] = []
        numbers = self._numbers
        while numbers and len(entries) + len(folded) + BLOCK_TAGS <= most:
            for slot in list(queue.delivering.block(numbers.pop())):
                if slot is None:
                    continue
                self._unseen -= 1
                if self._unseen >= recorded_max and isinstance(slot, CompactDelivery):
                    folded.append(slot)
                else:
                    entries.append(entry_in(slot))
        size = queue.delivering_bytes
        self.holders.update(queue.end_deliveries(entries))
        if folded:
            self._end_folded(folded)
        return entries, folded, size - queue.delivering_bytes

    def _end_folded(self, folded: list[CompactDelivery]) -> None:
        """Take these out, and let their sessions know that they are removed."""
        queue = self._queue
        bodies = queue.bodies
        assert bodies is not None
        kinds, size = queue.take_folded(folded)
        for kind in kinds:
            assert kind.consumer is not None
            self.holders[kind.consumer.session] = None
        for held in folded:
            link = held.link
            assert isinstance(link, SharedFields)
            gone = self._gone.get(link)
            if gone is None:
                gone = self._gone[link] = SharedFields(link.queue, link.origin, link.source)
                gone.redelivered, gone.delivery_count = link.redelivered, link.delivery_count
                gone.priority, gone.accepted_at = link.priority, link.accepted_at
                gone.removed = True
            held.link = gone
        bodies.count -= len(folded)
        bodies.bytes -= size


class Gone(GoneRecords):
    """The removed contents of a queue: entries ``found`` in its collections, of which some had left before, and the
    rows of ``pages``, or the ``deliveries`` of a deleted queue.

    The records are complete when all are examined, and how many messages are ``durable``. ``retention``, ``evictions``
    and ``schedule`` are the queue's data of these entries only; ``times`` may have some of others. Those ``folded``
    were in delivery and older: all are durable, and none has to be recorded. ``shared_retention`` has others, too.
    """

    def __init__(self, pages: QueueArea | None) -> None:
        super().__init__(pages)
        self.found: list[QueueEntry] = []
        self.arrivals: deque[QueueEntry] = deque()  # more of these: the collection itself, to copy nothing
        self.folded: list[CompactDelivery] = []
        self.marked = False  # all that was found has the state of removed ones
        self.count = 0  # entries examined
        self.durable = 0
        self.retention: Retention | None = None
        self.shared_retention: Retention | None = None
        self.evictions: EvictionIndex | None = None
        self.schedule: ScheduleIndex | None = None
        self.times: list[ExpiryBlock] = []
        self.deliveries: LeftDeliveries | None = None  # where the rest of ``found`` and ``folded`` is


class Emptying(SlicedWork):
    """The remaining work for the removed contents of a queue. By sequence there are entries, rows, entries.

    ``leaving`` messages of these, with ``leaving_bytes`` of bodies, are in memory until they are examined, and count in
    the account of the queue's bodies.
    """

    def __init__(
        self, queue: QueueEntries, gone: Gone, reason: RemovalReason, now: int, leaving: int = 0, leaving_bytes: int = 0
    ) -> None:
        super().__init__()
        pages = gone.pages
        self._queue = queue
        self._gone = gone
        self._reason = reason
        self._at = now
        self._counts = leaving > 0
        self._leaving, self._leaving_bytes = leaving, leaving_bytes
        self._times = gone.times
        self._examining = True
        self._taken = 0  # out of the deliveries
        self._told = False  # the log knows that all of it is gone, or the rest of this work tells it one by one
        self._settled = False
        self._waiting: list[Callable[[bool], None]] = []
        self._before, self._behind = Part(queue.ledger.records_max), Part(queue.ledger.records_max)
        self._first_row = pages.first_sequence() if pages is not None and pages.rows else BEHIND_ALL
        self._written_below = 0
        self._position = 0  # of the next entry to settle and record, in the first stretch
        self._stretches_before: list[tuple[list[QueueEntry], bool]] = []
        self._stretches_behind: list[tuple[list[QueueEntry], bool]] = []
        self._done: list[list[QueueEntry]] = []  # whose memory is given back at the end
        self.reads = pages is not None and pages.rows > 0
        queue.leaving += leaving
        queue.leaving_bytes += leaving_bytes
        queue.emptying.append(self)

    def when_told(self, done: Callable[[bool], None]) -> None:
        """Call this when no message can come back with a restart any more, once the next window is durable.

        With ``False`` after a defect: some may.
        """
        self._waiting.append(done)

    def when_settled(self, done: Callable[[], None]) -> bool:
        """Call this when the deliveries that were settled before the deletion of the queue have come to their end.

        False when none are left.
        """
        deliveries = self._gone.deliveries
        if deliveries is None or not deliveries.settling:
            return False
        deliveries.when_settled(done)
        return True

    def mark_all(self) -> None:
        """Examine all of it now."""
        while self._examining:
            self._examine()
        while not self._told:
            self._tell()
        self.reads = self._gone.pages is not None and self._gone.pages.rows > 0

    def step(self, now: int) -> bool:
        """Examine the next ones; then settle and record losses, older ones first; then free the memory of the rest."""
        if self._examining:
            deliveries = self._gone.deliveries
            if deliveries is None:
                self._examine()
            elif not (deliveries.settling and deliveries.settle(now)):
                self._take_deliveries(deliveries, now)
            return True
        if not self._told:
            self._tell()
            return True
        if self._times:
            self._index_others(now)
            return True
        gone, pages = self._gone, self._gone.pages
        if gone.folded and not self._settled:
            for held in gone.folded[-SLICE_MESSAGES:]:
                self._finish(entry_in(held), recorded=False)
            del gone.folded[-SLICE_MESSAGES:]
        elif self._stretches_before:
            self._look(self._stretches_before)
        elif pages is not None and pages.rows:
            self._read(pages)
        elif self._stretches_behind:
            self._look(self._stretches_behind)
        else:
            gone.pages = None
            return self._release()
        return True

    def abandon(self, now: int) -> None:
        """Count no message any more that was not examined, and tell those that wait that some may come back."""
        del now
        if self._gone.deliveries is not None:
            self._gone.deliveries.end_settling()
        self._count_left(self._leaving, self._leaving_bytes)
        self._end_telling(well=False)

    # ------------------------------------------------------------------ examining

    def _examine(self) -> None:
        """Mark the next entries as removed, and collect their facts; after the last tell the log."""
        gone = self._gone
        found, arrivals = gone.found, gone.arrivals
        if found:
            self._mark(found[-MARKED_PER_SLICE:])
            del found[-MARKED_PER_SLICE:]
        else:
            newest = [arrivals.pop() for _ in range(min(MARKED_PER_SLICE, len(arrivals)))]
            newest.reverse()
            self._mark(newest)
        if not found and not arrivals:
            self._examining = False
            self._count_left(self._leaving, self._leaving_bytes)
            self._examined()

    def _take_deliveries(self, deliveries: LeftDeliveries, now: int) -> None:
        """Take the next ones out of delivery and examine them; after the last serve their sessions."""
        gone, queue = self._gone, self._queue
        entries, folded, size = deliveries.take(DELIVERIES_PER_SLICE, queue.ledger.records_max)
        gone.folded += folded
        self._mark(entries)
        count = len(entries) + len(folded)
        queue.counters.removed[self._reason] += count
        queue.counters.bytes_removed += size
        self._taken += count
        if count:
            return
        if queue.events is not None:
            queue.events.emptied(self._taken, self._reason, self._at)
        if queue.expiry is not None:
            self._times = queue.expiry.detached()
        self._examining = False
        self._examined()
        for session in deliveries.holders:  # their deliveries here filled their shared windows
            session.wake(now)

    def _mark(self, found: list[QueueEntry]) -> None:
        gone, queue = self._gone, self._queue
        accounts, shared_retention = queue.accounts, gone.shared_retention
        written_below = queue.effects.written_below()
        lowest, highest = gone.lowest or written_below, gone.highest
        there = found if gone.marked else [entry for entry in found if entry.state != REMOVED]
        size = durable = 0
        for entry in there:
            entry.state = REMOVED
            message = entry.message
            size += message.size
            if message.away:
                let_go(entry)
            else:
                message.near -= 1
            record = message.record
            if 0 < record < written_below:
                lowest = min(lowest, record)
                highest = max(highest, record)
            elif record:
                gone.unwritten.append(record)
            if message.durable:
                durable += 1
            if entry.delivery_count or message.deliver_at:
                gone.noted.append(entry)
            if accounts is not None:
                accounts.released(entry)
            if shared_retention is not None:
                shared_retention.forget(entry)
        gone.lowest, gone.highest = lowest if highest else 0, highest
        gone.durable += durable
        gone.count += len(there)
        if self._counts:
            self._count_left(len(there), size)
        if self._first_row == BEHIND_ALL:
            self._before.add(there)
        else:
            self._before.add([entry for entry in there if entry.sequence < self._first_row])
            self._behind.add([entry for entry in there if entry.sequence >= self._first_row])

    def _count_left(self, count: int, size: int) -> None:
        self._leaving -= count
        self._leaving_bytes -= size
        self._queue.leaving -= count
        self._queue.leaving_bytes -= size

    def _examined(self) -> None:
        """Settle ranges in the log at once, and decide which losses are recorded."""
        gone, queue, pages = self._gone, self._queue, self._gone.pages
        self._settled = queue.effects.emptied(queue, gone)
        if not self._settled or queue.deleted:
            gone.unwritten, gone.noted = [], []
        rows = 0 if pages is None else pages.rows
        before, behind = self._before, self._behind
        unrecorded = max(0, before.count + behind.count + rows - queue.ledger.records_max)  # only counted in the ledger
        skipped_before = min(unrecorded, before.count)
        unrecorded -= skipped_before
        skipped_rows = pages.skip(min(unrecorded, rows)) if pages is not None and self._settled else 0
        skipped_behind = max(0, unrecorded - rows)
        self._stretches_before = self._to_look_at(before.stretches(skipped_before))
        self._stretches_behind = self._to_look_at(behind.stretches(skipped_behind))
        self._note_skipped(skipped_rows + len(gone.folded), skipped_before + skipped_behind)

    def _to_look_at(self, stretches: list[tuple[list[QueueEntry], bool]]) -> list[tuple[list[QueueEntry], bool]]:
        """Return those that have to be settled or recorded; of the others only the memory is left."""
        left: list[tuple[list[QueueEntry], bool]] = []
        for entries, recorded in stretches:
            if recorded or not self._settled:
                left.append((entries, recorded))
            else:
                self._done.append(entries)
        return left

    def _note_skipped(self, rows: int, count: int) -> None:
        """Count unrecorded losses in the ledger: ``rows`` and compact messages, and ``count`` entries.

        Durable ones among these are counted by looking at the others, of which the ledger records no more.
        """
        queue = self._queue
        skipped = rows  # messages on disk only are durable
        if queue.queue_id and count:
            skipped += self._gone.durable
            for entries, recorded in [*self._stretches_before, *self._stretches_behind]:
                if recorded:
                    skipped -= sum([entry.message.durable for entry in entries])
        queue.ledger.skip(count + rows, skipped)

    def _tell(self) -> None:
        """Tell the log and the history, one by one, what the ranges did not say."""
        gone, queue = self._gone, self._queue
        if gone.unwritten or gone.noted:
            queue.effects.emptied_apart(queue, gone.unwritten[-SLICE_MESSAGES:], gone.noted[-SLICE_MESSAGES:])
            del gone.unwritten[-SLICE_MESSAGES:]
            del gone.noted[-SLICE_MESSAGES:]
        if not (gone.unwritten or gone.noted):
            self._end_telling(well=True)

    def _end_telling(self, *, well: bool) -> None:
        if not self._told:
            self._told = True
            self._queue.emptying.remove(self)
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            done(well)

    # ------------------------------------------------------------------ the rest

    def _index_others(self, now: int) -> None:
        """Look through the next blocks of times: messages that were in delivery are indexed again."""
        del now
        queue = self._queue
        for block in self._times[-TIMES_PER_SLICE:]:
            for entry in block.entries.values():
                if entry.state != REMOVED and entry.indexed:
                    entry.indexed = False
                    if entry.state != DELIVERING and not queue.deleted:  # the others when they come back
                        queue.index_expiry(entry)
        del self._times[-TIMES_PER_SLICE:]

    def _look(self, stretches: list[tuple[list[QueueEntry], bool]]) -> None:
        """Settle and record the next entries, as many as fit a slice."""
        entries, recorded = stretches[0]
        for entry in entries[self._position : self._position + SLICE_MESSAGES]:
            self._finish(entry, recorded=recorded)
        self._position += SLICE_MESSAGES
        if self._position >= len(entries):
            self._position = 0
            self._done.append(stretches.pop(0)[0])

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

    def _release(self) -> bool:
        """Free a part of the rest. Returns whether there is more."""
        gone, done = self._gone, self._done
        if done:
            entries = done[-1]
            if gone.retention is not None:  # a key references its messages, and they reference it
                for entry in entries[-RELEASED_PER_SLICE:]:
                    gone.retention.forget(entry)
            del entries[-RELEASED_PER_SLICE:]
            if not entries:
                done.pop()
        del gone.folded[-RELEASED_PER_SLICE:]
        if gone.schedule is not None and not gone.schedule.release(RELEASED_PER_SLICE):
            gone.schedule = None
        if gone.evictions is not None and not gone.evictions.release(RELEASED_PER_SLICE):
            gone.evictions = None
        return bool(done or gone.folded or gone.schedule is not None or gone.evictions is not None)
