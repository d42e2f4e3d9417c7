"""Lanes of a grouped queue deeper than memory: a part of each group in lanes, the rest of it behind them.

The messages behind the lanes are the *stock* (:mod:`annulet.core.searching.deep_lanes`). Below the frontier ``passed``
each message of it is parked: its group is known, and its sequence is kept (:mod:`annulet.core.policies.parked_groups`);
above, its group is still unknown. :mod:`annulet.core.searching.group_walk` advances the frontier and loads parked
messages.

The invariant: **all messages of a group in the lanes precede those of that group in the stock**, and in the stock
parked ones precede those above the frontier. Only heads of lanes are dispatched, so the order inside a group is kept.
Messages of different groups do not overtake either: :meth:`GroupedLanes.overtakes` delays those behind a parked message
that could be delivered instead, so a queue that pages dispatches like one in memory.

A message returns to its lane, unless older ones of its group may be in the stock: after a restart, for messages of a
lease. Then it returns into the stock and waits for its turn there.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from typing import TYPE_CHECKING, Final

from annulet.core.paging.paged_fifo import PagedFifo
from annulet.core.paging.taking_by_sequence import gather
from annulet.core.policies.lanes import Lanes
from annulet.core.policies.parked_groups import OwnerBacklog, ParkedSequences
from annulet.core.searching.deep_lanes import DeepLanes
from annulet.core.searching.parked_sweep import ParkedSweep
from annulet.core.searching.unpaged_stock import EmptyArea

if TYPE_CHECKING:
    from annulet.core.model.consumer import Consumer
    from annulet.core.model.entry import QueueEntry
    from annulet.core.model.queue_area import QueueArea
    from annulet.core.ordering.lane import Lane
    from annulet.core.paging.paged_priorities import PagedLevels
    from annulet.core.policies.fair_keys import FairKey
    from annulet.core.policies.message_groups import Group, GroupTable
    from annulet.core.policies.queue_policies import QueuePolicies

LANE_MESSAGES: Final = 256
"""Messages of one consumer's groups, and of all unowned ones, beyond which others are parked: one read of rows.

