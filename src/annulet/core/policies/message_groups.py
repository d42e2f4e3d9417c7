"""Message groups: whose turn it is inside each group (Artemis §6.2, Broker-J §6).

========== ================================ ==========================================================================
mode       assigned                         until ========== ================================
========================================================================== sticky     with the first message taken
the consumer leaves and has settled or returned all its deliveries of the group; reset; rebalance; a message with
sequence -1 shared     with the first message taken     nothing of the group is in delivery any more ==========
================================ ==========================================================================

A group whose owner detached with messages in delivery is parked: no more are delivered until these are settled or
returned, because the order inside the group would break.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final
from zlib import crc32

from annulet.core.base.settings import GROUP_SHARED
from annulet.core.ordering.lane import lane_of
from annulet.core.policies.last_per_key import key_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from annulet.core.base.settings import QueueSettings
    from annulet.core.message.message import ContentView, Message
    from annulet.core.model.consumer import Consumer
    from annulet.core.model.entry import QueueEntry
    from annulet.core.ordering.lane import Lane
    from annulet.core.policies.parked_groups import OwnerBacklog, ParkedSequences

NO_GROUP: Final = "qpid.no-group"
"""The group of ungrouped messages on a shared-groups queue (Broker-J §6)."""

CLOSING_SEQUENCE: Final = -1
CLOSING_SEQUENCE_UNSIGNED: Final = 0xFFFFFFFF
"""AMQP 1.0 sends the group sequence as an unsigned 32-bit number (Artemis §6.2)."""

GROUP_PROPERTIES: Final = ("JMSXGroupID", "_AMQ_GROUP_ID")
SEQUENCE_PROPERTY: Final = "JMSXGroupSeq"

ASSIGNMENTS_MAX: Final = 100_000
"""Groups remembered although nothing of them is in the queue, about 30 MB; beyond it the oldest assignment ends."""


class Group:
    """One group, or one bucket of groups."""

    __slots__ = (
        "former",
        "holders",
        "holding",
        "in_delivery",
        "lanes",
        "name",
        "owner",
        "parked",
        "parked_sequences",
        "pending",
        "unmarked",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.owner: Consumer | None = None
        self.parked = False  # no more deliveries until ``former`` has nothing of the group
        self.former: Consumer | None = None  # detached with deliveries; None = pulls
        self.in_delivery = 0
        self.holders: dict[Consumer | None, int] = {}  # deliveries by their consumer
        self.pending = 0  # in lanes
        self.lanes: list[Lane] = []
        self.parked_sequences: ParkedSequences | None = None  # pending, but not in lanes: of a queue deeper than memory
        self.holding: OwnerBacklog | None = None  # with whose groups it counts there
        self.unmarked = False  # assigned, and no message delivered since: the next one is the first

    @property
    def idle(self) -> bool:
        """Return whether nothing of the group is in the queue."""
        return self.in_delivery == 0 and self.pending == 0 and self.parked_sequences is None

    def hold(self, consumer: Consumer | None) -> None:
        """Count a delivery."""
        self.in_delivery += 1
        self.holders[consumer] = self.holders.get(consumer, 0) + 1

    def let_go(self, consumer: Consumer | None) -> None:
        """Count the end of a delivery."""
        self.in_delivery -= 1
        count = self.holders[consumer] - 1
        if count:
            self.holders[consumer] = count
        else:
            del self.holders[consumer]

    def free(self) -> None:
        """End the assignment."""
        self.owner = None
        self.former = None
        self.parked = False


class GroupTable:
    """The groups of one queue. Changes of ownership are reported as lists of groups whose lanes must move."""

    def __init__(self, settings: QueueSettings) -> None:
        self._key = settings.group_key
        self._buckets = settings.group_buckets
        self._default = (settings.default_group or NO_GROUP) if settings.group_mode == GROUP_SHARED else ""
        self.shared = settings.group_mode == GROUP_SHARED
        self.first_key = settings.group_first_key
        self.groups: dict[str, Group] = {}
        self.remembered_max = ASSIGNMENTS_MAX
        self._stale: set[QueueEntry] = set()  # in delivery since before their group was reset
        self._remembered: OrderedDict[Group, None] = OrderedDict()  # assigned and idle, the longest idle first

    def name_of(self, message: Message) -> str:
        """Return the name of a message's group, empty when it has none."""
        name = given_name(message, self._key)
        if not name:
            return self._default
        if self._buckets > 0:
            return f"bucket {crc32(name.encode('utf-8', 'surrogatepass')) % self._buckets}"
        return name

    def names_of(self, messages: Sequence[Message]) -> list[str]:
        """Return the group name of each message. Of those with the same header only the first is decoded."""
        names: list[str] = []
        known: dict[bytes, str] = {}  # by header, of messages with the same view
        asked: ContentView | None = None
        for message in messages:
            header, view = message.header, message.origin.view
            if view is not asked:
                known, asked = {}, view
            name = known.get(header)
            if name is None:
                name = self.name_of(message)
                if header:
                    known[header] = name
            names.append(name)
        return names

    def group_for(self, message: Message) -> Group | None:
        """Return the group of a message, made when it is new; ``None`` for a message without one."""
        name = self.name_of(message)
        return self.group_named(name) if name else None

    def group_named(self, name: str) -> Group:
        """Return the group of a name, made when it is new, as something of it arrives."""
        group = self.groups.get(name)
        if group is None:
            group = Group(name)
            self.groups[name] = group
        else:
            self._remembered.pop(group, None)
        return group

    def closes(self, entry: QueueEntry) -> bool:
        """Return whether a message ends its group's assignment (sequence -1)."""
        message = entry.message
        sequence = message.origin.view.application_property(message, SEQUENCE_PROPERTY)
        return sequence in (CLOSING_SEQUENCE, CLOSING_SEQUENCE_UNSIGNED) and not isinstance(sequence, bool)

    def taken(self, group: Group, consumer: Consumer | None, entry: QueueEntry) -> bool:
        """Note that ``consumer`` got a message of the group. Returns whether the group's place changed.

        ``None`` is a pull: it owns no group, but a shared group waits for it.
        """
        group.hold(consumer)
        if consumer is None:
            if self.shared and not group.parked:
                group.parked = True
                return True
            return False
        before = group.owner
        if before is None:
            group.owner = consumer
            group.unmarked = True
        if not self.shared and self.closes(entry):
            group.free()
        return group.owner is not before

    def released(self, group: Group, entry: QueueEntry) -> bool:
        """Note that a delivery was settled or returned. Returns whether the group's place changed."""
        if entry in self._stale:
            self._stale.discard(entry)
            group.in_delivery -= 1
            return False
        group.let_go(entry.consumer)
        if group.parked:
            waits_for = group.former
        elif self.shared and group.owner is not None:
            waits_for = group.owner
        else:
            return False
        if waits_for in group.holders:
            return False
        group.free()
        return True

    def dismiss(self, consumer: Consumer) -> list[Group]:
        """Detach a consumer: free its groups, or park those of which it still has messages."""
        changed = []
        for group in self.groups.values():
            if group.owner is consumer:
                group.free()
                if consumer in group.holders:
                    group.former = consumer
                    group.parked = True
                changed.append(group)
        self._forget_idle(changed)
        return changed

    def reset(self, delivering: Iterable[QueueEntry], name: str = "") -> list[Group]:
        """End the assignment of one group, or of all, parked ones included. Returns the groups that were assigned.

        Their messages in ``delivering`` no longer bind the group to their consumer. O(in delivery).
        """
        groups = list(self.groups.values()) if not name else [self.groups[name]] if name in self.groups else []
        changed = {group: None for group in groups if group.owner is not None or group.parked}
        for entry in delivering:
            lane = lane_of(entry)
            if lane is not None and lane.group in changed:
                self._stale.add(entry)
        for group in changed:
            group.free()
            group.holders.clear()
        self._forget_idle(list(changed))
        return list(changed)

    def forget_if_idle(self, group: Group) -> None:
        """Drop a group of which nothing is in the queue, unless it is assigned: of those the latest are remembered."""
        if not group.idle or group.parked:
            return
        if group.owner is None:
            self._remembered.pop(group, None)
            self.groups.pop(group.name, None)
            return
        self._remembered[group] = None
        if len(self._remembered) > self.remembered_max:
            oldest, _ = self._remembered.popitem(last=False)
            del self.groups[oldest.name]

    def _forget_idle(self, groups: list[Group]) -> None:
        for group in groups:
            self.forget_if_idle(group)


def given_name(message: Message, key: str) -> str:
    """Return the group its sender gave a message, empty when it gave none.

    ``key`` is the property that names groups; empty is the protocol's group id.
    """
    view = message.origin.view
    if key:
        value = key_of(view.application_property(message, key))
        return "" if value is None else str(value[1])
    for name in GROUP_PROPERTIES:
        given = view.application_property(message, name)
        if isinstance(given, str) and given:
            return given
    return view.properties(message).group_id
