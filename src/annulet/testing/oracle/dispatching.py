"""Chooses consumer and message of each delivery: turns, windows, active consumers, groups, fairness, gates and
browsers, by scanning."""

from __future__ import annotations

import sys
from zlib import crc32

from annulet.core.base.settings import BROWSE_FOLLOW, GROUP_SHARED, GROUP_STICKY, QueueSettings
from annulet.core.message.message import PropertyValue
from annulet.testing.oracle.records import GONE, OracleConsumer, OracleDelivery, OracleMessage, OracleSession

DEFAULT_GROUP = "qpid.no-group"
GroupName = str

PULL = OracleConsumer(OracleSession(), "pull")
"""Represents all pulling clients as the owner of a group."""


class OracleDispatching:
    """Chooses deliveries. It changes no message: :class:`annulet.testing.oracle.queue.QueueOracle` carries them out."""

    def __init__(self, settings: QueueSettings) -> None:
        self.settings = settings
        self.consumers: list[OracleConsumer] = []  # in order of attachment, browsers too
        self.deliveries: list[OracleDelivery] = []  # out and not settled
        self.turns: dict[int, OracleConsumer] = {}  # whose turn it is, by priority
        self.live: list[OracleConsumer] = []  # the served consumers, if their number is limited
        self.pins: dict[GroupName, OracleConsumer] = {}
        self.rebalancing = False
        self.gate_open = settings.consumers_before_dispatch <= 0
        self.first_consumer_at = 0
        self.rotation: list[PropertyValue] = []  # fair keys with something pending, whose turn is next first
        self.room: dict[PropertyValue, int] = {}  # body bytes a fair key may still send in its turn

    def out(self) -> list[OracleDelivery]:
        """Return the deliveries that count for groups, gates and caps: all except those of browsers."""
        return [delivery for delivery in self.deliveries if not delivery.browsed]

    def taken(self) -> list[OracleDelivery]:
        """Return the deliveries of messages that left the pending: copies are none."""
        return [delivery for delivery in self.deliveries if not delivery.copied]

    # ------------------------------------------------------------------ attaching and detaching

    def acquiring(self) -> list[OracleConsumer]:
        """Return the consumers that are no browsers."""
        return [consumer for consumer in self.consumers if not consumer.browse]

    def attach(self, consumer: OracleConsumer, now: int) -> None:
        """A consumer joins at the end of its priority."""
        self.consumers.append(consumer)
        if consumer.browse:
            return
        self.turns.setdefault(consumer.priority, consumer)
        if len(self.acquiring()) == 1:
            self.first_consumer_at = now
        if self.settings.group_rebalance and self.settings.group_mode == GROUP_STICKY:
            self.reset(None)
            self.rebalancing = self.settings.group_rebalance_pause

    def cancel(self, consumer: OracleConsumer) -> None:
        """Detach a consumer; its deliveries stay."""
        if not consumer.browse:
            level = self._of_priority(consumer.priority)
            if self.turns[consumer.priority] is consumer:
                del self.turns[consumer.priority]
                if len(level) > 1:
                    self.turns[consumer.priority] = level[(level.index(consumer) + 1) % len(level)]
        self.consumers.remove(consumer)
        if not self.acquiring():
            self.gate_open = self.settings.consumers_before_dispatch <= 0

    def _of_priority(self, priority: int) -> list[OracleConsumer]:
        return [consumer for consumer in self.acquiring() if consumer.priority == priority]

    def update_live(self) -> None:
        """Fill free places among the served consumers: highest priority, then oldest. Chosen ones stay."""
        self.live = [c for c in self.live if c in self.consumers or any(d.consumer is c for d in self.out())]
        while len(self.live) < self.live_max():
            waiting = [consumer for consumer in self.acquiring() if consumer not in self.live]
            if not waiting:
                return
            self.live.append(max(waiting, key=lambda c: (c.priority, -self.consumers.index(c))))

    def live_max(self) -> int:
        """Return how many consumers are served at a time."""
        settings = self.settings
        if settings.exclusive_consumer or settings.single_active_consumer:
            return 1
        return settings.live_consumers_max if settings.live_consumers_max >= 0 else sys.maxsize

    # ------------------------------------------------------------------ gates

    def open_gate(self, now: int) -> bool:
        """Return whether dispatch may go on; the gate opens by count or time, never while something is in delivery."""
        if self.rebalancing and not self.out():
            self.rebalancing = False
        count = len(self.acquiring())
        if not self.gate_open and count and not self.taken():
            due = self.gate_due()
            self.gate_open = count >= self.settings.consumers_before_dispatch or 0 < due <= now
        return self.gate_open and not self.rebalancing

    @property
    def going(self) -> bool:
        """Whether gate and groups let dispatch go on, as of the last look."""
        return self.gate_open and not self.rebalancing

    def gate_due(self) -> int:
        """Return when the closed gate opens by time, 0 for never; while something is in delivery it cannot."""
        if self.gate_open or self.taken() or not self.acquiring() or self.settings.delay_before_dispatch < 0:
            return 0
        return self.first_consumer_at + self.settings.delay_before_dispatch

    # ------------------------------------------------------------------ windows

    def held_by(self, consumer: OracleConsumer) -> list[OracleMessage]:
        """Return the unsettled deliveries of a consumer."""
        return [delivery.message for delivery in self.deliveries if delivery.consumer is consumer]

    def has_turn_left(self, consumer: OracleConsumer) -> bool:
        """Return whether one more message may go to a consumer as far as its number is concerned."""
        session = consumer.session
        if consumer.automatic or not session.writable:
            return session.writable
        shared = [d for d in self.deliveries if d.consumer is not None and d.session is session]
        return not (
            0 <= consumer.messages_max <= len(self.held_by(consumer)) or 0 <= session.messages_max <= len(shared)
        )

    def has_bytes_left(self, consumer: OracleConsumer, size: int) -> bool:
        """Return whether a message of this size fits; one that is too large for any window is delivered alone."""
        if consumer.automatic:
            return True
        session = consumer.session
        own = sum(message.size for message in self.held_by(consumer))
        shared = sum(d.message.size for d in self.deliveries if d.consumer is not None and d.session is session)
        windows = ((consumer.bytes_max, own), (session.bytes_max, shared))
        return all(limit < 0 or held == 0 or held + size <= limit for limit, held in windows)

    # ------------------------------------------------------------------ interest

    def wants(self, consumer: OracleConsumer, message: OracleMessage) -> bool:
        """Return whether a message is for a consumer at all: selector, no-local, replay period, refused before."""
        local = message.connection is not None and message.connection is consumer.session.connection
        if local and (consumer.no_local or self.settings.no_local):
            return False
        if consumer.replay_period == 0 and message.arrived <= consumer.arrivals_before:
            return False
        if consumer.replay_period > 0 and message.accepted_at < consumer.attached_at - consumer.replay_period:
            return False
        return message.number not in consumer.refused and consumer.selector(message.properties)

    def group_of(self, message: OracleMessage) -> GroupName | None:
        """Return the group or bucket of a message, ``None`` when it has none or groups do not matter."""
        settings = self.settings
        if not settings.group_mode or settings.group_buckets == 0:
            return None
        value = message.properties.get(settings.group_key) if settings.group_key else (message.group or None)
        if value is None and settings.group_mode == GROUP_SHARED:
            value = settings.default_group or DEFAULT_GROUP
        if value is None:
            return None
        if settings.group_buckets > 0:
            return f"bucket {crc32(str(value).encode()) % settings.group_buckets}"
        return str(value)

    def owner_of(self, group: GroupName) -> OracleConsumer | None:
        """Return the owner of a group, ``None`` if it has none; ``PULL`` for pulled messages."""
        owner = self.pins.get(group)
        if owner is None:
            return None
        holder = None if owner is PULL else owner
        out = [delivery for delivery in self.out() if delivery.consumer is holder and not delivery.before_reset]
        holds = any(self.group_of(delivery.message) == group for delivery in out)
        if holds or (self.settings.group_mode == GROUP_STICKY and owner in self.consumers):
            return owner
        del self.pins[group]
        return None

    def group_allows(self, taker: OracleConsumer | None, message: OracleMessage) -> bool:
        """Return whether the message's group is free or the taker's own. Pulling clients (``None``) own no group."""
        group = self.group_of(message)
        if group is None:
            return True
        owner = self.owner_of(group)
        return owner is None or owner is taker

    def reset(self, group: GroupName | None) -> None:
        """End the assignment of a group, or of all; deliveries no longer affect it."""
        for name in [name for name in self.pins if group in (None, name)]:
            del self.pins[name]
        for delivery in self.deliveries:
            delivery.before_reset |= group in (None, self.group_of(delivery.message))

    def note_delivery(self, consumer: OracleConsumer, message: OracleMessage) -> None:
        """Note a delivery: the turn passes on, the group becomes the consumer's, or ends with sequence -1."""
        level = self._of_priority(consumer.priority)
        self.turns[consumer.priority] = level[(level.index(consumer) + 1) % len(level)]
        group = self.group_of(message)
        if group is not None and self.settings.group_mode == GROUP_STICKY and message.group_sequence == -1:
            self.pins.pop(group, None)
        elif group is not None:
            self.pins[group] = consumer

    def note_pull(self, message: OracleMessage) -> None:
        """Note a pulled message: until it is settled, no client may get others of its shared group."""
        group = self.group_of(message)
        if group is not None and self.settings.group_mode == GROUP_SHARED:
            self.pins[group] = PULL

    # ------------------------------------------------------------------ fairness and caps

    def fair_key_of(self, message: OracleMessage) -> PropertyValue:
        """Return the key that takes turns; messages without one form one key."""
        value = message.properties.get(self.settings.fair_key)
        return None if value is None else (type(value).__name__, value)  # type: ignore[return-value]

    def capped(self, message: OracleMessage) -> bool:
        """Return whether enough of the queue or of the message's key is in delivery."""
        settings = self.settings
        if 0 <= settings.in_flight_max <= len(self.out()):
            return True
        if settings.in_flight_per_key < 0:
            return False
        key = self.fair_key_of(message)
        return sum(self.fair_key_of(d.message) == key for d in self.out()) >= settings.in_flight_per_key

    def update_rotation(self, pending: list[OracleMessage]) -> None:
        """Keys join at the end when something of them is pending and leave when nothing is. Call after each change."""
        if not self.settings.fair_key:
            return
        there = [self.fair_key_of(message) for message in pending]
        for key in [key for key in self.rotation if key not in there]:
            self.rotation.remove(key)
            self.room.pop(key, None)
        for key in there:
            if key not in self.rotation:
                self.rotation.append(key)

    def note_turn(self, message: OracleMessage) -> None:
        """Note a delivered or pulled message: its key's turn ends after one message, or when its room is used up.

        The excess is deducted from the next turn, which always has room for one message.
        """
        key = self.fair_key_of(message)
        self.room[key] = self.room.get(key, self.settings.fair_quantum) - max(message.size, 1)
        if self.settings.fair_quantum == 0 or self.room[key] <= 0:
            self.room[key] = max(self.room[key] + self.settings.fair_quantum, 1)
            self.rotation.remove(key)
            self.rotation.append(key)

    # ------------------------------------------------------------------ the choice

    def choose(self, candidates: list[OracleConsumer]) -> OracleConsumer | None:
        """Return the candidate with the highest priority whose turn is next."""
        for priority in sorted({consumer.priority for consumer in candidates}, reverse=True):
            level = self._of_priority(priority)
            start = level.index(self.turns[priority])
            for consumer in [*level[start:], *level[:start]]:
                if consumer in candidates:
                    return consumer
        return None

    def next_delivery(self, pending: list[OracleMessage]) -> tuple[OracleMessage, OracleConsumer] | None:
        """Return the first deliverable message, and its consumer. Pending is in the queue's order."""
        self.update_live()
        waiting: list[OracleConsumer] = []  # whose byte window lacks room for a message: they get nothing behind it
        for message in self.in_turn(pending):
            if self.capped(message):
                continue
            willing = [
                consumer
                for consumer in self.live
                if consumer in self.consumers
                and consumer not in waiting
                and self.has_turn_left(consumer)
                and self.wants(consumer, message)
                and self.group_allows(consumer, message)
            ]
            chosen = self.choose([consumer for consumer in willing if self.has_bytes_left(consumer, message.size)])
            if chosen is not None:
                return message, chosen
            waiting.extend(willing)
        return None

    def in_turn(self, pending: list[OracleMessage]) -> list[OracleMessage]:
        """Return pending messages in order of dispatch: fair keys by turn, within a key in the queue's order."""
        if not self.settings.fair_key:
            return pending
        return sorted(pending, key=lambda message: self.rotation.index(self.fair_key_of(message)))

    # ------------------------------------------------------------------ reading without taking

    def shows(self, consumer: OracleConsumer, message: OracleMessage) -> bool:
        """Return whether a browser or a non-destructive consumer is still to see a message."""
        if message.number in consumer.seen or message.state == GONE or not self.wants(consumer, message):
            return False
        if not consumer.browse or message.number in consumer.there_at_attach:
            return True
        return consumer.browse == BROWSE_FOLLOW and message.arrived > consumer.arrivals_before

    def read_rows(self, consumer: OracleConsumer) -> None:
        """Note that a browser which has just attached reads rows, level by level.

        Arrivals of any level are shown after the present messages, and so are messages moved by an operator.
        """
        consumer.batch = set(consumer.there_at_attach)

    def note_hidden(self, message: OracleMessage) -> None:
        """Note that an operator will move a message behind all others: a reader that skipped it, because it waited for
        its redelivery when the reader attached, does not see it there either."""
        for consumer in self.consumers:
            hidden = message.number not in consumer.there_at_attach and message.arrived <= consumer.arrivals_before
            if consumer.browse and hidden:
                consumer.seen.add(message.number)

    def note_move(self, message: OracleMessage) -> None:
        """Note that an operator moved a message behind all others: also for readers of rows that have not seen it."""
        for consumer in self.consumers:
            if consumer.batch is not None:
                consumer.batch.discard(message.number)

    def to_see(self, consumer: OracleConsumer, pending: list[OracleMessage]) -> list[OracleMessage]:
        """Return the unseen messages of a reader, in order; for a reader of rows only the rest of its batch.

        Its next batch has the messages present when it has seen all of the last one and has credit for more.
        """
        unseen = [message for message in pending if self.shows(consumer, message)]
        if consumer.batch is None:
            return unseen
        left = [message for message in unseen if message.number in consumer.batch]
        if left or not self.has_turn_left(consumer):
            return left
        consumer.batch = {message.number for message in unseen}
        return unseen

    def next_copy(
        self, pending: list[OracleMessage], *, everybody: bool
    ) -> tuple[OracleMessage, OracleConsumer] | None:
        """Return the next unseen messages of a browser (``everybody``: or any other consumer of a non-destructive
        queue)."""
        self.update_live()
        for consumer in self.consumers:
            if not consumer.browse and not (everybody and consumer in self.live):
                continue
            following = next(iter(self.to_see(consumer, pending)), None)
            if following is None:
                continue
            if self.has_turn_left(consumer) and self.has_bytes_left(consumer, following.size):
                return following, consumer
        return None
