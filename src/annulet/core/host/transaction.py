"""Transactions of a session: sends and settlements that take effect together at commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.core.base.errors import CoreError, LimitExceeded, TransactionRefused, TransactionTooLarge
from annulet.core.host.schedule_cancelling import cancel_scheduled
from annulet.core.host.send_plan import DUPLICATE, ROUTED, Claims
from annulet.core.model.entry import DELIVERING, DeliveryCopy

if TYPE_CHECKING:
    from annulet.core.host.send_plan import Leg
    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.message.message import Message
    from annulet.core.model.consumer import Consumer
    from annulet.core.model.entry import QueueEntry
    from annulet.core.routing.routes import Route
    from annulet.core.sessions.session import Session

SETTLEMENT_BYTES: Final = 16
"""The size of a settlement in a log that writes (queue, record) as two 64-bit numbers."""


LIMIT_TRANSACTION: Final = "max_transaction_operations"
"""Name of the bound of a transaction's operations, as settings and metrics have it."""

SEND_BYTES: Final = 512
"""The approximate memory of a send beside its header and its body."""


class Send:
    """One message of a transaction. ``cancels``: it only takes back the scheduled message of this name."""

    __slots__ = ("cancels", "duplicate_id", "further_keys", "message", "route")

    def __init__(
        self, message: Message, route: Route, duplicate_id: str, further_keys: tuple[str, ...], cancels: str = ""
    ) -> None:
        self.message = message
        self.route = route
        self.duplicate_id = duplicate_id
        self.further_keys = further_keys
        self.cancels = cancels


class Return:
    """A delivery of a transaction that goes back to its queue; see ``Queue.return_entries``."""

    __slots__ = ("counted", "entry", "exclude", "tag")

    def __init__(self, tag: int, entry: QueueEntry, counted: bool, exclude: Consumer | None) -> None:
        self.tag = tag
        self.entry = entry
        self.counted = counted
        self.exclude = exclude


