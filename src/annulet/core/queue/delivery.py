"""Delivery: matching pending messages with consumers.

Messages are offered in their order, each to the consumers in their turn. If every consumer may have every message the
first message decides; otherwise the heads of lanes do, so that no message waits behind an unrelated one.

:mod:`annulet.core.management.why_not` tells why a message is not delivered: it names the rule below that keeps it back.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.sliced_work import SLICE_MESSAGES
from annulet.core.model.entry import PENDING, level_of, position_of
from annulet.core.ordering.lane import lane_of
from annulet.core.policies.consumer_turns import PASSED_ROUNDS
from annulet.core.policies.evaluation_turns import used_up
from annulet.core.policies.takers import STEP_CONSUMERS, Takers
from annulet.core.queue.continued_dispatch import go_on_later
from annulet.core.queue.entries import ACKNOWLEDGED
from annulet.core.searching import selector_walk

if TYPE_CHECKING:
    from collections import deque

    from annulet.core.model.consumer import Consumer
    from annulet.core.model.entry import QueueEntry
    from annulet.core.policies.consumer_turns import ConsumerTurns
    from annulet.core.policies.lanes import Lanes
    from annulet.core.policies.matchers import Matchers
    from annulet.core.queue.entries import QueueEntries
    from annulet.core.searching.deep_lanes import DeepLanes

ASKED_IN_VAIN: Final = 3
"""Selectors that are evaluated one by one; with more, the classes are looked up by the message's values: that costs as
much as two evaluations, and most queues have no more selectors."""


def dispatch(queue: QueueEntries, now: int) -> None:
    """Hand messages to consumers until one side runs out."""
    queue.matchers.steps = 0
    queue.matchers.cut = False
    _serve_all(queue, now)
    go_on_later(queue, now)


def _serve_all(queue: QueueEntries, now: int) -> None:
    copied = queue.settings.non_destructive
    if queue.copies is not None:
        queue.copies.serve(now, consumers_too=copied and not queue.halted)
    if copied or queue.halted or queue.consumers.count == 0:
        return
    lanes = queue.lanes
    if lanes is None:
        dispatch_plain(queue, now)
    elif (deep := queue.deep_lanes) is not None:
        walking = selector_walk.may_walk(queue, deep)
        if walking:  # before consumers without a condition, so that turns are kept if nothing has to be read
            selector_walk.serve_arrivals(queue, deep, now)
        dispatch_deep(queue, deep, now)
        while walking and selector_walk.serve_arrivals(queue, deep, now):
            dispatch_deep(queue, deep, now)
    else:
        dispatch_lanes(queue, lanes, now)
    if queue.copies is not None:  # a message for which a browser had no room may be removed, and the next one fit
        queue.copies.serve(now, consumers_too=False)


def dispatch_deep(queue: QueueEntries, lanes: DeepLanes, now: int) -> None:
    """Serve from a stock and the lanes before it.

    While the stock's first precedes all lanes, it is for consumers without a condition, as in a queue without lanes:
    otherwise draining a deep queue would pay for a selector with every message, even for one that is only remembered.
    """
    if lanes.plain and not queue.matchers.unselective and queue.consumers.has_free():
        dispatch_plain(queue, now)
        if not lanes.in_lanes:
            return
    dispatch_lanes(queue, lanes, now)


def dispatch_plain(queue: QueueEntries, now: int) -> None:
    """Serve where every consumer may have every message, until one has a lane, whose answers decide."""
    consumers = queue.consumers
    able: list[deque[int]] | None = None  # consumers with room, if worth determining: none gains room in between
    passed = 0
    in_flight_max = queue.settings.in_flight_max
    while in_flight_max < 0 or len(queue.delivering) < in_flight_max:
        if queue.order.coming() and _may_wait(queue):
            return  # and continues later: a thread is reading it
        entry = queue.first_unexpired(now, SLICE_MESSAGES)
        if entry is None:
            if queue.order.count and queue.has_expired(now):
                queue.expire_later(now)
            return
        if entry.lane is not None or entry.sequence >= queue.hidden_from:
            return  # less important visible messages behind it wait for a moment
        size = entry.message.size
        consumer = consumers.choose(size) if able is None else consumers.choose_able(able, size)
        if consumer is None:
            return
        if able is None:
            passed += consumers.passed
            if passed > PASSED_ROUNDS * consumers.count:
                able = consumers.able()
        if entry.away:
            if not queue.bring(entry):
                return
            if entry.state != PENDING:
                continue
        queue.take_first(entry)
        hand_over(queue, consumer, entry, now)


def _may_wait(queue: QueueEntries) -> bool:
    """Return whether consumers may be served a moment later: not if the remaining messages would exceed a limit."""
    limits = queue.limits
    judged = queue.settings.ring_size >= 0 or (limits is not None and (limits.evicts or limits.rejects))
    return not judged and not queue.insists


def dispatch_lanes(queue: QueueEntries, lanes: Lanes, now: int) -> None:
    """Serve queues with selectors, groups, fair keys or refusals."""
    in_flight_max = queue.settings.in_flight_max
    waiting: set[Consumer] = set()  # their next message is too large for the rest of their window
    served = False  # something was handed over since the first of them began to wait
    deep = queue.deep_lanes if lanes.plain else None
    expired = lanes.asked = 0  # first messages that were removed, or evaluated and not taken
    takers: Takers | None = None  # until a message is delivered
    matchers = queue.matchers
    while (in_flight_max < 0 or len(queue.delivering) < in_flight_max) and not matchers.cut and lanes.may_ask(now):
        if takers is None:
            takers = _takers(queue.consumers, lanes, waiting)
        takers = _with_stock(queue, deep, takers, waiting, now)
        entry = _candidate(lanes, takers)
        if entry is None:
            if not served:
                return
            waiting.clear()  # turns and owners have changed: the next message of waiting consumers may be another one
            takers = None
            served = False
            continue
        if 0 < queue.expires_at(entry) <= now and entry is not queue.arriving:
            queue.remove_pending(entry, RemovalReason.EXPIRED, now, 0)
            expired += 1
            if expired == SLICE_MESSAGES and _others_expire_later(queue, now):
                return
            continue
        waited = len(waiting)
        consumer = _choose(queue, entry, takers, waiting)
        if consumer is not None:
            if entry.away:
                if not queue.bring(entry):
                    return
                if entry.state != PENDING:
                    continue
            takers = None
            queue.take_first(entry)
            queue.consumers.served(consumer)
            hand_over(queue, consumer, entry, now)
            served = _still_wait(lanes, waiting) or served
            continue
        _resort(lanes, entry, takers.weight)
        if len(waiting) != waited:
            takers = None


def _with_stock(
    queue: QueueEntries, lanes: DeepLanes | None, takers: Takers, waiting: set[Consumer], now: int
) -> Takers:
    """Deliver messages of the stock that precede the lanes, if there is one. Returns the takers for the lanes."""
    if lanes is None or not _has_stock(lanes) or not takers.unselective:
        return takers
    return Takers(_after_stock(queue, lanes, _takers(queue.consumers, lanes, waiting).consumers, now))


def _resort(lanes: Lanes, entry: QueueEntry, weight: int) -> None:
    """Move an evaluated entry to the lane of its answers, if that is another one."""
    lane = lane_of(entry)
    assert lane is not None
    if entry.evaluated != lane.evaluated or entry.blocked != lane.blocked:
        lanes.asked += weight
        lanes.resort(entry)


def _others_expire_later(queue: QueueEntries, now: int) -> bool:
    """Have the others that have expired removed in slices. Returns whether there are any."""
    if not queue.has_expired(now):
        return False
    queue.expire_later(now)
    return True


def _has_stock(lanes: DeepLanes) -> bool:
    """Return whether there are messages behind the lanes."""
    return lanes.stock is not None and lanes.stock.count > 0


def _takers(consumers: ConsumerTurns, lanes: Lanes, waiting: set[Consumer]) -> Takers:
    """Determine the consumers that could get a message now. Checking very many counts as an evaluation."""
    in_turn = consumers.in_turn()
    lanes.asked += len(in_turn) // STEP_CONSUMERS
    return Takers([consumer for consumer in in_turn if consumer.ready and consumer not in waiting])


def _still_wait(lanes: Lanes, waiting: set[Consumer]) -> bool:
    """Return after a delivery whether a consumer still waits: with fair keys it is another key's turn, whose next
    message may have room."""
    if lanes.fairness is not None:
        waiting.clear()
    return bool(waiting)


def _candidate(lanes: Lanes, takers: Takers) -> QueueEntry | None:
    """Return the first entry that one of these consumers may have, or may prove to match."""
    if not takers.consumers:
        return None
    first = lanes.first_on([shelf for shelf in lanes.shelves() if takers.may_take_from(shelf)])
    if first is None or first.sequence >= first.queue.hidden_from or lanes.overtakes(first, takers.consumers):
        return None
    return first


def _choose(queue: QueueEntries, entry: QueueEntry, takers: Takers, waiting: set[Consumer]) -> Consumer | None:
    """Return the consumer for the entry. If there is none, consumers that only lack room wait for it.

    None either where the selectors of this dispatch took too long: the answers so far are noted, and it goes on later.
    """
    lane = lane_of(entry)
    owner = None if lane is None or lane.shelf is None else lane.shelf.owner
    size = entry.message.size
    short: list[Consumer] = []
    matchers = queue.matchers
    asked = matchers.evaluations
    unmet = 0  # bits of classes that demand other values, where that was looked up
    deep = queue.deep_lanes
    stocked = deep is not None and _has_stock(deep)
    consumers = takers.consumers
    places = None if stocked or owner is not None else takers.places_open(entry.blocked)
    refusing = step = 0
    while step < (len(consumers) if places is None else len(places)):
        place = step if places is None else places[step]
        consumer = consumers[place]
        step += 1
        if owner is not None and consumer is not owner:
            continue
        if stocked and _may_be_overtaking(deep, matchers, consumer, entry):
            short.append(consumer)
            continue
        if consumer.required & unmet:
            refusing |= consumer.required
            continue
        if consumer.required & ~(entry.evaluated | entry.blocked) and used_up(queue.matchers):
            break
        if not matchers.ask(consumer, entry):
            if not unmet and matchers.evaluations - asked == ASKED_IN_VAIN:
                unmet = matchers.demands.unmet_by(entry.message)
                if unmet and not stocked and owner is None:
                    left = takers.places_open(entry.blocked | unmet)
                    if left is not None:
                        places, step = left, bisect_right(left, place)
                        refusing = takers.bits_among(unmet)
            continue
        if consumer.allows(size):
            return consumer
        short.append(consumer)
    if refusing:
        matchers.refuse(refusing, entry)
    waiting.update(short)
    return None


def _may_be_overtaking(lanes: DeepLanes | None, matchers: Matchers, consumer: Consumer, entry: QueueEntry) -> bool:
    """Return whether something older that a consumer's selector looks for may still be found in a deep backlog."""
    if not consumer.required or lanes is None or lanes.stock is None or not lanes.stock.count:
        return False
    match_class = matchers.class_of(consumer)
    return match_class is not None and position_of(entry) >= lanes.frontier_of(match_class)


