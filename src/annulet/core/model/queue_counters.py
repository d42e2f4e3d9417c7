"""Counters of a queue, with Artemis's names and rules (spec artemis §1.1) without its double counting."""

from __future__ import annotations

from typing import Final

from annulet.core.base.removal_reasons import RemovalReason

_REMOVED: Final = [(reason, f"removed.{reason.value}") for reason in RemovalReason]
"""Their names in the flat form, which a window may need of very many queues."""


class QueueCounters:
    """Monotonic counters. ``removed`` has one cell per reason; the Artemis names are views of it."""

    __slots__ = (
        "bytes_added",
        "bytes_removed",
        "bytes_unsettled",
        "messages_added",
        "messages_browsed",
        "messages_delivered",
        "messages_returned",
        "removed",
        "unsettled",
    )

    def __init__(self) -> None:
        self.messages_added = 0  # accepted by the queue, once each, later-dropped ones too
        self.bytes_added = 0  # body bytes of these
        self.messages_delivered = 0  # hand-overs to consumers, leases and basic.get; a redelivery counts again
        self.messages_returned = 0  # returned deliveries
        self.messages_browsed = 0  # copies handed to browsers
        self.bytes_removed = 0  # body bytes of removed messages, for any reason
        self.removed: dict[RemovalReason, int] = dict.fromkeys(RemovalReason, 0)
        self.unsettled: dict[RemovalReason, int] = {}  # of these, kept in the log until their copies are stored
        self.bytes_unsettled = 0  # body bytes of these

    def wait(self, reason: RemovalReason, size: int) -> None:
        """Count a stored message that left, and is settled when a copy of it is."""
        self.unsettled[reason] = self.unsettled.get(reason, 0) + 1
        self.bytes_unsettled += size

    def settled(self, reason: RemovalReason, size: int) -> None:
        """Undo :meth:`wait`: the message has left for good."""
        self.unsettled[reason] -= 1
        self.bytes_unsettled -= size

    def restore(self, values: dict[str, int]) -> None:
        """Continue from :meth:`as_dict` of an earlier run. Unknown names are ignored so that versions can change."""
        self.messages_added = values.get("messages_added", 0)
        self.bytes_added = values.get("bytes_added", 0)
        self.messages_delivered = values.get("messages_delivered", 0)
        self.messages_returned = values.get("messages_returned", 0)
        self.messages_browsed = values.get("messages_browsed", 0)
        self.bytes_removed = values.get("bytes_removed", 0)
        for reason, name in _REMOVED:
            self.removed[reason] = values.get(name, 0)

    def as_dict(self) -> dict[str, int]:
        """Flat form for catalogue and history, the base of a restart.

        Unsettled messages return then, and are counted when they leave again.
        """
        values = {
            "messages_added": self.messages_added,
            "bytes_added": self.bytes_added,
            "messages_delivered": self.messages_delivered,
            "messages_returned": self.messages_returned,
            "messages_browsed": self.messages_browsed,
            "bytes_removed": self.bytes_removed - self.bytes_unsettled,
        }
        for reason, name in _REMOVED:
            count = self.removed[reason]
            if count and self.unsettled:
                count -= self.unsettled.get(reason, 0)
            if count:
                values[name] = count
        return values
