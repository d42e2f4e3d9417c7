"""The arrival of a message in a queue: at once, at its time, or not at all.

The order of steps is the rule (design §2): expired messages are removed, the key replaces, consumers with credit are
served, and only then ring and limits choose victims.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.settings import KEEP_PLACE
from annulet.core.base.sliced_work import SLICE_MESSAGES, SlicedWork
from annulet.core.model.entry import PENDING, SCHEDULED
from annulet.core.queue.ring_debt import make_way

if TYPE_CHECKING:
    from annulet.core.model.entry import QueueEntry
    from annulet.core.policies.schedule import Appointment
    from annulet.core.queue.entries import QueueEntries


def accept(queue: QueueEntries, entry: QueueEntry, now: int) -> None:
    """Take in a new message: drop it for want of consumers, schedule it, or make it pending."""
    message = entry.message
    expired = queue.expire_for(message.size, now)
    if queue.settings.purge_on_no_consumers and queue.unattended:
        queue.finish_removal(entry, RemovalReason.PURGED, now, 0)
    elif message.deliver_at > now:
        schedule(queue, entry, now)
    else:
        admit(queue, entry, now, due=False)
    if expired:  # it may have been too large for a consumer, and later ones not
        queue.dispatch(now)


def schedule(queue: QueueEntries, entry: QueueEntry, now: int) -> None:
    """Let a message wait for the time of its sender; it replaces the one that its schedule id names."""
    message = entry.message
    if 0 < queue.expires_at(entry) <= now:
        queue.finish_removal(entry, RemovalReason.EXPIRED, now, 0)
        return
    name = message.origin.view.schedule_id(message)
    if name:
        former = queue.schedule.named(name)
        if former is not None:
            queue.remove_scheduled(former, RemovalReason.DELETED, now, entry.sequence)
    entry.state = SCHEDULED
    queue.appoint(entry, message.deliver_at, fresh=True, schedule_id=name)
    queue.index_expiry(entry)
    queue.effects.wake_at(message.deliver_at)
    if queue.ring_debt is None or not queue.ring_debt.defer(entry, grew=True):
        enforce_limits(queue, now, entry)


def admit(queue: QueueEntries, entry: QueueEntry, now: int, *, due: bool) -> None:
    """Make a message pending for the first time, serve waiting consumers, and enforce ring and limits.

    ``due``: it comes from the schedule, goes before the backlog, and is itself the victim of a full ring.
    """
    limits = queue.limits
    if limits is not None and limits.evicts and limits.oversized(entry.message.size):
        queue.finish_removal(entry, RemovalReason.OVERFLOW, now, 0)
        return
    before = queue.order.count
    moved = _replace_by_key(queue, entry, now)
    expires_at = queue.expires_at(entry)
    if 0 < expires_at < now or (due and 0 < expires_at <= now):  # in its transaction, or while it was scheduled
        queue.finish_removal(entry, RemovalReason.EXPIRED, now, 0)
        queue.dispatch(now)
        return
    if due and queue.settings.tombstone_ttl >= 0:  # it has taken over its key, and may expire earlier for that
        entry.indexed = False
    if due and queue.ranker.due_first and not moved:
        entry.place = queue.take_due_place()
        moved = True
    queue.ranker.assign(entry, now, due=due)
    queue.insert(entry, arrival=not moved)
    if queue.copies is not None:
        queue.copies.arrived(entry)
    outer = queue.arriving  # a dead letter that returns to its own queue arrives inside another arrival
    queue.arriving = entry
    queue.dispatch(now)
    queue.arriving = outer
    if entry.state == PENDING and expires_at:
        if expires_at <= now:
            queue.remove_pending(entry, RemovalReason.EXPIRED, now, 0)
            queue.dispatch(now)  # it may have been first and too large for a consumer, and later ones not
        else:
            queue.index_expiry(entry)
    enforce_ring(queue, entry, before, now, due=due)
    enforce_limits(queue, now, entry)


def _replace_by_key(queue: QueueEntries, entry: QueueEntry, now: int) -> bool:
    """Let the entry take over its key; return whether it takes the place of the replaced one."""
    if queue.retention is None:
        return False
    superseded = queue.retention.accept(entry)
    if superseded is None:
        return False
    if superseded.state == SCHEDULED:
        queue.remove_scheduled(superseded, RemovalReason.REPLACED_KEY, now, entry.sequence)
    if superseded.state != PENDING:
        return False
    moved = queue.settings.last_value_place == KEEP_PLACE
    if moved:
        entry.place = superseded.place
    queue.remove_pending(superseded, RemovalReason.REPLACED_KEY, now, entry.sequence)
    return moved


def enforce_ring(queue: QueueEntries, entry: QueueEntry, before: int, now: int, *, due: bool) -> None:
    """Drop at most one message, and only if this arrival made the queue longer: an oversized ring never shrinks."""
    ring_size, count = queue.settings.ring_size, queue.order.count
    debt = queue.ring_debt
    if debt is not None and debt.defer(entry, grew=count > before, yields=due and ring_size >= 0):
        return
    grew = 0 <= ring_size < count and count > before
    if grew and due:
        if entry.state == PENDING:
            queue.remove_pending(entry, RemovalReason.REPLACED_RING, now, 0)
            queue.dispatch(now)
    elif grew or debt is not None:
        make_way(queue, entry, before, now)


def enforce_limits(queue: QueueEntries, now: int, newcomer: QueueEntry | None) -> None:
    """Evict until the queue is within its limits, or only messages in delivery are left.

    ``newcomer``: the message that arrived, ``None`` when the limits were lowered. While messages that came back are
    dropped in slices, it evicts as much as itself, or nothing yet.
    """
    limits, debt = queue.limits, queue.ring_debt
    if limits is None or not limits.evicts or (debt is not None and debt.defers):
        return
    sequence = 0 if newcomer is None else newcomer.sequence
    freed = -1
    while queue.exceeds_limits():
        if debt is not None and newcomer is not None and freed >= newcomer.message.size:
            return
        victim = queue.victim()
        if victim is None or (limits.counts_all and victim.sequence == sequence and queue.order.count == 1):
            return  # the new one stays: messages in delivery exceed the limit
        replaced_by = 0 if victim.sequence == sequence else sequence
        freed = max(0, freed) + victim.message.size
        queue.remove_pending(victim, RemovalReason.OVERFLOW, now, replaced_by)
        queue.dispatch(now)  # a consumer without room for the victim may take the next one


class Firing(SlicedWork):
    """Makes very many due scheduled messages pending. What arrives meanwhile stands behind them."""

    def __init__(self, queue: QueueEntries) -> None:
        super().__init__()
        self._queue = queue
        queue.note_firing(firing=True)

    def step(self, now: int) -> bool:
        """Let the next ones fall due, and serve consumers."""
        queue = self._queue
        if not queue.deleted:
            _fire_some(queue, now)
            queue.update_gate(now)
            queue.dispatch(now)
            queue.finish(now)
            if 0 < queue.schedule.next_at() <= now:
                return True
        self.abandon(now)
        return False

    def abandon(self, now: int) -> None:
        """Have the next tick at the time of the next scheduled message."""
        del now
        queue = self._queue
        queue.note_firing(firing=False)
        if at := queue.schedule.next_at():
            queue.effects.wake_at(at)


def fire_due(queue: QueueEntries, now: int) -> int:
    """Make due scheduled messages pending, one by one in time order, very many in slices. Returns how many now."""
    if queue.firing:
        return 0
    fired = _fire_some(queue, now)
    if 0 < queue.schedule.next_at() <= now:
        queue.effects.later(Firing(queue), now)
    return fired


def _fire_some(queue: QueueEntries, now: int) -> int:
    fired = 0
    queue.note_time(now)
    if queue.sliced and 0 < queue.schedule.next_at() <= now:
        queue.make_room(queue.schedule.bytes, now, queue.schedule.count)
    while fired < SLICE_MESSAGES and (appointment := queue.schedule.due(now)) is not None:
        fired += 1
        if queue.gated and queue.halted:  # a gate that opened before is first, also if the tick is late
            queue.update_gate(appointment.at)
            queue.dispatch(appointment.at)
        fire(queue, appointment, now)
    return fired


def fire(queue: QueueEntries, appointment: Appointment, now: int) -> None:
    """Let one message that was just taken out of the schedule fall due."""
    if appointment.fresh:
        admit(queue, appointment.entry, now, due=True)
    else:
        _come_back(queue, appointment.entry, now)


def _come_back(queue: QueueEntries, entry: QueueEntry, now: int) -> None:
    """End a redelivery delay: the message takes its old place if ring and limits have room for it."""
    if 0 < queue.expires_at(entry) <= now:
        queue.finish_removal(entry, RemovalReason.EXPIRED, now, 0)
        return
    queue.insert(entry, arrival=False)
    queue.index_expiry(entry)
    if queue.copies is not None:
        queue.copies.came_back(entry)
    queue.dispatch(now)
    if entry.state != PENDING:
        return
    limits = queue.limits
    if 0 <= queue.settings.ring_size < queue.order.count:
        queue.remove_pending(entry, RemovalReason.REPLACED_RING, now, 0)
    elif limits is not None and limits.evicts and queue.exceeds_limits():
        queue.remove_pending(entry, RemovalReason.OVERFLOW, now, 0)
