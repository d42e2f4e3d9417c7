"""A durable grouped queue with a disk, whose messages are numbers: what must hold of it, and who may look."""

from __future__ import annotations

from collections.abc import Callable

from annulet.core.message.message import Message, Origin, PropertyValue
from annulet.core.model.entry import PENDING
from annulet.core.paging.paged_priorities import paged_order_of
from annulet.core.policies.message_groups import Group
from annulet.core.queue.queue import Queue
from annulet.core.searching.grouped_lanes import GroupedLanes
from tests.core.deep_doubles import ALL, CountingView, Deep
from tests.residency.doubles import durable_queue, pages_of


def ten_groups(number: int) -> str:
    return f"g{number % 10}"


class GroupView(CountingView):
    """The group of a message is known by its number; counts who asked."""

    def __init__(self, group_of: Callable[[int], str]) -> None:
        super().__init__()
        self.group_of = group_of

    def application_property(self, message: Message, name: str) -> PropertyValue:
        if name != "JMSXGroupID":
            return super().application_property(message, name)
        number = int(message.body)
        self.asked[number, name] = self.asked.get((number, name), 0) + 1
        return self.group_of(number)


class GroupedDeep(Deep):
    """As :class:`Deep`, with groups. Beyond two entries in lanes what arrives goes behind them."""

    def __init__(
        self, group_of: Callable[[int], str] = ten_groups, *, enough: int = 4, mode: str = "sticky", **settings: int
    ) -> None:
        super().__init__()
        self.view: GroupView = GroupView(group_of)
        self.origin = Origin("", "q", "guest@test", self.view)
        self.queue = durable_queue(group_mode=mode, **settings)
        self.pages = pages_of(self.queue, self.disk, ask_turn=self.ask_turn)
        self.queue.matchers.lanes_max = 2
        self.lanes.enough = enough

    @property
    def lanes(self) -> GroupedLanes:
        lanes = self.queue.lanes
        assert isinstance(lanes, GroupedLanes)
        return lanes

    def page_out_if_it_may(self) -> int:
        """Return how many paged; 0 where none may."""
        return 0 if paged_order_of(self.queue, self.pages) is None else self.page_out(ALL)


def check_grouped(queue: Queue) -> None:
    """Raise ``AssertionError`` where what lanes, stock and groups know of each other is not true. Loads everything."""
    lanes = queue.lanes
    if not isinstance(lanes, GroupedLanes):
        return
    last: dict[Group | None, int] = {}
    for (group, *_), lane in lanes.by_key().items():
        standing = [entry.place for entry in lane.order.in_memory() if entry.state == PENDING]
        last[group] = max([last.get(group, standing[0]), *standing])
    stocked = [] if lanes.stock is None else lanes.stock.entries()
    for entry in stocked:
        known = lanes.table.groups.get(lanes.table.name_of(entry.message))
        if known is not None and known in last:
            assert last[known] < entry.place, "what is in lanes stands before all of its group behind them"
        if entry.sequence < lanes.passed:
            assert known is not None
            assert known.parked_sequences is not None
            assert entry.sequence in known.parked_sequences.leading(1 << 60), "what was passed is parked"
    _check_parked(lanes)
    _check_holdings(lanes)
    assert lanes.count == len(stocked) + sum(lane.order.count for lane in lanes.by_key().values())


def _check_parked(lanes: GroupedLanes) -> None:
    total = 0
    for group in lanes.table.groups.values():
        if group.parked_sequences is None:
            continue
        parked = group.parked_sequences.leading(1 << 60)
        total += len(parked)
        assert parked == sorted(set(parked))
        assert parked[-1] < lanes.passed
        holding = lanes.holding_for(group)
        assert group.holding is holding
        assert group in holding.backlog
        assert holding.low <= parked[0]
    assert total == lanes.parked


def _check_holdings(lanes: GroupedLanes) -> None:
    groups = list(lanes.table.groups.values())
    without = sum(lane.order.count for (group, *_), lane in lanes.by_key().items() if group is None)
    free = lanes.holdings()[0]
    for holding in lanes.holdings():
        assert all(group.holding is holding and group.parked_sequences is not None for group in holding.backlog)
        held = sum(group.pending for group in groups if group.pending and group.holding is holding)
        assert holding.count == held + (without if holding is free else 0)
