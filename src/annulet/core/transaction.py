"""Transactions of a session: sends and settlements that take effect together at commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from annulet.core.entry import QueueEntry
    from annulet.core.message import Message
    from annulet.core.routing import Route
    from annulet.core.session import Session
    from annulet.core.virtual_host import VirtualHost

SETTLEMENT_BYTES: Final = 16
"""What a settlement takes in a log that writes (queue, record) as two 64-bit numbers."""


class Transaction:
    """Collects until :meth:`commit`; sends reach no queue before, settled deliveries stay in delivery.

    A rolled-back settlement leaves the delivery with its session, unsettled (AMQP 0-9-1 §1.9.2.6: rollback does not
    redeliver; ``basic.recover`` or closing does). Roll back before the session closes: a closing session returns
    only what it holds itself.
    """

    __slots__ = ("_rejections", "_sends", "_settlements", "session")

    def __init__(self, session: Session) -> None:
        self.session = session
        self._sends: list[tuple[Message, Route]] = []
        self._settlements: list[tuple[int, QueueEntry]] = []
        self._rejections: list[tuple[int, QueueEntry, bool]] = []

    @property
    def empty(self) -> bool:
        """Say whether nothing was collected."""
        return not (self._sends or self._settlements or self._rejections)

    @property
    def durable_bytes(self) -> int:
        """Bytes that durable sends and settlements of stored messages take in the log, without its own overhead.

        0: the commit needs no disk.
        """
        sends = sum(len(message.header) + len(message.body) + 1 for message, _ in self._sends if message.durable)
        settled = sum(1 for _, entry in self._settlements if entry.message.record)
        settled += sum(1 for _, entry, requeue in self._rejections if entry.message.record and not requeue)
        return sends + settled * SETTLEMENT_BYTES

    def send(self, message: Message, route: Route) -> None:
        """Collect a message; it goes to the queues its route leads to at commit."""
        self._sends.append((message, route))

    def acknowledge(self, tag: int, *, multiple: bool = False) -> None:
        """Collect an acknowledgement. Raises ``UnknownDeliveryTag``."""
        self._settlements.extend(self._take(tag, multiple=multiple))

    def reject(self, tag: int, *, requeue: bool, multiple: bool = False) -> None:
        """Collect a rejection. Raises ``UnknownDeliveryTag``."""
        self._rejections.extend((held, entry, requeue) for held, entry in self._take(tag, multiple=multiple))

    def commit(self, host: VirtualHost, now: int) -> list[Message]:
        """Publish in send order, then settle; durable together or not at all. Returns the messages no queue took.

        What the effects raise passes through after :meth:`Effects.abort_transaction`.
        """
        sends, settlements, rejections = self._sends, self._settlements, self._rejections
        self._sends, self._settlements, self._rejections = [], [], []
        host.effects.begin_transaction()
        try:
            unroutable = self._apply(host, now, sends, settlements, rejections)
        except BaseException:
            host.effects.abort_transaction()
            raise
        host.effects.end_transaction()
        return unroutable

    def _apply(
        self,
        host: VirtualHost,
        now: int,
        sends: list[tuple[Message, Route]],
        settlements: list[tuple[int, QueueEntry]],
        rejections: list[tuple[int, QueueEntry, bool]],
    ) -> list[Message]:
        unroutable = [message for message, route in sends if host.publish(message, route, now) == 0]
        session = self.session
        session.acknowledge_entries([entry for _, entry in settlements], now)
        for requeue in (True, False):
            entries = [entry for _, entry, back in rejections if back is requeue]
            if entries:
                session.reject_entries(entries, now, requeue=requeue)
        return unroutable

    def rollback(self) -> None:
        """Forget the sends; the deliveries are unsettled again, in the order of their tags."""
        table = self.session.unacknowledged
        held = [*table.items(), *self._settlements, *((tag, entry) for tag, entry, _ in self._rejections)]
        table.clear()
        table.update(sorted(held, key=lambda pair: pair[0]))
        self._sends, self._settlements, self._rejections = [], [], []

    def _take(self, tag: int, *, multiple: bool) -> list[tuple[int, QueueEntry]]:
        table = self.session.unacknowledged
        before = dict(table) if multiple else {tag: table.get(tag)}
        self.session.take(tag, multiple=multiple)
        return [(held, entry) for held, entry in before.items() if entry is not None and held not in table]
