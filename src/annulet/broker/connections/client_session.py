"""A client's session, whatever protocol it speaks: a channel, an AMQP 1.0 session, a STOMP connection.

Its relation to the connection (room for output, answers at the end of a turn), the holding back of its publishing by
full queues, and the handling of messages that its protocol cannot express.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

from annulet.broker.connections.views import CONVERSIONS, converted
from annulet.broker.observing.node_log import NODE_LOG
from annulet.core.base.errors import CoreError, TransactionTooLarge
from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.host.commit_plan import LIMIT_TRANSACTION
from annulet.core.host.sliced_commit import CommitWaiter, commit_in_turns, publish_in_turns
from annulet.core.host.transaction import Transaction
from annulet.core.model.entry import DELIVERING
from annulet.core.sessions.delivery_deadlines import DeliveryDeadlines
from annulet.core.sessions.session import Session
from annulet.store.files.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from annulet.broker.connections.transport import AnyConnection
    from annulet.broker.durability.blocked import BlockedTarget
    from annulet.core.message.message import ContentView, Message
    from annulet.core.model.consumer import Consumer
    from annulet.core.model.entry import QueueEntry
    from annulet.core.routing.routes import Route
    from annulet.core.sessions.delivery_deadlines import Overdue


def give_up(entry: QueueEntry, consumer: Consumer | None, now: int) -> bool:
    """Take a message that cannot be converted out of its queue's way, never out of the world.

    It goes to the queue's dead-letter target where there is one, else back for others than ``consumer``. Returns
    whether it left the queue.
    """
    queue = entry.queue
    if queue.rejection_reason is RemovalReason.DEAD_LETTERED:
        queue.reject(entry, now)
        return True
    queue.return_entries([entry], now, counted=False, exclude=consumer)
    return False


@mypyc_attr(allow_interpreted_subclasses=True)
class SessionCommit(CommitWaiter):
    """A commit of a session that is done in slices. A protocol implements :meth:`answer` and :meth:`refuse`."""

    def __init__(self, session: ClientSession) -> None:
        self.session = session

    def committed(self, unroutable: list[Message]) -> None:
        """Let the connection go on, then answer."""
        self.session.connection.work_done()
        self.answer(unroutable)

    def commit_failed(self, error: Exception) -> None:
        """Let the connection go on, then tell the client why nothing was done."""
        session = self.session
        session.connection.work_done()
        if isinstance(error, TransactionTooLarge):
            session.note_too_large()
        if not isinstance(error, (CoreError, StoreError)):
            session.connection.note_defect(error, "defect in a commit")
        self.refuse(error)

    def answer(self, unroutable: list[Message]) -> None:
        """Everything took effect; no queue took these messages. The session may have ended."""
        raise NotImplementedError

    def refuse(self, error: Exception) -> None:
        """Nothing took effect. The session may have ended."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class ClientSession(Session):
    """A session of a :class:`~annulet.broker.connections.transport.ClientConnection`.

    A subclass implements ``deliver`` (see :class:`~annulet.core.sessions.session.Session`) and the hooks at the end.
    """

    def __init__(self, name: str, connection: AnyConnection) -> None:
        super().__init__(name)
        self.connection = connection
        self.connection_identity = connection.identity
        self.host = connection.require_host()
        self.publisher = self.host.publisher
        self.access = connection.require_access()
        self.blocked = connection.broker.blocked[self.host.name]
        self.writable = connection.writable
        self._counted_user = connection.user_name
        connection.broker.admission.channel_opened(self._counted_user)
        self.held_by: dict[BlockedTarget, None] = {}  # blocked queues and addresses it has published into
        self.deadlines: DeliveryDeadlines | None = None  # set while its deliveries have a time
        self._unconvertible: list[tuple[Consumer, QueueEntry]] = []  # to be given up after this loop turn

    # ------------------------------------------------------------------ consumers

    def attach(self, consumer: Consumer, now: int) -> None:
        """Register a consumer and start it, whatever way its protocol found the queue.

        Raises :class:`~annulet.core.base.errors.ResourceLocked` for the exclusive queue of another connection.
        """
        self.host.check_owner(consumer.queue, self.connection)
        super().attach(consumer, now)
        NODE_LOG.consumer_created(self.host.name, consumer.queue.name, consumer.tag, self.connection.name)

    def detach(self, tag: str, now: int, *, serve: bool = True) -> Consumer | None:
        """End a consumer, as :meth:`annulet.core.sessions.session.Session.detach` does."""
        consumer = super().detach(tag, now, serve=serve)
        if consumer is not None:
            NODE_LOG.consumer_deleted(self.host.name, consumer.queue.name, tag, self.connection.name)
        return consumer

    # ------------------------------------------------------------------ being held back

    def hold(self, targets: Iterable[BlockedTarget]) -> None:
        """Publish no more until these targets have room again."""
        for target in targets:
            if target not in self.held_by:
                first = not self.held_by
                self.held_by[target] = None
                target.publishers[self] = None
                if first:
                    self.publishing_held()
                    self.connection.hold(self)

    def released(self, target: BlockedTarget) -> None:
        """A target has room again; when it was the last, publishing may go on."""
        self.held_by.pop(target, None)
        if not self.held_by and not self.closed:
            self.publishing_resumed()
            self.connection.release(self)

    def forget_holds(self) -> None:
        """The session ends: it needs no notice to go on."""
        for target in self.held_by:
            target.publishers.pop(self, None)
        if self.held_by:
            self.held_by.clear()
            self.connection.release(self)

    def transacted(self, change: int) -> None:
        """Count what open transactions hold to the connection, which is bounded by it."""
        self.connection.transacted_bytes += change

    def commit_bounded(self, transaction: Transaction, commit: SessionCommit) -> list[Message] | None:
        """Commit a small transaction and return as ``Transaction.commit`` does; commit a larger one in slices.

        Then ``None`` is returned, ``commit`` gets the result, and the connection's further input waits for it. Raises
        what ``Transaction.commit`` raises.
        """
        connection = self.connection
        most = connection.broker.admission.limits.max_transaction_operations
        try:
            unroutable = commit_in_turns(transaction, self.host, connection.now, commit, operations_max=most)
        except TransactionTooLarge:
            self.note_too_large()
            raise
        if unroutable is None:
            connection.await_work()
        return unroutable

    def publish_wide(
        self,
        message: Message,
        route: Route,
        publication: SessionCommit,
        *,
        duplicate_id: str = "",
        further_keys: tuple[str, ...] = (),
    ) -> int:
        """Publish where the way may lead to very many queues. Returns as ``VirtualHost.publish``; -1: it is being done.

        Then it enters them in slices, hidden until it is in all, ``publication`` gets the result, and the connection's
        further input waits for it. Raises what ``VirtualHost.publish`` raises.
        """
        one = Transaction(self)
        one.send(message, route, duplicate_id=duplicate_id, further_keys=further_keys)
        routed = publish_in_turns(one, self.host, self.connection.now, publication)
        if routed < 0:
            self.connection.await_work()
        return routed

    def note_too_large(self) -> None:
        """Count a transaction that was refused because it has too many operations."""
        limit_hits = self.connection.engine.limit_hits
        limit_hits[LIMIT_TRANSACTION] = limit_hits.get(LIMIT_TRANSACTION, 0) + 1

    # ------------------------------------------------------------------ the time of deliveries

    def extend_delivery(self, tag: int) -> bool:
        """Let the time of a delivery begin anew. Returns whether the session holds it."""
        if self.deadlines is None:
            self.deadlines = DeliveryDeadlines()
        extended = self.deadlines.extend(self, tag, self.connection.now)
        if extended:
            self.connection.broker.consumer_timeouts.extended += 1
        return extended

    # ------------------------------------------------------------------ messages of other protocols

    def converted(self, message: Message, view: ContentView) -> Message:
        """Return a message as one of ``view``'s protocol. Where that takes long, less is done in this turn of the loop.

        Raises:
            ConversionError: it cannot be converted.
        """
        try:
            return converted(message, view)
        finally:
            self.look_after_conversions()

    def look_after_conversions(self) -> None:
        """Do less in this turn of the loop where conversions have taken long."""
        if CONVERSIONS.took_long():
            self.connection.look_soon()

    def keep_back(self, consumer: Consumer, entry: QueueEntry) -> None:
        """Keep a message from a consumer that cannot be converted; others get it once the core has done its work."""
        if not self._unconvertible:
            self.connection.broker.loop.call_soon(self._give_up_unconvertible)
        self._unconvertible.append((consumer, entry))

    def _give_up_unconvertible(self) -> None:
        """Let others have what could not be converted, or the dead-letter target."""
        kept, self._unconvertible = self._unconvertible, []
        now = self.connection.broker.clock()
        for consumer, entry in kept:
            if entry.state == DELIVERING and entry.consumer is consumer:
                give_up(entry, None if consumer.cancelled else consumer, now)
        if not self.closed:
            self.wake(now)

    # ------------------------------------------------------------------ end

    def close(self, now: int) -> None:
        """End by either side or by a lost connection: everything unsettled goes back to its place.

        Open transactions have to be rolled back before.
        """
        if self.closed:
            return
        self.connection.broker.admission.channel_closed(self._counted_user)
        self.forget_holds()
        queues = dict.fromkeys(consumer.queue for consumer in self.consumers.values())
        super().close(now)
        for queue in queues:
            self.host.consumer_removed(queue, now)

    # ------------------------------------------------------------------ what a protocol brings

    def connection_writable(self, writable: bool) -> None:
        """The connection has room for output again, or none."""
        self.writable = writable

    def flush_answers(self) -> None:
        """Give the answers of this turn. Called by the connection before it writes, once for ``answer_later``."""
        raise NotImplementedError

    def delivery_overdue(self, overdue: Overdue) -> None:
        """A delivery was not settled in time: end its consumer, and let it know why."""
        raise NotImplementedError

    def publishing_held(self) -> None:
        """A target of its publishing is full. Nothing to do where the connection is not read."""

    def publishing_resumed(self) -> None:
        """There is room again."""
