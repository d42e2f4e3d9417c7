"""Finding matches of selectors in a deep backlog (design S3 to S5).

Each match class walks over the stock once, from the oldest message on, in scans of about a hundred messages. Matches
move to the lanes, where its consumers get them in order; the rest stays, and the class's frontier advances, so no
message is evaluated twice. The stock is a list of areas, each with a frontier: a plain queue has one, strict priorities
one a level, and the walk is on the most important one with unexamined messages. A class waits while its consumers have
no credit or enough was found for them: matches must not fill the memory that paging keeps free.

Order (design S4, ``strict``): a class gets nothing from above its frontier, where older messages may still be found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.core.message.hot_properties import terms_of
from annulet.core.model.entry import BEHIND_ALL
from annulet.core.policies.evaluation_turns import EVALUATION_STEPS_MAX
from annulet.core.searching import group_walk

if TYPE_CHECKING:
    from annulet.core.message.hot_properties import Term
    from annulet.core.model.consumer import Consumer
    from annulet.core.model.entry import QueueEntry
    from annulet.core.paging.paged_fifo import PagedFifo
    from annulet.core.policies.matchers import MatchClass
    from annulet.core.policies.queue_policies import QueuePolicies
    from annulet.core.searching.deep_lanes import DeepLanes

LOOK_MESSAGES: Final = 256
"""Messages of one scan at most: one read of rows."""

FOUND_BYTES: Final = 512 << 10
"""Body bytes of these, but for the last look: with all 64 classes a queue remembers, 32 MiB (design S6)."""


class Walk:
    """One class during one scan: its next position, its remaining room, and its condition."""

    __slots__ = ("area", "bytes", "match_class", "messages", "position")

    def __init__(self, match_class: MatchClass, area: PagedFifo, position: int, messages: int, size: int) -> None:
        self.match_class = match_class
        self.area = area
        self.position = position
        self.messages = messages  # to be found still
        self.bytes = size

    def found(self, entry: QueueEntry) -> bool:
        """Count one more found; say whether there is room for another."""
        self.messages -= 1
        self.bytes -= entry.message.size
        return self.messages > 0 and self.bytes > 0


def may_walk(queue: QueuePolicies, lanes: DeepLanes) -> bool:
    """Return whether a consumer waits for a walk, or may during this dispatch, which gives no consumer room.

    Called at each dispatch: cheap if no consumer with a selector waits.
    """
    if lanes.as_grouped() is not None:
        return True
    stock = lanes.stock
    if stock is None or not stock.count or not queue.consumers.selecting:
        return False
    return len(_classes_waiting(queue, lanes)) > 0


def serve_arrivals(queue: QueuePolicies, lanes: DeepLanes, now: int) -> bool:
    """Continue classes that are near the end, as far as that needs no disk, and request a turn for the rest.

    Returns whether a consumer may get a message now.
    """
    grouped = lanes.as_grouped()
    if grouped is not None:
        return group_walk.serve(queue, grouped, now)
    walks = _walks(queue, lanes)
    behind = queue.next_sequence - LOOK_MESSAGES
    near = []
    for walk in walks:
        frontier = walk.position - walk.area.pages.base
        if frontier >= behind and not walk.area.on_disk_from(frontier):
            near.append(walk)
    found = False
    if near and queue.matchers.steps < EVALUATION_STEPS_MAX:  # classes this far do not wait for those behind
        found = _look(queue, lanes, near, LOOK_MESSAGES)
        walks = _walks(queue, lanes)
    if walks:
        lanes.ask_turn(now)
    return found


def scan(queue: QueuePolicies, lanes: DeepLanes, messages: int) -> tuple[bool, bool]:
    """Scan at most the next few ``messages`` for one class and all at the same position.

    Returns whether a consumer may get a message now, and whether there is more to scan now.
    """
    grouped = lanes.as_grouped()
    if grouped is not None:
        return group_walk.scan(queue, grouped, messages)
    if lanes.unasked:  # dispatch continues, which is enough for one turn
        lanes.unasked = False
        return True, True
    walks = _walks(queue, lanes)
    if not walks:
        return False, False
    found = _look(queue, lanes, _in_turn(queue, walks), messages)
    moved = any(walk.position != lanes.frontier_of(walk.match_class) for walk in walks)
    return found, moved


def remaining(queue: QueuePolicies, lanes: DeepLanes | None) -> int:
    """Return about how many messages the slowest class with a consumer has before it.

    0 if nothing is behind the lanes: then a message is evaluated as soon as a consumer could take it.
    """
    stock = None if lanes is None else lanes.stock
    taking = [consumer for consumer in queue.consumers if consumer.required and not consumer.copies]
    if stock is None or not stock.count or not taking:
        return 0
    areas = stock.areas()
    return max([_remaining_of(held, areas) for held in map(queue.matchers.class_of, taking) if held is not None])


def _remaining_of(match_class: MatchClass, areas: list[PagedFifo]) -> int:
    """Return how many messages a class has before it: no more than there are, and no more than the sequences say."""
    left = 0
    for area in areas:
        first = max(match_class.frontier_on(area.pages.level), area.first_place())
        left += max(0, min(area.count, area.last_sequence() + 1 - first))
    return left


def is_looking(queue: QueuePolicies, lanes: DeepLanes | None, consumer: Consumer, last_sequence: int) -> bool:
    """Return whether a consumer's class has something before it with a sequence up to the last one (0: any).

    And may scan it: its consumers may leave as many matches with higher sequences as stop a walk.
    """
    match_class = queue.matchers.class_of(consumer)
    if match_class is None or lanes is None or lanes.stock is None:
        return False
    if last_sequence:
        messages, size = lanes.found_above(match_class, last_sequence)
        if messages >= queue.matchers.found_messages or size >= FOUND_BYTES:
            return False
    for area in lanes.stock.areas():
        frontier = max(match_class.frontier_on(area.pages.level), area.first_place())
        if frontier <= area.last_sequence() and (not last_sequence or frontier <= last_sequence):
            return True
    return False


def may_find(queue: QueuePolicies, lanes: DeepLanes, consumer: Consumer, upto: int) -> bool:
    """Return whether the walk of a consumer's class is on, with a message before it whose sequence is below
    ``upto``."""
    match_class = queue.matchers.class_of(consumer)
    if match_class is None or lanes.stock is None:
        return False
    for area in lanes.stock.areas():
        frontier = max(match_class.frontier_on(area.pages.level), area.first_place())
        if frontier <= area.last_sequence() and frontier < upto:
            return any(walk.match_class is match_class for walk in _walks(queue, lanes))
    return False


def _in_turn(queue: QueuePolicies, walks: list[Walk]) -> list[Walk]:
    """Leave out the walks behind the one whose turn it is.

    Every other scan is for the slowest class, which so catches up, and from then on one scan serves both; the others
    are for the one that has waited longest: a consumer that joins a deep queue must not delay all that are ahead.
    """
    matchers = queue.matchers
    matchers.looks += 1
    if matchers.looks % 2:
        return walks
    turn = min([walk.match_class.looked for walk in walks])
    start = min([walk.position for walk in walks if walk.match_class.looked == turn])
    return [walk for walk in walks if walk.position >= start]


def _classes_waiting(queue: QueuePolicies, lanes: DeepLanes) -> dict[int, list[int]]:
    """Return the bits of the classes whose consumers would take a message now, and that have unexamined messages.

    With the bits of refusals of each of these consumers.
    """
    waiting: dict[int, list[int]] = {}
    for consumer in queue.consumers.in_turn():
        match_class = queue.matchers.class_of(consumer) if consumer.required and consumer.ready else None
        if match_class is not None and lanes.next_area(match_class) is not None:
            waiting.setdefault(match_class.bit, []).append(consumer.refused)
    return waiting


def _walks(queue: QueuePolicies, lanes: DeepLanes) -> list[Walk]:
    """Return the next scan."""
    stock = lanes.stock
    if stock is None or not stock.count or queue.halted:
        return []
    if 0 <= queue.settings.in_flight_max <= len(queue.delivering):
        return []
    walks: list[Walk] = []
    enough = queue.matchers.found_messages
    for bit, refusals in _classes_waiting(queue, lanes).items():
        match_class = queue.matchers.class_with(bit)
        messages, size = lanes.matched(match_class, refusals, enough)
        room = enough - messages
        area = lanes.next_area(match_class)
        if area is not None and room > 0 and size < FOUND_BYTES:
            walks.append(Walk(match_class, area, lanes.frontier_of(match_class), room, FOUND_BYTES - size))
    return walks


def _demanding(queue: QueuePolicies, walks: list[Walk]) -> tuple[list[Walk], list[list[Term]]]:
    """Return those of some walks at one place that continue alone because they need not read everything, with their
    required values. Or all of them, without: messages in memory are evaluated for all of them at once.
    """
    names = queue.settings.hot_properties
    area = walks[0].area
    if not names or not area.on_disk_from(walks[0].position - area.pages.base):
        return walks, []
    terms = [terms_of(walk.match_class.selector, names) for walk in walks]
    if not any(terms):
        return walks, []
    return [walk for walk, demanded in zip(walks, terms, strict=True) if demanded], [some for some in terms if some]


def _look(queue: QueuePolicies, lanes: DeepLanes, walks: list[Walk], messages: int) -> bool:
    """Look once, for those of these classes that are furthest behind, as far as the next one.

    Returns whether a consumer may get a message now: a match, or one in the lanes above a frontier.
    """
    low = min([walk.position for walk in walks])
    asking, hot = _demanding(queue, [walk for walk in walks if walk.position == low])
    area = asking[0].area
    level = area.pages.level
    bound = min([walk.position for walk in walks if walk.position > low], default=BEHIND_ALL) - area.pages.base
    for walk in asking:
        walk.match_class.looked = queue.matchers.looks
    needles = [walk.match_class.needles for walk in asking]
    former = area.count
    entries = area.look(low - area.pages.base, needles if all(needles) else [], messages, hot)
    lanes.area_changed(area, former)
    if entries is None:
        return False
    end = area.looked_upto
    if bound < end:
        end = bound
        entries = [entry for entry in entries if entry.sequence < bound]
    admitted = _admitted(queue, entries, asking, level)
    for walk in asking:
        walk.match_class.frontiers[level] = end
    if admitted:
        former = area.count
        area.take_out(list(admitted))
        lanes.area_changed(area, former)
        for entry, bits in admitted.items():
            lanes.bring(entry, bits)
    return bool(admitted) or any(lanes.waits(low, walk.match_class) for walk in asking)


def _admitted(queue: QueuePolicies, entries: list[QueueEntry], asking: list[Walk], level: int) -> dict[QueueEntry, int]:
    """Return which of the entries match, with the bits of their classes.

    Those that have found enough, or could not ask about all because of the bound of one call, leave ``asking`` with
    their frontier.
    """
    matchers = queue.matchers
    admitted: dict[QueueEntry, int] = {}
    for entry in entries:
        for walk in list(asking):
            match_class = walk.match_class
            if matchers.steps >= EVALUATION_STEPS_MAX:
                match_class.frontiers[level] = entry.sequence  # the next scan begins with it
                asking.remove(walk)
                continue
            if not matchers.evaluate(match_class, entry):
                continue
            admitted[entry] = admitted.get(entry, 0) | match_class.bit
            if not walk.found(entry):
                match_class.frontiers[level] = entry.sequence + 1
                asking.remove(walk)
        if not asking:
            break
    return admitted
