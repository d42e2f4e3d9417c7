"""Walks over the messages behind the lanes of a grouped queue for waiting consumers.

A ready consumer whose parked messages precede its messages in the lanes gets these first; one without parked messages
waits for the frontier (:class:`annulet.core.searching.grouped_lanes.GroupedLanes`). A scan that finds messages is made
at once, like reads of a plain queue: credit bounds it. If hardly anything can be found behind a stalled group, scans
are made in turns (:mod:`annulet.broker.paging.look_turns`), and other clients are served in between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from annulet.core.model.entry import BEHIND_ALL
from annulet.core.searching.grouped_lanes import LANE_MESSAGES, REFUSED

if TYPE_CHECKING:
    from annulet.core.model.consumer import Consumer
    from annulet.core.policies.queue_policies import QueuePolicies
    from annulet.core.searching.grouped_lanes import GroupedLanes


def serve(queue: QueuePolicies, lanes: GroupedLanes, now: int) -> bool:
    """Load the messages consumers wait for, unless that finds very little. Returns whether any was loaded."""
    waiting = _waiting(queue, lanes)
    if not waiting:
        return False
    if _refill(lanes, waiting):
        return True
    if not _waits_for_frontier(lanes, waiting):
        return False
    if lanes.sparse and not _near_the_end(queue, lanes):
        lanes.ask_turn(now)
        return False
    brought = lanes.pass_over(LANE_MESSAGES)
    if not brought and lanes.unpassed():
        lanes.ask_turn(now)
    return brought > 0


def scan(queue: QueuePolicies, lanes: GroupedLanes, messages: int) -> tuple[bool, bool]:
    """As :meth:`annulet.core.queue.queue.Queue.scan`, for the next few ``messages`` at most.

    Returns whether a consumer may get a message now, and whether there is more to scan now.
    """
    waiting = _waiting(queue, lanes)
    if waiting and _refill(lanes, waiting):
        return True, True
    pulled = lanes.pulled and lanes.unpassed() and lanes.free().low == BEHIND_ALL
    if not pulled and not (waiting and _waits_for_frontier(lanes, waiting)):
        lanes.pulled = False
        return False, False
    brought = lanes.pass_over(messages)
    if lanes.free().count or brought == REFUSED:
        lanes.pulled = False
    return brought > 0, brought != REFUSED and lanes.unpassed()


def may_find(queue: QueuePolicies, lanes: GroupedLanes, consumer: Consumer, upto: int) -> bool:
    """Return whether the walk, or a disk that refused, may give a consumer a message with a sequence below ``upto``.

    Call it after :func:`serve`, which has requested a turn if it could not load everything at once.
    """
    place = _waiting(queue, lanes).get(consumer)
    if place is None:
        return False
    if any(pages.stalled or pages.awaits_read() for pages in lanes.page_parts()):
        return True
    holding = lanes.holding(consumer)
    if place != BEHIND_ALL or lanes.free().low != BEHIND_ALL or (holding is not None and holding.low != BEHIND_ALL):
        return False
    return lanes.unpassed() and lanes.passed < upto


def _waiting(queue: QueuePolicies, lanes: GroupedLanes) -> dict[Consumer, int]:
    """Return ready consumers, each with the place of its first message in the lanes."""
    stock = lanes.stock
    if stock is None or not stock.count or queue.halted or (not lanes.parked and not lanes.unpassed()):
        return {}
    if 0 <= queue.settings.in_flight_max <= len(queue.delivering):
        return {}
    ready = [consumer for consumer in queue.consumers.in_turn() if consumer.ready]
    if not ready:
        return {}
    firsts: dict[Consumer | None, list[tuple[int, int]]] = {}
    for shelf in lanes.shelves():
        lane = shelf.first()
        head = None if lane is None else lane.order.first()
        if head is not None:
            firsts.setdefault(shelf.owner, []).append((head.place, shelf.blocked))
    free = firsts.get(None, [])
    return {
        consumer: min(
            [place for place, blocked in [*free, *firsts.get(consumer, [])] if not blocked & consumer.refused],
            default=BEHIND_ALL,
        )
        for consumer in ready
    }


def _refill(lanes: GroupedLanes, waiting: dict[Consumer, int]) -> bool:
    """Load parked messages that precede all messages of a consumer in the lanes."""
    found = False
    if lanes.free().low < max(waiting.values()):
        found = lanes.refill(lanes.free())
    for consumer, place in waiting.items():
        holding = lanes.holding(consumer)
        if holding is not None and holding.low < place:
            found = lanes.refill(holding) or found
    return found


def _waits_for_frontier(lanes: GroupedLanes, waiting: dict[Consumer, int]) -> bool:
    """Return whether a consumer has no message in the lanes and none parked, and more may be found."""
    if not lanes.unpassed() or lanes.free().low != BEHIND_ALL:
        return False
    for consumer, place in waiting.items():
        holding = lanes.holding(consumer)
        if place == BEHIND_ALL and (holding is None or holding.low == BEHIND_ALL):
            return True
    return False


def _near_the_end(queue: QueuePolicies, lanes: GroupedLanes) -> bool:
    """Return whether the rest fits into one scan, and is in memory."""
    stock = lanes.stock
    if stock is None or lanes.passed < queue.next_sequence - LANE_MESSAGES:
        return False
    return not any(area.on_disk_from(lanes.passed) for area in stock.areas())
