"""The undo of an operation: kept messages back into their queue, and moved ones out of the queues they went to."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.management.actions import Action
from annulet.core.management.destination import Destination
from annulet.core.management.operation import FINISHED, Operation
from annulet.core.management.transfer import Transfer

if TYPE_CHECKING:
    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.management.destination import Former
    from annulet.core.management.selection import Selection
    from annulet.core.message.message import Message
    from annulet.core.model.entry import QueueEntry
    from annulet.core.queue.queue import Queue

EXPIRED_MEANWHILE: Final = "expired meanwhile"
GONE: Final = "no longer where the operation put it"

Part = tuple[Action, "Selection"]
"""An action on the messages of one queue, and their selection."""


FormerOf = Callable[["QueueEntry"], "Former | None"]
"""Says where the message of an entry was before; ``None``: not known, so it goes behind all others."""


class Restore(Action):
    """Put kept messages back into the queue that they were taken from, to their places.

    ``unwrap`` returns the message that an envelope keeps, at a time.
    """

    def __init__(
        self,
        host: VirtualHost,
        kept_in: Queue,
        queue: Queue,
        unwrap: Callable[[Message, int], Message],
        former_of: FormerOf,
    ) -> None:
        super().__init__("undo", kept_in)
        self._host = host
        self._destination = Destination(host, queue)
        self._unwrap = unwrap
        self._former_of = former_of

    def obstacle(self, entry: QueueEntry, now: int) -> str:
        """Skip messages whose time to live has passed, and those that the queue can never take now."""
        message = self._unwrap(entry.message, now)
        if 0 < message.expires_at <= now:
            return EXPIRED_MEANWHILE
        return self._destination.misfit(message)

    def refusal(self, entry: QueueEntry, now: int) -> str:
        """Stop when the queue is full or gone."""
        return self._destination.refusal(self._unwrap(entry.message, now))

    def carry_out(self, entry: QueueEntry, now: int) -> int:
        """Put it back, and let the envelope go."""
        message = self._unwrap(entry.message, now)
        former = self._former_of(entry)
        return self._destination.take(self.queue, entry, message, RemovalReason.MOVED, now, former)

    def cost(self, entry: QueueEntry) -> int:
        """Return the body bytes of the copy."""
        return entry.message.size


class MoveBack(Transfer):
    """Put moved messages back into the queue that they were taken from, to their places."""

    def __init__(self, host: VirtualHost, queue: Queue, destination: Queue, former_of: FormerOf) -> None:
        super().__init__("undo", host, queue, destination, keep=False)
        self._former_of = former_of

    def send(self, entry: QueueEntry, message: Message, destination: Queue, now: int) -> int:
        """Put it at its place."""
        place, former = Destination(self.host, destination), self._former_of(entry)
        return place.take(self.queue, entry, message, RemovalReason.MOVED, now, former)


class Undo(Operation):
    """Does one part after the other, each in slices. ``expected``: how many messages there are to be brought back."""

    def __init__(
        self, host: VirtualHost, parts: list[Part], expected: int, target: str, *, user: str, now: int
    ) -> None:
        self._further = iter(parts)
        self._expected = expected
        action, selection = next(self._further)
        super().__init__(host, action, selection, user=user, now=now)
        self.target = target

    @property
    def total(self) -> int:
        """How many messages there are to be brought back."""
        return self._expected

    def _end(self, state: str, now: int, reason: str = "") -> None:
        for action, selection in self._further if state == FINISHED else ():
            if not self.is_gone(action):
                self._release()
                self._begin(action, selection)
                return
        lost = self._expected - self.matched
        if state == FINISHED and lost > 0:
            self._skip(GONE, lost)
        super()._end(state, now, reason)
