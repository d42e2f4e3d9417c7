"""The pace of spilling: publishers faster than the disk's writes of bodies wait for the disk, so that memory stays
fixed.

Where the spill store is full, he waits for consumers.

Messages in the log are paced by its confirms. For others, those that are transient or go to a queue that is not
durable, nothing tells the publisher the disk's progress, and 640 MB from a fast one took between 60 and 120 MiB over
the budget, as the machine had its processors elsewhere.

While the disk is behind, connections that publish more are not read until a write has ended. When the budget and the
store's limit are both used up only consumers end it (V10), so that a waiting client is told, and read while it has
deliveries itself, or has no credit: its acknowledgements may make room. Clients whose messages are not spilled are not
concerned. A client that refuses messages counts as the publisher of their dead letters. Those forwarded later, in
slices, and expired messages have no connection that could wait. The end of a disk's refusals is unknown: then the
memory alarm takes over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from annulet.core.sessions.session import Session

SPILL_BEHIND_BYTES: Final = 16 << 20
"""Bytes over the body budget from which on publishers wait for a write under way: the input of the 30 to 40 ms that a
busy processor, or a disk, may take longer than usual."""

SPILL_GO_ON_BYTES: Final = 8 << 20
"""Bytes over the body budget below which connections waiting for a full store go on: half of the above, as each time he
is told."""

LOOK_BYTES: Final = 1 << 20
"""So many bytes come at least between two looks while nothing can be written: an examination passes over the messages
in memory, 1 ms or so, in which a fast publisher sends that much."""

# The reason for which publishers wait: he does not; too much is in memory that is being written, or that has no room in
# the store.
SPILL_FREE: Final = 0
SPILL_BEHIND: Final = 1
SPILL_FULL: Final = 2


class PacedConnection(Protocol):
    """A connection of which nothing can be read for a while."""

    def pace(self, waits: int) -> None:
        """Read nothing more, or read again, from the end of this turn on: ``SPILL_FREE`` and what else there is."""


class Spills(Protocol):
    """The order of writes: :class:`annulet.residency.bodies.spilling.Spilling`."""

    writes: int

    @property
    def full(self) -> bool:
        """Return whether the last body to write has no room."""


class SpillPace:
    """Waiters for the writing of bodies. Belongs to the event loop."""

    def __init__(self) -> None:
        self.state = SPILL_FREE  # why publishers have to wait
        self.waits = 0  # times a connection had to wait
        self.arrived = False  # more of it came since the connection that is being served began to be, which resets it
        self._left = SPILL_BEHIND_BYTES  # may come until it is to be looked at again
        self._waiting: dict[PacedConnection, None] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def full(self) -> bool:
        """Return whether publishers wait for consumers."""
        return self.state == SPILL_FULL

    def look(self, over: int, spilling: Spills | None) -> None:
        """Take note of so many bytes over the budget, of the writes under way, and whether the store is full."""
        self._left = max(SPILL_BEHIND_BYTES - over, LOOK_BYTES)
        former, self.state = self.state, SPILL_FREE
        if spilling is not None and over > SPILL_GO_ON_BYTES:
            self.state = _state(over, spilling, former)
        if self.state == former:
            return
        waiting = self._waiting
        if self.state == SPILL_FREE:
            self._waiting = {}
        for connection in waiting:
            connection.pace(self.state)

    def note(self, size: int) -> bool:
        """Take note of a message to be spilled; return whether so much came that it is time for a look."""
        self.arrived = self.state != SPILL_FREE
        self._left -= size
        return self._left <= 0

    def served(self, connection: PacedConnection) -> None:
        """Have a connection that was served while messages to be spilled ``arrived`` wait, if publishers have to."""
        self.arrived = False  # bodies of no connection, as forwarded expired messages, are not the next one's
        if self.state == SPILL_FREE:
            return
        if connection not in self._waiting:
            self._waiting[connection] = None
            self.waits += 1
            connection.pace(self.state)

    def ended(self, connection: PacedConnection) -> None:
        """Forget a connection that is gone."""
        self._waiting.pop(connection, None)


def _state(over: int, spilling: Spills, former: int) -> int:
    enough = over > SPILL_BEHIND_BYTES
    if spilling.full and (enough or former == SPILL_FULL):
        return SPILL_FULL
    return SPILL_BEHIND if enough and spilling.writes else SPILL_FREE


def must_be_heard(sessions: Iterable[Session], *, idle: bool) -> bool:
    """Return whether a publisher into a full target is to be read all the same, as others may wait for its commands.

    That is to settle what he holds, in a transaction or not, and to give credit where there is none. ``idle``: a
    consumer may at any time.
    """
    for session in sessions:
        if session.unacknowledged:
            return True
        for consumer in session.consumers.values():
            if idle or consumer.held or not consumer.allows(0):
                return True
    return False
