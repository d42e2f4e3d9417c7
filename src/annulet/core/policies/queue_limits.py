"""Limits of a queue in messages and bytes.

``ring`` evicts, ``reject`` refuses, ``block`` accepts the publisher's message and blocks the publisher until the queue
has drained to its resume thresholds, ``page`` only marks messages beyond the limit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from annulet.core.base.settings import (
    COUNT_ALL,
    DEFAULT_RESUME_PERCENT,
    OVERFLOW_BLOCK,
    OVERFLOW_NONE,
    OVERFLOW_PAGE,
    OVERFLOW_REJECT,
    OVERFLOW_RING,
)

if TYPE_CHECKING:
    from annulet.core.base.settings import QueueSettings
    from annulet.core.policies.queue_policies import QueuePolicies


def _resume(given: int, limit: int) -> int:
    """Return the threshold at or below which a blocked queue is open again; -1 where there is no limit."""
    if limit < 0:
        return -1
    return given if given >= 0 else -(-limit * DEFAULT_RESUME_PERCENT // 100)


class Limits:
    """``max_length`` and ``max_bytes`` of one queue."""

    __slots__ = (
        "blocks",
        "counts_all",
        "evicts",
        "max_bytes",
        "max_length",
        "pages",
        "rejects",
        "resume_bytes",
        "resume_length",
    )

    def __init__(self, settings: QueueSettings) -> None:
        self.max_length = settings.max_length
        self.max_bytes = settings.max_bytes
        self.counts_all = settings.limit_counts == COUNT_ALL
        self.evicts = settings.overflow == OVERFLOW_RING
        self.rejects = settings.overflow == OVERFLOW_REJECT
        self.blocks = settings.overflow == OVERFLOW_BLOCK
        self.pages = settings.overflow == OVERFLOW_PAGE
        self.resume_length = _resume(settings.resume_length, settings.max_length)
        self.resume_bytes = _resume(settings.resume_bytes, settings.max_bytes)

    def length_of(self, queue: QueuePolicies) -> int:
        """Return how many messages the limit counts now."""
        count = queue.order.count
        if self.counts_all:
            count += len(queue.delivering) + queue.schedule.count
        return count

    def bytes_of(self, queue: QueuePolicies) -> int:
        """Return how many body bytes the limit counts now."""
        size = queue.pending_bytes
        if self.counts_all:
            size += queue.delivering_bytes + queue.schedule.bytes
        return size

    def exceeded(self, queue: QueuePolicies) -> bool:
        """Return whether the queue exceeds its limits."""
        if 0 <= self.max_length < self.length_of(queue):
            return True
        return 0 <= self.max_bytes < self.bytes_of(queue)

    def full(self, queue: QueuePolicies) -> bool:
        """Return whether one more message, however small, would be too many."""
        if 0 <= self.max_length <= self.length_of(queue):
            return True
        return 0 <= self.max_bytes <= self.bytes_of(queue)

    def would_exceed(self, queue: QueuePolicies, count: int, size: int) -> bool:
        """Return whether ``count`` more messages of ``size`` body bytes together would be too many."""
        if 0 <= self.max_length < self.length_of(queue) + count:
            return True
        return 0 <= self.max_bytes < self.bytes_of(queue) + size

    def oversized(self, size: int) -> bool:
        """Return whether one message of ``size`` body bytes is larger than all may be together."""
        return 0 <= self.max_bytes < size

    def refusal(self, queue: QueuePolicies, size: int, more: int = 0, more_bytes: int = 0) -> str:
        """Return why a message of ``size`` body bytes is refused, empty when it is not.

        ``more`` messages of ``more_bytes`` body bytes were let in before it and are not in the queue yet.
        """
        if not self.would_exceed(queue, more + 1, more_bytes + size):
            return ""
        count = self.length_of(queue) + more + 1
        octets = self.bytes_of(queue) + more_bytes + size
        return (
            f"queue '{queue.name}' is full: with this message {count} messages and {octets} bytes, but max-length is "
            f"{_spell(self.max_length)} and max-bytes is {_spell(self.max_bytes)}; consume from it or raise the limit"
        )

    def drained(self, queue: QueuePolicies) -> bool:
        """Return whether a blocked queue is down to both of its resume thresholds."""
        if 0 <= self.resume_length < self.length_of(queue):
            return False
        return not 0 <= self.resume_bytes < self.bytes_of(queue)

    def beyond(self, queue: QueuePolicies) -> int:
        """Count the pending messages, last to be delivered first, that lie beyond the limit.

        O(n) where a limit of bytes is exceeded.
        """
        if not self.exceeded(queue):
            return 0
        if self.max_bytes < 0:
            return min(queue.order.count, self.length_of(queue) - self.max_length)
        count = self.length_of(queue) - queue.order.count
        octets = self.bytes_of(queue) - queue.pending_bytes
        entries = queue.order.entries()
        for index, entry in enumerate(entries):
            count += 1
            octets += entry.message.size
            if 0 <= self.max_length < count or 0 <= self.max_bytes < octets:
                return len(entries) - index
        return 0


def _spell(limit: int) -> str:
    return "unlimited" if limit < 0 else str(limit)


def limits_for(settings: QueueSettings) -> Limits | None:
    """Return the limits of a queue, ``None`` when it has none."""
    if settings.overflow == OVERFLOW_NONE or (settings.max_length < 0 and settings.max_bytes < 0):
        return None
    return Limits(settings)
