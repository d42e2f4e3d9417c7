"""Reading a range of a queue by sequence number without removing messages, to plan a non-destructive stream.

It returns the messages that are alive when the walk reaches them: pending, in delivery, or returning. Messages on disk
only are read from their rows, about a hundred at a time, and are not loaded into the queue's memory.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import structlog

from annulet.bulk.protocol.schema import Row
from annulet.core.model.compact_messages import entry_in
from annulet.core.model.entry import REMOVED
from annulet.core.paging.row_views import MergedWalk

if TYPE_CHECKING:
    from annulet.core.management.selection import Selection
    from annulet.core.model.compact_messages import Slot
    from annulet.core.model.entry import QueueEntry
    from annulet.core.queue.queue import Queue

logger = structlog.get_logger(__name__)

SLICE: Final = 2000
"""Messages examined before other work gets a turn: about 10 ms."""

NO_LIMIT: Final = -1


@dataclass(slots=True)
class Stretch:
    """The messages found after a sequence number.

    ``scanned``: every message up to there was examined. ``living`` counts those that are alive, matching or not: up to
    ``scanned``, and in ``living_at_rows`` up to the last row.
    """

    rows: list[Row] = field(default_factory=list)
    scanned: int = 0
    living: int = 0
    living_at_rows: int = 0
    refused: bool = False  # the disk refused to read the messages behind ``scanned``


async def read_stretch(
    queue: Queue,
    after: int,
    upto: int,
    selection: Selection,
    now: int,
    *,
    messages_max: int = NO_LIMIT,
    bytes_max: int = NO_LIMIT,
) -> Stretch:
    """Return the living messages of ``(after, upto]`` that match, by sequence, within the limits.

    ``bytes_max`` counts bodies; one message always fits. It examines the messages in the queue at the first turn, up to
    the first message that waits for its time: later ones follow after it.
    """
    found = Stretch(scanned=after)
    size = unreadable = 0
    living = _living(queue, after, min(upto, queue.visible_end - 1), now, found)
    async with aclosing(living):
        async for entry in living:
            try:
                matches = selection.matches(entry)
            except Exception:  # noqa: BLE001 - views raise errors of rooms this one does not know; they are counted
                matches = False
                unreadable += 1
            if matches:
                size += entry.message.size
                if found.rows and (len(found.rows) == messages_max or 0 <= bytes_max < size):
                    break
                found.rows.append(
                    Row(entry.sequence, entry.message, queue.expires_at(entry), entry.delivery_count, entry.redelivered)
                )
                found.living_at_rows = found.living + 1
            found.living += 1
            found.scanned = entry.sequence
            if selection.used_up:
                selection.begin_slice()
                await asyncio.sleep(0)
    if unreadable:
        logger.warning("a selector cannot read messages, so they do not match", queue=queue.name, count=unreadable)
    return found


async def _living(queue: Queue, after: int, upto: int, now: int, found: Stretch) -> AsyncGenerator[QueueEntry]:
    """Yield the messages alive in ``(after, upto]``, by sequence.

    Sets ``found.scanned`` when everything was examined.
    """
    queue.finish_slices(now)  # otherwise returning messages would be missing
    parts = [pages for pages in queue.order.page_parts() if pages.rows]  # of priorities every level has its own
    walk = MergedWalk([pages.snapshot([]).walk(after + 1, upto) for pages in parts])
    scheduled = [entry for entry in queue.schedule.entries() if entry.sequence > after]
    upto = min([upto, *[entry.sequence - 1 for entry in scheduled if not entry.delivery_count]])
    held: list[Slot] = [*queue.order.arrived_after(after), *scheduled, *queue.delivering.slots(after)]
    in_memory = deque(sorted([slot for slot in held if slot.sequence <= upto], key=_sequence_of))
    read: deque[Slot] = deque()
    looked = 0
    while True:
        if not read and walk.sequence and not (in_memory and in_memory[0].sequence < walk.sequence):
            if walk.sequence > upto:
                break
            rows = walk.following()
            if rows is None:  # the disk refuses to read them now; later ones wait for their turn
                found.refused = True
                return
            read.extend(rows)
            continue
        source = read if read and not (in_memory and in_memory[0].sequence < read[0].sequence) else in_memory
        if not source or source[0].sequence > upto:
            break
        entry = entry_in(source.popleft())
        if entry.state != REMOVED and not 0 < queue.expires_at(entry) <= now:
            yield entry
        looked += 1
        if looked % SLICE == 0:
            await asyncio.sleep(0)
    found.scanned = max(found.scanned, upto)


def _sequence_of(slot: Slot) -> int:
    return slot.sequence
