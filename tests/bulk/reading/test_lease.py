"""What the catalogue keeps of a position."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from annulet.broker.durability.leased import DELIVERY_COUNT_MAX, SEQUENCE_MASK, unpack_positions
from annulet.bulk.reading.lease import Lease, hold, pack_positions, unpack
from annulet.core.base.settings import QueueSettings
from annulet.core.message.message import Message, Origin
from annulet.core.model.entry import DELIVERING, QueueEntry
from annulet.core.queue.queue import Queue
from annulet.core.routing.node_effects import NodeEffects
from annulet.wire.amqp091.messages.properties import VIEW


def queue() -> Queue:
    return Queue("q", QueueSettings(), NodeEffects(), durable=True, queue_id=1)


def entry(sequence: int, *, durable: bool = True) -> QueueEntry:
    made = QueueEntry(queue(), Message(b"", b"", Origin("", "q", "", VIEW), durable=durable), sequence)
    made.state = DELIVERING
    return made


@given(st.integers(1, SEQUENCE_MASK), st.integers(0, DELIVERY_COUNT_MAX + 5), st.booleans(), st.booleans())
def test_positions_come_back(sequence: int, count: int, redelivered: bool, durable: bool) -> None:
    original = entry(sequence, durable=durable)
    original.delivery_count = count
    original.redelivered = redelivered
    (packed,) = unpack_positions(pack_positions([hold(original)]))
    assert packed & SEQUENCE_MASK == sequence
    recovered = entry(sequence)  # recovery makes every message durable
    held = unpack(packed, recovered)
    assert (held.delivery_count, held.redelivered) == (min(count, DELIVERY_COUNT_MAX), redelivered)
    assert recovered.message.durable is durable
    assert (held.row(9).position, held.row(9).sequence) == (9, sequence)


def test_rows_are_those_in_delivery_whatever_numbers_a_client_gives() -> None:
    lease = Lease("/", "l", queue(), generated=False, now=0)
    alive, gone = entry(1), entry(2)
    gone.state = 2
    lease.held = {3: hold(alive), 4: hold(gone)}
    lease.acknowledged, lease.last = 2, 10**15
    for after, upto, alive_there in (
        (2, 3, [3]),
        (3, 4, []),
        (0, 2**63 - 1, [3]),
    ):  # of two messages
        found = lease.messages(after, upto)
        assert [position for position, message in found if message.alive] == alive_there
    assert lease.key == ("/", "l")


def test_a_status_has_what_waits_and_for_how_long_the_oldest_has() -> None:
    lease = Lease("/", "l", queue(), generated=False, now=1000)
    assert (lease.status(5000)["pending"], lease.status(5000)["lag_milliseconds"]) == (0, 0)
    for accepted_at in (2000, 3000):
        message = Message(b"", b"x", Origin("", "q", "", VIEW), accepted_at=accepted_at)
        lease.queue.enqueue(message, accepted_at)
    status = lease.status(5000)
    assert (status["pending"], status["lag_milliseconds"], status["age_milliseconds"]) == (2, 3000, 4000)
    (taken,) = lease.queue.acquire(1, -1, 5000)
    lease.take_in(1, [hold(taken)])
    assert (lease.status(5000)["held"], lease.status(5000)["lag_milliseconds"]) == (1, 2000)


def test_a_status_looks_at_no_message_for_the_bytes_that_are_held() -> None:
    """A8: with 200,000 held messages each listing of leases added their sizes up on the event loop."""
    lease = Lease("/", "l", queue(), generated=False, now=0)
    taken = [hold(entry(sequence)) for sequence in (1, 2, 3)]
    sizes = [message.entry.message.size for message in taken]
    lease.take_in(1, taken)
    assert lease.held_bytes == lease.status(0)["held_bytes"] == sum(sizes)
    lease.held[1].entry.message.size += 1000  # which no message does: a sum that is made anew would notice
    assert lease.status(0)["held_bytes"] == sum(sizes)
    lease.held[1].entry.message.size -= 1000
    assert lease.let_go(2) is taken[1]
    assert lease.status(0)["held_bytes"] == sizes[0] + sizes[2]
    assert lease.let_all_go() == [taken[0], taken[2]]
    assert (lease.held, lease.held_bytes) == ({}, 0)
