"""Outcomes of the messages that receivers got: dispositions, carried out in the core (§3.4, §2.6.12)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import structlog

from annulet.core.base.errors import ContentUnavailable
from annulet.core.base.sliced_work import SlicedWork
from annulet.core.model.entry import DeliveryCopy
from annulet.core.queue.live_changes import revise_delivering
from annulet.wire.amqp10.frames.outcomes import (
    Accepted,
    Modified,
    Outcome,
    Received,
    Rejected,
    TransactionalState,
)
from annulet.wire.amqp10.messages.names import REJECTED_CONDITION, REJECTED_DESCRIPTION

if TYPE_CHECKING:
    from collections.abc import Iterable

    from annulet.broker.amqp10.session import Amqp10Session
    from annulet.core.model.consumer import Consumer
    from annulet.core.model.entry import QueueEntry
    from annulet.core.model.queue_state import QueueState

logger = structlog.get_logger(__name__)

DEFAULT_OUTCOME: Final = Modified(delivery_failed=True)
"""The outcome of a message that is settled without one, unless its source names another default: it is delivered again
(Broker-J)."""


SLICE_REVISED: Final = 100
"""Messages whose annotations are revised in one slice: each is encoded anew, 2 to 3 ms of the loop."""


class Outcomes:
    """Deliveries of one session by their delivery ids, and what becomes of them."""

    def __init__(self, session: Amqp10Session) -> None:
        self._session = session
        self._tags: dict[int, int] = {}  # tag in the core's session, by delivery id; ascending

    def note(self, number: int, tag: int) -> None:
        """Remember an unsettled delivery."""
        self._tags[number] = tag

    def __len__(self) -> int:
        """Return how many deliveries are unsettled, some perhaps settled by a return meanwhile."""
        return len(self._tags)

    def told(self, first: int, last: int, state: object | None, *, settled: bool) -> None:
        """Carry out a disposition of the peer."""
        numbers = self._known(first, last)
        if not numbers:
            return
        if isinstance(state, TransactionalState):
            self._session.transactions.enlist(numbers, state)
            return
        transactions = self._session.transactions
        if transactions.count:  # deliveries in a transaction have their outcome there
            numbers = [number for number in numbers if not transactions.holds(number)]
        if not isinstance(state, Outcome):
            if settled:
                self.carry_out_defaults(numbers)
            elif isinstance(state, Received):  # §3.4.1: the peer goes on, and has not forgotten them
                for tag in self.tags(numbers):
                    self._session.extend_delivery(tag)
            return
        self.carry_out(numbers, state)
        if not settled:
            self._settle(numbers, state)

    def by_default(self, numbers: list[int]) -> list[tuple[Outcome, list[int]]]:
        """Return deliveries by the default outcomes of the sources they came from (§3.5.3), neighbours together."""
        session, held = self._session, self._session.unacknowledged
        groups: list[tuple[Outcome, list[int]]] = []
        former: Consumer | None = None
        for number in numbers:
            entry = held.get(self._tags[number])
            consumer = None if entry is None else entry.consumer
            if not groups or consumer is not former:
                former = consumer
                source = session.source_of(consumer)
                default = DEFAULT_OUTCOME if source is None else source.source.default_outcome or DEFAULT_OUTCOME
                groups.append((default, []))
            groups[-1][1].append(number)
        return groups

    def linked(self, number: int) -> bool:
        """Return whether the peer can still settle a delivery that is held: it has not yet, and its link is there."""
        session = self._session
        if number not in session.engine_session.outgoing_unsettled:
            return False
        entry = session.unacknowledged.get(self._tags.get(number, 0))
        return entry is not None and session.source_of(entry.consumer) is not None

    def carry_out_defaults(self, numbers: list[int]) -> None:
        """Let deliveries come to the default outcomes of their sources."""
        for default, group in self.by_default(numbers):
            self.carry_out(group, default)

    def carry_out(self, numbers: list[int], outcome: object) -> None:
        """Let deliveries come to an outcome."""
        session = self._session
        now = session.connection.now
        entries = self.take(numbers)
        if isinstance(outcome, Accepted):
            session.settle_taken(entries, now, rejected=False)
        elif isinstance(outcome, Rejected):
            session.settle_taken(entries, now, rejected=True, before=partial(revise_for_rejection, outcome=outcome))
        else:
            self.give_back(entries, outcome)

    def give_back(self, entries: list[QueueEntry], outcome: object) -> None:
        """Return deliveries to their queues: released, modified (§3.4.4, §3.4.5). Very many are revised in slices."""
        annotates = isinstance(outcome, Modified) and bool(outcome.message_annotations)
        if annotates and len(entries) > SLICE_REVISED:
            session = self._session
            session.host.effects.later(GivingBack(self, entries, outcome), session.connection.now)
            return
        for entry in entries:
            revise_returned(entry, outcome)
        self.return_revised(entries, outcome)

    def return_revised(self, entries: list[QueueEntry], outcome: object) -> None:
        """Return deliveries that have the annotations their receiver gave them, by queue in the order of delivery."""
        session = self._session
        now = session.connection.now
        counted = isinstance(outcome, Modified) and outcome.delivery_failed
        by_place: dict[tuple[QueueState, Consumer | None], list[QueueEntry]] = {}
        for entry in entries:
            by_place.setdefault((entry.queue, self.excluded(entry, outcome)), []).append(entry)
        for (queue, exclude), returned in by_place.items():
            queue.return_entries(returned, now, counted=counted, exclude=exclude)
        session.wake(now)

    def excluded(self, entry: QueueEntry, outcome: object) -> Consumer | None:
        """Return the consumer that may not get a message again (§3.4.5, undeliverable-here), ``None`` without one."""
        if not (isinstance(outcome, Modified) and outcome.undeliverable_here):
            return None
        source = self._session.source_of(entry.consumer)
        return None if source is None or source.consumer.cancelled else source.consumer

    def take(self, numbers: list[int]) -> list[QueueEntry]:
        """Take deliveries out of the session; those of a queue that was deleted are gone already."""
        held = self._session.unacknowledged
        entries: list[QueueEntry] = []
        for number in numbers:
            entry = held.pop(self._tags.pop(number, 0))
            if entry is not None:
                entries.append(entry)
        return entries

    def tags(self, numbers: list[int]) -> list[int]:
        """Return the core's tags of deliveries that are held."""
        held = self._session.unacknowledged
        return [tag for number in numbers if (tag := self._tags[number]) in held]

    def unsettled(self, numbers: list[int]) -> tuple[list[int], list[int]]:
        """Return those whose deliveries are held, and the core's tags of these."""
        held, tags = self._session.unacknowledged, self._tags
        there = [number for number in numbers if tags[number] in held]
        return there, [tags[number] for number in there]

    def held(self, numbers: Iterable[int]) -> list[int]:
        """Return those that are unsettled."""
        return [number for number in numbers if number in self._tags]

    def forget_all(self, numbers: Iterable[int]) -> None:
        """Deliveries are settled in another way."""
        for number in numbers:
            self._tags.pop(number, None)

    def forget_tags(self, tags: list[int]) -> None:
        """Deliveries go on under other ids. O(unsettled) when there are any."""
        if tags:
            gone = set(tags)
            self._tags = {number: tag for number, tag in self._tags.items() if tag not in gone}

    def forget_returned(self) -> None:
        """Forget the ids of deliveries that went back with their link: they will not be settled. O(unsettled)."""
        held, transactions = self._session.unacknowledged, self._session.transactions
        self._tags = {number: tag for number, tag in self._tags.items() if tag in held or transactions.holds(number)}

    def number_of(self, tag: int) -> int:
        """Return the delivery id of a tag, -1 when it is none. O(unsettled)."""
        return next((number for number, held in self._tags.items() if held == tag), -1)

    def return_unsent(self, now: int) -> None:
        """Return messages accepted for output that were never sent: no attempt of anybody, so it does not count
        (§2.6.12)."""
        for source in self._session.sources.values():  # the engine has let go of its links already
            for entry in self.take(self.held(source.link.unsent)):
                entry.queue.return_entries([entry], now, counted=False)

    def _settle(self, numbers: list[int], state: object) -> None:
        engine, session = self._session.engine, self._session.engine_session
        for number in numbers:
            engine.transfers.settle_outgoing(session, number, number, state)

    def _known(self, first: int, last: int) -> list[int]:
        """Return the unsettled deliveries of a range, however long the range is."""
        tags = self._tags
        if last - first >= len(tags):
            return [number for number in tags if first <= number <= last]
        return [number for number in range(first, last + 1) if number in tags]


