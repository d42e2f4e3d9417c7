"""The policies of one queue, made from its settings: what rooms above policies read beside the queue's state.

:class:`annulet.core.queue.entries.QueueEntries` moves entries by them. A policy of a queue is a field here, ``None``
where its settings ask for none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.sliced_work import SLICE_MESSAGES
from annulet.core.deliveries.entry_set import EntrySet
from annulet.core.model.entry import PENDING, SCHEDULED
from annulet.core.model.queue_state import HIDES_NOTHING, QueueState
from annulet.core.ordering.ranks import PriorityLevels, ranker_for
from annulet.core.policies.consumer_turns import ConsumerTurns, live_max_of
from annulet.core.policies.dispatch_gate import Gate
from annulet.core.policies.eviction import eviction_index_for
from annulet.core.policies.expiry import Expiring, ExpiryIndex, expires_at, gives_time, leave_index
from annulet.core.policies.matchers import Matchers
from annulet.core.policies.queue_limits import limits_for
from annulet.core.policies.retention_rules import retention_for
from annulet.core.policies.row_expiry import expire, next_expiry
from annulet.core.policies.schedule import ScheduleIndex
from annulet.core.policies.staged_batches import Batches, StagedRange
from annulet.core.policies.timed_queues import TimedQueues

if TYPE_CHECKING:
    from annulet.core.base.settings import QueueSettings
    from annulet.core.message.message import Message
    from annulet.core.model.consumer import Consumer
    from annulet.core.model.effects import Effects
    from annulet.core.model.entry import QueueEntry
    from annulet.core.model.forwarder import Forwarder
    from annulet.core.model.loss_ledger import LossLedger
    from annulet.core.model.order import Order
    from annulet.core.policies.lanes import Lanes
    from annulet.core.policies.schedule import Appointment


class QueuePolicies(QueueState):
    """The state of one queue with its policies."""

    def __init__(
        self,
        name: str,
        settings: QueueSettings,
        effects: Effects,
        ledger: LossLedger | None,
        *,
        durable: bool,
        auto_delete: bool,
        queue_id: int,
        forwarder: Forwarder | None,
    ) -> None:
        levels = PriorityLevels(settings)
        ranker = ranker_for(settings, levels)
        super().__init__(
            name,
            settings,
            effects,
            ranker.new_order(),
            ledger=ledger,
            durable=durable,
            auto_delete=auto_delete,
            queue_id=queue_id,
            forwarder=forwarder,
        )
        self.levels = levels
        self.ranker = ranker
        self.lanes: Lanes | None = None  # the order, if consumers are restricted
        self.consumers = ConsumerTurns(live_max_of(settings))
        self.matchers = Matchers()
        self.gate = Gate()
        self.gate.open = settings.consumers_before_dispatch <= 1
        self.schedule, self.delivering = ScheduleIndex(), EntrySet()
        self.group_firsts: set[QueueEntry] = set()  # in delivery, and the first of their group since its assignment
        self.batches = Batches()  # of its virtual host: arrivals of the current batch are hidden
        self.timed = TimedQueues()  # of its virtual host
        self.hidden: list[StagedRange] = []  # the invisible part of the pending messages
        self.arriving: QueueEntry | None = None  # tried once before its time to live of 0 ends it
        self.retention = retention_for(settings)
        self.expiry: ExpiryIndex | None = None
        self.expiring: Expiring | None = None  # very many are being removed whose time has passed
        self.set_limits()

    def set_limits(self) -> None:
        """Apply the settings that may change at run time."""
        settings = self.settings
        self.limits = limits_for(settings)
        self.evictions = eviction_index_for(settings)
        self.ages = gives_time(settings)

    # ------------------------------------------------------------------ facts

    def level_of(self, message: Message) -> int:
        """Return a message's priority level; 0 where all messages are equally important."""
        return self.levels.level_of(message)

    def expires_at(self, entry: QueueEntry) -> int:
        """When an entry expires: the message's time and the queue's bounds put together; 0 for never."""
        at = entry.message.expires_at
        if not self.ages and (at == 0 or self.settings.min_ttl < 0):
            return at
        return expires_at(self.settings, entry)

    def message_count(self) -> int:
        """Return how many messages there are: pending, scheduled and in delivery."""
        return self.order.count + self.schedule.count + len(self.delivering)

    def readable_count(self) -> int:
        """Return how many messages its readers may see: pending ones and those in delivery."""
        return self.order.count + len(self.delivering)

    def outranks(self, consumer: Consumer) -> bool:
        """Return whether a consumer comes before others of its queue by priority."""
        return self.consumers.outranks(consumer)

    def is_group_first(self, entry: QueueEntry) -> bool:
        """Return whether a delivered message is the first of its group since the group was assigned."""
        return entry in self.group_firsts

    def victim(self) -> QueueEntry | None:
        """Return the pending entry that has to go next when the queue is full."""
        return self.order.first() if self.evictions is None else self.evictions.first()

    def pageable(self) -> bool:
        """Return whether pending messages may be on disk only: nothing but the order knows of them.

        That is first in, first out, or so on each level of strict priorities, or sorted by a key.

        So may one with selectors, unless it is sorted: its rows are behind its lanes, see
        :mod:`annulet.core.searching.deep_lanes`.
        """
        limits, ranker, lanes = self.limits, self.ranker, self.lanes
        if (
            self.queue_id == 0
            or self.deleted
            or not (ranker.in_turn or ranker.sorts)
            or (lanes is not None and not (lanes.may_page() and ranker.in_turn))
            or self.retention is not None
            or self.evictions is not None
            or (self.settings.non_destructive and ranker.ranks)
            or (limits is not None and limits.pages and limits.max_bytes >= 0)
        ):
            return False
        readers = self.reader_lists()
        return readers is None or readers.may_page()

    def due_at(self, entry: QueueEntry) -> int:
        """When a scheduled entry falls due; 0 when it is not scheduled."""
        return self.schedule.at(entry)

    def needs_object(self, entry: QueueEntry) -> bool:
        """Return whether an account, a reader or a lane refers to a pending entry, which is no row therefore.

        An address with limits finds its count by the message, which a row does not have. The results of selectors
        matter only in lanes: elsewhere they were asked for readers, and may be again. Of groups only the messages
        behind the lanes may be rows.
        """
        lanes = self.lanes
        if lanes is not None and (entry.evaluated or entry.blocked or (entry.lane is not None and not lanes.plain)):
            return True
        if self.accounts is not None and self.accounts.counted(entry.message):
            return True
        readers = self.reader_lists()
        return readers is not None and readers.is_pinned(entry)

    def may_compact(self) -> bool:
        """Return whether only the tables of queue and session know of messages in delivery: these may be compacted."""
        return (
            self.lanes is None
            and self.retention is None
            and self.accounts is None
            and not self.ages
            and not self.deleted
            and self.reader_lists() is None
        )

    def order_by(self, order: Order, lanes: Lanes | None) -> None:
        """Have another order of the same entries; ``lanes``: the same, if consumers are restricted."""
        self.use_order(order)
        self.lanes = lanes
        if lanes is not None:
            self.note_timed()

    def take_apart(self) -> None:
        """Break the cycles of a deleted queue, so that no garbage collection has to find it.

        Structures that skip removed entries later still have some, and each entry has its queue.
        """
        if self.lanes is not None:
            self.lanes.take_apart()
        self.order_by(self.ranker.new_order(), None)
        self.schedule = ScheduleIndex()
        self.group_firsts.clear()
        self.timed.discard(self)

    def detach_schedule(self) -> ScheduleIndex:
        """Take out the schedule with all that is in it."""
        schedule = self.schedule
        self.schedule = ScheduleIndex()
        return schedule

    def appoint(self, entry: QueueEntry, at: int, *, fresh: bool, schedule_id: str = "") -> None:
        """Schedule an entry for ``at`` (milliseconds since 1970), see :meth:`ScheduleIndex.add`."""
        self.schedule.add(entry, at, fresh=fresh, schedule_id=schedule_id)
        self.note_timed()

    # ------------------------------------------------------------------ ticks

    def note_timed(self) -> None:
        """Something may fall due here from now on: have ticks visit the queue."""
        self.timed.add(self)

    def is_timed(self) -> bool:
        """Return whether something can fall due here. Whatever begins that calls :meth:`note_timed`."""
        return (
            self.expiry is not None
            or self.lanes is not None
            or self.schedule.size > 0
            or self.waits_for_consumers()
            or self.settings.expires >= 0
        )

    def waits_for_consumers(self) -> bool:
        """Return whether consumers that come and go open and close the queue."""
        settings = self.settings
        return settings.consumers_before_dispatch > 1 or settings.group_rebalance_pause

    def use_timed(self, timed: TimedQueues, *, always: bool = False) -> None:
        """Register with a virtual host's queues from now on; ``always``: at once, with nothing due either."""
        self.timed = timed
        if always or self.is_timed():
            self.note_timed()

    # ------------------------------------------------------------------ the index of expiry

    def index_expiry(self, entry: QueueEntry) -> None:
        """Index an entry's expiry unless it is indexed already; one delivered on arrival never was."""
        if entry.indexed:
            return
        at = self.expires_at(entry)
        if at:
            self.use_expiry().add(at, entry)

    def use_expiry(self) -> ExpiryIndex:
        """Return the index of expiry, which is made when the first message may expire."""
        if self.expiry is None:
            self.expiry = ExpiryIndex()
            self.note_timed()
        return self.expiry

    def reindex(self) -> None:
        """Rebuild the expiry index after the queue's times changed."""
        known = not self.ages or self.order.rows_are_timed()  # when rows expire, if they do
        pending = self.order.in_memory() if known else self.order.entries()
        self.order.retime()
        self.expiry = None
        if self.ages or self.order.paged_count():
            self.use_expiry()
        for entry in [*self.delivering.unfolded(), *pending, *self.schedule.entries()]:
            entry.indexed = False
            if entry.state in (PENDING, SCHEDULED):
                self.index_expiry(entry)

    def leave_expiry(self, entry: QueueEntry) -> None:
        """Remove an entry that left early, or became a row, from the index of expiry, if present."""
        leave_index(self.expiry, entry)

    # ------------------------------------------------------------------ expiry

    def expire_due(self, now: int) -> int:
        """Remove expired messages, wherever they wait. Returns how many went at once.

        More than a slice are removed in slices; the queue dispatches nothing until the end, and removes more at once if
        an arrival would lack room.
        """
        if self.expiry is None or self.expiring is not None:
            self.note_time(now)
            return 0
        removed = self.counters.removed
        before = removed[RemovalReason.EXPIRED]
        self.expire_some(now, SLICE_MESSAGES)
        if self.has_expired(now):
            self.expire_later(now)
        return removed[RemovalReason.EXPIRED] - before

    def expire_for(self, size: int, now: int, count: int = 1) -> int:
        """As :meth:`expire_due`, before ring and limits judge ``count`` messages of ``size`` body bytes in an arrival
        or a return: enough expired messages are removed at once that they cause no drop and no block.
        """
        expired = self.expire_due(now)
        while self.expiring is not None and self.has_expired(now) and self.lacks_room(count, size):
            self.expire_some(now, SLICE_MESSAGES)
        return expired

    def expire_some(self, now: int, most: int) -> None:
        """Remove up to ``most`` (-1: all) expired messages."""
        if self.expiry is not None:
            expire(self, self.expiry, now, most)

    def expire_later(self, now: int) -> None:
        """Remove expired messages in slices, before any dispatch."""
        if self.expiring is None:
            work = Expiring(self, now)
            self.expiring = work
            if self.lanes is not None and self.lanes.fairness is not None:
                self.lanes.fairness.expiry_begins(now, self.next_sequence - 1)
            self.update_gate(now)
            self.effects.later(work, now)

    def note_time(self, now: int) -> None:
        """Note the time of what arrives or comes back next: a fair key may lose its turn by then."""
        if self.expiring is not None and self.lanes is not None and self.lanes.fairness is not None:
            self.lanes.fairness.note_time(now)

    def expiry_ended(self, now: int) -> None:
        """The last slice is done, or will not be: let dispatch go on."""
        self.expiring = None
        if self.lanes is not None and self.lanes.fairness is not None:
            self.lanes.fairness.expiry_ends()
        self.update_gate(now)

    def has_expired(self, now: int) -> bool:
        """Return whether present messages may have expired."""
        return self.expiry is not None and 0 < next_expiry(self.order, self.expiry, now) <= now

    def next_expiry_at(self) -> int:
        """When the next message expires (milliseconds since 1970), or somewhat earlier; 0 for never."""
        return next_expiry(self.order, self.expiry, -1)

    # ------------------------------------------------------------------ the invisible part, see staged_batches

    def count_hidden(self, entry: QueueEntry, change: int) -> None:
        """Count a message that became pending (1), or is it no more (-1), if it is hidden."""
        if entry.sequence < self.hidden_from:
            return
        for stretch in reversed(self.hidden):
            if entry.sequence >= stretch.sequence:
                stretch.count += change
                stretch.bytes += change * entry.message.size
                return

    def shown(self, entries: list[QueueEntry]) -> list[QueueEntry]:
        """Return those of these entries of the queue that it does not hide."""
        if not self.hidden:
            return entries
        first = self.hidden_from
        return [entry for entry in entries if entry.sequence < first]

    def shown_appointments(self) -> list[Appointment]:
        """Return the appointments that are not hidden, in no order."""
        appointments = self.schedule.snapshot()
        if not self.hidden:
            return appointments
        first = self.hidden_from
        return [appointment for appointment in appointments if appointment.entry.sequence < first]

    def shown_count(self) -> int:
        """Return how many messages are pending that are not hidden."""
        return self.order.count - sum([stretch.count for stretch in self.hidden])

    def shown_bytes(self) -> int:
        """Return the body bytes of these."""
        return self.pending_bytes - sum([stretch.bytes for stretch in self.hidden])

    def shown_scheduled(self) -> int:
        """Return how many messages are scheduled that are not hidden."""
        return len(self.shown_appointments()) if self.hidden else self.schedule.count

    def shown_scheduled_bytes(self) -> int:
        """Return the body bytes of these."""
        if not self.hidden:
            return self.schedule.bytes
        return sum([appointment.entry.message.size for appointment in self.shown_appointments()])

    def hidden_records(self) -> list[int]:
        """Return the records of hidden messages, 0 if unstored. O(messages in memory)."""
        if not self.hidden:
            return []
        first = self.hidden_from
        there = [*self.order.in_memory(), *self.schedule.entries()]
        return [entry.message.record for entry in there if entry.sequence >= first]

    def forget_hidden(self) -> None:
        """Stop hiding: the queue is being deleted with its hidden messages."""
        for stretch in self.hidden:
            stretch.batch.queues.pop(self, None)
        self.hidden = []
        self.hidden_from = HIDES_NOTHING
