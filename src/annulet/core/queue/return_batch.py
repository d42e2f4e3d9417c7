"""The messages being returned by a session, or by several that ended together, until they are back."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from annulet.core.deliveries.delivery_table import BLOCK_BITS, DeliveryTable
from annulet.core.model.compact_messages import CompactDelivery, consumer_of, entry_in

if TYPE_CHECKING:
    from collections.abc import Iterable

    from annulet.core.model.compact_messages import Slot
    from annulet.core.model.entry import QueueEntry
    from annulet.core.queue.entries import QueueEntries

LOOKED_AT: Final = 4
"""Deliveries of other queues that are put aside in a slice, for each that it may put back: they take a quarter of the
time."""


class ReturnBatch:
    """The deliveries a session returns to one queue or several: taken out a few at a time, from the first delivery on.

    So they are never all examined in one turn, though it is not known which of a session's deliveries are of which
    queue.
    """

    def __init__(self, queues: Iterable[QueueEntries], table: DeliveryTable) -> None:
        self._held = len(table)  # how many are in blocks
        self._blocks = table.take_blocks()
        self._found: dict[QueueEntries, deque[Slot]] = {queue: deque() for queue in queues}

    def add(self, queue: QueueEntries, slots: list[Slot]) -> None:
        """Add some of a queue that are in no table: they go back from the first on, before all others."""
        self._found[queue].extend(slots)

    def left(self, queue: QueueEntries) -> int:
        """Return how many of a queue are there at most."""
        return self._held + len(self._found.get(queue, ()))

    def take(self, queue: QueueEntries, most: int, folded: list[CompactDelivery] | None = None) -> list[QueueEntry]:  # noqa: ARG002 - where they are by sequence
        """Return up to ``most`` of a queue, by ascending tag; none, perhaps, where there are very many of others."""
        stock, blocks = self._found[queue], self._blocks
        entries = [entry_in(stock.popleft()) for _ in range(min(most, len(stock)))]
        looked_at = 0
        while blocks and len(entries) < most and looked_at < LOOKED_AT * most:
            block = [entry_in(slot) for slot in blocks.popleft() if slot is not None]
            self._held -= len(block)
            looked_at += len(block)
            own = [entry for entry in block if entry.queue is queue]
            if len(own) < len(block):
                self._put_aside(block, queue)
            entries += own
        stock.extend(entries[most:])  # there are some of a block only when nothing was left in stock
        return entries[:most]

    def _put_aside(self, block: list[QueueEntry], queue: QueueEntries) -> None:
        """Keep the deliveries of other queues. One of none of them is of a queue that was deleted before."""
        for entry in block:
            if entry.queue is not queue and entry.queue in self._found:
                self._found[entry.queue].append(entry)

    def forget(self, queue: QueueEntries) -> None:
        """Nothing more goes back to a queue."""
        self._found.pop(queue, None)

    def give_up(self, queue: QueueEntries) -> deque[list[Slot | None]]:
        """Nothing more goes back to a queue from here; return the blocks without other users."""
        self.forget(queue)
        blocks: deque[list[Slot | None]] = deque()
        if not self._found:
            blocks, self._blocks = self._blocks, blocks
            self._held = 0
        return blocks


class EndedDeliveries(ReturnBatch):
    """The deliveries of one queue that ended sessions had: taken out by ascending sequence.

    The channels of a connection get messages in turn, so what one of them held is far apart in memory; neighbours in
    their queue are neighbours there as well, and the processor has read them before they are asked for. And they stand
    behind each other when they are back.
    """

    def __init__(self, queue: QueueEntries, batches: list[ReturnBatch]) -> None:
        super().__init__([queue], DeliveryTable())
        self._numbers = deque(queue.delivering.block_numbers())
        self._promised = sum([batch.left(queue) for batch in batches])
        self._tables = deque([blocks for batch in batches if (blocks := batch.give_up(queue))])
        self._to_free = sum([len(table) for table in self._tables])

    def left(self, queue: QueueEntries) -> int:  # noqa: ARG002 - there is only one
        """Return how many there are at most, and not 0 as long as some have not been looked at."""
        return max(1, self._promised) if self._numbers else 0

    def take(self, queue: QueueEntries, most: int, folded: list[CompactDelivery] | None = None) -> list[QueueEntry]:
        """Return about ``most``, whole blocks of neighbours; fewer where others hold very many.

        Those that are folded come into ``folded`` as they are, if there is such a list.
        """
        numbers, delivering = self._numbers, queue.delivering
        entries: list[QueueEntry] = []
        aside: list[CompactDelivery] = []
        blocks_left = LOOKED_AT * most >> BLOCK_BITS
        while numbers and len(entries) + len(aside) < most and blocks_left >= 0:
            blocks_left -= 1
            self._let_go()
            for slot in delivering.block(numbers.popleft()):
                if slot is None or not _on_its_way(slot):
                    continue
                if folded is not None and isinstance(slot, CompactDelivery):
                    aside.append(slot)
                else:
                    entries.append(entry_in(slot))
        self._promised -= len(entries) + len(aside)
        if folded is not None:
            folded += aside
        return entries

    def _let_go(self) -> None:
        """Free some of the tables' blocks, of each table in its turn: of what goes back now, as far as they go along
        with it. All of a million at once take too long.
        """
        tables = self._tables
        some = -(-self._to_free // len(self._numbers))
        self._to_free -= some
        for _ in range(some):
            table = tables.popleft()
            table.popleft()
            if table:
                tables.append(table)


def _on_its_way(slot: Slot) -> bool:
    """Return whether the session that holds a message has ended and gives it back in slices."""
    consumer = consumer_of(slot)
    return consumer is not None and consumer.session.returning
