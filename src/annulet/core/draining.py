"""A consumer that asks whether there is anything for it now, and waits for the answer (AMQP 1.0 drain, §2.6.7).

The call that asks hands out only a part of what may be there: walks over a deep backlog go on in turns of their own
(:mod:`annulet.core.match_classes`, :mod:`annulet.core.group_walk`, :mod:`annulet.core.browsing`), a thread reads
rows, and some work is done in slices before anything is dispatched. The consumer waits in ``Queue.draining`` until
nothing of that can bring it anything that was in the queue when it asked. Then its session is told.

The invariant: **while a consumer with room for a message waits, the queue has work under way that ends with a call of**
:func:`settle`: a turn was asked for, a slice follows, a thread reads, or the disk refused and the tick asks it again.
So no answer comes too early, and none is forgotten. A consumer does not wait for messages that it may not have now: the
queue is paused, its gate is shut, or another consumer is served alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from annulet.core import delivery, group_walk, match_classes
from annulet.core.browsing import BrowseOrder
from annulet.core.deep_lanes import DeepLanes
from annulet.core.grouped_lanes import GroupedLanes

if TYPE_CHECKING:
    from annulet.core.consumer import Consumer
    from annulet.core.queue import Queue


def begin(queue: Queue, consumer: Consumer, now: int) -> None:
    """Have a consumer's session told when everything that is there for it now was handed out, perhaps at once."""
    queue.draining[consumer] = queue.next_sequence
    delivery.wake_insisting(queue, now)
    settle(queue)


def settle(queue: Queue) -> None:
    """Tell the sessions of consumers that nothing under way can serve any more. Call it behind dispatch."""
    for consumer, upto in list(queue.draining.items()):
        if not consumer.session.writable:  # messages that wait for room in the output go first
            continue
        if not may_find(queue, consumer, upto):
            del queue.draining[consumer]
            consumer.session.nothing_more(consumer)


def may_find(queue: Queue, consumer: Consumer, upto: int) -> bool:
    """Say whether what is under way may still bring a consumer a message whose sequence is below ``upto``.

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
    refused = queue.bodies is not None and queue.bodies.stalled
    if consumer.unseen is not None:
        unseen = consumer.unseen
        return refused or (isinstance(unseen, BrowseOrder) and unseen.is_looking(upto))
    if not queue.order.count or 0 <= queue.settings.in_flight_max <= len(queue.delivering):
        return False
    return refused or _may_be_brought(queue, consumer, upto)


def _may_be_brought(queue: Queue, consumer: Consumer, upto: int) -> bool:
    """Say so of a consumer that takes messages, where dispatch is not held up."""
    lanes = queue.lanes
    if isinstance(lanes, DeepLanes):
        if lanes.unasked:
            return True
        if isinstance(lanes, GroupedLanes):
            return group_walk.may_find(queue, lanes, consumer, upto)
        if consumer.required:
            return match_classes.may_find(queue, lanes, consumer, upto)
    return any(pages.stalled or pages.awaits_read() for pages in queue.order.page_parts())
