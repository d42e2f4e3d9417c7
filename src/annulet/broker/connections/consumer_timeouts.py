"""Consumers that do not settle in time: looked for now and then, and ended by their protocol's means.

Such a consumer's deliveries are returned to its queues as at its normal end. Off unless the server's setting, a queue's
(argument, policy, address setting) or the consumer's own says otherwise: clients that keep tasks for hours expect none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from annulet.core.sessions.delivery_deadlines import DeliveryDeadlines, shortest_timeout

if TYPE_CHECKING:
    from collections.abc import Iterable

    from annulet.broker.connections.client_session import ClientSession
    from annulet.broker.connections.transport import AnyConnection

logger = structlog.get_logger(__name__)

ROUND_MILLISECONDS_MOST: Final = 5000
"""Between two rounds over the sessions: so late a consumer that is the first with a time may be found."""

ROUND_MILLISECONDS_LEAST: Final = 250
"""The broker's tick, which the rounds are a part of."""

ROUNDS_PER_TIMEOUT: Final = 4
"""Rounds within the shortest time there is: a delivery is found overdue at most two of them late."""

SESSIONS_PER_TICK: Final = 1000
"""Sessions looked at in one turn: 2 ms of the loop."""


class ConsumerTimeouts:
    """Rounds over the sessions of ``connections``. ``default``: the server's setting in milliseconds."""

    def __init__(self, connections: Iterable[AnyConnection], default: int) -> None:
        self.timed_out = 0  # deliveries that ended their consumer
        self.extended = 0  # deliveries whose time was begun anew by their consumer
        self._connections = connections
        self._default = default
        self._round: list[ClientSession] = []  # still to be looked at
        self._shortest = 0  # milliseconds, of those looked at in this round; 0: none has a time
        self._next_at = 0  # milliseconds since 1970

    @property
    def left(self) -> int:
        """How many sessions the round under way has still to look at."""
        return len(self._round)

    def change_default(self, default: int) -> None:
        """Let another setting of the server hold, from the next round on."""
        self._default = default
        self._next_at = 0

    def tick(self, now: int) -> None:
        """Go on with the round, or begin one when it is time."""
        if not self._round:
            if now < self._next_at:
                return
            self._round = [session for connection in self._connections for session in connection.channels.values()]
            self._shortest = 0
        for session in self._round[-SESSIONS_PER_TICK:]:
            self._look(session, now)
        del self._round[-SESSIONS_PER_TICK:]
        if not self._round:
            wanted = self._shortest // ROUNDS_PER_TIMEOUT if self._shortest else ROUND_MILLISECONDS_MOST
            self._next_at = now + min(max(wanted, ROUND_MILLISECONDS_LEAST), ROUND_MILLISECONDS_MOST)

    def _look(self, session: ClientSession, now: int) -> None:
        shortest = 0 if session.closed else shortest_timeout(session, self._default)
        if not shortest:
            session.deadlines = None
            return
        self._shortest = min(self._shortest or shortest, shortest)
        if session.deadlines is None:
            session.deadlines = DeliveryDeadlines()
        overdue = session.deadlines.overdue(session, now, self._default)
        session.deadlines.mark(session.last_tag, now)
        if overdue is None:
            return
        self.timed_out += 1
        logger.warning("consumer timed out", peer=session.name, reason=str(overdue))
        session.connection.now = now
        try:
            session.delivery_overdue(overdue)
        except Exception:  # a defect at the end of one consumer is not to keep the others from theirs
            logger.exception("defect while ending a consumer", peer=session.name)
