"""Looking in turns at a queue that has nothing on disk: very many messages in memory, and a selector that is new.

Its stock (see :mod:`annulet.core.searching.deep_lanes`) is the order it had, whose rows are none. A broker gives it the
turns it gives to deep queues; where there are none to be had the looks are sliced work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from annulet.core.base.expiry_times import NEVER
from annulet.core.base.sliced_work import SlicedWork
from annulet.core.model.queue_area import QueueArea

if TYPE_CHECKING:
    from collections.abc import Callable

    from annulet.core.message.message import Origin
    from annulet.core.model.entry import QueueEntry
    from annulet.core.policies.queue_policies import QueuePolicies
    from annulet.core.searching.deep_lanes import DeepLanes


class EmptyArea(QueueArea):
    """The rows of a queue that has none, because it need not or may not page."""

    def renewed(self) -> QueueArea:
        """Return another one."""
        return EmptyArea()

    def has_row(self, sequence: int) -> bool:
        """Return false."""
        del sequence
        return False

    def timed(self) -> bool:
        """Say yes: it is known of all."""
        return True

    def first_expiry(self, now: int) -> tuple[int, int]:
        """Return that none expires."""
        del now
        return NEVER

    def retime(self) -> None:
        """Nothing is there."""

    def take_expired(self, before: tuple[int, int], limit: int, *, read: bool) -> list[QueueEntry]:
        """Return none."""
        del before, limit, read
        return []

    def tally(self, name_of: Callable[[Origin], str], below: int) -> dict[str, tuple[int, int]]:
        """Return that there are none."""
        del name_of, below
        return {}

    def entries_kept(self) -> list[QueueEntry]:
        """Return none."""
        return []

    def sweep(self) -> None:
        """Nothing is there."""

    def clear(self) -> None:
        """Nothing is there."""

    def room(self) -> int:
        """Return 0, which is enough for nothing."""
        return 0

    def redelivered_ranges(self) -> list[tuple[int, int]]:
        """Return none."""
        return []


class StockWalk(SlicedWork):
    """The looks of a queue's walks, one a slice, until they have come to the end or wait for credit."""

    def __init__(self, queue: QueuePolicies, lanes: DeepLanes) -> None:
        super().__init__()
        self._queue = queue
        self._lanes = lanes

    def step(self, now: int) -> bool:
        """Look once; where the lanes were replaced in between, so that a caller waiting for the looks is told of their
        end."""
        if self._queue.scan(now) and self._queue.lanes is self._lanes:
            return True
        self._lanes.looking = False
        return False

    def abandon(self, now: int) -> None:
        """Let the next dispatch begin anew."""
        del now
        self._lanes.looking = False
