"""A purge of any depth: empty at once for everybody, exact counters, the newest losses on record."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.sliced_work import AT_ONCE_MAX
from annulet.core.message.message import Message
from annulet.core.model.entry import QueueEntry
from annulet.core.model.loss_ledger import LossLedger
from annulet.core.paging.paged_fifo import PagedFifo
from annulet.core.paging.paged_priorities import paged_order_of
from annulet.core.queue import emptying
from annulet.core.queue.invariants import check_invariants
from annulet.core.queue.purging import Purge
from annulet.core.queue.queue import Queue
from tests.core.deep_doubles import Deep, numbers
from tests.core.helpers import NOW, RecordingSession, SlicingEffects, make_message, queue_of, send
from tests.residency.doubles import Disk, durable_queue, pages_of

PURGED, DELETED = RemovalReason.PURGED, RemovalReason.DELETED


class LogEffects(SlicingEffects):
    """``knows``: the log takes all records at once."""

    def __init__(self, *, knows: bool = False) -> None:
        super().__init__()
        self.knows = knows

    def emptied(self, queue: Queue, gone: emptying.Gone) -> bool:
        assert (gone.found, gone.unwritten) == ([], [])
        return self.knows


def test_a_deep_queue_is_empty_when_the_call_returns():
    effects = LogEffects()
    queue = queue_of(effects)
    for number in range(AT_ONCE_MAX + 1):
        effects.store(make_message("m"), [queue.enqueue(make_message(str(number)), NOW)])
    queue.enqueue(make_message("later", deliver_at=NOW + 5), NOW)
    assert queue.purge(NOW) == AT_ONCE_MAX + 2
    check_invariants(queue)
    statistics = queue.statistics()
    assert (statistics.message_count, statistics.pending_bytes) == (0, 0)
    assert queue.counters.removed[PURGED] == AT_ONCE_MAX + 2
    assert effects.losses == []
    assert effects.turns() > AT_ONCE_MAX // 500
    assert len(effects.losses) == AT_ONCE_MAX + 2
    assert [record.sequence for record in queue.ledger.query()] == list(range(1, AT_ONCE_MAX + 3))


def test_few_messages_go_one_by_one():
    effects = LogEffects()
    queue = queue_of(effects)
    send(queue, "a", "b")
    assert queue.purge(NOW) == 2
    assert effects.works == []
    assert queue.ledger.total == 2


def test_a_queue_with_groups_is_empty_when_the_call_returns():
    effects = LogEffects()
    queue = queue_of(effects, group_mode="sticky")
    for number in range(AT_ONCE_MAX + 1):
        queue.enqueue(make_message(str(number), JMSXGroupID=str(number % 3)), NOW)
    assert queue.purge(NOW) == AT_ONCE_MAX + 1
    assert len(effects.works) == 1
    assert queue.statistics().group_count == 0
    check_invariants(queue)


def test_a_queue_with_fair_keys_is_empty_when_the_call_returns():
    effects, session = LogEffects(), RecordingSession()
    queue = queue_of(effects, fair_key="k")
    for number in range(AT_ONCE_MAX + 2):
        queue.enqueue(make_message(str(number), k=number % 3), NOW)
    session.consume(queue, messages=1)
    assert queue.purge(NOW) == AT_ONCE_MAX + 1
    assert len(effects.works) == 1
    check_invariants(queue)
    assert queue.lanes is not None
    assert queue.lanes.fairness is not None
    assert [(key.pending, key.in_delivery) for key in queue.lanes.fairness.known()] == [(0, 1)]
    effects.turns()
    assert queue.ledger.total == AT_ONCE_MAX + 1
    for number in range(4):
        queue.enqueue(make_message(f"new {number}", k=(number + 2) // 2), NOW)
    for _ in range(4):
        session.consume(queue, messages=1)
    assert session.received[1:] == ["new 0", "new 2", "new 1", "new 3"]


@pytest.mark.parametrize("knows", [True, False])
def test_a_deep_queue_with_a_selector_is_empty_when_the_call_returns(knows: bool):
    deep, session = Deep(2 * AT_ONCE_MAX), RecordingSession()
    queue, effects = deep.queue, LogEffects(knows=knows)
    queue.effects = effects
    session.consume(queue, selector="seven = 2", messages=3)
    deep.take_turns()
    queue.ledger = LossLedger(1000)
    reads = len(deep.disk.reads)
    assert queue.purge(NOW) == 2 * AT_ONCE_MAX - 3
    assert len(deep.disk.reads) == reads
    check_invariants(queue)
    assert (queue.order.count, queue.pending_bytes, queue.counters.removed[PURGED]) == (0, 0, 2 * AT_ONCE_MAX - 3)
    deep.publish(700)
    assert deep.page_out(1 << 60) > 600
    effects.turns()
    assert queue.ledger.total == 2 * AT_ONCE_MAX - 3
    assert len(list(queue.ledger.query())) == 1000
    for tag in (1, 2, 3):
        session.acknowledge(tag, NOW)
    deep.take_turns()
    first = 2 * AT_ONCE_MAX + 1
    assert numbers(session)[3:] == [number for number in range(first, first + 700) if number % 7 == 2][:3]
    check_invariants(queue)


@pytest.mark.parametrize(
    "settings", [{"last_value_key": "k"}, {"message_ttl": 1000}, {"priorities": 5}, {"max_length": 99999}]
)
def test_whatever_knows_of_a_message_forgets_it(settings: dict[str, Any]):
    effects = LogEffects(knows=True)
    queue = queue_of(effects, **settings)
    send(queue, *"abcde")
    assert Purge(queue, PURGED, NOW).empty() == 5
    assert (queue.key_count, queue.next_due_at()) == (0, 0)
    check_invariants(queue)
    send(queue, *"ab")
    effects.turns()
    assert queue.order.count == 2
    assert next(record.key for record in queue.ledger.query()) == ("a" if queue.retention is not None else "")
    check_invariants(queue)


def test_what_is_in_delivery_stays_and_comes_back():
    effects = LogEffects()
    queue, session = queue_of(effects), RecordingSession()
    session.consume(queue, messages=2)
    send(queue, *"abcd")
    assert Purge(queue, PURGED, NOW).empty() == 2
    session.recover(NOW)
    effects.turns()
    assert len(queue.delivering) == 2
    assert queue.counters.removed[PURGED] == 2
    check_invariants(queue)


def test_a_deleted_queue_lets_go_of_deliveries():
    effects = LogEffects()
    queue, session = queue_of(effects), RecordingSession()
    session.consume(queue)
    for number in range(AT_ONCE_MAX + 1):
        queue.enqueue(make_message(str(number)), NOW)
    sizes = queue.delivering_bytes
    assert (session.window.messages, session.window.bytes) == (AT_ONCE_MAX + 1, sizes)
    assert queue.delete(NOW) == 0
    assert (len(queue.delivering), queue.ledger.total) == (AT_ONCE_MAX + 1, 0)  # all of it is done in slices
    session.unacknowledged.take(2).queue.return_entries([session.unacknowledged.take(3)], NOW)
    session.acknowledge(4, NOW)  # what the client did not know yet
    session.reject(5, NOW, requeue=False)
    session.reject(6, NOW, requeue=True)
    assert (queue.order.count, len(queue.delivering)) == (0, AT_ONCE_MAX + 1)
    effects.turn()
    assert 0 < AT_ONCE_MAX + 1 - len(queue.delivering) <= emptying.DELIVERIES_PER_SLICE
    effects.turns()
    assert (len(queue.delivering), queue.delivering_bytes) == (0, 0)
    assert (session.window.messages, session.window.bytes) == (0, 0)
    assert queue.ledger.total == AT_ONCE_MAX + 1
    session.acknowledge(1, NOW)
    assert sum(queue.counters.removed.values()) == queue.counters.removed[DELETED] == AT_ONCE_MAX + 1


def deep(disk: Disk, effects: LogEffects, count: int, ledger: int) -> tuple[Queue, PagedFifo]:
    queue = durable_queue()
    queue.effects = effects
    queue.ledger = LossLedger(ledger)
    order = paged_order_of(queue, pages_of(queue, disk))
    assert order is not None
    order.keep_messages = 3
    for _ in range(count):
        message = Message(b"", b"%010d" % queue.next_sequence, make_message("x").origin, durable=True)
        disk.store(queue, message, queue.next_sequence)
        queue.enqueue(message, NOW)
    return queue, order


@given(
    count=st.integers(1, 40),
    paged=st.integers(0, 40),
    late=st.integers(0, 5),
    ledger=st.integers(0, 60),
    knows=st.booleans(),
    damage=st.sets(st.integers(1, 40), max_size=3),
    failing=st.booleans(),
)
def test_rows_and_entries_go_together(
    count: int, paged: int, late: int, ledger: int, knows: bool, damage: set[int], failing: bool
):
    disk, effects = Disk(), LogEffects(knows=knows)
    queue, order = deep(disk, effects, count, ledger)
    order.page_out(1 << 60, paged)
    for _ in range(late):
        message = Message(b"", b"%010d" % queue.next_sequence, make_message("x").origin, durable=True)
        disk.store(queue, message, queue.next_sequence)
        queue.enqueue(message, NOW)
    disk.damaged, disk.failing = damage, failing
    rows = order.paged_count()
    assert Purge(queue, PURGED, NOW).empty() == count + late
    disk_free_check(queue, count + late)
    effects.turns()
    assert queue.ledger.total == count + late
    recorded = [record.sequence for record in queue.ledger.query()]
    assert recorded == sorted(recorded)
    assert len(recorded) == len(set(recorded)) <= ledger
    if not damage or failing or not rows:
        assert recorded == list(range(1, count + late + 1))[-ledger:] if ledger else not recorded


def disk_free_check(queue: Queue, count: int) -> None:
    statistics = queue.statistics()
    assert (statistics.message_count, statistics.pending_bytes, statistics.messages_paged) == (0, 0, 0)
    assert queue.counters.removed[PURGED] == count
    check_invariants(queue)


def test_arrivals_during_the_work_are_no_part_of_it():
    disk, effects = Disk(), LogEffects()
    queue, order = deep(disk, effects, 20, 100)
    assert order.page_out(1 << 60, 10) == 10
    Purge(queue, PURGED, NOW).empty()
    effects.turn()
    (new,) = send(queue, "new")
    effects.turns()
    assert [entry.sequence for entry in queue.order.entries()] == [new.sequence]
    assert queue.order.first() is new
    sizes = [record.size for record in queue.ledger.query()]
    assert sizes == [10] * 20


def test_what_the_log_has_not_written_is_told_one_by_one():
    class Writing(LogEffects):
        def written_below(self) -> int:
            return 4

        def emptied(self, queue: Queue, gone: emptying.Gone) -> bool:
            told.append((gone.lowest, gone.highest, list(gone.unwritten), gone.durable))
            return True

        def emptied_apart(self, queue: Queue, unwritten: list[int], noted: list[QueueEntry]) -> None:
            apart.extend(unwritten)

    told: list[tuple[int, int, list[int], int]] = []
    apart: list[int] = []
    queue = durable_queue()
    queue.effects = Writing()
    for record in (5, 2, 0, 3, 4):
        message = make_message("m", durable=record > 0)
        message.record = record
        queue.enqueue(message, NOW)
    assert Purge(queue, PURGED, NOW).empty() == 5
    assert (told, apart) == ([(2, 3, [5, 4], 4)], [5, 4])
