"""Turns of fair keys while very many messages expire in slices.

A fair key loses its turn when its last message goes. If all that has expired went at once, an arrival would find its
key empty, or not. While expired messages are removed in slices, some of them are still there when it comes. So whether
the key has kept its turn is known only when they are gone: if one of them lived longer than until that arrival. Nothing
is dispatched before the last slice, so nobody sees the turn earlier.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from annulet.core.model.entry import QueueEntry
    from annulet.core.policies.fair_keys import FairKey

FOREVER: Final = 1 << 62
"""When a message without a time to live expires (milliseconds since 1970)."""


class DoubtfulKey:
    """A fair key that got a message while others of it were there, expired ones perhaps.

    Its ``earlier`` messages were there before the first of these. ``gap_at``: when the latest message came that found
    all later ones expired, and ``gap_turn`` the turn that the key has from then on if no earlier one did.
    """

    __slots__ = ("came_back", "earlier", "earlier_until", "from_sequence", "gap_at", "gap_turn", "until")

    def __init__(self, earlier: int, from_sequence: int) -> None:
        self.earlier = earlier
        self.earlier_until = 0  # the last time of those of them that are gone
        self.from_sequence = from_sequence  # of later arrivals
        self.came_back: set[int] = set()  # sequences below it of messages that were not there
        self.until = 0  # the last time of the later messages
        self.gap_at = 0
        self.gap_turn = -1


class ExpiringTurns:
    """The doubtful keys of one queue, from the first slice of an expiry to the last."""

    def __init__(self, newest: int) -> None:
        self.now = 0  # the latest time that the queue was told, milliseconds since 1970
        self._newest = newest  # sequence of the last message that has come
        self._keys: dict[FairKey, DoubtfulKey] = {}

    def arrived(self, key: FairKey, entry: QueueEntry, next_turn: int) -> int:
        """Note a message of a key that has others. Returns the turn that the key has now.

        ``next_turn``, if it has lost its own; that number is used up then or later.
        """
        doubt = self._keys.get(key)
        if doubt is None:
            doubt = self._keys[key] = DoubtfulKey(key.pending - 1, self._newest + 1)
        self._newest = max(self._newest, entry.sequence)
        if entry.sequence < doubt.from_sequence:
            doubt.came_back.add(entry.sequence)
        turn = key.turn
        if doubt.until <= self.now:
            doubt.gap_at, doubt.gap_turn = self.now, next_turn
            if doubt.earlier == 0:
                turn = next_turn
        doubt.until = max(doubt.until, _end_of(entry))
        return turn

    def left(self, key: FairKey, entry: QueueEntry) -> int:
        """Note that a message of a key is gone. Returns the turn that the key has now."""
        doubt = self._keys.get(key)
        if doubt is None or entry.sequence >= doubt.from_sequence:
            return key.turn
        if entry.sequence in doubt.came_back:
            doubt.came_back.discard(entry.sequence)
            return key.turn
        doubt.earlier -= 1
        doubt.earlier_until = max(doubt.earlier_until, _end_of(entry))
        lost = doubt.earlier == 0 and doubt.earlier_until <= doubt.gap_at
        return doubt.gap_turn if lost else key.turn

    def began(self, key: FairKey, entry: QueueEntry) -> None:
        """Note the only message of a key."""
        self._newest = max(self._newest, entry.sequence)
        self.forget(key)

    def forget(self, key: FairKey) -> None:
        """A key has no other message: what was before does not matter any more."""
        self._keys.pop(key, None)


def _end_of(entry: QueueEntry) -> int:
    return entry.queue.expires_at(entry) or FOREVER
