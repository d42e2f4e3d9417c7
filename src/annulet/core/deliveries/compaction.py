"""Folding of messages in delivery (:mod:`annulet.core.model.compact_messages`), done when there is time, never on
delivery.
"""

from __future__ import annotations

from sys import getrefcount
from typing import TYPE_CHECKING, Final

from annulet.core.deliveries.delivery_table import BLOCK_TAGS
from annulet.core.model.compact_messages import CompactDelivery, SharedFields, kind_of, may_be_folded
from annulet.core.model.entry import QueueEntry

if TYPE_CHECKING:
    from annulet.core.deliveries.delivery_table import DeliveryBlock, DeliveryTable

HELD_BLOCKS_LEAST: Final = 128
"""Blocks of neighbouring deliveries without their bodies, of one queue, before some are folded: 8192 messages, of which
folding would save 1.7 MB. With the usual prefetch of up to 1000 nothing is."""


class Compaction:
    """Compacts the deliveries of a session, a few blocks at a time, from the oldest on.

    ``newest``: including the newest block, to which more may be added: only needed by tests.
    """

    def __init__(self, table: DeliveryTable, *, newest: bool = False) -> None:
        self._table = table
        self._numbers = table.block_numbers()
        self._numbers.reverse()
        if self._numbers and not newest:
            del self._numbers[0]
        self._kind: SharedFields | None = None

    def step(self, limit: int) -> bool:
        """Process about ``limit`` deliveries; return whether there are more.

        Blocks whose first one is compact were processed before.
        """
        looked = 0
        numbers = self._numbers
        while numbers and looked < limit:
            block = self._table.block(numbers.pop())
            if block is None or _was_folded(block):
                looked += 1
                continue
            looked += BLOCK_TAGS
            self._fold(block)
        return bool(numbers)

    def _fold(self, block: DeliveryBlock) -> None:
        slots: list[object] = block.slots  # type: ignore[assignment]  # to count references whatever they are
        for place in range(BLOCK_TAGS):
            slot = block.slots[place]
            if isinstance(slot, CompactDelivery) and isinstance(slot.link, QueueEntry):
                slot = block.slots[place] = slot.link  # its entry had to be made
            if not isinstance(slot, QueueEntry) or not may_be_folded(slot):
                continue
            message: list[object] = [slot.message]
            slot = None
            if references(slots, place) != _ALONE + 1 or references(message, 0) != _ALONE + 1:
                continue
            entry = block.slots[place]
            assert isinstance(entry, QueueEntry)
            kind = self._kind
            if kind is None or not kind.fits(entry):
                kind = self._kind = kind_of(entry)
            held = CompactDelivery(kind, entry)
            entry.queue.compact_delivery(entry, held)
            block.slots[place] = held


def references(things: list[object], place: int) -> int:
    """Return the number of references to an object of a list, including some of this function: see ``_ALONE``."""
    thing = things[place]
    return getrefcount(thing)


_ALONE: Final = references([object()], 0)
"""The result for an object that only the list references; compiled and interpreted code differ."""


def _was_folded(block: DeliveryBlock) -> bool:
    """Return whether the first delivery of a block is folded."""
    for slot in block.slots:
        if slot is not None:
            return isinstance(slot, CompactDelivery) and isinstance(slot.link, SharedFields)
    return True
