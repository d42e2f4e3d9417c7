"""Walking over a queue in slices: what was there at the start, in order of dispatch, however long that takes.

A snapshot copies references (a million in some 10 ms, 8 MB); sorting and looking happen in slices. What arrives later
is not in it, so no operation runs after its own effects. What it refers to becomes no row until it ends, is released
or forgotten, see :mod:`annulet.core.pins`.
"""

from __future__ import annotations

from heapq import merge
from typing import TYPE_CHECKING, Final

from annulet.core.entry import PENDING, REMOVED
from annulet.core.hidden import pending_count, shown, shown_appointments
from annulet.core.pins import Pin

if TYPE_CHECKING:
    from collections.abc import Iterator

    from annulet.core.entry import QueueEntry
    from annulet.core.queue import Queue
    from annulet.core.schedule import Appointment

SORTED_PER_LOOK: Final = 8
"""Entries sorted in the time of one that is looked at."""


class Scan:
    """The entries of a queue at one moment: the pending ones in order of dispatch, then the scheduled ones by time.

    ``leading`` of 0 or more asks for no more of the pending ones than so many of the first, as far as the rest is on
    disk only; ``whole`` says whether all are there. Call :meth:`prepare` until it says that the scan is ready, then
    :meth:`following` until it returns ``None``.
    """

    def __init__(self, queue: Queue, *, pending: bool, scheduled: bool, leading: int = -1) -> None:
        self.waiting = False  # the disk has not given what comes next; see DeepScan
        self.damaged: list[int] = []  # sequences of those whose records are damaged: they are not met
        self.gone = 0  # passed over without being met, as they had left the queue
        self._entries: list[QueueEntry] = []
        if pending:
            self._entries = shown(queue, queue.order.snapshot() if leading < 0 else queue.order.leading(leading))
        # what its sender scheduled is never a row, not when it has fallen due either
        upto = queue.next_sequence - 1 if scheduled and queue.schedule.came_back else 0
        if pending:
            first = [entry.sequence for entry in self._entries] if leading >= 0 else [queue.next_sequence - 1]
            upto = max([upto, *first])
        self._pin = Pin(queue, upto) if upto else None
        self._appointments = shown_appointments(queue) if scheduled else []
        self.whole = not pending or leading < 0
        if not self.whole:  # what is removed already may be among those found
            self.whole = sum([entry.state == PENDING for entry in self._entries]) == pending_count(queue)
        self._listed = len(self._entries) + len(self._appointments)
        self.size = self._listed  # entries in the snapshot
        self._position = 0  # sorted up to here, counted through both
        self._sorted_entries: list[list[QueueEntry]] = []
        self._sorted_appointments = [self._appointments[:0]]
        self._walk: Iterator[QueueEntry] | None = None

    def prepare(self, looks: int) -> bool:
        """Sort as much as takes the time of about ``looks`` looks. Returns whether all is sorted."""
        if self._walk is not None:
            return True
        room = max(1, looks) * SORTED_PER_LOOK
        entries = self._entries[self._position : self._position + room]
        if entries:
            self._sorted_entries.append(sorted(entries))
        start = max(0, self._position - len(self._entries))
        appointments = self._appointments[start : start + room - len(entries)]
        if appointments:
            self._sorted_appointments.append(sorted(appointments))
        self._position += len(entries) + len(appointments)
        if self._position < self._listed:
            return False
        self._walk = _in_order(self._sorted_entries, self._sorted_appointments)
        return True

    def following(self) -> QueueEntry | None:
        """Return the next entry, whatever became of it meanwhile; ``None`` after the last."""
        assert self._walk is not None, "prepare the scan first"
        return next(self._walk, None)

    @property
    def used_up(self) -> bool:
        """All that was prepared has been met, and there is more to prepare."""
        return False

    def own(self, entry: QueueEntry) -> QueueEntry | None:
        """Return the queue's own entry for one that was met; ``None`` when it has left."""
        return None if entry.state == REMOVED or entry.queue.deleted else entry

    def claim(self, entry: QueueEntry) -> None:
        """Make sure that an entry that :meth:`own` returned just now can be changed and removed."""

    def release(self) -> None:
        """End the scan and let go of the messages; :attr:`size` stays."""
        self._entries, self._sorted_entries = [], []
        self._appointments, self._sorted_appointments = [], []
        self._walk = iter(())
        self._pin = None


def _in_order(entries: list[list[QueueEntry]], appointments: list[list[Appointment]]) -> Iterator[QueueEntry]:
    """Walk over sorted lists. No method: who refers to itself is not forgotten at once."""
    yield from merge(*entries)
    for appointment in merge(*appointments):
        yield appointment.entry
