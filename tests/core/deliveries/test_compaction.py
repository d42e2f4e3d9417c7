"""Messages in delivery are folded into less memory, and nobody sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from annulet.broker.operation.looking import Sample
from annulet.bulk.reading.stretches import read_stretch
from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.settings import BROWSE_SNAPSHOT
from annulet.core.base.sliced_work import AT_ONCE_MAX, SLICE_MESSAGES
from annulet.core.deliveries.compaction import Compaction
from annulet.core.deliveries.delivery_table import BLOCK_TAGS
from annulet.core.host.transaction import Transaction
from annulet.core.management import Preview, select
from annulet.core.management.actions import IN_DELIVERY, NOT_THERE, Remove
from annulet.core.model.compact_messages import CompactDelivery, SharedFields
from annulet.core.model.entry import DELIVERING, PENDING, REMOVED, QueueEntry
from annulet.core.model.loss_ledger import LossLedger
from annulet.core.queue.invariants import check_invariants
from annulet.core.queue.queue import Queue
from annulet.core.reading.browse_order import NOTED_PER_TURN, BrowseOrder
from annulet.core.reading.entry_lookup import EntryLookup
from annulet.core.sessions.session import end_together
from annulet.residency.bodies.budget import drift_of
from tests.core.deep_doubles import numbers
from tests.core.helpers import NOW, RecordingSession, SlicingEffects, queue_of, removed
from tests.core.node_helpers import address, make_host, note, send
from tests.core.reading.test_browse_order import deep_queue
from tests.residency.doubles import Disk, bodies_of, filled

ALL = 1 << 60


class Holder(RecordingSession):
    """Remembers no entry: who is known to somebody else is not folded."""

    def deliver(self, consumer, entry, tag):
        self.received.append(entry.message.body.decode())


class LogEffects(SlicingEffects):
    """``knows``: the log takes all records of a deleted queue at once."""

    knows = False

    def emptied(self, queue, gone):
        return self.knows


class Held:
    """A queue, and sessions that hold all of it but what waits, in turn, without the bodies."""

    def __init__(self, count: int, sessions: int = 1, **settings: Any) -> None:
        self.effects = LogEffects()
        self.queue: Queue = queue_of(self.effects, **settings)
        self.queue.queue_id = 7
        self.queue.durable = True
        self.disk = Disk()
        filled(self.queue, self.disk, count)
        self.queue.counters.messages_added = count
        self.queue.counters.bytes_added = self.queue.pending_bytes
        self.sessions = [Holder(str(number)) for number in range(sessions)]
        for session in self.sessions:
            session.consume(self.queue, messages=count // sessions)
        self.bodies = bodies_of(self.queue, self.disk)
        self.bodies.let_all_go(ALL)

    def fold(self, *, newest: bool = True) -> int:
        for session in self.sessions:
            folding = Compaction(session.unacknowledged, newest=newest)
            while folding.step(1):
                pass
        return self.queue.delivering.folded

    def check(self) -> None:
        assert drift_of(self.queue) == 0
        check_invariants(self.queue)


def facts_of(entry: QueueEntry) -> tuple[Any, ...]:
    message = entry.message
    return (
        entry.queue, entry.sequence, entry.place, entry.state, entry.consumer, entry.redelivered, entry.delivery_count,
        entry.away, message.record, message.size, message.header, message.origin, message.priority, message.durable,
        message.accepted_at, message.expires_at, message.deliver_at, message.near, message.away, message.absent,
        message.body,
    )  # fmt: skip


def test_what_is_unfolded_is_what_was_folded():
    held = Held(200, sessions=2)
    for entry in held.queue.delivering:
        entry.message.accepted_at = (1 << 41) + entry.sequence % 5 * 1000
        entry.message.priority = entry.sequence % 3
        entry.redelivered, entry.delivery_count = entry.sequence % 7 == 0, entry.sequence % 11
    del entry
    before = [facts_of(entry) for entry in held.queue.delivering]
    assert held.fold() == len(held.queue.delivering) == 200
    assert [facts_of(entry) for entry in held.queue.delivering] == before
    assert held.queue.delivering.folded == 0
    held.check()


def test_session_and_queue_have_one_entry():
    held = Held(100)
    held.fold()
    by_tag = held.sessions[0].unacknowledged[40]
    assert held.queue.delivering.folded == 99
    assert [entry for entry in held.queue.delivering if entry is by_tag] == [by_tag]
    by_sequence = held.queue.delivering.entries()
    assert held.sessions[0].unacknowledged.values() == by_sequence
    del by_tag, by_sequence
    assert held.fold() == 100, "it can be folded again"


def test_records_are_told_of_folded_ones_as_they_are():
    held = Held(100)
    known = held.queue.delivering.entries()[:3]
    assert held.fold() == 97
    assert held.queue.delivering.records() == list(range(1, 101))
    assert held.queue.delivering.folded == 97
    assert [entry.message.record for entry in known] == [1, 2, 3]


def test_who_asks_whether_a_tag_is_held_makes_no_entry():
    held = Held(100)
    held.fold()
    table = held.sessions[0].unacknowledged
    held.sessions[0].acknowledge(40, NOW)
    assert [tag for tag in range(103) if tag in table] == [tag for tag in range(1, 101) if tag != 40]
    assert held.queue.delivering.folded == 99


def test_the_newest_block_waits_for_more():
    held = Held(2 * BLOCK_TAGS + 10)
    assert held.fold(newest=False) == 2 * BLOCK_TAGS - 1  # there is no tag 0


def test_who_is_known_elsewhere_stays_an_object():
    held = Held(100)
    known = held.queue.delivering.entries()[10]
    message = held.queue.delivering.entries()[20].message
    assert held.fold() == 98
    assert known in held.queue.delivering.entries()
    assert held.queue.delivering.entries()[20].message is message


@pytest.mark.parametrize(
    "change",
    [
        lambda entry: setattr(entry.message, "expires_at", NOW + 9),
        lambda entry: setattr(entry.message, "deliver_at", NOW - 9),
        lambda entry: setattr(entry.message, "record", 0),
        lambda entry: setattr(entry.message, "durable", False),
        lambda entry: setattr(entry.message, "away", 2),
        lambda entry: setattr(entry.message, "size", 1 << 31),
        lambda entry: setattr(entry, "place", 1 << 40),
        lambda entry: setattr(entry, "delivery_count", 101),
        lambda entry: setattr(entry, "consumer", None),
        lambda entry: setattr(entry, "evaluated", 1),
        lambda entry: setattr(entry, "indexed", True),
        lambda entry: setattr(entry, "away", False),
    ],
)
def test_what_the_log_does_not_tell_all_of_stays_an_object(change):
    held = Held(10)
    change(held.queue.delivering.entries()[4])
    assert held.fold() == 9


@pytest.mark.parametrize("settings", [{"priorities": 3}, {"message_ttl": 1000}, {"last_value_key": "k"}])
def test_queues_that_know_more_of_their_messages_fold_none(settings: dict[str, Any]):
    assert Held(10, **settings).fold() == 0


def test_settlements_take_out_what_they_name():
    held = Held(300)
    queue, session = held.queue, held.sessions[0]
    held.fold()
    session.acknowledge(5, NOW)
    session.acknowledge(100, NOW, multiple=True)
    session.reject(110, NOW, requeue=False)
    session.reject(120, NOW, requeue=False, multiple=True)
    assert removed(queue, RemovalReason.REJECTED) == 20
    assert len(queue.delivering) == queue.delivering.folded == 180
    assert sorted(record for _, record in held.effects.settled) == list(range(1, 121))
    session.reject(130, NOW, requeue=True, multiple=True)
    assert [entry.sequence for entry in queue.order.entries()] == []
    assert session.received[300:] == [session.received[tag] for tag in range(120, 130)], "it has room for them again"
    held.check()


def test_many_are_settled_a_few_at_a_time():
    held = Held(AT_ONCE_MAX + 500)
    held.fold()
    session, delivering = held.sessions[0], held.queue.delivering
    session.acknowledge(0, NOW, multiple=True)
    assert delivering.folded == AT_ONCE_MAX + 500
    held.effects.turn()
    assert len(delivering) == delivering.folded == AT_ONCE_MAX + 500 - SLICE_MESSAGES
    held.effects.turns()
    assert len(delivering) == delivering.folded == 0
    assert len(held.effects.settled) == AT_ONCE_MAX + 500
    held.check()


@pytest.mark.parametrize(
    "give_back",
    [
        lambda session: session.recover(NOW),
        lambda session: session.reject(0, NOW, requeue=True, multiple=True),
        lambda session: session.reject(session.last_tag, NOW, requeue=True, multiple=True),
    ],
)
def test_many_are_given_back_a_few_at_a_time(give_back: Any):
    count = AT_ONCE_MAX + 500
    held = Held(count)
    held.fold()
    queue, session = held.queue, held.sessions[0]
    give_back(session)
    left = count - SLICE_MESSAGES
    assert (len(queue.delivering), queue.delivering.folded) == (left, left)
    assert queue.order.count == SLICE_MESSAGES
    held.effects.turns()
    assert session.received[count:] == [f"{sequence:010}" for sequence in range(1, count + 1)]
    assert {(entry.redelivered, entry.delivery_count) for entry in queue.delivering} == {(True, 1)}
    held.check()


def closed(held: Held) -> None:
    end_together(held.sessions)
    for session in held.sessions:
        session.close(NOW)


@pytest.mark.parametrize("objects", [0, 5])
def test_what_dead_consumers_held_comes_back_folded(objects: int):
    held = Held(3000, sessions=3)
    queue = held.queue
    known = queue.delivering.entries()[objects : objects + objects]
    assert held.fold() == 3000 - len(known)
    size = queue.delivering_bytes
    closed(held)
    held.effects.turns()
    assert (len(queue.delivering), queue.delivering.folded, queue.delivering_bytes) == (0, 0, 0)
    assert (queue.order.count, queue.pending_bytes, queue.counters.messages_returned) == (3000, size, 3000)
    assert (held.bodies.in_delivery, held.bodies.in_delivery_bytes, held.bodies.count) == (0, 0, 3000)
    assert sorted(held.effects.changed) == [("q", sequence, 1) for sequence in range(1, 3001)]
    messages = sum(len(run) for run in queue.order._returned._folded)
    assert messages > 3000 - 2 * SLICE_MESSAGES, "but for the first slice, which waits for nobody"
    session = Holder("another")
    session.consume(queue, messages=2000)
    assert session.received == [f"{sequence:010}" for sequence in range(1, 2001)]
    assert {(entry.redelivered, entry.delivery_count) for entry in queue.delivering} == {(True, 1)}
    left = queue.order.entries()
    assert [entry.sequence for entry in left] == list(range(2001, 3001))
    assert {(entry.state, entry.redelivered, entry.delivery_count) for entry in left} == {(PENDING, True, 1)}
    held.check()


def test_what_one_of_several_held_comes_back_as_objects():
    held = Held(9000, sessions=3)
    queue = held.queue
    held.fold()
    held.sessions[0].close(NOW)
    held.effects.turns()
    assert len(queue.delivering) == queue.delivering.folded == 6000
    assert queue.order.count == 3000
    held.check()


@pytest.mark.parametrize("count", [300, AT_ONCE_MAX + 500])
@pytest.mark.parametrize("knows", [False, True])
def test_deletion_leaves_nothing(count: int, knows: bool):
    held = Held(count)
    held.effects.knows = knows
    held.fold()
    queue, session = held.queue, held.sessions[0]
    assert queue.delete(NOW) == 0
    held.effects.turns()
    assert (len(queue.delivering), queue.delivering.folded, queue.delivering_bytes) == (0, 0, 0)
    assert removed(queue, RemovalReason.DELETED) == count
    assert (held.bodies.in_delivery, held.bodies.in_delivery_bytes) == (0, 0)
    assert (held.bodies.count, held.bodies.bytes) == (0, 0)
    assert queue.ledger.total == count
    recorded = sorted(record for _, record in held.effects.settled)
    assert recorded == ([] if knows and count > AT_ONCE_MAX else list(range(1, count + 1))), "by the log, or one by one"
    session.acknowledge(7, NOW)
    session.acknowledge(count - 100, NOW, multiple=True)
    session.reject(count - 50, NOW, requeue=True, multiple=True)
    session.close(NOW)
    held.effects.turns()
    assert (queue.order.count, len(held.effects.settled)) == (0, len(recorded))


def folded_in(session: Holder) -> int:
    """Return how many of what a session holds are folded and nobody has asked for."""
    table = session.unacknowledged
    blocks = [block for number in table.block_numbers() if (block := table.block(number)) is not None]
    slots = [slot for block in blocks for slot in block.slots]
    return sum(isinstance(slot, CompactDelivery) and isinstance(slot.link, SharedFields) for slot in slots)


def test_a_consumer_that_closes_gives_back_a_few_each_turn():
    count = AT_ONCE_MAX + 500
    held = Held(2 * count, sessions=2)
    session, other = held.sessions
    held.fold()
    session.close_consumer("c", NOW)
    assert (len(session.unacknowledged), len(other.unacknowledged)) == (0, count)
    assert held.queue.delivering.folded >= 2 * count - SLICE_MESSAGES
    held.effects.turns()
    assert len(held.queue.delivering) == held.queue.delivering.folded == count
    assert len(held.queue.order.entries()) == count
    held.check()


def test_a_consumer_that_closes_leaves_those_of_another_folded():
    held = Held(300)
    session = held.sessions[0]
    session.consume(held.queue, "few", messages=10)
    session.detach("c", NOW)
    session.reject(20, NOW, requeue=True, multiple=True)
    assert len(held.queue.delivering) == 290
    held.fold()
    session.close_consumer("few", NOW)
    assert len(held.queue.delivering) == held.queue.delivering.folded == 280
    assert [entry.sequence for entry in held.queue.order.entries()] == list(range(1, 21))
    assert list(session.unacknowledged) == list(range(21, 301))
    held.check()


@pytest.mark.parametrize("recorded", [0, 70])
def test_deletion_unfolds_what_the_ledger_records_and_no_more(recorded: int):
    count = AT_ONCE_MAX + 500
    held = Held(count, sessions=2)
    held.queue.ledger = LossLedger(recorded)
    held.effects.knows = True
    known = held.queue.delivering.entries()[:5]
    held.fold()
    held.queue.delete(NOW)
    held.effects.turns()
    assert sum(folded_in(session) for session in held.sessions) == count - len(known) - recorded
    assert [loss.sequence for loss in held.queue.ledger.query()] == list(range(count - recorded + 1, count + 1))
    assert held.queue.ledger.total == count
    assert {entry.state for entry in known} == {REMOVED}
    tables = [session.unacknowledged.values() for session in held.sessions]
    assert [(entry.state, entry.consumer) for table in tables for entry in table] == [(REMOVED, None)] * count


def test_credit_comes_back_from_a_deleted_queue():
    count = AT_ONCE_MAX + 500
    held = Held(count)
    session = held.sessions[0]
    session.set_window(count + 1, -1, NOW)
    held.fold()
    (consumer,) = session.consumers.values()
    assert (consumer.held, session.window.messages) == (count, count)
    held.queue.delete(NOW)
    held.effects.turns()
    assert (consumer.held, session.window.messages, session.window.bytes) == (0, 0, 0)


def listed(held: Held) -> None:
    sample = Sample(held.queue, select(everything=True), DELIVERING, 10)
    assert sample.step(NOW)
    assert [item["id"] for item in sample.items] == list(range(1, 11))
    assert not sample.complete


def looked_for(held: Held) -> None:
    session = held.sessions[0]
    preview = Preview(Remove("delete", held.queue, RemovalReason.DELETED), select(ids=[5, 7, 10_000, *range(20, 28)]))
    while not preview.step(NOW):
        pass
    assert preview.result.skipped == {IN_DELIVERY: 10, NOT_THERE: 1}
    assert len(session.unacknowledged) == len(held.queue.delivering)


def reached(held: Held) -> None:
    reach = EntryLookup(held.queue)
    found = [reach.find(sequence) for sequence in range(11, 22)]
    assert [entry.sequence for entry in found if entry is not None] == list(range(11, 22))
    assert reach.find(100_000) is None


def read_by_a_stream(held: Held) -> None:
    found = asyncio.run(read_stretch(held.queue, 100, 1 << 40, select(everything=True), NOW, messages_max=10))
    assert [row.position for row in found.rows] == list(range(101, 111))


def settled_in_a_transaction(held: Held) -> None:
    transaction = Transaction(held.sessions[0])
    transaction.acknowledge(5, multiple=True)
    transaction.reject(8, multiple=True, requeue=True)
    transaction.rollback()
    assert [tag for tag in range(12) if tag in held.sessions[0].unacknowledged] == list(range(1, 12))


def another_address_is_limited(held: Held) -> None:
    host = make_host({"news": {"max-size-messages": 500}})
    host.queues["q"] = held.queue
    address(host, "news", "read")
    send(host, "news", "abc")
    assert (held.queue.accounts is host.accounts, host.accounts.by_address["news"].messages) == (True, 1)


def accounted_anew(held: Held) -> None:
    held.bodies.adopt()


@pytest.mark.parametrize(
    "look",
    [
        listed,
        looked_for,
        reached,
        read_by_a_stream,
        settled_in_a_transaction,
        another_address_is_limited,
        accounted_anew,
    ],
)
def test_who_looks_at_few_unfolds_few(look: Callable[[Held], None]):
    held = Held(3000)
    held.fold()
    look(held)
    assert held.queue.delivering.folded >= 3000 - 12
    held.check()


def test_what_is_held_of_an_address_that_gets_limits_is_counted():
    held = Held(300)
    origins = {to: note(to=to).origin for to in ("news", "free")}
    for entry in held.queue.delivering:
        entry.message.origin = origins["free" if entry.sequence % 3 else "news"]
    del entry
    held.fold()
    session = held.sessions[0]
    host = make_host({"news": {"max-size-messages": 500}})
    host.queues["q"] = held.queue
    address(host, "news", "read")
    send(host, "news", "abc")
    account = host.accounts.by_address["news"]
    assert (account.messages, account.bytes, held.queue.delivering.folded) == (101, 1003, 200)
    session.acknowledge(6, NOW, multiple=True)
    assert (account.messages, account.bytes) == (99, 983)
    session.reject(12, NOW, requeue=True, multiple=True)
    assert account.messages == 99
    session.acknowledge(0, NOW, multiple=True)
    assert (account.messages, account.bytes) == (1, 3)
    held.check()


def test_a_browser_unfolds_a_few_each_turn():
    deep, session = deep_queue(100), Holder()
    deep.publish(4900)
    session.consume(deep.queue, messages=4000)
    deep.page_out(ALL)
    bodies_of(deep.queue, deep.disk).let_all_go(ALL)
    folding = Compaction(session.unacknowledged, newest=True)
    while folding.step(1):
        pass
    delivering = deep.queue.delivering
    before = delivering.folded
    assert before == 4000
    browser = RecordingSession()
    consumer = browser.consume(deep.queue, browse=BROWSE_SNAPSHOT)
    unseen = consumer.unseen
    assert isinstance(unseen, BrowseOrder)
    assert (unseen.to_note, delivering.folded) == (4000 + deep.in_memory(), before)
    while unseen.to_note:
        deep.queue.scan(NOW)
        assert before - delivering.folded <= NOTED_PER_TURN
        before = delivering.folded
    deep.take_turns()
    assert numbers(browser) == list(range(1, 5001))
