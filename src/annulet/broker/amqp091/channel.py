"""One AMQP 0-9-1 channel: deliveries, publishing, settlement, transactions.

The hot half of the broker's protocol code; declarations are in ``topology``. Rules: AMQP 0-9-1 §1.8 (basic), §1.9 (tx),
RabbitMQ's per-consumer prefetch, consumer priorities, negative acknowledgements and ``x-delivery-count``. Publishers
are held back as Broker-J does it.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

import structlog

from annulet.broker.amqp091.commits import ChannelCommit, TransactionWaiter, WidePublish, commit_refusal
from annulet.broker.amqp091.confirms import PublisherConfirms
from annulet.broker.amqp091.foreign import as_amqp091
from annulet.broker.amqp091.publishing import ContentHeaders, Destinations, PublishFacts, destination_of
from annulet.broker.connections.client_session import ClientSession
from annulet.broker.connections.views import CONVERSIONS
from annulet.core.base.errors import CoreError, LimitExceeded
from annulet.core.base.settings import UNLIMITED, ConsumerSettings
from annulet.core.host.schedule_cancelling import cancel_scheduled
from annulet.core.host.transaction import Transaction
from annulet.core.message.message import DEFAULT_PRIORITY, Message
from annulet.core.model.consumer import Consumer, CreditWindow
from annulet.core.model.entry import DELIVERING
from annulet.core.sessions.session import UnknownDeliveryTag
from annulet.store.files.errors import StoreError
from annulet.wire.amqp091.connection.methods import encode_method
from annulet.wire.amqp091.messages.properties import VIEW
from annulet.wire.amqp091.types import constants
from annulet.wire.amqp091.types.errors import ChannelError, ConnectionFault, RemoteProtocolError
from annulet.wire.amqp091.types.values import Long, encode_short_string

if TYPE_CHECKING:
    from annulet.broker.amqp091.connection import AmqpConnection
    from annulet.broker.amqp091.getting import WaitingGet
    from annulet.broker.durability.blocked import BlockedTarget
    from annulet.core.message.message import PropertyValue
    from annulet.core.model.entry import QueueEntry
    from annulet.core.model.queue_state import QueueState
    from annulet.core.queue.queue import Queue
    from annulet.core.routing.routes import Route
    from annulet.core.sessions.delivery_deadlines import Overdue

logger = structlog.get_logger(__name__)

HELD_MILLISECONDS_MAX: Final = 5000
"""How long a channel that is told to stop may go on publishing (Broker-J ``channel.flowControlEnforcementTimeout``)."""

FLOW_STOP: Final = encode_method("channel.flow", {"active": False})
FLOW_GO: Final = encode_method("channel.flow", {"active": True})

DELIVERY_COUNT: Final = "x-delivery-count"
"""Header of a message that was delivered before: how often (RabbitMQ's quorum queues)."""


class AmqpConsumer(Consumer):
    """A consumer with its tag as it goes on the wire. Made by :func:`amqp_consumer`."""

    __slots__ = ("encoded_tag",)

    encoded_tag: bytes


def amqp_consumer(
    channel: Channel, queue: Queue, tag: str, *, auto_acknowledge: bool, exclusive: bool, settings: ConsumerSettings
) -> AmqpConsumer:
    """Return a consumer with the channel's prefetch."""
    consumer = AmqpConsumer(
        channel,
        queue,
        tag,
        window=CreditWindow(channel.prefetch_count, channel.prefetch_bytes),
        auto_acknowledge=auto_acknowledge,
        exclusive=exclusive,
        priority=settings.priority,
        settings=settings,
    )
    consumer.encoded_tag = encode_short_string(tag)
    return consumer


def delivered_header(entry: QueueEntry, message: Message) -> bytes:
    """Return the header a delivery goes out with: the message's own, and what the consumer is told of this delivery.

    ``message`` is the entry's, in the form of AMQP 0-9-1.
    """
    queue = entry.queue
    headers: dict[str, PropertyValue] = {}
    if entry.delivery_count:
        headers[DELIVERY_COUNT] = Long(entry.delivery_count)
    if queue.settings.group_first_key and queue.is_group_first(entry):
        headers[queue.settings.group_first_key] = True
    if not headers:
        return message.header
    try:
        return message.origin.view.annotated(message, headers)
    except RemoteProtocolError:  # malformed, and stored by a version that did not look: it goes out as it came in
        return message.header


class Channel(ClientSession):
    """A session of the core that speaks through its connection's engine."""

    def __init__(self, number: int, connection: AmqpConnection) -> None:
        super().__init__(f"{connection.name}#{number}", connection)
        self.number = number
        self.client = connection  # the same, by its own type: parts of AMQP 0-9-1 only
        self.engine = connection.engine
        self.output = connection.engine.output
        self.confirms = PublisherConfirms(number, connection)
        self.confirm_queued = False  # the connection will call flush_answers at the end of this turn
        self.transaction: Transaction | None = None  # tx.select was given
        self.mandatory: list[Message] = []  # sends of the open transaction that come back when no queue takes them
        self.sent_to: dict[str, None] = {}  # addresses the open transaction sends to
        self.held_since = 0  # when the first full queue or address told it to stop, milliseconds since 1970
        self.reply_address = ""  # the reply queue its requests carry as their reply-to, while that queue is there
        self._destinations = Destinations(self.host, self.access, connection.publisher, connection.identity)
        self._known_destinations = self._destinations.known
        self._headers = ContentHeaders(self.host, connection.user_name)
        self._known_headers = self._headers.known
        self.header_room = self.output.frame_max - constants.FRAME_OVERHEAD - constants.HEADER_OVERHEAD  # bytes
        self.field_types = connection.engine.output.version.field_types  # of tables sent; b"" = all there are
        self.header_max = -1 if self.field_types else self.header_room  # up to this size headers go out as they are
        self._too_large: list[tuple[Consumer, QueueEntry]] = []  # to be returned after this loop turn
        self._too_large_told = False
        self._commits_waiting = 0  # commits whose commit-ok waits for the disk
        self._input_waits = False  # of the connection, for that
        self.prefetch_count = UNLIMITED  # for consumers started from now on
        self.prefetch_bytes = UNLIMITED
        self._prefetch_of_channel = False  # a client that means the standard's qos has changed it under its consumers
        self.gets: deque[WaitingGet] = deque()  # not answered yet
        self.last_queue = ""  # the meaning of an empty queue name (§1.7.2.1)

    # ------------------------------------------------------------------ deliveries

    def deliver(self, consumer: Consumer, entry: QueueEntry, tag: int) -> None:
        """Write basic.deliver. Called by queues; stops being writable when the connection has enough to do."""
        assert isinstance(consumer, AmqpConsumer)
        message = entry.message
        origin = message.origin
        if origin.view is not VIEW:
            made = as_amqp091(self.converted, message)
            if made is None:
                del self.unacknowledged[tag]
                self.keep_back(consumer, entry)
                return
            message = made
            origin = made.origin
        header = message.header
        if entry.delivery_count or entry.queue.settings.group_first_key:
            header = delivered_header(entry, message)
        if len(header) > self.header_max:
            fitting = self.fitting_header(header, message.header)
            if fitting is None:
                del self.unacknowledged[tag]  # the client must not settle a withheld message
                self._withhold(consumer, entry)
                return
            header = fitting
        self.output.send_deliver(
            self.number,
            consumer.encoded_tag,
            tag,
            entry.redelivered,
            origin.encoded or destination_of(origin),
            header,
            message.body,
        )
        self.connection.output_added(self.output.size)

    def deliver_settled(self, consumer: Consumer, entry: QueueEntry) -> bool:
        """Write a basic.deliver that needs no acknowledgement, unless its header is too large."""
        message = entry.message
        if message.origin.view is not VIEW:
            made = as_amqp091(self.converted, message)
            if made is None:
                self.keep_back(consumer, entry)
                return False
            message = made
        header = message.header
        if len(header) > self.header_max and self.fitting_header(header, header) is None:
            self._withhold(consumer, entry)
            return False
        self.last_tag += 1
        self.deliver(consumer, entry, self.last_tag)
        return True

    def fitting_header(self, header: bytes, plain: bytes) -> bytes | None:
        """Return what goes out to this client: ``header`` in its version's field types, if that fits into its frames.

        Else the same of ``plain``: better without the details of the delivery than not at all. ``None``: too large.
        """
        for candidate in (header, plain):
            limited = self._in_field_types(candidate)
            if len(limited) <= self.header_room:
                return limited
        return None

    def _in_field_types(self, header: bytes) -> bytes:
        if not self.field_types:
            return header
        try:
            return CONVERSIONS.limited(header, self.field_types)
        except RemoteProtocolError:  # malformed, and stored by a version that did not look: it goes out as it came in
            return header
        finally:
            self.look_after_conversions()

    def _withhold(self, consumer: Consumer, entry: QueueEntry) -> None:
        """Keep a message from a consumer: its content header, which cannot be split, needs a larger frame."""
        broker = self.connection.broker
        broker.deliveries_too_large += 1
        if not self._too_large_told:
            self._too_large_told = True
            logger.warning("message withheld from a consumer", peer=self.name, reason=self.too_large(entry))
        if not self._too_large:
            broker.loop.call_soon(self._return_too_large)
        self._too_large.append((consumer, entry))

    def too_large(self, entry: QueueEntry) -> str:
        """Return why a message cannot be sent to this client, and the remedy."""
        overhead = constants.FRAME_OVERHEAD + constants.HEADER_OVERHEAD
        message = as_amqp091(self.converted, entry.message) or entry.message
        return (
            f"message {entry.sequence} of queue '{entry.queue.name}' has headers that need a frame of "
            f"{len(self._in_field_types(message.header)) + overhead} bytes, but frame-max of this connection is "
            f"{self.output.frame_max}; connect with a larger frame-max"
        )

    def _return_too_large(self) -> None:
        """Return withheld messages, for other consumers."""
        withheld, self._too_large = self._too_large, []
        now = self.connection.broker.clock()
        for consumer, entry in withheld:
            if entry.state == DELIVERING and entry.consumer is consumer:
                exclude = None if consumer.cancelled else consumer
                entry.queue.return_entries([entry], now, counted=False, exclude=exclude)
        if not self.closed:
            self.wake(now)  # its deliveries filled a shared window, which other queues wait for

    def consumer_cancelled(self, consumer: Consumer) -> None:
        """Tell a client that understands it (consumer_cancel_notify) that its queue is gone, or all of it seen."""
        super().consumer_cancelled(consumer)
        if not consumer.queue.deleted:  # a browser's end may be that of its queue, but not in the middle of a dispatch
            broker = self.connection.broker
            broker.loop.call_soon(self.host.consumer_removed, consumer.queue, self.connection.now)
        if self.client.capable("consumer_cancel_notify"):
            self.client.notices.cancelled(self, consumer.tag)

    def send_cancel(self, tag: str) -> None:
        """Tell the client, unless the channel has ended meanwhile."""
        if not self.closed:
            self.engine.notices.send_cancel(self.number, tag)
            self.connection.mark_dirty()

    # ------------------------------------------------------------------ publishing

    def publish(  # noqa: C901, PLR0912 - the hot path: rare requests are tested here and done elsewhere
        self, exchange: str, routing_key: str, mandatory: bool, immediate: bool, header: bytes, body: bytes
    ) -> None:
        """Route one message. Confirms go out once per loop turn; see :meth:`flush_answers`."""
        if immediate:  # the text is RabbitMQ's, which clients look for; a TTL of 0 on the queue does the same
            raise ConnectionFault(constants.NOT_IMPLEMENTED, "immediate=true")
        facts = self._known_headers.get(header)
        if facts is None:
            facts = self._headers.read(header, self.reply_address)
        asks = facts.asks
        if asks is not None and asks.extends:
            self._extend(asks.extends)
            return
        destination = self._known_destinations.get((exchange, routing_key))
        if destination is None or destination.generation != self.host.generation:
            destination = self._destinations.resolve(exchange, routing_key)
        connection = self.connection
        now = connection.now
        message = Message(
            facts.header,
            body,
            destination.origin,
            durable=facts.durable,
            priority=DEFAULT_PRIORITY if facts.priority < 0 else facts.priority,
            accepted_at=now,
            expires_at=0 if facts.time_to_live < 0 else now + facts.time_to_live,
            deliver_at=0 if asks is None else asks.due_at(now),
        )
        self.confirms.published += 1
        if asks is not None and asks.cancels:
            self._cancel_scheduled(message, facts, asks.schedule_id, destination.route)
            return
        if message.durable and not connection.broker.accepts_durable(len(body) + len(header) + destination.room, now):
            self.refuse_publish(len(body))
            return
        if self.transaction is not None:
            self._collect(self.transaction, message, facts, destination.route, mandatory)
            return
        if destination.wide:
            self._publish_wide(message, facts, destination.route, mandatory)
            return
        if asks is None and not self.blocked.any:
            routed = self.publisher.publish(message, destination.route, now)
            if self.blocked.queues or self.blocked.addresses:  # the rest is now
                self.hold(self._blocked_on(destination.route, (), {}))
        else:
            routed = self._publish_watched(message, facts, destination.route, now)
        if routed == 0:
            self._unroutable(message, mandatory)
        if self.confirms.enabled:
            if message.record:
                self.confirms.wait_for_disk()
            elif not self.confirm_queued:
                self.confirm_queued = True
                connection.answer_later(self)

    def _publish_wide(self, message: Message, facts: PublishFacts, route: Route, mandatory: bool) -> None:
        """Publish where the way may lead to very many queues: a turn of the loop is for some of them."""
        if self.held_by:
            self._enforce_hold(self.blocked.on_way(route), message.accepted_at)
        asks = facts.asks
        publication = WidePublish(self, message, route, facts.further_keys, mandatory=mandatory)
        routed = self.publish_wide(
            message,
            route,
            publication,
            duplicate_id="" if asks is None else asks.duplicate_id,
            further_keys=facts.further_keys,
        )
        if routed >= 0:
            publication.answer([] if routed else [message])

    def published_wide(self, message: Message, targets: list[BlockedTarget], mandatory: bool, routed: bool) -> None:
        """A message is in all of very many queues: confirm it as others. ``targets``: those that are blocked now."""
        self.hold(targets)
        if not routed:
            self._unroutable(message, mandatory)
        if self.confirms.enabled:
            if message.record:
                self.confirms.wait_for_disk()
            elif not self.confirm_queued:
                self.confirm_queued = True
                self.connection.answer_later(self)

    def refused_wide(self, error: Exception, message: Message, mandatory: bool) -> None:
        """A message is in none of very many queues: refuse it as others."""
        if isinstance(error, LimitExceeded):
            origin = message.origin
            self.refuse_for_limit(
                str(error), origin.exchange, origin.routing_key, mandatory, message.header, message.body
            )
        elif isinstance(error, StoreError) and self.confirms.enabled:
            self.refuse_publish(message.size)
        else:
            text = f"message of {message.size} bytes was not published: {error}"
            self.client.fail_channel(self.number, constants.RESOURCE_ERROR, text, 60, 40)

    def _extend(self, tag: int) -> None:
        """Let the time of a delivery begin anew. The publish is accepted, goes nowhere and needs no permission."""
        self.confirms.published += 1
        if not self.extend_delivery(tag):
            raise ChannelError(
                constants.PRECONDITION_FAILED,
                f"unknown delivery tag {tag} in header 'x-extend-delivery'; name one that this channel holds",
            )
        if self.confirms.enabled and not self.confirm_queued:
            self.confirm_queued = True
            self.connection.answer_later(self)

    def _publish_watched(self, message: Message, facts: PublishFacts, route: Route, now: int) -> int:
        """Publish what asks for more than its way, or while something is blocked."""
        if self.held_by:
            self._enforce_hold(self.blocked.on_way(route), now)
        marks = self.blocked.marks()
        asks = facts.asks
        routed = self.publisher.publish(
            message,
            route,
            now,
            duplicate_id="" if asks is None else asks.duplicate_id,
            further_keys=facts.further_keys,
        )
        if self.blocked.any:
            targets = self._blocked_on(route, facts.further_keys, marks)
            self._enforce_hold(targets, now)  # a way that is decided by the message is known only now
            self.hold(targets)
        return routed

    def _cancel_scheduled(self, message: Message, facts: PublishFacts, schedule_id: str, route: Route) -> None:
        """Take back the scheduled messages of a name; none is fine. The publish counts as accepted and goes nowhere.

        It takes no room, so neither a full disk nor a full queue refuses it or holds it back.
        """
        if self.transaction is not None:
            self.transaction.cancel_scheduled(message, route, schedule_id, further_keys=facts.further_keys)
            return
        removed = cancel_scheduled(
            self.host, message, route, schedule_id, message.accepted_at, further_keys=facts.further_keys
        )
        if not self.confirms.enabled:
            return
        if any(entry.message.record for entry in removed):
            self.confirms.wait_for_disk()
        elif not self.confirm_queued:
            self.confirm_queued = True
            self.connection.answer_later(self)

    def _collect(
        self, transaction: Transaction, message: Message, facts: PublishFacts, route: Route, mandatory: bool
    ) -> None:
        if self.held_by:
            self._enforce_hold(self.blocked.on_way(route), message.accepted_at)
        self.sent_to[route.address] = None
        asks = facts.asks
        transaction.send(
            message,
            route,
            duplicate_id="" if asks is None else asks.duplicate_id,
            further_keys=facts.further_keys,
        )
        if mandatory:
            self.mandatory.append(message)

    def _unroutable(self, message: Message, mandatory: bool) -> None:
        if mandatory:
            self.return_unroutable(message)
        self.connection.broker.unroutable += 1

    def return_unroutable(self, message: Message) -> None:
        """Send a mandatory message back that no queue takes."""
        origin = message.origin
        self._send_back(
            constants.NO_ROUTE, "NO_ROUTE", origin.exchange, origin.routing_key, message.header, message.body
        )

    def _send_back(self, code: int, text: str, exchange: str, routing_key: str, header: bytes, body: bytes) -> None:
        self.output.send_return(self.number, code, text, exchange, routing_key, header, body)
        self.connection.mark_dirty()

    # ------------------------------------------------------------------ refusals

    def refuse_publish(self, size: int) -> None:
        """The disk takes no more persistent messages: say so on the level the client listens on."""
        self.connection.broker.refused_publishes += 1
        if self.confirms.enabled:
            self.confirms.refuse_latest()
            return
        raise ChannelError(
            constants.RESOURCE_ERROR,
            f"message of {size} bytes refused: the disk of the message log is full; free space and try again",
        )

    def refuse_for_limit(
        self, text: str, exchange: str, routing_key: str, mandatory: bool, header: bytes, body: bytes
    ) -> None:
        """A full queue or address refuses the latest publish: nack it, or return it if it is mandatory.

        Without either the client cannot be told and the message is gone: counted and logged by the broker.
        """
        self.connection.broker.note_limit_refusal(text, self.connection.now)
        if self.confirms.enabled:
            self.confirms.refuse_latest()
        elif mandatory:
            self._send_back(constants.RESOURCE_ERROR, text, exchange, routing_key, header, body)

    # ------------------------------------------------------------------ being held back

    def _blocked_on(
        self, route: Route, further_keys: tuple[str, ...], marks: dict[QueueState, int]
    ) -> list[BlockedTarget]:
        """Return the blocked targets of the latest publish. ``marks``: those of before it."""
        if route.static and not further_keys:
            return self.blocked.on_way(route)
        return self.blocked.entered(marks) + self.blocked.at([route.address])

    def publishing_held(self) -> None:
        """Tell a client that obeys channel.flow."""
        self.held_since = self.connection.now
        if self.connection.obeys_flow:
            self.output.send_method(self.number, FLOW_STOP)

    def publishing_resumed(self) -> None:
        """Tell it to go on."""
        if self.connection.obeys_flow:
            self.output.send_method(self.number, FLOW_GO)

    def _enforce_hold(self, targets: list[BlockedTarget], now: int) -> None:
        """End a channel that was told to stop long ago and publishes into the same all the same."""
        if not self.held_by or now - self.held_since < HELD_MILLISECONDS_MAX:
            return
        for target in targets:
            if target in self.held_by:
                raise ChannelError(
                    constants.CONTENT_TOO_LARGE,
                    f"{target.name} is full and blocks its publishers, but this channel went on for "
                    f"{HELD_MILLISECONDS_MAX} ms; obey channel.flow and connection.blocked, or consume on another "
                    "connection",
                )

    # ------------------------------------------------------------------ confirms

    def flush_answers(self) -> None:
        """Confirm the publishes of this turn that need no disk."""
        self.confirm_queued = False
        if not self.closed:
            self.confirms.confirm_upto(self.confirms.published)

    def confirm_select(self) -> None:
        """Switch confirms on (RabbitMQ confirms)."""
        if self.transaction is not None:
            raise ChannelError(
                constants.PRECONDITION_FAILED, "cannot switch from tx to confirm mode; open another channel"
            )
        self.confirms.enable()

    # ------------------------------------------------------------------ settlement

    def settle(self, tag: int, multiple: bool) -> None:
        """basic.ack, inside a transaction or at once."""
        try:
            if self.transaction is not None:
                self.transaction.acknowledge(tag, multiple=multiple)
            else:
                self.acknowledge(tag, self.connection.now, multiple=multiple)
        except UnknownDeliveryTag as error:
            raise ChannelError(constants.PRECONDITION_FAILED, str(error)) from error

    def refuse_delivery(self, tag: int, multiple: bool, requeue: bool) -> None:
        """basic.reject and basic.nack."""
        try:
            if self.transaction is not None:
                self.transaction.reject(tag, multiple=multiple, requeue=requeue)
            else:
                self.reject(tag, self.connection.now, requeue=requeue, multiple=multiple)
        except UnknownDeliveryTag as error:
            raise ChannelError(constants.PRECONDITION_FAILED, str(error)) from error

    def set_prefetch(self, size: int, count: int, shared: bool) -> None:
        """basic.qos as RabbitMQ reads ``global``: shared by the channel, or for each consumer started after it.

        ``size`` is the byte window RabbitMQ does not have; 0 means no limit for both. A client that means the
        standard's qos (``STANDARD_QOS_PRODUCTS``) and changes the limit under its consumers limits the channel at once.
        """
        messages = count or UNLIMITED
        octets = size or UNLIMITED
        if shared:
            self.set_window(messages, octets, self.connection.now)
            return
        changed = messages != self.prefetch_count or octets != self.prefetch_bytes
        self.prefetch_count = messages
        self.prefetch_bytes = octets
        if changed and self.client.standard_qos and (self.consumers or self._prefetch_of_channel):
            self._prefetch_of_channel = True
            for consumer in self.consumers.values():
                consumer.window.messages_max = messages
                consumer.window.bytes_max = octets
            self.set_window(messages, octets, self.connection.now)

    # ------------------------------------------------------------------ transactions

    def tx_select(self) -> None:
        """Make the channel transactional."""
        if self.confirms.enabled:
            raise ChannelError(
                constants.PRECONDITION_FAILED, "cannot switch from confirm to tx mode; open another channel"
            )
        if self.transaction is None:
            self.transaction = Transaction(self)

    def tx_commit(self) -> None:
        """Commit; commit-ok goes out when it is durable."""
        transaction = self._require_transaction("tx.commit")
        broker = self.connection.broker
        if not transaction.empty:
            size = transaction.durable_bytes
            if size and not self.connection.broker.accepts_durable(size, self.connection.now):
                raise ChannelError(
                    constants.RESOURCE_ERROR,
                    f"transaction of {size} bytes refused: the disk of the message log is full; free space, try again",
                )
            self._commit(transaction)
        elif self._commits_waiting:  # an answer must not overtake that of a commit before it
            self.begin_commit()
            broker.commit.wait(TransactionWaiter(self))
        else:
            self.engine.replies.send_tx_commit_ok(self.number)

    def _commit(self, transaction: Transaction) -> None:
        commit = ChannelCommit(self)
        self.begin_commit()
        try:
            unroutable = self.commit_bounded(transaction, commit)
        except (StoreError, CoreError) as error:  # a full queue, a duplicate: nothing of it was done
            self.end_commit()
            raise ChannelError(*commit_refusal(error)) from error
        if unroutable is not None:
            commit.answer(unroutable)

    def begin_commit(self) -> None:
        """A commit is to be answered."""
        self._commits_waiting += 1
        self.engine.unanswered.add(self.number)
        self.client.notices.hold()

    def await_commit(self) -> None:
        """A method has come whose answer would overtake commit-ok."""
        if not self._input_waits:
            self._input_waits = True
            self.connection.await_work()

    def end_commit(self) -> None:
        """A commit is durable, or has failed."""
        self._commits_waiting -= 1
        self.client.notices.release()
        if self._commits_waiting:
            return
        if not self.closed:  # else the number may be that of another channel by now
            self.engine.unanswered.discard(self.number)
        if self._input_waits:
            self._input_waits = False
            self.connection.work_done()

    def tx_rollback(self) -> None:
        """Drop the sends; settled deliveries are unsettled again."""
        self._require_transaction("tx.rollback").rollback()
        self.mandatory = []
        self.sent_to = {}
        self.engine.replies.send_tx_rollback_ok(self.number)

    def _require_transaction(self, method: str) -> Transaction:
        if self.transaction is None:
            raise ChannelError(
                constants.PRECONDITION_FAILED, f"{method} on a channel that is not transactional; use tx.select"
            )
        return self.transaction

    # ------------------------------------------------------------------ end

    def delivery_overdue(self, overdue: Overdue) -> None:
        """Close the channel, as RabbitMQ does: all it holds goes back."""
        self.client.fail_channel(self.number, constants.PRECONDITION_FAILED, str(overdue), 0, 0)

    def settlement_failed(self, entries: list[QueueEntry], now: int) -> None:
        """Close the connection with 541, then give back these too."""
        self.engine.close_connection(constants.INTERNAL_ERROR, "the broker failed to settle deliveries; see its log")
        self.connection.mark_dirty()
        super().settlement_failed(entries, now)

    def close(self, now: int) -> None:
        """Close by either side or by a lost connection: everything unsettled goes back to its place."""
        if self.closed:
            return
        if self.transaction is not None:
            self.transaction.rollback()
            self.transaction = None  # it holds the channel
        while self.gets:
            self.gets.pop().withdraw()
        self.confirms.ended = True
        self.engine.unanswered.discard(self.number)  # the end of the channel is the last answer on it
        super().close(now)
