"""Reads bodies that are on disk only, for all queues: from the message log and from the spill store."""

from __future__ import annotations

from threading import get_ident
from typing import TYPE_CHECKING, Final

from annulet.core.base.errors import ContentUnavailable
from annulet.core.deliveries.bodies import CLAIMED_BYTES
from annulet.core.message.message import BodySource

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from annulet.core.message.message import Message
    from annulet.core.queue.queue import Queue
    from annulet.residency.bodies.spilling import Spilling
    from annulet.residency.loading.figures import PagingFigures
    from annulet.residency.loading.loader import MessageReader

AHEAD_BYTES: Final = 4 << 20
"""Bodies read for non-destructive readers that are kept until replaced: 4 MiB for all queues, except for one read."""


class BodyStore(BodySource):
    """Reads bodies for all queues, from ``reader`` and the spill store, in the thread that created it.

    ``changed`` is called with a queue that loaded bodies into memory, or had some written.
    """

    def __init__(
        self,
        reader: MessageReader,
        figures: PagingFigures,
        room: Callable[[], int],
        changed: Callable[[Queue], None] | None = None,
        spilling: Spilling | None = None,
    ) -> None:
        self.reader = reader
        self.spilling = spilling  # None: bodies that are not in the log stay in memory
        self.figures = figures
        self.room = room  # bytes the process may still take
        self.changed = changed
        self._thread = get_ident()
        self.ahead_bytes = 0
        self._ahead: dict[int, bytes] = {}  # by record, or place below 0; oldest first
        self.orphans: list[Message] = []  # whose bodies the next pass drops
        self._loaded = 0  # bytes of rows loaded since accounts were last checked for this
        self._loading: dict[Queue, None] = {}  # whose rows these were

    def read(self, messages: Sequence[Message]) -> list[bytes | None]:
        """Return the bodies in this order, ``None`` for a damaged one or another message. Raises ``OSError``."""
        found: dict[int, bytes | None] = {}
        places = {key_of(message): message.spill for message in messages if message.spill is not None}
        if places:
            assert self.spilling is not None
            found.update(zip(places, self.spilling.files.read(list(places.values())), strict=True))
        logged = [message for message in messages if message.record and found.get(key_of(message)) is None]
        if logged:  # also one spilled for another queue and damaged there
            records = sorted({message.record for message in logged})
            stored = dict(zip(records, self.reader.read(records), strict=True))
            for message in logged:
                record = stored[message.record]
                found[key_of(message)] = None if record is None else record.body
        bodies: list[bytes | None] = []
        for message in messages:
            body = found.get(key_of(message))
            bodies.append(None if body is None or len(body) != message.size else body)
        self.figures.bodies_read += len(messages)
        return bodies

    def read_logged(self, message: Message) -> bytes | None:
        """Return a body from the log, though it is spilled as well; ``None`` when it is damaged. Raises ``OSError``.

        Only for a queue with the record: that of another queue may have been removed, and would count as lost.
        """
        (record,) = self.reader.read([message.record])
        return None if record is None or len(record.body) != message.size else record.body

    def prefetch(self, messages: Sequence[Message]) -> None:
        """Have these bodies read ahead."""
        records = sorted([message.record for message in messages if message.spill is None])
        if records:
            self.reader.prefetch(records)
        places = [message.spill for message in messages if message.spill is not None]
        if places and self.spilling is not None:
            self.spilling.files.prefetch(places)

    def body_of(self, message: Message) -> bytes:
        """Return the body read ahead, or read this one."""
        body = self._ahead.get(key_of(message))
        if body is not None and len(body) == message.size:
            return body
        if get_ident() != self._thread:
            raise ContentUnavailable(
                f"a message of {message.size} bytes left memory while it was read; take a new view of the queue"
            )
        try:
            (body,) = self.read([message])
        except OSError as error:
            raise ContentUnavailable(
                f"a message of {message.size} bytes is on disk only, and the disk does not give it now: {error}; "
                "try again when the disk is well"
            ) from error
        if body is None:
            raise ContentUnavailable(
                f"a message of {message.size} bytes is on disk only, and its record is damaged; see the broker's log"
            )
        return body

    def at_hand(self, message: Message) -> bool:
        """Return whether a body can be had without reading."""
        return not message.absent or key_of(message) in self._ahead

    def keep_ahead(self, messages: Sequence[Message], bodies: Sequence[bytes | None]) -> None:
        """Remember bodies for :meth:`body_of`, and forget the oldest of those that were remembered before."""
        ahead = self._ahead
        fresh = {key_of(message): body for message, body in zip(messages, bodies, strict=True) if body is not None}
        coming = sum(map(len, fresh.values()))
        while ahead and self.ahead_bytes + coming > AHEAD_BYTES:
            self.ahead_bytes -= len(ahead.pop(next(iter(ahead))))
        for key, body in fresh.items():
            self.ahead_bytes += len(body) - len(ahead.pop(key, b""))
            ahead[key] = body

    def loaded(self, queue: Queue, size: int) -> None:
        """Check the accounts of all queues that loaded rows when these amount to one load, 1 MiB.

        The next tick handles less. If each queue were allowed a load, a thousand queues drained together would exceed
        the budget by as many. ``size``: of these rows, by the account.
        """
        if self.changed is None:
            return
        self._loaded += size
        self._loading[queue] = None
        if self._loaded >= CLAIMED_BYTES:
            loading, self._loading, self._loaded = self._loading, {}, 0
            for other in loading:
                self.changed(other)

    def orphaned(self, message: Message) -> None:
        """Let the body leave with the next pass."""
        self.orphans.append(message)

    def close(self) -> None:
        """Drop the references to the ending broker: messages refer to this, and a cycle over compiled objects would
        stay."""
        self.orphans.clear()
        self._loading.clear()
        self.changed = None
        self.room = int

    def drop_orphans(self) -> None:
        """Drop bodies that were no longer needed, unless they are needed again."""
        for message in self.orphans:
            if message.near <= 0 and message.away:
                message.leave()
        self.orphans.clear()


def key_of(message: Message) -> int:
    """Return a number of the message's body: its place's, below 0, else its record's."""
    place = message.spill
    return message.record if place is None else -place.number