def _after_stock(queue: QueueEntries, lanes: DeepLanes, consumers: list[Consumer], now: int) -> list[Consumer]:
    """Deliver the stock's first, and return the consumers for the lanes, in turn, which may have advanced."""
    delivered = queue.counters.messages_delivered
    consumers = _serve_stock(queue, lanes, consumers, now)
    if 0 <= queue.settings.in_flight_max <= len(queue.delivering):
        return []  # the cap on deliveries was reached
    if len(consumers) < 2 or queue.counters.messages_delivered == delivered:
        return consumers
    left = set(consumers)
    return [consumer for consumer in queue.consumers.in_turn() if consumer in left]


def _serve_stock(queue: QueueEntries, lanes: DeepLanes, consumers: list[Consumer], now: int) -> list[Consumer]:
    """Deliver the stock's first to consumers without a condition, while no entry of the lanes precedes it.

    Also to consumers that exclude a connection's own messages: evaluating these is cheap, and while they wait for the
    turn of their walk others would get their share. Returns the consumers for the lanes.
    """
    stock = lanes.stock
    taking = [consumer for consumer in consumers if not consumer.required]
    if stock is None or not stock.count or not taking:
        return consumers
    asked = [consumer for consumer in consumers if _is_asked_at_once(queue.matchers, consumer)]
    in_lanes = _candidate(lanes, Takers([*taking, *asked]))
    able = queue.consumers.able([*taking, *asked])
    in_flight_max = queue.settings.in_flight_max
    while stock.count:
        if in_lanes is not None and position_of(in_lanes) < lanes.first_position():
            return consumers
        entry = stock.first()
        lanes.follow_stock()
        if entry is None:  # the rest is damaged, or the disk refuses to read it and no message may overtake it
            return [consumer for consumer in consumers if consumer.required or (consumer.ready and not stock.count)]
        if in_lanes is not None and in_lanes < entry:
            return consumers
        if 0 < queue.expires_at(entry) <= now and entry is not queue.arriving:
            queue.remove_pending(entry, RemovalReason.EXPIRED, now, 0)
            continue
        if entry.sequence >= queue.hidden_from or 0 <= in_flight_max <= len(queue.delivering):
            return []
        barred = _barred(queue.matchers, asked, entry) if asked else None
        consumer = queue.consumers.choose_able(able, entry.message.size, barred)
        if consumer is None:
            return [consumer for consumer in consumers if consumer.required]
        if entry.away:
            if not queue.bring(entry):  # no message overtakes it either
                return [consumer for consumer in consumers if consumer.required]
            if entry.state != PENDING:
                continue
        queue.take_first(entry)
        hand_over(queue, consumer, entry, now)
    return [consumer for consumer in consumers if consumer.ready]


