"""Blank objects of the core, whose fields an image then sets.

A compiled class makes no object without running its ``__init__``, so that compiled code need not check whether a field
is set. So a blank is an object created with dummy arguments: all its fields are set afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.settings import QueueSettings
from annulet.core.deliveries.delivery_table import DeliveryBlock, DeliveryTable
from annulet.core.deliveries.entry_set import EntrySet
from annulet.core.host.duplicate_ids import DuplicateCache
from annulet.core.message.message import ContentView, Message, Origin
from annulet.core.model.compact_messages import CompactDelivery, SharedFields
from annulet.core.model.consumer import Consumer, CreditWindow, LinkCredit
from annulet.core.model.effects import Effects
from annulet.core.model.entry import DeliveryCopy, KeyRecord, QueueEntry
from annulet.core.model.loss_ledger import LossLedger, LossRecord
from annulet.core.model.queue_counters import QueueCounters
from annulet.core.ordering.lane import Lane, Shelf
from annulet.core.ordering.order import FifoOrder, RankedOrder
from annulet.core.ordering.priority_order import LevelledOrder
from annulet.core.ordering.ranks import (
    AgeingRanker,
    FifoRanker,
    PriorityLevels,
    SortedRanker,
    StrictRanker,
    WeightedRanker,
)
from annulet.core.ordering.returned_entries import Returned
from annulet.core.paging.paged_fifo import PagedFifo
from annulet.core.paging.paged_priorities import PagedLevels
from annulet.core.policies.consumer_turns import ConsumerTurns
from annulet.core.policies.demanded_values import Demand, Demands
from annulet.core.policies.dispatch_gate import Gate
from annulet.core.policies.eviction import EvictionIndex, KeyEvictionIndex
from annulet.core.policies.expiring_turns import DoubtfulKey, ExpiringTurns
from annulet.core.policies.expiry import ExpiryBlock, ExpiryIndex
from annulet.core.policies.fair_keys import FairKey, Fairness
from annulet.core.policies.lanes import Lanes
from annulet.core.policies.matchers import MatchClass, Matchers
from annulet.core.policies.message_groups import Group, GroupTable
from annulet.core.policies.parked_groups import OwnerBacklog, ParkedSequences
from annulet.core.policies.queue_limits import Limits
from annulet.core.policies.retention_rules import RETENTION_RULES
from annulet.core.policies.schedule import Appointment, ScheduleIndex
from annulet.core.policies.staged_batches import Batches, HiddenBatch, StagedRange
from annulet.core.policies.timed_queues import TimedQueues
from annulet.core.queue.queue import Queue
from annulet.core.reading.copies import Copies
from annulet.core.reading.unseen_entries import UnseenEntries
from annulet.core.searching.deep_lanes import DeepLanes
from annulet.core.searching.grouped_lanes import GroupedLanes
from annulet.core.searching.parked_sweep import ParkedSweep
from annulet.core.searching.unpaged_stock import EmptyArea
from annulet.core.sessions.session import Session

_SETTINGS: Final = QueueSettings()
_ORIGIN: Final = Origin("", "", "", ContentView(""))
_MESSAGE: Final = Message(b"", b"", _ORIGIN)
_QUEUE: Final = Queue("", _SETTINGS, Effects())
_ENTRY: Final = QueueEntry(_QUEUE, _MESSAGE, 0)
_KIND: Final = SharedFields(_QUEUE, _ORIGIN, None)
_LEVELS: Final = PriorityLevels(_SETTINGS)


def _makers(*makers: Callable[[], Any]) -> dict[str, Callable[[], Any]]:
    made = ((type(maker()), maker) for maker in makers)
    return {f"{kind.__module__}:{kind.__qualname__}": maker for kind, maker in made}


BLANKS: Final = _makers(
    Batches,
    ConsumerTurns,
    CreditWindow,
    DeliveryBlock,
    Demand,
    Demands,
    DuplicateCache,
    EntrySet,
    ExpiryBlock,
    ExpiryIndex,
    FifoOrder,
    FifoRanker,
    Gate,
    DeliveryTable,
    HiddenBatch,
    KeyEvictionIndex,
    LinkCredit,
    Matchers,
    EmptyArea,
    ParkedSequences,
    QueueCounters,
    RankedOrder,
    Returned,
    ScheduleIndex,
    TimedQueues,
    partial(AgeingRanker, _LEVELS, 0),
    partial(Appointment, _ENTRY, 0, fresh=False, schedule_id=""),
    partial(Consumer, Session(""), _QUEUE, ""),
    partial(Copies, _QUEUE),
    partial(DeliveryCopy, _ENTRY),
    partial(DeepLanes, _QUEUE),
    partial(DoubtfulKey, 0, 0),
    partial(ExpiringTurns, 0),
    partial(EvictionIndex, ""),
    partial(FairKey, None),
    partial(Fairness, _SETTINGS),
    partial(Group, ""),
    partial(GroupTable, _SETTINGS),
    partial(GroupedLanes, _QUEUE, GroupTable(_SETTINGS)),
    partial(SharedFields, _QUEUE, _ORIGIN, None),
    partial(CompactDelivery, _KIND, _ENTRY),
    partial(OwnerBacklog, None),
    partial(KeyRecord, ("str", "")),
    partial(Lane, FifoOrder(), None, None, 0, 0),
    partial(Lanes, FifoRanker(), None, None),
    partial(LevelledOrder, 1),
    partial(Limits, _SETTINGS),
    partial(LossLedger, 0),
    partial(
        LossRecord, queue="", sequence=0, reason=RemovalReason.EXPIRED, key="", size=0, priority=0, accepted_at=0, at=0,
        publisher="", replaced_by=0,
    ),
    partial(MatchClass, 1, None, None),
    partial(Message, b"", b"", _ORIGIN),
    partial(Origin, "", "", "", ContentView("")),
    partial(PagedLevels, _QUEUE, EmptyArea(), LevelledOrder(1)),
    partial(ParkedSweep, GroupedLanes(_QUEUE, GroupTable(_SETTINGS))),
    partial(PriorityLevels, _SETTINGS),
    partial(Queue, "", _SETTINGS, Effects()),
    *(partial(rule.make, _SETTINGS) for rule in RETENTION_RULES),
    partial(QueueEntry, _QUEUE, _MESSAGE, 0),
    partial(Shelf, None, 0, 0, parked=False),
    partial(SortedRanker, ""),
    partial(StagedRange, HiddenBatch(), 0),
    partial(StrictRanker, _LEVELS),
    partial(UnseenEntries, _QUEUE, []),
    partial(PagedFifo, _QUEUE, EmptyArea(), FifoOrder()),
    partial(WeightedRanker, _LEVELS, ()),
)  # fmt: skip
"""By class, as images name it. Interpreted classes, and those with interpreted subclasses, need none."""


def blank_of(place: str, kind: Any) -> Callable[[], Any]:
    """Return the factory of blanks for a class that is called ``place`` in an image."""
    return BLANKS.get(place, partial(kind.__new__, kind))
