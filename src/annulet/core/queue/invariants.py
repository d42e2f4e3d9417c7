"""The invariants between two calls into a queue. Tests check them after every step; production never does."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from annulet.core.model.entry import DELIVERING, PENDING, SCHEDULED
from annulet.core.model.queue_state import HIDES_NOTHING

if TYPE_CHECKING:
    from annulet.core.queue.entries import QueueEntries


def check_invariants(queue: QueueEntries) -> None:
    """Raise ``AssertionError`` naming the broken rule. O(messages)."""
    check_parts(queue)
    check = _Check(queue)
    check.places()
    check.counts()
    check.delivery()
    check.hidden()
    for consumer in queue.consumers:
        if consumer.auto_acknowledge:
            continue
        copies = [] if queue.copies is None else list(queue.copies.out)
        held = [entry for entry in [*queue.delivering, *copies] if entry.consumer is consumer]
        assert consumer.held == len(held), "a consumer counts its deliveries"
        assert consumer.window.messages == len(held), "a window counts what its consumer holds"
        assert consumer.window.bytes == sum(entry.message.size for entry in held), "a window counts bytes"


def check_parts(queue: QueueEntries) -> None:
    """Before a full scan, which recounts."""
    lanes = queue.deep_lanes
    stock = queue.stock
    if stock is not None:
        assert stock.count == stock.parts_count(), "levels count what they hold"
    if lanes is not None:
        in_lanes = len(lanes.entries_in_lanes())
        assert lanes.count == in_lanes + (0 if stock is None else stock.count), (
            "lanes count the entries behind them, too"
        )


class _Check:
    """The parts of a check of one queue."""

    def __init__(self, queue: QueueEntries) -> None:
        self._queue = queue

    def places(self) -> None:
        queue = self._queue
        pending = queue.order.entries()
        scheduled = queue.schedule.entries()
        assert len(pending) == queue.order.count, "the order counts its entries"
        assert all(not later < earlier for earlier, later in pairwise(pending)), "entries ascend"
        assert all(entry.state == PENDING and entry.consumer is None for entry in pending), (
            "pending entries have no holder"
        )
        assert all(entry.state == SCHEDULED and entry.consumer is None for entry in scheduled), (
            "scheduled have no holder"
        )
        assert all(entry.state == DELIVERING for entry in queue.delivering), "delivering entries say so"
        sequences = [entry.sequence for entry in [*pending, *scheduled, *queue.delivering]]
        assert len(sequences) == len(set(sequences)), "an entry is in one place"
        assert all(sequence < queue.next_sequence for sequence in sequences), "sequences ascend"
        assert queue.pending_bytes == sum(entry.message.size for entry in pending), "pending bytes"
        assert queue.schedule.bytes == sum(entry.message.size for entry in scheduled), "scheduled bytes"
        assert queue.delivering_bytes == sum(entry.message.size for entry in queue.delivering), "delivering bytes"

    def counts(self) -> None:
        queue = self._queue
        counters = queue.counters
        count = queue.order.count + queue.schedule.count + len(queue.delivering)
        left = sum(counters.removed.values())
        assert counters.messages_added == left + count, "every message is accounted for once"
        size = queue.pending_bytes + queue.schedule.bytes + queue.delivering_bytes
        assert counters.bytes_added == counters.bytes_removed + size, "every byte is accounted for once"
        limits = queue.limits
        bounded = limits is not None and limits.evicts and not limits.counts_all and queue.ring_debt is None
        if limits is not None and bounded and not queue.deleted:
            assert not limits.exceeded(queue), "limits hold"

    def delivery(self) -> None:
        """Where nothing but credit decides, nothing deliverable waits."""
        queue = self._queue
        first = queue.order.first()
        if (
            first is None
            or first.sequence >= queue.hidden_from
            or queue.deleted
            or queue.halted
            or queue.settings.non_destructive
            or queue.lanes is not None
        ):
            return
        if 0 <= queue.settings.in_flight_max <= len(queue.delivering):
            return
        size = first.message.size
        idle = [consumer for consumer in queue.consumers if not consumer.settings.browse and consumer.allows(size)]
        assert not [consumer for consumer in idle if queue.consumers.is_live(consumer)], "nothing deliverable waits"

    def hidden(self) -> None:
        """Hidden messages are counted, and no consumer or reader has seen them."""
        queue = self._queue
        bounds = [stretch.sequence for stretch in queue.hidden]
        assert queue.hidden_from == (bounds[0] if bounds else HIDES_NOTHING), (
            "the first stretch names the hidden entries"
        )
        assert bounds == sorted(set(bounds)), "stretches ascend"
        assert all(entry.sequence < queue.hidden_from for entry in queue.delivering), "nothing hidden is in delivery"
        copies = [] if queue.copies is None else list(queue.copies.out)
        assert all(copy.sequence < queue.hidden_from for copy in copies), "no browser reads hidden entries"
        pending = queue.order.in_memory() if queue.hidden else []
        for stretch, bound in zip(queue.hidden, [*bounds[1:], HIDES_NOTHING], strict=False):
            there = [
                entry for entry in pending if entry.state == PENDING and stretch.sequence <= entry.sequence < bound
            ]
            assert stretch.count == len(there), "a stretch counts its messages"
            assert stretch.bytes == sum(entry.message.size for entry in there), "a stretch counts its bytes"
