"""The one return path: requeue, recover, rollback, close, connection loss, release, whatever the protocol calls it.

Artemis checks its ring on some of these ways back and not on others (spec artemis §2.4); here there is one way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from annulet.core.base.errors import PreconditionFailed
from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.settings import MOVE_TO_TAIL
from annulet.core.base.sliced_work import AT_ONCE_MAX, SLICE_MESSAGES, SlicedWork
from annulet.core.deliveries.delivery_table import DeliveryTable
from annulet.core.model.compact_messages import CompactDelivery, SharedFields, entry_in
from annulet.core.model.entry import BEHIND_ALL, DELIVERING, PENDING, SCHEDULED, DeliveryCopy
from annulet.core.policies.eviction import eviction_rank
from annulet.core.policies.redelivery_delay import redelivery_delay, redelivery_spread
from annulet.core.queue.return_batch import EndedDeliveries, ReturnBatch
from annulet.core.queue.ring_debt import ReturnExcess

if TYPE_CHECKING:
    from collections.abc import Iterable

    from annulet.core.model.compact_messages import Slot
    from annulet.core.model.consumer import Consumer, DeliveryOwner
    from annulet.core.model.entry import QueueEntry
    from annulet.core.policies.queue_limits import Limits
    from annulet.core.queue.entries import QueueEntries


def return_entries(
    queue: QueueEntries, slots: Iterable[Slot], now: int, *, counted: bool, exclude: Consumer | None
) -> None:
    """Put deliveries back; see :meth:`annulet.core.queue.queue.Queue.return_entries`."""
    queue.note_time(now)
    back: list[QueueEntry] = []
    delayed: list[QueueEntry] = []
    delays = counted and queue.settings.redelivery_delay > 0
    for slot in slots:
        entry = entry_in(slot)
        if isinstance(entry, DeliveryCopy):
            queue.release_copy(entry)
            continue
        if entry.state != DELIVERING or not _take_back(
            queue, entry, now, counted=counted, purges=queue.purges_returned
        ):
            continue
        if exclude is not None:
            _refuse_for(queue, exclude, entry, now)
        if delays:
            delayed.append(entry)
        else:
            back.append(entry)
            queue.insert(entry, arrival=False)
            queue.index_expiry(entry)
        if entry.message.record and counted:
            queue.effects.entry_changed(queue, entry)
    queue.expire_for(sum([entry.message.size for entry in delayed]), now, len(delayed))  # the others are in it already
    queue.update_gate(now)
    queue.consumers.elect()  # a consumer that was cancelled may have held the last; also where nothing is pending
    queue.dispatch(now)
    _delay(queue, delayed, now)
    if delayed and queue.copies is not None:  # a browser does not wait for delayed messages
        queue.copies.serve(now, consumers_too=False)
    _drop_excess(queue, back, now)


def _refuse_for(queue: QueueEntries, consumer: Consumer, entry: QueueEntry, now: int) -> None:
    """Let a consumer not get an entry again. It ends where that needs all of a deep queue in memory and cannot have it.

    So its refused messages are for others, which wait for no message of the rest, and nothing is lost.
    """
    if queue.lanes is None and queue.order.paged_count() and queue.order.pages_behind() is None:
        try:
            queue.read_in("undeliverable-here")
        except PreconditionFailed as error:
            consumer.ended_for = str(error)
            queue.end_consumer(consumer, now, serve=False)
            return
    queue.refuse_for(consumer, entry)


class Returning(SlicedWork):
    """A return of many of which each is judged alone. Nothing is dispatched before the last is back.

    So no consumer gets a later message before an earlier one of them, as if all had been returned at once.
    """

    def __init__(
        self,
        queue: QueueEntries,
        batch: ReturnBatch,
        slice_messages: int,
        *,
        counted: bool,
        exclude: Consumer | None = None,
    ) -> None:
        super().__init__()
        self._exclude = exclude
        self._slice_messages = slice_messages
        self._queue = queue
        self._batch = batch
        self._counted = counted
        self._delays = counted and queue.settings.redelivery_delay > 0
        self._purges = queue.purges_returned
        self._excess: ReturnExcess | None = None  # of a bounded queue
        self._holders: dict[DeliveryOwner, None] = {}  # whose shared window the returned messages have filled
        self.gathers = False  # all of it is of sessions that ended, and may go back together with that of others

    @property
    def left(self) -> int:
        """How many are not back yet, at most."""
        return self._batch.left(self._queue)

    def step(self, now: int) -> bool:
        """Put the next ones back; after the last serve the consumers."""
        queue = self._queue
        if self not in queue.returns:  # another caller could not wait, or returned it with its own
            return False
        queue.note_time(now)
        if self.gathers:
            self._gather()
        plain, order = self._exclude is None and _plain(queue, counted=self._counted), queue.order
        folded: list[CompactDelivery] = []
        to_stay = folded if plain and order.keeps_compact() else None
        following = self._batch.take(queue, self._slice_messages, to_stay)
        if plain:
            following = _back_plainly(queue, following, self._holders, counted=self._counted)
        if folded:
            _back_folded(queue, folded, self._holders, counted=self._counted)
            order.reinsert_folded(folded)
        self._take(following, now)
        if self._batch.left(queue) and not queue.deleted:
            return True
        self.abandon(now)
        if not queue.deleted:
            queue.expire_for(0, now, 0)
            queue.consumers.elect()
            queue.dispatch(now)
            if self._excess is not None and not queue.returns:
                self._excess.pay(now)
            queue.finish(now)
        for session in self._holders:  # its consumers of other queues have waited for room in it
            session.wake(now)
        return False

    def _gather(self) -> None:
        """Put back the deliveries of all ended sessions, in the order of the queue, where they are a large part of its
        deliveries: else very many of others would be looked at for a few.
        """
        queue = self._queue
        self.gathers = False
        if not _plain(queue, counted=True):
            return
        works = [work for work in queue.returns if work.gathers]
        if 2 * (self.left + sum([work.left for work in works])) < len(queue.delivering):
            return
        batches = [self._batch]
        for work in works:
            queue.returns.remove(work)
            batches.append(work.hand_on(self._holders))
        self._batch = EndedDeliveries(queue, batches)

    def hand_on(self, holders: dict[DeliveryOwner, None]) -> ReturnBatch:
        """Have another return put back the rest of this one; its sessions are added to the ``holders`` of that."""
        holders.update(self._holders)
        return self._batch

    def _take(self, entries: list[QueueEntry], now: int) -> None:
        """Put these back, each judged alone."""
        queue = self._queue
        back: list[QueueEntry] = []
        for entry in entries:
            if entry.consumer is not None:
                self._holders[entry.consumer.session] = None
            if isinstance(entry, DeliveryCopy):
                queue.release_copy(entry)
            elif entry.state == DELIVERING and _take_back(
                queue, entry, now, counted=self._counted, purges=self._purges or queue.purges_returned
            ):
                exclude = self._exclude
                if exclude is not None and not exclude.cancelled:
                    _refuse_for(queue, exclude, entry, now)
                back.append(entry)
                if not self._delays:  # at once: a fair key of which nothing is here would lose its turn
                    queue.insert(entry, arrival=False)
                    queue.index_expiry(entry)
        if self._delays:
            _delay(queue, back, now, self._excess)
            return
        if self._counted:
            for entry in back:
                if entry.message.record:
                    queue.effects.entry_changed(queue, entry)
        if self._excess is not None:
            self._excess.take_in(back)

    def begin(self, now: int) -> None:
        """Let dispatch wait for this return, and arrivals of a bounded queue drop nothing before its end."""
        queue = self._queue
        queue.returns.append(self)
        queue.update_gate(now)
        if queue.settings.ring_size < 0 and (queue.limits is None or not queue.limits.evicts):
            return
        if isinstance(queue.ring_debt, ReturnExcess):
            self._excess = queue.ring_debt
            self._excess.reopen()
        else:
            self._excess = ReturnExcess(queue)
            queue.owe(self._excess)

    def abandon(self, now: int) -> None:
        """Let dispatch go on."""
        if self in self._queue.returns:
            self._queue.returns.remove(self)
            self._batch.forget(self._queue)
            self._queue.update_gate(now)


def return_many(
    queue: QueueEntries,
    slots: list[Slot],
    now: int,
    slice_messages: int = SLICE_MESSAGES,
    *,
    counted: bool,
    exclude: Consumer | None = None,
) -> None:
    """Put many deliveries back in slices, the first one now: a queue that is not empty shall not look so."""
    batch = ReturnBatch([queue], DeliveryTable())
    batch.add(queue, slots)
    work = Returning(queue, batch, slice_messages, counted=counted, exclude=exclude)
    work.begin(now)
    if work.step(now):
        queue.effects.later(work, now)


def return_table(
    queues: list[QueueEntries],
    table: DeliveryTable,
    now: int,
    slice_messages: int = SLICE_MESSAGES,
    *,
    gathers: bool = True,
) -> None:
    """Put what a session held back to these queues in slices; ``table`` is used up for that. O(1) for each queue.

    ``gathers``: it may go back together with what other sessions held, which is all that they have in delivery.
    The first slice goes back now where nothing else waits: a queue that is not empty shall not look so.
    """
    batch = ReturnBatch(queues, table)
    works = [Returning(queue, batch, slice_messages, counted=True) for queue in queues]
    for work in works:  # all of them wait before anything is back
        work.begin(now)
    for queue, work in zip(queues, works, strict=True):
        if queue.order.count or work.step(now):
            work.gathers = gathers
            queue.effects.later(work, now)


def finish_returns(queue: QueueEntries, now: int) -> None:
    """Put back now the messages still being returned."""
    while queue.returns:
        work = queue.returns[0]
        while work.step(now):
            pass


def in_slices(queue: QueueEntries, count: int, *, counted: bool, refused: bool = False) -> bool:
    """Return whether a return of ``count`` is more than one turn's work and may take several.

    ``refused``: a consumer does not get them again.
    """
    most = AT_ONCE_MAX if not refused and _plain(queue, counted=counted) else SLICE_MESSAGES
    return count > most and each_alone(queue)


def each_alone(queue: QueueEntries) -> bool:
    """Return whether each message that comes back is judged without looking at the others, but for the room.

    Not where a place may be inherited in between. A fair key gets its turn when its first message is back; a gate opens
    behind the last, as it waits for all deliveries; and whether messages are purged without consumers is found out
    before the first.
    """
    return queue.settings.last_value_place == MOVE_TO_TAIL


def _plain(queue: QueueEntries, *, counted: bool) -> bool:
    """Return whether the message's own time to live is a queue's only condition for returned messages."""
    settings = queue.settings
    if not queue.simple or queue.retention is not None or queue.ages or queue.events is not None:
        return False
    if settings.ring_size >= 0 or settings.max_delivery_attempts > 0:
        return False
    return not (counted and settings.redelivery_delay > 0)


def _back_plainly(
    queue: QueueEntries, entries: list[QueueEntry], holders: dict[DeliveryOwner, None], *, counted: bool
) -> list[QueueEntry]:
    """Do the work for each, for all together where that costs less. Returns those with a time to live, which need more.
    The consumers of the others are added to ``holders``.
    """
    # Each loop is short, so that the processor fetches many entries, then many messages, from memory at a time.
    there = [entry for entry in entries if entry.state == DELIVERING]
    timed = [entry for entry in there if entry.message.expires_at]
    back = [entry for entry in there if not entry.message.expires_at] if timed else there
    holders_here: list[Consumer] = []
    total = pulled = away = away_size = 0
    last, ascending, attempts = -BEHIND_ALL, True, int(counted)
    for entry in back:
        size = entry.message.size
        total += size
        consumer = entry.consumer
        if consumer is not None:
            if not consumer.back:
                holders_here.append(consumer)
            consumer.back += 1
            consumer.back_bytes += size
        if entry.away:
            away += 1
            away_size += size
        elif consumer is None:
            pulled += size
        entry.consumer = None
        entry.redelivered = True
        entry.state = PENDING
        entry.delivery_count += attempts
        ascending = ascending and entry.place > last
        last = entry.place
    for holder in holders_here:
        holder.give_back_slice()
        holders[holder.session] = None
    queue.delivering.discard_all(cast("list[Slot]", back))
    queue.count_delivering(-total)
    queue.count_pending(total)
    queue.counters.messages_returned += len(back)
    if queue.bodies is not None:
        queue.bodies.in_delivery -= away
        queue.bodies.in_delivery_bytes -= away_size
        if away < len(back):
            queue.bodies.left_delivery(back)
        if pulled:
            queue.bodies.came_back(pulled)
    queue.order.reinsert_all(back if ascending else sorted(back))
    if counted:
        queue.effects.entries_changed(queue, back)
    return timed


def _back_folded(
    queue: QueueEntries, folded: list[CompactDelivery], holders: dict[DeliveryOwner, None], *, counted: bool
) -> None:
    """Do for folded messages what :func:`_back_plainly` does for entries; the caller puts them into the order."""
    kinds, size = queue.take_folded(folded)
    for held in folded:
        kind = held.link
        assert isinstance(kind, SharedFields)
        held.link = kind.when_returned(counted=counted)
    for kind in kinds:
        assert kind.consumer is not None
        holders[kind.consumer.session] = None
    queue.count_pending(size)
    queue.counters.messages_returned += len(folded)
    if counted:
        queue.effects.folded_changed(queue, folded)


def _take_back(queue: QueueEntries, entry: QueueEntry, now: int, *, counted: bool, purges: bool) -> bool:
    """Take an entry out of delivery. Returns whether it comes back; else it is finished."""
    pulled = entry.consumer is None and not entry.away
    queue.unmark_delivering(entry)
    queue.counters.messages_returned += 1
    if queue.events is not None:
        queue.events.returned(entry, now)
    entry.redelivered = True
    if counted:
        entry.delivery_count += 1
    reason = _reason_to_go(queue, entry, now, purges=purges)
    if reason is not None:
        queue.finish_removal(entry, reason, now, 0)
    elif queue.bodies is not None:
        queue.bodies.left_delivery([entry])
        if pulled:
            queue.bodies.came_back(entry.message.size)
    return reason is None


def _reason_to_go(queue: QueueEntries, entry: QueueEntry, now: int, *, purges: bool) -> RemovalReason | None:
    """Say why an entry does not come back; attempts are tested before ring and limits (Artemis §2.4)."""
    settings = queue.settings
    expires_at = queue.expires_at(entry)
    if 0 < expires_at <= now:
        return RemovalReason.EXPIRED
    if queue.retention is not None and queue.retention.superseded(entry):
        return RemovalReason.REPLACED_KEY
    if 0 < settings.max_delivery_attempts <= entry.delivery_count:
        return queue.rejection_reason
    return RemovalReason.PURGED if purges else None


def _delay(queue: QueueEntries, entries: list[QueueEntry], now: int, excess: ReturnExcess | None = None) -> None:
    """Schedule delayed returns. A ring or limit that is full now drops it now (spec R20).

    Where limits count scheduled messages, the most important and newest find room first: of a return in slices all are
    scheduled, and the ``excess`` is dropped behind the last.
    """
    limits = queue.limits
    later = excess is not None and limits is not None and limits.counts_all
    rule = queue.settings.evict
    dropped: list[tuple[QueueEntry, RemovalReason]] = []
    for entry in sorted(entries, key=lambda entry: eviction_rank(entry, rule), reverse=True):
        if 0 <= queue.settings.ring_size <= queue.order.count:
            dropped.append((entry, RemovalReason.REPLACED_RING))
            continue
        if limits is not None and limits.evicts and not later and _full(queue, limits):
            dropped.append((entry, RemovalReason.OVERFLOW))
            continue
        spread = redelivery_spread(queue.name, entry.sequence, entry.delivery_count)
        at = now + redelivery_delay(queue.settings, entry.delivery_count, spread)
        entry.state = SCHEDULED
        queue.appoint(entry, at, fresh=False)
        queue.index_expiry(entry)
        queue.effects.wake_at(at)
        if entry.message.record:
            queue.effects.entry_changed(queue, entry)
    if excess is not None and later:
        excess.take_in([entry for entry in entries if entry.state == SCHEDULED])
    for entry, reason in reversed(dropped):  # forwarded messages go in the order in which they would have been dropped
        queue.finish_removal(entry, reason, now, 0)


def _full(queue: QueueEntries, limits: Limits) -> bool:
    """Return whether a limit has no room for one more, deliveries that are being settled in slices not counted."""
    while limits.full(queue):
        if not limits.counts_all or not queue.hurry_settlements():
            return True
    return False


def _drop_excess(queue: QueueEntries, back: list[QueueEntry], now: int) -> None:
    """Drop returned messages that do not fit, least important and oldest first; those pending before stay."""
    ring_size = queue.settings.ring_size
    limits = queue.limits
    ring_full = 0 <= ring_size < queue.order.count
    if not ring_full and (limits is None or not limits.evicts or not queue.exceeds_limits()):
        return
    rule = queue.settings.evict
    for entry in sorted(back, key=lambda entry: eviction_rank(entry, rule)):
        if entry.state != PENDING:
            continue
        if 0 <= ring_size < queue.order.count:
            queue.remove_pending(entry, RemovalReason.REPLACED_RING, now, 0)
        elif limits is not None and limits.evicts and queue.exceeds_limits():
            queue.remove_pending(entry, RemovalReason.OVERFLOW, now, 0)
        else:
            return
        queue.dispatch(now)  # a consumer that lacked room for it may take another, which then need not be dropped