class GivingBack(SlicedWork):
    """Very many deliveries that come back with annotations. The queues wait for none of them meanwhile."""

    def __init__(self, outcomes: Outcomes, entries: list[QueueEntry], outcome: object) -> None:
        super().__init__()
        self._outcomes = outcomes
        self._entries = entries
        self._outcome = outcome
        self._revised = 0

    def step(self, now: int) -> bool:
        """Revise the next few; after the last return all."""
        del now
        revised = self._revised
        for entry in self._entries[revised : revised + SLICE_REVISED]:
            revise_returned(entry, self._outcome)
        self._revised = revised + SLICE_REVISED
        if self._revised < len(self._entries):
            return True
        self._outcomes.return_revised(self._entries, self._outcome)
        return False

    def abandon(self, now: int) -> None:
        """Return all as they are: they are in no table, and would wait for a restart."""
        del now
        self._outcomes.return_revised(self._entries, self._outcome)


def revise_returned(entry: QueueEntry, outcome: object) -> None:
    """Give a message that is returned the annotations of its receiver (§3.4.5)."""
    if not (isinstance(outcome, Modified) and outcome.message_annotations):
        return
    annotations: dict[str, Any] = {str(name): value for name, value in outcome.message_annotations.items()}
    try:
        revise_delivering(entry, annotations)
    except ContentUnavailable as error:
        logger.warning(
            "message comes back without the annotations its receiver gave it",
            queue=entry.queue.name,
            message=entry.sequence,
            error=str(error),
        )


def revise_for_rejection(entry: QueueEntry, outcome: Rejected) -> None:
    """Let a message that is rejected tell why, wherever it is sent on to."""
    error = outcome.error
    if error is None or isinstance(entry, DeliveryCopy):
        return
    headers: dict[str, Any] = {REJECTED_CONDITION: str(error.condition)}
    if error.description:
        headers[REJECTED_DESCRIPTION] = str(error.description)
    revise_delivering(entry, headers, stored=False)
