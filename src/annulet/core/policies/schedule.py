"""Entries that wait for a time: delayed by their sender or by the queue's redelivery delay. A heap by time."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from annulet.core.model.entry import QueueEntry


class Appointment:
    """One entry and its time. ``fresh``: it was never pending, so it joins the queue like an arrival."""

    __slots__ = ("at", "entry", "fresh", "schedule_id")

    def __init__(self, entry: QueueEntry, at: int, *, fresh: bool, schedule_id: str) -> None:
        self.entry = entry
        self.at = at  # milliseconds since 1970
        self.fresh = fresh
        self.schedule_id = schedule_id  # the sender's name for it; empty when it gave none

    def __lt__(self, other: Appointment) -> bool:
        """By time; at equal times returned messages go before new ones (Artemis §7), then by arrival."""
        if self.at != other.at:
            return self.at < other.at
        if self.fresh is not other.fresh:
            return other.fresh
        return self.entry.sequence < other.entry.sequence


class ScheduleIndex:
    """The scheduled entries of one queue. Removal is lazy: an appointment that was cancelled is passed over."""

    __slots__ = ("_appointments", "_by_id", "_heap", "bytes", "came_back")

    def __init__(self) -> None:
        self._heap: list[Appointment] = []
        self._appointments: dict[QueueEntry, Appointment] = {}
        self._by_id: dict[str, QueueEntry] = {}
        self.bytes = 0  # body bytes of the scheduled entries
        self.came_back = 0  # of them, those that were pending before and are to take their places again

    @property
    def size(self) -> int:
        """How many items its heap has, cancelled ones included."""
        return len(self._heap)

    @property
    def count(self) -> int:
        """How many entries are scheduled."""
        return len(self._appointments)

    def add(self, entry: QueueEntry, at: int, *, fresh: bool, schedule_id: str = "") -> None:
        """Schedule an entry for ``at`` (milliseconds since 1970)."""
        appointment = Appointment(entry, at, fresh=fresh, schedule_id=schedule_id)
        self._appointments[entry] = appointment
        if schedule_id:
            self._by_id[schedule_id] = entry
        self.bytes += entry.message.size
        self.came_back += not fresh
        heappush(self._heap, appointment)

    def cancel(self, entry: QueueEntry) -> Appointment:
        """Take an entry out before its time. Raises ``KeyError`` when it is not scheduled."""
        appointment = self._appointments.pop(entry)
        if appointment.schedule_id and self._by_id.get(appointment.schedule_id) is entry:
            del self._by_id[appointment.schedule_id]
        self.bytes -= entry.message.size
        self.came_back -= not appointment.fresh
        if len(self._heap) > 2 * len(self._appointments) + 64:
            self._heap = sorted(self._appointments.values())
        return appointment

    def move(self, entry: QueueEntry, at: int) -> None:
        """Let an entry fall due at another time. Raises ``KeyError`` when it is not scheduled."""
        appointment = self.cancel(entry)
        self.add(entry, at, fresh=appointment.fresh, schedule_id=appointment.schedule_id)

    def named(self, schedule_id: str) -> QueueEntry | None:
        """Return the entry its sender named, ``None`` when there is none waiting."""
        return self._by_id.get(schedule_id)

    def due(self, now: int) -> Appointment | None:
        """Take out and return the next appointment whose time has come, ``None`` when there is none."""
        heap = self._heap
        while heap:
            appointment = heap[0]
            if self._appointments.get(appointment.entry) is not appointment:
                heappop(heap)
                continue
            if appointment.at > now:
                return None
            heappop(heap)
            return self.cancel(appointment.entry)
        return None

    def next_at(self) -> int:
        """When the next entry falls due; 0 when nothing is scheduled."""
        heap = self._heap
        while heap and self._appointments.get(heap[0].entry) is not heap[0]:
            heappop(heap)
        return heap[0].at if heap else 0

    def at(self, entry: QueueEntry) -> int:
        """When an entry falls due; 0 when it is not scheduled."""
        appointment = self._appointments.get(entry)
        return 0 if appointment is None else appointment.at

    def snapshot(self) -> list[Appointment]:
        """Return the appointments in no particular order: a copy of references, which the caller sorts in slices."""
        return list(self._appointments.values())

    def take_all(self) -> list[QueueEntry]:
        """Take out everything, in no particular order."""
        entries = list(self._appointments)
        self._appointments.clear()
        self._by_id.clear()
        self._heap = []
        self.bytes = self.came_back = 0
        return entries

    def unordered(self) -> list[QueueEntry]:
        """Return the scheduled entries, in no particular order."""
        return list(self._appointments)

    def release(self, most: int) -> bool:
        """Give back the memory of this many of an index that is not used any more. Returns whether there is more."""
        del self._heap[-most:]
        for _ in range(min(most, len(self._appointments))):
            self._appointments.popitem()
        for _ in range(min(most, len(self._by_id))):
            self._by_id.popitem()
        return bool(self._heap or self._appointments)

    def entries(self) -> list[QueueEntry]:
        """Return the scheduled entries, the next to fall due first."""
        return [appointment.entry for appointment in sorted(self._appointments.values())]