Their bodies count in the body budget and leave memory like any others.
"""

PULL_LOOKS: Final = 64
"""Scans that one pull makes to find an unowned message: about 16,000 messages that have to be read, or 100 ms, and
proportionally more if the groups of rows are known. The next pull continues."""

SPARSE: Final = 8
"""A scan that finds less than one of this many messages is the last for now: the next ones are made in turns."""

REFUSED: Final = -1
"""Result of a scan when the disk refuses."""


class GroupedLanes(DeepLanes):
    """Lanes of a queue with groups, first in, first out, without other restrictions of consumers."""

    __deletable__ = ("sweep",)

    def __init__(self, queue: QueuePolicies, groups: GroupTable) -> None:
        super().__init__(queue)
        self.groups = groups
        self.table = groups
        self.plain = False
        self.selective = False  # a consumer with a selector is attached: everything is in lanes, nothing on disk
        self.passed = 0  # the groups of the stock are unknown from this sequence on
        self.parked = 0  # sequences that groups keep, those included whose messages have left
        self.enough = LANE_MESSAGES
        self.pull_looks = PULL_LOOKS
        self.sparse = False  # the last scan found hardly anything: the next ones are made in turns
        self.pulled = False  # a pull got nothing before all was scanned
        self.sweep = ParkedSweep(self)
        self._aside_upto = 0  # no higher sequence is aside
        self._free = OwnerBacklog(None)
        self._waiting = OwnerBacklog(None)  # groups whose former owner has deliveries: no more may be delivered
        self._holdings: dict[Consumer, OwnerBacklog] = {}

    def as_grouped(self) -> GroupedLanes | None:
        """Return these lanes."""
        return self

    def restores_rows(self) -> bool:
        """Return true: they come behind the lanes."""
        return True

    def note_selective(self, *, selective: bool) -> None:
        """Note whether any consumer left has a selector; without, messages may be behind the lanes again."""
        self.selective = selective

    def may_page(self) -> bool:
        """Return whether messages behind the lanes may be on disk only: not if all consumers select, so that the first
        one would need all of them."""
        return not self.selective and not self._queue.settings.no_local

    def take_apart(self) -> None:
        """Release the sweep, which references the lanes."""
        del self.sweep

    # ------------------------------------------------------------------ the order

    def append(self, entry: QueueEntry) -> None:
        """Add an arrival to its lane where all before it was passed and there is room, else to the stock."""
        stock = self.stock
        if stock is None or not stock.count:
            if self.count < self._matchers.lanes_max or not self._queue.pageable():
                self._put(entry, arrival=True)
                return
            stock = self._begin_stock()
            self.passed = entry.sequence
        elif self.passed > self._last_sequence():
            group = self.table.group_for(entry.message)
            if self.has_room(group):
                self._enter(entry, group, None, arrival=True)
                self.passed = entry.sequence + 1
                return
            if group is not None:
                self.table.forget_if_idle(group)
        stock.append(entry)
        self.recount()

    def reinsert(self, entry: QueueEntry) -> None:
        """Add a returned entry to its lane, or to the stock if older ones of its group may be there."""
        stock = self.stock
        if stock is None or not stock.count or entry.place != entry.sequence:
            self._put(entry, arrival=False)
            return
        sequence = entry.sequence
        if sequence >= self.passed:
            if self.unpassed():
                self._stand_aside(entry)
                return
        elif self.parked:
            group = self.table.group_for(entry.message)
            if group is not None and group.parked_sequences is not None and group.parked_sequences.first < sequence:
                self.parked += group.parked_sequences.insert(sequence)
                self._stand_aside(entry)
                return
        self._put(entry, arrival=False)

    def _stand_aside(self, entry: QueueEntry) -> None:
        assert self.stock is not None
        entry.lane = None
        self._aside_upto = max(self._aside_upto, entry.sequence)
        self.stock.reinsert(entry)
        self.recount()

    def bring(self, entry: QueueEntry, admitted: int) -> None:
        """Put an entry that was taken out of the stock for a check into its place."""
        del admitted
        self.recount()
        self.reinsert(entry)

    def clear(self) -> None:
        """Forget all entries and rows, whatever their number."""
        self._clear_lanes()
        if self.stock is not None:
            self.stock.clear()
            self.recount()

    def forget(self, bits: int) -> None:
        """Forget answers, also of entries aside in the stock. O(n) of the entries in memory."""
        super().forget(bits)
        for entry in [] if self.stock is None else self.stock.in_memory():
            entry.evaluated &= ~bits
            entry.blocked &= ~bits

    def upcoming(self, count: int) -> list[QueueEntry]:
        """Return some entries of the lanes: only these are dispatched."""
        return Lanes.upcoming(self, count)

    def may_ask(self, now: int) -> bool:
        """Always true: with selectors everything is in lanes."""
        del now
        return True

    def paged_part(self, queue: QueuePolicies, pages: QueueArea) -> PagedFifo | PagedLevels:
        """Return the stock, created for later arrivals if there is none. Entries in lanes stay there."""
        if self.stock is None or not self.stock.count:
            self.passed = queue.next_sequence
        return super().paged_part(queue, pages)

    def store(self, next_sequence: int, keep: int) -> None:
        """Leave the lanes unchanged: they are bounded by the messages of owners and returned ones."""

    def bring_whole(self) -> None:
        """Move everything into lanes, with nothing behind them: a selector will evaluate all of it."""
        self.selective = True
        stock = self.stock
        if stock is None or not stock.count:
            return
        entries = stock.entries()
        stock.clear()
        self.recount()
        for entry in entries:
            self._come(entry, self.table.group_for(entry.message))

    def first_free(self) -> QueueEntry | None:
        """Return the next entry for a pull, loaded if necessary; ``None`` also if that would be very much work."""
        looks = self.pull_looks
        while True:
            shelves = [shelf for shelf in self._shelves.values() if shelf.owner is None and not shelf.parked]
            best = self.first_on(shelves)
            if best is not None and best.place < self._free.low:
                return best
            if self._free.backlog:
                moved = self.refill(self._free)
            else:
                moved = looks > 0 and self.unpassed() and self.pass_over(LANE_MESSAGES) != REFUSED
                looks -= 1
            if not moved:
                if looks < 0 and self.stock is not None:
                    self.pulled = True
                    if isinstance(self.stock.pages, EmptyArea):
                        self._queue.effects.turns_for(self._queue)
                    else:
                        self.stock.pages.ask_turn()
                return None

    # ------------------------------------------------------------------ from the stock to the lanes

    def pass_over(self, messages: int) -> int:
        """Read the groups of at most the next ``messages`` of the stock: each moves to its lane or is parked.

        Messages without a group always move: this is called for a consumer that may have them. Returns how many moved,
        ``REFUSED`` if the disk refuses to read them now.
        """
        stock = self.standing_stock()
        entries = stock.look(self.passed, [], messages, full=self._is_full)
        if entries is None:
            self.recount()
            return REFUSED
        upto = stock.looked_upto
        aside = self._take_aside(stock, upto)
        passed = self._park_passed(stock, upto, aside)
        brought: list[QueueEntry] = []
        parked: list[QueueEntry] = []
        entries = sorted([*entries, *aside]) if aside else entries
        for entry, name in zip(entries, self.table.names_of([entry.message for entry in entries]), strict=True):
            group = self.table.group_named(name) if name else None
            if group is None or self.has_room(group):
                self._come(entry, group)
                brought.append(entry)
            else:
                self.park(group, [entry.sequence])
                parked.append(entry)
        for entry in parked if aside else []:
            if entry in aside:
                stock.reinsert(entry)
        standing = [entry for entry in brought if entry not in aside] if aside else brought
        if standing:
            stock.take_out(standing)
        self.passed = upto
        self.sparse = SPARSE * len(brought) < len(brought) + len(parked) + passed
        self.recount()
        return len(brought)

    def _is_full(self, name: str) -> bool:
        """Return whether no more messages of a group may move to its lane."""
        return not self.has_room(self.table.groups.get(name))  # a new one counts as unowned

    def _park_passed(self, stock: PagedFifo, upto: int, aside: set[QueueEntry]) -> int:
        """Park the messages that a scan skipped below its end ``upto``, and those of the same groups ``aside`` there,
        which are removed from that. Returns how many."""
        passed_over, stock.pages.passed_over = stock.pages.passed_over, {}
        for entry in list(aside) if passed_over else []:
            sequences = passed_over.get(self.table.name_of(entry.message))
            if sequences is not None:
                insort(sequences, entry.sequence)
                stock.reinsert(entry)
                aside.discard(entry)
        count = 0
        for name, sequences in passed_over.items():
            below = sequences[: bisect_left(sequences, upto)]
            if below:
                self.park(self.table.group_named(name), below)
            count += len(below)
        return count

    def _come(self, entry: QueueEntry, group: Group | None) -> None:
        """Put an entry of the stock into its lane: it becomes no row any more, but its body may leave."""
        self._enter(entry, group, None, arrival=False)
        if self._queue.bodies is not None:
            self._queue.bodies.left_rows(entry)

    def _take_aside(self, stock: PagedFifo, upto: int) -> set[QueueEntry]:
        """Take out the entries aside between the frontier and ``upto``."""
        aside = stock.take_returned(upto)
        for entry in aside:
            if entry.sequence < self.passed:  # it is parked
                stock.reinsert(entry)
        return {entry for entry in aside if entry.sequence >= self.passed}

    def refill(self, holding: OwnerBacklog) -> bool:
        """Load the oldest parked messages of an owner's groups into their lanes, as many as one read.

        Returns whether there may be something to be had now; not so when the disk refuses.
        """
        stock = self.standing_stock()
        chosen = holding.oldest(self.enough)
        entries, handled = gather(stock, [sequence for sequence, _ in chosen])
        groups = dict(chosen)
        for entry in entries:
            self._come(entry, groups[entry.sequence])
        counts = Counter([group for _, group in chosen[:handled]])
        for group, count in counts.items():
            self.unpark(group, count)
            self.table.forget_if_idle(group)
        former = holding.low
        holding.find_low()
        self.recount()
        return handled > 0 or holding.low > former

    def standing_stock(self) -> PagedFifo:
        """Return the stock, which there is."""
        stock = self.stock
        assert isinstance(stock, PagedFifo)
        return stock

    # ------------------------------------------------------------------ eligibility

    def overtakes(self, entry: QueueEntry, consumers: list[Consumer]) -> bool:
        """Return whether one of the consumers might get a parked message that precedes an entry."""
        if not self.parked:
            return False
        place = entry.place
        if self._free.low < place:
            return True
        for consumer in consumers:
            holding = self._holdings.get(consumer)
            if holding is not None and holding.low < place:
                return True
        return False

    def has_room(self, group: Group | None) -> bool:
        """Return whether another message of a group may move to its lane: there is room, and none of it is parked."""
        if group is None:
            return self._free.count < self.enough
        if group.parked_sequences is not None or group.parked:
            return False
        return self._holding_of(group).count < self.enough

    def park(self, group: Group, sequences: list[int]) -> None:
        """Note that messages of a group stay in the stock, behind all others of it that were passed."""
        known = group.parked_sequences
        if known is None:
            known = group.parked_sequences = ParkedSequences()
            self._holding_of(group).file(group, sequences[0])
        known.extend(sequences)
        self.parked += len(sequences)

    def unpark(self, group: Group, count: int) -> None:
        """Forget the first parked sequences of a group: their messages are in lanes, or gone."""
        known = group.parked_sequences
        if known is None:
            return
        known.drop(count)
        self.parked -= count
        if not known.count:
            group.parked_sequences = None
            self._holding_of(group).unfile(group)

    def unpassed(self) -> bool:
        """Return whether the stock has messages of unknown groups."""
        stock = self.stock
        return stock is not None and stock.count > 0 and self.passed <= self._last_sequence()

    def _last_sequence(self) -> int:
        return max(self.standing_stock().last_sequence(), self._aside_upto)

    def free(self) -> OwnerBacklog:
        """Return the unowned groups."""
        return self._free

    def holding(self, consumer: Consumer) -> OwnerBacklog | None:
        """Return a consumer's groups; ``None`` where nothing of them waits."""
        return self._holdings.get(consumer)

    def _holding_of(self, group: Group) -> OwnerBacklog:
        """Return with whose groups a group counts."""
        holding = group.holding
        if holding is None or holding.empty:
            holding = group.holding = self.holding_for(group)
        return holding

    def holding_for(self, group: Group) -> OwnerBacklog:
        """Return where a group has to count: with its owner's, those that wait for a former owner, or the free ones."""
        owner = group.owner
        if owner is None:
            return self._waiting if group.parked else self._free
        holding = self._holdings.get(owner)
        if holding is None:
            holding = self._holdings[owner] = OwnerBacklog(owner)
        return holding

    def regroup(self, groups: list[Group]) -> None:
        """Assign lanes and parked messages to the groups' owners."""
        super().regroup(groups)
        for group in groups:
            former, holding = group.holding, self.holding_for(group)
            if former is holding:
                continue
            group.holding = holding
            holding.count += group.pending
            if group.parked_sequences is not None:
                holding.file(group, group.parked_sequences.first)
            if former is not None:
                former.count -= group.pending
                former.unfile(group)
                self._drop_if_empty(former)

    def _enter(self, entry: QueueEntry, group: Group | None, key: FairKey | None, *, arrival: bool) -> None:
        holding = self._free if group is None else self._holding_of(group)
        super()._enter(entry, group, key, arrival=arrival)
        holding.count += 1

    def _left(self, lane: Lane, entry: QueueEntry) -> None:
        group = lane.group
        holding = self._free if group is None else self._holding_of(group)
        super()._left(lane, entry)
        holding.count -= 1
        self._drop_if_empty(holding)

    def _drop_if_empty(self, holding: OwnerBacklog) -> None:
        """Forget a consumer's groups when nothing of them waits; a group that still names it looks the next one up."""
        owner = holding.owner
        if owner is not None and holding.empty and self._holdings.get(owner) is holding:
            del self._holdings[owner]

    # ------------------------------------------------------------------ messages that have left

    def follow_stock(self) -> None:
        """Copy the stock's counts, and sweep parked sequences when there are more than messages."""
        super().follow_stock()
        if not self.parked:
            return
        if self._in_stock:
            self.sweep.follow(self.parked, self._in_stock)
            return
        for holding in self.holdings():
            for group in list(holding.backlog):
                assert group.parked_sequences is not None
                self.unpark(group, group.parked_sequences.count)
                self.table.forget_if_idle(group)
        self._drop_empty()

    def holdings(self) -> list[OwnerBacklog]:
        """Return all there are: the free one, the one that waits for former owners, and those with an owner."""
        return [self._free, self._waiting, *self._holdings.values()]

    def forgot_parked(self, group: Group, count: int) -> None:
        """Count out sequences of a group that were forgotten: their messages have expired, were evicted or removed."""
        self.parked -= count
        known = group.parked_sequences
        if known is not None and not known.count:
            group.parked_sequences = None
            holding = self._holding_of(group)
            holding.unfile(group)
            self._drop_if_empty(holding)
            self.table.forget_if_idle(group)

    def _drop_empty(self) -> None:
        self._holdings = {owner: holding for owner, holding in self._holdings.items() if not holding.empty}
