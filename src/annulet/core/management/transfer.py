"""Messages into other queues: move, copy, and the way back of dead letters (Artemis §9, §15; Broker-J's management).

A copy is created and stored before its source is settled, both in one log transaction if both are stored, so a crash
leaves it in one place. Limits of the destination apply as for a publisher; refusals, blocks and drops are checked
before the message leaves its queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from annulet.core.base.death_trail import DeathRecord
from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.sealed_names import is_sealed_name
from annulet.core.host.dead_letters import ACTUAL_EXPIRY, ORIGINAL_ADDRESS, ORIGINAL_MESSAGE_ID, ORIGINAL_QUEUE
from annulet.core.management.actions import (
    NO_ORIGINAL,
    ORIGINAL_GONE,
    ORIGINAL_HERE,
    ORIGINAL_REFUSES,
    Action,
)
from annulet.core.management.destination import Destination, accepted_at
from annulet.core.message.message import Message, Origin

if TYPE_CHECKING:
    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.model.entry import QueueEntry
    from annulet.core.queue.queue import Queue


class Transfer(Action):
    """Copy messages into one other queue, and remove them here when it is a move.

    A copy is the message as it is here: properties, priority, expiry time and schedule are kept; deliveries count from
    none.
    """

    def __init__(self, name: str, host: VirtualHost, queue: Queue, destination: Queue, *, keep: bool) -> None:
        super().__init__(name, queue, f"to '{destination.name}'")
        self.host = host
        self.destination = destination
        self.keep = keep  # a copy; the source stays

    def obstacle(self, entry: QueueEntry, now: int) -> str:
        """Skip messages that the destination can never accept."""
        del now
        return Destination(self.host, self.destination).misfit(entry.message)

    def refusal(self, entry: QueueEntry, now: int) -> str:
        """Stop when the destination is full or gone."""
        del now
        return Destination(self.host, self.destination).refusal(entry.message)

    def carry_out(self, entry: QueueEntry, now: int) -> int:
        """Send the copy, then let the source go."""
        former = entry.message
        message = Message(
            former.header,
            former.body,
            former.origin,
            durable=former.durable,
            priority=former.priority,
            accepted_at=accepted_at(former, now),
            expires_at=former.expires_at,
            deliver_at=former.deliver_at,
        )
        return self.send(entry, message, self.destination, now)

    def send(self, entry: QueueEntry, message: Message, destination: Queue, now: int) -> int:
        """Put ``message`` into ``destination``, and the entry it was made of out of its queue unless it is kept."""
        place = Destination(self.host, destination)
        if self.keep:
            sequence = place.put(message, now)
        else:
            sequence = place.take(self.queue, entry, message, RemovalReason.MOVED, now)
        if self.keeper is not None:
            self.keeper.moved(destination, message, sequence, former=entry.sequence)
        return sequence

    def cost(self, entry: QueueEntry) -> int:
        """Return the body bytes of the copy."""
        return entry.message.size


class Retry(Transfer):
    """Send dead letters back to the queue they first died in; others stay (Artemis §9).

    The queue is that of ``_AMQ_ORIG_QUEUE``, else that of the oldest death in ``x-death``. The copy has its original
    exchange and routing key, without Artemis's properties of its death, so that a later death names its own queue; its
    trail of deaths stays. A full original queue stops only its own messages. ``strip``: further headers that the copy
    goes without.
    """

    def __init__(self, name: str, host: VirtualHost, queue: Queue, strip: tuple[str, ...] = ()) -> None:
        super().__init__(name, host, queue, queue, keep=False)
        self.arguments = f"strip={', '.join(strip)}" if strip else ""
        self._without = (ORIGINAL_ADDRESS, ORIGINAL_QUEUE, ORIGINAL_MESSAGE_ID, ACTUAL_EXPIRY, *strip)
        self._origins: dict[tuple[Origin, str, str], Origin] = {}

    def obstacle(self, entry: QueueEntry, now: int) -> str:
        """Skip messages without an original queue."""
        del now
        message = entry.message
        name = original_queue(message, message.origin.view.deaths(message))
        if not name:
            return NO_ORIGINAL
        original = self.host.queues.get(name)
        if original is None or is_sealed_name(name):
            return ORIGINAL_GONE
        if original is self.queue:
            return ORIGINAL_HERE
        misfit = Destination(self.host, original).misfit(message)
        if misfit:
            return misfit
        return ORIGINAL_REFUSES if Destination(self.host, original).refusal(message) else ""

    def refusal(self, entry: QueueEntry, now: int) -> str:
        """Never stop: each message has its own destination."""
        del entry, now
        return ""

    def carry_out(self, entry: QueueEntry, now: int) -> int:
        """Send it back."""
        former = entry.message
        view = former.origin.view
        deaths = view.deaths(former)
        original = self.host.queues[original_queue(former, deaths)]
        header = view.annotated(former, {}, without=self._without)
        message = Message(
            header,
            former.body,
            self._origin(former.origin, original, deaths),
            durable=former.durable,
            priority=former.priority,
            accepted_at=accepted_at(former, now),
            expires_at=former.expires_at,
            deliver_at=former.deliver_at,
        )
        return self.send(entry, message, original, now)

    def _origin(self, source: Origin, original: Queue, deaths: list[DeathRecord]) -> Origin:
        exchange, routing_key = "", original.name
        for death in reversed(deaths):
            if death.queue == original.name and death.routing_keys:
                exchange, routing_key = death.exchange, death.routing_keys[0]
                break
        place = (source, exchange, routing_key)
        origin = self._origins.get(place)
        if origin is None:
            origin = Origin(exchange, routing_key, source.publisher, source.view, source.connection)
            self._origins[place] = origin
        return origin


def original_queue(message: Message, deaths: list[DeathRecord]) -> str:
    """Return the name of the queue a message first died in, empty when it does not say."""
    name = message.origin.view.application_property(message, ORIGINAL_QUEUE)
    if isinstance(name, str) and name:
        return name
    return deaths[-1].queue if deaths else ""
