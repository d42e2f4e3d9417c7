"""Noting arrivals: done for each stored message, so it is compiled and does as little as possible."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.core.paging.row_conditions import ENTRY_BYTES, may_be_row
from annulet.core.queue.queue import as_queue

if TYPE_CHECKING:
    from annulet.core.model.entry import QueueEntry
    from annulet.core.queue.queue import Queue

FLOOR_BYTES: Final = 1 << 20
"""A queue below this never has to page: its next messages stay in memory whatever other queues use."""

FLOOR_MESSAGES: Final = 1024
"""The same for very small messages, of which 1 MiB is not much."""


class ArrivalNotes:
    """The queues that may have grown too large since the last check."""

    def __init__(self) -> None:
        self.floor = FLOOR_BYTES  # bytes from which on a queue is worth a measure, see small_queues, which sets both
        self.floor_messages = FLOOR_MESSAGES
        # Bytes by the account of arrivals at queues below the floor that possibly no round of small_queues has counted.
        # Other queues keep at most the floor, as expected; a deep one would start rounds all the time.
        self.arrived = 0
        self.queues: set[Queue] = set()
        self.records: dict[Queue, int] = {}  # the newest record of queues with some that may not be written yet

    def lower(self, floor: int) -> None:
        """Set the floor, in bytes; that in messages follows."""
        self.floor = floor
        self.floor_messages = messages_of(floor)

    def worth_noting(self, queue: Queue) -> bool:
        """Return whether a queue that a message was put into may be over the floor."""
        half = self.floor // 2
        return (
            queue.order.count > self.floor_messages
            or queue.pending_bytes > half
            or queue.delivering_bytes > half
            or queue.schedule.bytes > half
        )

    def stored(self, entry: QueueEntry) -> None:
        """A message was put into a queue and its record into the log."""
        queue = as_queue(entry.queue)
        size = entry.message.size
        if queue.pending_bytes < self.floor + size:
            self.arrived += size + ENTRY_BYTES
        if self.worth_noting(queue):
            self.queues.add(queue)
            self.records[queue] = entry.message.record
            bodies = queue.bodies
            if bodies is not None and not (bodies.rows and may_be_row(entry)):  # it skips those that can become rows
                bodies.note(entry)

    def take_written(self, durable_record: int) -> list[Queue]:
        """Return the queues whose noted messages are all below this record by now, each once."""
        written = [queue for queue, record in self.records.items() if record < durable_record]
        for queue in written:
            del self.records[queue]
        return written


def messages_of(floor: int) -> int:
    """Return how many messages a queue below the floor of this many bytes may have."""
    return FLOOR_MESSAGES * floor // FLOOR_BYTES
