"""Walking over a queue that is deeper than memory: its messages at the start, read slice by slice.

The scan keeps rows, not messages: nothing is loaded into the queue's memory, and consumers continue. Messages taken or
settled before the walk reaches them are detected then, see :mod:`annulet.core.reading.entry_lookup`.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from annulet.core.model.entry import PENDING, position_of, sequence_of
from annulet.core.paging.row_views import view_of
from annulet.core.queue.queue_scan import Scan
from annulet.core.reading.browse_order import may_be_noted_as_row
from annulet.core.reading.entry_lookup import EntryLookup

if TYPE_CHECKING:
    from collections.abc import Callable

    from annulet.core.model.entry import QueueEntry
    from annulet.core.model.queue_area import QueueArea, RowWalk
    from annulet.core.queue.queue import Queue


class DeepView:
    """The pending messages of a deep queue at one instant, with ``delivering`` also those in delivery.

    Keeps rows, and entries only for others: without a record, with a time, or out of place.
    """

    def __init__(self, queue: Queue, pages: QueueArea, *, delivering: bool = False) -> None:
        self.queue = queue
        self.size = queue.shown_count() + (len(queue.delivering) if delivering else 0)
        self.end = queue.visible_end  # everything has a lower sequence
        there = [entry for entry in queue.shown(queue.order.in_memory()) if entry.state == PENDING]
        if delivering:
            there += queue.delivering
        # messages not in the log yet are arriving: they would be missed if they became rows
        lasting = [entry for entry in there if not entry.message.durable or entry.message.record]
        self.objects = [entry for entry in lasting if not may_be_noted_as_row(entry)]
        self.rows = view_of(queue, pages, [entry for entry in lasting if may_be_noted_as_row(entry)])

    def first_sequence(self) -> int:
        """Return the lowest sequence of its messages, 0 if empty."""
        first = [entry.sequence for entry in self.objects]
        walk = self.rows.walk(0)
        return min([*first, walk.sequence] if walk.sequence else first, default=0)

    def by_place(self, *, scheduled: bool, chosen: frozenset[int] | None) -> DeepScan:
        """Walk over it in order of dispatch, and then over scheduled messages.

        ``chosen``: no others are met than those with these sequences; ``None`` for all.
        """
        objects = [entry for entry in self.objects if chosen is None or entry.sequence in chosen]
        walk = self.rows.walk_in_order(0, None if chosen is None else sorted(chosen))
        return DeepScan(self, objects, walk, position_of, scheduled=scheduled)

    def by_sequence(self, after: int, upto: int) -> DeepScan:
        """Walk over those with a sequence above ``after`` up to ``upto``."""
        objects = [entry for entry in self.objects if after < entry.sequence <= upto]
        return DeepScan(self, objects, self.rows.walk(after + 1, upto), sequence_of, scheduled=False)


class DeepScan(Scan):
    """The ``objects`` among the rows, both by ``place_of``, and the rows made entries for the look; then the scheduled
    ones by time. Nothing of it is in memory longer than a slice."""

    def __init__(
        self,
        view: DeepView,
        objects: list[QueueEntry],
        walk: RowWalk,
        place_of: Callable[[QueueEntry], int],
        *,
        scheduled: bool,
    ) -> None:
        super().__init__(view.queue, pending=False, scheduled=scheduled)
        self.size += view.size
        self._reach = EntryLookup(view.queue)
        self._objects = deque(sorted(objects, key=place_of))
        self._place_of = place_of
        self._rows = walk
        self._accounted = 0  # rows it passed that were met or counted as gone; not those before a read that failed
        self._read: deque[QueueEntry] = deque()
        self._released = False

    def prepare(self, looks: int) -> bool:
        """Read the next rows if they are next. Returns whether there is something to process, or no more.

        False after a read: that takes about as long as processing its result, and others are served in between.
        """
        if not super().prepare(looks):
            return False
        if not self.used_up:
            return True
        found = self._rows.following()
        self.waiting = found is None
        if found is None:
            return False
        # a message changed in delivery has another record now
        changed = [entry for entry in map(self._reach.find, self._rows.settled) if entry is not None]
        if changed:
            found = sorted([*found, *changed], key=sequence_of)
        self._read.extend(found)
        self.damaged += self._rows.damaged
        self.gone += self._rows.passed - self._accounted - len(found)
        self._accounted = self._rows.passed
        return False

    @property
    def used_up(self) -> bool:
        """The next one is a row that has to be read first."""
        if self._read or not self._rows.sequence or self._released:
            return False
        return not self._objects or self._place_of(self._objects[0]) > self._rows.base + self._rows.sequence

    def following(self) -> QueueEntry | None:
        """Return the next entry; :meth:`own` returns its present state."""
        place_of = self._place_of
        if self._read and (not self._objects or place_of(self._read[0]) < place_of(self._objects[0])):
            return self._read.popleft()
        if self._objects:
            return self._objects.popleft()
        return super().following()

    def own(self, entry: QueueEntry) -> QueueEntry | None:
        """Look where it is now."""
        return self._reach.own(entry)

    def claim(self, entry: QueueEntry) -> None:
        """Load it into the queue's memory if it is a row."""
        self._reach.claim(entry)

    def release(self) -> None:
        """End the scan and release rows and messages."""
        super().release()
        self._released = True
        self._objects.clear()
        self._read.clear()
        self._reach.release()


def scan_of(queue: Queue, *, pending: bool, scheduled: bool, chosen: frozenset[int] | None, reader: str) -> Scan:
    """Return the scan for a queue of any depth. ``reader`` is its user.

    Raises :class:`~annulet.core.base.errors.PreconditionFailed` when it would have to be in memory and is more than
    fits, or when the disk does not give it now.
    """
    pages = queue.order.pages_behind()
    if pending and pages is not None:
        return DeepView(queue, pages).by_place(scheduled=scheduled, chosen=chosen)
    if pending:
        queue.read_in(reader)
    return Scan(queue, pending=pending, scheduled=scheduled)
