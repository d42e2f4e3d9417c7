"""Looking at the messages of a queue without touching them: no delivery count, no lock, no change of order.

A look goes in slices, one a turn of the event loop. A message is described when it is reached, in its present state;
examined messages are not kept in memory.
"""

from __future__ import annotations

import asyncio
import base64
from typing import TYPE_CHECKING, Any, Final

from annulet.broker.connections.payloads import payload_of
from annulet.broker.operation.management import REFUSED_PAUSE_SECONDS
from annulet.core.base.errors import ContentUnavailable, NotFound, PreconditionFailed
from annulet.core.management import select
from annulet.core.management.conditions import BodyTooLong
from annulet.core.model.compact_messages import entry_in
from annulet.core.model.entry import DELIVERING, PENDING, SCHEDULED, STATE_NAMES
from annulet.core.ordering.lane import lane_of
from annulet.core.queue.deep_queue_scan import scan_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from annulet.broker.settings.clock import Clock
    from annulet.core.management import Selection
    from annulet.core.message.message import Message
    from annulet.core.model.entry import QueueEntry
    from annulet.core.queue.queue import Queue

SLICE: Final = 200
"""Messages examined before other tasks get a turn."""

ID_SLICE: Final = 2000
"""The same, where no more than an id is compared."""

SLICE_BYTES: Final = 4 * 1024 * 1024
"""Bytes of bodies that are described before other tasks get a turn: AMQP 1.0's are copied, some 4 ms."""

FURTHER_SLICE: Final = 50
"""Messages that are described with what their headers have, before other tasks get a turn: some 5 ms."""

LOOKS_MAX: Final = 100_000
"""Messages examined in one look, a second or so; then it is not complete. To examine more, run the operation 'find'."""

WAITS_MAX: Final = 20
"""Times the disk may refuse the next messages, with 50 ms between; then the look is not complete."""

STATES: Final = {STATE_NAMES[state]: state for state in (PENDING, SCHEDULED, DELIVERING)}


class Look:
    """The first messages of a queue that a selection means. Call :meth:`step` until it is true.

    Pending ones in order of dispatch, then scheduled ones by time, then those in delivery by id. ``skip``: matching
    messages that are passed over first.
    """

    looks_max = LOOKS_MAX

    def __init__(self, queue: Queue, selection: Selection, state: int | None, limit: int, *, skip: int = 0) -> None:
        self.looked = 0
        self.found = 0
        self.unreadable = 0  # messages whose records are damaged, or whose properties the selector could not read
        self.unsearched = 0  # messages whose bodies are too long to be searched for a text
        self.complete = False  # all messages have been examined
        self.waits = 0  # times in a row that the disk did not give the next messages
        self._selection = selection
        self._limit = limit
        self._skip = skip
        self._slice = SLICE if selection.ids is None else ID_SLICE
        self._scan = scan_of(
            queue,
            pending=state in {None, PENDING},
            scheduled=state in {None, SCHEDULED},
            chosen=selection.ids,
            reader="a look at its messages",
        )
        delivering = queue.delivering.slots() if state in {None, DELIVERING} else []
        self._delivering = map(entry_in, delivering)  # of very many folded ones no more are made again than are shown
        self._shown: set[int] = set()

    def show(self, entry: QueueEntry) -> bool:
        """Take a message that is meant. Returns whether that was enough for one turn."""
        raise NotImplementedError

    def step(self, now: int) -> bool:
        """Examine one slice. Returns whether the look has ended; a refusing disk ends it."""
        if not self._scan.prepare(self._slice):
            self.waits += self._scan.waiting
            return self.waits > WAITS_MAX
        self.waits = 0
        self.unreadable += len(self._scan.damaged)
        self._scan.damaged.clear()
        self._selection.begin_slice()
        for _ in range(self._slice):
            if self._selection.used_up:
                return False
            if self.found >= self._limit or (self.looked >= self.looks_max and self._selection.ids is None):
                return True
            if self._scan.used_up:
                return False
            entry = self._scan.following() or next(self._delivering, None)
            if entry is None:
                self.complete = True
                return True
            self.looked += 1
            own = self._scan.own(entry)
            if own is None or own.state not in STATES.values() or 0 < own.queue.expires_at(own) <= now:
                continue
            if self._judge(own):
                return False
        return False

    def release(self) -> None:
        """Stop and release the references to the queue, whose messages may leave memory; the result stays."""
        self._scan.release()
        self._delivering = map(entry_in, [])

    async def run(self, clock: Clock) -> None:
        """Look to the end, a slice a turn. Cancelled it keeps nothing of the queue."""
        ended = False
        try:
            while not ended:
                ended = self.step(clock())
                await asyncio.sleep(REFUSED_PAUSE_SECONDS if self.waits else 0)
        finally:
            self.release()

    def _judge(self, entry: QueueEntry) -> bool:
        """Show an entry if it is meant. Returns whether that was enough for one turn."""
        if entry.sequence in self._shown:  # it was pending, and is in delivery now
            return False
        try:
            meant = self._selection.matches(entry)
        except BodyTooLong:
            self.unsearched += 1
            return False
        except Exception:  # noqa: BLE001 - views raise errors of rooms this one does not know; they are counted
            self.unreadable += 1
            return False
        if not meant:
            return False
        self._shown.add(entry.sequence)
        if self._skip:
            self._skip -= 1
            return False
        self.found += 1
        return self.show(entry)


