"""Reading the rows of a queue, and how long a disk that refuses is asked again."""

from __future__ import annotations

import errno
import logging
from typing import TYPE_CHECKING, Final, cast

from annulet.core.model.entry import PENDING
from annulet.residency.loading.loader import (
    entries_of,
    fitting,
    plain_entries_of,
    read_singly,
    run_entries_of,
    with_needles,
)
from annulet.residency.rows.page import PAGE_ITEMS_MAX
from annulet.residency.rows.runs import COUNT_SHIFT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from annulet.core.message.message import Origin
    from annulet.core.model.entry import QueueEntry
    from annulet.core.queue.queue import Queue
    from annulet.residency.loading.figures import PagingFigures
    from annulet.residency.loading.loader import MessageReader
    from annulet.residency.rows.page import Page
    from annulet.residency.rows.rows import Rows

logger = logging.getLogger(__name__)

ATTEMPTS_MAX: Final = 40
"""Times a read that the disk refuses is tried before its rows are given up: 10 s of the broker's ticks."""

SCARCE: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EINTR})
"""Errors that say nothing about the disk but that descriptors or memory ran out: never a reason to give rows up."""

PASSED_TIMES: Final = 4
"""Times as many rows are passed over at once where none of their headers has the required text: that takes a tenth of
the time."""

PASSED_BYTES: Final = 1 << 19
"""Body bytes of them, about: one read, which the cache of a processor holds."""


class RowReading:
    """Makes entries of the rows of ``queue``.

    ``attempts``: reads the disk has refused since its last success with a refused one.
    """

    def __init__(self, queue: Queue, reader: MessageReader, figures: PagingFigures) -> None:
        self._queue = queue
        self._reader = reader
        self._figures = figures
        self.attempts = 0
        self._refused = 0  # the first record of the last of these; successes elsewhere say nothing about it
        self._told = (0, 0)  # the record that was read last for its time alone, and that

    def first_accepted_at(self, pages: Iterable[Page]) -> int:
        """Return when the first message of these pages was accepted; 0 when the disk does not tell.

        A record is read where its page does not know, and not again while it is the first.
        """
        for page in pages:
            rows = page.peek(1)
            if _all_removed(rows):  # and not swept out yet, which is rare at the front
                rows = page.peek(PAGE_ITEMS_MAX)
            for sequence, record, kept in zip(rows.sequences, rows.records, rows.kept, strict=True):
                if kept is not None and kept.state == PENDING:
                    return kept.message.accepted_at
                if record:
                    return self._accepted_at(record) if page.facts is None else page.facts.of(sequence)[0]
        return 0

    def _accepted_at(self, record: int) -> int:
        """Read a record for its time; of a damaged one, which the next load finds out about, that is 0."""
        known, at = self._told
        if known == record:
            return at
        try:
            found = self._reader.read([record])[0]
        except OSError:  # asked again the next time
            return 0
        at = 0 if found is None else found.accepted_at
        self._told = (record, at)
        return at

    def load(
        self, page: Page, items: int, size: int, *, insist: bool
    ) -> tuple[int, int, int, list[QueueEntry], int] | None:
        """Read the first ``items`` of a page, or as many as come with ``size`` bytes read; ``None`` as :meth:`read`.

        Returns how many items and how many rows these are, how many of the rows are lost, and what :meth:`read` does.
        """
        run = self._read_run(page, items, size)
        if run is not None:
            count, (entries, read) = run
            return count, count, count - len(entries), entries, read
        rows = fitting(self._reader, page.peek(items), size)
        records = rows.records if rows.plain else [record for record in rows.records if record]
        found = self.read(rows, records, insist=insist)
        if found is None:
            return None
        kept = 0 if rows.plain else sum(entry is not None for entry in rows.kept)
        return len(rows), len(records), len(records) - (len(found[0]) - kept), *found

    def _read_run(self, page: Page, items: int, size: int) -> tuple[int, tuple[list[QueueEntry], int]] | None:
        """Read the first items, without a list of what each row says, where they are a run of rows as most are.

        ``None`` also when the disk refuses: it is counted where they are read as usual.
        """
        sequence, records, origin, mark = page.run_from(page.first_sequence, items)
        if origin is None or len(records) < min(items, page.items):
            return None
        records = records[: self._reader.fitting(records, size)]
        queue = self._queue
        count = len(records)
        try:
            messages = self._reader.messages(
                queue.queue_id, records, range(sequence, sequence + count), [origin] * count
            )
        except OSError:
            return None
        self._was_read(records)
        redelivered, came_back = bool(mark & 1), mark >> COUNT_SHIFT
        return count, run_entries_of(queue, messages, sequence, redelivered=redelivered, count=came_back)

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
            self._refused = records[0]
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
        self._was_read(records)
        return found

    def _was_read(self, records: Sequence[int]) -> None:
        """Forget the attempts when what the disk refused last is among these, or was given up with them."""
        if self.attempts and self._refused in records:
            self.attempts = 0

    def look(self, rows: Rows, records: list[int], needles: list[list[bytes]]) -> tuple[Rows, list[QueueEntry]] | None:
        """Return the rows whose header has all of one of the ``needles``, if any are given, and their entries.

        ``None`` as :meth:`read`.
        """
        if not needles:
            return self._all_of(rows, records)
        verbatim = rows.plain and all(
            origin is not None and origin.view.verbatim_texts for origin in dict.fromkeys(rows.origins)
        )
        try:
            if verbatim and self._reader.lack(records, needles):
                return type(rows)(), []
            stored = self._reader.read(records)
        except OSError:
            return self._all_of(rows, records)
        rows, stored = with_needles(rows, stored, needles)
        return rows, entries_of(self._queue, rows, stored)[0]

    def _all_of(self, rows: Rows, records: list[int]) -> tuple[Rows, list[QueueEntry]] | None:
        """Read all of some rows, which counts the attempts and gives up after many."""
        read = self.read(rows, records, insist=False)
        return None if read is None else (rows, read[0])

    def pass_over(self, page: Page, sequence: int, needles: list[list[bytes]], messages: int, size: int) -> range:
        """Look at a run of rows together, without a list of each; return its sequences if none can match.

        Nothing for a run that is shorter than a look, as many of those come with one. At most ``size`` bytes are read.
        """
        most = page.items_of(PASSED_TIMES * messages, PASSED_BYTES)
        first, records, origin, _ = page.run_from(sequence, most)
        short = len(records) < page.items_of(messages, PASSED_BYTES)
        if short or origin is None or not origin.view.verbatim_texts:
            return range(0)
        records = records[: self._reader.fitting(records, size)]
        try:
            if not self._reader.lack(records, needles):
                return range(0)
        except OSError:  # the look at each that follows counts it
            return range(0)
        return range(first, first + len(records))


def _all_removed(rows: Rows) -> bool:
    return not any(rows.records) and all(kept is None or kept.state != PENDING for kept in rows.kept)


def note_load(queue: Queue, figures: PagingFigures, messages: int, lost: int, size: int) -> None:
    """Count a read that brought so many rows with bodies of ``size`` bytes into memory, and found some damaged."""
    figures.loads += 1
    figures.loaded += messages
    figures.unreadable += lost
    note_came(queue, messages, size)


def note_came(queue: Queue, messages: int, size: int) -> None:
    """Tell the account of rows that are entries now, with their bodies."""
    if queue.bodies is not None and messages:
        queue.bodies.loaded(messages, size)
