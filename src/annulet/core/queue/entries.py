"""The collections of a queue, and the moves of entries between them.

Every entry is in exactly one place: the order (pending), the schedule, in delivery, or gone. These methods keep counts,
bytes and indexes true; they decide nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from annulet.core.base.errors import PreconditionFailed
from annulet.core.base.removal_reasons import LOSSES, RemovalReason
from annulet.core.base.settings import MOVE_TO_TAIL
from annulet.core.deliveries.bodies import DAMAGED, LOOK_MESSAGES, REFUSED, QueueBodies, leaves_delivery, let_go
from annulet.core.deliveries.entry_set import EntrySet
from annulet.core.model.entry import PENDING, REMOVED, SCHEDULED, DeliveryCopy, QueueEntry
from annulet.core.model.forwarder import Forwarder
from annulet.core.model.loss_ledger import LossLedger, LossRecord, loss_of
from annulet.core.ordering.order import Order
from annulet.core.ordering.ranks import PriorityLevels, ranker_for
from annulet.core.policies.consumer_turns import CompetingDispatch, live_max_of
from annulet.core.policies.dispatch_gate import Gate
from annulet.core.policies.eviction import eviction_index_for
from annulet.core.policies.expiry import Expiring, ExpiryIndex, expires_at, gives_time, leave_index
from annulet.core.policies.fair_keys import Fairness
from annulet.core.policies.lanes import Lanes
from annulet.core.policies.last_per_key import key_table_for
from annulet.core.policies.matchers import Matchers
from annulet.core.policies.message_groups import GroupTable
from annulet.core.policies.queue_limits import limits_for
from annulet.core.policies.schedule import ScheduleIndex
from annulet.core.policies.staged_batches import (
    HIDES_NOTHING,
    Batches,
    Kept,
    Stretch,
    count_hidden,
    shown,
    shown_appointments,
)
from annulet.core.queue.statistics import QueueCounters
from annulet.core.reading.copies import Copies
from annulet.core.searching.deep_lanes import DeepLanes
from annulet.core.searching.grouped_lanes import GroupedLanes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from annulet.core.base.settings import QueueSettings
    from annulet.core.host.address_accounts import AddressAccounts
    from annulet.core.model.consumer import Consumer
    from annulet.core.model.effects import Effects
    from annulet.core.model.events import QueueEvents
    from annulet.core.queue.emptying import Emptying
    from annulet.core.queue.pull_waits import PullWaiter
    from annulet.core.queue.queue import Queue
    from annulet.core.queue.returning import Returning
    from annulet.core.queue.ring_debt import RingDebt
    from annulet.core.sessions.session import Session
    from annulet.core.sessions.sliced_settlement import Settling

ACKNOWLEDGED: Final = RemovalReason.ACKNOWLEDGED  # looked up once: an Enum's members are found by Python code

DUE_PLACES_FROM: Final = -(1 << 47)
"""Places of scheduled messages that fell due: before all others, in the order in which they fell due. Not so far that
they leave what :data:`annulet.core.model.entry.LEVEL_SPAN` gives to a level."""


class Holdings:
    """State of one queue, and the moves of entries between its places. :class:`annulet.core.queue.queue.Queue`
    commands.
    """

    def __init__(  # noqa: PLR0913 - what a queue is made of
        self,
        name: str,
        settings: QueueSettings,
        effects: Effects,
        ledger: LossLedger | None = None,
        *,
        durable: bool = False,
        auto_delete: bool = False,
        owner: Session | object | None = None,
        queue_id: int = 0,
        forwarder: Forwarder | None = None,
    ) -> None:
        self.name = name
        self.settings = settings
        self.effects = effects
        self.ledger = LossLedger() if ledger is None else ledger
        self.forwarder = Forwarder() if forwarder is None else forwarder
        self.durable, self.auto_delete = durable, auto_delete
        self.owner = owner  # the connection an exclusive queue belongs to; None when it is shared
        self.queue_id = queue_id  # the catalogue's id; 0 for queues that are not durable
        self.levels = PriorityLevels(settings)
        self.ranker = ranker_for(settings, self.levels)
        self.order: Order = self.ranker.new_order()
        self.lanes: Lanes | None = None
        self.copies: Copies | None = None
        self.consumers, self.matchers = CompetingDispatch(live_max_of(settings)), Matchers()
        self.gate = Gate()
        self.gate.open = settings.consumers_before_dispatch <= 1
        self.schedule, self.delivering = ScheduleIndex(), EntrySet()
        self.group_firsts: set[QueueEntry] = set()  # in delivery, and the first of their group since its assignment
        self.counters = QueueCounters()
        self.events: QueueEvents | None = None  # listener of each message's events
        self.bodies: QueueBodies | None = None  # which entries do without their bodies; None: none ever did
        self.pending_bytes = self.delivering_bytes = 0
        self.next_sequence, self.next_due_place = 1, DUE_PLACES_FROM
        self.batches = Batches()  # of its virtual host: arrivals of the current batch are hidden
        self.hidden: list[Stretch] = []  # the invisible part of the pending messages
        self.hidden_from = HIDES_NOTHING  # the first sequence of these
        self.ring_debt: RingDebt | None = None  # a ring is too long because the disk refused to read the victims
        self.accounts: AddressAccounts | None = None  # notified of removals, if addresses have limits
        self.origins: Mapping[str, str] = {}  # the source of each setting, by field
        self.draining: dict[Consumer, int] = {}  # consumers that wait for an answer, and up to which sequence
        self.pull_waiters: dict[PullWaiter, int] = {}  # pulls that wait for a walk, and up to which sequence
        self.arriving: QueueEntry | None = None  # tried once before its time to live of 0 ends it
        self.pins: list[int] = []  # entries up to these sequences are referenced, see core.model.entry_holds
        self.leases: set[tuple[str, str]] = set()  # leases over the queue: users of it that are no consumers
        self.leases_as_consumers = 0  # of them, those that take as a consumer does, which is one taker and not two
        self.had_consumer = self.blocked = False  # auto-delete waits for the first (§1.7.2.1.6); publishers are blocked
        self.last_used_at = 0  # last declare, get or consumer; ``expires`` counts from here
        self.returns: list[Returning] = []  # deliveries on their way back: dispatch waits for the last of them
        self.settling: list[Settling] = []  # deliveries that commands have settled and whose turn has not come
        self.emptying: list[Emptying] = []  # what it was emptied of and the log has not been told of yet
        self.leaving = self.leaving_bytes = 0  # messages of these that are still in memory, and their body bytes
        self.unsent: list[int] = []  # records of removed messages whose copy could not be stored: the next start's
        self.deleted = self.paused = self.turn_asked = self.insists = False  # turn: of ``Queue.scan``
        self.keys = key_table_for(settings)
        self.expiry: ExpiryIndex | None = None
        self.expiring: Expiring | None = None  # very many are being removed whose time has passed
        self.leased: set[int] = set()  # during recovery: sequences that a lease held when the broker ended
        self.configure()
        self._divide(settings)

    def _divide(self, settings: QueueSettings) -> None:
        if settings.group_mode and settings.group_buckets != 0:
            self.use_lanes(GroupTable(settings), None)
        elif settings.fair_key:
            self.use_lanes(None, Fairness(settings))

    def configure(self) -> None:
        """Apply the settings that may change at run time."""
        settings = self.settings
        self.limits = limits_for(settings)
        self.evictions = eviction_index_for(settings)
        self.ages = gives_time(settings)  # messages without their own time may expire here
        self.may_refuse = self.limits is not None and self.limits.rejects
        self.halted = self.paused or not self.gate.open or self.gate.rebalancing or self.sliced
        self.gated = settings.consumers_before_dispatch > 1 or settings.group_rebalance_pause
        self.simple = False
        self.simplify()

    def simplify(self) -> None:
        """Find out whether the short way through arrival and dispatch will do: FIFO, ring, key and time to live."""
        settings = self.settings
        self.simple = (
            not self.ranker.ranks
            and self.lanes is None
            and self.limits is None
            and self.evictions is None
            and self.copies is None
            and not settings.non_destructive
            and not settings.purge_on_no_consumers
            and settings.in_flight_max < 0
            and settings.last_value_place == MOVE_TO_TAIL
            and not self.gated
        )

    def insert(self, entry: QueueEntry, *, arrival: bool) -> None:
        """Make an entry pending; ``arrival``: its place is above all others."""
        entry.state = PENDING
        if arrival:
            self.order.append(entry)
        else:
            self.order.reinsert(entry)
        self.pending_bytes += entry.message.size
        if self.hidden:
            count_hidden(self, entry, 1)
        if self.evictions is not None:
            self.evictions.add(entry, self.order.count)

    def victim(self) -> QueueEntry | None:
        """Return the pending entry that has to go next when the queue is full."""
        return self.order.first() if self.evictions is None else self.evictions.first()

    def require_in_memory(self, reader: str) -> None:
        """Check that all pending messages may be in memory at once, which ``reader`` needs, before anything changes.

        Raises :class:`PreconditionFailed` with the remedy.
        """
        refusal = self.order.reading_refusal()
        if refusal:
            raise PreconditionFailed(f"queue '{self.name}': {reader} has to read all of it, but {refusal}")

    def first_unexpired(self, now: int, most: int = -1) -> QueueEntry | None:
        """Return the next pending entry, removing those before it whose time has passed.

        ``None`` when nothing is pending, or when more than ``most`` (-1: any number) had to be removed.
        """
        entry = self.order.first()
        if self.expiry is None:
            return entry
        while entry is not None:
            at = self.expires_at(entry)
            if not at or at > now or entry is self.arriving:
                return entry
            if most == 0:
                return None
            most -= 1
            self.remove_pending(entry, RemovalReason.EXPIRED, now, 0)
            entry = self.order.first()
        return None

    def take_first(self, entry: QueueEntry) -> None:
        """Remove the first entry of the order, or of its lane."""
        if self.lanes is not None:
            self.lanes.take_head(entry)
        else:
            taken = self.order.take_first()
            assert taken is entry
        self.pending_bytes -= entry.message.size
        if self.evictions is not None:
            self.evictions.compact(self.order.count)

    def unmark_delivering(self, entry: QueueEntry) -> None:
        """Take an entry out of delivery; its next place is the caller's."""
        self.delivering.discard(entry)
        size = entry.message.size
        self.delivering_bytes -= size
        if entry.away:
            leaves_delivery(entry)
        if self.lanes is not None:
            self.lanes.released(entry)
            self.group_firsts.discard(entry)
        if entry.consumer is not None:
            entry.consumer.give_back(size)
            entry.consumer = None

    def release_copy(self, copy: DeliveryCopy) -> None:
        """Take back a browser's or non-destructive consumer's copy.

        A no-op if the queue was deleted in the meantime.
        """
        if self.copies is not None:
            self.copies.release(copy)
            self.leave_copies()

    def leave_copies(self) -> None:
        """Drop the readers' lists when there are no readers and no unsettled copies."""
        copies = self.copies
        if copies is not None and not copies.out and not self.consumers.readers():
            self.copies = None
            self.simplify()

    def refuse_for(self, consumer: Consumer, entry: QueueEntry) -> None:
        """Let ``consumer`` not get an entry, which is out of the order, again."""
        if self.lanes is None:
            self.use_lanes(None, None)
        entry.blocked |= self.matchers.refusal_bit(consumer)

    def remove_pending(self, entry: QueueEntry, reason: RemovalReason, now: int, replaced_by: int) -> None:
        """Take an entry out of the order wherever it is, and finish it."""
        entry.state = REMOVED
        self._leave(entry)
        if self.evictions is not None:
            self.evictions.compact(self.order.count)
        self.finish_removal(entry, reason, now, replaced_by)

    def _leave(self, entry: QueueEntry) -> None:
        """Take an entry out of the order. The caller has set its state to REMOVED."""
        self.pending_bytes -= entry.message.size
        self.order.discard(entry)
        if self.hidden:
            count_hidden(self, entry, -1)

    def withdraw(self, entry: QueueEntry) -> None:
        """Remove a pending entry without a trace: another one replaces it."""
        entry.state = REMOVED
        self._leave(entry)
        if self.keys is not None:
            self.keys.withdraw(entry)
        leave_index(self.expiry, entry)
        if self.accounts is not None:
            self.accounts.released(entry)
        let_go(entry)

    def remove_scheduled(self, entry: QueueEntry, reason: RemovalReason, now: int, replaced_by: int) -> None:
        """Take an entry out of the schedule, and finish it."""
        self.schedule.cancel(entry)
        self.finish_removal(entry, reason, now, replaced_by)

    def remove_waiting(self, entry: QueueEntry, reason: RemovalReason, now: int, replaced_by: int) -> None:
        """Remove an entry that is pending or scheduled; one in delivery stays with its consumer."""
        if entry.state == PENDING:
            self.remove_pending(entry, reason, now, replaced_by)
        elif entry.state == SCHEDULED:
            self.remove_scheduled(entry, reason, now, replaced_by)

    def finish_removal(self, entry: QueueEntry, reason: RemovalReason, now: int, replaced_by: int) -> None:
        """Count, record, forward and settle an entry that was removed from its collection."""
        entry.state = REMOVED
        message = entry.message
        counters = self.counters
        counters.removed[reason] += 1
        counters.bytes_removed += message.size
        if self.events is not None:
            self.events.removed(entry, reason, now)
        if message.away:
            let_go(entry)
        else:
            message.near -= 1
        if self.keys is not None:
            self.keys.forget(entry)
        leave_index(self.expiry, entry)
        if self.accounts is not None:
            self.accounts.released(entry)
        if reason is not ACKNOWLEDGED:
            forwarded = self.forwarder.takes(entry.queue, reason)
            loss = None
            if reason in LOSSES:
                loss = self.note_loss(entry, reason, now, replaced_by, forwarded=forwarded)
            self.effects.removed(entry.queue, entry, reason)
            if forwarded:
                if self.copies is not None and message.record:
                    self.copies.leaving.add(message.record)
                self.forwarder.add(entry.queue, entry, reason, now, loss)
                return
        if message.record:
            self.effects.settle(entry.queue, entry)

    def bring(self, entry: QueueEntry) -> bool:
        """Load the body of a pending entry that is away, together with those of the next ones.

        False when the disk does not give it now; the queue is woken when it may. When it is damaged the entry is passed
        over, and pending no more: look again which is the first.
        """
        assert self.bodies is not None
        found = self.bodies.fetch(entry, self.order)
        if found == DAMAGED:
            self.pass_over(entry)
        return found != REFUSED

    def show(self, entry: QueueEntry, upcoming: Order) -> int:
        """Have the body of an entry at hand for a reader that does not take it, with the next ones it will see.

        Returns ``FOUND``, ``REFUSED`` or ``DAMAGED``; damaged pending ones are skipped.
        """
        assert self.bodies is not None
        messages = [entry.message]
        messages += [other.message for other in upcoming.upcoming(LOOK_MESSAGES) if other is not entry]
        found = self.bodies.look(messages)
        if found == DAMAGED and entry.state == PENDING:
            self.pass_over(entry)
        return found

    def pass_over(self, entry: QueueEntry) -> None:
        """Take out a pending entry whose record is damaged. The record stays in the log: the next start tries again."""
        entry.state = REMOVED
        self.order.discard(entry)
        self.note_unreadable(1, entry.message.size)
        if self.events is not None:
            self.events.removed(entry, RemovalReason.UNREADABLE, 0)
        if self.evictions is not None:
            self.evictions.compact(self.order.count)
        if self.keys is not None:
            self.keys.forget(entry)
        leave_index(self.expiry, entry)
        if self.accounts is not None:
            self.accounts.released(entry)
        let_go(entry)

    def settle_record(self, entry: QueueEntry) -> None:
        """Settle the record of a removed entry whose copy is stored (called by the forwarder)."""
        if entry.message.record:
            if self.copies is not None:
                self.copies.leaving.discard(entry.message.record)
            self.effects.settle(entry.queue, entry)

    def index_expiry(self, entry: QueueEntry) -> None:
        """Index an entry's expiry unless it is indexed already; one delivered on arrival never was."""
        if entry.indexed:
            return
        at = self.expires_at(entry)
        if at:
            if self.expiry is None:
                self.expiry = ExpiryIndex()
            self.expiry.add(at, entry)

    def exceeds_limits(self) -> bool:
        """Return whether there is more than the limits allow, deliveries that are being settled in slices not counted.

        The next slices of those are done for it. Only of a queue with limits.
        """
        limits = self.limits
        assert limits is not None
        while limits.exceeded(self):
            if not limits.counts_all or not self.hurry_settlements():
                return True
        return False

    def hurry_settlements(self) -> bool:
        """Settle some of the deliveries that are being settled in slices. Returns whether there were any."""
        return any(work.hurry() for work in self.settling)

    @property
    def sliced(self) -> bool:
        """Return whether slices follow before which nothing is dispatched."""
        return bool(self.returns) or self.expiring is not None

    def update_gate(self, now: int) -> None:
        """Find out again whether dispatch may go on."""
        if self.gated:
            self.gate.update(self, now)
            if at := self.gate.opens_at(self):
                self.effects.wake_at(at)
        self.halted = self.paused or not self.gate.open or self.gate.rebalancing or self.sliced

    @property
    def users(self) -> int:
        """Consumers and leases: as long as there is one, the queue is in use and not deleted for lack of it."""
        return self.consumers.count + len(self.leases)

    @property
    def takers(self) -> int:
        """Users that take messages, which browsers do not: what ``max-consumers`` counts."""
        return self.consumers.takers + len(self.leases) - self.leases_as_consumers

    @property
    def unattended(self) -> bool:
        """Return whether there are no destructive consumers, the condition of ``purge-on-no-consumers``."""
        return self.takers == 0

    def expires_at(self, entry: QueueEntry) -> int:
        """When an entry expires: the message's time and the queue's bounds put together; 0 for never."""
        at = entry.message.expires_at
        if not self.ages and (at == 0 or self.settings.min_ttl < 0):
            return at
        return expires_at(self.settings, entry)

    def use_lanes(self, groups: GroupTable | None, fairness: Fairness | None) -> None:
        """Split the order into lanes from now on, because consumers are restricted."""
        if groups is None and fairness is None and self.ranker.in_turn:
            lanes: Lanes = DeepLanes(cast("Queue", self))
        elif groups is not None and not self.ranker.ranks:
            lanes = GroupedLanes(cast("Queue", self), groups)
        else:
            lanes = Lanes(self.ranker, groups, fairness)
        if self.order.count:
            lanes.adopt(self.order)
        self.lanes = lanes
        self.order = lanes
        self.simplify()

    def unsettled(self) -> list[QueueEntry]:
        """Return the messages in delivery, by sequence."""
        return self.delivering.entries()

    def remove_all(self, reason: RemovalReason, now: int) -> int:
        """Remove everything pending and scheduled that is not hidden, one by one. Returns how many."""
        if self.order.paged_count():
            removed = self._remove_one_by_one(reason, now)
        else:
            kept = Kept(self)
            pending = shown(self, self.order.entries())
            removed = len(pending)
            self.order.clear()
            self.pending_bytes = 0
            kept.put_back()
            for entry in pending:
                self.finish_removal(entry, reason, now, 0)
        if self.evictions is not None:
            self.evictions.compact(self.order.count)
        scheduled = [appointment.entry for appointment in sorted(shown_appointments(self))]
        for entry in scheduled:
            self.remove_scheduled(entry, reason, now, 0)
        return removed + len(scheduled)

    def _remove_one_by_one(self, reason: RemovalReason, now: int) -> int:
        """Remove pending messages in order, so that those on disk are loaded and removed part by part."""
        count = 0
        while self.order.count:
            entry = self.order.first()
            if entry is None:  # the disk refuses to read it: it is removed unread, or the next start would restore it
                self.order.bring_unread()
                continue
            self.remove_pending(entry, reason, now, 0)
            count += 1
        return count

    def note_unreadable(self, messages: int, size: int) -> None:
        """Count messages that left the order because their records are damaged, and body bytes found to be theirs."""
        self.counters.removed[RemovalReason.UNREADABLE] += messages
        self.counters.bytes_removed += size
        self.pending_bytes -= size

    def reindex(self) -> None:
        """Rebuild the expiry index after the queue's times changed."""
        known = not self.ages or self.order.rows_are_timed()  # when rows expire, if they do
        pending = self.order.in_memory() if known else self.order.entries()
        self.order.retime()
        self.expiry = ExpiryIndex() if self.ages or self.order.paged_count() else None
        for entry in [*self.delivering.unfolded(), *pending, *self.schedule.entries()]:
            entry.indexed = False
            if entry.state in (PENDING, SCHEDULED):
                self.index_expiry(entry)

    def note_loss(
        self, entry: QueueEntry, reason: RemovalReason, now: int, replaced_by: int, *, forwarded: bool = False
    ) -> LossRecord | None:
        """Write a record of a removed entry into the ledger and return it, ``None`` where it is only counted.

        One to be ``forwarded`` is settled later, and the loss is durable only then: see ``LossLedger.settled``.
        """
        durable = entry.message.durable and self.queue_id != 0 and not forwarded
        expiring = self.expiring
        if expiring is not None and expiring.unrecorded and reason is RemovalReason.EXPIRED:
            expiring.unrecorded -= 1
            self.ledger.skip(1, int(durable))
            return None
        record = loss_of(
            self.name, entry, reason, now, durable=durable, replaced_by=replaced_by, settings=self.settings
        )
        self.ledger.add(record)
        return record
