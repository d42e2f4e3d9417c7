"""The oracle of one queue: commands in, and after each of them the expected state of the core's queue."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, inf

from annulet.core.base.settings import (
    COUNT_ALL,
    DEFAULT_RESUME_PERCENT,
    KEEP_PLACE,
    OVERFLOW_BLOCK,
    OVERFLOW_REJECT,
    OVERFLOW_RING,
    WEIGHTED,
    QueueSettings,
)
from annulet.core.message.message import DEFAULT_PRIORITY
from annulet.testing.oracle.dispatching import OracleDispatching
from annulet.testing.oracle.ranking import (
    PRIORITY,
    SUPERSEDING,
    expiry_of,
    fixed_rank,
    key_of,
    kind_of_order,
    level_of,
    share_of,
    stands_at_head_when_due,
    victim,
)
from annulet.testing.oracle.records import (
    ARRIVING,
    DELIVERING,
    GONE,
    PENDING,
    SCHEDULED,
    OracleConsumer,
    OracleDelivery,
    OracleMessage,
    OracleSession,
    Rank,
)

ACKNOWLEDGE, REQUEUE, DROP = "acknowledge", "requeue", "drop"


class QueueOracle:
    """One queue as the design's §2 describes it, every composition of its four axes.

    Each question is answered by a scan of all messages that were ever accepted.
    """

    def __init__(self, settings: QueueSettings) -> None:
        self.settings = settings
        self.messages: list[OracleMessage] = []  # every message ever accepted
        self.dispatching = OracleDispatching(settings)
        self.reasons: dict[str, int] = {}
        self.removed_bytes: dict[str, int] = {}
        self.forwards: list[tuple[int, str, str]] = []  # (number, reason, dead-letter | expiry | dropped)
        self.paused = False
        self.blocked = False
        self.arrivals = 0
        self.sequences = 0
        self.fallen_due = 0
        self.virtual_time = Fraction()
        self.finish_of_level: dict[int, Fraction] = {}

    # ------------------------------------------------------------------ questions

    def in_state(self, state: str) -> list[OracleMessage]:
        """Return the messages of a state by arrival."""
        return [message for message in self.messages if message.state == state]

    def pending(self) -> list[OracleMessage]:
        """Return the waiting messages, in order of dispatch."""
        return sorted(self.in_state(PENDING), key=lambda message: message.position)

    def scheduled(self) -> list[OracleMessage]:
        """Return the messages scheduled for later, by time; returned ones precede new ones (artemis §7)."""
        return sorted(self.in_state(SCHEDULED), key=lambda m: (m.deliver_at, m.returns == 0, m.accepted))

    def expires_at(self, message: OracleMessage) -> int:
        """Return when a message expires, 0 for never."""
        return expiry_of(self.settings, message)

    def next_due(self) -> int:
        """Return when time alone changes something next, 0 for never."""
        waiting = self.in_state(PENDING) + self.in_state(SCHEDULED)
        times = [self.expires_at(message) for message in waiting]
        times += [message.deliver_at for message in self.in_state(SCHEDULED)]
        times.append(0 if self.paused else self.dispatching.gate_due())
        return min((time for time in times if time), default=0)

    def counted(self) -> tuple[int, int]:
        """Return messages and bytes that ``max_length`` and ``max_bytes`` count."""
        states = (PENDING, SCHEDULED, DELIVERING) if self.settings.limit_counts == COUNT_ALL else (PENDING,)
        counted = [message for message in self.messages if message.state in states]
        return len(counted), sum(message.size for message in counted)

    def exceeds(self, count: int, size: int) -> bool:
        """Return whether this many messages and bytes exceed the limits."""
        settings = self.settings
        return 0 <= settings.max_length < count or 0 <= settings.max_bytes < size

    def refuses(self, message: OracleMessage) -> bool:
        """Return whether ``overflow=reject`` refuses a message."""
        count, size = self.counted()
        return self.settings.overflow == OVERFLOW_REJECT and self.exceeds(count + 1, size + message.size)

    def superseded(self, message: OracleMessage) -> bool:
        """Return whether messages that arrived since supersede it by the queue's retention, wherever they are now."""
        newer = [m for m in self.messages if m.arrived > message.arrived]
        return message.arrived > 0 and any(rule(self.settings, message, newer) for rule in SUPERSEDING.values())

    def target_of(self, reason: str) -> str:
        """Return the target of messages that leave for this reason: dead-letter, expiry, dropped, or none."""
        settings = self.settings
        dead_letters = bool(settings.dead_letter_address) or settings.dead_letter_exchange is not None
        dropped = "dropped" if settings.dropped_address else ""
        targets = {
            "dead-lettered": "dead-letter" if dead_letters else "",
            "expired": "expiry"
            if settings.expiry_address
            else ("dead-letter" if settings.dead_letter_exchange is not None else ""),
            "overflow": "+".join(filter(None, ("dead-letter" if dead_letters else "", dropped))),
            "replaced-ring": dropped,
            "replaced-key": dropped,
        }
        return targets.get(reason, "")

    def resume_at(self) -> tuple[float, float]:
        """Return messages and bytes at or below which blocked publishers go on."""
        settings = self.settings
        pairs = ((settings.resume_length, settings.max_length), (settings.resume_bytes, settings.max_bytes))
        length, size = (
            inf if limit < 0 else (resume if resume >= 0 else ceil(limit * DEFAULT_RESUME_PERCENT / 100))
            for resume, limit in pairs
        )
        return length, size

    # ------------------------------------------------------------------ arrival

    def publish(self, message: OracleMessage, now: int) -> None:
        """Accept a message. Call :meth:`refuses` before."""
        self.messages.append(message)
        message.level = level_of(self.settings, message.priority)
        self._give_sequence(message)
        message.life_from = message.pending_since = max(message.accepted_at, message.deliver_at)
        if self.settings.purge_on_no_consumers and not self.dispatching.acquiring():
            self.remove(message, "purged")
        elif message.deliver_at > now:
            self._schedule(message, now)
        else:
            self._arrive(message, now)
        self._settle_down(now)

    def _schedule(self, message: OracleMessage, now: int) -> None:
        message.state = SCHEDULED
        if 0 < self.expires_at(message) <= now:
            self.remove(message, "expired")
        elif self.settings.limit_counts == COUNT_ALL:
            self._enforce_limits(message, now)

    def _arrive(self, message: OracleMessage, now: int, *, due: int = 0) -> None:
        """A message becomes pending for the first time, because it was published or (``due``) because it fell due."""
        if self.settings.overflow == OVERFLOW_RING and self._too_large(message):
            self.remove(message, "overflow")  # to any waiting consumer, before it replaces anything: the others stay
            return
        before = len(self.pending())
        self.arrivals += 1
        message.arrived = self.arrivals
        message.pending_since = due or message.pending_since
        if due:
            message.place = self._place_when_due(message)
        replaced = [m for m in self.pending() if self.superseded(m)]
        if replaced and self.settings.last_value_place == KEEP_PLACE:
            message.place = min(m.place for m in replaced)
        for older in [*replaced, *(m for m in self.in_state(SCHEDULED) if self.superseded(m))]:
            self.remove(older, "replaced-key")
        expires_at = self.expires_at(message)
        if 0 < expires_at < now or 0 < due < expires_at <= now:  # while it waited, so it must not be delivered
            self.remove(message, "expired")
            return
        message.rank = self._rank(message)
        message.state = PENDING
        self.dispatch(due or now)
        if message.state == PENDING and 0 < self.expires_at(message) <= now:
            self.remove(message, "expired")
        self._make_room_for(message, before, due or now, due=due > 0)

    def _rank(self, message: OracleMessage) -> Rank:
        if kind_of_order(self.settings) != PRIORITY or self.settings.priority_discipline != WEIGHTED:
            return fixed_rank(self.settings, message)
        start = max(self.virtual_time, self.finish_of_level.get(message.level, Fraction()))
        finish = start + Fraction(1, share_of(self.settings, message.level))
        self.finish_of_level[message.level] = finish
        return finish, -message.level  # at equal times the higher level is first

    def _place_when_due(self, message: OracleMessage) -> tuple[int, ...]:
        if message.returns or not stands_at_head_when_due(self.settings):
            return message.place  # back to where it was after its redelivery delay, or simply arriving
        self.fallen_due += 1
        return (0, self.fallen_due)

    def _give_sequence(self, message: OracleMessage) -> None:
        self.sequences += 1
        message.accepted = self.sequences
        message.place = (1, message.accepted)

    # ------------------------------------------------------------------ limits

    def _make_room_for(self, message: OracleMessage, before: int, now: int, *, due: bool) -> None:
        """Ring, then limits, after consumers with credit were served.

        The ring drops at most one, or the messages that fell due.
        """
        ring = self.settings.ring_size
        if 0 <= ring < len(self.pending()) and len(self.pending()) > before:
            if due and message.state == PENDING:
                self.remove(message, "replaced-ring")
                self.dispatch(now)
            else:
                self._evict("replaced-ring", now)
        self._enforce_limits(message, now)

    def _too_large(self, message: OracleMessage) -> bool:
        return 0 <= self.settings.max_bytes < message.size

    def _victim_of(self, candidates: list[OracleMessage]) -> OracleMessage:
        keys = [(key_of(self.settings, m), m.arrived) for m in self.messages]
        last_arrival = {key: max(arrived for k, arrived in keys if k == key) for key, _ in keys if key is not None}
        return victim(self.settings, candidates, last_arrival)

    def _evict(self, reason: str, now: int) -> None:
        self.remove(self._victim_of(self.pending()), reason)
        self.dispatch(now)

    def _enforce_limits(self, arrival: OracleMessage | None, now: int) -> None:
        """Evict until within the limits; an arrival stays when all others are in delivery or scheduled."""
        while self.settings.overflow == OVERFLOW_RING and self.exceeds(*self.counted()):
            pending = self.pending()
            if not pending or (pending == [arrival] and self.counted()[0] > 1):
                return
            self._evict("overflow", now)

    def _drop_what_does_not_fit(self, candidates: list[OracleMessage], before: int, now: int) -> None:
        """Returned messages, or those due again, displace no others: the ``evict`` rule chooses among them only."""
        ring = self.settings.ring_size
        limited = self.settings.overflow == OVERFLOW_RING
        while left := [message for message in candidates if message.state == PENDING]:
            too_large = [message for message in left if limited and self._too_large(message)]
            if too_large:
                self.remove(too_large[0], "overflow")
            elif 0 <= ring < len(self.pending()) and len(self.pending()) > before:
                self.remove(self._victim_of(left), "replaced-ring")
            elif limited and self.exceeds(*self.counted()):
                self.remove(self._victim_of(left), "overflow")
            else:
                return
            self.dispatch(now)

    # ------------------------------------------------------------------ dispatch

    def dispatch(self, now: int) -> None:
        """Show to browsers, then hand over until one side runs out."""
        while True:
            self.dispatching.update_rotation(self.pending())
            going = self.dispatching.open_gate(now) and not self.paused
            copies = self.settings.non_destructive and going
            shown = self.dispatching.next_copy(self._readable(), everybody=copies)
            if shown is not None:
                self._show(*shown)
                continue
            if self.settings.non_destructive or not going:
                return
            found = self.dispatching.next_delivery(self.pending())
            if found is None:
                return
            self._deliver(*found)

    def _readable(self) -> list[OracleMessage]:
        """The messages visible to browsers, in order, including those in delivery."""
        return sorted(self.in_state(PENDING) + self.in_state(DELIVERING), key=lambda message: message.position)

    def _show(self, message: OracleMessage, consumer: OracleConsumer) -> None:
        consumer.seen.add(message.number)
        delivery = self._hand_over(message, consumer)
        delivery.copied = True
        if not consumer.automatic:
            self.dispatching.deliveries.append(delivery)
            consumer.session.held[consumer.session.last_tag] = delivery

    def _deliver(self, message: OracleMessage, consumer: OracleConsumer) -> None:
        self._note_served(message)
        self.dispatching.note_delivery(consumer, message)
        delivery = self._hand_over(message, consumer)
        if consumer.automatic:
            self.remove(message, "acknowledged")
        else:
            message.state = DELIVERING
            self.dispatching.deliveries.append(delivery)
            consumer.session.held[consumer.session.last_tag] = delivery

    def _hand_over(self, message: OracleMessage, consumer: OracleConsumer) -> OracleDelivery:
        session = consumer.session
        session.last_tag += 1
        session.received.append((session.last_tag, consumer.tag, message.number))
        return OracleDelivery(message, session, consumer)

    def _note_served(self, message: OracleMessage) -> None:
        if self.settings.fair_key:
            self.dispatching.note_turn(message)
        if kind_of_order(self.settings) == PRIORITY and self.settings.priority_discipline == WEIGHTED:
            assert message.rank
            self.virtual_time = max(self.virtual_time, Fraction(message.rank[0]))

    # ------------------------------------------------------------------ consumers

    def may_attach(self) -> bool:
        """Return whether one more consumer is allowed."""
        return not 0 <= self.settings.max_consumers <= len(self.dispatching.consumers)

    def attach(self, consumer: OracleConsumer, now: int) -> None:
        """Start a consumer."""
        consumer.attached_at = now
        consumer.arrivals_before = self.arrivals
        consumer.there_at_attach = {m.number for m in self.in_state(PENDING) + self.in_state(DELIVERING)}
        self.dispatching.attach(consumer, now)
        self._settle_down(now)

    def cancel(self, consumer: OracleConsumer, now: int) -> None:
        """End a consumer; its session keeps its deliveries."""
        self._leave([consumer])
        self._settle_down(now)

    def close_consumer(self, consumer: OracleConsumer, now: int) -> None:
        """End a consumer and return its deliveries, except those settled in an open transaction."""
        session = consumer.session
        held = {tag: delivery for tag, delivery in session.held.items() if delivery.consumer is consumer}
        for tag in held:
            del session.held[tag]
        self._leave([consumer])
        self.give_back(list(held.values()), now)

    def close(self, session: OracleSession, now: int) -> None:
        """End a session: all its consumers at once, then all its deliveries return."""
        self._leave([consumer for consumer in self.dispatching.consumers if consumer.session is session])
        self.rollback(session)
        held = list(session.held.values())
        session.held.clear()
        self.give_back(held, now)

    def _leave(self, consumers: list[OracleConsumer]) -> None:
        for consumer in consumers:
            self.dispatching.cancel(consumer)
        if consumers and self.settings.purge_on_no_consumers and not self.dispatching.acquiring():
            self._purge_all()

    def set_writable(self, session: OracleSession, now: int, *, writable: bool) -> None:
        """The client's connection fills up, or has room again."""
        session.writable = writable
        self._settle_down(now)

    # ------------------------------------------------------------------ pull and settlement

    def get(self, session: OracleSession, now: int, *, automatic: bool) -> OracleMessage | None:
        """Pull the first message that no cap and no group prevents; ``None`` if there is none.

        Nothing while the queue is paused or its gate is shut. A non-destructive queue gives a copy of its first.
        """
        choice = self.dispatching
        if self.paused or not choice.open_gate(now):
            return None
        waiting = choice.in_turn(self.pending())
        free = [m for m in waiting if not choice.capped(m) and choice.group_allows(None, m)]
        if not free:
            return None
        message = free[0]
        delivery = OracleDelivery(message, session, None, copied=self.settings.non_destructive)
        if not delivery.copied:
            self._note_served(message)
            message.state = DELIVERING
        choice.deliveries.append(delivery)
        choice.note_pull(message)
        self.dispatch(now)  # the next one may fit where this one did not
        session.last_tag += 1
        session.received.append((session.last_tag, "", message.number))
        if automatic:
            choice.deliveries.remove(delivery)
            if not delivery.copied:
                self.remove(message, "acknowledged")
            self.dispatch(now)
        else:
            session.held[session.last_tag] = delivery
        self._settle_down(now)
        return message

    def take(self, session: OracleSession, tag: int, *, multiple: bool) -> list[tuple[int, OracleDelivery]]:
        """Take deliveries out of a session: one, or all up to a tag (0: all)."""
        tags = [held for held in session.held if held == tag or (multiple and (held <= tag or tag == 0))]
        return [(held, session.held.pop(held)) for held in sorted(tags)]

    def settle(self, deliveries: list[OracleDelivery], how: str, now: int) -> None:
        """Finish deliveries by ``acknowledge`` or ``drop``, or ``requeue`` them."""
        if how == REQUEUE:
            self.give_back(deliveries, now)
            return
        for delivery in deliveries:
            self.dispatching.deliveries.remove(delivery)
            if not delivery.copied:
                self.remove(delivery.message, "acknowledged" if how == ACKNOWLEDGE else self._rejected())
        self._settle_down(now)

    def _rejected(self) -> str:
        settings = self.settings
        target = bool(settings.dead_letter_address) or settings.dead_letter_exchange is not None
        return "dead-lettered" if target else "rejected"

    def give_back(self, deliveries: list[OracleDelivery], now: int) -> None:
        """The one return path: attempts, expiry, key, then serve, then drop messages for which the ring has no room."""
        for delivery in deliveries:
            self.dispatching.deliveries.remove(delivery)
        returned = [delivery.message for delivery in deliveries if not delivery.copied]
        delayed = [message for message in returned if self._come_back(message, now)]
        self.dispatch(now)
        self._drop_what_does_not_fit(returned, 0, now)
        while delayed:  # the first victim is processed first: its room is used by the others
            delayed.remove(following := self._victim_of(delayed))
            self._delay(following, now)
        self._settle_down(now)

    def _come_back(self, message: OracleMessage, now: int) -> bool:
        """Put one message back in its place or drop it; return whether it has to wait for its redelivery instead."""
        settings = self.settings
        message.returns += 1
        message.state = PENDING
        if 0 < self.expires_at(message) <= now:
            self.remove(message, "expired")
        elif self.superseded(message):
            self.remove(message, "replaced-key")
        elif 0 <= settings.max_delivery_attempts <= message.returns:
            self.remove(message, self._rejected())
        elif settings.purge_on_no_consumers and not self.dispatching.acquiring():
            self.remove(message, "purged")
        elif self.redelivery_delay(message.returns) > 0:
            message.state = DELIVERING  # until consumers with credit were served
            return True
        self.dispatching.update_rotation(self.pending())
        return False

    def redelivery_delay(self, returns: int) -> int:
        """Return base times multiplier for each return but the first, capped; without jitter."""
        settings = self.settings
        base = settings.redelivery_delay
        cap = settings.max_redelivery_delay if settings.max_redelivery_delay >= 0 else 10 * base
        return int(min(base * settings.redelivery_multiplier ** (returns - 1), cap)) if base > 0 else 0

    def _delay(self, message: OracleMessage, now: int) -> None:
        """Schedule a returned message, or drop it now if there would be no room."""
        count, size = self.counted()
        if self.settings.limit_counts == COUNT_ALL:  # then it is among the counted
            count, size = count - 1, size - message.size
        full = 0 <= self.settings.max_length <= count or 0 <= self.settings.max_bytes <= size
        if 0 <= self.settings.ring_size <= len(self.pending()):
            self.remove(message, "replaced-ring")
        elif self.settings.overflow == OVERFLOW_RING and full:
            self.remove(message, "overflow")
        else:
            message.state = SCHEDULED
            message.deliver_at = now + self.redelivery_delay(message.returns)

    def commit(self, session: OracleSession, sends: list[OracleMessage], now: int) -> None:
        """Publish, then acknowledge, then requeue, then drop."""
        for message in sends:
            self.publish(message, now)
        settled, session.in_transaction = session.in_transaction, []
        for wanted in (ACKNOWLEDGE, REQUEUE, DROP):
            deliveries = [delivery for _, delivery, how in settled if how == wanted]
            if deliveries:
                self.settle(deliveries, wanted, now)

    def rollback(self, session: OracleSession) -> None:
        """Give the collected deliveries back to the session."""
        for tag, delivery, _ in session.in_transaction:
            session.held[tag] = delivery
        session.in_transaction = []
        session.held = dict(sorted(session.held.items()))

    # ------------------------------------------------------------------ time

    def tick(self, now: int) -> None:
        """Expire, process due messages one by one in order of time, open gates."""
        self._expire(now)
        while due := [message for message in self.scheduled() if message.deliver_at <= now]:
            if not self.dispatching.going:  # a gate that opened before is first; else expired messages make room
                self.dispatch(due[0].deliver_at)
            self._fall_due(due[0], due[0].deliver_at, now)
        self._settle_down(now)

    def _expire(self, now: int) -> None:
        waiting = sorted(
            self.in_state(PENDING) + self.in_state(SCHEDULED), key=lambda m: (self.expires_at(m), m.accepted)
        )
        for message in waiting:
            if 0 < self.expires_at(message) <= now:
                self.remove(message, "expired")

    def _fall_due(self, message: OracleMessage, due: int, now: int) -> None:
        if not message.arrived:
            self._arrive(message, now, due=due)
            return
        before = len(self.pending())
        message.place = self._place_when_due(message)
        message.state = PENDING
        self.dispatch(due)
        self._drop_what_does_not_fit([message], before, due)

    # ------------------------------------------------------------------ management

    def deliver_now(self, message: OracleMessage, now: int) -> None:
        """A scheduled message falls due by command."""
        self._fall_due(message, now, now)
        self._settle_down(now)

    def purge(self, now: int) -> None:
        """Drop waiting and scheduled messages."""
        self._purge_all()
        self._settle_down(now)

    def _purge_all(self) -> None:
        for message in self.in_state(PENDING) + self.in_state(SCHEDULED):
            self.remove(message, "purged")

    def delete(self, message: OracleMessage, now: int) -> None:
        """An operator removes a pending or scheduled message."""
        self.remove(message, "deleted")
        self._settle_down(now)

    def reprioritise(self, message: OracleMessage, priority: int, now: int) -> None:
        """An operator gives a pending message another priority: it goes to the tail of its new level, be it its old."""
        if priority != (DEFAULT_PRIORITY if message.priority is None else message.priority):
            message.state = ARRIVING  # it leaves and arrives again
            self.dispatching.update_rotation(self.pending())
            message.state = PENDING
            self.dispatching.note_hidden(message)
            self.arrivals += 1
            message.arrived = self.arrivals
            message.priority = priority
            message.level = level_of(self.settings, priority)
            self._give_sequence(message)
            message.rank = self._rank(message)
            self.dispatching.note_move(message)
        self._settle_down(now)

    def pause(self, now: int, *, paused: bool) -> None:
        """Stop or start deliveries to consumers; everything else continues."""
        self.paused = paused
        self._settle_down(now)

    def reset_groups(self, group: str | None, now: int) -> None:
        """End the assignment of a group, or of all, whatever is in delivery."""
        self.dispatching.reset(group)
        self._settle_down(now)

    def update(self, settings: QueueSettings, now: int) -> None:
        """Change settings that may change. A lower ring trims only with ``ring_trim_now``; limits apply at once."""
        self.settings = settings
        self.dispatching.settings = settings
        self._expire(now)
        while settings.ring_trim_now and 0 <= settings.ring_size < len(self.pending()):
            self._evict("replaced-ring", now)
        self._enforce_limits(None, now)
        self._settle_down(now)

    # ------------------------------------------------------------------ leaving

    def remove(self, message: OracleMessage, reason: str) -> None:
        """Let a message go for one reason."""
        message.state = GONE
        self.reasons[reason] = self.reasons.get(reason, 0) + 1
        self.removed_bytes[reason] = self.removed_bytes.get(reason, 0) + message.size
        target = self.target_of(reason)
        if target:
            self.forwards.append((message.number, reason, target))
        if self.settings.fair_key:
            self.dispatching.update_rotation(self.pending())

    def _settle_down(self, now: int) -> None:
        """End every command: nothing deliverable waits, and publishers are blocked or not."""
        self.dispatch(now)
        settings = self.settings
        count, size = self.counted()
        if settings.overflow != OVERFLOW_BLOCK:
            self.blocked = False
        elif self.exceeds(count, size):
            self.blocked = True
        elif count <= self.resume_at()[0] and size <= self.resume_at()[1]:
            self.blocked = False
