"""What an address may hold, across its queues, and what happens to messages beyond that.

Artemis's address full policies: PAGE lets messages in and counts those beyond the limit as paged, DROP takes them
from the sender and discards them, BLOCK lets the message in that crosses the limit and holds the publishers back, FAIL
refuses. What PAGE lets in may have a limit of its own with a policy of its own, DROP or FAIL (Artemis's page limits).
"""

from __future__ import annotations

from typing import Final

PAGE: Final = "page"
DROP: Final = "drop"
BLOCK: Final = "block"
FAIL: Final = "fail"
FULL_POLICIES: Final = (PAGE, DROP, BLOCK, FAIL)

NO_POLICY: Final = "none"
"""No policy for what is beyond the page limits: these have no effect then, as in Artemis."""


class AddressLimits:
    """What one address may hold. Sizes are body bytes; -1 is no limit.

    ``reject_threshold``: with BLOCK, the bytes above which even a publisher that does not stop is refused.
    ``page_max_bytes``, ``page_max_messages``, ``page_policy``: with PAGE, how much may be paged and what meets what
    would be more. Artemis counts whole page files; there are none here, so bytes are exact.
    """

    __slots__ = (
        "max_bytes",
        "max_messages",
        "page_max_bytes",
        "page_max_messages",
        "page_policy",
        "policy",
        "reject_threshold",
    )

    def __init__(
        self,
        *,
        max_bytes: int = -1,
        max_messages: int = -1,
        policy: str = PAGE,
        reject_threshold: int = -1,
        page_max_bytes: int = -1,
        page_max_messages: int = -1,
        page_policy: str = NO_POLICY,
    ) -> None:
        self.max_bytes = max_bytes
        self.max_messages = max_messages
        self.policy = policy
        self.reject_threshold = reject_threshold
        self.page_max_bytes = page_max_bytes
        self.page_max_messages = page_max_messages
        self.page_policy = page_policy

    @property
    def unlimited(self) -> bool:
        """Say whether nothing is limited, so that no account is needed. Page limits limit what other limits page."""
        return self.max_bytes < 0 and self.max_messages < 0 and not self._rejects

    @property
    def _rejects(self) -> bool:
        return self.policy == BLOCK and self.reject_threshold >= 0

    @property
    def limits_pages(self) -> bool:
        """Say whether what is paged has a limit that somebody enforces."""
        limited = self.page_max_bytes >= 0 or self.page_max_messages >= 0
        return self.policy == PAGE and self.page_policy != NO_POLICY and limited

    def exceeded_by(self, messages: int, octets: int) -> bool:
        """Say whether this much is more than the address may hold."""
        return 0 <= self.max_messages < messages or 0 <= self.max_bytes < octets

    def reached_by(self, messages: int, octets: int) -> bool:
        """Say whether this much leaves no room for another message of at least one byte."""
        return 0 <= self.max_messages <= messages or 0 <= self.max_bytes <= octets

    def refused_by(self, octets: int) -> bool:
        """Say whether this many bytes are above BLOCK's hard limit."""
        return self._rejects and octets > self.reject_threshold

    def page_exceeded_by(self, messages: int, octets: int) -> bool:
        """Say whether this much is more than may be paged."""
        return 0 <= self.page_max_messages < messages or 0 <= self.page_max_bytes < octets

    def page_reached_by(self, messages: int, octets: int) -> bool:
        """Say whether this much that is paged leaves no room for another message of at least one byte."""
        return 0 <= self.page_max_messages <= messages or 0 <= self.page_max_bytes <= octets

    def same_as(self, other: AddressLimits) -> bool:
        """Say whether both limit the same."""
        return self._all() == other._all()

    def pages_as(self, other: AddressLimits) -> bool:
        """Say whether the same messages are paged under both limits."""
        if PAGE not in {self.policy, other.policy}:
            return True
        return (self.policy, self.max_bytes, self.max_messages) == (other.policy, other.max_bytes, other.max_messages)

    def _all(self) -> tuple[int, int, str, int, int, int, str]:
        return (
            self.max_bytes,
            self.max_messages,
            self.policy,
            self.reject_threshold,
            self.page_max_bytes,
            self.page_max_messages,
            self.page_policy,
        )
