"""The unseen messages of a consumer of a non-destructive queue with rows: from which sequence on it has not looked.

Such a queue is first in, first out and nothing is returned to it, so a consumer that has seen a message has seen all
before it, except those that fell due since. Later messages are read when it is their turn: the next few in memory by
reference, rows by a walk over those there are at that time, as browsers have it, and at the end of the queue arrivals
one by one. So a consumer takes the same memory however far behind it is.
"""

from __future__ import annotations

from heapq import heapify, heappush
from typing import TYPE_CHECKING

from annulet.core.model.entry import PENDING
from annulet.core.paging.paged_fifo import PagedFifo
from annulet.core.reading.browse_order import ARRIVALS_MAX, BrowseOrder, fell_due

if TYPE_CHECKING:
    from annulet.core.base.sequence_ranges import SequenceRanges
    from annulet.core.model.entry import QueueEntry
    from annulet.core.model.queue_area import QueueArea
    from annulet.core.policies.queue_policies import QueuePolicies


class UnseenRows(BrowseOrder):
    """The messages from the sequence ``first`` on, and those that fell due: ``fallen``. The order is a ``PagedFifo``.

    Except those with the sequences ``seen``: an operator moved it behind others when it had been shown.

    ``eager``: it reads the next rows at once when they are asked for, as dispatch does for consumers that take
    messages, as long as at least half of the rows it read were delivered. Else, and for all others, each read waits for
    a turn.
    """

    def __init__(
        self,
        queue: QueuePolicies,
        pages: QueueArea,
        first: int,
        fallen: list[QueueEntry],
        seen: SequenceRanges,
        *,
        eager: bool,
    ) -> None:
        self._eager = eager
        self._found = 0  # messages of the last read
        self._handed_out = 0  # of the messages shown since
        super().__init__(queue, pages, follow=True, first=first)
        self._entries = fallen
        heapify(fallen)
        self._seen = seen

    def first(self) -> QueueEntry | None:
        """Return the next entry; see :meth:`BrowseOrder.first`."""
        if self._head() is None:
            self._look_again()
            if self._eager and not self._waiting and self.due(ready=True) and 2 * self._handed_out >= self._found:
                self.read_on()
        return super().first()

    def waits_for_turn(self) -> bool:
        """An eager consumer may read without one."""
        return not self._eager and super().waits_for_turn()

    def read_on(self) -> bool:
        """Read the next rows if none are left of the last."""
        reads = self.due(ready=True)
        there = super().read_on()
        if reads:
            self._found = max(1, len(self._read))
            self._handed_out = 0
        return there

    def note_handed_out(self) -> None:
        """Count it, to know whether the next rows are worth reading at once."""
        self._handed_out += 1

    def arrived(self, entry: QueueEntry) -> None:
        """Note an arrival, unless others before it were not."""
        if fell_due(entry):
            heappush(self._entries, entry)
        elif not self._unnoted:
            heappush(self._entries, entry)
            if len(self._entries) > ARRIVALS_MAX:
                self._forget()

    def paged(self) -> None:
        """Forget references, some of which may be rows by now; while it walks over rows it has none to such."""
        if not self.next_sequence():
            self._forget()

    def _forget(self) -> None:
        """Look again at the referenced entries when it is their turn."""
        going = [entry.sequence for entry in self._entries if not fell_due(entry)]
        if going:
            first = min(going)
            self._unnoted = min(first, self._unnoted or first)
            self._entries = [entry for entry in self._entries if fell_due(entry)]
            heapify(self._entries)

    def _note(self, sequence: int) -> None:
        """Look from a sequence on when it is its turn."""
        self._unnoted = sequence

    def _look_again(self) -> None:
        """Note the next entries when all noted ones have been seen."""
        queue = self._queue
        while self._unnoted and self._head() is None and not self.next_sequence():
            if self._unnoted >= queue.visible_end:
                if self._unnoted >= queue.next_sequence:
                    self._unnoted = 0
                break
            self._look_from(self._unnoted)
        self._let_go_of_seen()

    def _look_from(self, sequence: int) -> None:
        """Note some from a sequence on: rows of this moment and the objects among them, or entries in memory."""
        queue = self._queue
        order = queue.order
        assert isinstance(order, PagedFifo)
        self._seen.drop_below(sequence)
        if order.comes_to_rows(sequence):
            pages = order.pages
            walk = pages.snapshot([]).walk(sequence)
            self._walk = walk if walk.sequence else None
            self._start, self._end = sequence, pages.last_sequence() + 1
            self._unnoted = self._end
            found = [entry for entry in pages.entries_kept() if entry.state == PENDING and entry.sequence >= sequence]
        else:
            found = order.look(sequence, [], ARRIVALS_MAX) or []
            self._unnoted = min(order.looked_upto, queue.hidden_from)
        for entry in found:
            if entry.sequence < queue.hidden_from and entry.sequence not in self._seen and not fell_due(entry):
                heappush(self._entries, entry)
