"""How much of what comes next a deep queue keeps in memory, and reads at once: less of it when very many queues do."""

from __future__ import annotations

from typing import NamedTuple

from annulet.core.folding import FOLD_BYTES_LEAST, FOLD_MESSAGES_LEAST
from annulet.core.paged_levels import PagedLevels
from annulet.core.paged_order import KEEP_BYTES, KEEP_MESSAGES, TargetList
from annulet.core.paged_sorted import PagedSorted


class FrontBounds(NamedTuple):
    """What is kept of a front at most: so many messages, or bytes of bodies but for one message."""

    messages: int = KEEP_MESSAGES
    size: int = KEEP_BYTES


def bound_front(order: object, bounds: FrontBounds) -> None:
    """Let a deep order keep no more than this, and read no more at once. Others have no front of their own."""
    messages, size = bounds
    if isinstance(order, (TargetList, PagedLevels, PagedSorted)):
        lowered = messages < order.keep_messages or size < order.keep_bytes
        order.keep_messages, order.keep_bytes = messages, size
        order.fold_least = min(FOLD_MESSAGES_LEAST, messages)
        order.fold_bytes = min(FOLD_BYTES_LEAST, size)
        order.pages.most_messages, order.pages.most_bytes = messages, size
        for area in order.levels if isinstance(order, PagedLevels) else [order]:
            if isinstance(area, TargetList):
                area.pages.most_messages, area.pages.most_bytes = messages, size
                area.lowered = lowered or area.lowered
