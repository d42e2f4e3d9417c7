"""Why a consumer gets nothing: for a queue and a consumer the first message it could have, and what keeps it back.

The answer follows the same rules as dispatch (:mod:`annulet.core.queue.delivery`, where a new rule needs its obstacle
here) and changes nothing, not even what the queue remembers of its selectors.
It costs a pass over the pending messages to find the first ones, and a close look at :data:`LOOKS_MAX` of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from heapq import nsmallest
from typing import TYPE_CHECKING, Final

from annulet.core.base.errors import InvalidArgument
from annulet.core.message.selector_names import lookup_for
from annulet.core.model.entry import DELIVERING, PENDING
from annulet.core.ordering.lane import lane_of

if TYPE_CHECKING:
    from annulet.core.model.consumer import Consumer
    from annulet.core.model.entry import QueueEntry
    from annulet.core.queue.queue import Queue

LOOKS_MAX: Final = 1000
"""Messages looked at closely, in order of dispatch: some 10 ms. Messages behind them are not in the answer."""


class Obstacle(Enum):
    """The obstacle between a message and a consumer, or that there is none."""

    DELIVERABLE = "deliverable"
    """Nothing: the next dispatch delivers it, to this consumer or to one whose turn is earlier."""

    NOT_ATTACHED = "not attached"
    NOTHING_PENDING = "nothing pending"
    EVERYTHING_SEEN = "everything seen"
    """A browser or a consumer of a non-destructive queue gets each message once."""

    HIDDEN = "part of a batch whose commit is not on disk"
    UNREADABLE = "the disk does not give the next messages"

    # the queue
    PAUSED = "queue paused"
    GATE_SHUT = "gate shut"
    REBALANCING = "groups are rebalanced"
    IN_SLICES = "very many come back or expire"
    QUEUE_CAPPED = "as much in delivery as may be"

    # the consumer
    NOT_ACTIVE = "another consumer is active"
    FORMER_HOLDS = "a former consumer holds deliveries"
    NOT_WRITABLE = "connection not writable"
    NO_CREDIT = "no credit"
    NO_SESSION_CREDIT = "no credit in its session"

    # the message: conditions of the consumer, which make others candidates
    SELECTOR = "selector does not match"
    NO_LOCAL = "published by its own connection"
    REPLAY = "accepted before its replay period"
    REFUSED = "refused by this consumer"

    # the message: the condition a candidate waits for
    GROUP_OWNED = "group of another consumer"
    GROUP_PARKED = "group waits for deliveries"
    KEY_CAPPED = "as much of its key in delivery as may be"
    TOO_LARGE = "larger than the rest of the window"


CONDITIONS: Final = frozenset({Obstacle.SELECTOR, Obstacle.NO_LOCAL, Obstacle.REPLAY, Obstacle.REFUSED})
"""A message one of these keeps back is no candidate: the consumer asked not to have it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One obstacle. ``sequence`` is the message it was found at, 0 for what holds for all."""

    obstacle: Obstacle
    text: str
    sequence: int = 0
    details: str = ""
    """A selector's sub-expressions with their values, one a line."""


@dataclass(frozen=True, slots=True)
class WhyNot:
    """The answer. ``findings`` has at least one, the one to look at first in front."""

    findings: tuple[Finding, ...]
    sequence: int  # of the first candidate; where there is none, of the first message; 0 when nothing is pending
    looked: int  # messages looked at closely
    pending: int  # messages there were to look at

    @property
    def obstacle(self) -> Obstacle:
        """The condition that has to change first."""
        return self.findings[0].obstacle

    @property
    def text(self) -> str:
        """The first finding in words."""
        return self.findings[0].text

    @property
    def deliverable(self) -> bool:
        """Return whether nothing keeps the message back."""
        return self.obstacle is Obstacle.DELIVERABLE

    def __str__(self) -> str:
        """Return all findings for people, one a line, with the selector's explanation indented."""
        lines: list[str] = []
        for finding in self.findings:
            lines.append(finding.text)
            lines.extend(f"  {line}" for line in finding.details.splitlines())
        return "\n".join(lines)


