"""Taking messages by selector: a consumer of the queue that has credit only while its lease takes messages.

So a stream with a selector finds its messages like every consumer with one, also in a deep backlog, which is searched
in turns (see :mod:`annulet.core.searching.selector_walk`), each message once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from annulet.bulk.protocol.errors import RefusedError
from annulet.core.base.settings import GROUP_OFF, ConsumerSettings
from annulet.core.model.consumer import Consumer, CreditWindow
from annulet.core.policies.consumer_turns import live_max_of
from annulet.core.searching.selector_walk import is_looking
from annulet.core.sessions.session import Session

if TYPE_CHECKING:
    from annulet.core.model.entry import QueueEntry
    from annulet.core.queue.queue import Queue


class _Inbox(Session):
    """Keeps delivered messages until they are taken."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.delivered: list[QueueEntry] = []

    def deliver(self, consumer: Consumer, entry: QueueEntry, tag: int) -> None:  # noqa: ARG002 - the core's signature
        """Note a delivery, which is never settled by its tag."""
        del self.unacknowledged[tag]
        self.delivered.append(entry)


class SelectorTaker:
    """The consumer of a lease with a selector. Raises :class:`CoreError` for an invalid selector."""

    def __init__(self, queue: Queue, name: str, selector: str, now: int) -> None:
        self.selector = selector
        self._queue = queue
        self._inbox = _Inbox(f"lease {name}")
        self._window = CreditWindow(0)
        settings = ConsumerSettings(selector=selector)
        self._consumer = Consumer(self._inbox, queue, f"lease {name}", window=self._window, settings=settings)
        self._inbox.attach(self._consumer, now)
        queue.count_leases_as_consumers(1)

    @property
    def cancelled(self) -> bool:
        """Return whether the queue was deleted."""
        return self._consumer.cancelled

    def looking(self, last_sequence: int) -> bool:
        """Return whether a part of a deep backlog is still unexamined, up to ``last_sequence`` (0: no limit).

        Not while the queue is paused or has as much in delivery as it may: it would be waited for without end.
        """
        queue = self._queue
        full = 0 <= queue.settings.in_flight_max <= len(queue.delivering)
        return not queue.halted and not full and is_looking(queue, queue.deep_lanes, self._consumer, last_sequence)

    def take(self, messages_max: int, bytes_max: int, last_sequence: int, now: int) -> list[QueueEntry]:
        """Return matches, in delivery from now on: at most ``messages_max`` and ``bytes_max`` (-1: no limit).

        None with a sequence above ``last_sequence`` (0: no limit). In a deep backlog those found so far.
        """
        delivered = self._inbox.delivered
        taken: list[QueueEntry] = []
        passed: list[QueueEntry] = []
        size = 0
        while True:
            for entry in delivered:
                if 0 < last_sequence < entry.sequence:
                    passed.append(entry)
                else:
                    taken.append(entry)
                    size += entry.message.size
            delivered.clear()
            if (
                len(taken) >= messages_max
                or (taken and 0 <= bytes_max <= size)
                or (passed and not self._older_follow())
            ):
                break
            rest = bytes_max if bytes_max < 0 else bytes_max - size
            self.open(messages_max - len(taken), rest, first=not taken)
            self._queue.wake(now)
            if not delivered:
                break
        self._window.messages_max = 0
        self._return(passed, now)
        return taken

    def open(self, messages: int, size: int, *, first: bool = True) -> None:
        """Give credit for this many messages, and body bytes (-1: no limit), in addition to the lease's messages.

        The ``first`` message of a batch fits at any size, so it is requested alone.
        """
        window = self._window
        window.messages_max = window.messages + (1 if first and size >= 0 else messages)
        window.bytes_max = -1 if first or size < 0 else window.bytes + size

    def withdraw(self, now: int) -> None:
        """Withdraw the credit, and return delivered messages that were not taken."""
        self._window.messages_max = 0
        delivered = self._inbox.delivered
        self._return(list(delivered), now)
        delivered.clear()

    def close(self, now: int) -> None:
        """End it. Its lease's messages stay in delivery."""
        self.withdraw(now)
        self._queue.count_leases_as_consumers(-1)
        self._inbox.detach(self._consumer.tag, now)

    def _older_follow(self) -> bool:
        """Return whether an older message may be behind a newer one in this queue."""
        return self._queue.ranker.ranks or bool(self._queue.settings.fair_key)

    def _return(self, entries: list[QueueEntry], now: int) -> None:
        if entries:
            self._queue.return_entries(entries, now, counted=False)


def check_selectable(queue: Queue) -> None:
    """Refuse a stream with a selector where its consumer would keep messages from others. :class:`RefusedError`."""
    remedy = "leave option selector out and filter the data frame, or declare the queue with x-selector"
    if queue.settings.group_mode != GROUP_OFF:
        raise RefusedError(
            f"queue {queue.name!r} has message groups: a stream with a selector would own groups of which it takes "
            f"only a part; {remedy}"
        )
    if live_max_of(queue.settings) >= 0:
        raise RefusedError(
            f"queue {queue.name!r} serves some of its consumers at a time: a stream with a selector would hold such a "
            f"place between its batches; {remedy}"
        )
