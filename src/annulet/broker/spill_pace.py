"""The pace of spilling: who publishes faster than the disk takes bodies waits for the disk, so that memory stays fixed.

What the log takes is paced by its confirms. Of what it does not, all that is transient or goes to a queue that is not
durable, nothing tells the publisher how far the disk is, and 640 MB from a fast one took between 60 and 120 MiB over
the budget, as the machine had its processors elsewhere.

This is no block in the sense of "producers wait when the budget and the spill store are both exhausted" (V10): it needs
no consumer to end, but the write that is under way, and who does not bring what is spilled is not concerned. Who
refuses messages brings their dead letters. Those that are sent on later, in slices, and what expires by itself have
nobody who could wait. When the store is full or the disk refuses nothing is written, and the memory alarm takes over.
"""

from __future__ import annotations

from typing import Final, Protocol

SPILL_BEHIND_BYTES: Final = 16 << 20
"""Bytes over the body budget from which on publishers wait for a write under way: what comes in the 30 to 40 ms that
a busy processor, or a disk, may take longer than usual."""


class PacedConnection(Protocol):
    """A connection of which nothing can be read for a while."""

    def pace(self, *, waits: bool) -> None:
        """Read nothing more, or read again, from the end of this turn on."""


class SpillPace:
    """Who waits for bodies to be written. Belongs to the event loop."""

    def __init__(self) -> None:
        self.behind = False  # too much is in memory that is being written
        self.waits = 0  # times a connection had to wait
        self._arrived = False  # more of it came since the connection that is being served began to be
        self._waiting: dict[PacedConnection, None] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def look(self, over: int, writes: int) -> None:
        """Take note of so many bytes over the budget, and of how many writes are under way."""
        self.behind = writes > 0 and over > SPILL_BEHIND_BYTES
        if not self.behind and self._waiting:
            waiting, self._waiting = self._waiting, {}
            for connection in waiting:
                connection.pace(waits=False)

    def began(self) -> None:
        """What comes from now on, until ``served``, one connection brings."""
        self._arrived = False

    def note(self) -> None:
        """Take note of a message to be spilled."""
        self._arrived = self.behind

    def served(self, connection: PacedConnection) -> None:
        """Have a connection wait if it brought such a message."""
        if not self._arrived:
            return
        self._arrived = False  # what nobody brings, as expired messages that are sent on, is not the next one's
        if connection not in self._waiting:
            self._waiting[connection] = None
            self.waits += 1
            connection.pace(waits=True)

    def ended(self, connection: PacedConnection) -> None:
        """Forget a connection that is gone."""
        self._waiting.pop(connection, None)
