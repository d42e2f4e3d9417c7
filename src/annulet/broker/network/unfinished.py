"""One bound for the memory of clients' unfinished work, all connections together.

That is the bodies of open transactions, the parts of messages that are still arriving, of requests over HTTP too, and
what bulk transfer has in hand. No queue has them, so nothing pages them, and no consumer makes room: only the client
that began can end it. Twelve connections with endless bodies
took 1.5 GB of a broker with a limit of 900 MiB, and one transaction above the limit held all publishers back for good.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import structlog

from annulet.broker.observing.limited_log import LimitedLog

if TYPE_CHECKING:
    from annulet.broker.settings.configuration import BrokerConfiguration

logger = structlog.get_logger(__name__)

LIMIT_UNFINISHED: Final = "max_unfinished_bytes"
"""Name of the bound in ``engine.limit_hits``."""

UNFINISHED_SHARE: Final = 0.5
"""Share of the memory limit that is the bound unless the setting says another: finished work and the broker itself need
the rest. Of 256 MiB, the least that a broker runs with, the largest message by default has just room."""


COMMIT_SHARE: Final = 0.5
"""Share of the memory limit that batches of bulk transfer may take while they are published, unless the setting says
another. They are not among the unfinished work: no client can keep the broker from finishing them."""


class Unfinished(Protocol):
    """A connection as the account sees it."""

    name: str

    def unfinished_bytes(self) -> int:
        """Return its current size."""

    def refuse_unfinished(self, text: str) -> None:
        """End the connection with the protocol's error for resources; it holds nothing afterwards."""


def unfinished_limit(configuration: BrokerConfiguration) -> int:
    """Return the bound in bytes."""
    return configuration.limits.max_unfinished_bytes or int(configuration.memory_limit_bytes * UNFINISHED_SHARE)


def commit_limit(configuration: BrokerConfiguration) -> int:
    """Return the bound of batches of bulk transfer that are published, in bytes."""
    return configuration.limits.max_commit_bytes or int(configuration.memory_limit_bytes * COMMIT_SHARE)


class UnfinishedWork:
    """The size of each connection's unfinished work, and the largest of them refused when all together are beyond
    ``limit`` bytes.

    A connection reports after each read and before it writes, so the sum is above the limit by what one read brings at
    most, for as long as it takes to refuse the largest. Belongs to the event loop.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.total = 0
        self.refused = 0  # connections that were ended for it
        self._held: dict[Unfinished, int] = {}
        self._log = LimitedLog(logger)

    def note(self, connection: Unfinished, held: int) -> None:
        """A connection holds so many bytes from now on."""
        self._enter(connection, held)
        while self.total > self.limit:
            self._refuse_largest()

    def forget(self, connection: Unfinished) -> None:
        """A connection has ended."""
        self._enter(connection, 0)

    def _enter(self, connection: Unfinished, held: int) -> None:
        self.total += held - self._held.pop(connection, 0)
        if held:
            self._held[connection] = held

    def _refuse_largest(self) -> None:
        largest = max(self._held, key=self._held.__getitem__)
        held = self._held[largest]
        self.refused += 1
        text = (
            f"unfinished messages and open transactions of all connections exceed {self.limit} bytes "
            f"({LIMIT_UNFINISHED}), and this connection holds most, {held} bytes; commit smaller transactions, send "
            "smaller messages, or raise the limit"
        )
        self._log.warning("unfinished work refused", peer=largest.name, held=held, limit=self.limit)
        try:
            largest.refuse_unfinished(text)
        finally:  # after any answer, it is not counted any more: else this would not end
            self._enter(largest, 0)
