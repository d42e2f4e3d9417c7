"""The order of a deep queue with strict priorities: the middle of each level may be on disk.

A level is an order like that of a plain queue, with a front, rows and late messages. The queue has one front for all:
the most important level has as much of it as it needs, the next uses the rest. The messages behind it page from the
least important level up. The priority of a row is its level.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from annulet.core.base.expiry_times import NEVER
from annulet.core.model.entry import PENDING, level_of
from annulet.core.model.queue_area import Ended, QueueArea
from annulet.core.ordering.order import FifoOrder, RankedOrder
from annulet.core.ordering.priority_order import LevelledOrder
from annulet.core.paging.folding import FOLD_BYTES_LEAST, FOLD_MESSAGES_LEAST
from annulet.core.paging.merged_areas import JoinedPages
from annulet.core.paging.paged_fifo import KEEP_BYTES, KEEP_MESSAGES, PagedFifo
from annulet.core.paging.paged_sorted import PagedSorted
from annulet.core.paging.row_conditions import refusal_for

if TYPE_CHECKING:
    from annulet.core.model.entry import QueueEntry
    from annulet.core.model.order import Order
    from annulet.core.policies.matchers import MatchClass
    from annulet.core.policies.queue_policies import QueuePolicies


class PagedLevels(LevelledOrder):
    """Takes over the levels of ``order``. ``pages``: empty ones, the prototype for every level that pages."""

    def __init__(self, queue: QueuePolicies, pages: QueueArea, order: LevelledOrder) -> None:
        super().__init__(0)
        self.keep_messages = KEEP_MESSAGES
        self.keep_bytes = KEEP_BYTES
        self.fold_least = FOLD_MESSAGES_LEAST
        self.fold_bytes = FOLD_BYTES_LEAST
        self.take_over(order)
        self._queue = queue
        self.pages = pages
        self.newest = 0  # no arrival had a higher sequence
        self._arrivals: dict[int, int] = {}  # by level, that of its newest one: the level with the very newest last
        self._note_arrivals()

    # ------------------------------------------------------------------ the order

    def append(self, entry: QueueEntry) -> None:
        """Add an arrival; its place is above all others of its level."""
        super().append(entry)
        number, sequence = level_of(entry), entry.sequence
        self._arrivals.pop(number, None)
        self._arrivals[number] = sequence
        self.newest = max(self.newest, sequence)

    def _note_arrivals(self) -> None:
        occupied = [(level.last_sequence(), number) for number, level in enumerate(self.levels) if level.count]
        self._arrivals = {number: sequence for sequence, number in sorted(occupied)}
        self.newest = max([self.newest, *self._arrivals.values()])

    # ------------------------------------------------------------------ to disk

    def page_out(self, durable_record: int, limit: int) -> int:
        """Turn up to ``limit`` entries into rows, of the least important level first. Returns how many moved.

        See :meth:`PagedFifo.page_out`.
        """
        moved = 0
        for number, messages, size in self._shares():
            if moved >= limit:
                break
            if not self._worth_paging(self.levels[number]):
                continue
            level = self.paged_level(number)
            self._bound(level, messages, size)
            moved += level.page_out(durable_record, limit - moved)
            kept_when_first = level.front_length >= messages + self.fold_least
            if moved < limit and (kept_when_first or level.lowered):
                moved += level.fold_front(durable_record, limit - moved)
                level.lowered = level.front_length > level.length_kept()  # it may be pinned, or is not written yet
        return moved

    def fold(self, durable_record: int, limit: int) -> int:
        """The same for returned entries and the front behind them only; see :meth:`PagedFifo.fold`."""
        moved = 0
        for number, messages, size in self._shares():
            if moved >= limit:
                break
            if self.levels[number].came_back() < self.fold_least:
                continue
            level = self.paged_level(number)
            self._bound(level, messages, size)
            moved += level.fold(durable_record, limit - moved)
        return moved

    def _bound(self, level: PagedFifo, messages: int, size: int) -> None:
        level.keep_messages, level.keep_bytes = messages, size
        level.fold_least, level.fold_bytes = self.fold_least, self.fold_bytes

    def _shares(self) -> list[tuple[int, int, int]]:
        """Return the non-empty levels, the least important first, each with its messages and bytes of the front."""
        messages, size = self.keep_messages, self.keep_bytes
        shares: list[tuple[int, int, int]] = []
        for number in range(self._upto - 1, -1, -1):
            level = self.levels[number]
            if not level.count:
                continue
            shares.append((number, messages, size))
            if messages and size:
                front = level.upcoming(messages)
                messages -= len(front)
                size = max(0, size - sum([entry.message.size for entry in front]))
        shares.reverse()
        return shares

    def _worth_paging(self, level: FifoOrder) -> bool:
        """Return whether a level has rows, or much."""
        if level.paged_count() or level.count >= self.fold_least:
            return True
        return sum([entry.message.size for entry in level.in_memory()]) >= self.fold_bytes

    def paged_level(self, number: int) -> PagedFifo:
        """Return a level as one whose middle may be on disk."""
        level = self.levels[number]
        if isinstance(level, PagedFifo):
            return level
        paged = PagedFifo(self._queue, self.pages.renewed(), level)
        paged.rank = (-number,)
        paged.pages.level = number
        self.levels[number] = paged
        return paged

    def level_for_rows(self, number: int) -> PagedFifo:
        """Return a level that gets rows at start. Call :meth:`recount` when it has them."""
        self._upto = max(self._upto, number + 1)
        return self.paged_level(number)

    def recount(self) -> None:
        """Recount after levels changed, which may lose damaged records in any scan. O(levels)."""
        self.count = sum([level.count for level in self.levels[: self._upto]])
        self._note_arrivals()

    def area_changed(self, area: PagedFifo, former: int) -> None:
        """Recount a level that had ``former`` entries before a scan or removal. O(1)."""
        self.count += area.count - former

    # ------------------------------------------------------------------ behind lanes

    def areas(self) -> list[PagedFifo]:
        """Return the non-empty levels, the most important first, each for scanning; see :meth:`PagedFifo.look`."""
        occupied = [number for number in range(self._upto - 1, -1, -1) if self.levels[number].count]
        return [self.paged_level(number) for number in occupied]

    def first_area(self) -> PagedFifo:
        """Return the most important non-empty level; there is one."""
        while not self.levels[self._upto - 1].count:
            self._upto -= 1
        return self.paged_level(self._upto - 1)

    def next_area(self, match_class: MatchClass) -> PagedFifo | None:
        """Return the most important level with a message that a match class has not evaluated."""
        match_class.open_levels |= self.gained_from(match_class.seen_upto)
        match_class.seen_upto = self.newest + 1
        while match_class.open_levels:
            number = match_class.open_levels.bit_length() - 1
            if self.levels[number].count:
                area = self.paged_level(number)
                if match_class.frontier_on(number) <= area.last_sequence():
                    return area
            match_class.open_levels -= 1 << number
        return None

    def gained_from(self, sequence: int) -> int:
        """Return the bits (1 for level 0) of non-empty levels, all with an arrival from ``sequence`` on.

        O(those): a caller keeps earlier results, and calls it from above the former :attr:`newest`.
        """
        bits = 0
        for number in reversed(self._arrivals):
            if self._arrivals[number] < sequence:
                break
            if self.levels[number].count:
                bits |= 1 << number
        return bits

    def use_pages(self, pages: QueueArea) -> None:
        """Have levels with the like of these instead of those they have, in which there is nothing."""
        self.pages = pages
        for number, level in enumerate(self.levels):
            if level.page_parts():
                self.paged_level(number).use_pages(pages.renewed())

    def bound_front(self, messages: int, size: int) -> None:
        """Limit the front of all levels together, and the reads of each; see :meth:`PagedFifo.bound_front`."""
        lowered = messages < self.keep_messages or size < self.keep_bytes
        self.keep_messages, self.keep_bytes = messages, size
        self.fold_least, self.fold_bytes = min(FOLD_MESSAGES_LEAST, messages), min(FOLD_BYTES_LEAST, size)
        self.pages.most_messages, self.pages.most_bytes = messages, size
        for number, level in enumerate(self.levels):
            if level.page_parts():
                self.paged_level(number).bound_reads(messages, size, lowered=lowered)

    def detach_front(self, most: int) -> list[QueueEntry]:
        """Take out the returned entries, in no order.

        No others, regardless of ``most``: the front of a level may be all of it, if only less important levels page.
        """
        del most
        back = [entry for level in self._occupied() for entry in level.detach_returned()]
        self.recount()
        return back

    # ------------------------------------------------------------------ everything at once

    def entries(self) -> list[QueueEntry]:
        """Return the pending entries in order of dispatch. All of them are objects then."""
        found = super().entries()
        self.recount()
        return found

    def held(self) -> set[QueueEntry]:
        """Return all entries, those included that were removed; all are objects then."""
        found = super().held()
        self.recount()
        return found

    def snapshot(self) -> list[QueueEntry]:
        """Return the entries, removed ones perhaps among them; all are objects then."""
        found = super().snapshot()
        self.recount()
        return found

    def leading(self, count: int) -> list[QueueEntry]:
        """Return the entries before the rows, level by level up to one with remaining rows, whose front is extended."""
        found: list[QueueEntry] = []
        left = count
        for level in self._occupied():
            some = level.leading(left)
            found += some
            left -= len([entry for entry in some if entry.state == PENDING])
            if left <= 0 or level.paged_count():
                break
        self.recount()
        return found

    def bring_all(self) -> bool:
        """Tell all levels; say whether all rows are entries now."""
        brought = [level.bring_all() for level in self._occupied()]
        self.recount()
        return all(brought)

    def bring_unread(self) -> None:
        """Make the next rows of the first level that has some entries without content."""
        for level in self._occupied():
            if level.count:
                level.bring_unread()
                break
        self.recount()

    def take_pages(self) -> QueueArea | None:
        """Take the rows of all levels out, with the entries kept among them. The caller clears the order."""
        taken = [level.take_pages() for level in self._occupied()]
        parts = [pages for pages in taken if pages is not None]
        return JoinedPages(parts) if parts else None

    def first_expiry(self, now: int) -> tuple[int, int]:
        """Combine all levels."""
        return min([level.first_expiry(now) for level in self._occupied()], default=NEVER)

    def rows_are_timed(self) -> bool:
        """Combine all levels."""
        return all(level.rows_are_timed() for level in self.levels)

    def retime(self) -> None:
        """Tell all levels."""
        for level in self.levels:
            level.retime()

    def take_expired(self, before: tuple[int, int], limit: int, *, read: bool) -> list[QueueEntry]:
        """Take from the level whose row is the next to expire, until that is one of another level."""
        firsts = sorted([(level.first_expiry(before[0]), number) for number, level in enumerate(self.levels)])
        upto = min(before, firsts[1][0]) if len(firsts) > 1 else before
        found = self.levels[firsts[0][1]].take_expired(upto, limit, read=read)
        self.recount()
        return found

    def take_ended(self, now: int, least: int) -> Ended | None:
        """Take from the least important level that has some."""
        ended = next((found for level in self.levels if (found := level.take_ended(now, least)) is not None), None)
        self.recount()
        return ended

    def reading_refusal(self) -> str:
        """Compare the size of the rows of all levels with the remaining memory."""
        return refusal_for(self.paged_count(), self.paged_bytes(), self.pages.room())

    # ------------------------------------------------------------------ figures

    def page_parts(self) -> list[QueueArea]:
        """Return the pages of all levels."""
        return [pages for level in self.levels for pages in level.page_parts()]

    def pages_behind(self) -> QueueArea | None:
        """Return the pages of the most important level that has rows."""
        return next((pages for pages in reversed(self.page_parts()) if pages.rows), None)

    def paged_count(self) -> int:
        """Return how many rows there are."""
        return sum([level.paged_count() for level in self._occupied()])

    def paged_bytes(self) -> int:
        """Return the body bytes of the rows."""
        return sum([level.paged_bytes() for level in self._occupied()])


def paged_order_of(queue: QueuePolicies, pages: QueueArea) -> PagedFifo | PagedLevels | PagedSorted | None:
    """Return the paging order of a queue, converted with ``pages`` if necessary; else ``None``.

    For a queue with lanes it is the stock behind them: if that was empty, most of the lanes' entries move there.
    """
    if not queue.pageable():
        return None
    if queue.lanes is not None:
        return queue.lanes.paged_part(queue, pages)
    order = queue.order
    paged: PagedFifo | PagedLevels | PagedSorted | None = as_deep_order(order)
    if paged is not None:
        return paged
    if isinstance(order, PagedSorted):
        return order
    paged = PagedSorted(queue, pages, order) if isinstance(order, RankedOrder) else deep_order(queue, pages, order)
    if paged is not None:
        queue.use_order(paged)
        readers = queue.reader_lists()
        if readers is not None:
            readers.use_rows()
    return paged


def as_deep_order(order: Order) -> PagedFifo | PagedLevels | None:
    """Return an order whose middle may be on disk, ``None`` for any other."""
    return order if isinstance(order, (PagedFifo, PagedLevels)) else None


def deep_order(queue: QueuePolicies, pages: QueueArea, order: Order) -> PagedFifo | PagedLevels | None:
    """Return an order with the entries of another whose middle may be on disk; ``None`` where there is none such."""
    if isinstance(order, LevelledOrder):
        return PagedLevels(queue, pages, order)
    return PagedFifo(queue, pages, order) if isinstance(order, FifoOrder) else None
