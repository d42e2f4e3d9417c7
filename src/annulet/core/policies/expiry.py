"""When messages of one queue expire: an index over the whole queue, so that expiry does not wait for the head."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final

from annulet.core.base.expiry_times import NEVER, time_of
from annulet.core.base.sliced_work import SLICE_MESSAGES, SlicedWork
from annulet.core.model.entry import REMOVED
from annulet.core.policies.row_expiry import expire_ended

if TYPE_CHECKING:
    from annulet.core.base.settings import QueueSettings
    from annulet.core.model.entry import QueueEntry
    from annulet.core.policies.queue_policies import QueuePolicies

COMPACTION_MINIMUM: Final = 64
"""Entries that left a block before their time, before it is swept."""

BLOCK_BITS: Final = 10
"""Sequences of a block of the index, as a power of two: sweeping 1024 takes 0.3 ms.

Sweeping all 200,000 that fit into the default body budget blocked the loop for a tenth of a second, repeatedly while a
queue paged.
"""

DUE_LOOKED_AT: Final = 50_000
"""Entries examined to count expired ones: 1 ms. If these are not all, it is called again."""


def gives_time(settings: QueueSettings) -> bool:
    """Return whether a queue gives a time to live to messages without one."""
    return settings.message_ttl >= 0 or settings.max_ttl >= 0 or settings.tombstone_ttl >= 0


def times_of(settings: QueueSettings) -> tuple[int, int, int, int]:
    """Return the settings that :func:`expires_at` depends on."""
    return settings.message_ttl, settings.min_ttl, settings.max_ttl, settings.tombstone_ttl


def expires_at(settings: QueueSettings, entry: QueueEntry) -> int:
    """Return when a message expires in a queue with these settings (milliseconds since 1970); 0 for never.

    As :func:`time_of`; a tombstone, a message with key and empty body, has at most ``tombstone_ttl``.
    """
    message = entry.message
    at = time_of(settings, message.accepted_at, message.expires_at)
    if settings.tombstone_ttl >= 0 and entry.key is not None and not message.size:
        taken_over_at = max(message.accepted_at, message.deliver_at)
        ends_at = taken_over_at + settings.tombstone_ttl
        at = min(at or ends_at, ends_at)
    return at


class ExpiryBlock:
    """The part of an index for 1024 neighbouring sequences: a heap of times and sequences, and the present entries of
    these.
    """

    __slots__ = ("entries", "heap")

    def __init__(self) -> None:
        self.heap: list[tuple[int, int]] = []
        self.entries: dict[int, QueueEntry] = {}  # by sequence

    def sweep(self) -> None:
        """Drop the times of absent entries."""
        self.heap = [*{item for item in self.heap if item[1] in self.entries}]  # one added again is there twice
        heapify(self.heap)


class ExpiryIndex:
    """Blocks of entries, and a heap of the first time of each.

    Entries that leave early leave a time and a sequence until these outnumber the live ones of their block, but no
    message: there may be as many as fit into the body budget. Blocks avoid sweeping all at once; paged or consumed
    entries empty whole blocks one after the other.
    """

    __slots__ = ("_blocks", "_firsts", "ordered")

    def __init__(self) -> None:
        self.ordered = 0  # changes among rows that were put in the order of expiry so far: work, too, of a slice
        self._blocks: dict[int, ExpiryBlock] = {}  # by sequence; none is empty
        self._firsts: list[tuple[int, int, int]] = []  # a former or present first of a block, and the block

    def __len__(self) -> int:
        """Number of times in it, including those of entries that left."""
        return sum([len(block.heap) for block in self._blocks.values()])

    def add(self, at: int, entry: QueueEntry) -> None:
        """Note that ``entry`` expires at ``at`` (milliseconds since 1970)."""
        entry.indexed = True
        sequence = entry.sequence
        number = sequence >> BLOCK_BITS
        block = self._blocks.get(number)
        if block is None:
            block = self._blocks[number] = ExpiryBlock()
        block.entries[sequence] = entry
        item = (at, sequence)
        heappush(block.heap, item)
        if block.heap[0] == item:
            self._note_first(number, block)

    def forget(self, entry: QueueEntry) -> None:
        """An indexed entry left the queue before its time, or became a row."""
        entry.indexed = False
        number = entry.sequence >> BLOCK_BITS
        block = self._blocks.get(number)
        if block is None or block.entries.get(entry.sequence) is not entry:
            return
        del block.entries[entry.sequence]
        self._tidy(number, block)

    def _tidy(self, number: int, block: ExpiryBlock) -> None:
        """Drop an empty block, and the times of entries that left if they outnumber the present ones."""
        if not block.entries:
            del self._blocks[number]
        elif len(block.heap) > 2 * len(block.entries) + COMPACTION_MINIMUM:
            block.sweep()
            self._note_first(number, block)

    def _note_first(self, number: int, block: ExpiryBlock) -> None:
        """Another one is the first of a block now, or may be."""
        at, sequence = block.heap[0]
        heappush(self._firsts, (at, sequence, number))
        if len(self._firsts) > 2 * len(self._blocks) + COMPACTION_MINIMUM:
            self._firsts = []
            for place, other in self._blocks.items():
                at, sequence = other.heap[0]
                self._firsts.append((at, sequence, place))
            heapify(self._firsts)

    def sweep(self) -> None:
        """Drop the times of entries that left the queue. O(n)."""
        for number, block in list(self._blocks.items()):
            block.entries = {sequence: entry for sequence, entry in block.entries.items() if entry.state != REMOVED}
            self._tidy(number, block)

    def detached(self) -> list[ExpiryBlock]:
        """Take everything out, to be freed later, after all its entries have been removed."""
        blocks = list(self._blocks.values())
        self._blocks = {}
        self._firsts = []
        return blocks

    def due(self, now: int, most: int = -1, before: tuple[int, int] = NEVER) -> list[QueueEntry]:
        """Take out the live expired entries, earliest first; ``most`` (-1: all).

        Only those ``before`` this time and sequence, which are a row's.
        """
        due: list[QueueEntry] = []
        while len(due) != most:
            first = self.first()
            if first[0] > now or first > before or first == NEVER:
                break
            at, sequence = first
            number = sequence >> BLOCK_BITS
            block = self._blocks[number]
            heappop(block.heap)
            entry = block.entries.pop(sequence, None)  # none: one that was indexed again is met twice
            if entry is not None and entry.state != REMOVED:
                later = entry.queue.expires_at(entry)
                if later > max(at, now):  # that was the time of an earlier entry here
                    block.entries[sequence] = entry
                    heappush(block.heap, (later, sequence))
                else:
                    entry.indexed = False
                    due.append(entry)
            if block.entries:
                self._note_first(number, block)
            else:
                del self._blocks[number]
        return due

    def live_due(self, now: int) -> int:
        """Return how many have expired and are not known to have left, or fewer: some are examined, not all."""
        count = looked_at = 0
        for block in self._blocks.values():
            heap = block.heap
            count += max(0, sum([item[0] <= now for item in heap]) - (len(heap) - len(block.entries)))
            looked_at += len(heap)
            if looked_at >= DUE_LOOKED_AT:
                break
        return count

    def next_at(self) -> int:
        """When the next entry may expire; 0 when nothing is indexed."""
        first = self.first()
        return 0 if first == NEVER else first[0]

    def first(self) -> tuple[int, int]:
        """Return the time and sequence of the next entry that may expire, ``NEVER`` when nothing is indexed."""
        firsts = self._firsts
        while firsts:
            at, sequence, number = firsts[0]
            block = self._blocks.get(number)
            if block is not None and block.heap[0] == (at, sequence):
                return at, sequence
            heappop(firsts)
        return NEVER


def leave_index(index: ExpiryIndex | None, entry: QueueEntry) -> None:
    """Remove an entry that left early, or became a row, from the index, if present."""
    if entry.indexed and index is not None:
        index.forget(entry)


class Expiring(SlicedWork):
    """Removes very many expired messages. The queue dispatches nothing before the last is removed.

    The ledger keeps the newest losses only, so older ones are only counted: recording each, to be evicted by the next,
    costs more than the expiry itself.
    """

    def __init__(self, queue: QueuePolicies, now: int) -> None:
        super().__init__()
        self._queue = queue
        self._begun_at = now
        self.unrecorded = 0  # this many of the next are only counted in the ledger
        self._counting = True  # there may be some the ledger would not keep

    def _count(self, now: int) -> None:
        """Determine how many of the next the ledger would not keep. No more: messages in delivery stay."""
        queue, index = self._queue, self._queue.expiry
        if self._counting and not self.unrecorded and index is not None:
            due = index.live_due(now) - len(queue.delivering)  # rows that are left are recorded one by one
            self.unrecorded = max(0, due - queue.ledger.records_max)
            self._counting = self.unrecorded > 0

    def step(self, now: int) -> bool:
        """Remove the next few, then serve the consumers."""
        queue = self._queue
        if queue.expiring is not self:  # a caller could not wait
            return False
        if not queue.deleted:
            queue.note_time(now)
            if expire_ended(queue, now):
                return True
            self._count(now)
            queue.expire_some(now, SLICE_MESSAGES)
            if queue.has_expired(now):
                return True
        self.abandon(now)
        if not queue.deleted:
            queue.dispatch(now)
            queue.finish(now)
        return False

    def hurry(self) -> None:
        """Do the next slice for a sender that needs room, for messages expired when this began."""
        self.step(self._begun_at)

    def abandon(self, now: int) -> None:
        """Let dispatch go on."""
        if self._queue.expiring is self:
            self._queue.expiry_ended(now)
