"""How much of a turn of the event loop each connection gets: deliveries are counted and timed over all of them."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from annulet.core.sessions.session import Session

TURN_DELIVERIES: Final = 1024
"""Deliveries of one turn of the loop, those of all connections together: 5 to 9 ms. The rest of a backlog has to wait
for the next turn, and whatever else became ready comes first."""

SHARE_LEAST: Final = 256
"""Deliveries that a connection gets in one turn however many others get some: each write should be worth it, and with
many publishers and few consumers these must not fall behind."""

TURN_SECONDS: Final = 0.006
"""Computing time of a turn's deliveries, and of what else connections have done in it: a connection has the part of it
that its share is of ``TURN_DELIVERIES``, from its first delivery on, and gets no more after that, nor when the time of
the turn is up. Where each message is read from another place of the disk, as of deep sorted queues, 1000 took up to
48 ms, of deep grouped ones up to 30; four connections, each with its part and a read before its first delivery, up to
22 together. With 10 ms, and reads of 64 KiB, turns beside groups took more than 10 ms 7 % of the time, then 4."""

DELIVERIES_TIMED: Final = 64
"""Deliveries between two looks at that time: so many each connection gets that has something to get, however long they
take."""

LEAST_SECONDS: Final = 0.001
"""Computing time that a connection has for deliveries however late in a turn: some 256 that take 4 us, 64 that take
long. With 64 of either, 60 consumers beside 60 publishers fell behind, each message cost a quarter more."""

BROWSER_PART: Final = 2
"""A connection that only browses gets one of so many parts of a share: its messages are read for it alone, which costs
twice as much as a delivery, and other consumers should keep four fifths of their rate beside it."""

NO_SHARE: Final = 1 << 62
"""The share of a connection with a consumer that comes before others by priority: with a share, those would get the
rest of the turn. ``OUTPUT_BYTES_MAX`` (``transport``) bounds it."""


class DeliveryShares:
    """How many deliveries a connection may get in one turn: its part of ``TURN_DELIVERIES``, ``SHARE_LEAST`` at least,
    as long as the turn's time is not up.

    The parts are those of the connections that got deliveries in the round before, in which all were written to; after
    one in which none did all begin with the least, as many may come at once. A round takes several turns where one
    would be too long. Belongs to the event loop.
    """

    def __init__(self) -> None:
        self.share = SHARE_LEAST
        self.computed = time.thread_time  # seconds the loop's thread has computed
        self.served = 0  # connections that got deliveries, of this round
        self.used_up = 0  # times a connection had to wait for the next turn because it had its share, or long enough
        self.used_up_by_browsers = 0  # of these, connections that only browse
        self.rounds_cut = 0  # turns whose time was up before all connections were written to
        self._turn_until = math.inf  # how long the loop's thread will have computed then

    def after(self, delivered: int, sessions: Iterable[Session]) -> int:
        """Return the share of a connection with these sessions after its first delivery, or its last of a turn."""
        if delivered == 1:
            return self.share // BROWSER_PART if only_browse(sessions) else self.share
        if any(session.outranks for session in sessions):
            return NO_SHARE
        self.used_up += 1
        self.used_up_by_browsers += only_browse(sessions)
        return delivered

    def look(self, delivered: int, share: int, until: float, sessions: Iterable[Session]) -> tuple[int, float]:
        """Return the share of a connection, and how long the loop's thread will have computed when that took long
        enough. To be asked after its first delivery of a turn, its last, and every ``DELIVERIES_TIMED``.
        """
        if delivered == 1:
            share = self.after(1, sessions)
            now = self.computed()
            return share, min(now + TURN_SECONDS * share / TURN_DELIVERIES, max(self._turn_until, now + LEAST_SECONDS))
        if delivered == share or self.computed() >= until:
            share = self.after(delivered, sessions)
        return share, until

    def turn_began(self) -> None:
        """Connections are written to, and then what they sent is handled."""
        self._turn_until = self.computed() + TURN_SECONDS

    def over(self) -> bool:
        """Return whether the turn's time is up, before all connections were written to."""
        over = self.computed() >= self._turn_until
        self.rounds_cut += over
        return over

    def round_ended(self) -> None:
        """All connections have written what they had."""
        self.share = max(SHARE_LEAST, TURN_DELIVERIES // self.served) if self.served else SHARE_LEAST
        self.served = 0


def only_browse(sessions: Iterable[Session]) -> bool:
    """Return whether there are consumers, and none of them takes anything; as a rule the first one does."""
    browses = False
    for session in sessions:
        for consumer in session.consumers.values():
            if not consumer.settings.browse:
                return False
            browses = True
    return browses
