"""Limits of an address across its queues, and the policies for messages beyond them.

Artemis's address full policies: PAGE accepts messages and counts those beyond the limit as paged, DROP accepts and
discards them, BLOCK accepts the message that crosses the limit and blocks the publishers, FAIL refuses. Paged messages
may have a separate limit and policy, DROP or FAIL (Artemis's page limits).
"""

from __future__ import annotations

from typing import Final

PAGE: Final = "page"
DROP: Final = "drop"
BLOCK: Final = "block"
FAIL: Final = "fail"
FULL_POLICIES: Final = (PAGE, DROP, BLOCK, FAIL)

NO_POLICY: Final = "none"
"""No policy beyond the page limits, which then have no effect, as in Artemis."""


class AddressLimits:
    """The limits of one address. Sizes are body bytes; -1 is no limit.

    ``reject_threshold``: with BLOCK, the bytes above which publishers that ignore the block are refused.
    ``page_max_bytes``, ``page_max_messages``, ``page_policy``: with PAGE, the limits of paged messages and the policy
    beyond them. Artemis counts whole page files; there are none here, so bytes are exact.
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
        """Return whether there is no limit, so that no account is needed.

        Page limits only apply to messages paged by other limits.
        """
        return self.max_bytes < 0 and self.max_messages < 0 and not self._rejects

    @property
    def _rejects(self) -> bool:
        return self.policy == BLOCK and self.reject_threshold >= 0

    @property
    def limits_pages(self) -> bool:
        """Return whether paged messages have an enforced limit."""
        limited = self.page_max_bytes >= 0 or self.page_max_messages >= 0
        return self.policy == PAGE and self.page_policy != NO_POLICY and limited

    def exceeded_by(self, messages: int, octets: int) -> bool:
        """Return whether these amounts exceed the address's limits."""
        return 0 <= self.max_messages < messages or 0 <= self.max_bytes < octets

    def reached_by(self, messages: int, octets: int) -> bool:
        """Return whether this much leaves no room for another message of at least one byte."""
        return 0 <= self.max_messages <= messages or 0 <= self.max_bytes <= octets

    def refused_by(self, octets: int) -> bool:
        """Return whether this many bytes are above BLOCK's hard limit."""
        return self._rejects and octets > self.reject_threshold

    def page_exceeded_by(self, messages: int, octets: int) -> bool:
        """Return whether this much is more than may be paged."""
        return 0 <= self.page_max_messages < messages or 0 <= self.page_max_bytes < octets

    def page_reached_by(self, messages: int, octets: int) -> bool:
        """Return whether these paged amounts leave no room for another message of at least one byte."""
        return 0 <= self.page_max_messages <= messages or 0 <= self.page_max_bytes <= octets

    def same_as(self, other: AddressLimits) -> bool:
        """Return whether both limit the same."""
        return self._all() == other._all()

    def pages_as(self, other: AddressLimits) -> bool:
        """Return whether the same messages are paged under both limits."""
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
