"""Pulls from a queue: which messages ``basic.get`` or a lease takes, and what stays in its place meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.model.entry import PENDING
from annulet.core.ordering.lane import lane_of

if TYPE_CHECKING:
    from annulet.core.model.consumer import Consumer
    from annulet.core.model.entry import QueueEntry
    from annulet.core.queue.entries import QueueEntries


class Pull:
    """One pull from a queue, by ``basic.get`` or a lease, for a consumer or none."""

    def __init__(self, queue: QueueEntries, consumer: Consumer | None, now: int) -> None:
        self._queue = queue
        self._consumer = consumer
        self._now = now

    def take(self, messages_max: int, bytes_max: int, last_sequence: int) -> list[QueueEntry]:
        """Take messages for a pull; see :meth:`annulet.core.queue.queue.Queue.acquire`."""
        queue, now = self._queue, self._now
        if queue.halted:
            return []
        copied = queue.settings.non_destructive
        in_flight_max = queue.settings.in_flight_max
        taken: list[QueueEntry] = []
        passed: list[QueueEntry] = []
        if copied:
            queue.expire_some(now, -1)  # all of it: copied messages are not examined one by one
        seen = iter(self._to_copy(messages_max, last_sequence)) if copied else None
        total = 0
        while messages_max < 0 or len(taken) < messages_max:
            entry = self._next() if seen is None else next(seen, None)
            if entry is None:
                break
            if last_sequence and entry.sequence > last_sequence:
                if seen is None:
                    if not self._older_may_follow(entry):
                        break
                    self._pass_over(entry)
                    passed.append(entry)
                continue
            size = entry.message.size
            if (taken and 0 <= bytes_max < total + size) or 0 <= in_flight_max <= len(queue.delivering):
                break
            if entry.away:
                if not queue.bring(entry):
                    break
                if seen is None or entry.state != PENDING:
                    continue
            total += size
            taken.append(self._pulled(entry))
        self._put_back(passed)
        return taken

    def _pulled(self, entry: QueueEntry) -> QueueEntry:
        """Return the result of a pull: a copy on a non-destructive queue, else the entry itself, in delivery."""
        queue, consumer, now = self._queue, self._consumer, self._now
        if queue.events is not None:
            queue.events.delivered(entry, consumer, now)
        if queue.settings.non_destructive:
            queue.counters.messages_delivered += 1
            return queue.use_copies().pull(entry, consumer)
        queue.take_first(entry)
        self._mark_pulled(entry)
        return entry

    def _to_copy(self, messages_max: int, last_sequence: int) -> list[QueueEntry]:
        """Return the candidates of a copying pull in order, without examining all."""
        queue = self._queue
        if messages_max == 1 and not last_sequence:
            first = queue.order.first()
            if first is None or first.sequence < queue.hidden_from:
                return [] if first is None else [first]
        return queue.shown(queue.order.entries())

    def _older_may_follow(self, entry: QueueEntry) -> bool:
        """Return whether an earlier arrival may be behind this entry: not among arrivals in plain order."""
        queue = self._queue
        fair = queue.lanes is not None and queue.lanes.fairness is not None
        return queue.ranker.ranks or fair or entry.place != entry.sequence

    def _pass_over(self, entry: QueueEntry) -> None:
        """Take an entry out of the way of a pull; its fair key keeps its turn."""
        queue = self._queue
        lane = lane_of(entry)
        if queue.lanes is not None and lane is not None and lane.fair is not None:
            lane.fair.pending += 1
        queue.take_first(entry)

    def _put_back(self, passed: list[QueueEntry]) -> None:
        """Put skipped entries back in their places."""
        queue = self._queue
        for entry in passed:
            lane = lane_of(entry)
            queue.order.reinsert(entry)
            queue.count_pending(entry.message.size)
            if queue.lanes is not None and lane is not None and lane.fair is not None:
                lane.fair.pending -= 1

    def _next(self) -> QueueEntry | None:
        """Return the next entry unless it is hidden."""
        queue = self._queue
        entry = self._next_free()
        return None if entry is None or entry.sequence >= queue.hidden_from else entry

    def _next_free(self) -> QueueEntry | None:
        """Return the next entry that no group owner and no cap reserves for another consumer."""
        queue, now = self._queue, self._now
        lanes = queue.lanes
        if lanes is None:
            return queue.first_unexpired(now)
        while True:
            entry = lanes.first_free()
            if entry is None or not 0 < queue.expires_at(entry) <= now:
                return entry
            queue.remove_pending(entry, RemovalReason.EXPIRED, now, 0)

    def _mark_pulled(self, entry: QueueEntry) -> None:
        queue, consumer = self._queue, self._consumer
        queue.counters.messages_delivered += 1
        queue.ranker.served(entry)
        if queue.lanes is not None:
            queue.lanes.taken(entry, consumer)
        queue.mark_delivering(entry, consumer)
