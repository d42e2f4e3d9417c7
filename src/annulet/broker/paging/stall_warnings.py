"""Log lines about queues whose messages the disk does not give: few, however often it is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    from annulet.core.queue.queue import Queue

logger = structlog.get_logger(__name__)

STALL_LOG_MILLISECONDS: Final = 60_000
"""Between two log lines about a queue that the disk gives nothing: it is asked four times a second."""


class StallWarnings:
    """Says of each queue that cannot be read now, at most once a minute, how often the disk refused since."""

    def __init__(self) -> None:
        self._logged_at: dict[Queue, int] = {}
        self._refusals: dict[Queue, int] = {}

    def refused(self, queue: Queue, now: int) -> None:
        """Note a refusal at ``now`` (milliseconds since 1970)."""
        refusals = self._refusals[queue] = self._refusals.get(queue, 0) + 1
        last = self._logged_at.get(queue)
        if last is None or not 0 <= now - last < STALL_LOG_MILLISECONDS:
            self._logged_at[queue] = now
            self._refusals[queue] = 0
            logger.warning(
                "messages of a queue cannot be read now", queue=queue.name, refusals=refusals, remedy="check the disk"
            )

    def forget(self, queue: Queue) -> None:
        """A queue has no rows any more."""
        self._logged_at.pop(queue, None)
        self._refusals.pop(queue, None)
