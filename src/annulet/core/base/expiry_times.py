"""When a message expires by the settings of its queue and the wish of its sender; and the time behind all others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from annulet.core.base.settings import QueueSettings

NEVER: Final = (1 << 62, 0)
"""A time and sequence behind all others."""


def time_of(settings: QueueSettings, accepted_at: int, own: int) -> int:
    """Return when a message expires in a queue with these settings, as far as no key has a say; 0 for never.

    ``own``: the sender's expiry time, 0 for never. All in milliseconds since 1970. ``min_ttl`` raises a time to live
    but sets none; the queue's own ``message_ttl`` and ``max_ttl`` lower and set one, so they win (Broker-J §9, design
    §2). The result is monotonic in the times.
    """
    at = own
    if at and settings.min_ttl >= 0:
        at = max(at, accepted_at + settings.min_ttl)
    for life in (settings.message_ttl, settings.max_ttl):
        if life >= 0:
            at = min(at or accepted_at + life, accepted_at + life)
    return at