def _is_asked_at_once(matchers: Matchers, consumer: Consumer) -> bool:
    """Return whether a consumer has a condition that no property of a message has to be read for."""
    match_class = matchers.class_of(consumer)
    return match_class is not None and match_class.selector is None


def _barred(matchers: Matchers, consumers: list[Consumer], entry: QueueEntry) -> set[Consumer]:
    """Return for which of these the stock's first is not eligible: their class refuses it, or its frontier has passed
    it."""
    level = level_of(entry)
    barred: set[Consumer] = set()
    for consumer in consumers:
        match_class = matchers.class_of(consumer)
        assert match_class is not None
        if match_class.frontier_on(level) > entry.sequence or not match_class.admits(entry):
            barred.add(consumer)
    return barred


def hand_over(queue: QueueEntries, consumer: Consumer, entry: QueueEntry, now: int) -> None:
    """Give an entry that is out of the order to a consumer."""
    queue.counters.messages_delivered += 1
    if queue.events is not None:
        queue.events.delivered(entry, consumer, now)
    if not queue.simple:
        _note_taken(queue, entry, consumer)
    if consumer.auto_acknowledge and consumer.session.deliver_settled(consumer, entry):
        if queue.lanes is not None:
            entry.consumer = consumer
            queue.lanes.released(entry)
            entry.consumer = None
            queue.group_firsts.discard(entry)
        queue.finish_removal(entry, ACKNOWLEDGED, now, 0)
        return
    queue.mark_delivering(entry, consumer)
    if not consumer.auto_acknowledge:
        consumer.session.deliver_unsettled(consumer, entry)


def _note_taken(queue: QueueEntries, entry: QueueEntry, consumer: Consumer) -> None:
    """Report the consumer to order and lanes, and mark the first message of a group's assignment."""
    queue.ranker.served(entry)
    if queue.lanes is None:
        return
    queue.lanes.taken(entry, consumer)
    lane = lane_of(entry)
    if lane is not None and lane.group is not None and lane.group.unmarked:
        lane.group.unmarked = False
        queue.group_firsts.add(entry)
