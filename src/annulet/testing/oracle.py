"""A queue written for clarity: one list, every rule spelled out. The core is compared with it step by step.

Shares no code with the core. Times are milliseconds, sizes bytes, -1 means no limit.
"""

from __future__ import annotations

from dataclasses import dataclass, field

PENDING, DELIVERING, GONE = "pending", "delivering", "gone"


@dataclass(eq=False)
class OracleMessage:
    """One message, from its arrival on; ``number`` is its place."""

    number: int
    key: str | None
    size: int
    expires_at: int  # 0 = never
    state: str = PENDING
    returns: int = 0
    holder: OracleConsumer | None = None


@dataclass(eq=False)
class OracleSession:
    """One client: what it holds by tag, and what its consumers may hold together."""

    messages_max: int = -1
    writable: bool = True
    last_tag: int = 0
    held: dict[int, OracleMessage] = field(default_factory=dict)
    in_transaction: list[tuple[int, OracleMessage, str]] = field(default_factory=list)
    received: list[tuple[int, int]] = field(default_factory=list)  # (tag, number)


@dataclass(eq=False)
class OracleConsumer:
    """One subscription."""

    session: OracleSession
    tag: str
    messages_max: int
    bytes_max: int
    automatic: bool
    priority: int


class QueueOracle:
    """One queue as design §2 describes it."""

    def __init__(self, *, ring: int, keyed: bool, keep: int, ttl: int) -> None:
        self.ring = ring
        self.keyed = keyed
        self.keep = keep
        self.ttl = ttl
        self.messages: list[OracleMessage] = []  # every message ever accepted
        self.consumers: list[OracleConsumer] = []  # in order of attachment
        self.turns: dict[int, OracleConsumer] = {}  # whose turn it is, by priority
        self.reasons: dict[str, int] = {}

    # ------------------------------------------------------------------ questions

    def pending(self) -> list[OracleMessage]:
        """Return what waits, oldest first."""
        return [message for message in self.messages if message.state == PENDING]

    def held_by(self, consumer: OracleConsumer) -> list[OracleMessage]:
        """Return what a consumer has and did not settle."""
        return [m for m in self.messages if m.state == DELIVERING and m.holder is consumer]

    def may_take(self, consumer: OracleConsumer, size: int) -> bool:
        """Say whether a consumer has room for a message of this size."""
        session = consumer.session
        if not session.writable:
            return False
        if consumer.automatic:
            return True
        held = self.held_by(consumer)
        if 0 <= consumer.messages_max <= len(held):
            return False
        held_bytes = sum(message.size for message in held)
        if consumer.bytes_max >= 0 and held_bytes and held_bytes + size > consumer.bytes_max:
            return False
        shared = [m for m in self.messages if m.state == DELIVERING and m.holder and m.holder.session is session]
        return not 0 <= session.messages_max <= len(shared)

    def superseded(self, message: OracleMessage) -> bool:
        """Say whether ``keep`` newer messages of its key arrived since."""
        if not self.keyed or message.key is None:
            return False
        return sum(1 for m in self.messages[message.number :] if m.key == message.key) >= self.keep

    # ------------------------------------------------------------------ commands

    def publish(self, key: str | None, size: int, expires_at: int, now: int) -> None:
        """Accept a message."""
        self.expire(now)
        waiting_before = len(self.pending())
        if self.ttl >= 0:
            expires_at = min(expires_at or now + self.ttl, now + self.ttl)
        message = OracleMessage(len(self.messages) + 1, key, size, expires_at)
        self.messages.append(message)
        for older in self.pending():
            if self.superseded(older):
                self.remove(older, "replaced-key")
        if 0 < expires_at < now:  # in its transaction, so nobody may have it
            self.remove(message, "expired")
        self.dispatch()
        if message.state == PENDING and 0 < expires_at <= now:
            self.remove(message, "expired")
        if 0 <= self.ring < len(self.pending()) and len(self.pending()) > waiting_before:
            self.remove(self.pending()[0], "replaced-ring")
            self.dispatch()

    def attach(self, consumer: OracleConsumer, now: int) -> None:
        """Start a consumer."""
        self.consumers.append(consumer)
        self.turns.setdefault(consumer.priority, consumer)
        self.expire(now)
        self.dispatch()

    def cancel(self, consumer: OracleConsumer) -> None:
        """End a consumer; it keeps what it holds."""
        level = [other for other in self.consumers if other.priority == consumer.priority]
        if self.turns[consumer.priority] is consumer:
            del self.turns[consumer.priority]
            if len(level) > 1:
                self.turns[consumer.priority] = level[(level.index(consumer) + 1) % len(level)]
        self.consumers.remove(consumer)

    def get(self, session: OracleSession, now: int, *, automatic: bool) -> None:
        """Pull one message."""
        self.expire(now)
        waiting = self.pending()
        if not waiting:
            return
        waiting[0].state = DELIVERING
        self.dispatch()  # the next one may fit where this one did not
        session.last_tag += 1
        session.received.append((session.last_tag, waiting[0].number))
        if automatic:
            self.remove(waiting[0], "acknowledged")
        else:
            session.held[session.last_tag] = waiting[0]

    def take(self, session: OracleSession, tag: int, *, multiple: bool) -> list[tuple[int, OracleMessage]]:
        """Take deliveries out of a session: one, or all up to a tag."""
        tags = [held for held in session.held if held == tag or (multiple and (held <= tag or tag == 0))]
        return [(held, session.held.pop(held)) for held in sorted(tags)]

    def settle(self, messages: list[OracleMessage], reason: str, now: int) -> None:
        """Finish deliveries."""
        for message in messages:
            if message.state == DELIVERING:
                self.remove(message, reason)
        self.expire_first(now)
        self.dispatch()

    def give_back(self, messages: list[OracleMessage], now: int) -> None:
        """Put deliveries back, serve, and drop the oldest of them that the ring has no room for."""
        returned = []
        for message in sorted(messages, key=lambda m: m.number):
            message.returns += 1
            message.holder = None
            message.state = PENDING
            if 0 < message.expires_at <= now:
                self.remove(message, "expired")
            elif self.superseded(message):
                self.remove(message, "replaced-key")
            else:
                returned.append(message)
        self.expire(now)
        self.dispatch()
        for message in returned:
            if message.state == PENDING and 0 <= self.ring < len(self.pending()):
                self.remove(message, "replaced-ring")
        self.dispatch()

    def close(self, session: OracleSession, now: int) -> None:
        """End a session."""
        for consumer in [consumer for consumer in self.consumers if consumer.session is session]:
            self.cancel(consumer)
        held = [*session.held.values(), *(message for _, message, _ in session.in_transaction)]
        session.held.clear()
        session.in_transaction.clear()
        self.give_back(held, now)

    def commit(self, session: OracleSession, sends: list[tuple[str | None, int, int]], now: int) -> None:
        """Publish, then acknowledge, then requeue, then drop."""
        for key, size, expires_at in sends:
            self.publish(key, size, expires_at, now)
        settled, session.in_transaction = session.in_transaction, []
        self.settle([message for _, message, how in settled if how == "acknowledge"], "acknowledged", now)
        back = [message for _, message, how in settled if how == "requeue"]
        if back:
            self.give_back(back, now)
        dropped = [message for _, message, how in settled if how == "drop"]
        if dropped:
            self.settle(dropped, "rejected", now)

    def rollback(self, session: OracleSession) -> None:
        """Give the collected deliveries back to the session."""
        for tag, message, _ in session.in_transaction:
            session.held[tag] = message
        session.in_transaction = []
        session.held = dict(sorted(session.held.items()))

    def purge(self) -> None:
        """Drop what waits."""
        for message in self.pending():
            self.remove(message, "purged")

    def resize(self, ring: int, *, trim: bool) -> None:
        """Change the ring's size."""
        self.ring = ring
        while trim and 0 <= ring < len(self.pending()):
            self.remove(self.pending()[0], "replaced-ring")
        self.dispatch()

    # ------------------------------------------------------------------ rules

    def expire(self, now: int) -> None:
        """Drop what waits beyond its time."""
        for message in self.pending():
            if 0 < message.expires_at <= now:
                self.remove(message, "expired")

    def expire_first(self, now: int) -> None:
        """Drop expired messages from the head while somebody could be served from it."""
        if self.consumers:
            while (waiting := self.pending()) and 0 < waiting[0].expires_at <= now:
                self.remove(waiting[0], "expired")

    def dispatch(self) -> None:
        """Serve consumers: highest priority first, in turn within one."""
        for message in self.pending():
            consumer = self._choose(message.size)
            if consumer is None:
                return
            session = consumer.session
            session.last_tag += 1
            session.received.append((session.last_tag, message.number))
            if consumer.automatic:
                self.remove(message, "acknowledged")
            else:
                message.state = DELIVERING
                message.holder = consumer
                session.held[session.last_tag] = message

    def remove(self, message: OracleMessage, reason: str) -> None:
        """Let a message go for one reason."""
        message.state = GONE
        self.reasons[reason] = self.reasons.get(reason, 0) + 1

    def _choose(self, size: int) -> OracleConsumer | None:
        for priority in sorted({consumer.priority for consumer in self.consumers}, reverse=True):
            level = [consumer for consumer in self.consumers if consumer.priority == priority]
            start = level.index(self.turns[priority])
            for consumer in [*level[start:], *level[:start]]:
                if self.may_take(consumer, size):
                    self.turns[priority] = level[(level.index(consumer) + 1) % len(level)]
                    return consumer
        return None
