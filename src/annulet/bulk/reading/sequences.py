"""Non-destructive streams: batches of a queue by sequence number, which take nothing out of it (spark-notes §3).

The offset is the queue's sequence number, as with a log, so the only state of a stream in the broker is, for a while,
the rows of its last batches: a planned batch can be read until the next one is planned, even if a ring has overwritten
it in the meantime. After a restart of the broker, or of the query, a batch is read again from the queue, as far as its
messages exist.

==============  ======================================================================================
in an offset    meaning
==============  ======================================================================================
incarnation     of the queue: a queue that was deleted and declared again counts from 1
boot            of the broker: numbers above ``safe`` belong to this run of it
safe            highest number known to be in the log; those above are of messages that are transient or
                were taken before they were written, and a broker that is started again gives their
                numbers to others
==============  ======================================================================================
"""

from __future__ import annotations

import asyncio
import secrets
from bisect import bisect_right
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import structlog

from annulet.bulk.protocol import protocol
from annulet.bulk.protocol.errors import InvalidRequestError, LeaseGoneError, RefusedError, UnavailableError
from annulet.bulk.reading.stretches import Stretch, read_stretch
from annulet.core.base.errors import ContentUnavailable, CoreError
from annulet.core.deliveries.bodies import pin, unpin
from annulet.core.management.selection import Selection, select

if TYPE_CHECKING:
    from annulet.broker.broker import Broker
    from annulet.bulk.protocol.schema import Row
    from annulet.core.queue.queue import Queue

logger = structlog.get_logger(__name__)

READER_IDLE_MAX: Final = 900 * 1000
"""Milliseconds without a call after which the rows kept for a stream are dropped. A batch that takes longer, or is
repeated later, is read from the queue again."""

READERS_MAX: Final = 256
"""Streams whose last batches are kept; the one idle for longest makes room. Each keeps two batches in memory."""

NOT_STARTED: Final = protocol.ANY
"""Start of a checkpoint without a batch: it begins with the oldest message."""

REMEDY: Final = "Start with a new checkpoint, or set failOnDataLoss=false to go on with the rest"


class KeptRange:
    """The rows of ``(after, upto]``, as numbered by the broker's run ``boot``, in memory until they are dropped."""

    __slots__ = ("after", "boot", "rows", "upto")

    def __init__(self, boot: str, after: int, upto: int, rows: list[Row]) -> None:
        self.boot = boot
        self.after = after
        self.upto = upto
        self.rows = rows


class Reader:
    """The state of one run of a stream."""

    __slots__ = ("closed", "incarnation", "kept", "lock", "nothing_upto", "selection", "selector", "used_at")

    def __init__(self, incarnation: str, selector: str, now: int) -> None:
        self.incarnation = incarnation
        self.selector = selector
        self.selection: Selection = select(selector=selector, everything=not selector)
        self.kept: list[KeptRange] = []
        self.nothing_upto = (0, Stretch())  # behind this start nothing matched in that stretch
        self.used_at = now
        self.lock = asyncio.Lock()
        self.closed = False  # another took its place; calls that waited for it must keep nothing in it

    def find(self, boot: str, after: int, upto: int) -> list[Row] | None:
        """Return the kept rows of ``(after, upto]``; ``None`` when they are not kept."""
        for held in self.kept:
            if held.boot == boot and held.after <= after and upto <= held.upto:
                first = bisect_right(held.rows, after, key=_position_of)
                return held.rows[first : bisect_right(held.rows, upto, key=_position_of)]
        return None

    def let_go(self, start: int) -> None:
        """Drop the rows that a checkpoint at ``start`` will not read again."""
        for held in self.kept:
            if held.upto <= start or held.after >= start:
                unpin([row.message for row in held.rows])
        self.kept = [held for held in self.kept if held.after < start < held.upto]

    def close(self) -> None:
        """Forget everything, and keep nothing from now on."""
        self.closed = True
        for held in self.kept:
            unpin([row.message for row in held.rows])
        self.kept.clear()


