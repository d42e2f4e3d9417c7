"""A queue of a virtual host as the place that operations put messages into, as a publisher would."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.host.send_plan import Claims
from annulet.core.message.selector_names import lookup_for
from annulet.core.routing.routes import Route

if TYPE_CHECKING:
    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.message.message import Message
    from annulet.core.model.entry import QueueEntry
    from annulet.core.queue.queue import Queue

FILTERED: Final = "does not pass the destination's selector"
TOO_LARGE: Final = "larger than the destination's max-bytes"
"""Why a message can never get into it; under these names operations count them."""


def accepted_at(message: Message, now: int) -> int:
    """Return the time of acceptance of a copy: now, so that times to live of its new queue start again.

    A message that was sent with a delay keeps its time: its delay counts from it, after a restart too.
    """
    return message.accepted_at if message.deliver_at else now


class Former(NamedTuple):
    """Where a message was before an operation: its id, which no message has now, and since when it was pending."""

    sequence: int
    since: int


class Destination:
    """A queue of a virtual host that messages are put into, as a publisher would."""

    def __init__(self, host: VirtualHost, destination: Queue) -> None:
        self._host = host
        self._queue = destination

    def misfit(self, message: Message) -> str:
        """Return why a queue can never take a message; empty when it can."""
        host, destination = self._host, self._queue
        selector = host.filters.get(destination)
        if selector is not None and not selector.matches(lookup_for(message)):
            return FILTERED
        limits = destination.limits
        if limits is not None and limits.evicts and limits.oversized(message.size):
            return TOO_LARGE
        return ""

    def refusal(self, message: Message) -> str:
        """Return why a queue does not take a message now; empty when it does."""
        host, destination = self._host, self._queue
        name = destination.name
        if destination.deleted:
            return f"queue '{name}' was deleted"
        if destination.settings.purge_on_no_consumers and destination.unattended:
            return f"queue '{name}' has no consumers and drops everything (purge-on-no-consumers)"
        if destination.blocked:
            return f"queue '{name}' is full and holds publishers back (overflow=block)"
        limits = destination.limits
        if limits is not None and limits.blocks:
            refusal = limits.refusal(destination, message.size)
            if refusal:
                return refusal
        account = host.limited.account_of(name)
        if account is not None:
            if account.blocked:
                return f"address '{name}' is full and holds publishers back (address-full-policy block)"
            if account.drops(message.size):
                return f"address '{name}' is full and drops arrivals ({account.rule})"
            refusal = account.refusal(message.size)
            if refusal:
                return refusal
        return destination.refusal(message) if destination.may_refuse else ""

    def put(self, message: Message, now: int, former: Former | None = None) -> int:
        """Put a message into a queue that does not refuse it, as a publisher would. Returns its id there.

        ``former``: where it was in this queue before; it gets that id and place again. If it cannot be stored it is
        removed again, unless a consumer has it already: its source stays.
        """
        host, destination = self._host, self._queue
        sequence = destination.next_sequence if former is None else former.sequence
        try:
            legs = host.publisher.plan(message, self._route(), Claims())
            if former is None:
                host.publisher.apply(legs, now)
            else:
                host.publisher.put_back(legs[0], former.sequence, former.since, now)
        except BaseException:
            self.take_back(sequence, now)
            raise
        return sequence

    def take(
        self,
        queue: Queue,
        entry: QueueEntry,
        message: Message,
        reason: RemovalReason,
        now: int,
        former: Former | None = None,
    ) -> int:
        """Put ``message`` here, and the entry it was made of out of ``queue``, for ``reason``. Returns its id here.

        In memory the entry is removed last: if the log has no room for the commit it stays, and the copy is removed.
        """
        effects = self._host.effects
        if not entry.message.record:
            sequence = self.put(message, now, former)
            queue.remove(entry, reason, now)
            return sequence
        effects.begin_transaction()
        try:
            sequence = self.put(message, now, former)
            queue.settle_record(entry)
        except BaseException:
            effects.abort_transaction()
            raise
        try:
            effects.end_transaction()
        except BaseException:
            self.take_back(sequence, now)
            raise
        finally:
            self._host.dead_letters.transaction_ended(now)
        queue.remove(entry, reason, now)  # settles once more, which changes nothing
        return sequence

    def take_back(self, sequence: int, now: int) -> None:
        """Remove a copy added by :meth:`put`, unless a consumer has it already."""
        destination = self._queue
        waiting = [*destination.order.in_memory(), *(item.entry for item in destination.schedule.snapshot())]
        for entry in waiting:
            if entry.sequence == sequence:
                destination.remove(entry, RemovalReason.MOVED, now)

    def _route(self) -> Route:
        host, destination = self._host, self._queue
        return Route("", destination.name, [destination], host.generation)
