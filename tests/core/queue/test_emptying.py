"""What a queue was emptied of is examined, settled, recorded and freed in slices."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.sliced_work import SLICE_MESSAGES
from annulet.core.model.entry import REMOVED, QueueEntry, sequence_of
from annulet.core.model.loss_ledger import LossLedger
from annulet.core.queue.emptying import MARKED_PER_SLICE, RELEASED_PER_SLICE, TIMES_PER_SLICE, Emptying, Gone, Part
from annulet.core.queue.invariants import check_invariants
from annulet.core.queue.queue import Queue
from annulet.residency.bodies.budget import body_bytes, in_memory
from tests.core.helpers import NOW, RecordingSession, SlicingEffects, make_message, queue_of

COUNT = 2 * MARKED_PER_SLICE + 1
"""Messages that are examined in three slices."""


class Knowing(SlicingEffects):
    """The log takes all records at once."""

    def emptied(self, queue: Queue, gone: Gone) -> bool:
        del queue
        assert (gone.found, gone.count) == ([], COUNT)
        return True


def removed(entries: list[QueueEntry]) -> int:
    return sum(entry.state == REMOVED for entry in entries)


def most_by_slice(effects: SlicingEffects, measure: Callable[[], int]) -> int:
    """Do all slices; return by how much the measure grew in one of them at most."""
    values = [measure()]
    while effects.works:
        effects.turn()
        values.append(measure())
    return max(after - before for before, after in pairwise(values))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"message_ttl": 1000},
        {"priorities": 5},
        {"max_length": 10 * COUNT, "overflow": "ring", "evict": "newest"},
        {"max_length": 10 * COUNT, "overflow": "ring", "evict": "least-recent-key", "last_value_key": "k"},
        {"last_value_key": "k"},
    ],
)
@pytest.mark.parametrize("delete", [False, True])
def test_very_many_messages_are_examined_in_slices(settings: dict[str, Any], delete: bool):
    """A8: a purge of 1,000,000 held the loop for 362 ms, all in one pass over the entries."""
    effects = SlicingEffects()
    queue = queue_of(effects, **settings)
    entries = [queue.enqueue(make_message(str(number), priority=number % 5, k=number), NOW) for number in range(COUNT)]
    size = queue.pending_bytes
    assert (queue.delete(NOW) if delete else queue.purge(NOW)) == COUNT
    assert removed(entries) == 0
    reason = RemovalReason.DELETED if delete else RemovalReason.PURGED
    assert (queue.order.count, queue.pending_bytes, queue.counters.removed[reason]) == (0, 0, COUNT)
    assert (queue.key_count, queue.next_due_at()) == (0, 0)
    assert (in_memory(queue), body_bytes(queue)) == (COUNT, size)  # as long as they are
    check_invariants(queue)
    new = [] if delete else [queue.enqueue(make_message("new", k=7), NOW)]
    assert most_by_slice(effects, lambda: removed(entries)) == MARKED_PER_SLICE
    assert (in_memory(queue), queue.emptying) == (len(new), [])
    assert body_bytes(queue) == queue.pending_bytes
    assert queue.order.entries() == new
    assert len(effects.losses) == COUNT
    check_invariants(queue)


def test_the_memory_of_many_is_given_back_in_slices():
    effects = Knowing()
    queue = queue_of(effects)
    for number in range(COUNT):
        queue.enqueue(make_message(str(number)), NOW)
    queue.ledger = LossLedger(10)
    assert queue.purge(NOW) == COUNT
    assert (
        effects.turns() == 3 + 1 + 1 + 4
    )  # examine, tell, record, and release: the recorded ones and, in three slices, the others
    assert [record.sequence for record in queue.ledger.query()] == list(range(COUNT - 9, COUNT + 1))
    assert queue.ledger.total == COUNT


def test_a_log_that_knows_no_ranges_settles_in_slices():
    effects = SlicingEffects()
    queue = queue_of(effects)
    for number in range(COUNT):
        effects.store(make_message("m"), [queue.enqueue(make_message(str(number)), NOW)])
    queue.ledger = LossLedger(10)
    queue.purge(NOW)
    assert most_by_slice(effects, lambda: len(effects.settled)) <= SLICE_MESSAGES
    assert queue.ledger.total == COUNT


def test_messages_out_of_order_keep_the_newest_for_the_ledger():
    effects = Knowing()
    queue = queue_of(effects, priorities=5)
    for number in range(COUNT):
        queue.enqueue(make_message(str(number), priority=number % 5), NOW)
    queue.ledger = LossLedger(10)
    queue.purge(NOW)
    effects.turns()
    assert [record.sequence for record in queue.ledger.query()] == list(range(COUNT - 9, COUNT + 1))
    assert queue.ledger.total == COUNT


def test_a_part_sorts_no_more_than_a_ledger_records():
    part, queue = Part(3), queue_of()
    entries = [QueueEntry(queue, make_message("m"), number) for number in range(3 * MARKED_PER_SLICE)]
    for start in (MARKED_PER_SLICE, 2 * MARKED_PER_SLICE, 0):
        part.add(entries[start : start + MARKED_PER_SLICE])
        assert len(part.newest) <= MARKED_PER_SLICE + 6
    assert part.count == len(entries)
    *counted, (newest, recorded) = part.stretches(len(entries) - 3)
    assert (newest, recorded) == (entries[-3:], True)
    assert not any(recorded for _, recorded in counted)
    rest = [entry for found, _ in counted for entry in found]
    assert sorted(rest, key=sequence_of) == entries[:-3]


def test_times_of_what_is_in_delivery_are_indexed_again():
    """Those that come back before, and after, expire as any other; one that was acknowledged is forgotten."""
    effects = SlicingEffects()
    queue = queue_of(effects, message_ttl=1000)
    for number in range(COUNT):
        queue.enqueue(make_message(str(number)), NOW)
    acknowledged, before, after = queue.acquire(3, -1, NOW)
    assert queue.purge(NOW) == COUNT - 3
    queue.return_entries([before], NOW)
    assert queue.order.entries() == [before]
    effects.turns()
    queue.acknowledge(acknowledged)
    queue.return_entries([after], NOW)
    assert queue.next_due_at() == NOW + 1000
    assert queue.tick(NOW + 1000) == 2
    check_invariants(queue)


def test_the_log_is_told_when_the_last_is_examined():
    effects = SlicingEffects()
    queue = queue_of(effects)
    for number in range(COUNT):
        queue.enqueue(make_message(str(number)), NOW)
    queue.purge(NOW)
    (work,) = queue.emptying
    told: list[bool] = []
    work.when_told(told.append)
    for _ in range(3):
        effects.turn()
        assert told == []
    effects.turn()
    assert (told, queue.emptying) == ([True], [])


def test_what_waits_learns_of_a_defect():
    effects = SlicingEffects()
    queue = queue_of(effects)
    for number in range(COUNT):
        queue.enqueue(make_message(str(number)), NOW)
    queue.purge(NOW)
    (work,) = queue.emptying
    told: list[bool] = []
    work.when_told(told.append)
    effects.turn()
    work.abandon(NOW)
    assert (told, queue.emptying, in_memory(queue), body_bytes(queue)) == ([False], [], 0, 0)


def test_scheduled_messages_go_in_slices():
    effects = SlicingEffects()
    queue = queue_of(effects)
    entries = [queue.enqueue(make_message(str(number), deliver_at=NOW + 5), NOW) for number in range(COUNT)]
    assert queue.purge(NOW) == COUNT
    assert (queue.schedule.count, queue.next_due_at(), queue.statistics().message_count) == (0, 0, 0)
    assert most_by_slice(effects, lambda: removed(entries)) == MARKED_PER_SLICE
    assert queue.tick(NOW + 5) == 0
    check_invariants(queue)


@pytest.mark.parametrize("delivered", [0, 1])
def test_the_keys_of_very_many_are_forgotten_in_slices(delivered: int):
    """50,000 of them held the event loop for 57 ms. Where some are in delivery, others' keys are forgotten at once."""
    effects, session = SlicingEffects(), RecordingSession()
    queue = queue_of(effects, last_value_key="k")
    count = 2 * RELEASED_PER_SLICE + 1
    entries = [queue.enqueue(make_message(str(number), k=number), NOW) for number in range(count)]
    if delivered:
        session.consume(queue, messages=delivered)
    assert queue.purge(NOW) == count - delivered
    assert queue.key_count == delivered
    check_invariants(queue)
    again = queue.enqueue(make_message("new", k=count - 1), NOW)
    known = [entry for entry in entries if entry.key is not None and entry.key.live]
    assert len(known) == (delivered or count)
    most = 0
    while effects.works:
        effects.turn()
        left = [entry for entry in known if entry.key is not None and entry.key.live]
        most = max(most, len(known) - len(left))
        known = left
    assert most == (0 if delivered else RELEASED_PER_SLICE)
    assert known == entries[:delivered]
    assert (queue.key_count, queue.order.entries()) == (1 + delivered, [again])
    check_invariants(queue)


def test_the_times_of_very_many_are_let_go_of_in_slices():
    effects = SlicingEffects()
    queue = queue_of(effects, message_ttl=1000)
    count = 2 * TIMES_PER_SLICE * 1024 + 1
    for number in range(count):
        queue.enqueue(make_message(str(number)), NOW)
    assert queue.expiry is not None
    assert len(queue.expiry) == count
    assert queue.purge(NOW) == count
    assert (len(queue.expiry), queue.next_due_at()) == (0, 0)
    (work,) = effects.works
    assert isinstance(work, Emptying)
    blocks = [len(work._times)]
    while effects.works:
        effects.turn()
        blocks.append(len(work._times))
    assert max(before - after for before, after in pairwise(blocks)) == TIMES_PER_SLICE
    assert blocks[-1] == 0
    entry = queue.enqueue(make_message("new"), NOW)
    assert (queue.next_due_at(), queue.tick(NOW + 1000)) == (NOW + 1000, 1)
    assert entry.state == REMOVED
