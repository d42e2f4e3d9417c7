"""What a queue can be told, by canonical name. :mod:`annulet.core.arguments` reads these from the names peers use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

UNLIMITED: Final = -1
"""The one spelling of "off" for every limit (design: "off" is -1)."""


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """The policies of one queue. Refused combinations are refused by ``arguments``, not here.

    ``ring_size`` keeps the last N pending messages; ``last_value_key`` with ``keep_per_key`` keeps the last N messages
    of each value of that property; both together apply the key first. ``message_ttl`` and ``expires`` are milliseconds.
    """

    ring_size: int = UNLIMITED
    ring_trim_now: bool = False  # lowering ring_size drops the excess at once instead of growing out of it
    last_value_key: str = ""
    keep_per_key: int = 1
    last_value_fallback: str = ""  # property looked at when the key is absent; only Artemis's alias sets it
    message_ttl: int = UNLIMITED
    expires: int = UNLIMITED  # the queue goes when unused for this long
