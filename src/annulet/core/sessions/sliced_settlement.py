"""Settlements of very many deliveries by one command: done in slices, so that no other work waits for all of them.

Until a delivery is settled no other consumer gets it: the rest of such a command shows only in the counts. The credit
of its consumers comes back with each slice. Where limits of a queue or of an address count deliveries, a message that
they would refuse or drop has the next slices done first.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from annulet.core.base.sliced_work import SLICE_MESSAGES
from annulet.core.model.compact_messages import entry_in, queue_of
from annulet.core.model.entry import DELIVERING, DeliveryCopy
from annulet.core.model.queue_listeners import SettlementWork
from annulet.core.queue.entries import ACKNOWLEDGED
from annulet.core.queue.queue import as_queue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from annulet.core.model.compact_messages import Slot
    from annulet.core.model.entry import QueueEntry
    from annulet.core.model.queue_state import QueueState
    from annulet.core.sessions.session import Session

SLICE_REJECTED: Final = 100
"""Messages of one slice that are rejected: each makes a record of its loss, or a copy for the dead-letter target, which
takes ten times as long as an acknowledgement."""


class Command:
    """The deliveries of one command that are not settled yet, by ascending tag.

    ``before`` is called with each when its turn has come, ``done`` after the last. It settles nothing of the queues
    that were deleted before it.
    """

    __slots__ = ("before", "deleted", "done", "left")

    def __init__(
        self, taken: Iterable[Slot], before: Callable[[QueueEntry], None] | None, done: Callable[[], None] | None
    ) -> None:
        self.left = deque(taken)
        self.deleted: list[QueueState] = []
        self.before = before
        self.done = done


class Settling(SettlementWork):
    """Deliveries of a session that are acknowledged, or ``rejected`` without requeue. They are in no table any more.

    ``queues``: whose deliveries they are.
    """

    def __init__(
        self, session: Session, command: Command, queues: Iterable[QueueState], now: int, *, rejected: bool
    ) -> None:
        super().__init__()
        self.rejected = rejected
        self._commands = deque([command])
        self._following: list[QueueEntry] = []  # of the slice that is being done
        self._hurried: list[QueueEntry] = []  # settled for a sender; their consumers are not served yet
        self._session = session
        self._begun_at = now
        self._entered: dict[int, list[SettlementWork]] = {}  # lists of queues and accounts that have this, by identity
        session.settling.append(self)
        self._register(command, queues)

    def add(self, command: Command, queues: Iterable[QueueState]) -> None:
        """Settle these behind the others."""
        self._commands.append(command)
        self._register(command, queues)

    def _register(self, command: Command, queues: Iterable[QueueState]) -> None:
        for queue in queues:
            if queue.deleted:
                command.deleted.append(queue)
                continue
            self._enter(queue.settling)
            if queue.accounts is not None:
                self._enter(queue.accounts.settling)

    def _enter(self, works: list[SettlementWork]) -> None:
        if id(works) not in self._entered:
            self._entered[id(works)] = works
            works.append(self)

    def step(self, now: int) -> bool:
        """Settle the next ones, then serve the consumers with new credit."""
        command = self._commands[0]
        self._take(command)
        following = self._following
        for entry in following:
            if entry.queue.deleted:
                self._settle(command, entry, now)
                entry.queue.finish(now)
        if self.rejected:
            self._session.reject_entries(following, now, requeue=False)
        else:
            self._session.acknowledge_entries(following, now)
        hurried, self._hurried = self._hurried, []
        if hurried:
            self._session.wake_after(hurried, now)
        if command.left:
            return True
        self._commands.popleft()
        if not self._commands:
            self._end()
        if command.done is not None:
            command.done()
        return bool(self._commands)

    def _take(self, command: Command) -> None:
        left, before = command.left, command.before
        most = SLICE_REJECTED if self.rejected else SLICE_MESSAGES
        self._following = [entry_in(left.popleft()) for _ in range(min(most, len(left)))]
        if before is not None:
            for entry in self._following:
                before(entry)

    def _end(self) -> None:
        self._session.settling.remove(self)
        for works in self._entered.values():
            works.remove(self)

    def hurry(self) -> bool:
        """Settle the next ones for a sender that needs room, and serve no consumer. Returns whether there were any."""
        for command in self._commands:
            if command.left:
                self._take(command)
                for entry in self._following:
                    self._settle(command, entry, self._begun_at)
                self._hurried += self._following
                return True
        return False

    def settle_all_of(self, queue: QueueState, now: int) -> None:
        """Settle now the deliveries of a queue, and serve no consumer.

        The slices come to it, too, and find it settled.
        """
        for command in self._commands:
            for slot in command.left:
                if queue_of(slot) is queue:
                    entry = entry_in(slot)
                    if command.before is not None:
                        command.before(entry)
                    if self.rejected:
                        queue.reject(entry, now)
                    else:
                        queue.acknowledge(entry)

    def _settle(self, command: Command, entry: QueueEntry, now: int) -> None:
        """Settle a delivery in the middle of its queue's work, or of a queue that was deleted after the command.

        Its consequences come at the end of that.
        """
        queue = as_queue(entry.queue)
        if isinstance(entry, DeliveryCopy):
            queue.release_copy(entry)
        elif entry.state == DELIVERING and queue not in command.deleted:
            queue.unmark_delivering(entry)
            queue.finish_removal(entry, queue.rejection_reason if self.rejected else ACKNOWLEDGED, now, 0)

    def abandon(self, now: int) -> None:
        """Have the session return the unsettled deliveries: it is in no table, and would wait for a restart."""
        self._end()
        left = [entry_in(slot) for command in self._commands for slot in command.left]
        self._session.settlement_failed([*self._following, *left], now)
