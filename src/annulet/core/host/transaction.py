"""Transactions of a session: sends and settlements that take effect together at commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.core.base.errors import CoreError
from annulet.core.host.commit_plan import ALL_OPERATIONS, CommitPlan, Operations, Send
from annulet.core.host.schedule_cancelling import cancel_scheduled
from annulet.core.model.compact_messages import entry_in, queue_of
from annulet.core.sessions.session import UnknownDeliveryTag

if TYPE_CHECKING:
    from collections.abc import Callable

    from annulet.core.deliveries.taken_deliveries import TakenDeliveries
    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.message.message import Message
    from annulet.core.model.consumer import Consumer
    from annulet.core.model.entry import QueueEntry
    from annulet.core.routing.routes import Route
    from annulet.core.sessions.session import Session

SETTLEMENT_BYTES: Final = 16
"""The size of a settlement in a log that writes (queue, record) as two 64-bit numbers."""

SEND_BYTES: Final = 512
"""The approximate memory of a send beside its header and its body."""


class Transaction:
    """Collects until :meth:`commit`; sends reach no queue before, settled deliveries stay in delivery.

    A rolled-back settlement leaves the delivery with its session, unsettled (AMQP 0-9-1 §1.9.2.6: rollback does not
    redeliver; ``basic.recover`` or closing does). Roll back before the session closes: a closing session returns only
    its own deliveries.
    """

    __slots__ = ("_collected", "held_bytes", "session")

    def __init__(self, session: Session) -> None:
        self.session = session
        self.held_bytes = 0  # of the sends
        self._collected = Operations()

    @property
    def empty(self) -> bool:
        """Return whether nothing was collected."""
        return not self.operations

    @property
    def sends(self) -> list[Send]:
        """The sends that were collected, in their order."""
        return self._collected.sends

    @property
    def operations(self) -> int:
        """How many sends and settlements were collected. :meth:`commit` counts the further queues that they reach."""
        return self._collected.count

    @property
    def durable_bytes(self) -> int:
        """Bytes that durable sends and settlements of stored messages take in the log, without its own overhead.

        0: the commit needs no disk.
        """
        sends = 0
        for send in self._collected.sends:
            if send.cancels:
                sends += SETTLEMENT_BYTES  # of a stored message, it may turn out
            elif send.message.durable:
                sends += len(send.message.header) + send.message.size + 1
        return sends + self._collected.stored_settlements * SETTLEMENT_BYTES

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
        self._collected.sends.append(send)
        size = len(send.message.header) + send.message.size + SEND_BYTES
        self.held_bytes += size
        self.session.transacted(size)

    def acknowledge(self, tag: int, *, multiple: bool = False) -> None:
        """Collect an acknowledgement. Raises ``UnknownDeliveryTag``."""
        self._take(self._collected.settlements, tag, multiple=multiple)

    def reject(self, tag: int, *, requeue: bool, multiple: bool = False) -> None:
        """Collect a rejection. Raises ``UnknownDeliveryTag``."""
        collected = self._collected
        self._take(collected.requeued if requeue else collected.dropped, tag, multiple=multiple)

    def settle_all(self, tags: list[int], *, acknowledged: bool, requeue: bool) -> None:
        """Collect an acknowledgement, or else a rejection, of each of these. Raises ``UnknownDeliveryTag``.

        The ones before an unknown tag are collected.
        """
        table, collected = self.session.unacknowledged, self._collected
        taken = collected.settlements
        if not acknowledged:
            taken = collected.requeued if requeue else collected.dropped
        for tag in tags:
            entry = table.pop(tag)
            if entry is None:
                raise UnknownDeliveryTag(tag)
            taken.add(tag, entry)

    def settle_held(self, tags: list[int], *, acknowledged: bool) -> list[int]:
        """Collect an acknowledgement, or a rejection without requeue, of those that are held. Returns these."""
        collected = self._collected
        taken = collected.settlements if acknowledged else collected.dropped
        return self.session.unacknowledged.take_each(tags, taken)

    def give_back_held(self, tags: list[int], *, counted: bool, exclude: Consumer | None = None) -> list[int]:
        """As :meth:`give_back`, of those that are held. Returns these."""
        taken = self._collected.returning(counted=counted, exclude=exclude)
        return self.session.unacknowledged.take_each(tags, taken)

    def before_rejections(self, before: Callable[[QueueEntry], None]) -> None:
        """Call this with each delivery that is rejected without requeue, once its turn in the commit has come."""
        self._collected.before = before

    def give_back(self, tag: int, *, counted: bool, exclude: Consumer | None = None) -> None:
        """Collect a return to the queue, see ``Queue.return_entries`` (AMQP 1.0 released, modified)."""
        (slot,) = self.session.take_slots(tag, multiple=False)
        self._collected.returning(counted=counted, exclude=exclude).add(tag, slot)

    def commit(self, host: VirtualHost, now: int, *, operations_max: int = 0) -> list[Message]:
        """Publish in send order, then settle; durable together or not at all. Returns the messages no queue took.

        Everything that could refuse a send is asked before anything is done, with what the earlier sends of the
        transaction take counted in. Raises :class:`TransactionRefused` for a full queue or address and for a duplicate
        id, and :class:`TransactionTooLarge` for more than ``operations_max`` operations (0: any number; a message
        counts for each queue that it, or its dead letter, goes to now): then nothing was sent, and the deliveries are
        unsettled as after :meth:`rollback`. Errors of the effects pass through after :meth:`Effects.abort_transaction`;
        when they could not store a send, the deliveries are unsettled as well.
        """
        collected = self.hand_over()
        try:
            plan = CommitPlan(host, collected, operations_max)
            plan.go_on(ALL_OPERATIONS)
        except CoreError:
            self.rolled_back(collected, now)
            raise
        return self.carry_out(host, collected, plan, now)

    def carry_out(self, host: VirtualHost, collected: Operations, plan: CommitPlan, now: int) -> list[Message]:
        """Carry out the whole plan in this call. Returns and raises as :meth:`commit`, but for refusals.

        The log has room for all of it before the first message enters a queue, or nothing is done.
        Very many dead letters of it follow behind its end, see :meth:`DeadLetters.transaction_ended`.
        """
        host.effects.begin_transaction()
        try:
            try:
                plan.promise(sends=True)
                dropped = collected.drop(collected.dropped.slots())
                unroutable = self._publish(host, now, collected.sends, plan)
            except BaseException:  # nothing was settled yet: or these deliveries would be lost to the session
                self.rolled_back(collected, now)
                raise
            self._settle(now, collected, dropped)
            for back in collected.returns:
                exclude = None if back.exclude is None or back.exclude.cancelled else back.exclude
                for slot in back.taken.slots():
                    queue_of(slot).return_entries([slot], now, counted=back.counted, exclude=exclude)
            if collected.returns:
                self.session.wake(now)
        except BaseException:
            host.effects.abort_transaction()
            host.dead_letters.transaction_ended(now)
            raise
        try:
            host.effects.end_transaction()
        finally:
            host.dead_letters.transaction_ended(now)
        return unroutable

    def _publish(self, host: VirtualHost, now: int, sends: list[Send], plan: CommitPlan) -> list[Message]:
        unroutable: list[Message] = []
        publisher = host.publisher
        for send, (_, legs) in zip(sends, plan.plans, strict=True):
            if send.cancels:
                cancel_scheduled(host, send.message, send.route, send.cancels, now, further_keys=send.further_keys)
                continue
            reached = publisher.publish(send.message, send.route, now) if legs is None else publisher.apply(legs, now)
            if reached == 0:
                unroutable.append(send.message)
        return unroutable

    def _settle(self, now: int, collected: Operations, dropped: list[QueueEntry]) -> None:
        session = self.session
        session.acknowledge_entries([entry_in(slot) for slot in collected.settlements.slots()], now)
        if collected.requeued:
            session.requeue(list(collected.requeued.slots()), now)
        if dropped:
            session.reject_entries(dropped, now, requeue=False)

    def rollback(self) -> None:
        """Forget the sends; the deliveries are unsettled again, in the order of their tags."""
        for taken in self.hand_over().deliveries():
            self.session.hold_again(taken)

    def hand_over(self) -> Operations:
        """Return the collected operations for a commit, and forget them: later ones are of another transaction."""
        if self.held_bytes:
            self.session.transacted(-self.held_bytes)
            self.held_bytes = 0
        collected, self._collected = self._collected, Operations()
        return collected

    def rolled_back(self, collected: Operations, now: int) -> None:
        """A commit did nothing: the deliveries are unsettled again, or returned where the session has ended."""
        deliveries = [taken.without_removed() for taken in collected.deliveries()]
        if self.session.closed:
            self.session.give_back([slot for taken in deliveries for slot in taken.slots()], now)
            return
        for taken in deliveries:
            self.session.hold_again(taken)

    def _take(self, into: TakenDeliveries, tag: int, *, multiple: bool) -> None:
        """Take deliveries out of the session's table, of many with those folded that are: slices unfold them."""
        if multiple:
            table = self.session.unacknowledged
            before = len(table)
            runs = self.session.take_runs(tag)
            into.add_runs(runs, before - len(table))
        else:
            (slot,) = self.session.take_slots(tag, multiple=False)
            into.add(tag, slot)
