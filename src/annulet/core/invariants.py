"""What must hold between two calls into a queue. Tests check it after every step; production never does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from annulet.core.entry import DELIVERING, PENDING

if TYPE_CHECKING:
    from annulet.core.queue import Queue


def check_invariants(queue: Queue) -> None:
    """Raise ``AssertionError`` naming the broken rule. O(messages)."""
    pending = list(queue.order.entries())
    sequences = [entry.sequence for entry in pending]
    assert len(pending) == queue.order.count, "the order counts what it holds"
    assert sequences == sorted(set(sequences)), "FIFO entries ascend and are unique"
    assert all(entry.state == PENDING and entry.consumer is None for entry in pending), "pending entries have no holder"
    assert all(entry.state == DELIVERING for entry in queue.delivering), "delivering entries say so"
    assert not set(sequences) & {entry.sequence for entry in queue.delivering}, "an entry is in one place"
    assert queue.pending_bytes == sum(entry.message.size for entry in pending), "pending bytes"
    assert queue.delivering_bytes == sum(entry.message.size for entry in queue.delivering), "delivering bytes"
    assert all(entry.sequence < queue.next_sequence for entry in [*pending, *queue.delivering]), "sequences ascend"
    counters = queue.counters
    left = sum(counters.removed.values())
    assert counters.messages_added == left + len(pending) + len(queue.delivering), "every message is accounted for once"
    if pending and not queue.deleted:
        size = pending[0].message.size
        assert not any(consumer.allows(size) for consumer in queue.consumers), "nothing deliverable waits"
    for consumer in queue.consumers:
        held = [entry for entry in queue.delivering if entry.consumer is consumer]
        if not consumer.auto_acknowledge:
            assert consumer.window.messages == len(held), "a window counts what its consumer holds"
            assert consumer.window.bytes == sum(entry.message.size for entry in held), "a window counts bytes"
