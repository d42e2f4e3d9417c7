"""Limits of the front of a deep queue in memory and of its reads: lower with very many deep queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from annulet.core.paging.paged_fifo import KEEP_BYTES, KEEP_MESSAGES

if TYPE_CHECKING:
    from annulet.core.model.order import OrderRows


class FrontBounds(NamedTuple):
    """Limits of a front: messages, or bytes of bodies except one message."""

    messages: int = KEEP_MESSAGES
    size: int = KEEP_BYTES

    def apply(self, order: OrderRows) -> None:
        """Limit the front and the reads of a deep order. Others have no front."""
        order.bound_front(self.messages, self.size)
