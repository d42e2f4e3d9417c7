"""Reports the data of bulk transfer in the broker's memory to its account of unfinished work.

The door counts in its own thread, the account belongs to the broker's loop. So the door reports figures of all
connections together, when they differ by :data:`TOLD_BYTES` from the last reported ones, or a reported connection has
no data any more. The next figures are sent when the last ones have been processed, so a busy loop is not flooded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from annulet.broker.network.unfinished import Unfinished

TOLD_BYTES: Final = 1 << 20
"""Largest difference of the account for all connections together: a small part of the least bound, and large enough
that usual streams are reported a few times for each MiB at most."""

Tell: TypeAlias = Callable[[dict["Unfinished", int], Callable[[], None]], None]
"""Gives figures to the account, from the door's thread. The second value is called there when they were taken."""


class ArrivingBytes:
    """The figures of all connections. Belongs to the door's thread."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._held: dict[Unfinished, int] = {}  # of those with data
        self._told: dict[Unfinished, int] = {}
        self._changed: dict[Unfinished, None] = {}
        self._untold = 0  # bytes of changes
        self._ended = False  # a reported one has no data any more
        self._waits = False  # figures are on their way

    def note(self, connection: Unfinished, held: int) -> None:
        """Set the bytes of a connection."""
        before = self._held.get(connection, 0)
        if held == before:
            return
        if held:
            self._held[connection] = held
        else:
            del self._held[connection]
            self._ended = self._ended or connection in self._told
        self._changed[connection] = None
        self._untold += abs(held - before)
        self._tell_changes()

    def taken(self) -> None:
        """The account has processed the figures: report later changes."""
        self._waits = False
        self._tell_changes()

    def _tell_changes(self) -> None:
        if self._waits or not (self._ended or self._untold >= TOLD_BYTES):
            return
        figures: dict[Unfinished, int] = {}
        for connection in self._changed:
            held = self._held.get(connection, 0)
            if held == self._told.get(connection, 0):
                continue
            figures[connection] = held
            if held:
                self._told[connection] = held
            else:
                del self._told[connection]
        self._changed.clear()
        self._untold = 0
        self._ended = False
        if figures:
            self._waits = True
            self._tell(figures, self.taken)