class Sample(Look):
    """Describes the first messages, with ``body_bytes`` of each body, and with what ``further`` reads of a message."""

    def __init__(
        self,
        queue: Queue,
        selection: Selection,
        state: int | None,
        limit: int,
        body_bytes: int = 0,
        *,
        skip: int = 0,
        further: Callable[[Message], dict[str, Any]] | None = None,
    ) -> None:
        super().__init__(queue, selection, state, limit, skip=skip)
        self._further = further
        self.items: list[dict[str, Any]] = []
        self._body_bytes = body_bytes
        self._read = 0  # bytes of bodies in this turn

    def show(self, entry: QueueEntry) -> bool:
        """Describe it. All of a body has to be read for its first bytes: one that is on disk is enough for a turn."""
        absent = entry.message.absent
        described = describe_entry(entry, self._body_bytes)
        self.items.append(described)
        if self._further is not None:
            described.update(self._further(entry.message))
            if not len(self.items) % FURTHER_SLICE:
                return True
        if not self._body_bytes:
            return False
        self._read += entry.message.size
        if not absent and self._read < SLICE_BYTES:
            return False
        self._read = 0
        return True


class _Single(Look):
    """Finds one message."""

    entry: QueueEntry | None = None

    def show(self, entry: QueueEntry) -> bool:
        """Keep it."""
        self.entry = entry
        return True


async def find_message(queue: Queue, number: int, clock: Clock) -> QueueEntry:
    """Return the message with this id, pending, scheduled or in delivery.

    Raises :class:`NotFound`, and :class:`PreconditionFailed` while the disk does not give it.
    """
    look = _Single(queue, select(ids=[number]), None, 1)
    await look.run(clock)
    if look.entry is not None:
        return look.entry
    if look.waits:
        raise PreconditionFailed(f"the disk does not give message {number} of queue '{queue.name}'; try again")
    if look.unreadable:
        raise PreconditionFailed(f"message {number} of queue '{queue.name}' cannot be read: its record is damaged")
    raise NotFound(f"no message {number} in queue '{queue.name}': it has left, or there never was one")


def describe_entry(entry: QueueEntry, body_bytes: int = 0) -> dict[str, Any]:
    """Return a message's JSON. Times are milliseconds since 1970, 0 for none; ``size`` is bytes of the body."""
    message = entry.message
    lane = lane_of(entry)
    group = None if lane is None else lane.group
    described: dict[str, Any] = {
        "id": entry.sequence,
        "state": STATE_NAMES[entry.state],
        "size": message.size,
        "priority": message.priority,
        "durable": message.durable,
        "key": "" if entry.key is None else entry.key.text,
        "group": "" if group is None else group.name,
        "exchange": message.origin.exchange,
        "routing_key": message.origin.routing_key,
        "publisher": message.origin.publisher,
        "protocol": message.origin.view.name,
        "accepted_at": message.accepted_at,
        "expires_at": entry.queue.expires_at(entry),
        "deliver_at": entry.queue.due_at(entry),
        "delivery_count": entry.delivery_count,
        "redelivered": entry.redelivered,
        "consumer": "" if entry.consumer is None else entry.consumer.tag,
    }
    if body_bytes:
        try:
            payload = payload_of(message)
            body = message.body if payload is None else payload[0]
        except ContentUnavailable as error:
            described["body"] = None
            described["body_complete"] = False
            described["body_unavailable"] = str(error)
            return described
        described["body"] = base64.b64encode(body[:body_bytes]).decode("ascii")
        described["body_complete"] = len(body) <= body_bytes
    return described
