"""Walking over a queue in slices: its messages at the start, in order of dispatch, over any time.

A snapshot copies references (a million in about 10 ms, 8 MB); sorting and processing are done in slices. Later arrivals
are not in it, so no operation processes its own results. Its entries do not become rows until it ends, is released or
dropped, see :mod:`annulet.core.model.entry_holds`.
"""

from __future__ import annotations

from heapq import merge
from typing import TYPE_CHECKING, Final

from annulet.core.model.entry import PENDING, REMOVED
from annulet.core.model.entry_holds import Pin

if TYPE_CHECKING:
    from collections.abc import Iterator

    from annulet.core.model.entry import QueueEntry
    from annulet.core.policies.schedule import Appointment
    from annulet.core.queue.queue import Queue

SORTED_PER_LOOK: Final = 8
"""Entries sorted in the time of processing one."""


class Scan:
    """The entries of a queue at one moment: the pending ones in order of dispatch, then the scheduled ones by time.

    ``leading`` of 0 or more limits it to this many of the first pending ones, if the rest is on disk only; ``whole``
    tells whether all are included. Call :meth:`prepare` until it returns that the scan is ready, then :meth:`following`
    until it returns ``None``.
    """

    def __init__(self, queue: Queue, *, pending: bool, scheduled: bool, leading: int = -1) -> None:
        self.waiting = False  # the disk refused to read the next ones; see DeepScan
        self.damaged: list[int] = []  # sequences of those whose records are damaged: they are not met
        self.gone = 0  # passed over without being met, as they had left the queue
        self._entries: list[QueueEntry] = []
        if pending:
            self._entries = queue.shown(queue.order.snapshot() if leading < 0 else queue.order.leading(leading))
        # messages scheduled by their sender are never rows, even after falling due
        upto = queue.next_sequence - 1 if scheduled and queue.schedule.came_back else 0
        if pending:
            first = [entry.sequence for entry in self._entries] if leading >= 0 else [queue.next_sequence - 1]
            upto = max([upto, *first])
        self._pin = Pin(queue, upto) if upto else None
        self._appointments = queue.shown_appointments() if scheduled else []
        self.whole = not pending or leading < 0
        if not self.whole:  # removed ones may be among those found
            self.whole = sum([entry.state == PENDING for entry in self._entries]) == queue.shown_count()
        self._listed = len(self._entries) + len(self._appointments)
        self.size = self._listed  # entries in the snapshot
        self._position = 0  # sorted up to here, counted through both
        self._sorted_entries: list[list[QueueEntry]] = []
        self._sorted_appointments = [self._appointments[:0]]
        self._walk: Iterator[QueueEntry] | None = None

    def prepare(self, looks: int) -> bool:
        """Sort for about the time of processing ``looks`` entries. Returns whether all is sorted."""
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
        """Return the next entry in any state; ``None`` after the last."""
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
        """End the scan and release the messages; :attr:`size` stays."""
        self._entries, self._sorted_entries = [], []
        self._appointments, self._sorted_appointments = [], []
        self._walk = iter(())
        self._pin = None


def _in_order(entries: list[list[QueueEntry]], appointments: list[list[Appointment]]) -> Iterator[QueueEntry]:
    """Walk over sorted lists. Not a method: a reference cycle would delay its release."""
    yield from merge(*entries)
    for appointment in merge(*appointments):
        yield appointment.entry
