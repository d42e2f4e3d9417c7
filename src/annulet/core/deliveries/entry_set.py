"""Entries of one queue, by sequence, in blocks of neighbours: the queue's messages in delivery.

Sequences ascend one by one, so a place in a block identifies the entry. A million entries take ten bytes each and never
have to be copied at once to make room; a set of them takes sixty, and doubling it blocks the event loop for 100 ms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from mypy_extensions import i64

from annulet.core.deliveries.delivery_table import BLOCK_BITS, BLOCK_MASK, BLOCK_TAGS, DeliveryBlock
from annulet.core.model.compact_messages import CompactDelivery, SharedFields, entry_in
from annulet.core.model.entry import QueueEntry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from annulet.core.model.compact_messages import Slot


class EntrySet:
    """A set of entries of one queue, which have a sequence each. Iterates over a copy, by ascending sequence.

    Reading returns entries: compact ones are expanded.
    """

    def __init__(self) -> None:
        self._blocks: dict[int, DeliveryBlock] = {}  # by sequence without its last bits; none empty
        self._spare: DeliveryBlock | None = None  # emptied last: with few deliveries, one is started for each message
        self.folded = 0  # how many of them are folded
        self._count = 0

    def __len__(self) -> int:
        """Return how many there are. O(1)."""
        return self._count

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return self._count > 0

    def __iter__(self) -> Iterator[QueueEntry]:
        """Return an iterator over the present entries. O(n) before the first."""
        return iter(self.entries())

    def entries(self) -> list[QueueEntry]:
        """Return all, by ascending sequence."""
        return [entry_in(slot) for slot in self.slots()]

    def slots(self, after: int = -1) -> list[Slot]:
        """Return all with a sequence above ``after``, by ascending sequence, folded ones as they are."""
        blocks = self._blocks
        numbers = sorted([number for number in blocks if number >= after >> BLOCK_BITS])
        found = [slot for number in numbers for slot in blocks[number].slots if slot is not None]
        before = sum([slot.sequence <= after for slot in found[:BLOCK_TAGS]])  # in the first block
        return found[before:] if before else found

    def unfolded(self) -> list[QueueEntry]:
        """Return those that are not folded, by ascending sequence."""
        return [slot for slot in self.slots() if isinstance(slot, QueueEntry)]

    def get(self, sequence: int) -> QueueEntry | None:
        """Return the entry of a sequence, ``None`` when it is not there."""
        block = self._blocks.get(sequence >> BLOCK_BITS)
        slot = None if block is None else block.slots[sequence & BLOCK_MASK]
        return None if slot is None else entry_in(slot)

    def records(self) -> list[int]:
        """Return the record numbers of all messages, by ascending sequence. Makes no entries of folded ones."""
        return [slot.record if isinstance(slot, CompactDelivery) else slot.message.record for slot in self.slots()]

    def block_numbers(self) -> list[int]:
        """Return which blocks of neighbours there are, ascending."""
        return sorted(self._blocks)

    def block(self, number: int) -> list[Slot | None]:
        """Return the slots of a block, by ascending sequence, ``None`` for empty ones. Not a copy."""
        block = self._blocks.get(number)
        return [] if block is None else block.slots

    def expand(self, entry: QueueEntry) -> None:
        """Replace the compact form of an entry by the entry."""
        block = self._blocks[entry.sequence >> BLOCK_BITS]
        assert isinstance(block.slots[entry.sequence & BLOCK_MASK], CompactDelivery)
        block.slots[entry.sequence & BLOCK_MASK] = entry
        self.folded -= 1

    def exchange(self, former: Slot, slot: Slot) -> None:
        """Replace a contained message by its compact form, or by an entry."""
        block = self._blocks[slot.sequence >> BLOCK_BITS]
        assert block.slots[slot.sequence & BLOCK_MASK] is former
        block.slots[slot.sequence & BLOCK_MASK] = slot
        self.folded += 1 if isinstance(slot, CompactDelivery) else -1

    def add(self, entry: QueueEntry) -> None:
        """Add a new entry."""
        number = entry.sequence >> BLOCK_BITS
        block = self._blocks.get(number)
        if block is None:
            block, self._spare = self._spare, None
            if block is None:
                block = DeliveryBlock()
            self._blocks[number] = block
        block.slots[entry.sequence & BLOCK_MASK] = entry
        block.held += 1
        self._count += 1

    def discard(self, entry: QueueEntry) -> None:
        """Remove an entry, if present."""
        number = entry.sequence >> BLOCK_BITS
        block = self._blocks.get(number)
        if block is None or block.slots[entry.sequence & BLOCK_MASK] is not entry:
            return
        block.slots[entry.sequence & BLOCK_MASK] = None
        block.held -= 1
        self._count -= 1
        if not block.held:
            self._spare = self._blocks.pop(number)

    def clear(self) -> None:
        """Remove all."""
        self._blocks = {}
        self._spare = None
        self.folded = 0
        self._count = 0

    def take_folded(self, folded: list[CompactDelivery]) -> tuple[list[SharedFields], int]:
        """Take folded messages out of delivery. Returns their kinds, and how many body bytes they are."""
        kinds: list[SharedFields] = []
        total = 0
        for held in folded:
            kind = held.link
            assert isinstance(kind, SharedFields)
            if not kind.leaving:
                kinds.append(kind)
            size: int = held.size  # or the sum would have 32 bits, too
            kind.leaving += 1
            kind.leaving_bytes += size
        for kind in kinds:
            total += kind.leaving_bytes
            holder = kind.consumer
            assert holder is not None
            holder.back += kind.leaving
            holder.back_bytes += kind.leaving_bytes
            kind.leaving = kind.leaving_bytes = 0
            holder.give_back_slice()
        self.discard_all(cast("list[Slot]", folded))
        return kinds, total

    def discard_all(self, entries: list[Slot]) -> None:
        """Remove those present. A block is looked up once for neighbours."""
        blocks = self._blocks
        block: DeliveryBlock | None = None
        number: i64 = -1
        removed: i64 = 0
        folded: i64 = 0
        for entry in entries:
            sequence: i64 = entry.sequence
            if sequence >> BLOCK_BITS != number:
                if block is not None and not block.held:
                    self._spare = blocks.pop(number)
                number = sequence >> BLOCK_BITS
                block = blocks.get(number)
            if block is not None and block.slots[sequence & BLOCK_MASK] is entry:
                block.slots[sequence & BLOCK_MASK] = None
                block.held -= 1
                removed += 1
                if isinstance(entry, CompactDelivery):
                    folded += 1
        if block is not None and not block.held:
            self._spare = blocks.pop(number)
        self._count -= removed
        self.folded -= folded
