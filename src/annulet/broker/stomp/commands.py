"""The handler of the STOMP engine: one method for each frame a client may send."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.broker.connections.access import READ, WRITE
from annulet.broker.connections.sending import SendingCommit
from annulet.broker.stomp.consumers import AUTO, StompConsumer, tag_for
from annulet.broker.stomp.destinations import (
    AUTO_DELETE,
    EXISTING_QUEUE,
    QUEUE_ARGUMENTS,
    REPLY_QUEUE,
    TEMPORARY_QUEUE,
    queue_arguments,
    refuse_message_headers,
    refuse_temporary_topic,
)
from annulet.broker.stomp.errors import translate, translated
from annulet.broker.stomp.subscribing import (
    declare_if_asked,
    delete_subscription,
    names_durable,
    start_subscription,
)
from annulet.core.base.errors import CoreError, LimitExceeded
from annulet.core.base.settings import ConsumerSettings
from annulet.core.host.schedule_cancelling import cancel_scheduled
from annulet.core.host.transaction import Transaction
from annulet.core.message.message import DEFAULT_PRIORITY, Message
from annulet.core.model.consumer import CreditWindow
from annulet.store.files.errors import StoreError
from annulet.wire.stomp.engine import header_line
from annulet.wire.stomp.errors import RemoteProtocolError
from annulet.wire.stomp.handler import ConnectionHandler
from annulet.wire.stomp.names import EXTEND_DELIVERY
from annulet.wire.stomp.send_headers import SendFacts, read_send, read_switch

if TYPE_CHECKING:
    from annulet.broker.connections.sending import Destination
    from annulet.broker.stomp.connection import StompConnection
    from annulet.broker.stomp.session import StompSession
    from annulet.wire.stomp.frames import Frame

LIMIT_TRANSACTIONS: Final = "stomp_transactions_max"
TRANSACTIONS_MAX: Final = 256
"""Open transactions of a connection; clients use one or a few."""

LIMIT_SUBSCRIPTIONS: Final = "stomp_subscriptions_max"
SUBSCRIPTIONS_MAX: Final = 1024
"""Subscriptions of a connection: half of the channels a 0-9-1 client may open, each of which has at least one."""

REPLY_TO: Final = "reply-to"
ROUTING_TYPE: Final = "destination-type"  # Artemis
NOT_OF_THE_MESSAGE: Final = QUEUE_ARGUMENTS.union((ROUTING_TYPE, AUTO_DELETE))
"""Headers of SEND that are about the destination."""


class OpenTransaction:
    """A transaction, with the deliveries it settles."""

    __slots__ = ("core", "settled")

    def __init__(self, core: Transaction) -> None:
        self.core = core
        self.settled: list[tuple[int, StompConsumer]] = []


class StompWork(SendingCommit):
    """COMMIT of a large transaction, or SEND to very many queues: answered when it is done and durable, or by ERROR."""

    def __init__(self, session: StompSession, command: str, receipt: str) -> None:
        super().__init__(session)
        self.stored = False  # the receipt has to wait for the disk
        self.message: Message | None = None  # of a SEND
        self._stomp = session
        self._command = command
        self._receipt = receipt

    def tell_done(self) -> None:
        """Send the receipt."""
        stored = self.stored if self.message is None else self.message.record != 0
        self._stomp.answer(self._receipt, stored=stored)

    def refuse(self, error: Exception) -> None:
        """End the connection."""
        if not self._stomp.closed:
            known = isinstance(error, (CoreError, StoreError))
            text = f"{self._command}: {error}" if known else "internal error; the broker's log says more"
            self._stomp.engine.close_with_error(text, receipt=self._receipt)
            self._stomp.connection.mark_dirty()


class StompCommands(ConnectionHandler):
    """Serves one connection."""

    def __init__(self, connection: StompConnection) -> None:
        self.connection = connection
        self.transactions: dict[str, OpenTransaction] = {}

    @property
    def session(self) -> StompSession:
        """The session; there is one once CONNECTED was sent."""
        session = self.connection.session
        assert session is not None
        return session

    # ------------------------------------------------------------------ connection

    def authenticate(self, login: str | None, passcode: str | None, host: str) -> None:
        """Judge a login; the answer comes later."""
        self.connection.begin_login(login, passcode, host)

    def connection_opened(self) -> None:
        """The handshake is over."""
        self.connection.note_opened()

    def connection_closed(self, text: str, by_peer: bool) -> None:
        """The connection ends: uncommitted work is discarded, its deliveries are returned."""
        self.rollback_all()
        self.connection.note_closed(text, by_peer=by_peer)

    def disconnect(self, receipt: str) -> None:
        """Answer once everything before is done."""
        session = self.connection.session
        if session is None:  # it never logged in
            self.connection.engine.finish(receipt)
            return
        self.rollback_all()
        session.writable = False
        for tag in list(session.consumers):
            self._end(tag)
        session.answer_and_disconnect(receipt)

    def rollback_all(self) -> None:
        """Drop every open transaction (1.2 "BEGIN": they are aborted when the connection ends)."""
        transactions, self.transactions = self.transactions, {}
        for transaction in transactions.values():
            transaction.core.rollback()

    # ------------------------------------------------------------------ SEND

    def send(self, frame: Frame, destination: str, transaction: str, receipt: str) -> None:
        """Route a message."""
        session = self.session
        connection = self.connection
        extended = frame.headers.get(EXTEND_DELIVERY)
        if extended is not None:
            session.extend_named(extended)
            session.answer(receipt, stored=False)
            return
        opened = self._find(transaction) if transaction else None
        try:
            stored = self._route(frame, destination, opened, receipt)
        except RemoteProtocolError:
            session.access.take_back(connection.now)
            raise
        except (CoreError, StoreError) as error:  # not ``translated``, which takes a tenth of what a SEND takes
            session.access.take_back(connection.now)
            raise translate("SEND", error) from error
        if session.access.made:
            session.access.keep()
        if stored is not None:
            session.answer(receipt, stored=stored)

    def _route(self, frame: Frame, destination: str, opened: OpenTransaction | None, receipt: str) -> bool | None:
        """Route a message, or cancel a scheduled one. Returns whether the log has to hear of it.

        ``None`` for one to very many queues: it is answered when it is in all of them.
        """
        connection = self.connection
        now = connection.now
        where = self._destination(frame.headers, destination)
        if frame.headers.get(REPLY_TO, "").startswith(TEMPORARY_QUEUE):
            self._make_reply_address(frame.headers)
        facts = read_send(frame.headers, NOT_OF_THE_MESSAGE)
        if facts.user_id and facts.user_id != connection.user_name:
            raise RemoteProtocolError(
                f"header 'user-id' is {facts.user_id!r} but the login was {connection.user_name!r}; leave it out"
            )
        message = Message(
            facts.block,
            frame.body,
            where.origin,
            durable=facts.durable,
            priority=DEFAULT_PRIORITY if facts.priority < 0 else facts.priority,
            accepted_at=now,
            expires_at=facts.expires_at(now),
            deliver_at=facts.due_at(now),
        )
        if facts.cancels:
            return self._cancel_scheduled(message, facts, where, opened)
        core = None if opened is None else opened.core
        if self._send(message, where, facts.duplicate_id, core, receipt) < 0:
            return None
        return opened is None and message.record != 0

    def _send(
        self, message: Message, where: Destination, duplicate_id: str, core: Transaction | None, receipt: str
    ) -> int:
        publication: StompWork | None = None
        if where.wide and core is None:
            publication = StompWork(self.session, "SEND", receipt)
            publication.message = message
        try:
            return self.session.send(
                message, where, duplicate_id=duplicate_id, transaction=core, publication=publication
            )
        except LimitExceeded as error:
            self.connection.broker.note_limit_refusal(str(error), self.connection.now)
            raise

    def _destination(self, headers: dict[str, str], destination: str) -> Destination:
        session = self.session
        refuse_temporary_topic(destination)
        if destination.startswith(TEMPORARY_QUEUE):
            return session.destination(self.connection.temporary.queue_for(destination, WRITE).name)
        name = destination.removeprefix(REPLY_QUEUE)
        if not NOT_OF_THE_MESSAGE.isdisjoint(headers):
            auto_delete = read_switch(AUTO_DELETE, headers.get(AUTO_DELETE, ""))
            declare_if_asked(session, name, queue_arguments(headers), WRITE, auto_delete=auto_delete)
        create = not name.startswith(EXISTING_QUEUE)
        where = session.destination(name, headers.get(ROUTING_TYPE, "").lower(), create=create)
        if session.access.made:  # by this command
            refuse_message_headers(headers, name)
        return where

    def _make_reply_address(self, headers: dict[str, str]) -> None:
        """Make the queue of ``reply-to:/temp-queue/n`` and consume from it; its messages name the queue itself.

        RabbitMQ's convention: replies arrive as messages of the subscription ``/temp-queue/n``, without SUBSCRIBE. A
        client that has subscribed to it (ActiveMQ's) gets them there.
        """
        session = self.session
        destination = headers[REPLY_TO]
        queue = self.connection.temporary.queue_for(destination, READ)
        headers[REPLY_TO] = queue.name
        if any(consumer.queue is queue for consumer in session.consumers.values()):
            return
        consumer = StompConsumer(
            session,
            queue,
            tag_for(destination, destination),
            identifier=destination,
            destination=destination,
            mode=AUTO,
            window=CreditWindow(),
            exclusive=False,
            settings=ConsumerSettings(),
        )
        self._attach(consumer)

    def _cancel_scheduled(
        self, message: Message, facts: SendFacts, where: Destination, opened: OpenTransaction | None
    ) -> bool:
        """Take back the scheduled messages of a name. Returns whether the log has to hear of it."""
        if opened is not None:
            opened.core.cancel_scheduled(message, where.route, facts.schedule_id)
            return False
        host = self.session.host
        removed = cancel_scheduled(host, message, where.route, facts.schedule_id, message.accepted_at)
        return any(entry.message.record for entry in removed)

    # ------------------------------------------------------------------ SUBSCRIBE, UNSUBSCRIBE

    def subscribe(self, frame: Frame, identifier: str, destination: str, acknowledge: str, receipt: str) -> None:
        """Start a subscription; its receipt goes out before its first message."""
        session = self.session
        if len(session.consumers) >= SUBSCRIPTIONS_MAX:
            raise RemoteProtocolError(
                f"SUBSCRIBE: this connection has {SUBSCRIPTIONS_MAX} subscriptions, which is the limit; end some",
                limit=LIMIT_SUBSCRIPTIONS,
            )
        try:
            with translated("SUBSCRIBE"):
                consumer = start_subscription(session, frame.headers, identifier, destination, acknowledge)
                session.answer(receipt, stored=False)
                self._attach(consumer)
        except RemoteProtocolError:
            session.access.take_back(self.connection.now)
            raise
        session.access.keep()

    def _attach(self, consumer: StompConsumer) -> None:
        session = self.session
        if consumer.identifier:
            consumer.head = header_line("subscription", consumer.identifier, session.version)
        try:
            session.attach(consumer, self.connection.now)
        except BaseException:
            session.consumers.pop(consumer.tag, None)
            session.host.consumer_removed(consumer.queue, self.connection.now)
            raise

    def unsubscribe(self, frame: Frame, identifier: str, destination: str, receipt: str) -> None:
        """End a subscription. Its deliveries stay with the connection and may still be acknowledged."""
        session = self.session
        tag = tag_for(identifier, destination)
        known = self._end(tag)
        with translated("UNSUBSCRIBE"):
            if names_durable(frame.headers):
                delete_subscription(session, frame.headers, identifier)
            elif not known:
                raise RemoteProtocolError(
                    f"UNSUBSCRIBE: this connection has no subscription {identifier or destination!r}"
                )
        session.answer(receipt, stored=False)

    def _end(self, tag: str) -> bool:
        session = self.session
        consumer = session.detach(tag, self.connection.now)
        if consumer is None:
            return False
        session.host.consumer_removed(consumer.queue, self.connection.now)
        return True

    # ------------------------------------------------------------------ ACK, NACK

    def acknowledge(self, identifier: str, subscription: str, transaction: str, receipt: str) -> None:
        """Acknowledge, inside a transaction or at once."""
        self._settle(identifier, subscription, transaction, receipt, acknowledged=True, requeue=False)

    def negative_acknowledge(
        self, frame: Frame, identifier: str, subscription: str, transaction: str, receipt: str
    ) -> None:
        """Reject: back to its place, or with ``requeue:false`` to where dead letters go (RabbitMQ)."""
        requeue = read_switch("requeue", frame.headers.get("requeue", "true"))
        self._settle(identifier, subscription, transaction, receipt, acknowledged=False, requeue=requeue)

    def _settle(
        self,
        identifier: str,
        subscription: str,
        transaction: str,
        receipt: str,
        *,
        acknowledged: bool,
        requeue: bool,
    ) -> None:
        session = self.session
        opened = self._find(transaction) if transaction else None
        consumer, tags = session.take_named(identifier, subscription)
        if opened is None:
            session.settle(tags, receipt, acknowledged=acknowledged, requeue=requeue)
            return
        session.enlist(opened.core, tags, acknowledged=acknowledged, requeue=requeue)
        opened.settled += [(tag, consumer) for tag in tags]
        session.answer(receipt, stored=False)

    # ------------------------------------------------------------------ BEGIN, COMMIT, ABORT

    def begin(self, transaction: str, receipt: str) -> None:
        """Open a transaction."""
        if transaction in self.transactions:
            raise RemoteProtocolError(f"transaction {transaction[:80]!r} is open already; COMMIT or ABORT it first")
        if len(self.transactions) >= TRANSACTIONS_MAX:
            raise RemoteProtocolError(
                f"BEGIN: this connection has {TRANSACTIONS_MAX} open transactions, which is the limit; end some",
                limit=LIMIT_TRANSACTIONS,
            )
        self.transactions[transaction] = OpenTransaction(Transaction(self.session))
        self.session.answer(receipt, stored=False)

    def commit(self, transaction: str, receipt: str) -> None:
        """Carry out a transaction, all of it or nothing; the receipt waits for the disk."""
        opened = self._find(transaction)
        commit = StompWork(self.session, "COMMIT", receipt)
        commit.stored = opened.core.durable_bytes > 0
        del self.transactions[transaction]
        try:
            with translated("COMMIT"):
                done = self.session.commit(opened.core, commit)
        except RemoteProtocolError:
            opened.core.rollback()
            raise
        if done:
            self.session.answer(receipt, stored=commit.stored)

    def abort_transaction(self, transaction: str, receipt: str) -> None:
        """Drop the sends; deliveries settled in it are outstanding again."""
        opened = self._find(transaction)
        del self.transactions[transaction]
        opened.core.rollback()
        self.session.outstanding_again(opened.settled)
        self.session.answer(receipt, stored=False)

    def _find(self, transaction: str) -> OpenTransaction:
        opened = self.transactions.get(transaction)
        if opened is None:
            raise RemoteProtocolError(f"transaction {transaction[:80]!r} is not open; BEGIN it first")
        return opened
