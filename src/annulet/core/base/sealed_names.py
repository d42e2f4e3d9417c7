"""Names of queues that belong to the broker alone: they have messages of every other queue, for an undo.

No client's message gets into such a queue, by no exchange, address or dead letter: an undo believes its notes.
No user of a protocol reads, changes or deletes it, whatever permissions match its name. An administrator does, over
HTTP. Policies and address settings are not for it.
"""

from __future__ import annotations

from typing import Final

UNDO_QUEUE: Final = "amq.undo"
"""A reserved name: no client can have declared it for something else."""


def is_sealed_name(name: str) -> bool:
    """Return whether the queue of this name belongs to the broker alone."""
    return name == UNDO_QUEUE
