"""Candidates for leaving memory, recorded on arrival and delivery of each message, and examined one by one when some
have to leave; therefore compiled.

:mod:`annulet.residency.bodies.bodies` acts on them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from mypy_extensions import mypyc_attr

from annulet.core.deliveries.bodies import CLAIMED_BYTES, send_away
from annulet.core.deliveries.delivery_table import BLOCK_BITS, BLOCK_TAGS
from annulet.core.model.entry import DELIVERING, PENDING, REMOVED, QueueEntry, Rank
from annulet.core.model.queue_bodies import QueueBodies
from annulet.core.paging.row_conditions import may_be_row
from annulet.residency.bodies.budget import body_bytes
from annulet.residency.bodies.spilling import CHUNK_BODIES, CHUNK_BYTES

if TYPE_CHECKING:
    from annulet.core.message.message import BodySource, Message
    from annulet.core.queue.queue import Queue

Position: TypeAlias = "tuple[Rank, int]"
"""The position of an entry in its order: rank (empty on FIFO queues), then place."""

SWEEP_LEAST: Final = 1024
"""Number of candidates at which those that cannot leave any more are dropped: young ones at this many beyond those kept
before, all at this many beyond twice the entries in memory. With the usual prefetch of up to 1000, fewer are released
at once than trigger the cyclic collector for young objects."""

TIDY_BYTES: Final = 8 << 20
"""Most bytes removed from the queue before removed candidates are dropped: with large bodies few candidates reference
much memory that is not in the account. A thousand of 64 KiB, consumed at once, stayed in memory beside their
successors."""

TIDY_BYTES_LEAST: Final = 256 << 10
"""The same, at least. An unused queue keeps this much as long as it has more than was removed."""

TIDY_PART: Final = 8
"""Between these bounds, 1 / this of the queue's memory: with equal bodies eight are examined for each removed one."""

TIDY_MOST: Final = 65_536
"""Candidates that are looked through for bytes: 3 ms of the loop. Where there are more, 8 MiB are a small part."""

TIDY_EACH: Final = TIDY_BYTES // TIDY_MOST
"""Least bytes removed for each examined one: 0.4 ms a MiB, if few large ones leave among very many small ones."""

FREED_MOST: Final = 16_384
"""Dropped candidates that are released in one turn: 2 ms of the loop if these are the last references."""

SWEEP_MOST: Final = 8192
"""Young candidates examined in any case: 1 ms of the loop."""

OLD_LOOKS: Final = 4
"""Older candidates examined for each new one: if each replaces one, as with last values, at most a quarter of the
candidates are stale, and the young ones; and no step examines all of them."""

CLAIMED_BLOCKS_LEAST: Final = 1024
"""Blocks of neighbours in delivery that are noted before those are forgotten that have been settled, or as many as were
left then: 65,536 messages, and an eighth of a millisecond."""