class SequenceStore:
    """All non-destructive streams of a broker. Lives on its loop."""

    def __init__(self, broker: Broker, find_queue: Callable[[str, str], Queue]) -> None:
        self._broker = broker
        self._find_queue = find_queue
        self._boot = secrets.token_hex(8)
        self._readers: dict[tuple[str, str, str], Reader] = {}
        self._incarnations: dict[tuple[str, str], tuple[Queue, str]] = {}  # of queues that are not durable

    def __len__(self) -> int:
        return len(self._readers)

    # ------------------------------------------------------------------ requests

    async def plan(self, request: protocol.PlanSequences) -> dict[str, Any]:
        """Choose the next batch. All its messages that have to be durable are durable when this returns.

        Raises :class:`UnavailableError` if the disk refuses to read and the stream would end because of it. Returns
        ``sequence`` (the end; ``start`` if there is nothing), ``after`` (the start of the batch), ``rows``, ``missing``
        (numbers in between without messages), and incarnation, boot and safe. Raises :class:`LeaseGoneError` for
        missing messages unless ``fail_on_data_loss`` is false.
        """
        queue = self._find_queue(request.virtual_host, request.queue)
        reader = self._reader(request, queue)
        async with reader.lock:
            start = self._start_of(request, queue)
            begin = max(start, 0)
            reader.let_go(begin)
            stretch = self._scanned_before(reader, begin)
            more = await self._read(queue, reader, stretch.scanned, request)
            living = stretch.living + more.living_at_rows
            if not more.rows:
                stretch = Stretch(scanned=more.scanned, living=stretch.living + more.living)
                reader.nothing_upto = (begin, stretch)
                if more.refused and request.last_sequence != protocol.ANY:
                    # A run over the present messages treats "nothing" as its end.
                    raise UnavailableError(
                        f"queue {queue.name!r}: the disk does not give the messages behind number {stretch.scanned} "
                        "now; check the disk, the run goes on where it was"
                    )
                return {"sequence": request.start}
            end = more.rows[-1].position
            await self._keep(queue, reader, KeptRange(self._boot, begin, end, more.rows))
            missing = 0 if start == NOT_STARTED else end - begin - living
            if missing and queue.retention is None and request.fail_on_data_loss:
                raise LeaseGoneError(
                    f"sequence range gone: {missing} messages of queue {queue.name!r} with numbers {begin + 1} to "
                    f"{end} left it before this stream read them: overwritten, expired, taken or purged. {REMEDY}"
                )
            stored = [row.position for row in more.rows if row.message.durable and row.message.record]
            written = self._broker.log.sequences.get(queue.queue_id, 0)  # taken before that, one never was
            safe = max(min(request.safe, begin), min(max(stored, default=0), written))
            return {
                "sequence": end,
                "after": begin,
                "rows": len(more.rows),
                "missing": missing,
                "incarnation": reader.incarnation,
                "boot": self._boot,
                "safe": safe,
            }

    async def split(self, request: protocol.SplitSequences) -> dict[str, Any]:
        """Cut a planned batch into ranges of almost as many rows each, which are kept from now on.

        Returns ``parts``, each ``[after, upto, rows]``, and ``missing``. Raises :class:`LeaseGoneError` if messages of
        the batch are missing, unless ``fail_on_data_loss`` is false.
        """
        rows = await self._rows(request, request.after, request.upto, request.rows)
        count = min(request.parts, len(rows))
        bounds = [len(rows) * index // count for index in range(count + 1)] if count else []
        parts = []
        after = request.after
        for index in range(count):
            last = rows[bounds[index + 1] - 1].position if index + 1 < count else request.upto
            parts.append([after, last, bounds[index + 1] - bounds[index]])
            after = last
        return {"parts": parts, "missing": max(0, request.rows - len(rows))}

    async def fetch(self, ticket: protocol.SequenceTicket) -> list[Row]:
        """Return the rows of ``(after, upto]``, by sequence number. Repeatable while the messages live, or are kept."""
        return await self._rows(ticket, ticket.after, ticket.upto, ticket.rows)

    def expire(self) -> int:
        """Drop the rows of idle streams. Returns the number of these streams."""
        limit = self._broker.clock() - READER_IDLE_MAX
        idle = [key for key, reader in self._readers.items() if reader.used_at < limit and not reader.lock.locked()]
        for key in idle:
            self._readers.pop(key).close()
        self._incarnations = {place: held for place, held in self._incarnations.items() if not held[0].deleted}
        return len(idle)

    # ------------------------------------------------------------------ inside

    def _reader(self, request: protocol.SequenceRequest, queue: Queue) -> Reader:
        key = (request.virtual_host, request.queue, request.reader)
        incarnation = self._incarnation_of(request.virtual_host, queue)
        reader = self._readers.get(key)
        now = self._broker.clock()
        if reader is None or (reader.incarnation, reader.selector) != (incarnation, request.selector):
            try:
                made = Reader(incarnation, request.selector, now)
            except CoreError as error:
                raise InvalidRequestError(str(error)) from error
            if reader is not None:
                reader.close()
            while len(self._readers) >= READERS_MAX:
                self._readers.pop(min(self._readers, key=lambda held: self._readers[held].used_at)).close()
            reader = self._readers[key] = made
        reader.used_at = now
        return reader

    def _incarnation_of(self, host: str, queue: Queue) -> str:
        if queue.queue_id:
            return f"id-{queue.queue_id}"
        known = self._incarnations.get((host, queue.name))
        if known is None or known[0] is not queue:
            known = self._incarnations[host, queue.name] = (queue, secrets.token_hex(8))
        return known[1]

    def _start_of(self, request: protocol.PlanSequences, queue: Queue) -> int:
        """Return the number of this queue, in this run of the broker, after which the batch begins."""
        start = request.start
        if start == NOT_STARTED:
            return start
        if start < NOT_STARTED:
            raise InvalidRequestError(f"start {start} is no sequence number")
        if request.boot != self._boot:
            start = min(start, request.safe)  # numbers above were given to other, unread messages
        if request.incarnation == self._incarnation_of(request.virtual_host, queue) and start < queue.next_sequence:
            return start
        if request.fail_on_data_loss:
            raise LeaseGoneError(
                f"sequence range gone: the checkpoint knows number {request.start} of queue {queue.name!r}, which was "
                f"declared anew since, or restored from an older state, and ends with {queue.next_sequence - 1}. "
                f"{REMEDY}"
            )
        logger.warning("a stream begins anew", queue=queue.name, start=request.start, next=queue.next_sequence)
        return NOT_STARTED

    @staticmethod
    def _scanned_before(reader: Reader, begin: int) -> Stretch:
        """Return how far the search was unsuccessful since the stream is at ``begin``."""
        place, stretch = reader.nothing_upto
        return stretch if place == begin and stretch.scanned > begin else Stretch(scanned=begin)

    async def _read(self, queue: Queue, reader: Reader, after: int, request: protocol.PlanSequences) -> Stretch:
        upto = queue.next_sequence if request.last_sequence == protocol.ANY else request.last_sequence
        limits = {"messages_max": request.messages_max, "bytes_max": request.bytes_max}
        return await read_stretch(queue, after, upto, reader.selection, self._broker.clock(), **limits)

    async def _rows(self, request: protocol.SequenceRequest, after: int, upto: int, expected: int) -> list[Row]:
        """Return the rows of a batch or of a part of it, from the kept rows or else from the queue."""
        queue = self._find_queue(request.virtual_host, request.queue)
        reader = self._reader(request, queue)
        async with reader.lock:
            rows = reader.find(request.boot, after, upto)
            if rows is None:
                rows = []
                if request.incarnation == reader.incarnation:
                    # In another run of the broker the numbers above belong to messages that are not of this batch.
                    alive = upto if request.boot == self._boot else min(upto, request.safe)
                    found = await read_stretch(queue, after, alive, reader.selection, self._broker.clock())
                    rows = found.rows
                await self._keep(queue, reader, KeptRange(request.boot, after, upto, rows))
        missing = expected - len(rows)
        if missing > 0:
            if request.fail_on_data_loss:
                raise LeaseGoneError(
                    f"sequence range gone: {missing} of {expected} messages of queue {queue.name!r} with numbers "
                    f"{after + 1} to {upto}, which were planned before a restart, left it meanwhile. {REMEDY}"
                )
            logger.warning("planned messages lost", queue=queue.name, after=after, upto=upto, missing=missing)
        return rows

    async def _keep(self, queue: Queue, reader: Reader, held: KeptRange) -> None:
        """Keep rows in memory, and wait until persistent ones are durable."""
        if reader.closed:  # what it kept now would stay in memory for ever
            raise UnavailableError(
                f"queue {queue.name!r}: this stream was replaced during the call, by one with another selector or as "
                f"the longest unused of {READERS_MAX}; repeat the call"
            )
        try:
            pin(queue, [row.message for row in held.rows])
        except ContentUnavailable as error:  # it left the queue, or the disk refuses for a moment
            raise UnavailableError(str(error)) from error
        except CoreError as error:
            raise RefusedError(str(error)) from error
        reader.kept.append(held)
        await self._broker.commit.durable()


def _position_of(row: Row) -> int:
    return row.position
