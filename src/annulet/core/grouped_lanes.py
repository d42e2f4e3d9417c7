"""Lanes of a grouped queue deeper than memory: a part of each group in lanes, the rest of it behind them.

What waits behind the lanes is the *stock* (:mod:`annulet.core.deep_lanes`). Below the frontier ``passed`` each message
of it is parked: its group is known, and its sequence is kept (:mod:`annulet.core.parked`); above, nobody has asked for
its group yet. :mod:`annulet.core.group_walk` moves the frontier on and brings what is parked.

The invariant: **whatever of a group stands in the lanes stands before all of that group in the stock**, and of the
stock what is parked before what was not passed. Only heads of lanes are dispatched, so the order inside a group holds.
Beyond that nobody overtakes: :meth:`GroupedLanes.overtakes` holds back what stands behind a parked message that
somebody could be given instead, so a queue that pages dispatches as one in memory.

A message comes back to its lane, unless older ones of its group may stand in the stock: after a restart, of what a
lease held. Then it goes back into the stock and waits for its turn there.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from typing import TYPE_CHECKING, Final

from annulet.core.deep_lanes import DeepLanes
from annulet.core.gathering import gather
from annulet.core.lanes import Lanes
from annulet.core.paged_order import TargetList
from annulet.core.paging import pageable
from annulet.core.parked import Holding, ParkedSequences
from annulet.core.parked_sweep import ParkedSweep
from annulet.core.unpaged import NoArea

if TYPE_CHECKING:
    from annulet.core.consumer import Consumer
    from annulet.core.entry import QueueEntry
    from annulet.core.fairness import FairKey
    from annulet.core.groups import Group, GroupTable
    from annulet.core.lane import Lane
    from annulet.core.paged_levels import PagedLevels
    from annulet.core.paging import QueueArea
    from annulet.core.queue import Queue

LANE_MESSAGES: Final = 256
"""Messages of one consumer's groups, and of all that nobody has, beyond which others are parked: what one read of rows
brings. Their bodies count in the body budget and leave memory like any others."""

PULL_LOOKS: Final = 64
"""Looks that one pull makes to find something nobody has: some 16,000 messages that have to be read, or 100 ms, and as
many times more where the groups of rows are known. The next pull goes on."""

SPARSE: Final = 8
"""A look that brings less than one of so many messages is the last for now: the next ones are made in turns."""

REFUSED: Final = -1
"""What a look brings when the disk refuses."""


class GroupedLanes(DeepLanes):
    """Lanes of a queue with groups, first in, first out, where nothing else decides who may have what."""

    __deletable__ = ("sweep",)

    def __init__(self, queue: Queue, groups: GroupTable) -> None:
        super().__init__(queue)
        self.groups = groups
        self.table = groups
        self.plain = False
        self.selective = False  # a consumer with a selector is there: then all is in lanes, and none of it on disk
        self.passed = 0  # of the stock nothing with a sequence from here on was asked for its group
        self.parked = 0  # sequences that groups keep, those included whose messages have left
        self.enough = LANE_MESSAGES
        self.pull_looks = PULL_LOOKS
        self.sparse = False  # the last look brought hardly anything: the next ones are made in turns
        self.pulled = False  # somebody who pulls was given nothing before all was passed
        self.sweep = ParkedSweep(self)
        self._aside_upto = 0  # no sequence above it stands aside
        self._free = Holding(None)
        self._waiting = Holding(None)  # groups whose former owner holds deliveries: nobody may have more
        self._holdings: dict[Consumer, Holding] = {}

    def may_page(self) -> bool:
        """Say whether messages behind the lanes may be on disk only: not where each consumer selects, so that the first
        one who comes would need all of them."""
        return not self.selective and not self._queue.settings.no_local

    def take_apart(self) -> None:
        """Let the sweep go, which holds the lanes."""
        del self.sweep

    # ------------------------------------------------------------------ the order

    def append(self, entry: QueueEntry) -> None:
        """Add an arrival to its lane where all before it was passed and there is room, else to the stock."""
        stock = self.stock
        if stock is None or not stock.count:
            if self.count < self._matchers.lanes_max or not pageable(self._queue):
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
        """Add an entry that came back to its lane, or to the stock where older ones of its group may stand there."""
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
        """Put an entry that somebody took out of the stock, to look at it, where it belongs."""
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
        """Forget answers, also those of what stands aside in the stock. O(n) of what is in memory."""
        super().forget(bits)
        for entry in [] if self.stock is None else self.stock.in_memory():
            entry.evaluated &= ~bits
            entry.blocked &= ~bits

    def upcoming(self, count: int) -> list[QueueEntry]:
        """Return some entries of the lanes: only these are dispatched."""
        return Lanes.upcoming(self, count)

    def may_ask(self, now: int) -> bool:
        """Say yes: where selectors ask, everything is in lanes."""
        del now
        return True

    def paged_part(self, queue: Queue, pages: QueueArea) -> TargetList | PagedLevels:
        """Return the stock, made for what arrives from now on if there is none. What stands in lanes stays there."""
        if self.stock is None or not self.stock.count:
            self.passed = queue.next_sequence
        return super().paged_part(queue, pages)

    def store(self, next_sequence: int, keep: int) -> None:
        """Leave the lanes as they are: they are no longer than what an owner is to have, or what came back."""

    def bring_whole(self) -> None:
        """Put everything into lanes, and nothing behind them any more: a selector is to ask about all of it."""
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
        """Return the next entry for who pulls, brought if need be; ``None`` also when that would be very much work."""
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
                    if isinstance(self.stock.pages, NoArea):
                        self._queue.effects.turns_for(self._queue)
                    else:
                        self.stock.pages.ask_turn()
                return None

    # ------------------------------------------------------------------ from the stock to the lanes

    def pass_over(self, messages: int) -> int:
        """Ask the next ``messages`` of the stock, at most, for their groups: each comes to its lane or is parked.

        What has no group always comes: this is asked for somebody who may have it. Returns how many came, ``REFUSED``
        when the disk does not give them now.
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
        """Say whether nothing more of a group may come to its lane."""
        return not self.has_room(self.table.groups.get(name))  # one that is new counts as those nobody has

    def _park_passed(self, stock: TargetList, upto: int, aside: set[QueueEntry]) -> int:
        """Park what a look passed over below ``upto``, where it ended, and what of the same groups stands ``aside``
        there, which is taken out of that. Returns how many."""
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

    def _take_aside(self, stock: TargetList, upto: int) -> set[QueueEntry]:
        """Take out what stands aside between the frontier and ``upto``."""
        aside = stock.take_returned(upto)
        for entry in aside:
            if entry.sequence < self.passed:  # it is parked
                stock.reinsert(entry)
        return {entry for entry in aside if entry.sequence >= self.passed}

    def refill(self, holding: Holding) -> bool:
        """Bring the oldest parked messages of somebody's groups to their lanes, as many as one read brings.

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

    def standing_stock(self) -> TargetList:
        """Return the stock, which there is."""
        stock = self.stock
        assert isinstance(stock, TargetList)
        return stock

    # ------------------------------------------------------------------ who may be given what

    def overtakes(self, entry: QueueEntry, consumers: list[Consumer]) -> bool:
        """Say whether one of the consumers might be given something that is parked and stands before an entry."""
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
        """Say whether another message of a group may come to its lane: there is room, and nothing of it is parked."""
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
        """Say whether something in the stock was not asked for its group yet."""
        stock = self.stock
        return stock is not None and stock.count > 0 and self.passed <= self._last_sequence()

    def _last_sequence(self) -> int:
        return max(self.standing_stock().last_sequence(), self._aside_upto)

    def free(self) -> Holding:
        """Return the groups that nobody has."""
        return self._free

    def holding(self, consumer: Consumer) -> Holding | None:
        """Return a consumer's groups; ``None`` where nothing of them waits."""
        return self._holdings.get(consumer)

    def _holding_of(self, group: Group) -> Holding:
        """Return with whose groups a group counts."""
        holding = group.holding
        if holding is None or holding.empty:
            holding = group.holding = self._holding_for(group)
        return holding

    def _holding_for(self, group: Group) -> Holding:
        owner = group.owner
        if owner is None:
            return self._waiting if group.parked else self._free
        holding = self._holdings.get(owner)
        if holding is None:
            holding = self._holdings[owner] = Holding(owner)
        return holding

    def regroup(self, groups: list[Group]) -> None:
        """Put lanes and what is parked where the groups' owners say."""
        super().regroup(groups)
        for group in groups:
            former, holding = group.holding, self._holding_for(group)
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

    def _left(self, lane: Lane) -> None:
        group = lane.group
        holding = self._free if group is None else self._holding_of(group)
        super()._left(lane)
        holding.count -= 1
        self._drop_if_empty(holding)

    def _drop_if_empty(self, holding: Holding) -> None:
        """Forget a consumer's groups when nothing of them waits; a group that still names it looks the next one up."""
        owner = holding.owner
        if owner is not None and holding.empty and self._holdings.get(owner) is holding:
            del self._holdings[owner]

    # ------------------------------------------------------------------ what has left meanwhile

    def follow_stock(self) -> None:
        """Count what the stock counts, and forget parked sequences when they are too many to be true."""
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

    def holdings(self) -> list[Holding]:
        """Return all there are."""
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