@mypyc_attr(allow_interpreted_subclasses=True)
class BodyCandidates(QueueBodies):
    """Entries of ``queue`` whose bodies may leave, including some that left or were removed in the meantime.

    ``spilled_from``: bytes of the smallest body that may leave without being in the log; -1 for none.
    """

    def __init__(self, source: BodySource, queue: Queue, spilled_from: int) -> None:
        super().__init__(source)
        self.queue = queue
        self.spilled_from = spilled_from
        self.waiting: list[QueueEntry] = []  # for the next pass
        self.scanning: list[QueueEntry] = []  # the rest of the pass under way
        self.front: set[QueueEntry] = set()  # entries that this pass keeps
        self._sweep_at = SWEEP_LEAST  # how many of ``waiting`` before the young ones are looked through
        self._gone: list[QueueEntry] = []  # dropped, to be freed slice by slice, as freeing many at once takes long
        self._young_from = 0  # where in ``waiting`` those begin that were looked through once at most
        self._new_from = 0  # start in ``waiting`` of the new ones since the last tidying
        self._old_from = 0  # start in ``waiting`` of the next few old ones to examine
        self._claimed: dict[int, None] = {}  # blocks of the queue's deliveries with new ones since the last pass
        self._forget_claimed_at = CLAIMED_BLOCKS_LEAST
        self.blocks: list[int] = []  # those that the current pass has not reached; they precede the waiting ones
        self._waited = 0  # how many of ``scanning`` waited when that pass began
        self._tidied_at = queue.counters.bytes_removed  # as it was when the removed were last forgotten

    @property
    def to_free(self) -> int:
        """How many entries were dropped and are still to be freed."""
        return len(self._gone)

    @property
    def in_memory(self) -> int:
        """Messages whose bodies the queue wants in memory: pending, scheduled and in delivery."""
        queue = self.queue
        entries = queue.order.count - queue.order.paged_count() + len(queue.delivering) + queue.schedule.count
        return entries - self.count

    def note(self, entry: QueueEntry) -> None:
        """Note an arrived entry with its body. Rows handle those that can become rows."""
        if self.may_have_place(entry) and not (self.rows and may_be_row(entry)):
            self.add(entry)

    def claimed(self, entry: QueueEntry) -> None:
        """See :func:`annulet.core.deliveries.bodies.claim`."""
        number = entry.sequence >> BLOCK_BITS
        if number != self.claimed_block:
            self._note_block(number)
        self._measure_if_due()

    def left_rows(self, entry: QueueEntry) -> None:
        """A pending entry is none that rows take care of any more."""
        if self.rows and entry.message.record:
            self.unmeasured += entry.message.size
            self.add(entry)
            self._measure_if_due()

    def left_delivery(self, entries: list[QueueEntry]) -> None:
        """Note entries that left delivery without being removed: the blocks noted before do not include them."""
        if self.rows:
            self.waiting += [entry for entry in entries if entry.message.record and not entry.away]
            self._sweep_if_due()

    def _measure_if_due(self) -> None:
        if self.unmeasured >= CLAIMED_BYTES:
            self.unmeasured = 0
            self.note_change()

    def _note_block(self, number: int) -> None:
        claimed = self._claimed
        self.claimed_block = number
        claimed[number] = None
        if len(claimed) >= self._forget_claimed_at:
            delivering = self.queue.delivering
            self._claimed = {block: None for block in claimed if delivering.block(block)}
            self._forget_claimed_at = 2 * len(self._claimed) + CLAIMED_BLOCKS_LEAST

    @property
    def most_waiting(self) -> int:
        """Largest number of candidates of the next pass, without later arrivals."""
        return len(self.waiting) + len(self._claimed) * BLOCK_TAGS

    def in_block(self, number: int) -> list[QueueEntry]:
        """Return the candidates in a block of the queue's deliveries; those without a record were noted on arrival."""
        return [
            entry
            for entry in self.queue.delivering.block(number)
            if isinstance(entry, QueueEntry) and entry.message.record and not entry.away
        ]

    def _forget_claimed(self) -> None:
        self._claimed = {}
        self.claimed_block = -1
        self._forget_claimed_at = CLAIMED_BLOCKS_LEAST

    def note_change(self) -> None:
        """The memory has changed by about one load since the account was last checked for it."""

    def kept(self, entries: list[QueueEntry], kept: bytearray) -> None:
        """Some of these became rows; those with a 1 in ``kept`` could not."""
        if 1 not in kept:
            return
        for entry, stays in zip(entries, kept, strict=True):
            if stays and not entry.away:
                self.add(entry)

    def adopt_from(self, entries: list[QueueEntry]) -> None:
        """Collect the candidates again from all entries in memory: there may be hundreds of thousands."""
        rows = self.rows
        self.wait(
            [
                entry
                for entry in entries
                if not entry.away and self.may_have_place(entry) and not (rows and may_be_row(entry))
            ]
        )
        self.scanning = []
        self.blocks = []
        self._forget_claimed()
        self.grown = len(self.waiting)

    def add(self, entry: QueueEntry) -> None:
        """Take in a candidate."""
        self.waiting.append(entry)
        self.grown += 1
        self._sweep_if_due()

    def _sweep_if_due(self) -> None:
        if len(self.waiting) > self._sweep_at:
            self._sweep_young()
            self.tidy()

    def begin_pass(self) -> None:
        """Start a pass over all candidates, those in delivery first, without building a list of these."""
        self.scanning = self.waiting
        self._waited = len(self.scanning)
        self.blocks = sorted(self._claimed)
        self._forget_claimed()
        self.wait([])

    @property
    def passing(self) -> bool:
        """Return whether a pass is under way."""
        return bool(self.scanning or self.blocks)

    def end(self) -> None:
        """End a pass that is no longer needed: the front was different when it began."""
        if self.passing:  # otherwise the waiting ones, and their young part, do not change: called each tick
            self.waiting += self.scanning
            self.wait(self.waiting)
            self.scanning = []
            self._claimed.update(dict.fromkeys(self.blocks))
            self.blocks = []
        self.front = set()

    def may_have_place(self, entry: QueueEntry) -> bool:
        """Return whether the body is, or could be, anywhere but in memory."""
        if entry.state == REMOVED:
            return False
        message = entry.message
        return (message.record > 0 and self.queue.queue_id != 0) or 0 <= self.spilled_from <= message.size

    def sift(self, durable_record: int, limit: int, boundary: Position | None) -> tuple[int, list[QueueEntry]]:
        """Examine the next ``limit`` candidates of the pass and page those behind ``boundary``.

        Only bodies of records below ``durable_record``, or spilled ones, can be read back. Returns how many were
        examined, and the entries that may leave after being written: about ``CHUNK_BYTES``, which also ends the step.
        """
        scanning, blocks, front = self.scanning, self.blocks, self.front
        kept: list[QueueEntry] = []
        unwritten: list[QueueEntry] = []
        size = looked = 0
        while (scanning or blocks) and looked < limit and size < CHUNK_BYTES and len(unwritten) < CHUNK_BODIES:
            if blocks and len(scanning) <= self._waited:
                scanning += self.in_block(blocks.pop())
                looked += 1
                continue
            entry = scanning.pop()
            looked += 1
            if entry.state == REMOVED or entry.away:
                continue
            if entry.state == PENDING:
                near = (boundary is not None and position_of(entry) <= boundary) or entry in front
            else:
                near = not may_leave(entry)
            if near:
                kept.append(entry)
            elif self._on_disk(entry.message, durable_record):
                send_away(entry, self)
            elif self.to_be_spilled(entry):
                unwritten.append(entry)
                size += entry.message.size
            else:
                kept.append(entry)
        kept.reverse()
        self.waiting += kept
        self.wait(self.waiting)
        if not self.passing:
            self.front = set()
        return looked, unwritten

    def _on_disk(self, message: Message, durable_record: int) -> bool:
        """Return whether this queue can have the body back: other queues' records may go any time."""
        if self.queue.queue_id and 0 < message.record < durable_record:
            return True
        return message.spill is not None and message.spill.readable

    def to_be_spilled(self, entry: QueueEntry) -> bool:
        """Return whether a body that is not in the log may leave once it is written."""
        raise NotImplementedError

    def tidy(self) -> bool:
        """Forget candidates that left or were removed, where these are most, or large: they are in no account.

        Called repeatedly: otherwise a queue without arrivals would keep references to all old entries. Returns whether
        there was work.
        """
        count = len(self.waiting) + len(self.scanning)
        removed = self.queue.counters.bytes_removed
        self._tidied_at = min(self._tidied_at, removed)  # the end of a start recounts, and these may be older
        due = count > 2 * self.in_memory or self._outweighed(count, removed - self._tidied_at)
        if due:
            self._tidied_at = removed
            self._forget()
            self._waited = min(self._waited, len(self.scanning))  # else all blocks would be looked up at once
            if not self.passing:
                self.front = set()
        worked = due or self.untidy
        del self._gone[-FREED_MOST:]
        return worked

    def _forget(self) -> None:
        if not self.in_memory:  # as after a purge of very many: none of them is examined
            self._gone += self.waiting
            self._gone += self.scanning
            self.wait([])
            self.scanning = []
            return
        self._gone += _gone_of(self.waiting)  # not those that stay: they would go in with each look, and most would
        self._gone += _gone_of(self.scanning)  # be removed, with their bodies, long before they are taken out
        self.wait(_in_memory_once(self.waiting))
        self.scanning = _in_memory_once(self.scanning)

    @property
    def untidy(self) -> bool:
        """Return whether dropped ones wait to be released by the next call of ``tidy``."""
        return bool(self._gone)

    def _outweighed(self, count: int, removed: int) -> bool:
        """Return whether ``removed`` bytes justify examining this many candidates."""
        if removed < TIDY_BYTES_LEAST or not 0 < count <= TIDY_MOST:
            return False
        return removed >= min(TIDY_BYTES, max(body_bytes(self.queue) // TIDY_PART, count * TIDY_EACH))

    def _sweep_young(self) -> None:
        """Drop candidates that left or were removed among the young ones, and among some older ones.

        So long-lived candidates are not examined repeatedly because of short-lived ones, and removed short-lived ones
        do not stay here with their bodies until they are as many as the long-lived ones.
        """
        waiting = self.waiting
        self._sweep_old(OLD_LOOKS * (len(waiting) - self._new_from))
        young = _in_memory_once(waiting[self._young_from : self._new_from])
        new = _in_memory_once(waiting[self._new_from :])
        del waiting[self._young_from :]
        waiting += young
        self._young_from = len(waiting)
        waiting += new
        self._new_from = len(waiting)
        self._sweep_at = len(waiting) + min(len(new) + SWEEP_LEAST, SWEEP_MOST)

    def _sweep_old(self, most: int) -> None:
        """Forget those that left or were removed of the next ``most`` old ones, from the first on after the last."""
        start = self._old_from
        end = min(start + most, self._young_from)
        left = [entry for entry in self.waiting[start:end] if entry.state != REMOVED and not entry.away]
        self.waiting[start:end] = left
        gone = end - start - len(left)
        self._young_from -= gone
        self._new_from -= gone
        self._old_from = start + len(left) if end < self._young_from + gone else 0

    def wait(self, entries: list[QueueEntry]) -> None:
        """Replace the candidates for the next pass; all of them count as old."""
        self.waiting = entries
        self._old_from = 0
        self._young_from = self._new_from = len(entries)
        self._sweep_at = len(entries) + SWEEP_LEAST


def _in_memory_once(entries: list[QueueEntry]) -> list[QueueEntry]:
    """Return those whose bodies are in memory, each once: repeatedly delivered ones occur repeatedly."""
    return list(dict.fromkeys([entry for entry in entries if entry.state != REMOVED and not entry.away]))


def _gone_of(entries: list[QueueEntry]) -> list[QueueEntry]:
    """Return the others."""
    return [entry for entry in entries if entry.state == REMOVED or entry.away]


def may_leave(entry: QueueEntry) -> bool:
    """Return whether the body is no longer read: clients that pulled a message (a lease, basic.get) may read it at any
    time."""
    return entry.state != DELIVERING or entry.consumer is not None


def position_of(entry: QueueEntry) -> Position:
    """Return the position of an entry in its order."""
    return (entry.rank or (), entry.place)
