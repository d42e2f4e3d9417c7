"""Settlements of very many deliveries by one command: done in slices, so that no other work waits for all of them.

AMQP 0-9-1 has no answer to an acknowledgement, and until a delivery is settled no other consumer gets it: the rest of
such a command shows only in the counts. The credit of its consumers comes back with each slice.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from annulet.core.base.sliced_work import SLICE_MESSAGES, SlicedWork
from annulet.core.model.compact_messages import entry_in, queue_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from annulet.core.model.compact_messages import Slot
    from annulet.core.model.entry import QueueEntry
    from annulet.core.model.queue_state import QueueState
    from annulet.core.queue.queue import Queue
    from annulet.core.sessions.session import Session


class Settling(SlicedWork):
    """Deliveries of a session that are acknowledged, or ``rejected`` without requeue. They are in no table any more.

    ``taken`` by ascending tag.
    """

    def __init__(self, session: Session, taken: list[Slot], *, rejected: bool) -> None:
        super().__init__()
        self.rejected = rejected
        self._left = deque(taken)
        self._following: list[QueueEntry] = []  # of the slice that is being done
        self._session = session
        session.settling.append(self)

    def add(self, taken: list[Slot]) -> None:
        """Settle these behind the others."""
        self._left.extend(taken)

    def step(self, now: int) -> bool:
        """Settle the next ones, then serve the consumers with new credit."""
        left = self._left
        self._following = following = [entry_in(left.popleft()) for _ in range(min(SLICE_MESSAGES, len(left)))]
        if self.rejected:
            self._session.reject_entries(following, now, requeue=False)
        else:
            self._session.acknowledge_entries(following, now)
        if left:
            return True
        self._session.settling.remove(self)
        return False

    def settle_all_of(self, queue: QueueState, now: int) -> None:
        """Settle now the deliveries of a queue, and serve no consumer.

        The slices come to it, too, and find it settled.
        """
        for slot in self._left:
            if queue_of(slot) is queue:
                entry = entry_in(slot)
                if self.rejected:
                    queue.reject(entry, now)
                else:
                    queue.acknowledge(entry)

    def abandon(self, now: int) -> None:
        """Have the session return the unsettled deliveries: it is in no table, and would wait for a restart."""
        self._session.settling.remove(self)
        self._session.settlement_failed([*self._following, *[entry_in(slot) for slot in self._left]], now)


def may_take_turns(queues: Iterable[Queue]) -> bool:
    """Return whether nothing is refused or dropped because some deliveries of these queues are settled a little later.

    Limits of a queue and of addresses may count deliveries.
    """
    return all(queue.limits is None and queue.accounts is None for queue in queues)
