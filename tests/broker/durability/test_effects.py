"""What the core's effects do to log and catalogue."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import structlog

from annulet.broker.durability.commit import CommitPipeline
from annulet.broker.durability.effects import (
    ARGUMENTS_TOLD_AT_ONCE_MAX,
    ARGUMENTS_TOLD_MAX,
    DISCARD_LEAST,
    DurableLosses,
    HostEffects,
)
from annulet.broker.durability.history import HistoryRecorder
from annulet.broker.paging.pager import Pager
from annulet.core.host.virtual_host import VirtualHost
from annulet.core.message.message import BodySource, ContentView, Message, Origin
from annulet.core.model.audit_trail import AuditEntry
from annulet.core.model.compact_messages import CompactDelivery, SharedFields
from annulet.core.model.entry import QueueEntry
from annulet.core.model.queue_bodies import QueueBodies
from annulet.core.queue.queue import Queue
from annulet.residency.bodies.arrival_notes import FLOOR_BYTES, ArrivalNotes
from annulet.store.database.count_notes import COUNT_MOST
from annulet.store.database.history_batch import EntryState, HistoryBatch
from annulet.store.files.errors import CatalogueError, DiskFullError
from annulet.store.log.log import MessageLog
from annulet.store.log.memory import MemoryLog
from tests.databases import memory_catalogue, memory_history

ORIGIN = Origin("e", "k", "guest@test", ContentView("none"))
NOW = 1_000_000


class House:
    """A virtual host with real effects over a log in memory."""

    def __init__(self) -> None:
        self.log = MemoryLog()
        self.catalogue = memory_catalogue()
        self.history = HistoryRecorder(memory_history())
        self.pipeline = CommitPipeline(self.log, asyncio.get_running_loop(), self.history)
        self.effects = HostEffects("/", self.log, self.pipeline, self.catalogue)
        self.host = VirtualHost("/", self.effects)
        self.host.ledger.listeners.append(DurableLosses(self.effects))
        self.host.declare_exchange("e", "fanout", durable=True)

    def declare(self, name: str, *, durable: bool = True, **arguments: int) -> Queue:
        queue_id = self.catalogue.add_queue("/", name, False, dict(arguments)) if durable else 0
        queue = self.host.declare_queue(name, now=NOW, durable=durable, arguments=dict(arguments), queue_id=queue_id)
        self.host.bind_queue(queue, "e", "")
        return queue

    def publish(self, *, durable: bool = True) -> Message:
        message = Message(b"", b"body", ORIGIN, durable=durable, accepted_at=NOW)
        self.host.publisher.publish(message, self.host.route("e", "k"), NOW)
        return message

    @property
    def live(self) -> int:
        return self.log.statistics().live_records

    @property
    def notes(self) -> HistoryBatch:
        return self.history.pending

    def losses(self) -> list[int]:
        """Sequences of the losses that are to survive a restart."""
        return [record.sequence for record in self.notes.losses["/"].records] if self.notes.losses else []


@pytest.fixture
async def house() -> AsyncIterator[House]:
    house = House()
    yield house
    await house.pipeline.close()
    house.catalogue.close()
    house.history.history.close()


async def test_message_for_many_queues_is_one_record_until_all_are_done(house: House) -> None:
    first, second, transient = house.declare("a"), house.declare("b"), house.declare("t", durable=False)
    message = house.publish()
    assert (message.record, house.live) == (1, 1)
    transient.purge(NOW)
    first.purge(NOW)
    assert house.live == 1
    second.purge(NOW)
    assert house.live == 0


async def test_only_persistent_messages_in_durable_queues_are_stored(house: House) -> None:
    house.declare("t", durable=False)
    assert house.publish().record == 0
    house.declare("a")
    assert house.publish(durable=False).record == 0
    assert house.log.statistics().appended == 0


async def test_counters_are_written_with_what_left_for_other_reasons_than_acknowledgement(house: House) -> None:
    ring, purged, other = house.declare("r", **{"x-ring-size": 1}), house.declare("p"), house.declare("o")
    house.publish()
    assert house.history.changed == set()
    house.publish()
    assert house.history.changed == {ring}
    purged.purge(NOW)
    assert house.history.changed == {ring, purged}
    (entry,) = other.acquire(1, -1, NOW)
    other.acknowledge(entry)
    assert house.history.changed == {ring, purged}, "each acknowledgement would be a transaction of SQLite"


async def test_counters_of_what_no_log_holds_wait_for_their_round(house: House) -> None:
    ring = house.declare("r", **{"x-ring-size": 1})
    for _ in range(2):
        house.publish(durable=False)
    assert (ring.statistics().messages_replaced, house.history.changed) == (1, set())


async def test_counters_of_what_left_in_a_transaction_are_written_with_its_commit(house: House) -> None:
    ring = house.declare("r", **{"x-ring-size": 1})
    house.publish()
    house.effects.begin_transaction()
    house.publish()
    assert house.history.changed == set()
    house.effects.end_transaction()
    assert house.history.changed == {ring}


class NotingPager:
    """Notes which entries of which queues no log holds, and which it does."""

    def __init__(self) -> None:
        self.noted: list[tuple[str, str]] = []
        self.notes = ArrivalNotes()

    def unstored(self, entry: QueueEntry) -> None:
        self.noted.append(("unstored", entry.queue.name))


class NotingBodies(QueueBodies):
    """Tells a pager which entries its notes have heard of."""

    def __init__(self, pager: NotingPager) -> None:
        super().__init__(BodySource())
        self.pager = pager

    def note(self, entry: QueueEntry) -> None:
        self.pager.noted.append(("stored", entry.queue.name))


async def test_the_pager_hears_of_every_arrival_and_whether_the_log_has_it(house: House) -> None:
    pager = NotingPager()
    house.effects.use_pager(pager)
    house.declare("t", durable=False)
    house.publish()
    large = house.declare("a")
    large.pending_bytes = FLOOR_BYTES
    large.bodies = NotingBodies(pager)
    house.publish()
    house.publish(durable=False)
    house.declare("e").queue_id = 0  # durable and exclusive: it ends with its connection
    house.publish()
    assert pager.noted == [
        ("unstored", "t"),
        *[("unstored", "t"), ("stored", "a")],
        *[("unstored", "t"), ("unstored", "a")],
        *[("unstored", "t"), ("stored", "a"), ("unstored", "e")],
    ]
    pager.noted.clear()
    for name in ("t", "a"):
        house.host.unbind_queue(house.host.queues[name], "e", "")
    house.publish()
    assert pager.noted == [("unstored", "e")]


async def test_ring_victim_is_settled(house: House) -> None:
    house.declare("ring", **{"x-ring-size": 2})
    for _ in range(5):
        house.publish()
    assert (house.live, house.log.statistics().appended) == (2, 5)


async def test_rows_are_settled_by_ranges_where_these_are_long(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    ranges: list[tuple[int, int]] = []
    monkeypatch.setattr(house.log, "discard", lambda _, found: ranges.extend(found))
    queue = house.declare("a")
    records = [house.publish().record for _ in range(3 * DISCARD_LEAST)]
    short, long = (records[1], records[DISCARD_LEAST - 1]), (records[DISCARD_LEAST], records[2 * DISCARD_LEAST - 1])
    house.effects.settle_records(queue, [short, long])
    assert (house.live, ranges) == (2 * DISCARD_LEAST + 1, [long])
    house.effects.begin_transaction()
    house.effects.settle_records(queue, [(records[-DISCARD_LEAST], records[-1])])
    house.effects.end_transaction()
    assert (house.live, ranges) == (DISCARD_LEAST + 1, [long])


async def test_deleted_queue_leaves_catalogue_and_log(house: House) -> None:
    queue = house.declare("a")
    house.publish()
    house.host.delete_queue(queue, NOW)
    assert house.catalogue.queues("/") == []
    assert house.live == 0


async def test_catalogue_that_refuses_stops_no_deletion_half_way(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise CatalogueError("disk full")

    queue = house.declare("a")
    house.publish()
    monkeypatch.setattr(house.catalogue, "delete_queue", refuse)
    monkeypatch.setattr(house.catalogue, "delete_exchange", refuse)
    with structlog.testing.capture_logs() as lines:
        house.host.delete_queue(queue, NOW)
        house.host.delete_exchange("e")
    assert house.live == 0
    refused = [line["event"] for line in lines if line["log_level"] == "error"]
    assert [event.split()[1] for event in refused] == ["queue", "exchange"]


async def test_transaction_counts_when_it_is_committed(house: House) -> None:
    queue = house.declare("a")
    house.effects.begin_transaction()
    house.publish()
    queue.purge(NOW)
    house.publish()
    assert house.live == 2, "the settlement waits for the commit"
    house.effects.end_transaction(("query", 7))
    assert house.live == 1
    assert house.log.outcomes == {"query": 7}
    assert house.log.statistics().open_transactions == 0


async def test_suspended_transaction_does_not_take_in_others(house: House) -> None:
    house.declare("a")
    house.effects.begin_transaction()
    house.publish()
    transaction = house.effects.suspend_transaction()
    house.publish()
    house.effects.resume_transaction(transaction)
    house.effects.abort_transaction()
    assert house.live == 1


async def test_commit_the_log_refuses_is_aborted(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise DiskFullError("no disk space")

    house.declare("a")
    house.effects.begin_transaction()
    house.publish()
    monkeypatch.setattr(house.log, "commit", refuse)
    with pytest.raises(DiskFullError):
        house.effects.end_transaction()
    assert (house.live, house.log.statistics().open_transactions) == (0, 0)
    house.publish()
    assert house.live == 1, "later messages are in no transaction"


async def test_settling_what_an_aborted_transaction_left_settles_nobody_elses_message(tmp_path: Path) -> None:
    """The log gives the ids of records that were never written out again."""
    log = MessageLog.open(tmp_path)
    catalogue = memory_catalogue()
    effects = HostEffects("/", log, CommitPipeline(log, asyncio.get_running_loop()), catalogue)
    host = VirtualHost("/", effects)
    queue = host.declare_queue("q", now=NOW, durable=True, queue_id=catalogue.add_queue("/", "q", False, {}))
    route = host.route("", "q")
    left, sent = (Message(b"", body, ORIGIN, durable=True) for body in (b"left", b"sent"))
    effects.begin_transaction()
    host.publisher.publish(left, route, NOW)
    effects.abort_transaction()
    await effects.pipeline.durable()
    host.publisher.publish(sent, route, NOW)
    await effects.pipeline.durable()
    assert sent.record
    entry = next(entry for entry in queue.order.entries() if entry.message is left)
    effects.settle(queue, entry)
    await effects.pipeline.close()
    log.close()
    catalogue.close()
    assert [recovered.body for recovered in MessageLog.open(tmp_path).recovered()] == [b"sent"]


async def test_losses_of_persistent_messages_in_durable_queues_are_remembered(house: House) -> None:
    ring = house.declare("ring", **{"x-ring-size": 1})
    house.declare("t", durable=False, **{"x-ring-size": 1})
    for durable in (True, False, True, False):
        house.publish(durable=durable)
    assert house.losses() == [1, 3]
    assert len(house.host.ledger) == 6
    (entry,) = ring.acquire(1, -1, NOW)
    ring.acknowledge(entry)
    assert house.losses() == [1, 3], "settled is not lost"


async def test_what_the_log_did_not_take_is_remembered_as_lost_too(house: House) -> None:
    queue = house.declare("q", **{"x-message-ttl": 0})
    message = house.publish()
    assert (message.record, queue.order.count) == (0, 0)
    assert house.losses() == [1]


async def test_what_is_noted_in_a_transaction_counts_when_it_is_committed(house: House) -> None:
    queue = house.declare("a")
    house.publish()
    house.effects.begin_transaction()
    queue.purge(NOW)
    house.effects.duplicate_noted("a", "id")
    transaction = house.effects.suspend_transaction()
    assert not house.notes
    house.effects.resume_transaction(transaction)
    house.effects.end_transaction()
    assert (house.losses(), list(house.notes.duplicates)) == ([1], [("/", "a")])


async def test_what_is_noted_in_an_aborted_transaction_never_was(house: House) -> None:
    house.declare("a")
    house.effects.begin_transaction()
    house.effects.duplicate_noted("a", "id")
    house.effects.abort_transaction()
    assert not house.notes


async def test_an_open_transaction_holds_back_what_the_notes_cover(house: House) -> None:
    """Its records take effect with its commit: until then a crash may leave them without their notes."""
    house.declare("a")
    house.publish()
    house.effects.begin_transaction()
    first = house.publish().record
    transaction = house.effects.suspend_transaction()
    house.publish()
    house.effects.duplicate_noted("a", "1")
    batch = house.history.take(house.log.next_record)
    assert batch is not None
    assert batch.next_record == first
    house.effects.resume_transaction(transaction)
    house.effects.end_transaction()
    house.effects.duplicate_noted("a", "2")
    batch = house.history.take(house.log.next_record)
    assert batch is not None
    assert batch.next_record == house.log.next_record


async def test_duplicate_ids_of_an_address_are_noted_and_forgotten(house: House) -> None:
    house.effects.duplicate_noted("a", "1", 5)
    house.effects.duplicate_noted("a", "2", 5)
    notes = house.notes.duplicates["/", "a"]
    assert (list(notes.ids), notes.cache_size, notes.afresh) == (["1", "2"], 5, False)
    house.effects.duplicates_forgotten("a")
    assert (list(house.notes.duplicates["/", "a"].ids), house.notes.duplicates["/", "a"].afresh) == ([], True)


async def test_audited_operations_are_in_the_trail_and_noted(house: House) -> None:
    entry = AuditEntry(NOW, "/", "anna", "purge", "q", count=3)
    house.effects.audited(entry)
    assert list(house.effects.audit.query()) == list(house.notes.audit) == [entry]


async def test_a_queue_that_is_gone_leaves_nothing_behind(house: House) -> None:
    queue = house.declare("a")
    house.host.delete_queue(queue, NOW)
    assert house.notes.gone_queues == {queue.queue_id}


async def test_a_broker_in_memory_takes_no_notes() -> None:
    log, catalogue = MemoryLog(), memory_catalogue()
    pipeline = CommitPipeline(log, asyncio.get_running_loop())
    effects = HostEffects("/", log, pipeline, catalogue)
    host = VirtualHost("/", effects)
    queue = host.declare_queue("q", now=NOW, durable=True, queue_id=1)
    host.publisher.publish(Message(b"", b"body", ORIGIN, durable=True), host.route("", "q"), NOW)
    queue.purge(NOW)
    effects.duplicate_noted("q", "1")
    effects.duplicates_forgotten("q")
    effects.audited(AuditEntry(NOW, "/", "anna", "purge", "q"))
    host.delete_queue(queue, NOW)
    assert len(effects.audit) == 1
    await pipeline.close()
    catalogue.close()


async def test_deliveries_that_came_back_are_remembered_until_the_entry_is_settled(house: House) -> None:
    queue = house.declare("a", **{"x-redelivery-delay": 50, "x-redelivery-jitter": 0})
    transient = house.declare("t", durable=False)
    house.publish()
    (entry,) = queue.acquire(1, -1, NOW)
    queue.return_entries([entry], NOW)
    (other,) = transient.acquire(1, -1, NOW)
    transient.return_entries([other], NOW)
    assert house.notes.entries == {(queue.queue_id, 1): EntryState(1, NOW + 50)}
    queue.tick(NOW + 50)
    queue.acknowledge(*queue.acquire(1, -1, NOW + 50))
    assert house.notes.entries == {(queue.queue_id, 1): None}


async def test_a_count_alone_is_a_byte_until_it_is_too_high_for_one(house: House) -> None:
    queue = house.declare("a")
    house.publish()
    notes = house.notes
    for count in range(1, COUNT_MOST + 3):
        queue.return_entries(queue.acquire(1, -1, NOW), NOW)
        assert notes.counts.noted(queue.queue_id, 1) == (count if count <= COUNT_MOST else 0)
    assert notes.entries == {(queue.queue_id, 1): EntryState(COUNT_MOST + 2, 0)}
    queue.acknowledge(*queue.acquire(1, -1, NOW))
    assert notes.entries == {(queue.queue_id, 1): None}
    assert notes.counts.noted(queue.queue_id, 1) == 0


@pytest.mark.parametrize("delay", [-1, 1000])
async def test_what_comes_back_together_is_noted_as_one_by_one(house: House, delay: int) -> None:
    arguments = {"x-redelivery-delay": delay} if delay > 0 else {}
    together, single = house.declare("a", **arguments), house.declare("b", **arguments)
    for _ in range(700):  # more than a block of sequences
        house.publish()
    house.publish(durable=False)
    for queue in (together, single):
        entries = queue.order.entries()
        for number, entry in enumerate(entries):
            entry.delivery_count = (1, 2, COUNT_MOST, COUNT_MOST + 1)[number % 4]
        entries[0].message.deliver_at = NOW  # it was scheduled
        if queue is together:
            house.effects.entries_changed(queue, entries[:690] + entries[695:])
            continue
        for entry in entries[:690] + entries[695:]:
            if entry.message.record:
                house.effects.entry_changed(queue, entry)
    notes = house.history.pending
    states, counts = (
        [
            {sequence: state for (held, sequence), state in notes.entries.items() if held == queue.queue_id}
            for queue in (together, single)
        ],
        [notes.counts.blocks.get(queue.queue_id) for queue in (together, single)],
    )
    assert states[0] == states[1]
    assert counts[0] == counts[1]
    assert len(states[0]) > 100


async def test_what_comes_back_folded_is_noted(house: House) -> None:
    queue, transient = house.declare("q"), house.declare("t", durable=False)
    house.publish()
    for there in (queue, transient):
        (entry,) = there.order.entries()
        kind = SharedFields(there, entry.message.origin, BodySource())
        kind.delivery_count = 3
        house.effects.folded_changed(there, [CompactDelivery(kind, entry)])
    notes = house.history.pending
    assert notes.counts.noted(queue.queue_id, entry.sequence) == 3
    assert list(notes.counts.blocks) == [queue.queue_id]


async def test_what_comes_back_to_a_queue_that_ends_with_the_broker_is_not_noted(house: House) -> None:
    queue = house.declare("q", durable=False)
    house.publish()
    house.effects.entries_changed(queue, queue.order.entries())
    assert not house.history.pending.counts


async def test_what_never_came_back_needs_no_forgetting(house: House) -> None:
    queue = house.declare("a")
    house.publish()
    queue.acknowledge(*queue.acquire(1, -1, NOW))
    assert not house.notes


async def test_pauses_of_durable_queues_are_remembered(house: House) -> None:
    queue, transient = house.declare("a"), house.declare("t", durable=False)
    queue.pause(NOW)
    transient.pause(NOW)
    assert house.notes.paused == {queue.queue_id: True}
    queue.resume(NOW)
    assert house.notes.paused == {queue.queue_id: False}


async def test_bindings_the_core_makes_are_written_down_where_both_ends_last(house: House) -> None:
    house.host.nodes.declare_address("dead")
    for name, durable in (("lasting", True), ("passing", False)):
        queue = house.host.declare_queue(name, now=NOW, durable=durable)
        house.effects.binding_created(house.host.nodes.attach_queue(queue, "dead"))
    written = [(binding.source, binding.destination) for binding in house.catalogue.bindings("/")]
    assert written == [("dead", "lasting")]


async def test_turns_are_those_of_deep_queues_where_there_is_a_disk(house: House) -> None:
    queue = house.declare("t")
    assert not house.effects.turns_for(queue)
    loop = asyncio.get_running_loop()
    pager = Pager(house.log, loop, 1 << 20, lambda: 1 << 30, lambda: NOW)
    house.effects.pager = pager
    assert house.effects.turns_for(queue)
    await asyncio.sleep(0)
    assert pager.scanning.turns == 1
    await pager.close()


async def test_an_argument_without_effect_is_logged_once_up_to_a_bound() -> None:
    house = House()
    with structlog.testing.capture_logs() as logs:
        for number in range(2):
            house.declare(f"first-{number}", durable=False, **{"x-one": 1, "x-two": 2})
        arguments = {f"x-of-mine-{number:04}": 3 for number in range(ARGUMENTS_TOLD_MAX)}
        house.declare("many", durable=False, **arguments)
        at_once = len(logs) - 2
        for number in range(ARGUMENTS_TOLD_MAX // ARGUMENTS_TOLD_AT_ONCE_MAX):
            house.declare(f"many-{number}", durable=False, **arguments)
    told = [line["argument"] for line in logs if line["event"] == "queue argument without effect"]
    assert at_once == ARGUMENTS_TOLD_AT_ONCE_MAX
    assert told[:3] == ["x-one", "x-two", "x-of-mine-0000"]
    assert len(told) == ARGUMENTS_TOLD_MAX
