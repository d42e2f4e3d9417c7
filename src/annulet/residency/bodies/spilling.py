"""Spilling: bodies that are not in the log leave memory into files that a restart empties.

They are transient messages, and all messages in queues that end with the broker. Orders and policies are not affected:
an entry is *away* like any other (:mod:`annulet.core.deliveries.bodies`), except that its message names a place in the
spill store. A body is written before it leaves, outside the event loop; refused bodies stay in memory, and their
publishers are blocked: at once when the store is full, by the memory alarm when the disk refuses. No body is discarded
for lack of space.

A message keeps its place when its body is loaded, so that it need not be written a second time.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from annulet.core.message.message import BodyPlace, Message
    from annulet.core.model.entry import QueueEntry
    from annulet.residency.loading.figures import PagingFigures

logger = logging.getLogger(__name__)

BODY_BYTES_LEAST: Final = 256
"""Smaller bodies stay: the record of a place takes 100 bytes."""

CHUNK_BYTES: Final = 1 << 20
"""Bytes written at once, unless one body is larger."""

CHUNKS_LEAST: Final = 8
"""A full store accepts more when it has room for a chunk, or for this part of its limit: otherwise publishers would be
unblocked and blocked again with each body."""

CHUNK_BODIES: Final = 512
"""Bodies written at once: choosing and planning them takes 3 ms of the loop, recording the result 1 ms."""


class SpillWork(Protocol):
    """A piece of disk work: ``run`` in any thread, then ``finish``; then the work that is ``following``."""

    @property
    def error(self) -> OSError | None:
        """What ``run`` met."""

    def run(self) -> None:
        """Do the disk work. Raises nothing."""

    def finish(self) -> None:
        """Let the store know."""

    def following(self) -> SpillWork | None:
        """Return the work to continue with."""


class SpillWrite(SpillWork, Protocol):
    """Writes bodies."""

    def take_places(self) -> Sequence[BodyPlace]:
        """Return their places, to be called once."""


class SpillFiles(Protocol):
    """The files. :class:`annulet.store.spill.spill.SpillStore` is one. ``limit``: bytes that they may take."""

    limit: int

    def has_room(self, size: int) -> bool:
        """Return whether ``size`` bytes more keep within the limit."""

    def write(self, bodies: list[bytes]) -> SpillWrite:
        """Plan to write bodies."""

    def read(self, places: Sequence[BodyPlace]) -> list[bytes | None]:
        """Return bodies in this order, ``None`` for damaged ones. Raises ``OSError``."""

    def prefetch(self, places: Sequence[BodyPlace]) -> None:
        """Have these read ahead."""

    def reclaim(self, most: int) -> bool:
        """Take note of up to ``most`` places that were given back. Returns whether there are more."""

    def upkeep(self) -> SpillWork | None:
        """Return the next piece of upkeep."""


class Spiller(Protocol):
    """The owner of written bodies: :class:`annulet.residency.bodies.bodies.StoredBodies`."""

    def spilled(self, entries: list[QueueEntry], size: int) -> None:
        """Their bodies, of ``size`` bytes, were written or refused, see ``message.spill``."""


def at_once(work: SpillWork, done: Callable[[], None]) -> None:
    """Do disk work here and now."""
    work.run()
    done()


class Spilling:
    """Schedules the writes of all queues. ``submit`` runs work elsewhere and calls back on the event loop."""

    def __init__(
        self,
        files: SpillFiles,
        figures: PagingFigures,
        submit: Callable[[SpillWork, Callable[[], None]], None] = at_once,
    ) -> None:
        self.files = files
        self.figures = figures
        self.refusing = False  # the store is full, or the disk refused: it is not used until the next retry
        self.works = 0  # under way
        self.writes = 0  # of these, those that let bodies leave memory
        self._submit = submit
        self._failing = False  # the disk refused: nor are files moved or removed until the next retry
        self._warned = False
        self._lacking = 0  # bytes for which there must be room again, 0: there was enough
        self._lacked = False  # so since the last retry
        self._upkeep = False  # one piece is under way
        self._closed = False

    def takes(self, message: Message) -> bool:
        """Return whether a body may be written that has no place."""
        return message.spill is None and message.size >= BODY_BYTES_LEAST and not self.refusing and not self._closed

    def write(self, spiller: Spiller, entries: list[QueueEntry], size: int) -> int:
        """Write the bodies of entries, ``size`` bytes, and notify their queue when that is done.

        Returns how many bytes are being written: those of the first entries, if the limit has no room for all. The
        queue is notified at once that the others stay.
        """
        entries, others = self._fitting(entries, size)
        if others:
            lacking, limit = others[0].message.size, self.files.limit
            if lacking <= limit:  # else no consumer could make room
                self._lacking = max(lacking, min(CHUNK_BYTES, limit // CHUNKS_LEAST))
                self._lacked = True
            self._refuse(len(others), "spill_limit is reached; raise it, or let consumers catch up")
            stay = sum([entry.message.size for entry in others])
            spiller.spilled(others, stay)
            size -= stay
        if not entries:
            return 0
        messages = list(dict.fromkeys([entry.message for entry in entries]))  # a browser's copy shares the original's
        work = self.files.write([message.body for message in messages])
        for message, place in zip(messages, work.take_places(), strict=True):
            message.spill = place
        self.works += 1
        self.writes += 1

        def done() -> None:
            self._written(work, messages)
            spiller.spilled(entries, size)

        self._submit(work, done)
        return size

    def _fitting(self, entries: list[QueueEntry], size: int) -> tuple[list[QueueEntry], list[QueueEntry]]:
        """Return the first entries, as far as there is room for their bodies, and the others."""
        if self.files.has_room(size):
            return entries, []
        wanted = 0
        for number, entry in enumerate(entries):
            wanted += entry.message.size
            if not self.files.has_room(wanted):
                return entries[:number], entries[number:]
        return entries, []

    @property
    def full(self) -> bool:
        """Return whether a write had no room, and there is still none for a chunk."""
        return self._lacking > 0 and not self.files.has_room(self._lacking)

    def _written(self, work: SpillWork, messages: list[Message]) -> None:
        self.works -= 1
        self.writes -= 1
        work.finish()
        if work.error is None:
            self._warned = False
            self.figures.spilled += len(messages)
            return
        for message in messages:
            message.spill = None
        self._failing = True
        self._refuse(len(messages), f"{work.error}; check the disk")

    def _refuse(self, bodies: int, reason: str) -> None:
        self.refusing = True
        self.figures.spill_refused += bodies
        if not self._warned:
            self._warned = True
            logger.warning("bodies cannot be spilled and stay in memory; publishers may have to wait: %s", reason)

    def retry(self) -> None:
        """Retry the store, and maintain its files. A write that was not repeated since the last time needs no room: its
        queue may be deleted.
        """
        self.refusing = self._failing = False
        if not self._lacked:
            self._lacking = 0
        self._lacked = False
        self.upkeep()

    def reclaim(self, most: int) -> bool:
        """Process released places. Returns whether there are more."""
        more = self.files.reclaim(most)
        self.upkeep()
        return more

    def upkeep(self) -> None:
        """Go on with removing and compacting files, one piece at a time, unless the disk refuses.

        Especially with a full store: released places make room at once.
        """
        if self._upkeep or self._failing or self._closed:
            return
        work = self.files.upkeep()
        if work is not None:
            self._upkeep = True
            self._do(work)

    def _do(self, work: SpillWork) -> None:
        self.works += 1
        self._submit(work, lambda: self._done(work))

    def _done(self, work: SpillWork) -> None:
        self.works -= 1
        work.finish()
        if work.error is not None:  # no information about writes: the disk may refuse reads only
            self._failing = True
        elif not self._failing:
            self.refusing = False  # there may be room now
        following = work.following()
        if following is not None:
            self._do(following)
            return
        self._upkeep = False
        self.upkeep()

    def close(self) -> None:
        """Begin nothing any more."""
        self._closed = True
