"""Taking messages from a queue for an operator, as ``basic.get`` does, and settling all of them together."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from annulet.core.queue.pull_waits import PullWaiter
from annulet.core.sessions.session import Session

if TYPE_CHECKING:
    from types import TracebackType

    from annulet.broker.settings.clock import Clock
    from annulet.core.model.entry import QueueEntry
    from annulet.core.queue.queue import Queue


GET_COUNT_MAX: Final = 1000
"""Messages of one answer. Tools look at some; to get many, consume."""

GET_BYTES_MAX: Final = 16 * 1024 * 1024
"""Bytes of bodies in one answer: beyond it the answer has fewer messages than asked for."""

GET_BODY_BYTES_MAX: Final = 4 * 1024 * 1024
"""Bytes of one body in an answer: a longer one is cut. Decoding and encoding so many holds the event loop for 10 ms."""


class Getter(Session):
    """A session without a client. Leaving the block returns unsettled messages to the queue.

    The returned messages count as delivered: they are redelivered then, as RabbitMQ's are.
    """

    def __init__(self, clock: Clock, name: str) -> None:
        super().__init__(name)
        self._clock = clock

    def __enter__(self) -> Getter:
        """Begin."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Return the messages that are held."""
        self.close(self._clock())

    def deliver(self, consumer: object, entry: QueueEntry, tag: int) -> None:
        """Nothing is delivered to it: it has no consumers."""
        raise NotImplementedError

    async def pull(self, queue: Queue) -> tuple[QueueEntry, int] | None:
        """Take the next message. ``None``: all that was in the queue at the call has been looked through.

        The message stays in delivery until its tag is settled.
        """
        upto = queue.next_sequence
        while not queue.deleted:
            taken = self.get(queue, self._clock(), auto_acknowledge=False)
            if taken is not None:
                return taken
            waiter = _Waiter()
            if not queue.await_pull(waiter, upto, self._clock()):
                return None
            try:
                await waiter.found.wait()
            finally:
                queue.stop_awaiting(waiter)
        return None

    def settle_all(self, *, rejected: bool, requeue: bool) -> None:
        """Acknowledge all that is held, or refuse it: back to the queue, or to its dead-letter target."""
        if not self.unacknowledged:
            return
        now = self._clock()
        if rejected:
            self.reject(0, now, requeue=requeue, multiple=True)
        elif requeue:
            self.recover(now)
        else:
            self.acknowledge(0, now, multiple=True)


class _Waiter(PullWaiter):
    def __init__(self) -> None:
        self.found = asyncio.Event()

    def look_again(self) -> None:
        """Let the task pull again."""
        self.found.set()