def why_not(queue: Queue, consumer: Consumer, now: int) -> WhyNot:
    """Say why ``consumer`` is given nothing at ``now`` (milliseconds since 1970), or that it will be.

    Findings come in this order: the queue's, the consumer's, the first candidate's. A candidate is a message that the
    consumer's own conditions admit: selector, no-local, replay period, its own refusals; only where none of the
    messages looked at is one, the first message's condition is the finding.

    Raises:
        InvalidArgument: the consumer belongs to another queue. Errors of a view for malformed content are passed on.
    """
    if consumer.queue is not queue:
        raise InvalidArgument(
            f"{named(consumer)} consumes from queue '{consumer.queue.name}', not from '{queue.name}'; ask about that"
        )
    if consumer.cancelled or queue.deleted:
        gone = f"queue '{queue.name}' was deleted" if queue.deleted else f"{named(consumer)} was cancelled"
        return WhyNot((Finding(Obstacle.NOT_ATTACHED, gone),), 0, 0, 0)
    question = _Question(queue, consumer, now)
    entries = question.entries()
    findings = question.of_batch()
    if not consumer.settings.browse:
        findings += question.of_queue()
        findings += question.of_activity()
    findings += _of_credit(consumer)
    if not entries:
        known = bool(findings) and (findings[0].obstacle is Obstacle.HIDDEN or _is_behind(consumer))
        nothing = [] if known else [question.nothing_there()]
        return WhyNot((*nothing, *findings), 0, 0, 0)
    looks = question.in_order(entries)
    found, sequence, looked = question.of_messages(looks)
    if found[0].obstacle is Obstacle.DELIVERABLE:
        found = [] if findings else found
    elif looked == LOOKS_MAX < len(entries):
        first = found[0]
        text = f"{first.text}; {looked} of {len(entries)} messages were looked at"
        found[0] = Finding(first.obstacle, text, first.sequence, first.details)
    return WhyNot((*findings, *found), sequence, looked, len(entries))


def named(consumer: Consumer) -> str:
    """Return how texts name a consumer."""
    return f"consumer '{consumer.tag}' of session '{consumer.session.name}'"


def _is_behind(consumer: Consumer) -> bool:
    """Return whether a reader of a deep queue has something before it that it has not read yet."""
    return consumer.unseen is not None and consumer.unseen.is_behind()


# ------------------------------------------------------------------ the consumer


def _of_credit(consumer: Consumer) -> list[Finding]:
    session = consumer.session
    findings: list[Finding] = []
    if not session.writable:
        text = f"session '{session.name}' takes no output: its connection is full or closing"
        findings.append(Finding(Obstacle.NOT_WRITABLE, text))
    if consumer.auto_acknowledge:
        return findings
    window = consumer.window
    if 0 <= window.messages_max <= window.messages:
        text = f"{named(consumer)} holds {window.messages} messages and may hold {window.messages_max}"
        findings.append(Finding(Obstacle.NO_CREDIT, text))
    shared = session.window
    if 0 <= shared.messages_max <= shared.messages:
        text = f"session '{session.name}' holds {shared.messages} messages and may hold {shared.messages_max}"
        findings.append(Finding(Obstacle.NO_SESSION_CREDIT, text))
    return findings


# ------------------------------------------------------------------ the messages


def _of_size(consumer: Consumer, entry: QueueEntry) -> Finding | None:
    """Return whose byte window an entry is too large for; one alone in a window always fits."""
    if consumer.auto_acknowledge:
        return None
    size = entry.message.size
    session = consumer.session
    for window, owner in ((consumer.window, named(consumer)), (session.window, f"session '{session.name}'")):
        if 0 <= window.bytes_max < window.bytes + size and window.bytes:
            text = (
                f"message {entry.sequence} has {size} bytes; {owner} holds {window.bytes} bytes and may hold "
                f"{window.bytes_max}"
            )
            return Finding(Obstacle.TOO_LARGE, text, entry.sequence)
    return None


