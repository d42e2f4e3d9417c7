"""Limits of the front of a deep queue in memory and of its reads: lower with very many deep queues."""

from __future__ import annotations

from typing import NamedTuple

from annulet.core.paging.folding import FOLD_BYTES_LEAST, FOLD_MESSAGES_LEAST
from annulet.core.paging.paged_fifo import KEEP_BYTES, KEEP_MESSAGES, PagedFifo
from annulet.core.paging.paged_priorities import PagedLevels
from annulet.core.paging.paged_sorted import PagedSorted


class FrontBounds(NamedTuple):
    """Limits of a front: messages, or bytes of bodies except one message."""

    messages: int = KEEP_MESSAGES
    size: int = KEEP_BYTES


def bound_front(order: object, bounds: FrontBounds) -> None:
    """Limit the front and the reads of a deep order. Others have no front."""
    messages, size = bounds
    if isinstance(order, (PagedFifo, PagedLevels, PagedSorted)):
        lowered = messages < order.keep_messages or size < order.keep_bytes
        order.keep_messages, order.keep_bytes = messages, size
        order.fold_least = min(FOLD_MESSAGES_LEAST, messages)
        order.fold_bytes = min(FOLD_BYTES_LEAST, size)
        order.pages.most_messages, order.pages.most_bytes = messages, size
        for area in order.levels if isinstance(order, PagedLevels) else [order]:
            if isinstance(area, PagedFifo):
                area.pages.most_messages, area.pages.most_bytes = messages, size
                area.lowered = lowered or area.lowered
