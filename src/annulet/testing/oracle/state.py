"""The oracle's state of one queue, and queries answered by scanning the messages."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, inf

from annulet.core.base.settings import COUNT_ALL, DEFAULT_RESUME_PERCENT, OVERFLOW_REJECT, QueueSettings
from annulet.testing.oracle.dispatching import OracleDispatching
from annulet.testing.oracle.ranking import SUPERSEDING, expiry_of
from annulet.testing.oracle.records import DELIVERING, PENDING, SCHEDULED, OracleMessage


class OracleState:
    """The messages, their deliveries, and the history. The commands of ``QueueOracle`` change it."""

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
