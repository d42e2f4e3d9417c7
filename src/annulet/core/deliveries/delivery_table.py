"""The deliveries of a session by tag, in blocks of neighbouring tags.

Tags ascend one by one, so the place in a block gives the tag: a delivery takes ten bytes; in a dictionary with its tag
it takes 84. A million deliveries are sixteen thousand blocks to return.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from annulet.core.deliveries.taken_deliveries import Run
from annulet.core.model.compact_messages import consumer_of, entry_in
from annulet.core.model.entry import QueueEntry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from annulet.core.deliveries.taken_deliveries import TakenDeliveries
    from annulet.core.model.compact_messages import Slot
    from annulet.core.model.consumer import Consumer

BLOCK_BITS: Final = 6
"""A block has 64 tags.

Larger ones would waste more if a client settles all but a few of each; one with a single delivery takes 700 bytes, not
much more than that delivery and its message.
"""

BLOCK_TAGS: Final = 1 << BLOCK_BITS
BLOCK_MASK: Final = BLOCK_TAGS - 1


class DeliveryBlock:
    """Deliveries of neighbouring tags: ``slots`` by place, ``None`` if empty; ``held`` of them are in use."""

    __slots__ = ("held", "slots")

    def __init__(self) -> None:
        self.slots: list[Slot | None] = [None] * BLOCK_TAGS
        self.held = 0


class DeliveryTable:
    """A mapping of tags to entries that iterates by ascending tag. Tags are added in ascending order."""

    def __init__(self) -> None:
        self._blocks: dict[
            int, DeliveryBlock
        ] = {}  # by tag without its last bits, ascending; none empty but the newest
        self._newest = -1  # the number of the last block: the next tags go there
        self._count = 0

    def __len__(self) -> int:
        """Return the number of deliveries."""
        return self._count

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return self._count > 0

    def __contains__(self, tag: int) -> bool:
        """Return whether there is a delivery of a tag. Compact ones stay compact."""
        block = self._blocks.get(tag >> BLOCK_BITS)
        return block is not None and block.slots[tag & BLOCK_MASK] is not None

    def __iter__(self) -> Iterator[int]:
        """Yield the tags, ascending."""
        return iter([tag for tag, _ in self.items()])

    def __getitem__(self, tag: int) -> QueueEntry:
        """Return the delivery of a tag. Raises KeyError."""
        entry = self.get(tag)
        if entry is None:
            raise KeyError(tag)
        return entry

    def __setitem__(self, tag: int, entry: QueueEntry) -> None:
        """Add a delivery; its tag is above all others."""
        number = tag >> BLOCK_BITS
        block = self._blocks.get(number)
        if block is None:
            block = self._begin(number)
        block.slots[tag & BLOCK_MASK] = entry
        block.held += 1
        self._count += 1

    def __delitem__(self, tag: int) -> None:
        """Remove a delivery. Raises KeyError."""
        self.take(tag)

    def get(self, tag: int) -> QueueEntry | None:
        """Return the delivery of a tag, ``None`` if there is none."""
        block = self._blocks.get(tag >> BLOCK_BITS)
        slot = None if block is None else block.slots[tag & BLOCK_MASK]
        return None if slot is None else entry_in(slot)

    def take(self, tag: int) -> QueueEntry:
        """Take out the delivery of a tag. Raises KeyError."""
        entry = self.pop(tag)
        if entry is None:
            raise KeyError(tag)
        return entry

    def pop(self, tag: int) -> QueueEntry | None:
        """Remove and return the delivery of a tag, ``None`` if there is none."""
        number = tag >> BLOCK_BITS
        block = self._blocks.get(number)
        if block is None:
            return None
        slot = block.slots[tag & BLOCK_MASK]
        if slot is None:
            return None
        block.slots[tag & BLOCK_MASK] = None
        block.held -= 1
        self._count -= 1
        if not block.held and number != self._newest:
            del self._blocks[number]
        return slot if isinstance(slot, QueueEntry) else entry_in(slot)

    def take_up_to(self, first: int, last: int) -> list[Slot]:
        """Remove and return all up to the tag ``last``, by ascending tag, compact ones unchanged. There is none below
        ``first``.
        """
        return [slot for run in self.take_runs(first, last) for slot in run.slots if slot is not None]

    def take_runs(self, first: int, last: int) -> list[Run]:
        """As :meth:`take_up_to`, in the blocks in which they are. O(blocks)."""
        found: list[Run] = []
        end = last >> BLOCK_BITS
        numbers: Iterable[int] = range(first >> BLOCK_BITS, end + 1)
        if end - (first >> BLOCK_BITS) >= len(self._blocks):
            numbers = [number for number in self._blocks if number <= end]
        for number in numbers:
            block = self._blocks.get(number)
            if block is None:
                continue
            taken, count = block.slots, block.held
            if number == end:
                upto = (last & BLOCK_MASK) + 1
                taken = taken[:upto]
                count = upto - taken.count(None)
            if count < block.held:
                block.slots[: len(taken)] = [None] * len(taken)
                block.held -= count
            elif number != self._newest:
                del self._blocks[number]
            elif count:
                self._blocks[number] = DeliveryBlock()
            self._count -= count
            if count:
                found.append(Run(number << BLOCK_BITS, taken))
        return found

    def take_each(self, tags: list[int], into: TakenDeliveries) -> list[int]:
        """Move the deliveries of these tags, folded ones as they are. Returns the tags of which there is one."""
        found: list[int] = []
        for tag in tags:
            number = tag >> BLOCK_BITS
            block = self._blocks.get(number)
            if block is None:
                continue
            slot = block.slots[tag & BLOCK_MASK]
            if slot is None:
                continue
            block.slots[tag & BLOCK_MASK] = None
            block.held -= 1
            if not block.held and number != self._newest:
                del self._blocks[number]
            into.add(tag, slot)
            found.append(tag)
        self._count -= len(found)
        return found

    def holder(self, tag: int) -> Consumer | None:
        """Return the consumer that got the delivery of a tag, ``None`` if there is none. Makes no entry."""
        block = self._blocks.get(tag >> BLOCK_BITS)
        slot = None if block is None else block.slots[tag & BLOCK_MASK]
        return None if slot is None else consumer_of(slot)

    def take_all(self) -> list[Slot]:
        """Take out all, by ascending tag, folded ones as they are."""
        found = [slot for block in self._blocks.values() for slot in block.slots if slot is not None]
        self.clear()
        return found

    def take_of(self, consumers: list[Consumer]) -> list[Slot]:
        """Remove and return the deliveries of these consumers, by ascending tag, compact ones unchanged."""
        found: list[Slot] = []
        asked: Consumer | None = None
        theirs = False
        for number, block in list(self._blocks.items()):
            slots = block.slots
            before = len(found)
            for place, slot in enumerate(slots):
                if slot is None:
                    continue
                consumer = consumer_of(slot)
                if consumer is not asked:  # neighbours are of one consumer as a rule
                    asked, theirs = consumer, consumer in consumers
                if theirs:
                    slots[place] = None
                    found.append(slot)
            block.held -= len(found) - before
            if not block.held and number != self._newest:
                del self._blocks[number]
        self._count -= len(found)
        return found

    def block_numbers(self) -> list[int]:
        """Return which blocks of neighbouring tags there are, ascending."""
        return list(self._blocks)

    def block(self, number: int) -> DeliveryBlock | None:
        """Return a block of neighbouring tags. It is no copy."""
        return self._blocks.get(number)

    def take_blocks(self) -> deque[list[Slot | None]]:
        """Remove and return all, by ascending tag, as lists with ``None`` for empty slots. None of them is examined."""
        blocks = deque([block.slots for block in self._blocks.values()])
        self.clear()
        return blocks

    def items(self, last: int = -1) -> list[tuple[int, QueueEntry]]:
        """Return tags and deliveries, by ascending tag, up to the tag ``last`` (-1: all)."""
        found: list[tuple[int, QueueEntry]] = []
        for number, block in self._blocks.items():
            tag = number << BLOCK_BITS
            if 0 <= last < tag:
                break
            for slot in block.slots if last < 0 else block.slots[: last - tag + 1]:
                if slot is not None:
                    found.append((tag, entry_in(slot)))
                tag += 1
        return found

    def slots(self, last: int = -1) -> list[tuple[int, Slot]]:
        """Return tags and their slots, by ascending tag, up to ``last`` (-1: all), compact ones unchanged."""
        found: list[tuple[int, Slot]] = []
        for number, block in self._blocks.items():
            tag = number << BLOCK_BITS
            if 0 <= last < tag:
                break
            slots = block.slots if last < 0 else block.slots[: last - tag + 1]
            found += [(tag + place, slot) for place, slot in enumerate(slots) if slot is not None]
        return found

    def put_back(self, taken: TakenDeliveries) -> None:
        """Add taken deliveries again, at any position of the present tags. O(blocks) of those taken in blocks."""
        for run in taken.runs:
            number = run.first >> BLOCK_BITS
            whole = run.first & BLOCK_MASK == 0 and len(run.slots) == BLOCK_TAGS
            if whole and number not in self._blocks:
                block = self._blocks[number] = DeliveryBlock()
                block.slots = run.slots
                block.held = BLOCK_TAGS - run.slots.count(None)
            else:
                self._put_back_part(run)
        self._count += len(taken)
        self._blocks = {number: self._blocks[number] for number in sorted(self._blocks)}
        self._newest = max(self._blocks, default=-1)

    def _put_back_part(self, run: Run) -> None:
        """Add a run of any length, block by block."""
        slots, place = run.slots, 0
        while place < len(slots):
            tag = run.first + place
            start = tag & BLOCK_MASK
            part = slots[place : place + BLOCK_TAGS - start]
            place += len(part)
            there = len(part) - part.count(None)
            if not there:
                continue
            block = self._blocks.get(tag >> BLOCK_BITS)
            if block is None:
                block = self._blocks[tag >> BLOCK_BITS] = DeliveryBlock()
                block.slots[start : start + len(part)] = part
            else:
                for offset, slot in enumerate(part, start):
                    if slot is not None:
                        block.slots[offset] = slot
            block.held += there

    def values(self) -> list[QueueEntry]:
        """Return the deliveries, by ascending tag."""
        return [entry_in(slot) for block in self._blocks.values() for slot in block.slots if slot is not None]

    def clear(self) -> None:
        """Remove all."""
        self._blocks = {}
        self._newest = -1
        self._count = 0

    def _begin(self, number: int) -> DeliveryBlock:
        """Begin the block of the next tags. The one before was kept even when it was empty: tags may follow soon."""
        former = self._blocks.get(self._newest)
        if former is not None and not former.held:
            del self._blocks[self._newest]
        block = self._blocks[number] = DeliveryBlock()
        self._newest = number
        return block
