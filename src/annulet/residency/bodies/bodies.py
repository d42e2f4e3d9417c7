"""Moving bodies out of memory and back: the counterpart of rows for all other orders and for messages in delivery.

The entry stays and keeps everything that policies need; only its body leaves. Passes select the bodies: a sample of the
queue's bodies gives the position behind which the furthest of them amount to the required bytes, and all behind it
leave, slice by slice. So a pass examines each body in memory once.
"""

from __future__ import annotations

import logging
from random import Random
from typing import TYPE_CHECKING, Final

from annulet.core.deliveries.bodies import DAMAGED, FOUND, REFUSED, bring_back, send_away
from annulet.core.model.entry import DELIVERING, PENDING, REMOVED
from annulet.core.paging.paged_fifo import KEEP_BYTES, KEEP_MESSAGES
from annulet.core.paging.row_conditions import ENTRY_BYTES
from annulet.residency.bodies.candidates import BodyCandidates, may_leave, position_of
from annulet.residency.bodies.spilling import BODY_BYTES_LEAST
from annulet.residency.loading.load_ahead import PREFETCH_LOADS
from annulet.residency.loading.row_reading import ATTEMPTS_MAX, SCARCE
from annulet.residency.pages.pages import LOAD_BYTES, LOAD_MESSAGES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from annulet.core.message.message import Message
    from annulet.core.model.entry import QueueEntry
    from annulet.core.model.order import Order
    from annulet.core.paging.front_limits import FrontBounds
    from annulet.core.queue.queue import Queue
    from annulet.residency.bodies.body_store import BodyStore
    from annulet.residency.bodies.candidates import Position

logger = logging.getLogger(__name__)

SAMPLE: Final = 512
"""Bodies whose places tell which part of a queue is furthest: right to some 5 %, and sorted in a millisecond."""

SAMPLE_BLOCKS: Final = 8
"""Blocks of neighbours in delivery that tell how much may leave there: as many messages as in the other sample."""

GROWTH_LEAST: Final = 256
"""New bodies since the last pass that justify another, if rows can be paged instead."""


SAMPLING: Final = Random(0)  # noqa: S311 - no secret
"""The generator of samples, one for all: separate ones for ten thousand queues would take 25 MB."""


