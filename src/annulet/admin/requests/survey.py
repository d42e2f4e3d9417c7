"""Looking at every queue without holding the event loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from annulet.broker.turns.list_turns import Turns

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.queue.statistics import QueueStatistics

SLICE: Final = 250
"""Queues processed at most before other tasks get a turn: about 2 ms."""


async def survey(
    hosts: Iterable[VirtualHost], matches: Callable[[str], bool] | None = None
) -> AsyncIterator[tuple[str, QueueStatistics]]:
    """Yield virtual host and statistics of every queue, or of those whose name ``matches``.

    Each queue's figures are from one instant, those of different queues are not. Queues created or deleted in the
    meantime may be left out.
    """
    turns = Turns()
    for host in list(hosts):
        for number, queue in enumerate(list(host.queues.values()), 1):
            if number % SLICE == 0:
                await asyncio.sleep(0)
            else:
                await turns.look()
            if not queue.deleted and (matches is None or matches(queue.name)):
                yield host.name, queue.statistics()
