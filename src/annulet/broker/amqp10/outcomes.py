"""Outcomes of the messages that receivers got: dispositions, carried out in the core (§3.4, §2.6.12)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import structlog

from annulet.core.base.errors import ContentUnavailable
from annulet.core.base.sliced_work import SlicedWork
from annulet.core.deliveries.taken_deliveries import TakenDeliveries
from annulet.core.model.compact_messages import by_queue, consumer_of, entry_in, queue_of
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
    from annulet.core.model.compact_messages import Slot
    from annulet.core.model.consumer import Consumer
    from annulet.core.model.entry import QueueEntry

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
            consumer = held.holder(self._tags[number])
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
        return session.source_of(session.unacknowledged.holder(self._tags.get(number, 0))) is not None

    def carry_out_defaults(self, numbers: list[int]) -> None:
        """Let deliveries come to the default outcomes of their sources."""
        for default, group in self.by_default(numbers):
            self.carry_out(group, default)

    def carry_out(self, numbers: list[int], outcome: object) -> None:
        """Let deliveries come to an outcome."""
        self.end(self.take(numbers), outcome)

    def end(self, taken: list[Slot], outcome: object) -> None:
        """Let deliveries that were taken out of the session come to an outcome."""
        session = self._session
        now = session.connection.now
        if isinstance(outcome, Accepted):
            session.settle_taken(taken, now, rejected=False)
        elif isinstance(outcome, Rejected):
            session.settle_taken(taken, now, rejected=True, before=partial(revise_for_rejection, outcome=outcome))
        else:
            self.give_back(taken, outcome)

    def give_back(self, taken: list[Slot], outcome: object) -> None:
        """Return deliveries to their queues: released, modified (§3.4.4, §3.4.5). Very many are revised in slices."""
        if isinstance(outcome, Modified) and outcome.message_annotations:
            if len(taken) > SLICE_REVISED:
                session = self._session
                session.host.effects.later(GivingBack(self, taken, outcome), session.connection.now)
                return
            for slot in taken:
                revise_returned(entry_in(slot), outcome)
        self.return_revised(taken, outcome)

    def return_revised(self, taken: list[Slot], outcome: object) -> None:
        """Return deliveries that have the annotations their receiver gave them, by queue in the order of delivery."""
        session = self._session
        now = session.connection.now
        counted = isinstance(outcome, Modified) and outcome.delivery_failed
        if isinstance(outcome, Modified) and outcome.undeliverable_here:
            by_holder: dict[Consumer | None, list[Slot]] = {}
            for slot in taken:
                by_holder.setdefault(consumer_of(slot), []).append(slot)
            for holder, some in by_holder.items():
                exclude = self.excluded(holder, outcome)
                for queue, returned in by_queue(some).items():
                    queue.return_entries(returned, now, counted=counted, exclude=exclude)
        else:
            for queue, returned in by_queue(taken).items():
                queue.return_entries(returned, now, counted=counted)
        session.wake(now)

    def excluded(self, holder: Consumer | None, outcome: object) -> Consumer | None:
        """Return the consumer that may not get a message of ``holder`` again (§3.4.5, undeliverable-here), ``None``
        without one."""
        if not (isinstance(outcome, Modified) and outcome.undeliverable_here):
            return None
        source = self._session.source_of(holder)
        return None if source is None or source.consumer.cancelled else source.consumer

    def take(self, numbers: list[int]) -> list[Slot]:
        """Take deliveries out of the session; those of a queue that was deleted are gone already."""
        held = self._session.unacknowledged
        if len(numbers) == 1:
            entry = held.pop(self._tags.pop(numbers[0], 0))
            return [] if entry is None else [entry]
        taken = TakenDeliveries()
        held.take_each([self._tags.pop(number, 0) for number in numbers], taken)
        return list(taken.slots())

    def tags(self, numbers: list[int]) -> list[int]:
        """Return the core's tags of deliveries that are held."""
        held = self._session.unacknowledged
        return [tag for number in numbers if (tag := self._tags[number]) in held]

    def tags_of(self, numbers: list[int]) -> list[int]:
        """Return the core's tags of unsettled deliveries, held or not."""
        tags = self._tags
        return [tags[number] for number in numbers]

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
        if not held and not transactions.count:
            self._tags = {}
            return
        self._tags = {number: tag for number, tag in self._tags.items() if tag in held or transactions.holds(number)}

    def number_of(self, tag: int) -> int:
        """Return the delivery id of a tag, -1 when it is none. O(unsettled)."""
        return next((number for number, held in self._tags.items() if held == tag), -1)

    def return_unsent(self, now: int) -> None:
        """Return messages accepted for output that were never sent: no attempt of anybody, so it does not count
        (§2.6.12)."""
        for source in self._session.sources.values():  # the engine has let go of its links already
            for slot in self.take(self.held(source.link.unsent)):
                queue_of(slot).return_entries([slot], now, counted=False)

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

    def __init__(self, outcomes: Outcomes, taken: list[Slot], outcome: object) -> None:
        super().__init__()
        self._outcomes = outcomes
        self._taken = taken
        self._outcome = outcome
        self._revised = 0

    def step(self, now: int) -> bool:
        """Revise the next few; after the last return all."""
        del now
        revised = self._revised
        for slot in self._taken[revised : revised + SLICE_REVISED]:
            revise_returned(entry_in(slot), self._outcome)
        self._revised = revised + SLICE_REVISED
        if self._revised < len(self._taken):
            return True
        self._outcomes.return_revised(self._taken, self._outcome)
        return False

    def abandon(self, now: int) -> None:
        """Return all as they are: they are in no table, and would wait for a restart."""
        del now
        self._outcomes.return_revised(self._taken, self._outcome)


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
