"""Log lines of lost messages: now and then one for each queue that has lost some, not one a message.

The newest records of the ledgers are looked at, so that losing a message costs nothing more. Counts are those of the
queues.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import structlog

from annulet.core.base.removal_reasons import RemovalReason

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from annulet.core.host.virtual_host import VirtualHost

logger = structlog.get_logger(__name__)

LINES_INTERVAL_MILLISECONDS: Final = 30_000
"""Between two lines of the same queue: a ring drops with each arrival, as it is meant to."""

LOSSES_LOOKED_AT: Final = 200
"""The newest losses of a virtual host that are looked at: 0.1 ms. A queue that all of them hide has its line later."""

LINES_AT_ONCE_MAX: Final = 20
"""Lines of virtual hosts and queues at one time: 2 ms of the loop."""

EVENT_OF: Final = {
    RemovalReason.OVERFLOW: "queue dropped messages",
    RemovalReason.REPLACED_RING: "queue dropped messages",
    RemovalReason.REJECTED: "queue discarded messages that have no dead-letter target",
}
"""The event of a reason; other losses are wanted, by a sender, a reader or an operator."""


class LossLines:
    """Those of one broker. Belongs to the event loop."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, int, int]] | None = None  # of each virtual host; None: before the first look
        self._unroutable = 0
        self._at = 0

    def tick(self, hosts: Mapping[str, VirtualHost], unroutable: int, now: int) -> None:
        """Write the lines that are due; called at each tick of the broker, with its count of publishes to no queue."""
        if self._seen is not None and 0 <= now - self._at < LINES_INTERVAL_MILLISECONDS:
            return
        before, self._at = self._seen, now
        self._seen = {name: _counts(host) for name, host in hosts.items()}
        if before is None:  # what earlier runs lost has had its lines
            return
        lost, self._unroutable = unroutable - self._unroutable, unroutable
        if lost > 0:
            logger.info("messages reached no queue", messages=lost)
        lines = (line for name, host in hosts.items() for line in _lines(host, before.get(name, NONE)))
        for log, event, values in islice(lines, LINES_AT_ONCE_MAX):
            log(event, **values)


NONE: Final = (0, 0, 0)


def _counts(host: VirtualHost) -> tuple[int, int, int]:
    """Return losses, and copies for a dead-letter, expiry or drop target: those that no queue took, and the others."""
    letters = host.dead_letters
    return host.ledger.total, letters.messages_unroutable, letters.messages_forwarded


def _lines(host: VirtualHost, before: tuple[int, int, int]) -> Iterator[tuple[Any, str, dict[str, Any]]]:
    """Yield how and what to log of a virtual host since its counts ``before``."""
    losses, lost, moved = [after - earlier for after, earlier in zip(_counts(host), before, strict=True)]
    if lost > 0:
        yield logger.warning, "dead letters reached no queue", {"vhost": host.name, "messages": lost}
    if moved > 0:
        yield logger.info, "messages moved to dead-letter targets", {"vhost": host.name, "messages": moved}
    records = host.ledger.newest(min(losses, LOSSES_LOOKED_AT)) if losses > 0 else []
    for name, reason in dict.fromkeys([(each.queue, each.reason) for each in records if each.reason in EVENT_OF]):
        queue = host.queues.get(name)
        if queue is not None:
            figures = {"total": queue.counters.removed[reason], "messages": queue.message_count()}
            yield logger.info, EVENT_OF[reason], {"vhost": host.name, "queue": name, "reason": reason.value, **figures}
