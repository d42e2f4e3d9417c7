"""Why a message left a queue. Every removal carries exactly one of these; counters and the loss ledger use them."""

from __future__ import annotations

from enum import Enum


class RemovalReason(Enum):
    """The one reason a message left a queue (design: "every message leaves with one reason of one enum")."""

    ACKNOWLEDGED = "acknowledged"
    EXPIRED = "expired"
    REPLACED_RING = "replaced-ring"
    REPLACED_KEY = "replaced-key"
    OVERFLOW = "overflow"
    REJECTED = "rejected"
    DEAD_LETTERED = "dead-lettered"
    PURGED = "purged"
    MOVED = "moved"
    DELETED = "deleted"
    """The queue itself was deleted, or an operator removed the message."""

    UNREADABLE = "unreadable"
    """Its record in the log is damaged. It stays there, out of the way of the messages behind it."""

    __hash__ = object.__hash__
    """By identity: Enum's own hash runs Python code, and every message that leaves is counted under its reason."""


LOSSES = frozenset(
    {
        RemovalReason.EXPIRED,
        RemovalReason.REPLACED_RING,
        RemovalReason.REPLACED_KEY,
        RemovalReason.OVERFLOW,
        RemovalReason.REJECTED,
        RemovalReason.PURGED,
        RemovalReason.DELETED,
    }
)
"""Reasons after which the message is nowhere any more: the records of the loss ledger."""
