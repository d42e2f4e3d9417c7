"""Turns of the event loop for scans of a deep backlog: consumers with selectors, and browsers.

A queue that has something to look at asks for a turn. Turns last 5 ms, queues take them one after the other, and
between two of them all other work is served. While others have work the scans take 20 % of the time at most, those for
browsers 6.25 % including the sending; on an idle broker they take all of it.

Between two turns the loop goes round once for all others: callbacks ready at the end of a turn run behind it, and
before that it is unknown whether others have work.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import structlog

from annulet.core.searching.selector_walk import LOOK_MESSAGES

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from annulet.core.queue.queue import Queue

logger = structlog.get_logger(__name__)

TURN_SECONDS: Final = 0.005
"""Length of a turn (design S3): the longest wait of others, except for a single message that takes longer than a
look."""

LOOK_SECONDS: Final = 0.0015
"""Length of one look: a turn ends in time when it does not begin a look that would end too late. How many messages that
are depends on the selector, from some hundred that lack the text of a comparison to a few with a long pattern."""

SHARE: Final = 0.2
"""Of the loop's time that scans take while others have work: with what lanes cost beside a plain order, consumers that
take everything keep more than 70 % of their rate (design A5)."""

BROWSER_SHARE: Final = 0.0625
"""The same for browsers, including the sending: consumers of the same queue should keep 80 % of their rate (design A8),
and a browser's client uses processor time too where it runs beside them. With twice the share they kept 65 to 88 %."""

CHARGED_MAX: Final = 0.4
"""Seconds after a turn that what browsers are sent may keep the next one away: more than any one turn shows them takes.
A browser that follows is sent arrivals without a turn; all day long that would add up to hours."""

IDLE_SECONDS: Final = 0.0003
"""Work others may have between two turns for the loop to count as idle: a heartbeat, a settled handful."""


class Scanning:
    """Gives queues their turns. Belongs to the event loop. ``clock``: milliseconds since 1970, for the queues."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], int],
        *,
        seconds: Callable[[], float] = time.monotonic,
        worked: Callable[[], float] = time.thread_time,
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._seconds = seconds
        self._worked = worked  # seconds this thread has computed
        self._asking: dict[Queue, None] = {}
        self._handle: asyncio.Handle | None = None
        self._turn_ended = 0.0
        self._worked_then = 0.0
        self._owed = 0.0  # seconds that belong to others after the last turn, if they have work
        self._messages = LOOK_MESSAGES  # of the next look
        self._browsed = False  # the last turn was for browsers
        self.turns = 0
        self.turns_cut = 0  # of these, those that ended with something left to look at
        self.turns_put_off = 0  # times the next turn had to wait because others had work

    def figures(self) -> tuple[int, int, int]:
        """Return how many turns there were, how many of them ended with something left, and how often one was put off
        because others had work."""
        return self.turns, self.turns_cut, self.turns_put_off

    def ask(self, queue: Queue) -> None:
        """Give a queue a turn soon."""
        self._asking[queue] = None
        if self._handle is None:
            self._handle = self._loop.call_soon(self._next)

    def asked(self, queue: Queue) -> bool:
        """Return whether a queue has a turn coming."""
        return queue in self._asking

    @property
    def browsing(self) -> bool:
        """Return whether the last turn was for browsers, and so short a time ago that what they are sent is charged."""
        return self._browsed and self._seconds() < self._turn_ended + CHARGED_MAX

    def charge(self, seconds: float) -> None:
        """Count computing time for a browser as time of the scans, not as work of others."""
        self._worked_then += seconds
        owed = self._owed + seconds * (1 - BROWSER_SHARE) / BROWSER_SHARE
        self._owed = max(self._owed, min(owed, CHARGED_MAX))

    def close(self) -> None:
        """Give no more turns."""
        self._asking.clear()
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _next(self) -> None:
        """Take a turn now, or later when others have work."""
        rest = self._turn_ended + self._owed - self._seconds()
        if rest > 0 and self._worked() - self._worked_then > IDLE_SECONDS:
            self._owed = 0.0  # once is enough: they had their time when the handle comes
            self.turns_put_off += 1
            self._handle = self._loop.call_later(rest, self._next)
            return
        try:
            self._turn()
        finally:
            self._handle = self._loop.call_soon(self._go_round) if self._asking else None

    def _go_round(self) -> None:
        """Let the loop serve what became ready during the turn: in this round it comes behind this call."""
        self._handle = self._loop.call_soon(self._next)

    def _turn(self) -> None:
        """Let the queue that has waited longest look until its time is up."""
        queue = next(iter(self._asking))
        del self._asking[queue]
        self.turns += 1
        start = self._seconds()
        now = self._clock()
        more = True
        try:
            end = start
            while more and end - start + LOOK_SECONDS <= TURN_SECONDS:
                began = end
                more = queue.scan(now, self._messages)
                end = self._seconds()
                self._suit(end - began)
        except Exception:  # a defect that meets one queue must not end the turns of the others
            logger.exception("defect in a look at a deep backlog", queue=queue.name)
            more = False
        if more:
            self.turns_cut += 1
            self._asking[queue] = None
        self._turn_ended = self._seconds()
        self._worked_then = self._worked()
        # Of a turn with nothing left for selectors; that also ends where an answer about what they want is awaited.
        self._browsed = not more and any(consumer.copies for consumer in queue.consumers)
        share = BROWSER_SHARE if self._browsed else SHARE
        self._owed = (self._turn_ended - start) * (1 - share) / share

    def _suit(self, took: float) -> None:
        """Have the next look take the time of one, by the ``took`` seconds of the last."""
        if took > LOOK_SECONDS:
            self._messages = max(1, min(self._messages // 2, int(self._messages * LOOK_SECONDS / took)))
        elif took < LOOK_SECONDS / 2:
            self._messages = min(LOOK_MESSAGES, 2 * self._messages)
