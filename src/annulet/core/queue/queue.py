"""A queue: a composition of order, retention, dispatch and time, with counters and one return path.

Deterministic: no clock, no I/O. ``now`` is milliseconds since 1970; work outside goes to ``Effects``. Here are the
commands; the state is in :mod:`entries`, the rules in :mod:`arrival`, :mod:`delivery`, :mod:`returning`,
:mod:`attachment` and one module per policy. Rules: design §2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.sliced_work import AT_ONCE_MAX, SLICE_MESSAGES
from annulet.core.model.entry import DELIVERING, PENDING, SCHEDULED, DeliveryCopy, QueueEntry, sequence_of
from annulet.core.policies.expiry import times_of
from annulet.core.queue import (
    arrival,
    delivery,
    draining,
    live_changes,
    pull_waits,
    restoring,
    returning,
)
from annulet.core.queue.attachment import Attachment
from annulet.core.queue.continued_dispatch import go_on_later
from annulet.core.queue.entries import ACKNOWLEDGED, QueueEntries
from annulet.core.queue.pulling import Pull
from annulet.core.queue.purging import Purge
from annulet.core.queue.ring_debt import ReturnExcess, make_way, trim_ring
from annulet.core.queue.statistics import QueueStatistics, statistics_of
from annulet.core.searching import selector_walk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from annulet.core.base.settings import QueueSettings
    from annulet.core.message.message import Message
    from annulet.core.model.compact_messages import Slot
    from annulet.core.model.consumer import Consumer, DeliveryOwner
    from annulet.core.model.queue_state import QueueState
    from annulet.core.queue.pull_waits import PullWaiter


class Queue(QueueEntries):
    """One queue. Public calls leave it with its limits enforced and nothing deliverable left undelivered, but for what
    a thread is reading: see :meth:`QueueArea.coming`."""

    # ------------------------------------------------------------------ arrivals

    def enqueue(self, message: Message, now: int) -> QueueEntry:
        """Accept a message: replace by key, serve consumers with credit, then apply ring and limits.

        Returns its entry, whose state says what became of it. Never refuses: ask :meth:`refusal` before.
        """
        if self.halted and self.sliced:
            self.make_room(message.size, now)
        entry = QueueEntry(self, message, self.next_sequence)
        self.next_sequence += 1
        size = message.size
        self.counters.messages_added += 1
        self.counters.bytes_added += size
        batch = self.batches.current
        if batch is not None:
            batch.take_in(self, entry)
        if self.events is not None:
            self.events.accepted(entry, now)
        if self.simple and not message.deliver_at:
            self._enqueue_simple(entry, size, now)
            if self.forwarder.waiting:
                self.forwarder.flush(now)
        else:
            arrival.accept(self, entry, now)
            self.finish(now)
        return entry

    def put_back(self, message: Message, sequence: int, since: int, now: int) -> QueueEntry:
        """Accept a message that an operator had taken away, under its id ``sequence``, which no other message has.

        It stands where it stood. ``since``: when it became pending, for ranks by age. What a ring, a limit or a key has
        no room for in that place is dropped as if it had never left; a message that is no longer wanted is the one.
        Never refuses.
        """
        if self.halted and self.sliced:
            self.make_room(message.size, now)
        entry = QueueEntry(self, message, sequence)
        self.continue_from(sequence + 1)
        self.counters.messages_added += 1
        self.counters.bytes_added += message.size
        if self.events is not None:
            self.events.accepted(entry, now)
        expired = self.expire_for(message.size, now)
        if self.settings.purge_on_no_consumers and self.unattended:
            self.finish_removal(entry, RemovalReason.PURGED, now, 0)
        elif message.deliver_at > now:
            arrival.schedule(self, entry, now)
        else:
            self._stand_again(entry, since, now)
        if expired:  # as for an arrival
            self.dispatch(now)
        self.finish(now)
        return entry

    def _stand_again(self, entry: QueueEntry, since: int, now: int) -> None:
        """Do what :func:`arrival.admit` does, but at the entry's place among the others."""
        retention, before = self.retention, self.order.count
        if retention is not None:
            superseded = retention.accept(entry, recovering=True)
            if superseded is not None and superseded is not entry:
                self.remove_waiting(superseded, RemovalReason.REPLACED_KEY, now, entry.sequence)
            if retention.superseded(entry):
                self.finish_removal(entry, RemovalReason.REPLACED_KEY, now, 0)
                return
        if 0 < self.expires_at(entry) <= now:
            self.finish_removal(entry, RemovalReason.EXPIRED, now, 0)
            return
        self.ranker.assign(entry, since)
        self.insert(entry, arrival=False)
        self.index_expiry(entry)
        if self.copies is not None:
            self.copies.put_back(entry)
        self.dispatch(now)
        arrival.enforce_ring(self, entry, before, now, due=False)
        arrival.enforce_limits(self, now, entry)

    def _enqueue_simple(self, entry: QueueEntry, size: int, now: int) -> None:  # noqa: C901 - calls would cost more
        """Do what :mod:`arrival` does, for the queues and messages most brokers are full of."""
        message = entry.message
        order = self.order
        if self.expiry is not None:  # expired messages neither count nor precede the arrival
            self.expire_for(size, now)
        pending_before = order.count
        if self.retention is not None:
            superseded = self.retention.accept(entry)
            if superseded is not None:
                self.remove_waiting(superseded, RemovalReason.REPLACED_KEY, now, entry.sequence)
        timed = message.expires_at != 0 or self.ages
        if timed and 0 < self.expires_at(entry) < now:
            self.finish_removal(entry, RemovalReason.EXPIRED, now, 0)  # in its transaction; a TTL of 0 is tried once
            self.dispatch(now)
            return
        if self.consumers.count and not self.halted:
            if order.count:  # the obstacle may just have been replaced or have expired
                delivery.dispatch_plain(self, now)
            if order.count == 0 and not self.hidden:
                consumer = self.consumers.choose(size)
                if consumer is not None:
                    delivery.hand_over(self, consumer, entry, now)
                    return
        order.append(entry)
        self.pending_bytes += size
        if self.hidden:
            self.count_hidden(entry, 1)
        if timed and (at := self.expires_at(entry)):
            if at <= now:
                self.remove_pending(entry, RemovalReason.EXPIRED, now, 0)
                return
            self.index_expiry(entry)
        ring_size = self.settings.ring_size
        if (0 <= ring_size < order.count and order.count > pending_before) or self.ring_debt is not None:
            make_way(self, entry, pending_before, now)

    def refusal(self, message: Message, more: int = 0, more_bytes: int = 0) -> str:
        """Return why ``overflow=reject`` refuses a message now; empty when it does not.

        ``more`` messages of ``more_bytes`` body bytes are let in before it, as in a transaction.
        """
        if self.limits is None or not self.limits.rejects:
            return ""
        text = self.limits.refusal(self, message.size, more, more_bytes)
        while text and self.expiring is not None:
            self.expiring.hurry()
            text = self.limits.refusal(self, message.size, more, more_bytes)
        while text and self.limits.counts_all and self.hurry_settlements():
            text = self.limits.refusal(self, message.size, more, more_bytes)
        return text

    # ------------------------------------------------------------------ recovery

    def restore(
        self, message: Message, sequence: int, *, redelivered: bool, delivery_count: int = 0, deliver_at: int = -1
    ) -> QueueEntry:
        """Put back a message found at recovery, at the place ``sequence`` names.

        ``deliver_at``: until when it waited (milliseconds since 1970), 0 when it was pending, -1 when only the message
        says. Limits lowered meanwhile trim nothing (``ring-trim``). Call :meth:`finish_restore` after the last one.
        """
        return restoring.restore(self, message, sequence, redelivered, delivery_count, deliver_at)

    def finish_restore(self, next_sequence: int, torn: int = 0, now: int = 0) -> None:
        """End recovery: sequences go on after the highest ever used; each message counts once, ``torn`` as arrivals."""
        restoring.finish_restore(self, next_sequence, torn, now)

    def expect_leased(self, sequences: Iterable[int]) -> None:
        """Before recovery: :meth:`restore` puts these into delivery, :meth:`leased_entries` hands them out."""
        self.leased.update(sequences)

    def leased_entries(self) -> list[QueueEntry]:
        """Return what recovery put into delivery, by sequence. Before any consumer may attach."""
        return self.unsettled()

    # ------------------------------------------------------------------ consumers

    def add_consumer(self, consumer: Consumer, now: int) -> None:
        """Attach a consumer and serve it."""
        consumer.attached_at = now
        self.note_consumer(now)
        self.expire_due(now)
        Attachment(self).attach(consumer, now)
        self.finish(now)

    def remove_consumer(self, consumer: Consumer, now: int, *, serve: bool = True) -> None:
        """Detach a consumer. Its deliveries stay with its session (AMQP 0-9-1 §1.8.3.5).

        ``serve=False``: the caller returns its deliveries and then calls :meth:`wake`, so that nothing overtakes them.
        """
        consumer.cancelled = True
        self.note_use(now)
        Attachment(self).detach(consumer, now, serve=serve)
        self.finish(now)

    def end_consumer(self, consumer: Consumer, now: int, *, serve: bool = True) -> None:
        """Cancel a consumer from this side: a browser that has seen everything, or for its ``ended_for``."""
        if not consumer.cancelled:
            self.remove_consumer(consumer, now, serve=serve)
            self.effects.consumer_cancelled(consumer)

    def wake(self, now: int) -> None:
        """Serve consumers after credit or room in their connection came back, or deliveries were settled."""
        if self.consumers.live_max >= 0:
            # Also with nothing to serve: the next consumer does not depend on the time of arrival.
            self.consumers.elect()
        if self.simple:
            if self.order.count and self.consumers.count and not self.halted:
                delivery.dispatch_plain(self, now)
            if self.forwarder.waiting:
                self.forwarder.flush(now)
            if self.draining:
                draining.settle(self)
            return
        self.update_gate(now)
        self.dispatch(now)
        self.finish(now)

    def drain(self, consumer: Consumer, now: int) -> None:
        """Hand a consumer all there is for it, then tell its session: ``Session.nothing_more``, perhaps at once.

        Waits for walks and reads that may find something. A repetition while it waits covers later arrivals.
        """
        draining.begin(self, consumer, now)

    def stop_draining(self, consumer: Consumer) -> None:
        """Tell the session nothing: the consumer waits for messages as others do."""
        self.draining.pop(consumer, None)

    def ask_disk_again(self, now: int) -> None:
        """Serve consumers, and drop what a ring could not, of what a disk refused that may give it now."""
        if not self.deleted:
            self.wake(now)
            if self.ring_debt is not None:
                self.ring_debt.tick(now)

    def dispatch(self, now: int) -> None:
        """Hand messages to consumers until one side runs out."""
        delivery.dispatch(self, now)

    def scan(self, now: int, messages: int = selector_walk.LOOK_MESSAGES) -> bool:
        """Look at a few messages of a deep backlog for browsers and for consumers with selectors, and hand them out.

        Returns whether there is more to look at for selectors, of which it asks about so many ``messages`` at most.
        """
        self.note_turn(asked=False)
        self.matchers.steps = 0
        if self.copies is not None and not self.deleted:
            self.copies.read_on(now)
            go_on_later(self, now)
        more = False
        if not self.deleted and self.deep_lanes is not None:
            served, more = selector_walk.scan(self, self.deep_lanes, messages)
            if served:
                self.wake(now)
        if self.draining:
            draining.settle(self)
        if self.pull_waiters:
            pull_waits.settle(self)
        return more

    def acquire(
        self, messages_max: int, bytes_max: int, now: int, *, last_sequence: int = 0, consumer: Consumer | None = None
    ) -> list[QueueEntry]:
        """Take messages by pull (``basic.get``, lease): they are in delivery when this returns.

        At most ``messages_max`` messages and ``bytes_max`` body bytes (-1: no limit; one message always fits). Those
        with a sequence above ``last_sequence`` (0: no limit) are passed over, at O(log n) each. Nothing while the queue
        is paused, its gate is shut, or messages come back or expire in slices, for which :meth:`await_pull` waits. On a
        non-destructive queue copies of the first messages.
        """
        self.note_use(now)
        taken = Pull(self, consumer, now).take(messages_max, bytes_max, last_sequence)
        self.wake(now)  # the taken message may have been too large for a consumer, the next one not
        return taken

    def await_pull(self, waiter: PullWaiter, upto: int, now: int) -> bool:
        """Announce the next attempt to the caller of a pull without result, as messages below ``upto`` are still
        examined.

        False when none are: there is nothing for it.
        """
        return pull_waits.begin(self, waiter, upto, now)

    def stop_awaiting(self, waiter: PullWaiter) -> None:
        """Tell it nothing."""
        self.pull_waiters.pop(waiter, None)

    # ------------------------------------------------------------------ settlement

    def acknowledge(self, entry: QueueEntry) -> None:
        """A delivered message was processed: it is gone. A no-op when the queue was deleted meanwhile.

        Call :meth:`wake` when all settlements of a turn are in.
        """
        if isinstance(entry, DeliveryCopy):
            self.release_copy(entry)
        elif entry.state == DELIVERING and not self.deleted:
            self.unmark_delivering(entry)
            self.finish_removal(entry, ACKNOWLEDGED, 0, 0)

    def reject(self, entry: QueueEntry, now: int) -> None:
        """A delivered message was refused without requeue: to the dead-letter target if there is one, else dropped."""
        if isinstance(entry, DeliveryCopy):
            self.release_copy(entry)
        elif entry.state == DELIVERING and not self.deleted:
            self.unmark_delivering(entry)
            self.finish_removal(entry, self.rejection_reason, now, 0)
            self.finish(now)

    @property
    def rejection_reason(self) -> RemovalReason:
        """Why a message leaves that its consumers refuse for good."""
        if self.forwarder.takes(self, RemovalReason.DEAD_LETTERED):
            return RemovalReason.DEAD_LETTERED
        return RemovalReason.REJECTED

    def return_entries(
        self, entries: Iterable[Slot], now: int, *, counted: bool = True, exclude: Consumer | None = None
    ) -> None:
        """The one return path: requeue, recover, rollback, close, connection loss, release.

        Each takes its original place, at once or after the redelivery delay. Expired messages expire, those superseded
        by key are dropped, those delivered too often are dead-lettered; consumers with credit are served; then the
        excess over ring or limits is dropped, least important and oldest first. ``counted=False`` leaves the delivery
        count alone and does not delay (AMQP 1.0 ``released``); ``exclude`` does not get them again (AMQP 1.0
        ``undeliverable-here``). Many are returned in slices where none depends on the others: until the last is back
        consumers and pulls wait, and nothing is dropped for want of room.
        """
        if self.deleted:  # its messages go with it; copies of them are let go of here
            for slot in entries:
                if isinstance(slot, DeliveryCopy):
                    self.release_copy(slot)
            return
        entries = entries if isinstance(entries, list) else list(entries)
        if returning.in_slices(self, len(entries), counted=counted, refused=exclude is not None):
            returning.return_many(self, entries, now, counted=counted, exclude=exclude)
            return
        if self.sliced:
            self.make_room(self.delivering_bytes, now, len(entries))
        returning.return_entries(self, entries, now, counted=counted, exclude=exclude)
        self.finish(now)

    def finish_slices(self, now: int) -> None:
        """Put back at once all messages being returned in slices, and remove the expired ones."""
        if self.returns:
            returning.finish_returns(self, now)
        work = self.expiring
        while work is not None and work.step(now):
            pass
        if isinstance(self.ring_debt, ReturnExcess):
            self.ring_debt.complete(now)

    # ------------------------------------------------------------------ time and management

    def remove_all(self, reason: RemovalReason, now: int) -> int:
        """Remove everything pending and scheduled that is not hidden. Returns how many.

        A deep queue is empty for all callers when this returns; the remaining work on its messages is done in slices.
        """
        purge = Purge(self, reason, now)
        count = purge.empty() if purge.suits() else super().remove_all(reason, now)
        if self.copies is not None:
            self.copies.emptied()
        return count

    def tick(self, now: int) -> int:
        """Do all due work: expiry anywhere in the queue, scheduled messages, gates. Returns how many expired."""
        Attachment(self).retire(now)
        count = self.expire_due(now)
        fired = arrival.fire_due(self, now)
        if count or fired or self.gated:
            self.update_gate(now)
            self.dispatch(now)
            self.finish(now)
        return count

    def expire(self, now: int) -> int:
        """As :meth:`tick`: nothing that is due stays."""
        return self.tick(now)

    def next_due_at(self) -> int:
        """When :meth:`tick` has something to do next (milliseconds since 1970); 0 for never."""
        times = [0 if self.firing else self.schedule.next_at(), self.gate.opens_at(self), self.next_expiry_at()]
        return min((at for at in times if at), default=0)

    def pause(self, now: int) -> None:
        """Stop dispatch; arrivals are accepted, ring and limits go on. Browsers are served."""
        if not self.paused:
            self.note_paused(paused=True)
            self.update_gate(now)
            self.effects.queue_paused(self)

    def resume(self, now: int) -> None:
        """End :meth:`pause` and serve the waiting consumers."""
        if self.paused:
            self.note_paused(paused=False)
            self.update_gate(now)
            self.effects.queue_paused(self)
            self.wake(now)

    def purge(self, now: int) -> int:
        """Remove all pending and scheduled messages; those in delivery stay with their consumers. Returns how many."""
        return self.empty(RemovalReason.PURGED, now)

    def empty(self, reason: RemovalReason, now: int) -> int:
        """As :meth:`purge`, for another reason."""
        self.finish_slices(now)
        count = self.remove_all(reason, now)
        self.finish(now)
        return count

    def delete(self, now: int) -> int:
        """Remove everything, in delivery too, and cancel the consumers. Returns how many were pending."""
        in_slices = len(self.delivering) > (SLICE_MESSAGES if self.settling else AT_ONCE_MAX)
        if not in_slices:
            for work in self.settling:  # settled before, it is not lost
                work.settle_all_of(self, now)
        self.note_deleted()
        while self.returns:  # messages on their way back go with the rest
            self.returns[0].abandon(now)
        self.forget_hidden()
        pending = self.remove_all(RemovalReason.DELETED, now)
        holders: dict[DeliveryOwner, None] = {}
        for entry in [] if in_slices else self.unsettled():
            if entry.consumer is not None:
                holders[entry.consumer.session] = None
            self.unmark_delivering(entry)
            self.finish_removal(entry, RemovalReason.DELETED, now, 0)
        if self.copies is not None:
            holders.update(self.copies.release_all())
        for consumer in list(self.consumers):
            holders[consumer.session] = None  # it may have got a dead letter just now
            self.remove_consumer(consumer, now)
            self.effects.consumer_cancelled(consumer)
        self.finish(now)
        for session in holders:  # their deliveries here filled their shared windows, which other queues wait for
            session.wake(now)
        self.take_apart()
        if in_slices:
            Purge(self, RemovalReason.DELETED, now).empty_deliveries()
        return pending

    def when_settled(self, done: Callable[[], None]) -> bool:
        """After a deletion: call this when all that was settled before has come to its end. False when none is left."""
        return any([work.when_settled(done) for work in self.emptying])  # noqa: C419 - each of them calls it

    def remove(self, entry: QueueEntry, reason: RemovalReason, now: int) -> bool:
        """Take out one pending or scheduled entry, by an operator. Returns whether it was there."""
        if entry.state not in (PENDING, SCHEDULED) or entry.queue is not self:
            return False
        self.remove_waiting(entry, reason, now, 0)
        self.wake(now)
        return True

    def deliver_now(self, entry: QueueEntry, now: int) -> bool:
        """Let a scheduled entry fall due at once. Returns whether it was scheduled."""
        if entry.state != SCHEDULED:
            return False
        if entry.message.record:  # else a restart would let it wait for the sender's time again
            self.schedule.move(entry, now)
            self.effects.entry_changed(self, entry)
        if self.sliced:
            self.make_room(entry.message.size, now)
        if entry.state != SCHEDULED:
            return False  # its time to live was over
        appointment = self.schedule.cancel(entry)
        arrival.fire(self, appointment, now)
        self.finish(now)
        return True

    def reprioritise(self, entry: QueueEntry, priority: int, now: int) -> QueueEntry | None:
        """Give a pending entry another priority; it goes to the tail of its new level (Artemis, Broker-J §3).

        Returns the entry that stands for it now, stored anew if it was stored; ``None`` when it was not pending or has
        that priority already.
        """
        replacement = live_changes.revise_priority(self, entry, priority, now)
        self.wake(now)
        return replacement

    def reset_groups(self, now: int, name: str = "") -> int:
        """End the assignment of one message group, or of all. Returns how many were assigned."""
        if self.lanes is None or self.lanes.groups is None:
            return 0
        groups = self.lanes.groups.reset(self.delivering.unfolded(), name)
        self.lanes.regroup(groups)
        self.wake(now)
        return len(groups)

    def update(self, settings: QueueSettings, now: int) -> None:
        """Change the limits, times and targets of a live queue. A lower ring trims nothing at once unless
        ``ring_trim_now``; lower limits with ``overflow=ring`` do.

        Raises :class:`InvalidArgument` for a setting that belongs to what the queue is.
        """
        current = self.settings
        live_changes.check_changeable(self.name, current, settings)
        self.finish_slices(now)
        self.use_settings(settings)
        self.configure()
        if self.evictions is not None:
            for entry in self.order.entries():
                self.evictions.add(entry, self.order.count)
        if times_of(settings) != times_of(current):
            self.reindex()
        self.expire_due(now)
        if self.sliced:
            self.make_room(0, now)
        if not 0 <= settings.ring_size < self.order.count:
            self.owe(None)
        elif settings.ring_trim_now:
            trim_ring(self, now)
        arrival.enforce_limits(self, now, None)
        self.gate.update(self, now)  # it may have to open because it is none any more
        self.update_gate(now)
        self.wake(now)
        self.finish(now)  # limits that are gone hold no publishers back

    def browse(self) -> list[QueueEntry]:
        """Return a point-in-time view: pending and in delivery, by sequence. Takes and changes nothing.

        Raises :class:`PreconditionFailed` when the queue is deeper than memory, or the disk does not give it now.
        """
        self.read_in("a snapshot")
        return sorted([*self.shown(self.order.entries()), *self.delivering], key=sequence_of)

    def statistics(self) -> QueueStatistics:
        """Return the counters and sizes of this moment."""
        return statistics_of(self)

    def finish(self, now: int) -> None:
        """End a public call: tell publishers whether they may go on, send the messages to forward."""
        limits = self.limits
        if limits is None or not limits.blocks:
            blocked = False
        elif self.blocked:
            blocked = not limits.drained(self)
        else:
            blocked = limits.exceeded(self)
        self.block_publishers(blocked=blocked)
        if self.forwarder.waiting:
            self.forwarder.flush(now)
        if self.draining:
            draining.settle(self)
        if self.pull_waiters:
            pull_waits.settle(self)


def as_queue(state: QueueState) -> Queue:
    """Return a queue with its commands, of which entries, consumers and effects know the state only."""
    assert isinstance(state, Queue)
    return state
