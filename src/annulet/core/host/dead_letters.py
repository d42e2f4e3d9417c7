"""Dead letters, expired and dropped messages: forwarding of copies, and their headers.

:mod:`annulet.core.model.forwarding_targets` selects their address or exchange. A copy is stored before its source is
settled, so a crash in between duplicates a message and never loses one.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Final

from annulet.core.base.death_trail import (
    DELIVERY_LIMIT,
    EXPIRED,
    MAXIMUM_LENGTH,
    REJECTED,
    REPLACED_KEY,
    REPLACED_RING,
    DeathRecord,
    is_cycle,
    with_death,
)
from annulet.core.base.removal_reasons import LOSSES, RemovalReason
from annulet.core.base.sliced_work import SlicedWork
from annulet.core.deliveries.bodies import LOOK_MESSAGES, REFUSED
from annulet.core.message.message import Message, Origin
from annulet.core.model.forwarder import Forwarder
from annulet.core.model.forwarding_targets import Target, targets_for
from annulet.core.model.loss_ledger import LossRecord, loss_of
from annulet.core.queue.queue import Queue, as_queue
from annulet.core.routing.routes import address_of_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from annulet.core.base.settings import QueueSettings
    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.message.message import ContentView, PropertyValue
    from annulet.core.model.entry import QueueEntry
    from annulet.core.model.queue_state import QueueState

ORIGINAL_ADDRESS: Final = "_AMQ_ORIG_ADDRESS"
ORIGINAL_QUEUE: Final = "_AMQ_ORIG_QUEUE"
ORIGINAL_MESSAGE_ID: Final = "_AMQ_ORIG_MESSAGE_ID"
ACTUAL_EXPIRY: Final = "_AMQ_ACTUAL_EXPIRY"
"""Artemis's properties. The originals are those of the first death, to which a retry sends the message."""

ORIGINS_MAX: Final = 1024
"""Origins of copies remembered, about 200 KB: copies to one place share theirs. When it is full all are forgotten."""

_DEATH_NAMES: Final = {
    RemovalReason.EXPIRED: EXPIRED,
    RemovalReason.OVERFLOW: MAXIMUM_LENGTH,
    RemovalReason.REPLACED_RING: REPLACED_RING,
    RemovalReason.REPLACED_KEY: REPLACED_KEY,
}


FORWARDED_AT_ONCE: Final = 200
"""Copies up to which all are sent in the call in which their entries left: some 8 ms of the loop."""

FORWARDED_PER_SLICE: Final = 50

COPY_STEPS: Final = 500
"""Steps of routing for which a copy counts as one more: 0.2 ms."""


class Batch:
    """Entries that left one queue for one reason and wait to be sent on."""

    __slots__ = ("bracketed", "entries", "losses", "queue", "reason")

    def __init__(self, queue: QueueState, reason: RemovalReason) -> None:
        self.queue = queue
        self.reason = reason
        self.entries: deque[QueueEntry] = deque()
        self.losses: deque[LossRecord | None] = deque()  # of the entries, as :meth:`DeadLetters.add` got them
        self.bracketed = False  # they left in a transaction, and are sent in it


class Forwarding(SlicedWork):
    """Sends the rest of very many, in slices."""

    def __init__(self, letters: DeadLetters) -> None:
        super().__init__()
        self._letters = letters

    def step(self, now: int) -> bool:
        """Send the next few."""
        self._letters.sliced = self._letters.send(now, FORWARDED_PER_SLICE)
        return self._letters.sliced

    def abandon(self, now: int) -> None:
        """Let the next flush go on."""
        del now
        self._letters.sliced = False


