"""Consumers that wait for the answer whether there is a message for them now (AMQP 1.0 drain, §2.6.7).

The call delivers only a part of the possible messages: walks over a deep backlog continue in separate turns
(:mod:`annulet.core.searching.selector_walk`, :mod:`annulet.core.searching.group_walk`,
:mod:`annulet.core.reading.browse_order`), a thread reads rows, and some work is done in slices before anything is
dispatched. The consumer waits in ``Queue.draining`` until none of these can find a message for it that was in the queue
at the request. Then its session is notified.

The invariant: **while a consumer with room for a message waits, the queue has work in progress that ends with a call
of** :func:`settle`: a turn was requested, a slice follows, a thread reads, or the disk refused and the tick retries. So
no answer is too early, and none is forgotten. A consumer does not wait for messages that it may not have now: the queue
is paused, its gate is closed, or another consumer is the only active one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from annulet.core.searching import group_walk, selector_walk

if TYPE_CHECKING:
    from annulet.core.model.consumer import Consumer
    from annulet.core.queue.entries import QueueEntries


def begin(queue: QueueEntries, consumer: Consumer, now: int) -> None:
    """Notify a consumer's session when all present messages for it were delivered, possibly at once."""
    queue.draining[consumer] = queue.next_sequence
    queue.wake_insisting(now)
    settle(queue)


def settle(queue: QueueEntries) -> None:
    """Tell the sessions of consumers that nothing under way can serve any more. Call it behind dispatch."""
    for consumer, upto in list(queue.draining.items()):
        if not consumer.session.writable:  # messages that wait for room in the output go first
            continue
        if not may_find(queue, consumer, upto):
            del queue.draining[consumer]
            consumer.session.nothing_more(consumer)


def may_find(queue: QueueEntries, consumer: Consumer, upto: int) -> bool:
    """Return whether work in progress may still find a message for a consumer with a sequence below ``upto``.

    Call it behind dispatch, when everything that could be handed out at once has been.
    """
    if not consumer.ready:
        return False
    taking = not consumer.settings.browse
    if taking and (queue.paused or not queue.gate.open or queue.gate.rebalancing):
        return False
    if taking and queue.sliced:
        return True
    if taking and not queue.consumers.is_live(consumer):
        return False
    if queue.matchers.cut:
        return True
    refused = queue.bodies is not None and queue.bodies.stalled
    if consumer.unseen is not None:
        return refused or consumer.unseen.is_looking(upto)
    if not queue.order.count or 0 <= queue.settings.in_flight_max <= len(queue.delivering):
        return False
    return refused or _may_be_brought(queue, consumer, upto)


def _may_be_brought(queue: QueueEntries, consumer: Consumer, upto: int) -> bool:
    """The same for a destructive consumer, if dispatch is not suspended."""
    lanes = queue.deep_lanes
    if lanes is not None:
        if lanes.unasked:
            return True
        grouped = lanes.as_grouped()
        if grouped is not None:
            return group_walk.may_find(queue, grouped, consumer, upto)
        if consumer.required:
            return selector_walk.may_find(queue, lanes, consumer, upto)
    return any(pages.stalled or pages.awaits_read() for pages in queue.order.page_parts())
