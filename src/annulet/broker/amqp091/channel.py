"""One AMQP 0-9-1 channel: deliveries, settlement, transactions; its publishing half is in ``publishing``.

The hot half of the broker's protocol code; declarations are in ``topology``. Rules: AMQP 0-9-1 §1.8 (basic), §1.9 (tx),
RabbitMQ's per-consumer prefetch, consumer priorities, negative acknowledgements and ``x-delivery-count``.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

import structlog

from annulet.broker.amqp091.foreign import in_own_form
from annulet.broker.amqp091.publishing import PublishingSession, destination_of
from annulet.broker.connections.client_session import SessionCommit
from annulet.broker.connections.views import CONVERSIONS
from annulet.core.base.errors import CoreError
from annulet.core.base.settings import UNLIMITED, ConsumerSettings
from annulet.core.host.transaction import Transaction
from annulet.core.model.consumer import Consumer, CreditWindow
from annulet.core.model.entry import DELIVERING
from annulet.core.sessions.session import UnknownDeliveryTag
from annulet.store.files.errors import StoreError
from annulet.wire.amqp091.messages.properties import VIEW
from annulet.wire.amqp091.types import constants
from annulet.wire.amqp091.types.errors import ChannelError, RemoteProtocolError
from annulet.wire.amqp091.types.values import Long, encode_short_string

if TYPE_CHECKING:
    from annulet.broker.amqp091.connection import AmqpConnection
    from annulet.broker.amqp091.getting import WaitingGet
    from annulet.core.message.message import Message, PropertyValue
    from annulet.core.model.entry import QueueEntry
    from annulet.core.queue.queue import Queue
    from annulet.core.sessions.delivery_deadlines import Overdue

logger = structlog.get_logger(__name__)

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


class Channel(PublishingSession):
    """A session of the core that speaks through its connection's engine."""

    def __init__(self, number: int, connection: AmqpConnection) -> None:
        super().__init__(number, connection)
        self.header_room = connection.engine.frame_max - constants.FRAME_OVERHEAD - constants.HEADER_OVERHEAD  # bytes
        self.field_types = connection.engine.version.field_types  # of tables sent; b"" = all there are
        self.header_max = -1 if self.field_types else self.header_room  # up to this size headers go out as they are
        self._too_large: list[tuple[Consumer, QueueEntry]] = []  # to be returned after this loop turn
        self._too_large_told = False
        self._commits_waiting = 0  # commits whose commit-ok waits for the disk
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
            made = in_own_form(self.converted, message)
            if made is None:
                del self.unacknowledged[tag]
                self.keep_back(consumer, entry)
                return
            message = made
            origin = made.origin
        header = message.header
        if entry.delivery_count or entry.queue.is_group_first(entry):
            header = delivered_header(entry, message)
        if len(header) > self.header_max:
            fitting = self.fitting_header(header, message.header)
            if fitting is None:
                del self.unacknowledged[tag]  # the client must not settle a withheld message
                self._withhold(consumer, entry)
                return
            header = fitting
        self.engine.send_deliver(
            self.number,
            consumer.encoded_tag,
            tag,
            entry.redelivered,
            origin.encoded or destination_of(origin),
            header,
            message.body,
        )
        self.connection.output_added(self.engine.output_size)

    def deliver_settled(self, consumer: Consumer, entry: QueueEntry) -> bool:
        """Write a basic.deliver that needs no acknowledgement, unless its header is too large."""
        message = entry.message
        if message.origin.view is not VIEW:
            made = in_own_form(self.converted, message)
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
        message = in_own_form(self.converted, entry.message) or entry.message
        return (
            f"message {entry.sequence} of queue '{entry.queue.name}' has headers that need a frame of "
            f"{len(self._in_field_types(message.header)) + overhead} bytes, but frame-max of this connection is "
            f"{self.engine.frame_max}; connect with a larger frame-max"
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
            self.engine.send_cancel(self.number, tag)
            self.connection.mark_dirty()

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
        if self.confirming:
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
            if size and not self.connection.accepts_durable(size, self.connection.now):
                raise ChannelError(
                    constants.RESOURCE_ERROR,
                    f"transaction of {size} bytes refused: the disk of the message log is full; free space, try again",
                )
            self._commit(transaction)
        elif self._commits_waiting:  # an answer must not overtake that of a commit before it
            self.begin_commit()
            broker.commit.wait(TransactionWaiter(self))
        else:
            self.engine.send_tx_commit_ok(self.number)

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
        self.client.notices.hold()

    def end_commit(self) -> None:
        """A commit is durable, or has failed."""
        self._commits_waiting -= 1
        self.client.notices.release()

    def tx_rollback(self) -> None:
        """Drop the sends; settled deliveries are unsettled again."""
        self._require_transaction("tx.rollback").rollback()
        self.mandatory = []
        self.sent_to = {}
        self.engine.send_tx_rollback_ok(self.number)

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
        super().close(now)


def commit_refusal(error: Exception) -> tuple[int, str]:
    """Return code and text of the channel's end for a commit of which nothing was done."""
    if isinstance(error, StoreError):
        return constants.RESOURCE_ERROR, f"the transaction is not durable: {error}"
    if isinstance(error, CoreError):
        return constants.PRECONDITION_FAILED, str(error)
    return constants.INTERNAL_ERROR, "the broker failed to commit; see its log"


class ChannelCommit(SessionCommit):
    """The answer to tx.commit once everything took effect. Takes the channel's notes of the sends."""

    def __init__(self, channel: Channel) -> None:
        super().__init__(channel)
        self._channel = channel
        self._mandatory, channel.mandatory = channel.mandatory, []
        self._sent_to, channel.sent_to = channel.sent_to, {}
        self._marks = channel.blocked.marks()

    def answer(self, unroutable: list[Message]) -> None:
        """Send commit-ok when it is durable; send back the mandatory messages that no queue took."""
        channel = self._channel
        broker = channel.connection.broker
        broker.unroutable += len(unroutable)
        if not channel.closed:
            if channel.blocked.any:
                channel.hold(channel.blocked.entered(self._marks) + channel.blocked.at(self._sent_to))
            lost = {id(message) for message in unroutable}
            for message in self._mandatory:
                if id(message) in lost:
                    channel.return_unroutable(message)
        broker.commit.wait(TransactionWaiter(channel))

    def refuse(self, error: Exception) -> None:
        """Close the channel, or the connection for a defect."""
        channel = self._channel
        if not channel.closed:
            code, text = commit_refusal(error)
            if code == constants.INTERNAL_ERROR:
                channel.engine.close_connection(code, text)
                channel.connection.mark_dirty()
            else:
                channel.client.fail_channel(channel.number, code, text, 90, 20)
        channel.end_commit()


class TransactionWaiter:
    """Sends commit-ok when the transaction is durable."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel

    def window_committed(self, window: int) -> None:  # noqa: ARG002 - of the interface; it waits for one only
        """Answer the client."""
        channel = self.channel
        if not channel.closed:
            channel.engine.send_tx_commit_ok(channel.number)
            channel.connection.mark_dirty()
        channel.end_commit()

    def window_failed(self, window: int) -> None:  # noqa: ARG002 - as above
        """The commit is not durable: the channel ends with an error."""
        channel = self.channel
        if not channel.closed:
            channel.client.fail_channel(
                channel.number, constants.RESOURCE_ERROR, "the transaction could not be written to disk", 90, 20
            )
        channel.end_commit()
