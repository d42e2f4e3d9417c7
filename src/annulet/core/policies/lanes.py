"""The pending entries of a queue with restricted consumers: an order made of lanes.

Costs: an arrival, removal or dispatch O(log n) plus the number of shelves, which grows with the distinct outcomes of
the consumers' selectors and, on grouped queues, with the consumers, not with the messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from annulet.core.model.order import Order
from annulet.core.ordering.lane import Lane, Shelf, lane_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from annulet.core.model.consumer import Consumer
    from annulet.core.model.entry import QueueEntry
    from annulet.core.model.queue_area import QueueArea
    from annulet.core.ordering.ranks import Ranker
    from annulet.core.paging.paged_fifo import PagedFifo
    from annulet.core.paging.paged_priorities import PagedLevels
    from annulet.core.policies.fair_keys import FairKey, Fairness
    from annulet.core.policies.message_groups import Group, GroupTable
    from annulet.core.policies.queue_policies import QueuePolicies

LaneKey: TypeAlias = "tuple[Group | None, FairKey | None, int, int]"
ShelfKey: TypeAlias = "tuple[Consumer | None, int, int, bool]"

UPCOMING_LANES: Final = 64
"""Lanes examined for the next messages: with a batch of 256 bodies four messages of each, or more of fewer."""


class Lanes(Order):
    """Splits entries by group, fair key and the answers of matchers; finds heads by shelf."""

    def __init__(self, ranker: Ranker, groups: GroupTable | None, fairness: Fairness | None) -> None:
        super().__init__()
        self.groups = groups
        self.fairness = fairness
        self.plain = groups is None and fairness is None  # only selectors and refusals restrict consumers
        self.stored = 0  # times that entries went from lanes behind them, where they may become rows
        self.asked = 0  # evaluated heads that moved to another lane; checks of very many consumers count as some
        self._ranker = ranker
        self._lanes: dict[LaneKey, Lane] = {}
        self._shelves: dict[ShelfKey, Shelf] = {}

    # ------------------------------------------------------------------ the order

    def append(self, entry: QueueEntry) -> None:
        """Add an arrival to its lane."""
        self._put(entry, arrival=True)

    def reinsert(self, entry: QueueEntry) -> None:
        """Add a returned entry, with its known answers."""
        self._put(entry, arrival=False)

    def first(self) -> QueueEntry | None:
        """Return the first of all entries, for any consumer."""
        return self.first_in_lanes()

    def first_in_lanes(self) -> QueueEntry | None:
        """Return the first of the entries that have a lane."""
        best: QueueEntry | None = None
        for shelf in self._shelves.values():
            lane = shelf.first()
            if lane is not None:
                head = lane.order.first()
                assert head is not None
                if best is None or head < best:
                    best = head
        return best

    def take_first(self) -> QueueEntry | None:
        """Remove and return the first of all entries."""
        entry = self.first()
        if entry is not None:
            self.take_head(entry)
        return entry

    def take_head(self, entry: QueueEntry) -> None:
        """Remove the head of a lane, to dispatch it or to move it to another lane."""
        lane = entry.lane
        assert isinstance(lane, Lane)
        taken = lane.order.take_first()
        assert taken is entry
        self._left(lane, entry)

    def discard(self, entry: QueueEntry) -> None:
        """Take a pending entry out of the middle. The caller has set its state to REMOVED."""
        lane = entry.lane
        assert isinstance(lane, Lane)
        lane.order.discard(entry)
        entry.lane = None  # the lane's order may still reference the entry: each would keep the other
        self._left(lane, entry)
        self._forget_if_idle(lane)

    def clear(self) -> None:
        """Forget all entries; on a fair queue O(lanes), whatever the number of entries."""
        if self.fairness is None:
            self._clear_lanes()
        else:
            self._clear_keys(self.fairness)

    def _clear_lanes(self) -> None:
        for lane in list(self._lanes.values()):
            while lane.order.count:
                entry = lane.order.take_first()
                assert entry is not None
                self._left(lane, entry)
            self._forget_if_idle(lane)

    def _clear_keys(self, fairness: Fairness) -> None:
        for lane in list(self._lanes.values()):
            if lane.fair is not None:
                fairness.cleared(lane.fair, lane.order.count)
            self.count -= lane.order.count
            lane.order.clear()
            self._drop(lane)
            self._forget_if_idle(lane)

    def by_key(self) -> Mapping[LaneKey, Lane]:
        """Return the lanes, none of which is empty, by what their messages have in common."""
        return self._lanes

    def entries(self) -> list[QueueEntry]:
        """Return the pending entries by rank and place."""
        return sorted(self.entries_in_lanes())

    def entries_in_lanes(self) -> list[QueueEntry]:
        """Return the pending entries that stand in lanes, lane by lane."""
        merged: list[QueueEntry] = []
        for lane in self._lanes.values():
            merged.extend(lane.order.entries())
        return merged

    def snapshot(self) -> list[QueueEntry]:
        """Return the entries in no particular order, removed ones perhaps among them."""
        collected: list[QueueEntry] = []
        for lane in self._lanes.values():
            collected.extend(lane.order.snapshot())
        return collected

    def upcoming(self, count: int) -> list[QueueEntry]:
        """Return some entries of each of the lanes whose heads are first: which of them are next, consumers decide.

        Entries that no consumer may take now are left out unless there are no others.
        """
        shelves = self.shelves() or list(self._shelves.values())
        lanes: list[Lane] = []
        for shelf in shelves:
            lanes += shelf.leading(max(1, UPCOMING_LANES // len(shelves)))
        found: list[QueueEntry] = []
        for lane in lanes:
            found += lane.order.upcoming(max(1, count // len(lanes)))
        return sorted(found)

    def paged_part(self, queue: QueuePolicies, pages: QueueArea) -> PagedFifo | PagedLevels | None:
        """Return the order that may have rows on disk, created with ``pages`` if necessary; ``None`` if none may."""
        del queue, pages
        return None

    def adopt(self, order: Order) -> None:
        """Take over all entries of an order that needed no lanes so far, as one lane, whatever their number."""
        lane = self._lane_for(None, None, 0, 0)
        lane.order = order
        for entry in order.entries():
            entry.lane = lane
        self.count += order.count
        self._note_head(lane)

    # ------------------------------------------------------------------ dispatch

    def shelves(self) -> list[Shelf]:
        """Return the shelves with entries that a consumer may take."""
        return [shelf for shelf in self._shelves.values() if not shelf.parked]

    def first_free(self) -> QueueEntry | None:
        """Return the next entry for a pull: unowned, below its key's cap, and on a fair queue its key's turn."""
        shelves = [shelf for shelf in self._shelves.values() if shelf.owner is None and not shelf.parked]
        return self.first_on(shelves)

    def first_on(self, shelves: list[Shelf]) -> QueueEntry | None:
        """Return the first entry on some shelves; on a fair queue the first of the key whose turn it is."""
        best: QueueEntry | None = None
        if self.fairness is None:
            for shelf in shelves:
                lane = shelf.first()
                head = None if lane is None else lane.order.first()
                if head is not None and (best is None or head < best):
                    best = head
            return best
        turn: FairKey | None = None
        for shelf in shelves:
            key = shelf.first_key()
            if key is not None and (turn is None or key.turn < turn.turn):
                turn = key
        for lane in [] if turn is None else turn.lanes:
            head = lane.order.first()
            if head is not None and lane.shelf in shelves and (best is None or head < best):
                best = head
        return best

    def bring(self, entry: QueueEntry, admitted: int) -> None:
        """Give an entry that was behind the lanes its lane. ``admitted``: the match classes that match it."""
        del admitted
        self.reinsert(entry)

    def bring_whole(self) -> None:
        """Move everything into lanes where a selector will evaluate all of it: a consumer with one is attached."""

    def note_selective(self, *, selective: bool) -> None:
        """Note whether any consumer left has a selector."""

    def release_all(self) -> Order | None:
        """Return one order of all entries, none of which has a lane then; ``None`` if that has to wait."""
        return None

    def overtakes(self, entry: QueueEntry, consumers: list[Consumer]) -> bool:
        """Return whether one of the consumers might get another message that precedes an entry."""
        del entry, consumers
        return False

    def may_page(self) -> bool:
        """Return whether entries may be on disk only as far as lanes are concerned: if only selectors and refusals
        restrict consumers."""
        return self.plain

    def may_ask(self, now: int) -> bool:
        """Return whether dispatch may evaluate more entries in this turn; if not, it continues in another one."""
        del now
        return True

    def resort(self, entry: QueueEntry) -> None:
        """Move the head of a lane to the lane of its new answers; its fair key keeps its turn."""
        self.asked += 1
        lane = entry.lane
        assert isinstance(lane, Lane)
        key, fairness = lane.fair, self.fairness
        if key is not None and fairness is not None:
            key.pending += 1
            fairness.moving = True
        self.take_head(entry)
        self._put(entry, arrival=False)
        if key is not None and fairness is not None:
            key.pending -= 1
            fairness.moving = False

    def taken(self, entry: QueueEntry, consumer: Consumer | None) -> None:
        """Note that an entry, already out of its lane, is in delivery."""
        lane = lane_of(entry)
        if lane is None:  # it was never in one: groups and fair keys do not apply
            return
        group = lane.group
        if group is not None and self.groups is not None and self.groups.taken(group, consumer, entry):
            self.regroup([group])
        key = lane.fair
        if key is not None and self.fairness is not None:
            self.fairness.served(key, entry.message.size)
            self._note_turn(key)
            self._hold(key, self.fairness)

    def recovered(self, entry: QueueEntry) -> None:
        """Note that an entry that was never here is in delivery: it was leased when the broker ended."""
        group = None if self.groups is None else self.groups.group_for(entry.message)
        key = None if self.fairness is None else self.fairness.key_for(entry.message)
        lane = Lane(self._ranker.new_list(), group, key, entry.evaluated, entry.blocked)
        lane.dropped = True  # it is in no table: the entry finds its own when it returns
        entry.lane = lane
        if group is not None and self.groups is not None and self.groups.taken(group, None, entry):
            self.regroup([group])
        if key is not None and self.fairness is not None:
            self._hold(key, self.fairness)

    def released(self, entry: QueueEntry) -> None:
        """Note that an entry is no longer in delivery."""
        lane = lane_of(entry)
        if lane is None:  # it was delivered before the queue had lanes
            return
        group = lane.group
        if group is not None and self.groups is not None:
            if self.groups.released(group, entry):
                self.regroup([group])
            self.groups.forget_if_idle(group)
        key = lane.fair
        if key is not None and self.fairness is not None:
            before = self.fairness.capped(key)
            key.in_delivery -= 1
            if self.fairness.capped(key) != before:
                self.reshelve(key.lanes)
            self.fairness.forget_if_idle(key)

    def regroup(self, groups: list[Group]) -> None:
        """Put the lanes of groups where their owners say."""
        for group in groups:
            self.reshelve(group.lanes)

    def reshelve(self, lanes: list[Lane]) -> None:
        """Put lanes where their group's owner and their key's cap say."""
        for lane in list(lanes):
            self._shelve(lane)
            self._note_head(lane)

    def forget(self, bits: int) -> None:
        """Forget the answers of retired match classes. O(n) of entries with a lane."""
        entries = sorted(self.entries_in_lanes())
        keys = [] if self.fairness is None else self.fairness.in_turn()
        if self.fairness is not None:
            self.fairness.moving = True
        for key in keys:
            key.pending += 1  # nothing leaves: the keys keep their turns
        if self.plain:
            self._reset()
        else:
            self._clear_lanes()
        kept = ~bits
        for entry in entries:
            entry.evaluated &= kept
            entry.blocked &= kept
            self._put(entry, arrival=False)
        for key in keys:
            key.pending -= 1
        if self.fairness is not None:
            self.fairness.moving = False

    def _reset(self) -> None:
        """Forget all lanes with their contents; returned entries find theirs again."""
        for lane in self._lanes.values():
            self.count -= lane.order.count
            lane.dropped = True
            lane.order.clear()
            lane.shelf = None
        self._lanes = {}
        self._shelves = {}

    def take_apart(self) -> None:
        """Break the cycles of lanes whose queue was deleted, so that no garbage collection has to find them."""

    def _note_turn(self, key: FairKey) -> None:
        """Tell the shelves of a fair key its turn."""
        for lane in key.lanes:
            if lane.shelf is not None:
                lane.shelf.note_turn(key)

    def _hold(self, key: FairKey, fairness: Fairness) -> None:
        """Count a delivery of a fair key."""
        before = fairness.capped(key)
        key.in_delivery += 1
        if fairness.capped(key) != before:
            self.reshelve(key.lanes)

    # ------------------------------------------------------------------ lanes and shelves

    def _put(self, entry: QueueEntry, *, arrival: bool) -> None:
        group: Group | None = None
        key: FairKey | None = None
        if self.groups is not None:
            held = entry.lane
            if isinstance(held, Lane) and held.group is not None and not held.dropped:
                group = held.group
            else:
                group = self.groups.group_for(entry.message)
        if self.fairness is not None:
            key = self.fairness.key_for(entry.message)
        self._enter(entry, group, key, arrival=arrival)

    def _enter(self, entry: QueueEntry, group: Group | None, key: FairKey | None, *, arrival: bool) -> None:
        """Put an entry into the lane of its group or key and its answers."""
        lane = self._lane_for(group, key, entry.evaluated, entry.blocked)
        entry.lane = lane
        if arrival:
            lane.order.append(entry)
        else:
            lane.order.reinsert(entry)
        self.count += 1
        if group is not None:
            group.pending += 1
        if key is not None and self.fairness is not None:
            self.fairness.arrived(key, entry)
            self._note_turn(key)
        if lane.order.first() is entry and lane.shelf is not None:
            lane.shelf.note_head(entry, lane)

    def _left(self, lane: Lane, entry: QueueEntry) -> None:
        """Note that an entry left a lane."""
        self.count -= 1
        group = lane.group
        if group is not None:
            group.pending -= 1
        if lane.fair is not None and self.fairness is not None and self.fairness.left(lane.fair, entry):
            self._note_turn(lane.fair)
        if lane.order.count == 0:
            self._drop(lane)
        else:
            self._note_head(lane)

    def _forget_if_idle(self, lane: Lane) -> None:
        if lane.group is not None and self.groups is not None:
            self.groups.forget_if_idle(lane.group)
        if lane.fair is not None and self.fairness is not None:
            self.fairness.forget_if_idle(lane.fair)

    def _lane_for(self, group: Group | None, key: FairKey | None, evaluated: int, blocked: int) -> Lane:
        lane_key: LaneKey = (group, key, evaluated, blocked)
        lane = self._lanes.get(lane_key)
        if lane is None:
            lane = Lane(self._ranker.new_list(), group, key, evaluated, blocked)
            self._lanes[lane_key] = lane
            if group is not None:
                group.lanes.append(lane)
            if key is not None:
                key.lanes.append(lane)
            self._shelve(lane)
        return lane

    def _drop(self, lane: Lane) -> None:
        """Drop an empty lane; groups and keys may change with every message, and their lanes must not accumulate."""
        lane.dropped = True
        del self._lanes[(lane.group, lane.fair, lane.evaluated, lane.blocked)]
        if lane.group is not None:
            lane.group.lanes.remove(lane)
        if lane.fair is not None:
            lane.fair.lanes.remove(lane)
        self._unshelve(lane)

    def _shelve(self, lane: Lane) -> None:
        owner: Consumer | None = None
        parked = False
        if lane.group is not None:
            owner = lane.group.owner
            parked = lane.group.parked
        if lane.fair is not None and self.fairness is not None and self.fairness.capped(lane.fair):
            parked = True
        key: ShelfKey = (owner, lane.evaluated, lane.blocked, parked)
        shelf = self._shelves.get(key)
        if shelf is None:
            shelf = Shelf(owner, lane.evaluated, lane.blocked, parked=parked)
            self._shelves[key] = shelf
        if lane.shelf is not shelf:
            self._unshelve(lane)
            lane.shelf = shelf
            shelf.lanes += 1
            if lane.fair is not None and lane.fair.pending:  # otherwise its turn comes with its first message
                shelf.note_turn(lane.fair)

    def _unshelve(self, lane: Lane) -> None:
        shelf = lane.shelf
        if shelf is None:
            return
        lane.shelf = None
        shelf.lanes -= 1
        if shelf.lanes == 0:
            del self._shelves[(shelf.owner, shelf.evaluated, shelf.blocked, shelf.parked)]

    def _note_head(self, lane: Lane) -> None:
        head = lane.order.first()
        if head is not None and lane.shelf is not None:
            lane.shelf.note_head(head, lane)
