"""How long a message waits after a delivery came back (Artemis: redelivery delay, multiplier, collision avoidance).

Pure functions: the spread that keeps many messages from coming back at the same moment is derived from what identifies
the delivery, so that a replay of the same commands gives the same times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from zlib import crc32

if TYPE_CHECKING:
    from annulet.core.base.settings import QueueSettings

DEFAULT_CAP_FACTOR: Final = 10
"""``max-redelivery-delay`` of -1 is this many times ``redelivery-delay`` (Artemis address settings)."""

DELAY_MAX: Final = 2**53
"""Milliseconds, 285 000 years: the largest delay, where a float still counts in ones. Multipliers grow past any."""

LARGEST: Final = 1e300
"""Milliseconds before they are spread: of what a multiplier has made infinite a part is no number."""


def redelivery_delay(settings: QueueSettings, delivery_count: int, spread: float) -> int:
    """Return how long a message waits before delivery ``delivery_count + 1``, in milliseconds; 0 = not at all.

    ``redelivery_delay`` times ``redelivery_multiplier`` to the power of ``delivery_count - 1``, moved by ``spread``
    (-1 to 1) times ``redelivery_jitter`` of itself, and only then capped by ``max_redelivery_delay``: the cap holds
    whatever the spread. ``delivery_count``: deliveries that came back; below 1 counts as 1.

    Raises:
        ValueError: ``spread`` is outside -1 to 1.
    """
    if not -1.0 <= spread <= 1.0:
        raise ValueError(f"spread is {spread}, allowed are -1 to 1; redelivery_spread() gives one")
    base = settings.redelivery_delay
    if base <= 0:
        return 0
    cap = settings.max_redelivery_delay
    if cap < 0:
        cap = base * DEFAULT_CAP_FACTOR
    cap = min(cap, DELAY_MAX)
    try:
        delay = base * settings.redelivery_multiplier ** max(delivery_count - 1, 0)
    except OverflowError:  # the thousandth attempt of a growing delay: beyond any cap
        return cap
    delay = min(delay, LARGEST)
    delay += delay * settings.redelivery_jitter * spread
    return cap if delay >= cap else round(delay)


def redelivery_spread(queue: str, sequence: int, delivery_count: int) -> float:
    """Return a number from -1 to 1, spread evenly over deliveries and always the same for one delivery."""
    return crc32(f"{queue}\0{sequence}\0{delivery_count}".encode()) / 0xFFFFFFFF * 2.0 - 1.0