class Transaction:
    """Collects until :meth:`commit`; sends reach no queue before, settled deliveries stay in delivery.

    A rolled-back settlement leaves the delivery with its session, unsettled (AMQP 0-9-1 §1.9.2.6: rollback does not
    redeliver; ``basic.recover`` or closing does). Roll back before the session closes: a closing session returns only
    its own deliveries.
    """

    __slots__ = ("_rejections", "_returns", "_sends", "_settlements", "held_bytes", "session")

    def __init__(self, session: Session) -> None:
        self.session = session
        self.held_bytes = 0  # of the sends
        self._sends: list[Send] = []
        self._settlements: list[tuple[int, QueueEntry]] = []
        self._rejections: list[tuple[int, QueueEntry, bool]] = []
        self._returns: list[Return] = []

    @property
    def empty(self) -> bool:
        """Return whether nothing was collected."""
        return not (self._sends or self._settlements or self._rejections or self._returns)

    @property
    def operations(self) -> int:
        """How many sends and settlements were collected. :meth:`commit` counts the further queues that they reach."""
        return len(self._sends) + len(self._settlements) + len(self._rejections) + len(self._returns)

    @property
    def durable_bytes(self) -> int:
        """Bytes that durable sends and settlements of stored messages take in the log, without its own overhead.

        0: the commit needs no disk.
        """
        sends = 0
        for send in self._sends:
            if send.cancels:
                sends += SETTLEMENT_BYTES  # of a stored message, it may turn out
            elif send.message.durable:
                sends += len(send.message.header) + send.message.size + 1
        settled = sum(1 for _, entry in self._settlements if entry.message.record)
        settled += sum(1 for _, entry, requeue in self._rejections if entry.message.record and not requeue)
        return sends + settled * SETTLEMENT_BYTES

    def send(
        self, message: Message, route: Route, *, duplicate_id: str = "", further_keys: tuple[str, ...] = ()
    ) -> None:
        """Collect a message; it goes to the queues its route leads to at commit. Keywords: ``VirtualHost.publish``."""
        self._collect(Send(message, route, duplicate_id, further_keys))

    def cancel_scheduled(
        self, message: Message, route: Route, schedule_id: str, *, further_keys: tuple[str, ...] = ()
    ) -> None:
        """Collect the end of scheduled messages; see :func:`~annulet.core.host.schedule_cancelling.cancel_scheduled`.

        It is judged with the earlier sends of the same transaction, too.
        """
        self._collect(Send(message, route, "", further_keys, schedule_id))

    def _collect(self, send: Send) -> None:
        self._sends.append(send)
        size = len(send.message.header) + send.message.size + SEND_BYTES
        self.held_bytes += size
        self.session.transacted(size)

    def acknowledge(self, tag: int, *, multiple: bool = False) -> None:
        """Collect an acknowledgement. Raises ``UnknownDeliveryTag``."""
        self._settlements.extend(self._take(tag, multiple=multiple))

    def reject(self, tag: int, *, requeue: bool, multiple: bool = False) -> None:
        """Collect a rejection. Raises ``UnknownDeliveryTag``."""
        self._rejections.extend((held, entry, requeue) for held, entry in self._take(tag, multiple=multiple))

    def give_back(self, tag: int, *, counted: bool, exclude: Consumer | None = None) -> None:
        """Collect a return to the queue, see ``Queue.return_entries`` (AMQP 1.0 released, modified)."""
        self._returns += [Return(held, entry, counted, exclude) for held, entry in self._take(tag, multiple=False)]

    def commit(self, host: VirtualHost, now: int, *, operations_max: int = 0) -> list[Message]:
        """Publish in send order, then settle; durable together or not at all. Returns the messages no queue took.

        Everything that could refuse a send is asked before anything is done, with what the earlier sends of the
        transaction take counted in. Raises :class:`TransactionRefused` for a full queue or address and for a duplicate
        id, and :class:`TransactionTooLarge` for more than ``operations_max`` operations (0: any number; a message
        counts for each queue that it, or its dead letter, goes to now): then nothing was sent, and the deliveries are
        unsettled as after :meth:`rollback`. Errors of the effects pass through after :meth:`Effects.abort_transaction`;
        when they could not store a send, the deliveries are unsettled as well.
        """
        try:
            plans = self._plan(host, operations_max)
        except CoreError:
            self.rollback()
            raise
        sends, settlements = self._sends, self._settlements
        rejections, returns = self._rejections, self._returns
        self._forget()
        host.effects.begin_transaction()
        try:
            try:
                unroutable = self._publish(host, now, sends, plans)
            except BaseException:  # nothing was settled yet: or these deliveries would be lost to the session
                self._settlements, self._rejections, self._returns = settlements, rejections, returns
                self.rollback()
                raise
            self._settle(now, settlements, rejections)
            for back in returns:
                exclude = None if back.exclude is None or back.exclude.cancelled else back.exclude
                back.entry.queue.return_entries([back.entry], now, counted=back.counted, exclude=exclude)
            if returns:
                self.session.wake(now)
        except BaseException:
            host.effects.abort_transaction()
            raise
        host.effects.end_transaction()
        return unroutable

    def _plan(self, host: VirtualHost, most: int) -> list[list[Leg] | None]:
        """Decide every send that is not simple; ``None`` stands for those that nothing can refuse.

        Operations are counted with it: queues may have been bound since the message was sent.
        """
        operations = self.operations
        _bound(operations, most)
        if most:
            operations = self._count_dead_letters(host, operations, most)
        claims = Claims()
        plans: list[list[Leg] | None] = []
        for number, send in enumerate(self._sends, 1):
            route = None if send.cancels else host.renewed(send.route)
            if route is None or (route.static and not send.duplicate_id and not send.further_keys):
                plans.append(None)
                if route is not None:
                    operations += max(0, len(route.queues) - 1)
                    _bound(operations, most)
                continue
            try:
                legs = host.publisher.plan(
                    send.message, route, claims, duplicate_id=send.duplicate_id, further_keys=send.further_keys
                )
            except LimitExceeded as error:
                raise TransactionRefused(
                    f"transaction refused, nothing of it was done: send {number}: {error}"
                ) from error
            accepting = {leg.address for leg in legs if leg.fate == ROUTED}
            for leg in legs:
                if leg.fate == DUPLICATE and leg.address not in accepting:  # else two diverts copy it to one address
                    raise TransactionRefused(
                        f"transaction refused, nothing of it was done: send {number} to '{leg.address}' has duplicate "
                        f"id '{send.duplicate_id}', which that address has accepted before; leave out messages "
                        "sent already"
                    )
            plans.append(legs)
            operations += max(0, sum([len(leg.queues) for leg in legs]) - 1)
            _bound(operations, most)
        return plans

    def _count_dead_letters(self, host: VirtualHost, operations: int, most: int) -> int:
        """Count the queues that dead letters of this transaction go to: their copies are sent in the same turn.

        Returns the operations with them. Raises :class:`TransactionTooLarge`.
        """
        leaving = [entry for _, entry, requeue in self._rejections if not requeue or _last_attempt(entry, 1)]
        leaving += [back.entry for back in self._returns if _last_attempt(back.entry, int(back.counted))]
        for entry in leaving:
            if entry.state == DELIVERING and not isinstance(
                entry, DeliveryCopy
            ):  # else it has left its queue, and the rejection has no effect
                operations += host.dead_letters.reach(entry)
                _bound(operations, most)
        return operations

    def _publish(self, host: VirtualHost, now: int, sends: list[Send], plans: list[list[Leg] | None]) -> list[Message]:
        unroutable: list[Message] = []
        publisher = host.publisher
        for send, legs in zip(sends, plans, strict=True):
            if send.cancels:
                cancel_scheduled(host, send.message, send.route, send.cancels, now, further_keys=send.further_keys)
                continue
            reached = publisher.publish(send.message, send.route, now) if legs is None else publisher.apply(legs, now)
            if reached == 0:
                unroutable.append(send.message)
        return unroutable

    def _settle(
        self,
        now: int,
        settlements: list[tuple[int, QueueEntry]],
        rejections: list[tuple[int, QueueEntry, bool]],
    ) -> None:
        session = self.session
        session.acknowledge_entries([entry for _, entry in settlements], now)
        for requeue in (True, False):
            entries = [entry for _, entry, back in rejections if back is requeue]
            if entries:
                session.reject_entries(entries, now, requeue=requeue)

    def rollback(self) -> None:
        """Forget the sends; the deliveries are unsettled again, in the order of their tags."""
        rejected = [(tag, entry) for tag, entry, _ in self._rejections]
        returned = [(back.tag, back.entry) for back in self._returns]
        self.session.hold_again([*self._settlements, *rejected, *returned])
        self._forget()

    def _forget(self) -> None:
        if self.held_bytes:
            self.session.transacted(-self.held_bytes)
            self.held_bytes = 0
        self._sends, self._settlements, self._rejections, self._returns = [], [], [], []

    def _take(self, tag: int, *, multiple: bool) -> list[tuple[int, QueueEntry]]:
        table = self.session.unacknowledged
        if multiple:
            named = table.items(tag or -1)
            self.session.take(tag, multiple=True)
            return named
        return [(tag, entry) for entry in self.session.take(tag, multiple=False)]


def _last_attempt(entry: QueueEntry, counted: int) -> bool:
    """Return whether a delivery that is returned, and counted so often with that, is dead-lettered instead."""
    return 0 < entry.queue.settings.max_delivery_attempts <= entry.delivery_count + counted


def _bound(operations: int, most: int) -> None:
    if 0 < most < operations:
        raise TransactionTooLarge(
            f"transaction of at least {operations} sends and settlements refused, nothing of it was done: at most "
            f"{most} are allowed ({LIMIT_TRANSACTION}), and a message counts for each of its queues; commit more often "
            "or raise the limit"
        )
