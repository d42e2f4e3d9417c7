"""Point-in-time views of queues deeper than memory: which rows there were, read a slice at a time.

A view shows the messages pending or in delivery when it was taken, except those that have left the queue before the
read reaches them. Its places are sequences, so removed messages move no others to another task.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from annulet.broker.operation.management import REFUSED_PAUSE_SECONDS
from annulet.bulk.protocol.errors import UnavailableError
from annulet.bulk.protocol.schema import Row
from annulet.core.deliveries.bodies import DAMAGED, REFUSED
from annulet.core.host.retroactive import copy_of
from annulet.core.management.operation import REFUSED_MILLISECONDS
from annulet.core.queue.deep_queue_scan import DeepView

if TYPE_CHECKING:
    from annulet.core.message.message import Message
    from annulet.core.model.entry import QueueEntry
    from annulet.core.model.queue_area import QueueArea
    from annulet.core.queue.queue import Queue

logger = structlog.get_logger(__name__)

SLICE_MESSAGES: Final = 256
"""Messages of one turn of the event loop, as many as the walk reads at once."""

SLICE_BYTES: Final = 256 << 10
"""Body bytes of those that are objects, of one turn, but for the last message."""


class Selecting(Protocol):
    """The condition for the messages of a view."""

    def matches(self, entry: QueueEntry) -> bool:
        """Return whether an entry is meant."""

    def begin_slice(self) -> None:
        """Begin to count the steps of the selector anew."""

    @property
    def used_up(self) -> bool:
        """Return whether the selector has taken as long as it may in one slice."""


class QueueView:
    """The present contents. ``count``: messages; ``places``: above the first number, up to the second."""

    def __init__(self, queue: Queue, pages: QueueArea, selection: Selecting) -> None:
        self._view = DeepView(queue, pages, delivering=True)
        self._selection = selection
        self.count = self._view.size
        self.places = (max(0, self._view.first_sequence() - 1), self._view.end - 1)

    def read(self, after: int, upto: int, skip: int) -> ViewRead:
        """Begin to read these places; a repeated task begins again."""
        return ViewRead(self._view, self._selection, after, upto, skip)


class ViewRead:
    """One pass over some places of a view. Lives on the broker's loop."""

    def __init__(self, view: DeepView, selection: Selecting, after: int, upto: int, skip: int) -> None:
        self._queue = view.queue
        self._selection = selection
        self._scan = view.by_sequence(after, upto)
        self._skip = skip  # rows that match and are not sent
        self._ended = False
        self._unreadable = 0  # for the selector
        self._damaged = 0

    async def following(self) -> list[Row] | None:
        """Return the next rows, perhaps none although more follow; ``None`` behind the last.

        Raises :class:`UnavailableError` when the disk does not give them for ten seconds.
        """
        if self._ended:
            return None
        attempts = 0
        while not self._scan.prepare(SLICE_MESSAGES):
            if not self._scan.waiting:
                await asyncio.sleep(0)
                continue
            attempts += 1
            if attempts * REFUSED_PAUSE_SECONDS * 1000 > REFUSED_MILLISECONDS:
                raise UnavailableError(f"the disk does not give messages of queue {self._queue.name!r}; check it")
            await asyncio.sleep(REFUSED_PAUSE_SECONDS)
        rows: list[Row] = []
        size = 0
        self._selection.begin_slice()
        for _ in range(SLICE_MESSAGES):
            if self._scan.used_up or size > SLICE_BYTES or self._selection.used_up:
                break
            entry = self._scan.following()
            if entry is None:
                self._end()
                break
            row = self._row_of(entry)
            if row is not None:
                size += row.message.size
                rows.append(row)
        skipped = min(self._skip, len(rows))
        self._skip -= skipped
        return rows[skipped:]

    def _row_of(self, entry: QueueEntry) -> Row | None:
        """Return the row of an entry, if its message exists and matches."""
        own = self._scan.own(entry)
        if own is None:
            return None
        try:
            if not self._selection.matches(own):
                return None
        except Exception:  # noqa: BLE001 - views raise errors of rooms this one does not know; they are counted
            self._unreadable += 1
            return None
        message = self._whole(entry.message)
        if message is None:
            return None
        return Row(own.sequence, message, self._queue.expires_at(own), own.delivery_count, own.redelivered)

    def _whole(self, message: Message) -> Message | None:
        """Return a message with its body pinned; ``None`` if that is damaged."""
        bodies = self._queue.bodies
        if message.absent and bodies is not None:
            found = bodies.look([message])
            if found == REFUSED:
                raise UnavailableError(f"the disk does not give a message of queue {self._queue.name!r}; check it")
            if found == DAMAGED:
                self._damaged += 1
                return None
        return copy_of(message)

    def _end(self) -> None:
        self._ended = True
        damaged = self._damaged + len(self._scan.damaged)
        if damaged or self._unreadable:
            logger.warning(
                "messages are left out of a point-in-time view",
                queue=self._queue.name,
                damaged=damaged,
                unreadable_for_its_selector=self._unreadable,
            )
