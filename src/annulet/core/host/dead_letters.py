"""Dead letters, expired and dropped messages: forwarding of copies, and their headers.

:mod:`annulet.core.model.forwarding_targets` selects their address or exchange. A copy is stored before its source is
settled, so a crash in between duplicates a message and never loses one.
"""

from __future__ import annotations

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
from annulet.core.host.entering import Entering
from annulet.core.host.letter_outbox import Outbox
from annulet.core.message.message import Message, Origin
from annulet.core.model.forwarder import Forwarder
from annulet.core.model.forwarding_targets import Target, targets_for
from annulet.core.model.loss_ledger import LossRecord, loss_of
from annulet.core.policies.staged_batches import HiddenBatch, take_back
from annulet.core.queue.queue import Queue, as_queue
from annulet.core.routing.routes import address_of_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from annulet.core.base.settings import QueueSettings
    from annulet.core.host.letter_outbox import Batch, Letter
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
"""Copies, a further queue of a copy counting as one more, up to which all are sent in the calls of one ``now`` in which
their entries left: some 8 ms of the loop. One publish may have a thousand queues drop a message each."""

FORWARDED_PER_SLICE: Final = 50
"""The same for one slice: 2 ms, but for a copy that goes to a thousand queues, which takes 8 ms."""

COPY_STEPS: Final = 500
"""Steps of routing for which a copy counts as one more: 0.2 ms."""

ALL: Final = 1 << 62
"""More copies than there can be."""


