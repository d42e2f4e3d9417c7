"""The collections of a queue, and the moves of entries between them.

Every entry is in exactly one place: the order (pending), the schedule, in delivery, or gone. These methods keep counts,
bytes and indexes true; they decide nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from annulet.core.base.errors import PreconditionFailed
from annulet.core.base.removal_reasons import LOSSES, RemovalReason
from annulet.core.base.settings import MOVE_TO_TAIL
from annulet.core.deliveries.bodies import DAMAGED, LOOK_MESSAGES, REFUSED, claim, leaves_delivery, let_go
from annulet.core.model.entry import DELIVERING, PENDING, REMOVED, SCHEDULED, DeliveryCopy, QueueEntry
from annulet.core.model.loss_ledger import LossRecord, loss_of
from annulet.core.policies.fair_keys import Fairness
from annulet.core.policies.lanes import Lanes
from annulet.core.policies.message_groups import GroupTable
from annulet.core.policies.queue_policies import QueuePolicies
from annulet.core.policies.staged_batches import StagedEntries
from annulet.core.reading.copies import Copies
from annulet.core.searching.deep_lanes import DeepLanes
from annulet.core.searching.grouped_lanes import GroupedLanes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from annulet.core.base.settings import QueueSettings
    from annulet.core.model.compact_messages import CompactDelivery, SharedFields, Slot
    from annulet.core.model.consumer import Consumer, DeliveryOwner
    from annulet.core.model.effects import Effects
    from annulet.core.model.forwarder import Forwarder
    from annulet.core.model.loss_ledger import LossLedger
    from annulet.core.model.order import Order, OrderView
    from annulet.core.model.queue_listeners import ReaderLists
    from annulet.core.queue.emptying import Emptying
    from annulet.core.queue.pull_waits import PullWaiter
    from annulet.core.queue.returning import Returning
    from annulet.core.queue.ring_debt import RingDebt

ACKNOWLEDGED: Final = RemovalReason.ACKNOWLEDGED  # looked up once: an Enum's members are found by Python code

DUE_PLACES_FROM: Final = -(1 << 47)
"""Places of scheduled messages that fell due: before all others, in the order in which they fell due. Not so far that
they leave what :data:`annulet.core.model.entry.LEVEL_SPAN` gives to a level."""


class QueueEntries(QueuePolicies):
    """The entries of one queue, and their moves between its places. :class:`annulet.core.queue.queue.Queue`
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
        owner: object | None = None,
        queue_id: int = 0,
        forwarder: Forwarder | None = None,
    ) -> None:
        super().__init__(
            name,
            settings,
            effects,
            ledger,
            durable=durable,
            auto_delete=auto_delete,
            queue_id=queue_id,
            forwarder=forwarder,
        )
        self.owner = owner  # the connection an exclusive queue belongs to; None when it is shared
        self.copies: Copies | None = None
        self.deep_lanes: DeepLanes | None = None  # the lanes, if messages may stand behind them
        self.next_due_place = DUE_PLACES_FROM
        self.ring_debt: RingDebt | None = None  # a ring is too long because the disk refused to read the victims
        self.origins: Mapping[str, str] = {}  # the source of each setting, by field
        self.draining: dict[Consumer, int] = {}  # consumers that wait for an answer, and up to which sequence
        self.pull_waiters: dict[PullWaiter, int] = {}  # pulls that wait for a walk, and up to which sequence
        self.leases: set[tuple[str, str]] = set()  # leases over the queue: users of it that are no consumers
        self.leases_as_consumers = 0  # of them, those that take as a consumer does, which is one taker and not two
        self.had_consumer = False  # auto-delete waits for the first (§1.7.2.1.6)
        self.last_used_at = 0  # last declare, get or consumer; ``expires`` counts from here
        self.returns: list[Returning] = []  # deliveries on their way back: dispatch waits for the last of them
        self.emptying: list[Emptying] = []  # what it was emptied of and the log has not been told of yet
        self.firing = False  # very many scheduled messages are due and become pending in slices
        self.insists = False  # dispatch reads on although the disk refused
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
        self.set_limits()
        self.may_refuse = self.limits is not None and self.limits.rejects
        self.note_halted(halted=self.paused or not self.gate.open or self.gate.rebalancing or self.sliced)
        self.gated = self.waits_for_consumers()
        if self.is_timed():
            self.note_timed()
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
            self.count_hidden(entry, 1)
        if self.evictions is not None:
            self.evictions.add(entry, self.order.count)

    def require_in_memory(self, reader: str) -> None:
        """Check that all pending messages may be in memory at once, which ``reader`` needs, before anything changes.

        Raises :class:`PreconditionFailed` with the remedy.
        """
        refusal = self.order.reading_refusal()
        if refusal:
            raise PreconditionFailed(f"queue '{self.name}': {reader} has to read all of it, but {refusal}")

    def read_in(self, what: str) -> None:
        """Have all of a deep queue in memory, which ``what`` needs, before anything changes.

        Raises :class:`PreconditionFailed` when that is more than memory takes, or when the disk does not give it now.
        """
        self.require_in_memory(what)
        if not self.order.bring_all():
            raise PreconditionFailed(
                f"queue '{self.name}': {what} has to read all of it, but the disk does not give it now; nothing was "
                "changed, try again when the disk is well"
            )

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

    def mark_delivering(self, entry: QueueEntry, consumer: Consumer | None) -> None:
        """Put an entry that is out of the order into delivery; without a consumer it was pulled."""
        entry.state = DELIVERING
        entry.consumer = consumer
        self.delivering.add(entry)
        size = entry.message.size
        self.delivering_bytes += size
        if self.bodies is not None:
            claim(entry, self.bodies)
        if consumer is not None:
            consumer.take(size)

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

    def compact_delivery(self, entry: QueueEntry, held: CompactDelivery) -> None:
        """Replace a message in delivery by its compact form."""
        self.delivering.exchange(entry, held)

    def expand_delivery(self, entry: QueueEntry) -> None:
        """Replace the compact form of a message in delivery by its entry."""
        self.delivering.expand(entry)

    def take_folded(self, folded: list[CompactDelivery]) -> tuple[list[SharedFields], int]:
        """Take folded messages out of delivery. Returns their kinds, and how many body bytes they are."""
        kinds, size = self.delivering.take_folded(folded)
        self.delivering_bytes -= size
        assert self.bodies is not None
        self.bodies.in_delivery -= len(folded)
        self.bodies.in_delivery_bytes -= size
        return kinds, size

    def end_deliveries(self, entries: list[QueueEntry]) -> dict[DeliveryOwner, None]:
        """Take these out of delivery and mark them as removed: the queue is deleted.

        Returns the sessions that had them. Their consumers get back what the deliveries took of their windows.
        """
        consumers: list[Consumer] = []
        total = away = away_size = 0
        for entry in entries:
            size = entry.message.size
            total += size
            consumer = entry.consumer
            if consumer is not None:
                if not consumer.back:
                    consumers.append(consumer)
                consumer.back += 1
                consumer.back_bytes += size
            if entry.away:
                away += 1
                away_size += size
            entry.consumer = None
            entry.state = REMOVED
        for consumer in consumers:
            consumer.give_back_slice()
        self.delivering.discard_all(cast("list[Slot]", entries))
        self.delivering_bytes -= total
        if self.bodies is not None:
            self.bodies.in_delivery -= away
            self.bodies.in_delivery_bytes -= away_size
        return {consumer.session: None for consumer in consumers}

    def release_copy(self, copy: DeliveryCopy) -> None:
        """Take back a browser's or non-destructive consumer's copy.

        A no-op if the queue was deleted in the meantime.
        """
        if self.copies is not None:
            self.copies.release(copy)
            self.leave_copies()

    def use_copies(self) -> Copies:
        """Keep lists for those that read without taking, from now on."""
        if self.copies is None:
            self.copies = Copies(self)
            self.simplify()
        return self.copies

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
            self.count_hidden(entry, -1)

    def withdraw(self, entry: QueueEntry) -> None:
        """Remove a pending entry without a trace: another one replaces it."""
        entry.state = REMOVED
        self._leave(entry)
        if self.retention is not None:
            self.retention.withdraw(entry)
        self.leave_expiry(entry)
        if self.accounts is not None:
            self.accounts.released(entry)
        let_go(entry)

    def take_back(self, entry: QueueEntry, now: int) -> None:
        """Remove a hidden entry without a trace: its batch could not be committed."""
        if self.deleted:
            return
        if entry.state == PENDING:
            self.withdraw(entry)
            if self.evictions is not None:
                self.evictions.compact(self.order.count)
        elif entry.state == SCHEDULED:
            self.schedule.cancel(entry)
            entry.state = REMOVED
            self.leave_expiry(entry)
            if self.accounts is not None:
                self.accounts.released(entry)
            let_go(entry)
        else:
            return
        self.counters.messages_added -= 1
        self.counters.bytes_added -= entry.message.size
        if self.events is not None:
            self.events.removed(entry, RemovalReason.DELETED, now)

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
        if self.retention is not None:
            self.retention.forget(entry)
        if entry.indexed:
            self.leave_expiry(entry)
        if self.accounts is not None:
            self.accounts.released(entry)
        if reason is not ACKNOWLEDGED:
            forwarded = self.forwarder.takes(self, reason)
            loss = None
            if reason in LOSSES:
                loss = self.note_loss(entry, reason, now, replaced_by, forwarded=forwarded)
            self.effects.removed(self, entry, reason)
            if forwarded:
                if self.copies is not None and message.record:
                    self.copies.leaving.add(message.record)
                self.forwarder.add(self, entry, reason, now, loss)
                return
        if message.record:
            self.effects.settle(self, entry)

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

    def show(self, entry: QueueEntry, upcoming: OrderView) -> int:
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
        if self.retention is not None:
            self.retention.forget(entry)
        self.leave_expiry(entry)
        if self.accounts is not None:
            self.accounts.released(entry)
        let_go(entry)

    def settle_record(self, entry: QueueEntry) -> None:
        """Settle the record of a removed entry whose copy is stored (called by the forwarder)."""
        if entry.message.record:
            if self.copies is not None:
                self.copies.leaving.discard(entry.message.record)
            self.effects.settle(self, entry)

    def reader_lists(self) -> ReaderLists | None:
        """Return the lists of those that read without taking; ``None`` when there are none."""
        return self.copies

    def returned_may_move(self) -> bool:
        """Return whether returned entries may become rows: without lanes, and while no return in slices knows any."""
        return self.lanes is None and not self.returns and (self.ring_debt is None or not self.ring_debt.defers)

    def kept_records(self) -> list[int]:
        """Return the records of messages that an emptied queue keeps: in delivery, hidden, or waiting to be sent on."""
        return self.delivering.records() + self.unsent + self.forwarder.records_of(self) + self.hidden_records()

    def exceeds_limits(self, less: int = 0, less_bytes: int = 0) -> bool:
        """Return whether there is more than the limits allow, deliveries that are being settled in slices not counted.

        ``less`` messages of ``less_bytes`` body bytes do not count either. The next slices of those deliveries are done
        for it. Only of a queue with limits.
        """
        limits = self.limits
        assert limits is not None
        while limits.would_exceed(self, -less, -less_bytes):
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

    def make_room(self, size: int, now: int, count: int = 1) -> None:
        """Before ``count`` messages of ``size`` body bytes come: complete as much of the work in slices as needed.

        So nothing is dropped, and no publisher held back, because of expired messages, or of those that consumers would
        have taken.
        """
        while self.sliced and self.lacks_room(count, size):
            work = self.expiring or self.returns[0]
            work.step(now)

    def lacks_room(self, count: int, size: int) -> bool:
        """Return whether ring or limits would drop messages for this size, or hold publishers back for expired ones.

        Nothing is dropped while messages come back in slices that may be too many.
        """
        if self.ring_debt is not None and self.ring_debt.defers:
            return False
        if 0 <= self.settings.ring_size < self.order.count + count:
            return True
        limits = self.limits
        if limits is None or not (limits.evicts or (limits.blocks and self.expiring is not None)):
            return False
        return limits.would_exceed(self, count, size)

    def update_gate(self, now: int) -> None:
        """Find out again whether dispatch may go on."""
        if self.gated:
            self.gate.update(self, now)
            if at := self.gate.opens_at(self):
                self.effects.wake_at(at)
        self.note_halted(halted=self.paused or not self.gate.open or self.gate.rebalancing or self.sliced)

    @property
    def key_count(self) -> int:
        """Distinct keys of a keep-per-key queue with a message in it; 0 without a key."""
        return 0 if self.retention is None else len(self.retention)

    def note_use(self, now: int) -> None:
        """Note a use of the queue, from which ``expires`` counts."""
        self.last_used_at = now

    def note_consumer(self, now: int) -> None:
        """Note that a consumer came."""
        self.had_consumer = True
        self.note_use(now)

    def note_origins(self, origins: Mapping[str, str]) -> None:
        """Note the source of each setting, by field."""
        self.origins = origins

    def add_lease(self, key: tuple[str, str]) -> None:
        """Count a lease as a user of the queue."""
        self.leases.add(key)

    def end_lease(self, key: tuple[str, str], now: int) -> None:
        """Count it no more."""
        self.leases.discard(key)
        self.note_use(now)

    def count_leases_as_consumers(self, more: int) -> None:
        """Count leases that take as a consumer does, or with a minus sign no longer do."""
        self.leases_as_consumers += more

    def take_due_place(self) -> int:
        """Return the place of a message that falls due now: before all arrivals, behind those due before."""
        place = self.next_due_place
        self.next_due_place += 1
        return place

    def note_firing(self, *, firing: bool) -> None:
        """Note whether very many scheduled messages become pending in slices."""
        self.firing = firing

    def owe(self, debt: RingDebt | None) -> None:
        """Note what a ring has too much because the disk refused to read the victims; ``None``: nothing."""
        self.ring_debt = debt

    def wake_insisting(self, now: int) -> None:
        """Wake the queue for a client that treats no delivery as an empty queue.

        Waits for rows that a thread is reading.
        """
        self.insists = True
        try:
            self.wake(now)
        finally:
            self.insists = False

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

    @property
    def purges_returned(self) -> bool:
        """Return whether messages that come back now are purged."""
        return self.settings.purge_on_no_consumers and self.unattended

    def use_lanes(self, groups: GroupTable | None, fairness: Fairness | None) -> None:
        """Split the order into lanes from now on, because consumers are restricted."""
        if groups is None and fairness is None and self.ranker.in_turn:
            self.deep_lanes = DeepLanes(self)
        elif groups is not None and not self.ranker.ranks:
            self.deep_lanes = GroupedLanes(self, groups)
        lanes = Lanes(self.ranker, groups, fairness) if self.deep_lanes is None else self.deep_lanes
        if self.order.count:
            lanes.adopt(self.order)
        self.order_by(lanes, lanes)
        self.simplify()

    def leave_lanes(self, order: Order) -> None:
        """Have one order again: nothing restricts consumers, and no entry has a lane."""
        self.deep_lanes = None
        self.order_by(order, None)
        self.simplify()

    def take_apart(self) -> None:
        """Break the cycles of a deleted queue."""
        super().take_apart()
        self.deep_lanes = self.ring_debt = None

    @property
    def stock(self) -> Order | None:
        """The order that may have rows: all pending messages, or those behind the lanes, ``None`` without any."""
        return self.order if self.deep_lanes is None else self.deep_lanes.stock

    @property
    def grouped_lanes(self) -> GroupedLanes | None:
        """The lanes, if messages of groups may stand behind them."""
        return None if self.deep_lanes is None else self.deep_lanes.as_grouped()

    def message_count(self) -> int:
        """Return how many messages clients may know of: pending, scheduled and in delivery, each once."""
        return self.shown_count() + self.shown_scheduled() + len(self.delivering)

    def unsettled(self) -> list[QueueEntry]:
        """Return the messages in delivery, by sequence."""
        return self.delivering.entries()

    def remove_all(self, reason: RemovalReason, now: int) -> int:
        """Remove everything pending and scheduled that is not hidden, one by one. Returns how many."""
        if self.order.paged_count():
            removed = self._remove_one_by_one(reason, now)
        else:
            kept = StagedEntries(self)
            pending = self.shown(self.order.entries())
            removed = len(pending)
            self.order.clear()
            self.pending_bytes = 0
            kept.put_back()
            for entry in pending:
                self.finish_removal(entry, reason, now, 0)
        if self.evictions is not None:
            self.evictions.compact(self.order.count)
        scheduled = [appointment.entry for appointment in sorted(self.shown_appointments())]
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
        retention = self.retention
        rule = retention.rule if retention is not None and reason is RemovalReason.REPLACED_KEY else ""
        record = loss_of(
            self.name,
            entry,
            reason,
            now,
            durable=durable,
            replaced_by=replaced_by,
            settings=self.settings,
            rule=rule,
        )
        self.ledger.add(record)
        return record