class StoredBodies(BodyCandidates):
    """The bodies of one queue: which are in memory and may leave, and the way back."""

    def __init__(self, queue: Queue, store: BodyStore, random: Random | None = None) -> None:
        super().__init__(store, queue, -1 if store.spilling is None else BODY_BYTES_LEAST)
        self.store = store
        self.keep_messages = KEEP_MESSAGES
        self.keep_bytes = KEEP_BYTES
        self.load_messages = LOAD_MESSAGES
        self.load_bytes = LOAD_BYTES
        self.freed = 0  # bytes that left in the pass under way, or the last one
        self._random = SAMPLING if random is None else random
        self._adopted = 0  # messages in memory at the last complete scan of the queue
        self._attempts = 0
        self._asked_for = 0  # fetches whose records were requested ahead
        self._spills_deliveries = True
        self._came_back = 0  # bytes that were pulled and are pending again since the last pass began
        self.writing = 0  # bytes on their way to the spill store, still in memory
        self._boundary: Position | None = None
        self.adopt()

    def bound(self, bounds: FrontBounds) -> None:
        """Limit the part of the next messages kept in memory, and the size of reads, to this."""
        self.keep_messages, self.keep_bytes = bounds
        self.load_messages = min(LOAD_MESSAGES, bounds.messages)
        self.load_bytes = min(LOAD_BYTES, bounds.size)

    # ------------------------------------------------------------------ the contents of memory

    def note_change(self) -> None:
        """Check the account in a separate turn: the next tick would be late for a large prefetch."""
        if self.store.changed is not None:
            self.store.changed(self.queue)

    def loaded(self, messages: int, size: int) -> None:
        """Let the store count it together with arrivals at other queues."""
        self.store.loaded(self.queue, messages * ENTRY_BYTES + size)

    def came_back(self, size: int) -> None:
        """Bodies that could not leave while they were pulled now can: as many as a load begin a pass.

        Not each of them, which would be a pass over the queue for every message that is pulled and returned. The next
        tick handles fewer.
        """
        self._came_back += size
        if self._came_back >= LOAD_BYTES:
            self._came_back = 0
            self.note_change()

    def adopt(self, *, whole: bool = False) -> None:
        """Examine all entries of the queue, whose kind may have changed; ``whole``: including possible rows."""
        queue = self.queue
        self.rows = queue.pageable() and not whole
        scheduled = [appointment.entry for appointment in queue.schedule.snapshot()]
        self.adopt_from([*queue.order.in_memory(), *scheduled, *queue.delivering.unfolded()])
        self._adopted = self.in_memory

    # ------------------------------------------------------------------ out

    def begin(self, wanted: int, deliveries: int = 0) -> None:
        """Begin a pass to free about ``wanted`` bytes.

        Bodies in delivery that would have to be written stay while they are at most ``deliveries`` bytes.
        """
        # Messages that become rows are in no list, and pages report those that cannot: another full scan would find
        # nothing.
        grown = not self.rows and self.in_memory > 2 * max(self._adopted, self.most_waiting)
        if grown or self.rows is not self.queue.pageable():
            self.adopt()
        self.front = self._leading()
        self._spills_deliveries = self.queue.delivering_bytes > deliveries
        self.begin_pass()
        self._boundary = self._boundary_for(wanted)
        self.freed = 0
        self.grown = 0
        self._came_back = 0

    def step(self, durable_record: int, limit: int) -> int:
        """Examine the next ``limit`` candidates and page the furthest. Returns how many were examined.

        Only records below ``durable_record`` can be read back. Bodies that are not in the log are written, one chunk at
        a time, and leave when that is done; ``freed`` counts them already.
        """
        away, away_bytes = self.count, self.bytes
        looked, unwritten = self.sift(durable_record, limit, self._boundary)
        self.store.figures.bodies_left += self.count - away
        self.freed += self.bytes - away_bytes
        if unwritten:
            unwritten.reverse()  # oldest first: that is how they will be read
            self._spill(unwritten, sum([entry.message.size for entry in unwritten]))
        return looked

    def to_be_spilled(self, entry: QueueEntry) -> bool:
        """Pass bodies that are not in the log to the spill store; those in delivery are mostly settled soon."""
        message, spilling = entry.message, self.store.spilling
        if spilling is None or (message.record and self.queue.queue_id):
            return False
        return spilling.takes(message) and (entry.state != DELIVERING or self._spills_deliveries)

    def _spill(self, entries: list[QueueEntry], size: int) -> None:
        assert self.store.spilling is not None
        self.writing += size
        self.freed += self.store.spilling.write(self, entries, size)

    def spilled(self, entries: list[QueueEntry], size: int) -> None:
        """Drop the bodies that were written and may still leave; the others, and refused ones, stay."""
        self.writing -= size
        for entry in entries:
            message = entry.message
            if entry.state == REMOVED or entry.away:
                continue
            if message.spill is not None and message.spill.readable and may_leave(entry):
                send_away(entry, self)
                self.store.figures.bodies_left += 1
            else:
                self.waiting.append(entry)
        self.note_change()

    def let_all_go(self, durable_record: int) -> None:
        """Let every body go that may, whatever is near: for tests, and nothing else needs it."""
        self.adopt(whole=True)
        self.begin_pass()
        self.front, self._boundary, self._spills_deliveries = set(), None, True
        while self.passing:
            self.step(durable_record, SAMPLE)

    def _leading(self) -> set[QueueEntry]:
        """Return the entries whose bodies stay: those that consumers take next."""
        front: set[QueueEntry] = set()
        size = 0
        for entry in self.queue.order.upcoming(self.keep_messages):
            if size >= self.keep_bytes:
                break
            size += entry.message.size
            front.add(entry)
        return front

    def _boundary_for(self, wanted: int) -> Position | None:
        """Return the position behind which there are about ``wanted`` bytes; entries in no order count as behind
        all."""
        count = len(self.scanning)
        sample = self.scanning if count <= SAMPLE else self._random.sample(self.scanning, SAMPLE)
        places: list[tuple[Position, int]] = []
        left = (wanted - self._claimed_bytes()) * len(sample) / max(1, count)
        for entry in sample:
            if entry.state == PENDING and not entry.away:
                places.append((position_of(entry), entry.message.size))
            elif entry.state != REMOVED and not entry.away and may_leave(entry):
                message = entry.message
                if message.record or message.spill is not None or self._spills_deliveries:
                    left -= message.size
        places.sort(reverse=True)
        for place, size in places:
            if left <= 0:
                return place
            left -= size
        return None

    def _claimed_bytes(self) -> float:
        """Return about how many bytes of deliveries may leave that are examined block by block."""
        some = self.blocks if len(self.blocks) <= SAMPLE_BLOCKS else self._random.sample(self.blocks, SAMPLE_BLOCKS)
        found = [entry for number in some for entry in self.in_block(number) if may_leave(entry)]
        return sum([entry.message.size for entry in found]) * len(self.blocks) / max(1, len(some))

    # ------------------------------------------------------------------ back

    def fetch(self, entry: QueueEntry, order: Order) -> int:
        """Read this body and those of the next entries that are away, ``load_messages`` or about ``load_bytes``."""
        if not entry.message.absent:  # it is in another queue
            bring_back(entry, self)
            self.add(entry)
            return FOUND
        if self.stalled:
            return REFUSED
        wanted = self._batch(entry, order)
        bodies = self._read([other.message for other in wanted])
        if bodies is None:
            return REFUSED
        for other, body in zip(wanted, bodies, strict=True):
            if body is None:
                continue
            if other.message.absent:
                other.message.arrive(body)
            bring_back(other, self)
            self.add(other)
        self.store.figures.bodies_brought_back += len(wanted)
        self._ask_ahead(order)
        self.note_change()
        return DAMAGED if bodies[0] is None else FOUND

    def look(self, messages: list[Message]) -> int:
        """Have bodies at hand without keeping them, as many as ``LOAD_BYTES`` allow."""
        store = self.store
        if store.at_hand(messages[0]):
            return FOUND
        if self.stalled:
            return REFUSED
        wanted: list[Message] = []
        size = 0
        for message in messages:
            if size >= LOAD_BYTES:
                break
            if message.absent:
                wanted.append(message)
                size += message.size
        bodies = self._read(wanted)
        if bodies is None:
            return REFUSED
        store.keep_ahead(wanted, bodies)
        return DAMAGED if bodies[0] is None else FOUND

    def reading_refusal(self, messages: list[Message]) -> str:
        """Compare the size of the bodies with the remaining memory."""
        room = self.store.room()
        needed = sum([message.size for message in messages])
        if needed <= room:
            return ""
        return (
            f"{len(messages)} bodies are on disk only and take {needed} bytes in memory, where {max(room, 0)} are left "
            "of memory_limit; consume some first, or raise memory_limit"
        )

    def retry(self) -> None:
        """Let the next fetch try the disk again."""
        self.stalled = False

    def _batch(self, entry: QueueEntry, order: Order) -> list[QueueEntry]:
        wanted = [entry]
        size = entry.message.size
        for other in order.upcoming(self.load_messages):
            if other is entry or not other.away:
                continue
            size += other.message.size
            if size > self.load_bytes or len(wanted) >= self.load_messages:
                break
            wanted.append(other)
        return wanted

    def _ask_ahead(self, order: Order) -> None:
        self._asked_for -= 1
        if self._asked_for > 0:
            return
        self._asked_for = PREFETCH_LOADS
        following = order.upcoming(self.load_messages * (PREFETCH_LOADS + 1))
        self.store.prefetch([entry.message for entry in following if entry.message.absent])

    def _read(self, messages: Sequence[Message]) -> list[bytes | None] | None:
        """Read; ``None`` when the disk refuses, which is final only after many attempts."""
        store = self.store
        try:
            bodies = store.read(messages)
        except OSError as error:
            store.figures.postponed += 1
            self._attempts += 1
            if self._attempts < ATTEMPTS_MAX or error.errno in SCARCE:
                self.stalled = True
                return None
            bodies = [self._read_one(message) for message in messages]
            logger.error(  # noqa: TRY400 - the text says it all
                "queue %s: %d messages cannot be read and wait in the log for the next start: %s",
                self.queue.name,
                bodies.count(None),
                error,
            )
        self._attempts = 0
        store.figures.unreadable += bodies[0] is None
        return bodies

    def _read_one(self, message: Message) -> bytes | None:
        try:
            return self.store.read([message])[0]
        except OSError:
            if message.spill is None or not self.queue.queue_id or not message.record:
                return None
        try:  # it was spilled for a non-durable queue; this one has its record
            return self.store.read_logged(message)
        except OSError:
            return None
