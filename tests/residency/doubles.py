"""A log of the residency's tests: records in a dictionary, which can be damaged or refuse to be read."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from typing import Any

from annulet.core.message.message import Message, Origin
from annulet.core.model.entry import QueueEntry
from annulet.core.model.queue_area import RowView
from annulet.core.paging.paged_fifo import PagedFifo
from annulet.core.paging.paged_priorities import paged_order_of
from annulet.core.queue.queue import Queue
from annulet.residency.bodies.bodies import StoredBodies
from annulet.residency.bodies.body_store import BodyStore
from annulet.residency.bodies.spilling import Spilling
from annulet.residency.loading.figures import PagingFigures
from annulet.residency.pages.chosen_rows import ChosenRows
from annulet.residency.pages.pages import StoredQueueArea
from annulet.store.segments.interface import LoggedMessage
from tests.core.helpers import make_message, queue_of


class Disk:
    def __init__(self) -> None:
        self.stored: dict[int, LoggedMessage] = {}
        self.damaged: set[int] = set()
        self.settled: set[int] = set()
        self.unwritten_from = 1 << 60
        self.failing = False
        self.error = errno.EIO
        self.reads: list[int] = []
        self.prefetched: list[int] = []
        self.free = 1 << 40
        self.figures = PagingFigures()
        self.queue: Queue  # whose message was stored last

    def room(self) -> int:
        """Return how many bytes of it memory has room for."""
        return self.free

    def store(self, queue: Queue, message: Message, sequence: int) -> None:
        self.queue = queue
        message.record = len(self.stored) + 1
        message.durable = True
        origin = message.origin
        self.stored[message.record] = LoggedMessage(
            message.header,
            message.body,
            (origin.exchange, origin.routing_key, origin.publisher, origin.view.name),
            message.priority,
            message.accepted_at,
            message.expires_at,
            [(queue.queue_id, sequence)],
        )

    def lack(self, records: Sequence[int], needles: Sequence[list[bytes]]) -> bool:
        if self.failing and records:  # the log asks no disk for nothing
            raise OSError(self.error, os.strerror(self.error))
        return False

    def read(self, records: Sequence[int]) -> list[LoggedMessage | None]:
        if self.failing and records:
            raise OSError(self.error, os.strerror(self.error))
        self.reads.append(len(records))
        return [None if record in self.damaged else self.stored.get(record) for record in records]

    def holds(self, record: int, queue_id: int) -> bool:
        return record not in self.settled and queue_id in [target for target, _ in self.stored[record].targets]

    def held(self, records: list[int], queue_id: int) -> list[int]:
        return [place for place, record in enumerate(records) if self.holds(record, queue_id)]

    @property
    def written_below(self) -> int:
        return self.unwritten_from

    def messages(
        self, queue_id: int, records: Sequence[int], sequences: Sequence[int], origins: list[Origin]
    ) -> list[Message | None]:
        return made_of(self.read(records), queue_id, records, sequences, origins)

    def fitting(self, records: Sequence[int], size: int) -> int:
        for place, record in enumerate(records):
            size -= len(self.stored[record].body) if record in self.stored else 0
            if size < 0:
                return max(1, place)
        return len(records)

    def prefetch(self, records: Sequence[int]) -> None:
        self.prefetched.extend(records)


class SpillPlace:
    """A place in :class:`Spill`; it counts as given back when it is gone."""

    def __init__(self, spill: Spill, number: int) -> None:
        self.spill = spill
        self.number = number
        self.readable = False

    def __del__(self) -> None:
        self.spill.used -= len(self.spill.bodies.pop(self.number))


class SpillWork:
    error: OSError | None = None

    def __init__(self, spill: Spill, bodies: list[bytes]) -> None:
        self.spill = spill
        self.bodies = bodies
        self.places: list[SpillPlace] = []

    def take_places(self) -> list[SpillPlace]:
        self.places = [self.spill.place(body, readable=False) for body in self.bodies]
        return self.places

    def run(self) -> None:
        if self.spill.refusing:
            self.error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def finish(self) -> None:
        for place in self.places:
            place.readable = self.error is None
        self.places = []

    def following(self) -> None:
        return None


class Spill:
    """Spilled bodies in a dictionary."""

    def __init__(self, limit: int = 1 << 40) -> None:
        self.limit = limit
        self.bodies: dict[int, bytes] = {}
        self.used = 0  # counted, as places go at any moment
        self.writes: list[int] = []
        self.reads: list[int] = []
        self.prefetched: list[SpillPlace] = []
        self.damaged: set[int] = set()
        self.failing = False
        self.refusing = False
        self.upkeeps: list[SpillWork] = []
        self._number = 0

    def place(self, body: bytes, *, readable: bool = True) -> SpillPlace:
        self._number += 1
        self.bodies[self._number] = body
        self.used += len(body)
        place = SpillPlace(self, self._number)
        place.readable = readable
        return place

    def has_room(self, size: int) -> bool:
        return self.used + size <= self.limit

    def write(self, bodies: list[bytes]) -> SpillWork:
        self.writes.append(len(bodies))
        return SpillWork(self, bodies)

    def read(self, places: Sequence[SpillPlace]) -> list[bytes | None]:
        if self.failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self.reads.append(len(places))
        return [None if place.number in self.damaged else self.bodies[place.number] for place in places]

    def prefetch(self, places: Sequence[SpillPlace]) -> None:
        self.prefetched.extend(places)

    def reclaim(self, most: int) -> bool:
        return most < 0

    def upkeep(self) -> SpillWork | None:
        return self.upkeeps.pop() if self.upkeeps else None


def spilling_of(spill: Spill) -> Spilling:
    return Spilling(spill, PagingFigures())


def made_of(
    stored: list[LoggedMessage | None], queue_id: int, records: list[int], sequences: list[int], origins: list[Origin]
) -> list[Message | None]:
    """Make messages of what was read for a queue's rows."""
    found: list[Message | None] = []
    for logged, record, sequence, origin in zip(stored, records, sequences, origins, strict=True):
        if logged is None or (queue_id, sequence) not in logged.targets:
            found.append(None)
            continue
        message = Message(logged.header, logged.body, origin, durable=True, priority=logged.priority)
        message.accepted_at, message.expires_at = logged.accepted_at, logged.expires_at
        message.record = record
        found.append(message)
    return found


