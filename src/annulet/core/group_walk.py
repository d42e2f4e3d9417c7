"""Who waits for messages that stand behind the lanes of a grouped queue, and how far that is looked at now.

Who is ready and finds nothing in the lanes that stands before what is parked for him gets that first; who has nothing
parked either waits for the frontier (:class:`annulet.core.grouped_lanes.GroupedLanes`). A look that finds something is
made at once, as rows of a plain queue are read at once: credit bounds it. Where a stalled group has hardly left
anything to find, looks are made in turns (:mod:`annulet.broker.scanning`), and everybody else is served meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from annulet.core.entry import BEHIND_ALL
from annulet.core.grouped_lanes import LANE_MESSAGES, REFUSED

if TYPE_CHECKING:
    from annulet.core.consumer import Consumer
    from annulet.core.grouped_lanes import GroupedLanes
    from annulet.core.queue import Queue


def serve(queue: Queue, lanes: GroupedLanes, now: int) -> bool:
    """Bring what consumers wait for, as far as that is not looking for very little. Says whether anything came."""
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


def scan(queue: Queue, lanes: GroupedLanes, messages: int) -> tuple[bool, bool]:
    """As :meth:`annulet.core.queue.Queue.scan`, for the next few ``messages`` at most.

    Returns whether somebody may have something now, and whether there is more to look at now.
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


def may_find(queue: Queue, lanes: GroupedLanes, consumer: Consumer, upto: int) -> bool:
    """Say whether the walk, or a disk that refused, may bring a consumer a message whose sequence is below ``upto``.

    Call it behind :func:`serve`, which has asked for a turn where it could not bring everything at once.
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


def _waiting(queue: Queue, lanes: GroupedLanes) -> dict[Consumer, int]:
    """Return who is ready, each with the place of the first in the lanes that it may have."""
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
    """Bring what is parked and stands before all that somebody finds in the lanes."""
    found = False
    if lanes.free().low < max(waiting.values()):
        found = lanes.refill(lanes.free())
    for consumer, place in waiting.items():
        holding = lanes.holding(consumer)
        if holding is not None and holding.low < place:
            found = lanes.refill(holding) or found
    return found


def _waits_for_frontier(lanes: GroupedLanes, waiting: dict[Consumer, int]) -> bool:
    """Say whether somebody finds nothing in the lanes and has nothing parked, and more may be found."""
    if not lanes.unpassed() or lanes.free().low != BEHIND_ALL:
        return False
    for consumer, place in waiting.items():
        holding = lanes.holding(consumer)
        if place == BEHIND_ALL and (holding is None or holding.low == BEHIND_ALL):
            return True
    return False


def _near_the_end(queue: Queue, lanes: GroupedLanes) -> bool:
    """Say whether what is left to pass is as little as one look covers, and in memory."""
    stock = lanes.stock
    if stock is None or lanes.passed < queue.next_sequence - LANE_MESSAGES:
        return False
    return not any(area.on_disk_from(lanes.passed) for area in stock.areas())
