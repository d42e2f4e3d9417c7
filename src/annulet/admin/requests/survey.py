"""Looking at every queue without holding the event loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.queue.statistics import QueueStatistics

SLICE: Final = 250
"""Queues processed before other tasks get a turn: about 2 ms."""


async def survey(hosts: Iterable[VirtualHost]) -> AsyncIterator[tuple[str, QueueStatistics]]:
    """Yield virtual host and statistics of every queue.

    Each queue's figures are from one instant, those of different queues are not. Queues created or deleted in the
    meantime may be left out.
    """
    count = 0
    for host in list(hosts):
        for queue in list(host.queues.values()):
            if queue.deleted:
                continue
            yield host.name, queue.statistics()
            count += 1
            if count % SLICE == 0:
                await asyncio.sleep(0)
