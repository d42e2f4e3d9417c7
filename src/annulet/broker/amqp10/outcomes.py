"""What receivers say of the messages they got: dispositions, carried out in the core (§3.4, §2.6.12)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from annulet.core.entry import DeliveryCopy
from annulet.core.revision import revise_delivering
from annulet.wire.amqp10.outcomes import (
    Accepted,
    Modified,
    Outcome,
    Rejected,
    TransactionalState,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from annulet.broker.amqp10.session import Amqp10Session
    from annulet.core.consumer import Consumer
    from annulet.core.entry import QueueEntry

REJECTED_CONDITION: Final = "x-opt-rejected-condition"
REJECTED_DESCRIPTION: Final = "x-opt-rejected-description"
"""What a dead letter carries of the error it was rejected with (§3.4.3)."""

DEFAULT_OUTCOME: Final = Modified(delivery_failed=True)
"""What becomes of a message whose receiver settles it without an outcome: it is delivered again (Broker-J)."""


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
            self._session.transactions.enlist(numbers, state, settled=settled)
            return
        if not isinstance(state, Outcome):
            if not settled:
                return  # received (§3.4.1): the peer goes on
            state = DEFAULT_OUTCOME
        self.carry_out(numbers, state)
        if not settled:
            self._settle(numbers, state)

    def carry_out(self, numbers: list[int], outcome: object) -> None:
        """Let deliveries come to an outcome."""
        session = self._session
        now = session.connection.now
        entries = self.take(numbers)
        if isinstance(outcome, Accepted):
            session.acknowledge_entries(entries, now)
        elif isinstance(outcome, Rejected):
            for entry in entries:
                revise_for_rejection(entry, outcome)
            session.reject_entries(entries, now, requeue=False)
        else:
            self.give_back(entries, outcome)

    def give_back(self, entries: list[QueueEntry], outcome: object) -> None:
        """Return deliveries to their queues: released, modified (§3.4.4, §3.4.5)."""
        session = self._session
        now = session.connection.now
        counted = isinstance(outcome, Modified) and outcome.delivery_failed
        for entry in entries:
            consumer = entry.consumer
            if isinstance(outcome, Modified) and outcome.message_annotations:
                annotations: dict[str, Any] = {str(name): value for name, value in outcome.message_annotations.items()}
                revise_delivering(entry, annotations)
            entry.queue.return_entries([entry], now, counted=counted, exclude=_excluded(consumer, outcome))
        session.wake(now)

    def take(self, numbers: list[int]) -> list[QueueEntry]:
        """Take deliveries out of the session; those of a queue that was deleted are gone already."""
        held = self._session.unacknowledged
        entries: list[QueueEntry] = []
        for number in numbers:
            entry = held.pop(self._tags.pop(number), None)
            if entry is not None:
                entries.append(entry)
        return entries

    def tags(self, numbers: list[int]) -> list[int]:
        """Return the core's tags of deliveries that are held."""
        held = self._session.unacknowledged
        return [tag for number in numbers if (tag := self._tags[number]) in held]

    def held(self, numbers: Iterable[int]) -> list[int]:
        """Return those that are unsettled."""
        return [number for number in numbers if number in self._tags]

    def forget(self, number: int) -> None:
        """A delivery is settled in another way."""
        self._tags.pop(number, None)

    def number_of(self, tag: int) -> int:
        """Return the delivery id of a tag, -1 when it is none. O(unsettled)."""
        return next((number for number, held in self._tags.items() if held == tag), -1)

    def return_unsent(self, now: int) -> None:
        """Return what was handed in and never left: no attempt of anybody, so it does not count (§2.6.12)."""
        for source in self._session.sources.values():  # the engine has let go of its links already
            for entry in self.take(self.held(source.link.unsent)):
                entry.queue.return_entries([entry], now, counted=False)

    def _settle(self, numbers: list[int], state: object) -> None:
        engine, session = self._session.engine, self._session.engine_session
        for number in numbers:
            engine.settle_outgoing(session, number, number, state)

    def _known(self, first: int, last: int) -> list[int]:
        """Return the unsettled deliveries of a range, however long the range is."""
        tags = self._tags
        if last - first >= len(tags):
            return [number for number in tags if first <= number <= last]
        return [number for number in range(first, last + 1) if number in tags]


def revise_for_rejection(entry: QueueEntry, outcome: Rejected) -> None:
    """Let a message that is rejected tell why, wherever it is sent on to."""
    error = outcome.error
    if error is None or isinstance(entry, DeliveryCopy):
        return
    headers: dict[str, Any] = {REJECTED_CONDITION: str(error.condition)}
    if error.description:
        headers[REJECTED_DESCRIPTION] = str(error.description)
    revise_delivering(entry, headers, stored=False)


def _excluded(consumer: Consumer | None, outcome: object) -> Consumer | None:
    if consumer is None or consumer.cancelled:
        return None
    return consumer if isinstance(outcome, Modified) and outcome.undeliverable_here else None
