"""Fair dispatch: the values of a property take turns (deficit round robin), each with a cap of messages in delivery.

A key joins the end of the ring when its first message waits. A turn lasts one message, or, with a quantum, until that
many body bytes were sent; the excess of a turn is deducted from the key's next turn, which still has room for one
message. A key without a deliverable message (cap reached, no matching consumer) is skipped and keeps its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from annulet.core.policies.expiring_turns import ExpiringTurns
from annulet.core.policies.last_per_key import key_of

if TYPE_CHECKING:
    from annulet.core.base.settings import QueueSettings
    from annulet.core.message.message import Message
    from annulet.core.model.entry import Key, QueueEntry
    from annulet.core.ordering.lane import Lane


class FairKey:
    """One value of the key; ``None`` for messages without it."""

    __slots__ = ("budget", "in_delivery", "key", "lanes", "pending", "turn")

    def __init__(self, key: Key | None) -> None:
        self.key = key
        self.budget = 0  # body bytes left of this turn
        self.in_delivery = 0
        self.pending = 0
        self.turn = 0  # the lowest of all keys with pending messages is served first
        self.lanes: list[Lane] = []


class Fairness:
    """The keys of one queue and whose turn it is.

    Turns are numbers, so that a key keeps its place while it is skipped. Shelves keep their keys by turn, so
    undeliverable keys are not examined.
    """

    def __init__(self, settings: QueueSettings) -> None:
        self._property = settings.fair_key
        self._quantum = settings.fair_quantum
        self._cap = settings.in_flight_per_key
        self._keys: dict[Key | None, FairKey] = {}
        self._next_turn = 0
        self.moving = False  # messages only change their lanes
        self._expiring: ExpiringTurns | None = None  # while expired messages are removed in slices

    def expiry_begins(self, now: int, newest: int) -> None:
        """Expired messages are removed in slices from now on, before any dispatch. ``newest``: the last sequence."""
        if self._expiring is None:
            self._expiring = ExpiringTurns(newest)
        self.note_time(now)

    def note_time(self, now: int) -> None:
        """Note the time of what arrives next, in milliseconds since 1970."""
        if self._expiring is not None:
            self._expiring.now = max(self._expiring.now, now)

    def expiry_ends(self) -> None:
        """Nothing that has expired is left."""
        self._expiring = None

    def key_for(self, message: Message) -> FairKey:
        """Return the key of a message, made when it is new."""
        value = key_of(message.origin.view.application_property(message, self._property))
        key = self._keys.get(value)
        if key is None:
            key = FairKey(value)
            self._keys[value] = key
        return key

    def known(self) -> list[FairKey]:
        """Return the keys of which messages are in the queue."""
        return list(self._keys.values())

    def capped(self, key: FairKey) -> bool:
        """Return whether as much of the key is in delivery as may be."""
        return 0 <= self._cap <= key.in_delivery

    def arrived(self, key: FairKey, entry: QueueEntry) -> None:
        """A message of the key waits."""
        key.pending += 1
        expiring = self._expiring
        if key.pending == 1:
            if expiring is not None:
                expiring.began(key, entry)
            key.budget = self._quantum
            self._to_the_end(key)
        elif expiring is not None and not self.moving:
            self._give_turn(key, expiring.arrived(key, entry, self._next_turn))
            self._next_turn += 1

    def left(self, key: FairKey, entry: QueueEntry) -> bool:
        """A message of the key waits no more: taken or removed. Returns whether the key has another turn now."""
        key.pending -= 1
        expiring = self._expiring
        return expiring is not None and not self.moving and self._give_turn(key, expiring.left(key, entry))

    def cleared(self, key: FairKey, count: int) -> None:
        """So many messages of the key wait no more, which are all of a lane of it."""
        key.pending -= count
        if self._expiring is not None:
            self._expiring.forget(key)

    def _give_turn(self, key: FairKey, turn: int) -> bool:
        """Let the key have a turn. Returns whether it is another one."""
        if turn == key.turn:
            return False
        key.turn = turn
        key.budget = self._quantum
        return True

    def served(self, key: FairKey, size: int) -> None:
        """A message of ``size`` body bytes was dispatched in the key's turn."""
        key.budget -= max(1, size) if self._quantum else 1
        if key.budget <= 0 and key.pending:
            key.budget = max(1, self._quantum + key.budget)
            self._to_the_end(key)

    def in_turn(self) -> list[FairKey]:
        """Return the keys with pending messages, those at their cap included, by turn. O(keys log keys)."""
        return sorted((key for key in self._keys.values() if key.pending), key=_turn_of)

    def _to_the_end(self, key: FairKey) -> None:
        key.turn = self._next_turn
        self._next_turn += 1

    def forget_if_idle(self, key: FairKey) -> None:
        """Drop a key of which nothing is in the queue."""
        if key.pending == 0 and key.in_delivery == 0:
            self._keys.pop(key.key, None)
            if self._expiring is not None:
                self._expiring.forget(key)


def _turn_of(key: FairKey) -> int:
    return key.turn
