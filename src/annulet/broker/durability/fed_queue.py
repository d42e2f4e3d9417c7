"""A queue that the broker feeds itself, because its configuration says that there is one.

A user with permission may delete it; then it is declared again before the next message. Where that is refused (a limit
on queues, a catalogue on a full disk) its messages are lost; the broker's log and a metric tell the number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from annulet.core.base.errors import CoreError
from annulet.store.files.errors import CatalogueError

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

    from annulet.core.queue.queue import Queue

logger = structlog.get_logger(__name__)


class FedQueue:
    """The queue of one virtual host, declared by ``declare``; the broker's log says ``loss`` when it cannot be.

    ``losses`` counts lost messages, by name of the queue, in all virtual hosts.
    """

    def __init__(
        self, name: str, host_name: str, loss: str, declare: Callable[[], Queue], losses: Counter[str]
    ) -> None:
        self._name = name
        self._losses = losses
        self._host_name = host_name
        self._loss = loss
        self._declare = declare
        self._queue: Queue | None = None

    def open(self) -> None:
        """Declare it, or take up that of an earlier run. Raises what the declaration raises."""
        self._queue = self._declare()

    def queue_for(self, count: int) -> Queue | None:
        """Return the queue, declared again if need be; ``None`` when it cannot be, and ``count`` items are lost."""
        if self._queue is None or self._queue.deleted:
            try:
                self._queue = self._declare()
            except (CatalogueError, CoreError) as error:
                self._losses[self._name] += count
                logger.warning(self._loss, vhost=self._host_name, count=count, error=str(error))
                return None
        return self._queue
