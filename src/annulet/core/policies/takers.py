"""The consumers that a dispatch may serve, in their turn, with the bits of all of them together.

Thousands of consumers with selectors may wait on one queue. To look at each of them for each message costs
milliseconds a message, so the union of their bits answers first, and where few of them can be meant only those are
looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from annulet.core.model.consumer import Consumer
    from annulet.core.ordering.lane import Shelf

MANY: Final = 128
"""Consumers up to which all are looked at one by one: to find some of them by their bits costs as much."""

FEW: Final = 32
"""Bits that are looked up one by one; where more are open, the first consumers in turn are likely among them."""

STEP_CONSUMERS: Final = 256
"""Consumers on a queue for which a step of dispatch counts as one more: some 0.1 ms."""


class Takers:
    """Consumers that are ready, in turn. It holds as long as none of them is given a message or begins to wait."""

    __slots__ = ("_all", "_by_bit", "_free", "_particular", "_ready", "_unconditional", "_wanted", "consumers")

    def __init__(self, consumers: list[Consumer]) -> None:
        wanted = everything = 0
        unconditional = False
        particular: list[Consumer] = []
        for consumer in consumers:
            if consumer.refused:
                particular.append(consumer)
                everything |= consumer.required
            elif consumer.required:
                wanted |= consumer.required
            else:
                unconditional = True
        self.consumers = consumers
        self._unconditional = unconditional
        self._wanted = wanted  # bits of those that have refused nothing for themselves
        self._all = wanted | everything
        self._particular = particular
        self._ready: set[Consumer] | None = None
        self._by_bit: dict[int, list[int]] | None = None
        self._free: list[int] = []  # places of consumers that the index by bit lacks

    @property
    def weight(self) -> int:
        """How much a step counts beside the message it is for."""
        return len(self.consumers) // STEP_CONSUMERS

    @property
    def unselective(self) -> bool:
        """Return whether one of them takes every message, but for those it refused."""
        return self._unconditional or any(not consumer.required for consumer in self._particular)

    def may_take_from(self, shelf: Shelf) -> bool:
        """Return whether one of them may get a message of a shelf, or may prove to match."""
        owner = shelf.owner
        blocked = shelf.blocked
        if owner is not None:
            if self._ready is None:
                self._ready = set(self.consumers)
            return owner in self._ready and not blocked & (owner.required | owner.refused)
        if not self.consumers:
            return False
        if not blocked or self._unconditional or self._wanted & ~blocked:
            return True
        return any(not blocked & (consumer.required | consumer.refused) for consumer in self._particular)

    def places_open(self, blocked: int) -> list[int] | None:
        """Return the places, in turn, of consumers with a bit outside ``blocked``; ``None``: look at all of them."""
        if len(self.consumers) <= MANY:
            return None
        bits = self._wanted & ~blocked
        if bits.bit_count() > FEW:
            return None
        if self._by_bit is None:
            self._by_bit = self._index()
        places = self._free.copy()
        while bits:
            bit = bits & -bits
            places += self._by_bit[bit]
            bits -= bit
        if len(places) == len(self.consumers):
            return None
        places.sort()
        return places

    def bits_among(self, bits: int) -> int:
        """Return the bits of these that are the condition of a consumer."""
        return self._all & bits

    def _index(self) -> dict[int, list[int]]:
        by_bit: dict[int, list[int]] = {}
        for place, consumer in enumerate(self.consumers):
            if consumer.required and not consumer.refused:
                by_bit.setdefault(consumer.required, []).append(place)
            else:
                self._free.append(place)
        return by_bit
