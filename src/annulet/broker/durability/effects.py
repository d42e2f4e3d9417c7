"""The broker's answer to the core's effects: message log, history, catalogue, and the clients concerned.

The history gets the changes of a transaction at its commit: an id remembered of a message that was never stored would
refuse the sender's second try, and a loss that was undone is none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from annulet.broker.durability.blocked import BlockedTargets
from annulet.broker.observing.node_log import NODE_LOG
from annulet.core.model.audit_trail import AuditTrail
from annulet.core.model.loss_ledger import LossListener, LossRecord
from annulet.core.queue.queue import as_queue
from annulet.core.routing.node_effects import DUPLICATES_MAX, NodeEffects
from annulet.store.database.count_notes import only_counted
from annulet.store.database.history_batch import EntryState, HistoryBatch
from annulet.store.files.errors import CatalogueError, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from annulet.broker.durability.commit import CommitPipeline
    from annulet.broker.durability.event_log import EventSource
    from annulet.broker.paging.pager import Pager
    from annulet.broker.turns.sliced_work import SlicedWorker
    from annulet.broker.turns.wake import WakeTimer
    from annulet.core.base.removal_reasons import RemovalReason
    from annulet.core.base.sliced_work import SlicedWork
    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.message.message import Message
    from annulet.core.model.audit_trail import AuditEntry
    from annulet.core.model.compact_messages import CompactDelivery
    from annulet.core.model.consumer import Consumer
    from annulet.core.model.effects import GoneRecords
    from annulet.core.model.entry import QueueEntry
    from annulet.core.model.events import QueueEvents
    from annulet.core.model.queue_state import QueueState
    from annulet.core.queue.queue import Queue
    from annulet.core.routing.bindings import Binding
    from annulet.core.routing.exchanges.address import Address
    from annulet.residency.bodies.arrival_notes import ArrivalNotes
    from annulet.store.database.catalogue import Catalogue
    from annulet.store.segments.interface import Log

logger = structlog.get_logger(__name__)

DISCARD_LEAST: Final = 1024
"""Records of a range from which on it is written as one record: each takes a slice of upkeep, too, and its place in
checkpoints until then, so ten million rows are 10,000 ranges at most."""

ARGUMENTS_TOLD_MAX: Final = 1000
"""Names of arguments without effect that the log tells of, for each virtual host: a client may make up any number."""

ARGUMENTS_TOLD_AT_ONCE_MAX: Final = 20
"""Names of these that one declaration logs: 2 ms of the loop. A thousand took 80. Others follow with the next one."""


class DurableLosses(LossListener):
    """Hands the losses of a virtual host that are to outlive the broker to its effects.

    An object of its own: a class cannot have two compiled bases.
    """

    def __init__(self, effects: HostEffects) -> None:
        self._effects = effects

    def lost(self, record: LossRecord) -> None:
        """Pass a durable loss on."""
        if record.durable:
            self._effects.note_loss(record)

    def settled(self, record: LossRecord) -> None:
        """Pass on messages that were lost before they were durable."""
        self._effects.note_loss(record)

    def skipped(self, durable: int) -> None:
        """Pass the number on."""
        if durable:
            self._effects.note_skipped_losses(durable)


class HostEffects(NodeEffects):
    """Effects of one virtual host. Log, pipeline with its history, catalogue and audit trail are shared by all."""

    def __init__(
        self,
        host_name: str,
        log: Log,
        pipeline: CommitPipeline,
        catalogue: Catalogue,
        audit: AuditTrail | None = None,
        blocked: BlockedTargets | None = None,
    ) -> None:
        self.host_name = host_name
        self.log = log
        self.pipeline = pipeline
        self.history = pipeline.history
        self._changed = None if pipeline.history is None else pipeline.history.changed
        self.catalogue = catalogue
        self.audit = AuditTrail() if audit is None else audit
        self.blocked = BlockedTargets() if blocked is None else blocked
        self.pager: Pager | None = None  # set where messages are on a disk, see :meth:`use_pager`
        self.notes: ArrivalNotes | None = None  # the pager's
        self.event_log: EventSource | None = None  # None: none was requested
        self.worker: SlicedWorker | None = None  # None: sliced work is done at once
        self.host: VirtualHost | None = None  # set when it is made
        self.timer: WakeTimer | None = None  # as above; wakes it
        self._transaction = 0  # the log's id of the open transaction; 0 = none
        self._arguments_told: dict[str, None] = {}  # arguments without effect that the log has told of
        self._stored: dict[int, list[Message]] = {}  # by open transaction
        self._notes: dict[int, HistoryBatch] = {}  # for the history, by open transaction
        self._set_aside: dict[QueueState, str] = {}  # names in the catalogue, of deleted queues that had to cede theirs

    def use_pager(self, pager: Pager) -> None:
        """Let a pager know what arrives."""
        self.pager = pager
        self.notes = pager.notes

    def store(self, message: Message, entries: list[QueueEntry]) -> None:
        """Append one record for all queues that hold the message and outlive the broker (exclusive ones do not)."""
        targets = [(entry.queue.queue_id, entry.sequence) for entry in entries if entry.queue.queue_id]
        if not targets:
            for entry in entries:
                self.unstored(entry)
            return
        message.record = self.log.append(message, targets, self._transaction)
        if self.notes is not None:
            for entry in entries:
                if entry.queue.queue_id:
                    self.notes.stored(entry)
                else:
                    self.unstored(entry)
        if self._transaction:
            self._stored[self._transaction].append(message)
            if self.history is not None:
                self.history.transaction_stores(self._transaction, message.record)
        self.pipeline.request()

    def unstored(self, entry: QueueEntry) -> None:
        """Let the pager know: the entry's body may be spilled."""
        if self.pager is not None:
            self.pager.unstored(entry)

    def settle(self, queue: QueueState, entry: QueueEntry) -> None:
        """Append the settlement, or cancel the record when it was not written yet."""
        if queue.queue_id:
            self.log.settle(entry.message.record, queue.queue_id, self._transaction)
            noted = entry.delivery_count or entry.message.deliver_at  # only then entry_changed may have been called
            if noted and self.history is not None:
                self._forget(queue, entry)
            self.pipeline.request()

    def removed(self, queue: QueueState, entry: QueueEntry, reason: RemovalReason) -> None:
        """Have the counters written with the settlement that follows: see :meth:`HistoryRecorder.take`."""
        del reason
        if entry.message.record:
            self.forwarded(queue)

    def forwarded(self, queue: QueueState) -> None:
        """The same. Departures in a transaction count when that is committed."""
        if self._changed is not None and queue.queue_id:
            if self._transaction and self.history is not None:
                self.history.transaction_removes(self._transaction, queue)
            else:
                self._changed.add(queue)

    def settle_records(self, queue: QueueState, ranges: list[tuple[int, int]]) -> None:
        """Tell the log by ranges, one by one in a transaction and where they are short; rows are always written."""
        long: list[tuple[int, int]] = []
        short: list[int] = []
        for first, last in ranges:
            if last - first + 1 >= DISCARD_LEAST and not self._transaction:
                long.append((first, last))
            else:
                short += range(first, last + 1)
        self.log.settle_all(short, queue.queue_id, self._transaction)
        if long:
            self.log.discard(queue.queue_id, long)
        self.forwarded(queue)
        self.pipeline.request()

    def written_below(self) -> int:
        """Ask the log."""
        return self.log.written_below

    def emptied(self, queue: QueueState, gone: GoneRecords) -> bool:
        """Tell the log by ranges of records. Messages it has not written, or has in an open transaction, one by one.

        Ranges leave out the queue's deliveries and its hidden messages. Of a deleted queue :meth:`queue_deleted` says
        all there is.
        """
        if not queue.queue_id or not self.log.written_below or self._transaction:
            return False
        if queue.deleted:
            return True
        pages = gone.pages
        if self.history is not None:
            for first, last in pages.counted_ranges() if pages is not None else ():
                self._noted().counts.note_none(queue.queue_id, first, last)
        bounds = [gone.lowest, gone.highest] if gone.highest else []
        if pages is not None:
            bounds += pages.record_bounds()
        if bounds:
            self.log.discard(queue.queue_id, ranges_without(min(bounds), max(bounds), gone.held))
        self.forwarded(queue)
        self.pipeline.request()
        return True

    def emptied_apart(self, queue: QueueState, unwritten: list[int], noted: list[QueueEntry]) -> None:
        """Tell the log and the history one by one."""
        if queue.deleted:
            return
        for record in unwritten:
            self.log.settle(record, queue.queue_id)
        if self.history is not None:
            for entry in noted:
                self._forget(queue, entry)
        self.pipeline.request()

    def later(self, work: SlicedWork, now: int) -> None:
        """Give it to the worker, if there is one."""
        if self.worker is None:
            super().later(work, now)
        else:
            self.worker.add(work)

    def turns_for(self, queue: QueueState) -> bool:
        """Ask for the turns of deep queues, where there are some."""
        if self.pager is None:
            return False
        self.pager.scanning.ask(as_queue(queue))
        return True

    def events_of(self, queue: QueueState) -> QueueEvents | None:
        """Let the event log listen, where there is one."""
        return None if self.event_log is None else self.event_log.events_of(queue)

    def begin_transaction(self) -> None:
        """Open a log transaction."""
        self._transaction = self.log.begin()
        self._stored[self._transaction] = []

    def bracketed(self) -> bool:
        """Look for the log's transaction."""
        return self._transaction != 0

    def promise(self, sends: list[tuple[Message, Sequence[QueueState]]], settlements: int) -> None:
        """Have the log set room aside for the durable ones of these. Raises :class:`StoreError`."""
        records: list[tuple[Message, int]] = []
        removed = 0
        for message, queues in sends:
            targets = sum([queue.queue_id != 0 for queue in queues])
            if targets:
                records.append((message, targets))
                removed += targets  # a ring, a key or a limit drops one for each
        if records or settlements:
            self.log.promise(self._transaction, records, settlements + removed)

    def end_transaction(self, outcome: tuple[str, int] | None = None) -> None:
        """Commit the log transaction; ``outcome`` marks a staged publish as done (query id, batch id).

        Raises ``StoreError`` when the log has no room for the commit; the transaction is aborted then.
        """
        transaction, self._transaction = self._transaction, 0
        try:
            self.log.commit(transaction, outcome)
        except StoreError:
            self._abort(transaction)
            raise
        del self._stored[transaction]
        notes = self._notes.pop(transaction, None)
        if self.history is not None:
            self.history.transaction_ended(transaction)
            if notes is not None:
                self.history.pending.absorb(notes)
        self.pipeline.request()

    def abort_transaction(self) -> None:
        """Drop the log transaction: nothing of it survives a restart."""
        transaction, self._transaction = self._transaction, 0
        self._abort(transaction)

    def _abort(self, transaction: int) -> None:
        """Abort in the log. Messages that reached their queues stay there and must not name records any more.

        The log gives their ids out again: settling one of them would settle another message.
        """
        self.log.abort(transaction)
        for message in self._stored.pop(transaction):
            message.record = 0
        self._notes.pop(transaction, None)
        if self.history is not None:
            self.history.transaction_ended(transaction)

    def suspend_transaction(self) -> int:
        """Let other work store and settle outside the open transaction.

        Returns what :meth:`resume_transaction` takes.
        """
        transaction, self._transaction = self._transaction, 0
        return transaction

    def resume_transaction(self, transaction: int) -> None:
        """Go on with a suspended transaction."""
        assert self._transaction == 0, "one transaction at a time"
        self._transaction = transaction

    # ------------------------------------------------------------------ the history

    def _noted(self) -> HistoryBatch:
        """Return where notes go now: to the open transaction, if there is one."""
        assert self.history is not None, "a broker in memory takes no notes"
        if not self._transaction:
            return self.history.pending
        return self._notes.setdefault(self._transaction, HistoryBatch())

    def note_loss(self, record: LossRecord) -> None:
        """Let a loss survive a restart."""
        if self.history is not None:
            self._noted().note_loss(self.host_name, record)
            self.pipeline.request()

    def note_skipped_losses(self, count: int) -> None:
        """Count losses that have no record."""
        if self.history is not None:
            self._noted().note_skipped(self.host_name, count)
            self.pipeline.request()

    def entry_changed(self, queue: QueueState, entry: QueueEntry) -> None:
        """Remember how often a stored message came back, and until when it waits."""
        if self.history is not None and queue.queue_id:
            notes, count, at = self._noted(), entry.delivery_count, queue.due_at(entry)
            if not at and not _delays(queue) and only_counted(entry):
                notes.counts.note(queue.queue_id, entry.sequence, count)
            else:
                notes.entries[queue.queue_id, entry.sequence] = EntryState(count, at)
                if count > 1:  # the one before may have been noted without a time, which would have the last word
                    notes.counts.note(queue.queue_id, entry.sequence, 0)
            self.pipeline.request()

    def entries_changed(self, queue: QueueState, entries: list[QueueEntry]) -> None:
        """As :meth:`entry_changed`, without what pending entries do not need: a million may come back at once."""
        if self.history is None or not queue.queue_id:
            return
        if _delays(queue):
            apart = [entry for entry in entries if entry.message.record]
        else:
            apart = self._noted().counts.note_entries(queue.queue_id, entries)
        for entry in apart:
            self.entry_changed(queue, entry)
        self.pipeline.request()

    def folded_changed(self, queue: QueueState, messages: list[CompactDelivery]) -> None:
        """Note the counts: a million may come back at once, and none of them waits for a time."""
        if self.history is not None and queue.queue_id:
            self._noted().counts.note_folded(queue.queue_id, messages)
            self.pipeline.request()

    def _forget(self, queue: QueueState, entry: QueueEntry) -> None:
        """Forget what :meth:`entry_changed` remembered. The rest of a period that settings removed is dropped by the
        next start.
        """
        notes = self._noted()
        if entry.delivery_count:
            notes.counts.note(queue.queue_id, entry.sequence, 0)
        if _delays(queue) or not only_counted(entry):
            notes.entries[queue.queue_id, entry.sequence] = None

    def duplicate_noted(self, address: str, duplicate_id: str, cache_size: int = DUPLICATES_MAX) -> None:
        """Remember an id over restarts: it is on disk when the publish is confirmed."""
        if self.history is not None:
            self._noted().note_duplicate(self.host_name, address, duplicate_id, cache_size)
            self.pipeline.request()

    def duplicates_forgotten(self, address: str) -> None:
        """Forget an address's ids."""
        if self.history is not None:
            self._noted().forget_duplicates(self.host_name, address)
            self.pipeline.request()

    def queue_paused(self, queue: QueueState) -> None:
        """Remember over restarts whether a durable queue is paused."""
        if self.history is not None and queue.queue_id:
            self.history.pending.paused[queue.queue_id] = queue.paused
            self.pipeline.request()

    def arguments_without_effect(self, queue: Queue, names: tuple[str, ...]) -> None:
        """Log each name once: clients declare the same queues again and again."""
        told = self._arguments_told
        left = min(ARGUMENTS_TOLD_AT_ONCE_MAX, ARGUMENTS_TOLD_MAX - len(told))
        for name in names:
            if left <= 0:
                return
            if name not in told:
                left -= 1
                told[name] = None
                logger.warning(
                    "queue argument without effect",
                    argument=name,
                    queue=queue.name,
                    vhost=self.host_name,
                    remedy='leave it out, or set unknown_arguments = "refuse" to have such declarations refused',
                )

    def audited(self, entry: AuditEntry) -> None:
        """Keep an operation in the audit trail, over restarts too."""
        self.audit.add(entry)
        of_queue = self.host is not None and entry.virtual_host == self.host_name and entry.target in self.host.queues
        NODE_LOG.operation(entry, of_queue=of_queue)
        if self.history is not None:
            self.history.pending.audit.append(entry)
            self.pipeline.request()

    # ------------------------------------------------------------------ time and publishers

    def wake_at(self, at: int) -> None:
        """Tick the virtual host when something falls due."""
        if self.timer is not None:
            self.timer.wake_at(at)

    def publishers_blocked(self, queue: QueueState) -> None:
        """Hold back, or release, the publishers of a queue."""
        self.blocked.queue_changed(queue)
        log = logger.warning if queue.blocked else logger.info
        log("queue blocks its publishers" if queue.blocked else "queue lets its publishers go on", queue=queue.name)

    def address_blocked(self, name: str, *, blocked: bool) -> None:
        """The same for an address."""
        self.blocked.address_changed(name, blocked=blocked)
        log = logger.warning if blocked else logger.info
        log("address blocks its publishers" if blocked else "address lets its publishers go on", address=name)

    def address_drops(self, name: str, rule: str) -> None:
        """Say once that messages are lost here: their senders are told that they were accepted."""
        logger.warning("address is full and drops arrivals", address=name, rule=rule)

    # ------------------------------------------------------------------ clients and definitions

    def queue_created(self, queue: Queue) -> None:
        """Write down a durable queue the core made by itself. Raises :class:`CatalogueError`."""
        NODE_LOG.queue_created(self.host_name, queue.name, durable=queue.durable, exclusive=False)
        if queue.durable and self.host is not None:
            arguments = self.host.resolved_for(queue).arguments  # and not what settings made of them: those may change
            lifetime = self.host.lifetime_of(queue)
            queue.queue_id = self.catalogue.add_queue(
                self.host_name,
                queue.name,
                queue.auto_delete,
                arguments,
                address="" if lifetime.address == queue.name else lifetime.address,
                auto_created=lifetime.auto_created,
            )
            host, now = self.host, self.host.latest
            self.catalogue.if_refused(lambda: self._undo_queue(host, queue, now))

    @staticmethod
    def _undo_queue(host: VirtualHost, queue: Queue, now: int) -> None:
        host.delete_queue(queue, now)

    def binding_created(self, binding: Binding) -> None:
        """Write down a binding the core made by itself between durable ends. Raises :class:`CatalogueError`."""
        NODE_LOG.binding_created(self.host_name, binding.source.name, binding.destination_name, binding.routing_key)
        if binding.durable:
            self.catalogue.add_binding(
                self.host_name,
                binding.source.name,
                binding.destination_kind,
                binding.destination_name,
                binding.routing_key,
                binding.arguments,
            )
            if self.host is not None:
                host = self.host
                self.catalogue.if_refused(lambda: host.drop_edge(binding))

    def address_created(self, address: Address) -> None:
        """Write down a durable address the core made by itself. Raises :class:`CatalogueError`."""
        NODE_LOG.exchange_created(self.host_name, address)
        if address.durable:
            self.catalogue.add_exchange(
                self.host_name,
                address.name,
                address.type_name,
                address.auto_delete,
                address.internal,
                address.arguments,
                auto_created=address.auto_created,
            )
            if self.host is not None:
                host = self.host
                self.catalogue.if_refused(lambda: host.delete_exchange(address.name))

    def consumer_cancelled(self, consumer: Consumer) -> None:
        """Let the client know that its consumer is gone; not every protocol has a place for the reason."""
        if consumer.ended_for:
            logger.warning("consumer ended", consumer=consumer.tag, reason=consumer.ended_for)
        consumer.session.consumer_cancelled(consumer)

    def queue_deleted(self, queue: Queue) -> None:
        """Forget a durable queue and everything stored for it.

        The queue is gone from memory already, and callers (a closing connection, expiry) have more to do, so a
        catalogue that refuses is no reason to stop half-way: the queue comes back, empty, at the next start.
        """
        NODE_LOG.queue_deleted(self.host_name, queue.name)
        if self.pager is not None:
            self.pager.budget.account(queue)  # which is nothing: no round over all queues comes to it again
        if queue.queue_id:
            try:
                self.catalogue.delete_queue(self.host_name, self._set_aside.pop(queue, queue.name))
            except CatalogueError as error:
                logger.error(  # noqa: TRY400 - the text says it all
                    "deleted queue stays in the catalogue", queue=queue.name, error=str(error), remedy="delete it again"
                )
            self.log.forget_queue(queue.queue_id)
            if self.history is not None:
                self.history.pending.forget_queue(queue.queue_id)
            self.pipeline.request()

    def name_taken(self, queue: Queue) -> None:
        """Let a deleted queue that is not forgotten cede its name: with it a crash brings back what it has.

        Raises :class:`CatalogueError`.
        """
        if queue.queue_id:
            name = f"{queue.name}.deleted-{queue.queue_id}"
            self.catalogue.set_queue_aside(self.host_name, queue.name, name)
            self._set_aside[queue] = name
            self.catalogue.if_refused(lambda: self._keep_name(queue))

    def _keep_name(self, queue: Queue) -> None:
        self._set_aside.pop(queue, None)

    def exchange_deleted(self, name: str) -> None:
        """Forget a durable exchange; the catalogue ignores names it does not hold, a refusal is as above."""
        NODE_LOG.exchange_deleted(self.host_name, name)
        try:
            self.catalogue.delete_exchange(self.host_name, name)
        except CatalogueError as error:
            logger.error(  # noqa: TRY400 - the text says it all
                "deleted exchange stays in the catalogue", exchange=name, error=str(error), remedy="delete it again"
            )


def ranges_without(first: int, last: int, held: Iterable[int]) -> list[tuple[int, int]]:
    """Return the ranges from ``first`` to ``last`` that have none of the numbers ``held`` in them."""
    ranges: list[tuple[int, int]] = []
    start = first
    for number in sorted([number for number in held if first <= number <= last]):
        if start < number:
            ranges.append((start, number - 1))
        start = number + 1
    if start <= last:
        ranges.append((start, last))
    return ranges


def _delays(queue: QueueState) -> bool:
    return queue.settings.redelivery_delay > 0