def durable_queue(**settings: Any) -> Queue:
    queue = queue_of(**settings)
    queue.queue_id = 7
    queue.durable = True
    return queue


def stored_entries(queue: Queue, disk: Disk, count: int, *, size: int = 10) -> list[QueueEntry]:
    """Return entries of the queue, in the log and nowhere else."""
    entries = []
    for _ in range(count):
        entry = QueueEntry(queue, make_message(b"%0*d" % (size, queue.next_sequence)), queue.next_sequence)
        queue.next_sequence += 1
        disk.store(queue, entry.message, entry.sequence)
        entries.append(entry)
    return entries


def plenty() -> int:
    return 1 << 40


def pages_of(
    queue: Queue,
    disk: Disk,
    room: Callable[[], int] | None = None,
    ask_turn: Callable[[Queue], None] | None = None,
    figures: PagingFigures | None = None,
) -> StoredQueueArea:
    """Return the area of a queue on a disk; ``room`` and ``figures`` are for disks that have none of their own."""
    kind = ChosenRows if queue.ranker.sorts else StoredQueueArea
    return kind(queue, disk, figures or disk.figures, room or disk.room, ask_turn)


def read_and_changed(pages: StoredQueueArea, more: list[QueueEntry]) -> RowView:
    """Have somebody read the only page, then take the row of sequence 5 out and add ``more``; return what he reads."""
    view = pages.snapshot([])
    (page,) = pages.page_list
    pages.take_out([entry for entry in pages.look(1, [], 10) or [] if entry.sequence == 5])
    pages.add(more, bytearray(len(more)))
    assert pages.page_list[0] is not page
    return view


def bodies_of(queue: Queue, disk: Disk, spilling: Spilling | None = None) -> StoredBodies:
    """Return the bodies of a queue, which may leave from now on."""
    bodies = StoredBodies(queue, BodyStore(disk, PagingFigures(), plenty, None, spilling))
    queue.bodies = bodies
    return bodies


def filled(queue: Queue, disk: Disk, count: int, *, size: int = 10) -> list[QueueEntry]:
    """Put stored messages into a queue that nobody consumes from."""
    entries = stored_entries(queue, disk, count, size=size)
    for entry in entries:
        queue.ranker.assign(entry, 0)
        queue.insert(entry, arrival=True)
    return entries


def appended(count: int, *, keep: int) -> tuple[PagedFifo, list[QueueEntry]]:
    """Return an order that so many stored messages were appended to, of which ``keep`` stay in front, and these."""
    queue, disk = durable_queue(), Disk()
    order = paged_order_of(queue, pages_of(queue, disk))
    assert isinstance(order, PagedFifo)
    order.keep_messages = keep
    entries = stored_entries(queue, disk, count)
    for entry in entries:
        order.append(entry)
    return order, entries
