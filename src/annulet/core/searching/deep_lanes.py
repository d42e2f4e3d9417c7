"""Lanes over a deep backlog: selector matches and returned messages in lanes, and behind them everything else.

Most of a deep queue is in the *stock*: an order whose entries have neither lane nor answers, and whose middle may be on
disk. A queue in memory has one too once it has very many messages, which cannot all be evaluated in one turn of the
loop. Arrivals go there while it is not empty. Consumers without a condition get the stock's first in its turn;
:mod:`selector_walk` moves selector matches to the lanes. The frontiers of the match classes replace the answers of the
stock: nothing of the stock below its frontier is for a class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from annulet.core.base.expiry_times import NEVER
from annulet.core.model.entry import BEHIND_ALL, PENDING, level_of, position_of
from annulet.core.paging.paged_fifo import LOOK_ENTRIES
from annulet.core.paging.paged_priorities import as_deep_order, deep_order
from annulet.core.policies.lanes import Lanes
from annulet.core.searching.unpaged_stock import EmptyArea, StockWalk

if TYPE_CHECKING:
    from annulet.core.model.entry import QueueEntry
    from annulet.core.model.order import Order, SequenceList
    from annulet.core.model.queue_area import Ended, QueueArea
    from annulet.core.ordering.lane import Lane
    from annulet.core.paging.paged_fifo import PagedFifo
    from annulet.core.paging.paged_priorities import PagedLevels
    from annulet.core.policies.matchers import MatchClass
    from annulet.core.policies.queue_policies import QueuePolicies
    from annulet.core.searching.grouped_lanes import GroupedLanes


class DeepLanes(Lanes):
    """Lanes of a queue where only selectors and refusals restrict consumers, with a stock behind them."""

    def __init__(self, queue: QueuePolicies) -> None:
        super().__init__(queue.ranker, None, None)
        self._queue = queue
        self._matchers = queue.matchers
        self.unasked = False  # dispatch left unevaluated ones to the next turn
        self.looking = False  # sliced work that examines messages in memory is running
        self.stock: PagedFifo | PagedLevels | None = None
        self._in_stock = 0  # as far as counted in ``count``
        self._kept = 0  # entries that the last attempt to put them into the stock had to leave
        self._pinned = 0  # up to this sequence they were pinned then

    def as_grouped(self) -> GroupedLanes | None:
        """Return these lanes if groups restrict consumers: then the walk is for groups, not for selectors."""
        return None

    # ------------------------------------------------------------------ the order

    def append(self, entry: QueueEntry) -> None:
        """Add an arrival to the stock if there is one, else to its lane; likewise one that was refused before."""
        stock = self.stock
        if self.count >= self._matchers.lanes_max and not self._in_stock and not entry.blocked:
            stock = self._begin_stock()
            stock.append(entry)
            self.follow_stock()
        elif stock is not None and stock.count and not entry.blocked:
            stock.append(entry)
            self.follow_stock()
        else:
            self._put(entry, arrival=True)

    def first(self) -> QueueEntry | None:
        """Return the first of all entries, for any consumer; ``None`` also if the disk refuses to read it now."""
        return self._or_first_of_stock(self.first_in_lanes())

    def coming(self) -> bool:
        """Use the stock if the lanes are empty."""
        return self.stock is not None and not self.in_lanes and self.stock.coming()

    def first_free(self) -> QueueEntry | None:
        """Return the next entry for a pull."""
        return self._or_first_of_stock(super().first_free())

    def take_head(self, entry: QueueEntry) -> None:
        """Remove an entry that is the head of its lane, or of the stock, where only frontiers know its answers."""
        if entry.lane is not None:
            super().take_head(entry)
            return
        assert self.stock is not None
        found = self.stock.take_first()
        assert found is entry
        entry.evaluated = entry.blocked = self._matchers.blocked_behind(entry)
        self.follow_stock()

    def discard(self, entry: QueueEntry) -> None:
        """Take a pending entry out of the middle. The caller has set its state to REMOVED."""
        if entry.lane is not None:
            super().discard(entry)
            return
        assert self.stock is not None
        self.stock.discard(entry)
        self.follow_stock()

    def clear(self) -> None:
        """Forget all entries and rows, whatever their number."""
        self._reset()
        if self.stock is not None:
            self.stock.clear()
            self.recount()

    def entries(self) -> list[QueueEntry]:
        """Return the pending entries by place. All of the stock's are objects then."""
        stocked: list[QueueEntry] = [] if self.stock is None else self.stock.entries()
        self.recount()
        return sorted([*stocked, *self.entries_in_lanes()])

    def snapshot(self) -> list[QueueEntry]:
        """Return the entries in no particular order, removed ones perhaps among them; all are objects then."""
        stocked: list[QueueEntry] = [] if self.stock is None else self.stock.snapshot()
        self.recount()
        return [*stocked, *super().snapshot()]

    def in_memory(self) -> list[QueueEntry]:
        """Return the entries that are objects now."""
        collected: list[QueueEntry] = [] if self.stock is None else self.stock.in_memory()
        for lane in self._lanes.values():
            collected.extend(lane.order.in_memory())
        return collected

    def aside(self) -> list[QueueEntry]:
        """Return the entries that are objects and neither at the front of the stock nor behind its rows."""
        collected: list[QueueEntry] = [] if self.stock is None else self.stock.aside()
        for lane in self._lanes.values():
            collected.extend(lane.order.in_memory())
        return collected

    def lists(self) -> list[SequenceList]:
        """Delegate to the stock."""
        return [] if self.stock is None else self.stock.lists()

    def upcoming(self, count: int) -> list[QueueEntry]:
        """Return some entries of lanes and of the front of the stock."""
        stocked: list[QueueEntry] = [] if self.stock is None else self.stock.upcoming(count)
        return sorted([*stocked, *super().upcoming(count)])[:count]

    def leading(self, count: int) -> list[QueueEntry]:
        """Return the entries in the lanes and at the front of the stock, without those behind a row."""
        stock = self.stock
        if stock is None or not stock.paged_count():
            return self.snapshot()
        collected = stock.leading(count)
        self.recount()
        area = next((area for area in stock.areas() if area.pages.rows), None)
        end = BEHIND_ALL if area is None else area.pages.base + area.place_behind_front()
        return [*collected, *[entry for entry in super().snapshot() if position_of(entry) < end]]

    def adopt(self, order: Order) -> None:
        """Take over all entries of an order that needed no lanes so far, as one lane, whatever their number.

        Only its front when it is one whose middle may be on disk: the rest becomes the stock. Of very many in memory
        only returned ones: they would all be evaluated in one turn.
        """
        stock = as_deep_order(order)
        if stock is None and order.count > self._matchers.lanes_max:
            stock = deep_order(self._queue, EmptyArea(), order)
        if stock is None:
            super().adopt(order)
            return
        for entry in sorted(stock.detach_front(self._matchers.lanes_max)):
            entry.lane = None
            self._put(entry, arrival=False)
        self.stock = stock
        self.recount()

    def forget(self, bits: int) -> None:
        """Forget answers, including those that a browser left with entries of the stock in memory."""
        super().forget(bits)
        browsed = self._matchers.browsed & bits
        self._matchers.browsed &= ~bits
        if browsed and self.stock is not None:  # otherwise there are none, and there may be very many in memory
            for entry in self.stock.in_memory():
                entry.evaluated &= ~bits
                entry.blocked &= ~bits

    # ------------------------------------------------------------------ the stock

    @property
    def in_lanes(self) -> int:
        """Number of entries in lanes, not in the stock."""
        return self.count - self._in_stock

    def recount(self) -> None:
        """Recount after parts of the stock changed, which may lose damaged records in any scan. O(levels)."""
        if self.stock is not None:
            self.stock.recount()
        self.follow_stock()

    def follow_stock(self) -> None:
        """Copy the stock's counts, if its parts were not changed directly. O(1)."""
        stocked = 0 if self.stock is None else self.stock.count
        self.count += stocked - self._in_stock
        self._in_stock = stocked

    def area_changed(self, area: PagedFifo, former: int) -> None:
        """Recount a part of the stock that had ``former`` entries before a scan or removal."""
        assert self.stock is not None
        self.stock.area_changed(area, former)
        self.follow_stock()

    def first_position(self) -> int:
        """Return the position of the first of the non-empty stock without reading it."""
        assert self.stock is not None
        area = self.stock.first_area()
        return area.pages.base + area.first_place()

    def next_area(self, match_class: MatchClass) -> PagedFifo | None:
        """Return the part of the stock with the first message that a class has not evaluated."""
        return None if self.stock is None else self.stock.next_area(match_class)

    def frontier_of(self, match_class: MatchClass) -> int:
        """Return the position of the first of the stock that a class has not evaluated, or a lower one behind all it
        has evaluated."""
        area = self.next_area(match_class)
        if area is None:
            return BEHIND_ALL
        return area.pages.base + max(match_class.frontier_on(area.pages.level), area.first_place())

    def matched(self, match_class: MatchClass, refusals: list[int], enough: int) -> tuple[int, int]:
        """Return how many entries in lanes that match a class wait for it, and the bytes of their bodies.

        Without those refused by all waiting consumers, whose bits are ``refusals``, and those waiting for the walk
        itself: either would stop the walk permanently. 0 bytes if there are ``enough`` entries: called at each
        dispatch, it must not examine all returned ones.
        """
        bit = match_class.bit
        bound = self.frontier_of(match_class)
        admitted: list[Lane] = []
        for lane in self._lanes.values():
            if lane.evaluated & bit and not lane.blocked & bit:
                head = lane.order.first()
                refused = all(lane.blocked & refusal for refusal in refusals)
                if head is not None and position_of(head) < bound and not refused:
                    admitted.append(lane)
        count = sum([lane.order.count for lane in admitted])
        if count >= enough:
            return count, 0
        return count, sum([entry.message.size for lane in admitted for entry in lane.order.in_memory()])

    def found_above(self, match_class: MatchClass, sequence: int) -> tuple[int, int]:
        """Return how many of :meth:`matched` have higher sequences, including refused ones, and their bytes."""
        bit = match_class.bit
        bound = self.frontier_of(match_class)
        found: list[QueueEntry] = []
        for lane in self._lanes.values():
            if lane.evaluated & bit and not lane.blocked & bit:
                head = lane.order.first()
                if head is not None and position_of(head) < bound:
                    found += [entry for entry in lane.order.arrived_after(sequence) if entry.state == PENDING]
        return len(found), sum([entry.message.size for entry in found])

    def waits(self, former: int, match_class: MatchClass) -> bool:
        """Return whether entries in the lanes were withheld from a class by its frontier, which was at ``former``."""
        frontier = self.frontier_of(match_class)
        for lane in self._lanes.values():
            head = None if lane.blocked & match_class.bit else lane.order.first()
            if head is not None and former <= position_of(head) < frontier:
                return True
        return False

    def bring(self, entry: QueueEntry, admitted: int) -> None:
        """Give an entry that was taken out of the stock, and is counted out of it, its lane.

        ``admitted``: the classes that match it.
        """
        blocked = self._matchers.blocked_behind(entry) & ~admitted
        entry.evaluated = admitted | blocked
        entry.blocked = blocked
        self._put(entry, arrival=False)

    def paged_part(self, queue: QueuePolicies, pages: QueueArea) -> PagedFifo | PagedLevels:
        """Return the stock; if it is empty most entries of the lanes move there."""
        if self.stock is None:
            self.stock = deep_order(queue, pages, self._ranker.new_order())
        elif isinstance(self.stock.pages, EmptyArea):
            self.stock.use_pages(pages)
        assert self.stock is not None
        if not self.stock.count:
            self.store(queue.next_sequence, self.stock.keep_messages)
        return self.stock

    def _begin_stock(self) -> PagedFifo | PagedLevels:
        """Return the empty stock for later arrivals, which are unevaluated."""
        if self.stock is None:
            self.stock = deep_order(self._queue, EmptyArea(), self._ranker.new_order())
        assert self.stock is not None
        self.stock.clear()
        for match_class in self._matchers.classes():
            match_class.begin_at({})
        return self.stock

    def may_ask(self, now: int) -> bool:
        """Request a turn if there were too many for this one.

        Usually these are returned messages and a new selector: arrivals go to the stock before there are so many.
        """
        if self.asked < LOOK_ENTRIES:
            return True
        self.unasked = True
        self.ask_turn(now)
        return False

    def ask_turn(self, now: int) -> None:
        """Have :meth:`annulet.core.queue.queue.Queue.scan` called soon, when others had their turn."""
        stock, queue = self.stock, self._queue
        if stock is not None and not isinstance(stock.pages, EmptyArea):
            stock.pages.ask_turn()
        elif not self.looking and not queue.effects.turns_for(queue):
            self.looking = True
            queue.effects.later(StockWalk(queue, self), now)

    def store(self, next_sequence: int, keep: int) -> None:
        """Put all but the first ``keep`` entries into the stock, which is empty, where its rules allow that.

        An entry there was evaluated by no class above its frontier, and refused by every class below it.
        """
        pinned = self._queue.pinned_upto
        if self.count <= self._kept + keep and pinned >= self._pinned:
            return
        assert self.stock is not None
        pending = [entry for lane in self._lanes.values() for entry in lane.order.in_memory() if entry.state == PENDING]
        pending.sort()
        movable = [entry for entry in pending[keep:] if entry.place == entry.sequence > pinned]
        matchers = self._matchers
        for match_class in matchers.classes():
            frontiers = {level_of(entry): next_sequence for entry in movable}
            match_class.begin_at(frontiers)
            for entry in movable:
                if not entry.evaluated & match_class.bit:
                    frontiers[level_of(entry)] = min(frontiers[level_of(entry)], entry.sequence)
        moved = [entry for entry in movable if entry.blocked == entry.evaluated == matchers.blocked_behind(entry)]
        self._kept, self._pinned = 0 if moved else len(pending), pinned
        if not moved:
            return
        self.stored += 1
        self.stock.clear()
        going = set(moved)
        self._reset()
        for entry in pending:
            if entry in going:
                entry.evaluated = entry.blocked = 0
                entry.lane = None
                self.stock.append(entry)
            else:
                self._put(entry, arrival=False)
        self.recount()

    def release_all(self) -> PagedFifo | PagedLevels | None:
        """Return the stock with all entries of the lanes merged; ``None`` without one. Then no entry has a lane."""
        stock = self.stock
        if stock is not None:
            for lane in self._lanes.values():
                for entry in lane.order.in_memory():
                    if entry.state == PENDING:
                        entry.lane = None
                        entry.evaluated = entry.blocked = 0
                        stock.reinsert(entry)
            self._reset()
            self.stock = None
            self.recount()
        return stock

    def _or_first_of_stock(self, best: QueueEntry | None) -> QueueEntry | None:
        """Return ``best``, or the stock's first if that precedes it; ``None`` if the disk refuses to read it.

        Nothing is read if ``best`` precedes it.
        """
        stock = self.stock
        if stock is None or not stock.count or (best is not None and position_of(best) < self.first_position()):
            return best
        head = stock.first()
        self.follow_stock()
        if not stock.count:  # all that was read is damaged
            return best
        if head is None:
            return best if best is not None and position_of(best) < self.first_position() else None
        return best if best is not None and best < head else head

    def reading_refusal(self) -> str:
        """Delegate to the stock."""
        return "" if self.stock is None else self.stock.reading_refusal()

    def first_expiry(self, now: int) -> tuple[int, int]:
        """Delegate to the stock."""
        return NEVER if self.stock is None else self.stock.first_expiry(now)

    def rows_are_timed(self) -> bool:
        """Delegate to the stock."""
        return self.stock is None or self.stock.rows_are_timed()

    def retime(self) -> None:
        """Tell the stock."""
        if self.stock is not None:
            self.stock.retime()

    def take_expired(self, before: tuple[int, int], limit: int, *, read: bool) -> list[QueueEntry]:
        """Take from the stock."""
        found: list[QueueEntry] = [] if self.stock is None else self.stock.take_expired(before, limit, read=read)
        self.recount()
        return found

    def take_ended(self, now: int, least: int) -> Ended | None:
        """Take from the stock."""
        ended = None if self.stock is None else self.stock.take_ended(now, least)
        self.recount()
        return ended

    def page_parts(self) -> list[QueueArea]:
        """Delegate to the stock."""
        return [] if self.stock is None else self.stock.page_parts()

    def pages_behind(self) -> QueueArea | None:
        """Delegate to the stock."""
        return None if self.stock is None else self.stock.pages_behind()

    def paged_count(self) -> int:
        """Delegate to the stock."""
        return 0 if self.stock is None else self.stock.paged_count()

    def paged_bytes(self) -> int:
        """Delegate to the stock."""
        return 0 if self.stock is None else self.stock.paged_bytes()

    def take_pages(self) -> QueueArea | None:
        """Take the stock's rows out. The caller clears the order then."""
        return None if self.stock is None else self.stock.take_pages()

    def bring_all(self) -> bool:
        """Tell the stock."""
        whole = self.stock is None or self.stock.bring_all()
        self.recount()
        return whole

    def bring_unread(self) -> None:
        """Tell the stock."""
        if self.stock is not None:
            self.stock.bring_unread()
            self.recount()

    def first_sequence(self) -> int:
        """Return the sequence of the next entry, for any consumer, without reading it."""
        best = self.first_in_lanes()
        stock = self.stock
        if stock is not None and stock.count and (best is None or self.first_position() < position_of(best)):
            return stock.first_sequence()
        return 0 if best is None else best.sequence

    def oldest_accepted_at(self) -> int:
        """Return the earlier of the first that has a lane and the first of the stock."""
        best = self.first_in_lanes()
        times = [0 if best is None else best.message.accepted_at]
        if self.stock is not None and self.stock.count:
            times.append(self.stock.oldest_accepted_at())
        return min([at for at in times if at], default=0)
