"""Bringing a broker back: definitions from the catalogue, messages from the log, its memory of them from the
history."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from typing import TYPE_CHECKING, Final

import structlog

from annulet.broker.connections.views import VIEWS, may_ask_for
from annulet.broker.durability.deleted_queues import DeletedQueues
from annulet.broker.durability.leased import expect_leased
from annulet.broker.recovery.recovery_progress import ProgressLines
from annulet.broker.recovery.row_recovery import Remembered, RowRestorer
from annulet.core.host.auto_created import SubscriptionMark
from annulet.core.host.dead_letters import ORIGINAL_ADDRESS
from annulet.core.message.message import Message, Origin, logged_message
from annulet.core.paging.redelivered_ranges import RedeliveredRanges, redelivered_ranges
from annulet.core.routing.exchanges import Address
from annulet.core.routing.routes import address_of_key
from annulet.store.database.count_notes import KnownCounts
from annulet.store.database.history_batch import EntryState
from annulet.store.files.data_format import LOG_DIRECTORY, SPILL_DIRECTORY
from annulet.store.log.log import MessageLog
from annulet.store.log.memory import MemoryLog
from annulet.store.segments.interface import RecoveredRows
from annulet.store.segments.queue_names import highest_id
from annulet.store.spill.spill import SpillStore
from annulet.wire.amqp091.types.errors import RemoteProtocolError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from annulet.broker.broker import Broker
    from annulet.broker.paging.pager import Pager
    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.queue.queue import Queue
    from annulet.store.segments.interface import Log, RecoveredMessage, RecoveryProgress

logger = structlog.get_logger(__name__)

RESTORE_SLICE: Final = 5000
"""Messages restored before other tasks get a turn, so that a signal can end the start while a large backlog loads."""

REDELIVERED_UPTO: Final = "redelivered_upto"
"""Beside a queue's counters: the highest sequence that came back and was waiting at the clean stop. All that
older versions know of the marks: they wrote no ranges, and mark everything up to it."""

SPILL_LIMIT_MOST: Final = 10 << 30
"""Bytes. Default of ``spill_limit`` on a large disk: a minute of publishing at 170 MB/s."""

SPILL_SHARE: Final = 2
"""On a smaller one, half of the free memory at the start: the other half is for persistent messages."""

NEW_ENTRY: Final = EntryState(delivery_count=0, deliver_at=-1)
"""An entry of which nothing is remembered."""


async def open_log(directory: Path | None, loop: asyncio.AbstractEventLoop, *, heads: bool) -> Log:
    """Open the message log in a thread, with a progress line a second; in memory when there is no directory.

    ``heads``: have it keep heads of messages for the search process.
    """
    if directory is None:
        return MemoryLog()
    lines = ProgressLines("recovering the message log")

    def report(progress: RecoveryProgress) -> None:
        lines.say(progress.share, **progress.as_dict())

    return await loop.run_in_executor(
        None, lambda: MessageLog.open(directory / LOG_DIRECTORY, progress=report, asks_for=may_ask_for, heads=heads)
    )


def open_spill(directory: Path, limit: int | None) -> SpillStore | None:
    """Empty the spill store and return it. ``limit``: its bytes; 0: none; ``None``: the default for this disk.

    Raises ``OSError``.
    """
    store = SpillStore(directory / SPILL_DIRECTORY, limit or 0)
    if limit is None:  # files of a killed broker are removed by now
        limit = max(1, min(SPILL_LIMIT_MOST, shutil.disk_usage(directory).free // SPILL_SHARE))
        store = SpillStore(directory / SPILL_DIRECTORY, limit)
    return store if limit else None


def restore_definitions(broker: Broker) -> None:
    """Rebuild virtual hosts, exchanges, queues with their counters, and bindings.

    Dead letters are held from here on until :func:`release_dead_letters`: the target of a forwarded message may not be
    there yet, and a queue that is not restored as a whole would give out sequence numbers it already has.
    """
    catalogue = broker.catalogue
    now = broker.clock()
    # After a crash the running broker's last word counts; a clean stop wrote to the catalogue.
    latest = {} if broker.log.clean or broker.history is None else broker.history.history.queue_counters()
    if "/" not in catalogue.virtual_hosts():
        catalogue.add_virtual_host("/")
    for name in catalogue.virtual_hosts():
        host = broker.add_host(name)
        host.dead_letters.held = True
        broker.operator_settings.restore_host(host)
        for exchange in catalogue.exchanges(name):
            declared = host.declare_exchange(
                exchange.name,
                exchange.type,
                durable=True,
                auto_delete=exchange.auto_delete,
                internal=exchange.internal,
                arguments=exchange.arguments,
                stored=True,
            )
            if isinstance(declared, Address):
                declared.auto_created = exchange.auto_created
        marks = {record.queue: record for record in catalogue.subscriptions(name)}
        for record in catalogue.queues(name):
            queue = host.declare_queue(
                record.name,
                durable=True,
                auto_delete=record.auto_delete,
                owner=None,
                arguments=record.arguments,
                now=now,
                queue_id=record.id,
                server_named=True,  # every stored name was accepted before
                address=record.address,
                auto_created=record.auto_created,
            )
            mark = marks.get(record.name)
            if mark is not None:
                host.lifetime_of(queue).subscription = SubscriptionMark(mark.client, mark.name, mark.user)
            counters = latest.get(record.id) or catalogue.queue_counters(record.id)
            if counters is not None:
                queue.counters.restore(counters)
        broker.operator_settings.restore_queues(host, now)
        for binding in catalogue.bindings(name):
            if binding.destination_type == "queue":
                queue = host.queues[binding.destination]
                host.bind_queue(queue, binding.source, binding.routing_key, binding.arguments)
            else:
                host.bind_exchange(binding.destination, binding.source, binding.routing_key, binding.arguments)


def restore_history(broker: Broker) -> None:
    """Put back the losses of earlier runs, the duplicate ids of addresses and the audit trail."""
    if broker.history is None:
        return
    history = broker.history.history
    for host in broker.hosts.values():
        host.ledger.restore(*history.losses(host.name))
    for host_name, address, ids in history.duplicates():
        if host_name in broker.hosts:
            broker.hosts[host_name].publisher.restore_duplicates(address, ids)
    broker.audit.restore(*history.audit())


def release_dead_letters(broker: Broker) -> None:
    """Forward messages that were superseded or dropped during the restoration. After the last queue was declared."""
    now = broker.clock()
    for host in broker.hosts.values():
        host.dead_letters.release(now)


async def restore_messages(broker: Broker) -> None:
    """Put the log's live messages back into their queues, in their order, with the history's data of them."""
    log = broker.log
    restorer = MessageRestorer(broker)
    rows = None if broker.pager is None else restorer.row_restorer(broker.pager)
    count = 0
    work = 0
    lines = ProgressLines("restoring messages")
    live = max(1, log.report.live_records)
    for recovered in log.recovered() if rows is None else log.restorable(rows.may_have_rows):
        if isinstance(recovered, RecoveredRows):
            assert rows is not None
            work += 1 + rows.restore(recovered)
            count += len(recovered.records)
        else:
            restorer.restore(recovered)
            work += 1
            count += 1
        if work >= RESTORE_SLICE:
            work = 0
            if broker.pager is not None:
                broker.pager.window_written()  # the rest of the paging goes on by itself
            await asyncio.sleep(0)
            lines.say(log.report.restored_records / live, restored=count)
    await agree(broker, restorer)
    restorer.finish()
    if restorer.unreadable:
        logger.warning("messages with malformed headers, nothing in them counts", count=restorer.unreadable)
    if count:
        logger.info("messages restored", count=count, clean=log.clean)


async def agree(broker: Broker, restorer: MessageRestorer) -> None:
    """Let catalogue and log know the same queues. Before anybody declares one.

    Messages of deleted queues are removed for good. Those of queues that the catalogue does not know, and that were not
    deleted, stay in the log: their ids are given to no other queue.
    """
    catalogue, log = broker.catalogue, broker.log
    deleted = catalogue.deleted_queues()
    if restorer.deleted:
        await broker.commit.durable()
        logger.info("messages of deleted queues dropped", count=restorer.deleted)
    DeletedQueues(catalogue, broker.commit, broker.loop).drop(deleted)
    broker.orphans = dict(restorer.orphans)
    known = log.known_queues
    catalogue.reserve_queue_ids(max(highest_id(known, log.next_sequences), max(broker.orphans, default=0)))
    log.name_queues([*catalogue.queue_names(), *[known.queues[i] for i in broker.orphans if i in known.queues]])
    for queue_id, count in sorted(broker.orphans.items()):
        name = known.queues.get(queue_id)
        logger.error(
            "messages of a queue that the catalogue does not know are kept and cannot be consumed",
            queue_id=queue_id,
            queue=None if name is None else name.name,
            virtual_host=None if name is None else name.virtual_host,
            messages=count,
            remedy="stop the broker and run annulet doctor --rebuild",
        )


class MessageRestorer:
    """Makes messages of what the log recovered, and entries of them with what the history remembers."""

    def __init__(self, broker: Broker) -> None:
        self.orphans: Counter[int] = Counter()  # messages by id of a queue that the catalogue does not know
        self.deleted = 0  # (queue, message) pairs whose queue was deleted
        self.unreadable = 0  # messages whose headers are malformed
        self._broker = broker
        self._queues: dict[int, Queue] = {}
        self._hosts: dict[int, VirtualHost] = {}  # by queue id
        for host in broker.hosts.values():
            for queue in host.queues.values():
                if queue.queue_id:
                    self._queues[queue.queue_id] = queue
                    self._hosts[queue.queue_id] = host
        self._deleted = broker.catalogue.deleted_queues()
        expect_leased(broker.catalogue, self._queues)
        self._redelivered = {queue_id: _redelivered(broker, queue_id) for queue_id in self._queues}
        # All that is read of the history is read now: from the first turn on it belongs to the disk thread.
        history = None if broker.history is None else broker.history.history
        self._states = {} if history is None else history.entry_states()
        self._counts = KnownCounts() if history is None else history.delivery_counts()
        self._paused = set() if history is None else history.paused_queues()
        self._remembered = set() if history is None else history.queue_ids()
        self._uncovered = 0 if history is None else history.next_record()
        self._origins: dict[tuple[str, str, str, str], Origin] = {}

    def row_restorer(self, pager: Pager) -> RowRestorer:
        """Return a restorer of unread messages, for the same queues."""
        return RowRestorer(
            self._broker.log,
            pager,
            self._queues,
            restore=self.restore,
            pass_over=self.pass_over,
            origin_of=self._origin,
            remembered=Remembered(self._remembered_sequences, self._counts, self._redelivered),
            uncovered=self._uncovered,
        )

    def _remembered_sequences(self, queue_id: int) -> list[int]:
        """Return the sequences that are more than a place in their queue and a count beside it."""
        return [*self._queues[queue_id].leased, *self._states.get(queue_id, ())]

    def restore(self, recovered: RecoveredMessage) -> None:
        """Put one message back into all queues that hold it."""
        log = self._broker.log
        message = self._message(recovered)
        for queue_id, sequence in recovered.targets:
            queue = self._queues.get(queue_id)
            if queue is None:
                self.pass_over(queue_id, [recovered.record])
                continue
            seen = not log.clean or sequence in self._redelivered[queue_id]
            states = self._states.get(queue_id)
            state = NEW_ENTRY if states is None else states.pop(sequence, NEW_ENTRY)
            count = self._counts.take(queue_id, sequence)
            if count:  # said after what there may be of an earlier time
                state = EntryState(count, 0)
            entry = queue.restore(
                message,
                sequence,
                redelivered=seen,
                delivery_count=state.delivery_count,
                deliver_at=state.deliver_at,
            )
            if self._broker.pager is not None:
                self._broker.pager.notes.stored(entry)

    def pass_over(self, queue_id: int, records: Sequence[int]) -> None:
        """Settle messages of a queue that was deleted; the crash came before the log knew. Keep those of another."""
        if queue_id in self._deleted:
            self._broker.log.settle_all(list(records), queue_id)
            self.deleted += len(records)
        else:
            self.orphans[queue_id] += len(records)

    def finish(self) -> None:
        """End the recovery of all queues, and drop what the history holds of what did not come back."""
        broker = self._broker
        torn = broker.log.report.torn_messages
        for queue_id, queue in self._queues.items():
            queue.finish_restore(broker.log.next_sequences.get(queue_id, 1), torn.get(queue_id, 0), broker.clock())
        if broker.pager is not None:
            broker.pager.adopt_noted()  # while nothing waits for the loop
        if broker.history is None:
            return
        for queue_id in self._paused & self._queues.keys():
            self._queues[queue_id].pause(broker.clock())
        for queue_id in self._remembered - self._queues.keys() - self.orphans.keys():  # deleted before it knew
            broker.history.pending.forget_queue(queue_id)
        pending = broker.history.pending
        for queue_id, states in self._states.items():
            if queue_id in self.orphans:
                continue
            for sequence in states:
                pending.entries[queue_id, sequence] = None
        for queue_id, sequence in self._counts.left():
            if queue_id in self.orphans:
                continue
            pending.counts.note(queue_id, sequence, 0)

    def _message(self, recovered: RecoveredMessage) -> Message:
        """Return the message as it was when it was stored. Messages of one origin share it."""
        origin = self._origin((recovered.exchange, recovered.routing_key, recovered.publisher, recovered.view))
        message = logged_message(
            recovered.record,
            recovered.header,
            recovered.body,
            origin,
            recovered.priority,
            recovered.accepted_at,
            recovered.expires_at,
        )
        try:
            message.deliver_at = origin.view.deliver_at(message)
            if self._broker.history is not None and recovered.record >= self._uncovered:
                self._note_duplicate(message, recovered.targets)
        except RemoteProtocolError:  # a version that did not look at the headers let it in
            self.unreadable += 1
        return message

    def _origin(self, place: tuple[str, str, str, str]) -> Origin:
        origin = self._origins.get(place)
        if origin is None:
            exchange, routing_key, publisher, view = place
            origin = self._origins[place] = Origin(exchange, routing_key, publisher, VIEWS[view])
        return origin

    def _note_duplicate(self, message: Message, targets: list[tuple[int, int]]) -> None:
        """Remember the duplicate id of a message that the log holds, if the crash came before the history knew it.

        The sender was not told, and will send again what must not be taken twice.
        """
        origin = message.origin
        duplicate_id = origin.view.duplicate_id(message)
        if not duplicate_id or origin.view.application_property(message, ORIGINAL_ADDRESS) is not None:
            return  # none, or a copy the broker made: its sender sent it somewhere else
        address = origin.exchange or address_of_key(origin.routing_key)
        for host in {self._hosts[queue_id] for queue_id, _ in targets if queue_id in self._hosts}:
            settings = host.settings_of(address)
            size = settings.id_cache_size
            if size > 0 and settings.persist_id_cache and not host.publisher.duplicates.has(address, duplicate_id):
                host.publisher.restore_duplicates(address, [duplicate_id])
                host.effects.duplicate_noted(address, duplicate_id, size)


def _redelivered(broker: Broker, queue_id: int) -> RedeliveredRanges:
    """Return which messages came back before the clean stop and are delivered as redelivered; after a crash all are."""
    lengths = broker.catalogue.redelivered(queue_id)
    if lengths is not None:
        return RedeliveredRanges.of_lengths(lengths)
    counters = broker.catalogue.queue_counters(queue_id)
    return RedeliveredRanges.upto(0 if counters is None else counters.get(REDELIVERED_UPTO, 0))


def save_counters(broker: Broker) -> None:
    """Write the counters of durable queues, so that they go on after a restart.

    Into the catalogue, which a clean start reads, and into the history: its content must not be older, should the next
    run end before it has written any.
    """
    with broker.catalogue.transaction():
        for host in broker.hosts.values():
            for queue in host.queues.values():
                if queue.queue_id:
                    returned = redelivered_ranges(queue)
                    if returned.filled:
                        logger.info(
                            "neighbours of messages that came back will be marked redelivered too",
                            virtual_host=host.name, queue=queue.name, ranges=returned.count, most=returned.filled,
                        )  # fmt: skip
                    broker.catalogue.set_queue_counters(
                        queue.queue_id,
                        queue.counters.as_dict() | {REDELIVERED_UPTO: returned.highest},
                        returned.lengths(),
                    )
                    if broker.history is not None:
                        broker.history.changed.add(queue)
    if broker.history is not None:
        broker.history.write_now(broker.log.next_record, deferring=broker.log.deferring)