class _Question:
    """Why one consumer of a queue is given nothing at a time."""

    def __init__(self, queue: Queue, consumer: Consumer, now: int) -> None:
        self._queue = queue
        self._consumer = consumer
        self._now = now

    def entries(self) -> list[QueueEntry]:
        """Return what there is for the consumer, in no order. Expired messages count as removed."""
        queue, consumer = self._queue, self._consumer
        if consumer.unseen is not None:
            return [
                entry
                for entry in queue.shown(consumer.unseen.snapshot())
                if entry.state == DELIVERING or (entry.state == PENDING and not self.expired(entry))
            ]
        queue.order.first()  # the next one is an object, even if all others are on disk
        there = queue.shown(queue.order.in_memory())
        return [entry for entry in there if entry.state == PENDING and not self.expired(entry)]

    def expired(self, entry: QueueEntry) -> bool:
        queue, now = self._queue, self._now
        return 0 < queue.expires_at(entry) <= now

    def in_order(self, entries: list[QueueEntry]) -> list[QueueEntry]:
        """Return those to look at, in order; on a fair queue by the turns of their keys."""
        queue, consumer = self._queue, self._consumer
        lanes = queue.lanes
        if consumer.copies:
            return nsmallest(LOOKS_MAX, entries)
        if lanes is None:
            return nsmallest(1, entries)  # every consumer may have every message, so the first decides
        if lanes.fairness is None:
            return nsmallest(LOOKS_MAX, entries)
        turns = {key: turn for turn, key in enumerate(lanes.fairness.in_turn())}

        def turn_of(entry: QueueEntry) -> tuple[int, QueueEntry]:
            lane = lane_of(entry)
            key = None if lane is None else lane.fair
            return (len(turns) if key is None else turns.get(key, len(turns)), entry)

        return nsmallest(LOOKS_MAX, entries, key=turn_of)

    def nothing_there(self) -> Finding:
        queue, consumer = self._queue, self._consumer
        pending = queue.shown_count()
        if pending and any(area.stalled for area in queue.order.page_parts()):
            text = (
                f"the disk refuses to read the next of {pending} messages of queue '{queue.name}', which are not lost"
            )
            return Finding(Obstacle.UNREADABLE, f"{text}; the broker tries again at each tick, its log has the error")
        if _is_behind(consumer):
            return Finding(
                Obstacle.DELIVERABLE, f"what {named(consumer)} has not seen is on disk and is read in its turn"
            )
        if consumer.copies and pending:
            return Finding(
                Obstacle.EVERYTHING_SEEN, f"{named(consumer)} has seen all {pending} messages that were for it"
            )
        text = f"nothing is pending in queue '{queue.name}'"
        if queue.delivering:
            text += f"; {len(queue.delivering)} messages are in delivery"
        if queue.schedule.count:
            text += f"; {queue.schedule.count} are scheduled, the next for {queue.schedule.next_at()} (ms since 1970)"
        return Finding(Obstacle.NOTHING_PENDING, text)

    def of_batch(self) -> list[Finding]:
        """Return whether the next messages are hidden, or all of them."""
        queue = self._queue
        first = queue.order.first() if queue.hidden else None
        if not queue.hidden or (first is not None and first.sequence < queue.hidden_from):
            return []
        count = queue.order.count - queue.shown_count()
        text = f"{count} messages from the first of a batch on are hidden until the commit of the batch is on disk"
        return [Finding(Obstacle.HIDDEN, text)]

    def of_queue(self) -> list[Finding]:
        queue, consumer = self._queue, self._consumer
        findings: list[Finding] = []
        if queue.paused:
            findings.append(Finding(Obstacle.PAUSED, f"queue '{queue.name}' is paused; resume it"))
        findings += self.of_gate()
        if queue.gate.rebalancing and queue.delivering:
            text = f"groups are assigned anew when the {len(queue.delivering)} messages in delivery are settled or back"
            findings.append(Finding(Obstacle.REBALANCING, text))
        if queue.sliced:
            what = "come back from delivery" if queue.returns else "that have expired are removed"
            text = f"very many messages {what}, a slice at a time; consumers are served when the last is done"
            findings.append(Finding(Obstacle.IN_SLICES, text))
        in_flight_max = queue.settings.in_flight_max
        if not consumer.copies and 0 <= in_flight_max <= len(queue.delivering):
            text = f"{len(queue.delivering)} messages are in delivery and in-flight-max is {in_flight_max}"
            findings.append(Finding(Obstacle.QUEUE_CAPPED, text))
        return findings

    def of_gate(self) -> list[Finding]:
        """Say what the gate waits for; nothing when it is open, or would open if it were asked now."""
        queue, now = self._queue, self._now
        settings = queue.settings
        wanted = settings.consumers_before_dispatch
        if queue.gate.open or wanted <= 1:
            return []
        count = queue.consumers.takers
        opens_at = queue.gate.opens_at(queue)
        if queue.delivering:
            text = f"dispatch begins again when the {len(queue.delivering)} messages in delivery are settled or back"
        elif count >= wanted or 0 < opens_at <= now:
            return []
        else:
            text = f"{count} of {wanted} consumers are there (consumers-before-dispatch)"
            text += f"; dispatch begins at {opens_at} (ms since 1970) in any case" if opens_at else "; attach more"
        return [Finding(Obstacle.GATE_SHUT, text)]

    def of_activity(self) -> list[Finding]:
        """Return the consumers served instead, where not all are; a due election is foreseen, not held."""
        consumer, queue = self._consumer, self._queue
        consumers = queue.consumers
        live = consumers.live
        if consumers.live_max < 0 or consumer in live:
            return []
        if len(live) < consumers.live_max:
            former = consumers.former
            if former:
                held = sum(other.held for other in former)
                text = (
                    f"{named(former[0])} is gone but holds {held} deliveries; the next is chosen when they are settled"
                )
                return [Finding(Obstacle.FORMER_HOLDS, text)]
            waiting = [other for other in consumers if not other.settings.browse and other not in live]
            live += waiting[: consumers.live_max - len(live)]
            if consumer in live:
                return []
        names = ", ".join(named(other) for other in live)
        return [Finding(Obstacle.NOT_ACTIVE, f"only {consumers.live_max} is served at a time, now {names}")]

    def of_messages(self, looks: list[QueueEntry]) -> tuple[list[Finding], int, int]:
        """Return what keeps back the first candidate, its sequence, and how many entries were looked at."""
        consumer = self._consumer
        mismatch: Finding | None = None
        candidate: Finding | None = None
        for looked, entry in enumerate(looks, 1):
            found = self.condition(entry)
            if found is not None:
                mismatch = mismatch or found
                continue
            if not consumer.copies:
                found = self.of_lane(entry)
            if found is not None:
                candidate = candidate or found
                continue
            found = _of_size(consumer, entry)
            if found is None:
                text = f"message {entry.sequence} can be delivered now"
                return [Finding(Obstacle.DELIVERABLE, text, entry.sequence)], entry.sequence, looked
            # it waits for this one, and gets nothing that stands behind it
            return [found] if candidate is None else [candidate, found], (candidate or found).sequence, looked
        first = candidate or mismatch
        if first is None:
            raise AssertionError("there was something to look at")
        return [first], first.sequence, len(looks)

    def condition(self, entry: QueueEntry) -> Finding | None:
        """Return which of the consumer's own conditions an entry fails."""
        queue, consumer = self._queue, self._consumer
        sequence = entry.sequence
        if entry.blocked & consumer.refused:
            text = f"{named(consumer)} refused message {sequence} for itself"
            return Finding(Obstacle.REFUSED, text, sequence)
        match_class = queue.matchers.objection(consumer, entry)
        if match_class is None:
            return None
        selector = match_class.selector
        if selector is not None and not selector.matches(lookup_for(entry.message)):
            text = f"message {sequence} does not match the selector {selector.text}"
            details = str(selector.explain(lookup_for(entry.message)))
            return Finding(Obstacle.SELECTOR, text, sequence, details)
        if match_class.connection is not None and entry.message.origin.connection is match_class.connection:
            text = f"message {sequence} was published by the connection of {named(consumer)}, which asked for no-local"
            return Finding(Obstacle.NO_LOCAL, text, sequence)
        text = f"message {sequence} was accepted at {entry.message.accepted_at}, before the replay period"
        return Finding(Obstacle.REPLAY, text, sequence)

    def of_lane(self, entry: QueueEntry) -> Finding | None:
        """Return whose turn it is in the entry's group, or how many of its key are out, where that keeps it back."""
        queue, consumer = self._queue, self._consumer
        lane = lane_of(entry)
        if queue.lanes is None:
            return None
        groups = queue.lanes.groups
        if lane is not None:
            group = lane.group
        else:  # behind the lanes of a deep queue
            group = None if groups is None else groups.groups.get(groups.name_of(entry.message))
        if group is not None:
            if group.parked:
                held = group.holders.get(group.former, 0)
                who = "who pulled them" if group.former is None else f"{named(group.former)}, which is gone"
                text = (
                    f"message {entry.sequence} is of group '{group.name}', of which {held} are in delivery with {who}"
                )
                return Finding(Obstacle.GROUP_PARKED, text, entry.sequence)
            if group.owner is not None and group.owner is not consumer:
                text = f"message {entry.sequence} is of group '{group.name}', which {named(group.owner)} has"
                return Finding(Obstacle.GROUP_OWNED, text, entry.sequence)
        fairness = queue.lanes.fairness
        if lane is not None and lane.fair is not None and fairness is not None and fairness.capped(lane.fair):
            key = "no key" if lane.fair.key is None else f"key {lane.fair.key[1]!r}"
            text = (
                f"message {entry.sequence} is of {key}, of which {lane.fair.in_delivery} are in delivery and "
                f"in-flight-per-key is {queue.settings.in_flight_per_key}"
            )
            return Finding(Obstacle.KEY_CAPPED, text, entry.sequence)
        return None
