"""How many random events ``make soak`` tries: ``ANNULET_RANDOM_EVENTS``, fewer than a million if there is no time."""

from __future__ import annotations

import os
from typing import Final

EVENTS_VARIABLE: Final = "ANNULET_RANDOM_EVENTS"
EVENTS: Final = 1_000_000
"""Of A20, as the design has it, unless the environment says otherwise: three quarters of an hour, compiled."""

INVARIANTS_SHARE: Final = 5
"""Of so many events of A20 one more is tried on several queues with consumers, where all rules are asked after each:
three quarters of an hour as well."""

SECONDS_AN_EVENT: Final = 0.2
"""Many times what one takes, before a test counts as hanging."""

SECONDS_LEAST: Final = 3600.0


def soak_events() -> int:
    """Return how many random events to try. Raises ValueError for what is no number above 0."""
    events = int(os.environ.get(EVENTS_VARIABLE) or EVENTS)
    if events < 1:
        raise ValueError(f"{EVENTS_VARIABLE}: {events} is too few; give at least 1")
    return events


def soak_seconds(events: int) -> float:
    """Return the seconds after which a test of so many events hangs."""
    return max(SECONDS_LEAST, events * SECONDS_AN_EVENT)


def lives_of(events: int, most: int) -> list[int]:
    """Return how many events each life of a broker has, ``most`` at most, so many together."""
    return [most] * (events // most) + [events % most] * (events % most > 0)
