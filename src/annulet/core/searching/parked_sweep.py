"""Forgetting parked sequences whose messages have left the stock as rows: no consumer was chosen for their group then.

Looked for only where they are many, and some with each message that leaves, so that no turn is long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from annulet.core.policies.message_groups import Group
    from annulet.core.searching.grouped_lanes import GroupedLanes

STALE_MAX: Final = 4096
"""Parked sequences more than there are messages behind the lanes before they are looked through: 32 KiB."""

STALE_SHARE: Final = 4
"""Beside these one for so many messages behind the lanes: else few of very many would be looked for again and again."""

LOOKS_PER_STALE: Final = 8
"""Sequences that are looked at for each that went stale. With the above no more are ever stale than ``STALE_MAX`` twice
and as many as there are messages behind the lanes."""

SWEEP_LEAST: Final = 2048
"""Looks that are due before any is made: each sweep first notes the messages aside."""

SWEEP_MAX: Final = 4096
"""Looks of one sweep at most, some 10 ms where nothing is compiled; the next goes on there. Fewer where much is in
memory, see ``SEARCHED``."""

SEARCHED: Final = 16_384
"""Messages of the stock in memory that make one look in them as dear as one at a row."""


class ParkedSweep:
    """Goes round all groups with parked sequences, and remembers where it came to."""

    def __init__(self, lanes: GroupedLanes) -> None:
        self.stale_least = STALE_MAX
        self.looks_least = SWEEP_LEAST
        self.looks_max = SWEEP_MAX
        self._lanes = lanes
        self._round: list[Group] = []  # groups still to be looked at, the next one last
        self._reached = 0  # sequences of the next one below that were looked at
        self._stale = 0
        self._due = 0  # looks to be made

    def follow(self, parked: int, stocked: int) -> None:
        """Look through some of the ``parked`` sequences if they are too many for ``stocked`` messages."""
        stale = parked - stocked
        grown, self._stale = stale - self._stale, stale
        if stale <= self.stale_least + stocked // STALE_SHARE:
            self._due = 0
            return
        self._due += LOOKS_PER_STALE * max(0, grown)
        if self._due >= self.looks_least:
            self._due -= self._sweep(min(self._due, self.looks_max))
            self._stale = self._lanes.parked - stocked

    def _sweep(self, looks: int) -> int:
        """Make so many looks, or fewer where they are dear or everything was looked at. Returns how many count."""
        lanes = self._lanes
        stock = lanes.standing_stock()
        looks = max(1, looks // (1 + (stock.count - stock.paged_count()) // SEARCHED))
        first = stock.first_sequence()
        aside = {entry.sequence for entry in stock.aside()}

        def standing(sequences: Sequence[int]) -> list[int]:
            return [
                sequence
                for sequence in sequences
                if stock.has_row(sequence) or sequence in aside or stock.standing(sequence) is not None
            ]

        made = 0
        if not self._round:
            self._begin_round()
        while made < looks and self._round:
            group = self._round[-1]
            known = group.parked_sequences
            looked = 0
            if known is not None:
                before = known.count
                known.drop_below(first)
                looked, self._reached = known.sift(self._reached, looks - made, standing)
                lanes.forgot_parked(group, before - known.count)
            if not looked or group.parked_sequences is None:
                self._round.pop()
                self._reached = 0
            made += 1 + looked
        return made

    def _begin_round(self) -> None:
        self._round = [group for holding in self._lanes.holdings() for group in holding.backlog]
        self._reached = 0