class Forwarding(SlicedWork):
    """Sends the rest of very many, in slices."""

    def __init__(self, letters: DeadLetters) -> None:
        super().__init__()
        self._letters = letters

    def step(self, now: int) -> bool:
        """Send the next few."""
        return self._letters.go_on(now)

    def abandon(self, now: int) -> None:
        """Let the next flush go on."""
        self._letters.end_slices(now)


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
        self._outbox = Outbox()
        self._refused: dict[QueueState, Outbox] = {}  # of queues of which the disk did not give a body, all of theirs
        self._bracket = Outbox()  # of a transaction that ends in the call in which it began
        self._left_inside = FORWARDED_AT_ONCE  # copies that may still be sent within it
        self._commits: list[Outbox] = []  # of transactions in slices
        self._collecting: Outbox | None = None  # the one of which a slice is being done
        self._flushing = False
        self._sent_at = -1  # the ``now`` for which ``_left`` counts
        self._left = 0
        self._batch: HiddenBatch | None = None  # hides the current copy, which goes to very many queues
        self._waits_for_turn = False  # that copy, for the batch of another
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
        box = self._refused.get(queue)
        if box is None:
            box = self._box()
        box.add(queue, entry, reason, loss, queue.settings)
        if entry.message.record:
            queue.counters.wait(reason, entry.message.size)
        self.waiting = True

    def _box(self) -> Outbox:
        """Return where a letter goes now: letters of a transaction are sent in it."""
        if not self.host.effects.bracketed():
            return self._outbox
        return self._bracket if self._collecting is None else self._collecting

    def flush(self, now: int) -> None:
        """Send waiting copies, and those of messages that these remove from other queues, as many as one ``now`` may.

        The rest follows in slices. Never raises for a single message. In a transaction its own are sent, up to
        :data:`FORWARDED_AT_ONCE`, and the rest behind its end, see :meth:`transaction_ended`; one in slices sends them
        by :meth:`send_inside`.
        """
        if self.host.effects.bracketed():
            if self._collecting is None:
                self._left_inside = self._send(self._bracket, now, self._left_inside)
            return
        if self.sliced or self._flushing or self.held:
            return
        if now != self._sent_at:
            self._sent_at, self._left = now, FORWARDED_AT_ONCE
        self._left = self._send(self._outbox, now, self._left)
        if not self._outbox.empty:
            self.sliced = True
            self.host.effects.later(Forwarding(self), now)

    def transaction_ended(self, now: int) -> None:
        """Let the letters go on that a transaction has left, which ended in the call in which it began.

        Until they are sent, the records of their messages stay, so that the next start has them again.
        """
        self._left_inside = FORWARDED_AT_ONCE
        if not self._bracket.empty:
            self._outbox.put_last(self._bracket)
            self._bracket = Outbox()
        if self.waiting:
            self.flush(now)

    def left_of(self, queue: QueueState) -> tuple[int, list[Outbox]]:
        """Return how many letters of a queue are not sent, and the boxes of transactions that have some of these."""
        commits = [box for box in self._commits if box.count_of(queue)]
        boxes = [self._outbox, self._bracket, *commits]
        refused = self._refused.get(queue)
        if refused is not None:
            boxes.append(refused)
        return sum([box.count_of(queue) for box in boxes]), commits

    def records_of(self, queue: QueueState) -> list[int]:
        """Search the waiting ones. O(n)."""
        boxes = [self._outbox, self._bracket, *self._commits]
        refused = self._refused.get(queue)
        if refused is not None:
            boxes.append(refused)
        return [record for box in boxes for record in box.records_of(queue)]

    def release(self, now: int) -> None:
        """End :attr:`held` and send the collected ones."""
        self.held = False
        self.flush(now)

    # ------------------------------------------------------------------ slices

    def go_on(self, now: int) -> bool:
        """Do one slice. Returns whether there is another: a copy to very many queues may have to wait for its turn."""
        letter = self._outbox.current
        if letter is not None and _wide(letter) and self._batch is None:
            if not self.host.batches.begin(self._turn_came):
                self._waits_for_turn = True
                return False
            self._batch = HiddenBatch()
        self._send(self._outbox, now, FORWARDED_PER_SLICE)
        self.sliced = not self._outbox.empty
        return self.sliced

    def _turn_came(self) -> None:
        """No other batch is put into queues now."""
        self._waits_for_turn = False
        if not self.sliced or self._outbox.current is None:  # a defect has met it meanwhile
            self.host.batches.end()
        else:
            self._batch = HiddenBatch()
        self.host.effects.later(Forwarding(self), self.host.latest)

    def end_slices(self, now: int) -> None:
        """A defect has met a slice: the next flush goes on behind the letter that it met."""
        self.sliced = self._flushing = False
        letter = self._outbox.current
        if letter is not None:
            self._give_up(letter, "the slice was abandoned", now)
            self._outbox.current = None

    # ------------------------------------------------------------------ transactions in slices

    def open_box(self) -> Outbox:
        """Begin to collect what leaves in a transaction that is done in slices. :meth:`close_box` ends that."""
        box = Outbox()
        self._commits.append(box)
        return box

    def collect(self, box: Outbox | None) -> None:
        """A slice of a transaction begins, or ends (``None``)."""
        self._collecting = box

    def added(self) -> int:
        """Return how many letters have left outside of transactions, for :meth:`sent_before`."""
        return self._outbox.added

    def sent_before(self, added: int) -> bool:
        """Return whether a transaction may send its own: the first ``added`` others are sent, or wait for its end."""
        return self._waits_for_turn or self._outbox.passed >= added

    def send_inside(self, box: Outbox, now: int, most: int = FORWARDED_PER_SLICE) -> bool:
        """Send the next of a transaction, within it and hidden as its messages are. Returns whether there are more."""
        self._send(box, now, most)
        return not box.empty

    def close_box(self, box: Outbox, now: int) -> None:
        """A transaction has ended. Where it has failed some may be left: stored messages stay for the next start."""
        self._commits.remove(box)
        while not box.empty:
            letter = box.current or box.next()
            self._give_up(letter, "the transaction in which it left has failed", now)
            box.current = None
        if self.host.departures.count:
            self.host.departures.box_closed(box)

    # ------------------------------------------------------------------ sending

    def _send(self, box: Outbox, now: int, most: int) -> int:
        """Send letters of ``box``, unless this is a nested call or all are held. Returns the rest of ``most``.

        If the disk refuses to read a body, it and later ones of its queue wait for the next flush; those of other
        queues do not.
        """
        if self._flushing or self.held:
            return most
        self._flushing = True
        try:
            if self._refused and box is self._outbox:
                self._ask_again()
            while most > 0 and not box.empty:
                letter = box.current
                if letter is None:
                    if not _readable(box.batches[0]):
                        self._set_aside(box, box.batches[0].queue)
                        continue
                    letter = box.next()
                counted = self._go_on(letter, now, most, hidden=box is self._collecting)
                if not counted:
                    break
                most -= counted
                if letter.done:
                    box.current = None
                    self._finish(letter, now)
        finally:
            self._flushing = False
            self.waiting = not (self._outbox.empty and self._bracket.empty) or bool(self._refused)
        return max(0, most)

    def _set_aside(self, box: Outbox, queue: QueueState) -> None:
        """Let all of a queue wait, in its order, out of the way of others."""
        taken = box.take_out(queue)
        refused = self._refused.get(queue)
        if refused is not None:
            taken.put_first(refused)
        self._refused[queue] = taken

    def _ask_again(self) -> None:
        """Let those go first of whose queues the disk gives the next body now."""
        for queue in [queue for queue, box in self._refused.items() if _readable(box.batches[0])]:
            self._outbox.put_first(self._refused.pop(queue))

    def _go_on(self, letter: Letter, now: int, most: int, *, hidden: bool) -> int:
        """Do the next part of a letter. Returns for how many copies that counts."""
        before = self.host.steps_taken
        entered = 0
        try:
            if letter.entering is None and letter.targets:
                letter.target = letter.targets.popleft()
                self._begin_copy(letter, letter.target, now)
            if letter.entering is not None:
                entered = self._enter(letter, letter.entering, now, most, hidden=hidden)
        except Exception as error:  # noqa: BLE001 - effects and views raise errors of rooms the core does not know
            self._copy_failed(letter, error, now)
        if letter.entering is not None and not entered:
            return 0  # it waits for its turn
        return max(1, entered) + (self.host.steps_taken - before) // COPY_STEPS

    def _enter(self, letter: Letter, entering: Entering, now: int, most: int, *, hidden: bool) -> int:
        """Put a copy into all its queues, or into some of very many. Returns into how many."""
        waits = letter is self._outbox.current  # else it is sent within a transaction
        batches, batch = self.host.batches, self._batch if waits else None
        if batch is not None:
            batches.current = batch
            try:
                entered = entering.go_on(most, now)
            finally:
                batches.current = None
        elif hidden:
            entered = entering.go_on(most, now)
        elif waits and _wide(letter):
            return 0
        else:
            entered = entering.go_on(ALL, now)
        if entering.done:
            letter.entering = None
            self.messages_forwarded += 1
            if batch is not None:
                self._batch = None
                try:
                    batch.show(now)
                finally:
                    batches.end()
        return entered

    def _copy_failed(self, letter: Letter, error: Exception, now: int) -> None:
        """A copy could not be sent or stored. A letter with a record stays for the next start."""
        entry, queue = letter.entry, letter.queue
        if letter.entering is not None:
            letter.entering.give_up()
            letter.entering = None
        if self._batch is not None and letter is self._outbox.current:
            batch, self._batch = self._batch, None
            take_back(batch, self.host.effects, now)
            self.host.batches.end()
        self.failures += 1
        to = "its targets" if letter.target is None else str(letter.target)
        self.last_failure = f"queue '{queue.name}' #{entry.sequence} to {to}: {error}"
        letter.sent = False
        if entry.message.record and not queue.deleted:
            if not letter.kept:
                queue.unsent.append(entry.message.record)
            letter.kept = True
        else:
            letter.rules.append(f"not sent to {to}: {error}")

    def _give_up(self, letter: Letter, why: str, now: int) -> None:
        """Send no more of a letter."""
        self._copy_failed(letter, RuntimeError(why), now)
        letter.targets.clear()
        self._finish(letter, now)

    def _finish(self, letter: Letter, now: int) -> None:
        """Settle an entry of which all copies are sent. Copies that could not be stored leave it unsettled for the next
        start.

        Losses become durable with the settlement, not before: otherwise a start would restore messages recorded as
        lost. There are two kinds: the removal from the queue, recorded by the queue if its reason is a loss; and a copy
        without a queue.
        """
        queue, entry, reason = letter.queue, letter.entry, letter.reason
        durable = entry.message.durable and queue.queue_id != 0 and not letter.kept
        for rule in letter.rules:  # that a copy was lost is in the ledger as dead-lettered
            queue.ledger.add(loss_of(queue.name, entry, RemovalReason.DEAD_LETTERED, now, durable=durable, rule=rule))
        if reason in LOSSES and durable:
            queue.ledger.settled(letter.loss)
        if letter.sent and entry.message.record:
            queue.settle_record(entry)
            queue.counters.settled(reason, entry.message.size)
            self.host.effects.forwarded(queue)
        if self.host.departures.count:
            self.host.departures.letter_sent(queue)

    # ------------------------------------------------------------------ one copy

    def _begin_copy(self, letter: Letter, target: Target, now: int) -> None:
        """Make a copy and decide its way, or note why no queue may get it."""
        queue, entry, reason = letter.queue, letter.entry, letter.reason
        message = entry.message
        view = message.origin.view
        if target.address and self.ensure_target is not None:
            self.ensure_target(as_queue(queue), message, target.address, reason)
        death = DeathRecord(
            queue=queue.name,
            reason=_death_name(letter.settings, entry, reason),
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
        planned = sum([len(leg.queues) for leg in legs])
        if not planned:
            self.messages_unroutable += 1
            letter.rules.append(f"{target} leads to no queue")
            return
        for leg in legs:
            leg.queues = [other for other in leg.queues if not is_cycle(deaths, other.name)]
        reached = sum([len(leg.queues) for leg in legs])
        if reached < planned:
            self.dead_letter_cycles += 1
            if not reached:
                letter.rules.append(f"{target} leads back to a queue it died in: a cycle")
                return
        entering = Entering(self.host.publisher)
        for leg in legs:
            entering.add_leg(leg, now)
        letter.entering = entering

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


def _wide(letter: Letter) -> bool:
    """Return whether a copy that is on its way goes to so many queues that it has to be hidden meanwhile."""
    return letter.entering is not None and letter.entering.wide


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
