"""Reading the rows of a queue, and how long a disk that refuses is asked again."""

from __future__ import annotations

import errno
import logging
from typing import TYPE_CHECKING, Final, cast

from annulet.residency.loader import entries_of, plain_entries_of, read_singly, with_needles

if TYPE_CHECKING:
    from annulet.core.entry import QueueEntry
    from annulet.core.message import Origin
    from annulet.core.queue import Queue
    from annulet.residency.figures import PagingFigures
    from annulet.residency.loader import MessageReader
    from annulet.residency.rows import Rows

logger = logging.getLogger(__name__)

ATTEMPTS_MAX: Final = 40
"""Times a read that the disk refuses is tried before its rows are given up: 10 s of the broker's ticks."""

SCARCE: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EINTR})
"""Errors that say nothing about the disk but that descriptors or memory ran out: never a reason to give rows up."""


class RowReading:
    """Makes entries of the rows of ``queue``. ``attempts``: reads the disk has refused, one after the other."""

    def __init__(self, queue: Queue, reader: MessageReader, figures: PagingFigures) -> None:
        self._queue = queue
        self._reader = reader
        self._figures = figures
        self.attempts = 0

    def read(self, rows: Rows, records: list[int], *, insist: bool) -> tuple[list[QueueEntry], int] | None:
        """Return the entries and the body bytes read; ``None`` when the disk refuses, which is final only after many
        attempts, or with ``insist``: then those that can be read singly."""
        queue = self._queue
        try:
            if rows.plain:
                origins = cast("list[Origin]", rows.origins)  # whole, so there is one for each
                messages = self._reader.messages(queue.queue_id, records, rows.sequences, origins)
                found = plain_entries_of(queue, rows, messages)
            else:
                found = entries_of(queue, rows, self._reader.read(records))
        except OSError as error:
            self._figures.postponed += 1
            self.attempts += 1
            if not insist and (self.attempts < ATTEMPTS_MAX or error.errno in SCARCE):
                return None
            stored = read_singly(self._reader, records)
            logger.error(  # noqa: TRY400 - the text says it all
                "queue %s: %d messages from %d on cannot be read and wait in the log for the next start: %s",
                queue.name,
                stored.count(None),
                rows.sequences[0],
                error,
            )
            found = entries_of(queue, rows, stored)
        self.attempts = 0
        return found

    def look(self, rows: Rows, records: list[int], needles: list[list[bytes]]) -> tuple[Rows, list[QueueEntry]] | None:
        """Return the rows whose header has all of one of the ``needles``, if any are given, and their entries.

        ``None`` as :meth:`read`.
        """
        verbatim = rows.plain and all(
            origin is not None and origin.view.verbatim_texts for origin in dict.fromkeys(rows.origins)
        )
        try:
            stored = self._reader.read(records, needles if verbatim else ())
        except OSError:
            read = self.read(rows, records, insist=False)  # counts the attempts, and gives up after many
            return None if read is None else (rows, read[0])
        if records and not stored:
            return type(rows)(), []
        if needles:
            rows, stored = with_needles(rows, stored, needles)
        return rows, entries_of(self._queue, rows, stored)[0]
