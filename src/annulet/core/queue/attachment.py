"""Attaching and detaching consumers, and their effects on the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from annulet.core.base.removal_reasons import RemovalReason

if TYPE_CHECKING:
    from annulet.core.model.consumer import Consumer
    from annulet.core.model.order import Order
    from annulet.core.policies.lanes import Lanes
    from annulet.core.queue.entries import QueueEntries


class Attachment:
    """Consumers of one queue come and go."""

    def __init__(self, queue: QueueEntries) -> None:
        self._queue = queue

    def attach(self, consumer: Consumer, now: int) -> None:
        """Attach a consumer, let a rebalance begin, serve it."""
        queue = self._queue
        settings = consumer.settings
        since = first = 0
        if settings.replay_period >= 0:
            since = now - settings.replay_period
            first = queue.next_sequence if settings.replay_period == 0 else 0
        no_local = settings.no_local or queue.settings.no_local
        queue.matchers.admit(consumer, no_local=no_local, since=since, first_sequence=first)
        if settings.browse or queue.settings.non_destructive:
            queue.use_copies().attach(consumer)
        elif consumer.required and queue.lanes is None:
            queue.use_lanes(None, None)
        elif consumer.required and queue.lanes is not None:
            queue.lanes.bring_whole()
        queue.consumers.add(consumer)
        if not settings.browse:
            queue.gate.consumer_added(queue, now)
            self._rebalance()
            self._look_ahead(consumer)
        queue.update_gate(now)
        queue.dispatch(now)

    def _look_ahead(self, consumer: Consumer) -> None:
        """Start reading the rows behind the front, before the front is used up and all consumers wait for it.

        If some consumers select, only for those that do not.
        """
        queue = self._queue
        lanes = queue.lanes
        takes_all = lanes is None or (lanes.plain and not consumer.required)
        pages = queue.order.pages_behind() if takes_all and not queue.settings.non_destructive else None
        if pages is not None:
            pages.look_ahead()

    def _rebalance(self) -> None:
        queue = self._queue
        settings = queue.settings
        lanes = queue.lanes
        if not settings.group_rebalance or lanes is None or lanes.groups is None:
            return
        lanes.regroup(lanes.groups.reset(queue.delivering.unfolded()))
        queue.gate.rebalancing = settings.group_rebalance_pause and bool(queue.delivering)

    def detach(self, consumer: Consumer, now: int, *, serve: bool) -> None:
        """Detach a consumer; its groups are freed, or parked while it has unsettled messages of them."""
        queue = self._queue
        queue.consumers.remove(consumer)
        queue.draining.pop(consumer, None)
        if consumer.unseen is not None:
            consumer.unseen.end()
        consumer.unseen = None
        lanes = queue.lanes
        if lanes is not None and lanes.groups is not None:
            lanes.regroup(lanes.groups.dismiss(consumer))
        forgotten = queue.matchers.dismiss(consumer, now)
        if forgotten:
            self._forget(forgotten)
        if lanes is not None:
            lanes.note_selective(selective=any(other.required and not other.copies for other in queue.consumers))
        self._leave_lanes()
        queue.leave_copies()
        queue.update_gate(now)
        if queue.settings.purge_on_no_consumers and queue.unattended:
            queue.remove_all(RemovalReason.PURGED, now)
        if serve and not queue.deleted:
            queue.dispatch(now)

    def _forget(self, bits: int) -> None:
        """Forget the answers of retired matchers, whose bits others will get. O(n), once in many consumers."""
        queue = self._queue
        for entry in [*queue.delivering.unfolded(), *queue.schedule.entries()]:
            entry.evaluated &= ~bits
            entry.blocked &= ~bits
        if queue.lanes is not None:
            queue.lanes.forget(bits)
            return
        for entry in queue.order.in_memory():  # messages on disk only were never evaluated
            entry.evaluated &= ~bits
            entry.blocked &= ~bits

    def _leave_lanes(self) -> None:
        """Go back to one order when nothing needs lanes any more and nothing is left in them."""
        queue = self._queue
        lanes = queue.lanes
        if lanes is None or lanes.groups is not None or lanes.fairness is not None:
            return
        if any(consumer.required | consumer.refused for consumer in queue.consumers if not consumer.copies):
            return
        order: Order | None = None
        if lanes.count or queue.delivering or queue.schedule.count:
            order = self._order_behind(lanes)
            if order is None:
                return
        queue.leave_lanes(queue.ranker.new_order() if order is None else order)

    def _order_behind(self, lanes: Lanes) -> Order | None:
        """Return one order of all messages if most of them are behind the lanes; ``None`` if that has to wait."""
        queue = self._queue
        if not lanes.paged_count() or len(queue.matchers):
            return None
        for entry in [*queue.delivering.unfolded(), *queue.schedule.entries()]:
            entry.lane = None
            entry.evaluated = entry.blocked = 0
        return lanes.release_all()

    def retire(self, now: int) -> None:
        """Forget match classes without recent consumers if messages are on disk, and unneeded lanes."""
        queue = self._queue
        if queue.lanes is None or not queue.order.paged_count():
            return
        forgotten = queue.matchers.retire(now)
        if forgotten:
            self._forget(forgotten)
        self._leave_lanes()
