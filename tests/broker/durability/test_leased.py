"""Positions of leases, and what recovery tells the queues about them."""

from __future__ import annotations

from array import array

from annulet.broker.durability.leased import (
    DELIVERY_COUNT_MAX,
    DELIVERY_COUNT_SHIFT,
    REDELIVERED_FLAG,
    REJECTED_FLAG,
    SEQUENCE_MASK,
    TRANSIENT_FLAG,
    expect_leased,
    unpack_positions,
)
from annulet.core.base.settings import QueueSettings
from annulet.core.message.message import ContentView, Message, Origin
from annulet.core.queue.queue import Queue
from annulet.core.routing.node_effects import NodeEffects
from annulet.store.database.definitions import LeaseRange, LeaseRecord
from tests.databases import memory_catalogue


def test_flags_count_and_sequence_share_64_bits_without_overlap() -> None:
    count = DELIVERY_COUNT_MAX << DELIVERY_COUNT_SHIFT
    fields = [SEQUENCE_MASK, REJECTED_FLAG, count, TRANSIENT_FLAG, REDELIVERED_FLAG]
    assert sum(fields) == (1 << 64) - 1
    assert unpack_positions(array("Q", fields).tobytes()) == array("Q", fields)


def test_what_a_lease_holds_is_in_delivery_again_and_what_it_acknowledged_is_not() -> None:
    catalogue = memory_catalogue()
    queue_id = catalogue.add_queue("/", "q", False, {})
    queue = Queue("q", QueueSettings(), NodeEffects(), durable=True, queue_id=queue_id)
    for name, identity, acknowledged in (("lease", queue_id, 2), ("of a queue that is gone", queue_id + 1, 0)):
        catalogue.set_lease(
            LeaseRecord(
                name=name, virtual_host="/", queue_id=identity, generation=1, created_at=0, active_at=0,
                acknowledged=acknowledged, last=4, owner="guest", generated=False,
            )
        )  # fmt: skip
        positions = [11, 12, 13 | REDELIVERED_FLAG, 14 | 3 << DELIVERY_COUNT_SHIFT]
        catalogue.add_lease_range("/", name, LeaseRange(1, 4, array("Q", positions).tobytes()))
    expect_leased(catalogue, {queue_id: queue})
    message = Message(b"", b"", Origin("", "q", "", ContentView("none")), durable=True)
    for sequence in range(11, 16):
        queue.restore(message, sequence, redelivered=False)
    assert [entry.sequence for entry in queue.leased_entries()] == [13, 14]
    assert [entry.sequence for entry in queue.order.entries()] == [11, 12, 15]
    catalogue.close()
