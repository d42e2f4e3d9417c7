"""A queue: a composition of order, retention, dispatch and time, with counters and one return path.

Deterministic: no clock, no I/O. ``now`` is milliseconds since 1970; what must happen outside goes to ``Effects``.
Rules: design §2; Artemis ring and last-value rules as corrected there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from annulet.core.counters import QueueCounters, QueueStatistics, statistics_of
from annulet.core.dispatch import CompetingDispatch
from annulet.core.entry import DELIVERING, PENDING, REMOVED, QueueEntry
from annulet.core.expiry import ExpiryIndex
from annulet.core.ledger import LossLedger, LossRecord
from annulet.core.order import FifoOrder
from annulet.core.reasons import LOSSES, RemovalReason
from annulet.core.retention import key_table_for

if TYPE_CHECKING:
    from collections.abc import Iterable

    from annulet.core.consumer import Consumer
    from annulet.core.effects import Effects
    from annulet.core.message import Message
    from annulet.core.session import Session
    from annulet.core.settings import QueueSettings


class Queue:
    """One queue. Public calls leave it with its limits enforced and nothing deliverable left undelivered."""

    def __init__(
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
    ) -> None:
        self.name = name
        self.settings = settings
        self.effects = effects
        self.ledger = LossLedger() if ledger is None else ledger
        self.durable = durable
        self.auto_delete = auto_delete
        self.owner = owner  # the connection an exclusive queue belongs to; None when it is shared
        self.queue_id = queue_id  # the catalogue's id; 0 for queues that are not durable
        self.order = FifoOrder()
        self.consumers = CompetingDispatch()
        self.delivering: set[QueueEntry] = set()
        self.counters = QueueCounters()
        self.pending_bytes = 0
        self.delivering_bytes = 0
        self.next_sequence = 1
        self.leases: set[tuple[str, str]] = set()  # leases over the queue: users of it that are no consumers
        self.had_consumer = False  # auto-delete waits for the first consumer (AMQP 0-9-1 §1.7.2.1.6)
        self.last_used_at = 0  # last declare, get or consumer; ``expires`` counts from here
        self.deleted = False
        self._keys = key_table_for(settings)
        self._expiry: ExpiryIndex | None = None
        self._leased: set[int] = set()  # during recovery: sequences that a lease held when the broker ended

    # ------------------------------------------------------------------ arrivals

    def enqueue(self, message: Message, now: int) -> QueueEntry:
        """Accept a message: replace by key, serve consumers with credit, then apply the ring. Returns its entry."""
        entry = QueueEntry(self, message, self.next_sequence)
        self.next_sequence += 1
        size = len(message.body)
        self.counters.messages_added += 1
        self.counters.bytes_added += size
        order = self.order
        if self._expiry is not None:  # what has expired neither counts nor stands before the arrival
            self._expire_due(now)
        pending_before = order.count
        if self._keys is not None:
            superseded = self._keys.accept(entry)
            if superseded is not None and superseded.state == PENDING:
                self._remove_pending(superseded, RemovalReason.REPLACED_KEY, now, entry.sequence)
        if (message.expires_at or self.settings.message_ttl >= 0) and self.expires_at(entry) < now:
            self._finish_removal(entry, RemovalReason.EXPIRED, now, 0)  # in its transaction; a TTL of 0 is tried once
            self.wake(now)
            return entry
        if self.consumers.count:
            if order.count:  # what stood in the way may just have been replaced or have expired
                self._dispatch(now)
            if order.count == 0:
                consumer = self.consumers.choose(size)
                if consumer is not None:
                    self._hand_over(consumer, entry, now)
                    return entry
        order.append(entry)
        self.pending_bytes += size
        if (message.expires_at or self.settings.message_ttl >= 0) and self._index_expiry(entry, now):
            return entry
        ring_size = self.settings.ring_size
        if 0 <= ring_size < order.count and order.count > pending_before:
            self._evict_first(now, entry.sequence)
            self.wake(now)
        return entry

    def restore(self, message: Message, sequence: int, *, redelivered: bool) -> QueueEntry:
        """Put back a message found at recovery, at the place ``sequence`` names.

        Limits lowered meanwhile trim nothing (``ring-trim``). Call :meth:`finish_restore` after the last one.
        """
        entry = QueueEntry(self, message, sequence)
        entry.redelivered = redelivered
        in_sequence = sequence >= self.next_sequence
        self.next_sequence = max(self.next_sequence, sequence + 1)
        if self._keys is not None:
            superseded = self._keys.accept(entry)
            if superseded is not None and superseded.state == PENDING:
                self._remove_pending(superseded, RemovalReason.REPLACED_KEY, message.accepted_at, sequence)
        if sequence in self._leased:  # in delivery, so neither key nor time can take it away
            entry.state = DELIVERING
            self.delivering.add(entry)
            self.delivering_bytes += len(message.body)
            self._index_pending(entry)
            return entry
        if self._keys is not None and self._keys.superseded(entry):
            self._finish_removal(entry, RemovalReason.REPLACED_KEY, message.accepted_at, 0)
            return entry
        if in_sequence:
            self.order.append(entry)
        else:  # stored later than its successors: a transient message that a lease made durable
            self.order.reinsert(entry)
        self.pending_bytes += len(message.body)
        self._index_pending(entry)
        return entry

    def finish_restore(self, next_sequence: int) -> None:
        """End recovery: sequences go on after the highest ever used; every restored message counts as added once."""
        self.next_sequence = max(self.next_sequence, next_sequence)
        self._leased = set()
        count = self.order.count + len(self.delivering)
        counters = self.counters
        counters.messages_added = sum(counters.removed.values()) + count
        counters.bytes_added = max(counters.bytes_added, self.pending_bytes + self.delivering_bytes)

    def expect_leased(self, sequences: Iterable[int]) -> None:
        """Before recovery: :meth:`restore` puts these into delivery, :meth:`leased_entries` hands them out."""
        self._leased.update(sequences)

    def leased_entries(self) -> list[QueueEntry]:
        """Return what recovery put into delivery, by sequence. Before any consumer may attach."""
        return sorted(self.delivering)

    # ------------------------------------------------------------------ consumers

    @property
    def users(self) -> int:
        """Consumers and leases: as long as there is one, the queue is in use and not deleted for lack of it."""
        return self.consumers.count + len(self.leases)

    def add_consumer(self, consumer: Consumer, now: int) -> None:
        """Attach a consumer and serve it."""
        self.had_consumer = True
        self.last_used_at = now
        self.consumers.add(consumer)
        self._dispatch(now)

    def remove_consumer(self, consumer: Consumer, now: int) -> None:
        """Detach a consumer. What it holds stays in delivery with its session (AMQP 0-9-1 §1.8.3.5)."""
        consumer.cancelled = True
        self.last_used_at = now
        self.consumers.remove(consumer)

    def wake(self, now: int) -> None:
        """Serve consumers after credit or room in their connection came back."""
        if self.order.count and self.consumers.count:
            self._dispatch(now)

    def acquire(
        self, messages_max: int, bytes_max: int, now: int, *, last_sequence: int = 0, consumer: Consumer | None = None
    ) -> list[QueueEntry]:
        """Take messages by pull (``basic.get``, lease): they are in delivery when this returns.

        At most ``messages_max`` messages and ``bytes_max`` body bytes (-1: no limit; one message always fits), none
        with a sequence above ``last_sequence`` (0: no limit).
        """
        self.last_used_at = now
        taken: list[QueueEntry] = []
        total = 0
        while messages_max < 0 or len(taken) < messages_max:
            entry = self._first_unexpired(now)
            if entry is None or (last_sequence and entry.sequence > last_sequence):
                break
            size = len(entry.message.body)
            if taken and 0 <= bytes_max < total + size:
                break
            total += size
            self._take_pending(entry)
            self._mark_delivering(entry, consumer)
            taken.append(entry)
        self.wake(now)  # what was taken may have been too large for a consumer, what follows not
        return taken

    # ------------------------------------------------------------------ settlement

    def acknowledge(self, entry: QueueEntry) -> None:
        """A delivered message was processed: it is gone. A no-op when the queue was deleted meanwhile."""
        if entry.state == DELIVERING:
            self._remove_delivering(entry, RemovalReason.ACKNOWLEDGED)

    def reject(self, entry: QueueEntry, now: int) -> None:
        """A delivered message was refused without requeue: it is dropped with reason REJECTED."""
        if entry.state == DELIVERING:
            self._remove_delivering(entry, RemovalReason.REJECTED)
            self._note_removal(entry, RemovalReason.REJECTED, now, 0)

    def return_entries(self, entries: Iterable[QueueEntry], now: int, *, counted: bool = True) -> None:
        """The one return path: requeue, recover, rollback, close, connection loss, release.

        Each entry takes its original place. What expired meanwhile expires, what was superseded by key is dropped;
        consumers with credit are served; then returned entries that exceed the ring are dropped, oldest first, so that
        the newest survive. ``counted=False`` leaves the delivery count alone (AMQP 1.0 ``released``).
        """
        candidates: list[QueueEntry] = []
        for entry in entries:
            if entry.state != DELIVERING:
                continue
            self._unmark_delivering(entry)
            self.counters.messages_returned += 1
            entry.redelivered = True
            if counted:
                entry.delivery_count += 1
            expires_at = self.expires_at(entry)
            if expires_at and expires_at <= now:
                self._finish_removal(entry, RemovalReason.EXPIRED, now, 0)
            elif self._keys is not None and self._keys.superseded(entry):
                self._finish_removal(entry, RemovalReason.REPLACED_KEY, now, 0)
            else:
                entry.state = PENDING
                self.order.reinsert(entry)
                self.pending_bytes += len(entry.message.body)
                self._index_pending(entry)
                candidates.append(entry)
        self._expire_due(now)
        self.wake(now)
        ring_size = self.settings.ring_size
        if 0 <= ring_size < self.order.count:
            self._drop_returned(sorted(candidates), ring_size, now)
            self.wake(now)

    # ------------------------------------------------------------------ time and management

    def expire(self, now: int) -> int:
        """Remove the pending messages whose time has come, anywhere in the queue. Returns how many."""
        count = self._expire_due(now)
        if count:
            self.wake(now)
        return count

    def _expire_due(self, now: int) -> int:
        if self._expiry is None:
            return 0
        count = 0
        for entry in self._expiry.due(now):
            if entry.state == PENDING:
                self._remove_pending(entry, RemovalReason.EXPIRED, now, 0)
                count += 1
        return count

    def next_expiry_at(self) -> int:
        """When :meth:`expire` has something to do next (milliseconds since 1970); 0 for never."""
        return 0 if self._expiry is None else self._expiry.next_at()

    def expires_at(self, entry: QueueEntry) -> int:
        """When an entry expires: the smaller of the message's time and the queue's; 0 for never."""
        at = entry.message.expires_at
        if self.settings.message_ttl < 0:
            return at
        queue_at = entry.message.accepted_at + self.settings.message_ttl
        return queue_at if at == 0 or queue_at < at else at

    def purge(self, now: int) -> int:
        """Remove all pending messages; those in delivery stay with their consumers. Returns how many."""
        return self._remove_all_pending(RemovalReason.PURGED, now)

    def delete(self, now: int) -> int:
        """Remove everything, in delivery too, and cancel the consumers. Returns how many were pending."""
        self.deleted = True
        pending = self._remove_all_pending(RemovalReason.DELETED, now)
        holders = {entry.consumer.session: None for entry in sorted(self.delivering) if entry.consumer is not None}
        for entry in sorted(self.delivering):
            self._remove_delivering(entry, RemovalReason.DELETED)
            self._note_removal(entry, RemovalReason.DELETED, now, 0)
        for consumer in list(self.consumers):
            self.remove_consumer(consumer, now)
            self.effects.consumer_cancelled(consumer)
        for session in holders:  # what they held here filled their shared windows, which other queues wait for
            session.wake(now)
        return pending

    def update(self, settings: QueueSettings, now: int) -> None:
        """Change the limits of a live queue. A lower ring trims nothing at once unless ``ring_trim_now``.

        ``last_value_key`` and ``keep_per_key`` belong to what the queue is and cannot be changed.
        """
        current = self.settings
        if (settings.last_value_key, settings.keep_per_key, settings.last_value_fallback) != (
            current.last_value_key,
            current.keep_per_key,
            current.last_value_fallback,
        ):
            raise ValueError(
                f"queue {self.name!r}: last-value-key and keep-per-key cannot be changed; declare a new queue"
            )
        self.settings = settings
        if settings.message_ttl != current.message_ttl:
            self._reindex(now)
        if settings.ring_trim_now:
            while 0 <= settings.ring_size < self.order.count:
                self._evict_first(now, 0)
            self.wake(now)

    def browse(self) -> list[QueueEntry]:
        """Return a point-in-time view: pending and in delivery, by sequence. Takes and changes nothing."""
        return sorted([*self.order.entries(), *self.delivering])

    @property
    def key_count(self) -> int:
        """Distinct keys of a keep-per-key queue with a message in it; 0 without a key."""
        return 0 if self._keys is None else len(self._keys)

    def statistics(self) -> QueueStatistics:
        """Return the counters and sizes of this moment."""
        return statistics_of(self)

    # ------------------------------------------------------------------ moves between states

    def _dispatch(self, now: int) -> None:
        """Hand pending messages to consumers until one side runs out."""
        consumers = self.consumers
        while True:
            entry = self._first_unexpired(now)
            if entry is None:
                return
            consumer = consumers.choose(len(entry.message.body))
            if consumer is None:
                return
            self._take_pending(entry)
            self._hand_over(consumer, entry, now)

    def _hand_over(self, consumer: Consumer, entry: QueueEntry, now: int) -> None:
        self.counters.messages_delivered += 1
        if consumer.auto_acknowledge:
            consumer.session.deliver_settled(consumer, entry)
            self._finish_removal(entry, RemovalReason.ACKNOWLEDGED, now, 0)
            return
        entry.state = DELIVERING
        entry.consumer = consumer
        self.delivering.add(entry)
        size = len(entry.message.body)
        self.delivering_bytes += size
        consumer.take(size)
        consumer.session.deliver_unsettled(consumer, entry)

    def _mark_delivering(self, entry: QueueEntry, consumer: Consumer | None) -> None:
        self.counters.messages_delivered += 1
        entry.state = DELIVERING
        entry.consumer = consumer
        self.delivering.add(entry)
        size = len(entry.message.body)
        self.delivering_bytes += size
        if consumer is not None:
            consumer.take(size)

    def _unmark_delivering(self, entry: QueueEntry) -> None:
        self.delivering.discard(entry)
        size = len(entry.message.body)
        self.delivering_bytes -= size
        if entry.consumer is not None:
            entry.consumer.give_back(size)
            entry.consumer = None

    def _take_pending(self, entry: QueueEntry) -> None:
        taken = self.order.take_first()
        assert taken is entry
        self.pending_bytes -= len(entry.message.body)

    def _first_unexpired(self, now: int) -> QueueEntry | None:
        """Return the next pending entry, removing those before it whose time has passed."""
        entry = self.order.first()
        if self._expiry is None:
            return entry
        while entry is not None:
            expires_at = self.expires_at(entry)
            if not expires_at or expires_at > now:
                return entry
            self._remove_pending(entry, RemovalReason.EXPIRED, now, 0)
            entry = self.order.first()
        return None

    def _remove_delivering(self, entry: QueueEntry, reason: RemovalReason) -> None:
        self._unmark_delivering(entry)
        entry.state = REMOVED
        self.counters.removed[reason] += 1
        self._release(entry)

    def _remove_pending(self, entry: QueueEntry, reason: RemovalReason, now: int, replaced_by: int) -> None:
        """Take an entry out of the order wherever it is, and finish it."""
        entry.state = REMOVED
        self.pending_bytes -= len(entry.message.body)
        self.order.discard(entry)
        self._finish_removal(entry, reason, now, replaced_by)

    def _evict_first(self, now: int, replaced_by: int) -> None:
        """Drop the oldest pending entry: with one level of importance it is the least important."""
        entry = self.order.take_first()
        assert entry is not None
        self.pending_bytes -= len(entry.message.body)
        self._finish_removal(entry, RemovalReason.REPLACED_RING, now, replaced_by)

    def _drop_returned(self, candidates: list[QueueEntry], ring_size: int, now: int) -> None:
        for entry in candidates:
            if self.order.count <= ring_size:
                return
            if entry.state == PENDING:
                self._remove_pending(entry, RemovalReason.REPLACED_RING, now, 0)

    def _remove_all_pending(self, reason: RemovalReason, now: int) -> int:
        entries = list(self.order.entries())
        self.order.clear()
        self.pending_bytes = 0
        for entry in entries:
            self._finish_removal(entry, reason, now, 0)
        return len(entries)

    def _finish_removal(self, entry: QueueEntry, reason: RemovalReason, now: int, replaced_by: int) -> None:
        """Count, record and settle an entry that is in no collection any more."""
        entry.state = REMOVED
        self.counters.removed[reason] += 1
        if reason in LOSSES:
            self._note_removal(entry, reason, now, replaced_by)
        self._release(entry)

    def _release(self, entry: QueueEntry) -> None:
        """Let go of what the queue and the log hold for a removed entry."""
        if self._keys is not None:
            self._keys.forget(entry)
        if entry.indexed and self._expiry is not None:
            self._expiry.note_removed()
        if entry.message.record:
            self.effects.settle(self, entry)

    def _note_removal(self, entry: QueueEntry, reason: RemovalReason, now: int, replaced_by: int) -> None:
        message = entry.message
        self.ledger.add(
            LossRecord(
                queue=self.name,
                sequence=entry.sequence,
                reason=reason,
                key=entry.key.text if entry.key is not None else "",
                size=len(message.body),
                priority=message.priority,
                accepted_at=message.accepted_at,
                at=now,
                publisher=message.origin.publisher,
                replaced_by=replaced_by,
            )
        )
        self.effects.removed(self, entry, reason)

    # ------------------------------------------------------------------ time to live

    def _index_expiry(self, entry: QueueEntry, now: int) -> bool:
        """Index an arrival's expiry; say whether it expired at once (a TTL of 0 that no consumer took)."""
        expires_at = self.expires_at(entry)
        if not expires_at:
            return False
        if expires_at <= now:
            self._remove_pending(entry, RemovalReason.EXPIRED, now, 0)
            return True
        self._index_pending(entry)
        return False

    def _index_pending(self, entry: QueueEntry) -> None:
        """Index an entry's expiry unless it is there already; one handed over on arrival never was."""
        expires_at = self.expires_at(entry)
        if expires_at and not entry.indexed:
            if self._expiry is None:
                self._expiry = ExpiryIndex()
            self._expiry.add(expires_at, entry)

    def _reindex(self, now: int) -> None:
        """Build the expiry index anew after the queue's time to live changed."""
        self._expiry = None
        for entry in self.delivering:
            entry.indexed = False
        for entry in self.order.entries():
            entry.indexed = False
            self._index_pending(entry)
        self.expire(now)
