"""How many HTTP connections there may be, and which one gives way when there are too many.

A connection takes a slot when it is accepted and keeps it until its socket is closed, or until it has become a
WebSocket that is counted as such. Slow peers must not lock out others, in particular a supervisor's health check: a new
connection takes the slot of one for whose peer the broker is waiting.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from annulet.broker.network.listening import site_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from annulet.broker.security.admission import Admission


class HttpSlot:
    """The slot of one connection. ``waiting_since``: when the broker began to wait for its peer, ``None`` if it does
    not: then a request is being answered, and the connection keeps its slot."""

    def __init__(self, slots: HttpSlots, site: str, now: float, cut: Callable[[], None]) -> None:
        self.site = site
        self.waiting_since: float | None = now
        self.cut = cut
        self._slots = slots

    def release(self) -> None:
        """Leave the slot to others. Doing so again is harmless."""
        self._slots.forget(self)


class HttpSlots:
    """The slots of one broker. Belongs to the event loop."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._taken: dict[HttpSlot, None] = {}
        self._by_site: Counter[str] = Counter()

    def take(self, address: str, most: int, now: float, cut: Callable[[], None]) -> HttpSlot | None:
        """Return a slot for a new connection, or ``None`` when ``most`` connections are being answered.

        ``cut`` is called when the connection has to give way to another one.
        """
        if len(self._taken) >= most:
            victim = self._longest_waiting()
            self._admission.note_http_full(address, most, "" if victim is None else victim.site)
            if victim is None:
                return None
            victim.release()
            victim.cut()
        slot = HttpSlot(self, site_of(address), now, cut)
        self._taken[slot] = None
        self._by_site[slot.site] += 1
        self._admission.http_connections += 1
        return slot

    def forget(self, slot: HttpSlot) -> None:
        """Take back a slot, unless that was done."""
        if slot in self._taken:
            del self._taken[slot]
            self._by_site[slot.site] -= 1
            if not self._by_site[slot.site]:
                del self._by_site[slot.site]
            self._admission.http_connections -= 1

    def _longest_waiting(self) -> HttpSlot | None:
        """Return the connection whose peer was waited for longest, of the address that has most connections.

        So one address can only take slots from itself.
        """
        found: HttpSlot | None = None
        most, since = 0, 0.0
        for slot in self._taken:  # a hundred at most, and only when all are taken
            began = slot.waiting_since
            if began is None:
                continue
            count = self._by_site[slot.site]
            if count > most or (count == most and began < since):
                found, most, since = slot, count, began
        return found
