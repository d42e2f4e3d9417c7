"""What a session gives back, taken out a few at a time by each of its queues."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from annulet.core.deliveries.delivery_table import BLOCK_TAGS, DeliveryTable
from annulet.core.model.entry import QueueEntry
from annulet.core.queue.return_batch import LOOKED_AT, EndedDeliveries, ReturnBatch
from tests.core.helpers import RecordingSession, make_message, make_queue, send

ONE, OTHER, GONE = (make_queue(name=name) for name in ("one", "other", "gone"))


def table_of(*queues):
    """Deliveries of these queues; each has a block of its own, so that few are enough."""
    table = DeliveryTable()
    for tag, queue in enumerate(queues, 1):
        table[tag * BLOCK_TAGS] = QueueEntry(queue, make_message(), tag)
    return table


def sequences(entries):
    return [entry.sequence for entry in entries]


@given(
    st.lists(st.sampled_from([ONE, OTHER, GONE]), max_size=40),
    st.lists(st.tuples(st.booleans(), st.integers(1, 5)), max_size=30),
)
def test_each_queue_gets_its_own_once_in_the_order_they_were_delivered(queues, turns):
    table = table_of(*queues)
    wanted = {queue: [tag for tag, other in enumerate(queues, 1) if other is queue] for queue in (ONE, OTHER)}
    batch = ReturnBatch([ONE, OTHER], table)
    found: dict[object, list[int]] = {ONE: [], OTHER: []}
    for first, most in [*turns, *[(True, 5), (False, 5)] * 60]:
        queue = ONE if first else OTHER
        before = batch.left(queue)
        slice_ = sequences(batch.take(queue, most))
        assert len(slice_) <= most
        assert not before or batch.left(queue) < before or batch.left(queue) < len(wanted[queue])
        found[queue] += slice_
    assert found == wanted
    assert (batch.left(ONE), batch.left(OTHER), len(table)) == (0, 0, 0)


def test_the_first_ones_come_first():
    batch = ReturnBatch([ONE], table_of(ONE, ONE, ONE, ONE, ONE))
    assert [sequences(batch.take(ONE, 2)) for _ in range(3)] == [[1, 2], [3, 4], [5]]


def test_what_is_in_no_table_goes_from_the_first_on():
    batch = ReturnBatch([ONE], DeliveryTable())
    batch.add(ONE, table_of(ONE, ONE, ONE).values())
    assert batch.left(ONE) == 3
    assert [sequences(batch.take(ONE, 2)) for _ in range(2)] == [[1, 2], [3]]


def test_a_slice_looks_at_so_many_of_others():
    others = [OTHER] * (2 * LOOKED_AT)
    batch = ReturnBatch([ONE, OTHER], table_of(*others, ONE))
    assert batch.take(ONE, 1) == []
    assert batch.left(ONE) == 1 + LOOKED_AT
    assert batch.take(ONE, 1) == []
    assert sequences(batch.take(ONE, 1)) == [2 * LOOKED_AT + 1]
    assert sequences(batch.take(OTHER, 99)) == list(range(1, 2 * LOOKED_AT + 1))


def test_nothing_is_kept_of_a_queue_that_takes_nothing_back():
    batch = ReturnBatch([ONE, OTHER], table_of(OTHER, ONE))
    batch.take(ONE, 1)
    batch.forget(OTHER)
    batch.take(ONE, 1)
    assert (batch.left(OTHER), batch.left(ONE)) == (0, 0)


def test_what_a_block_has_beyond_a_slice_is_of_the_next():
    table = DeliveryTable()
    for tag in range(1, 2 * BLOCK_TAGS):
        table[tag] = QueueEntry(OTHER if tag % 3 == 0 else ONE, make_message(), tag)
    batch = ReturnBatch([ONE, OTHER], table)
    found: list[list[int]] = []
    while batch.left(ONE) and (slice_ := sequences(batch.take(ONE, 10))):
        found.append(slice_)
    assert [tag for slice_ in found for tag in slice_] == [tag for tag in range(1, 2 * BLOCK_TAGS) if tag % 3]
    assert {len(slice_) for slice_ in found[:-1]} == {10}
    assert sequences(batch.take(OTHER, 999)) == list(range(3, 2 * BLOCK_TAGS, 3))


def ended(*counts: int, others: int = 0):
    """Return a queue, the tables of sessions that ended and held so many of it in turns, and what others hold."""
    queue, sessions = make_queue(), [RecordingSession() for _ in counts]
    for session, count in zip(sessions, counts, strict=True):
        session.consume(queue, messages=count)
    other = RecordingSession()
    other.consume(queue, messages=others)
    send(queue, *[str(number) for number in range(sum(counts) + others)])
    for session in sessions:
        session.returning = True
    batches = [ReturnBatch([queue], session.unacknowledged) for session in sessions]
    return queue, batches, sequences(other.unacknowledged.values())


@given(st.lists(st.integers(0, 3 * BLOCK_TAGS), max_size=4), st.integers(0, 2 * BLOCK_TAGS), st.integers(1, 200))
def test_what_sessions_held_comes_in_the_order_of_the_queue_and_nothing_of_others(counts, others, most):
    queue, batches, kept = ended(*counts, others=others)
    together = EndedDeliveries(queue, batches)
    assert together.left(queue) == sum(counts) or not sum(counts)
    found: list[int] = []
    while left := together.left(queue):
        slice_ = sequences(together.take(queue, most))
        assert len(slice_) < most + BLOCK_TAGS
        assert together.left(queue) < left or left == 1
        found += slice_
    assert found == [sequence for sequence in range(1, sum(counts) + others + 1) if sequence not in kept]
    assert [batch.left(queue) for batch in batches] == [0] * len(batches)


def test_tables_are_freed_as_what_they_held_goes_back():
    queue, batches, _ = ended(4 * BLOCK_TAGS, 4 * BLOCK_TAGS)
    together = EndedDeliveries(queue, batches)
    freed: list[int] = []
    while together.left(queue):
        together.take(queue, BLOCK_TAGS)
        freed.append(sum(len(table) for table in together._tables))
    assert 10 > freed[0] > freed[1] > freed[2] > freed[-1] == 0


def test_a_table_that_others_look_at_is_not_freed():
    batch = ReturnBatch([ONE, OTHER], table_of(ONE, OTHER))
    assert len(batch.give_up(ONE)) == 0
    assert sequences(batch.take(OTHER, 9)) == [2]


def test_a_slice_looks_at_so_many_that_others_hold():
    queue, batches, kept = ended(1, others=3 * LOOKED_AT * BLOCK_TAGS)
    together = EndedDeliveries(queue, batches)
    together.take(queue, BLOCK_TAGS)
    turns = 1
    while together.left(queue):
        assert together.take(queue, BLOCK_TAGS) == []
        turns += 1
    assert 2 < turns < 6
    assert len(kept) == 3 * LOOKED_AT * BLOCK_TAGS