class DeadLetters(Forwarder):
    """The forwarder of a virtual host. Counters cover its lifetime; abandoned copies are in the loss ledger as well.

    ``ensure_target``, if set, is called to create the resources of an address before a copy is sent there:
    ``ensure_target(queue, message, address, reason)``.
    """

    def __init__(self, host: VirtualHost) -> None:
        super().__init__()
        self.host = host
        self.ensure_target: Callable[[Queue, Message, str, RemovalReason], None] | None = None
        self.messages_forwarded = 0  # copies that reached at least one queue
        self.dead_letter_cycles = 0  # copies not sent to a queue in which they had died, to end a cycle
        self.messages_unroutable = 0  # no queue at the target, or the target was deleted
        self.failures = 0  # not sent: unreadable headers, or the log could not store the copy
        self.last_failure = ""
        self.sliced = False  # the rest of the waiting ones is sent in slices
        self.held = False  # recovery: targets may not exist yet, so nothing is sent before :meth:`release`
        self._batches: deque[Batch] = deque()
        self._refused: dict[
            QueueState, deque[Batch]
        ] = {}  # of queues of which the disk did not give a body, all of theirs
        self._flushing = False
        self._origins: dict[tuple[str, str, str, ContentView], Origin] = {}

    # ------------------------------------------------------------------ targets

    def takes(self, queue: QueueState, reason: RemovalReason) -> bool:
        """Return whether the queue's settings name a target for this reason."""
        settings = queue.settings
        if (
            not settings.dropped_address
            and not settings.dead_letter_address
            and settings.dead_letter_exchange is None
            and not settings.expiry_address
        ):  # called for every message a ring drops, mostly without a target
            return False
        return bool(targets_for(settings, reason))

    def reach(self, entry: QueueEntry) -> int:
        """Return to how many queues copies of an entry would go if it were dead-lettered now. Nothing is changed."""
        queue, message = entry.queue, entry.message
        if not self.takes(queue, RemovalReason.DEAD_LETTERED):
            return 0
        host, reached = self.host, 0
        for target in targets_for(queue.settings, RemovalReason.DEAD_LETTERED):
            exchange, keys = self._destination(target, message.origin.view.routing_keys(message))
            if exchange not in host.exchanges:
                continue
            queues: dict[Queue, None] = {}
            for key in keys:
                queues.update(dict.fromkeys(host.targets(message, host.publisher.forwarding_route(exchange, key))))
            reached += len(queues)
        return reached

    # ------------------------------------------------------------------ the worklist

    def add(
        self, queue: QueueState, entry: QueueEntry, reason: RemovalReason, now: int, loss: LossRecord | None
    ) -> None:
        """Take over a removed entry until :meth:`flush`. Costs a place in a list: a million may expire at once."""
        del now  # the copy is made, and dated, by flush
        batches = self._refused.get(queue, self._batches)
        bracketed = self.host.effects.bracketed()
        last = batches[-1] if batches else None
        if last is None or last.queue is not queue or last.reason is not reason or last.bracketed is not bracketed:
            batches.append(Batch(queue, reason))
            batches[-1].bracketed = bracketed
        batches[-1].entries.append(entry)
        batches[-1].losses.append(loss)
        if entry.message.record:
            queue.counters.wait(reason, entry.message.size)
        self.waiting = True

    def flush(self, now: int) -> None:
        """Send waiting copies, and those of messages that these remove from other queues.

        Never raises for a single message.
        """
        if self.host.effects.bracketed():
            self.complete(now)
            return
        if self.sliced:
            return
        if self.send(now, FORWARDED_AT_ONCE):
            self.sliced = True
            self.host.effects.later(Forwarding(self), now)

    def complete(self, now: int) -> None:
        """Send all of them; later slices find nothing."""
        self.send(now, -1)

    def records_of(self, queue: QueueState) -> list[int]:
        """Search the waiting ones. O(n)."""
        batches = self._refused.get(queue, self._batches)
        return [
            entry.message.record for batch in batches if batch.queue is queue for entry in batch.entries
        ]  # 0 for those that have none

    def send(self, now: int, most: int) -> bool:
        """Send up to ``most`` (-1: all) waiting ones, unless this is a nested call, or all are held.

        If the disk refuses to read a body, it and later ones of its queue wait for the next flush; those of other
        queues do not. Returns whether there are more that can be sent at once.
        """
        if self._flushing or self.held:
            return False
        self._flushing = True
        batches = self._batches
        try:
            if self._refused:
                self._ask_again()
            while batches and most:
                batch = batches[0]
                if not _readable(batch):
                    self._set_aside(batch.queue)
                    continue
                before = self.host.steps_taken
                entry, loss = batch.entries.popleft(), batch.losses.popleft()
                if not batch.entries:
                    batches.popleft()
                if batch.bracketed or not self.host.effects.bracketed():
                    self._forward(batch.queue, entry, batch.reason, now, loss)
                else:
                    self._forward_outside(batch.queue, entry, batch.reason, now, loss)
                if most > 0:
                    most = max(0, most - 1 - (self.host.steps_taken - before) // COPY_STEPS)
        finally:
            self._flushing = False
            self.waiting = bool(batches) or bool(self._refused)
        return bool(batches)

    def _set_aside(self, queue: QueueState) -> None:
        """Let all of a queue wait, in its order, out of the way of others."""
        self._refused[queue] = deque(batch for batch in self._batches if batch.queue is queue)
        others = [batch for batch in self._batches if batch.queue is not queue]
        self._batches.clear()
        self._batches.extend(others)

    def _ask_again(self) -> None:
        """Let those go first of whose queues the disk gives the next body now."""
        for queue in [queue for queue, batches in self._refused.items() if _readable(batches[0])]:
            self._batches.extendleft(reversed(self._refused.pop(queue)))

    def release(self, now: int) -> None:
        """End :attr:`held` and send the collected ones."""
        self.held = False
        self.flush(now)

    def _forward_outside(
        self, queue: QueueState, entry: QueueEntry, reason: RemovalReason, now: int, loss: LossRecord | None
    ) -> None:
        """Forward messages that left before the transaction or batch began, which are independent of its result."""
        effects, batches = self.host.effects, self.host.batches
        filling, batches.current = batches.current, None
        transaction = effects.suspend_transaction()
        try:
            self._forward(queue, entry, reason, now, loss)
        finally:
            effects.resume_transaction(transaction)
            batches.current = filling

    def _forward(
        self, queue: QueueState, entry: QueueEntry, reason: RemovalReason, now: int, loss: LossRecord | None
    ) -> None:
        """Send the copies of one entry, then settle it. Copies that could not be stored leave it unsettled for the next
        start.

        Losses become durable with the settlement, not before: otherwise a start would restore messages recorded as
        lost. There are two kinds: the removal from the queue, recorded by the queue if its reason is a loss; and a copy
        without a queue.
        """
        sent, kept = True, False
        rules: list[str] = []  # why no queue gets a copy
        for target in targets_for(queue.settings, reason):
            try:
                rule = self._send(queue, entry, reason, target, now)
                if rule:
                    rules.append(rule)
            except Exception as error:  # noqa: BLE001 - effects and views raise errors of rooms the core does not know
                self.failures += 1
                self.last_failure = f"queue '{queue.name}' #{entry.sequence} to {target}: {error}"
                sent = False
                if entry.message.record and not queue.deleted:
                    kept = True
                    queue.unsent.append(entry.message.record)
                else:
                    rules.append(f"not sent to {target}: {error}")
        durable = entry.message.durable and queue.queue_id != 0 and not kept
        for rule in rules:  # that a copy was lost is in the ledger as dead-lettered
            queue.ledger.add(loss_of(queue.name, entry, RemovalReason.DEAD_LETTERED, now, durable=durable, rule=rule))
        if reason in LOSSES and durable:
            queue.ledger.settled(loss)
        if sent and entry.message.record:
            queue.settle_record(entry)
            queue.counters.settled(reason, entry.message.size)
            self.host.effects.forwarded(queue)

    # ------------------------------------------------------------------ one copy

    def _send(self, queue: QueueState, entry: QueueEntry, reason: RemovalReason, target: Target, now: int) -> str:
        """Send one copy. Returns why no queue may get it, empty if one does."""
        message = entry.message
        view = message.origin.view
        if target.address and self.ensure_target is not None:
            self.ensure_target(as_queue(queue), message, target.address, reason)
        death = DeathRecord(
            queue=queue.name,
            reason=_death_name(queue.settings, entry, reason),
            exchange=message.origin.exchange,
            routing_keys=view.routing_keys(message),
            at=now,
        )
        deaths = with_death(view.deaths(message), death)
        exchange, keys = self._destination(target, death.routing_keys)
        header = view.forwarded_header(
            message, deaths, _originals(queue.name, entry, reason, now), rerouted=keys != death.routing_keys
        )
        copy = Message(
            header,
            message.body,
            self._origin(exchange, keys[0], message.origin),
            durable=message.durable,
            priority=message.priority,
            accepted_at=now,
        )
        legs = self.host.publisher.plan_forward(copy, exchange, keys)
        planned = sum(len(leg.queues) for leg in legs)
        if not planned:
            self.messages_unroutable += 1
            return f"{target} leads to no queue"
        for leg in legs:
            leg.queues = [other for other in leg.queues if not is_cycle(deaths, other.name)]
        reached = sum(len(leg.queues) for leg in legs)
        if reached < planned:
            self.dead_letter_cycles += 1
            if not reached:
                return f"{target} leads back to a queue it died in: a cycle"
        self.host.publisher.apply(legs, now)
        self.messages_forwarded += 1
        return ""

    def _destination(self, target: Target, own_keys: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
        """Return exchange and keys. An address is one of that name, else a queue, else an exchange."""
        if not target.address:
            return target.exchange, own_keys if target.routing_key is None else (target.routing_key,)
        host = self.host
        if self._is_beside_queue(target.address):
            return "", (target.address,)
        if target.address in host.addresses or (target.address not in host.queues and target.address in host.exchanges):
            return target.address, own_keys
        return "", (target.address,)

    def _is_beside_queue(self, name: str) -> bool:
        """Return whether an address exists only for subscribers of a queue's name, so that it must not take the queue's
        messages."""
        address = self.host.addresses.get(name)
        if address is None or not address.auto_created or name not in self.host.queues:
            return False
        return all(self.host.lifetime_of(queue).address != name for queue in address.queues())

    def _origin(self, exchange: str, routing_key: str, source: Origin) -> Origin:
        place = (exchange, routing_key, source.publisher, source.view)
        origin = self._origins.get(place)
        if origin is None:
            if len(self._origins) >= ORIGINS_MAX:
                self._origins.clear()
            origin = Origin(exchange, routing_key, source.publisher, source.view)
            self._origins[place] = origin
        return origin


def _readable(batch: Batch) -> bool:
    """Load the next bodies of a batch; False if the disk refuses. Damaged ones fail when they are sent.

    So do unreadable ones of a deleted queue, whose records are about to be removed: they would delay all others.
    """
    bodies = batch.queue.bodies
    if bodies is None or not batch.entries[0].message.absent:
        return True
    messages = [entry.message for entry in islice(batch.entries, LOOK_MESSAGES)]
    return bodies.look(messages) != REFUSED or batch.queue.deleted


def _death_name(settings: QueueSettings, entry: QueueEntry, reason: RemovalReason) -> str:
    name = _DEATH_NAMES.get(reason)
    if name is not None:
        return name
    attempts = settings.max_delivery_attempts
    return DELIVERY_LIMIT if 0 < attempts <= entry.delivery_count else REJECTED


def _originals(name: str, entry: QueueEntry, reason: RemovalReason, now: int) -> dict[str, PropertyValue]:
    """Return Artemis's properties; those of an earlier death stay: the copy of a copy still names its source."""
    message = entry.message
    headers: dict[str, PropertyValue] = {}
    if not _died_before(message):
        headers[ORIGINAL_ADDRESS] = original_address_of(message)
        headers[ORIGINAL_QUEUE] = name
        headers[ORIGINAL_MESSAGE_ID] = entry.sequence
    if reason is RemovalReason.EXPIRED:
        headers[ACTUAL_EXPIRY] = now
    return headers


def original_address_of(message: Message) -> str:
    """Return the address that a message's copies name as their original: where it was sent when it first died."""
    origin = message.origin
    named = origin.view.application_property(message, ORIGINAL_ADDRESS)
    if isinstance(named, str) and _died_before(message):
        return named
    return origin.exchange or address_of_key(origin.routing_key)


def _died_before(message: Message) -> bool:
    """Return whether a message carries the originals of a death here; a divert's copy has an original address only.

    A publisher that sends a dead letter on sends its originals, too: they are of the message it was.
    """
    view = message.origin.view
    return (
        view.application_property(message, ORIGINAL_QUEUE) is not None
        and view.application_property(message, ORIGINAL_ADDRESS) is not None
        and bool(view.deaths(message))
    )
