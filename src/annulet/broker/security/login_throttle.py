"""Slows the guessing of passwords down, by peer address and by user name.

Each failure doubles how long the next attempt waits, from ``first`` to ``most`` seconds; a success forgets it. Waiting
comes before checking, so that hanging up early tells a guesser nothing and costs him the guess.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Final

from annulet.broker.network.listening import site_of

if TYPE_CHECKING:
    from collections.abc import Callable

ENTRIES_MAX: Final = 10_000
"""Peer addresses and user names with failures that are remembered, each: about 2 MB; the longest quiet is forgotten."""

FORGET_SECONDS: Final = 600.0
"""A name without a failure for so long starts anew: a mistyped password is no reason for suspicion next day."""

NAME_CHARACTERS_MAX: Final = 128
"""Of a user name, which the peer chooses, so many are compared, and logged."""

DOUBLINGS_MAX: Final = 30


class LoginThrottle:
    """Failures by peer address and by user. Belongs to the event loop."""

    def __init__(
        self, first: float, most: float, waiting_max: int, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._first = first
        self._most = most
        self._waiting_max = waiting_max
        self._clock = clock
        self._failures: tuple[dict[str, tuple[int, float]], dict[str, tuple[int, float]]] = ({}, {})
        self._waiting: Counter[str] = Counter()  # attempts under way by address

    @property
    def waiting(self) -> int:
        """How many attempts are under way."""
        return self._waiting.total()

    def delay(self, address: str, user: str) -> float:
        """Return the seconds an attempt has to wait now; 0 when nothing is on record."""
        now = self._clock()
        counts = [
            entry[0]
            for table, key in zip(self._failures, _keys(address, user), strict=True)
            if (entry := table.get(key)) is not None and now - entry[1] < FORGET_SECONDS
        ]
        failures = max(counts, default=0)
        return min(self._most, self._first * float(1 << min(failures - 1, DOUBLINGS_MAX))) if failures else 0.0

    def failed(self, address: str, user: str) -> float:
        """Note a failure and return the new delay in seconds."""
        now = self._clock()
        for table, key in zip(self._failures, _keys(address, user), strict=True):
            count, at = table.pop(key, (0, now))
            table[key] = (count + 1 if now - at < FORGET_SECONDS else 1, now)
            if len(table) > ENTRIES_MAX:
                del table[next(iter(table))]
        return self.delay(address, user)

    def succeeded(self, address: str, user: str) -> None:
        """Forget the failures of both."""
        for table, key in zip(self._failures, _keys(address, user), strict=True):
            table.pop(key, None)

    def enter(self, address: str) -> bool:
        """Count an attempt that may have to wait; ``False``: too many of this address do already."""
        site = site_of(address)
        if self._waiting[site] >= self._waiting_max:
            return False
        self._waiting[site] += 1
        return True

    def leave(self, address: str) -> None:
        """Take an attempt out of the count that :meth:`enter` let in."""
        site = site_of(address)
        self._waiting[site] -= 1
        if self._waiting[site] <= 0:
            del self._waiting[site]


def _keys(address: str, user: str) -> tuple[str, str]:
    return site_of(address), user[:NAME_CHARACTERS_MAX]
