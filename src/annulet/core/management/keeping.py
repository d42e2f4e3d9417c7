"""Messages that an operation removes or moves, kept for its undo: the interface of the core to their place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from annulet.core.management.destination import Destination
    from annulet.core.message.message import Message
    from annulet.core.model.entry import QueueEntry
    from annulet.core.queue.queue import Queue


NO_PRIORITY: Final = -1
"""The former priority of a message whose priority did not change."""


class Keeper:
    """Keeps the messages of one operation. ``token`` names them for the undo, until ``until`` (ms since 1970)."""

    def __init__(self, token: str, until: int) -> None:
        self.token = token
        self.until = until
        self.kept = 0  # messages that an undo brings back
        self.unkept = 0  # messages that no undo brings back
        self.reason = ""  # why the first of these is not kept

    def place(self) -> Destination:
        """Return the queue that envelopes are put into."""
        raise NotImplementedError

    def envelope(self, entry: QueueEntry, now: int) -> Message | None:
        """Return the message to keep in place of a removed one; ``None`` when it cannot be, which is counted."""
        raise NotImplementedError

    def effort(self) -> int:
        """Return what making room since the last call took, in body bytes that could be copied meanwhile."""
        return 0

    def moved(
        self, destination: Queue, message: Message, sequence: int, priority: int = NO_PRIORITY, *, former: int = 0
    ) -> None:
        """Note the id of a message that was moved or copied into a queue, or had this ``priority`` there before.

        ``former``: its id in the queue that it was in before.
        """
        raise NotImplementedError

    def end_slice(self, now: int) -> None:
        """Make the notes durable with the slice that they are of."""
        raise NotImplementedError

    def not_kept(self, count: int, reason: str) -> None:
        """Count messages that no undo brings back."""
        self.reason = self.reason or reason
        self.unkept += count

    def __str__(self) -> str:
        """Return what the audit trail says."""
        if not self.unkept:
            return f"undo {self.token} brings {self.kept} back"
        return f"undo {self.token} brings {self.kept} back, not {self.unkept}: {self.reason}"
