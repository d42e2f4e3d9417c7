"""One AMQP 0-9-1 channel: publishing with confirms, deliveries, settlement, transactions.

The hot half of the channel; declarations are in ``topology``. Rules: AMQP 0-9-1 §1.8 (basic), §1.9 (tx), RabbitMQ's
confirms, per-consumer prefetch, consumer priorities and negative acknowledgements.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from annulet.core.consumer import Consumer, CreditWindow
from annulet.core.message import DEFAULT_PRIORITY, Message, Origin
from annulet.core.session import Session, UnknownDeliveryTag
from annulet.core.settings import UNLIMITED
from annulet.core.transaction import Transaction
from annulet.store.errors import StoreError
from annulet.wire.amqp091 import constants
from annulet.wire.amqp091.engine import encode_destination, encode_short_string
from annulet.wire.amqp091.errors import ChannelError, ConnectionFault
from annulet.wire.amqp091.properties import VIEW, read_publish_facts

if TYPE_CHECKING:
    from annulet.broker.amqp091.connection import AmqpConnection
    from annulet.core.entry import QueueEntry
    from annulet.core.queue import Queue
    from annulet.core.routing import Route

DESTINATIONS_MAX: Final = 1024
"""Destinations a channel remembers: enough for a busy producer, about 300 KB at the bound; then it starts afresh."""

HEADERS_MAX: Final = 256
"""Distinct content headers a channel remembers, so that equal ones are parsed and stored once."""

EXPIRATION_MAX: Final = 0xFFFFFFFF
"""Milliseconds, 49 days: RabbitMQ's bound of the expiration property. Any larger number has to stop somewhere: the log
has 64 bits for the time."""

HEADER_SIZE_MAX: Final = 128
"""Bytes; longer headers nearly always carry a unique id, so remembering them gains nothing."""


TARGET_BYTES: Final = 16
"""Bytes of the log for each queue a message goes to: its id and the message's sequence number in it."""


class Destination:
    """What a channel remembers of one exchange and routing key while the graph does not change."""

    __slots__ = ("generation", "origin", "room", "route")

    def __init__(self, route: Route, origin: Origin, generation: int, queues_max: int) -> None:
        self.room = queues_max * TARGET_BYTES  # bytes that naming its queues takes in the log
        self.route = route
        self.origin = origin
        self.generation = generation


class PublishFacts:
    """What routing needs of a content header; equal headers share one, and so one copy of the octets."""

    __slots__ = ("durable", "header", "priority", "time_to_live")

    def __init__(self, header: bytes, durable: bool, priority: int) -> None:
        self.header = header
        self.durable = durable
        self.priority = priority  # -1: not given
        self.time_to_live = UNLIMITED  # the expiration property in milliseconds


class AmqpConsumer(Consumer):
    """A consumer with its tag as it goes on the wire."""

    __slots__ = ("encoded_tag",)

    def __init__(
        self,
        session: Session,
        queue: Queue,
        tag: str,
        *,
        window: CreditWindow | None = None,
        auto_acknowledge: bool = False,
        exclusive: bool = False,
        priority: int = 0,
    ) -> None:
        super().__init__(
            session,
            queue,
            tag,
            window=window,
            auto_acknowledge=auto_acknowledge,
            exclusive=exclusive,
            priority=priority,
        )
        self.encoded_tag = encode_short_string(tag)


def _time_to_live(expiration: str) -> int:
    """Return milliseconds; 406 for what RabbitMQ refuses as well."""
    if expiration.isascii() and expiration.isdigit():
        milliseconds = int(expiration)
        if milliseconds <= EXPIRATION_MAX:
            return milliseconds
    raise ChannelError(
        constants.PRECONDITION_FAILED,
        f"invalid expiration {expiration!r}: give a whole number of milliseconds from 0 to {EXPIRATION_MAX}",
    )


def destination_of(origin: Origin) -> bytes:
    """Exchange and routing key as two short strings, encoded once per origin."""
    if not origin.encoded:
        origin.encoded = encode_destination(origin.exchange, origin.routing_key)
    return origin.encoded


class Channel(Session):
    """A session of the core that speaks through its connection's engine."""

    def __init__(self, number: int, connection: AmqpConnection) -> None:
        super().__init__(f"{connection.name}#{number}")
        self.number = number
        self.connection = connection
        self.engine = connection.engine
        self.host = connection.require_host()
        self.writable = connection.writable
        self.confirming = False  # confirm.select was given
        self.confirm_queued = False  # the connection will call flush_confirms at the end of this turn
        self.transaction: Transaction | None = None  # tx.select was given
        self._commits_waiting = 0  # commits whose commit-ok waits for the disk
        self._mandatory: list[Message] = []  # sends of the open transaction that come back when no queue takes them
        self.prefetch_count = UNLIMITED  # for consumers started from now on
        self.prefetch_bytes = UNLIMITED
        self.last_queue = ""  # what an empty queue name means (§1.7.2.1)
        self.messages_published = 0  # since confirm.select when confirming: the tag of the latest publish
        self.confirmed_to = 0  # publishes up to here were answered or are in _waiting
        self._waiting: deque[tuple[int, int]] = deque()  # (last publish tag, window) of publishes waiting for the disk
        self._destinations: dict[tuple[str, str], Destination] = {}
        self._headers: dict[bytes, PublishFacts] = {}

    # ------------------------------------------------------------------ publishing

    def publish(
        self, exchange: str, routing_key: str, mandatory: bool, immediate: bool, header: bytes, body: bytes
    ) -> None:
        """Route one message. Confirms go out once per loop turn; see :meth:`flush_confirms`."""
        if immediate:
            raise ConnectionFault(constants.NOT_IMPLEMENTED, "immediate=true is not supported; use a queue TTL of 0")
        destination = self._destinations.get((exchange, routing_key))
        if destination is None or destination.generation != self.host.generation:
            destination = self._resolve(exchange, routing_key)
        facts = self._headers.get(header)
        if facts is None:
            facts = self._read_header(header)
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
        )
        self.messages_published += 1
        if message.durable and not connection.accepts_durable(len(body) + len(header) + destination.room, now):
            self.refuse_publish(len(body))
            return
        if self.transaction is not None:
            self.transaction.send(message, destination.route)
            if mandatory:
                self._mandatory.append(message)
            return
        routed = self.host.publish(message, destination.route, now)
        if routed == 0:
            if mandatory:
                self._return_unroutable(message)
            connection.broker.unroutable += 1
        if self.confirming:
            if message.record:
                self._wait_for_disk()
            elif not self.confirm_queued:
                self.confirm_queued = True
                connection.mark_confirming(self)

    def _resolve(self, exchange: str, routing_key: str) -> Destination:
        connection = self.connection
        connection.require("write", exchange)
        route = self.host.route(exchange, routing_key)
        if len(self._destinations) >= DESTINATIONS_MAX:
            self._destinations.clear()
        origin = Origin(exchange, routing_key, connection.publisher, VIEW)
        queues_max = len(route.queues) if route.static else len(self.host.queues)
        destination = Destination(route, origin, self.host.generation, queues_max)
        self._destinations[(exchange, routing_key)] = destination
        return destination

    def _read_header(self, header: bytes) -> PublishFacts:
        read = read_publish_facts(header)
        facts = PublishFacts(header, read.delivery_mode == constants.DELIVERY_MODE_PERSISTENT, read.priority)
        if read.user_id and read.user_id != self.connection.user_name:
            raise ChannelError(
                constants.PRECONDITION_FAILED,
                f"user_id property set to {read.user_id!r} but authenticated user was {self.connection.user_name!r}",
            )
        if read.expiration is not None:
            facts.time_to_live = _time_to_live(read.expiration)
        if len(header) <= HEADER_SIZE_MAX:
            if len(self._headers) >= HEADERS_MAX:
                self._headers.clear()
            self._headers[header] = facts
        return facts

    def _return_unroutable(self, message: Message) -> None:
        origin = message.origin
        self.engine.send_return(
            self.number,
            constants.NO_ROUTE,
            "NO_ROUTE",
            origin.exchange,
            origin.routing_key,
            message.header,
            message.body,
        )
        self.connection.mark_dirty()

    def refuse_publish(self, size: int) -> None:
        """The disk takes no more persistent messages: say so on the level the client listens on."""
        self.connection.broker.refused_publishes += 1
        if self.confirming:
            self._confirm_upto(self.messages_published - 1)
            self.engine.send_refusal(self.number, self.messages_published, False)
            self.confirmed_to = self.messages_published
            self.connection.mark_dirty()
            return
        raise ChannelError(
            constants.RESOURCE_ERROR,
            f"message of {size} bytes refused: the disk of the message log is full; free space and try again",
        )

    # ------------------------------------------------------------------ confirms

    def _wait_for_disk(self) -> None:
        pipeline = self.connection.broker.commit
        window = pipeline.window
        waiting = self._waiting
        if waiting and waiting[-1][1] == window:
            waiting[-1] = (self.messages_published, window)
        else:
            pipeline.wait(self)
            waiting.append((self.messages_published, window))
        self.confirmed_to = self.messages_published

    def flush_confirms(self) -> None:
        """Confirm what needs no disk, unless earlier publishes still wait for it: confirms keep publish order."""
        self.confirm_queued = False
        self._confirm_upto(self.messages_published)

    def _confirm_upto(self, last: int) -> None:
        if last <= self.confirmed_to or not self.confirming:
            return
        if self._waiting:
            window = self._waiting[-1][1]
            self._waiting[-1] = (last, window)
        else:
            self._confirm(last, last - self.confirmed_to > 1)
        self.confirmed_to = last

    def window_committed(self, window: int) -> None:
        """Confirm the publishes that this window made durable."""
        last = self._take_waiting(window)
        if last and not self.closed:
            self._confirm(last, True)

    def window_failed(self, window: int) -> None:
        """The disk failed: refuse what waited for it."""
        last = self._take_waiting(window)
        if last and not self.closed:
            self.engine.send_refusal(self.number, last, True)
            self.connection.mark_dirty()

    def _take_waiting(self, window: int) -> int:
        last = 0
        while self._waiting and self._waiting[0][1] <= window:
            last = self._waiting.popleft()[0]
        return last

    def _confirm(self, tag: int, multiple: bool) -> None:
        self.engine.send_confirm(self.number, tag, multiple)
        self.connection.mark_dirty()

    def confirm_select(self) -> None:
        """Switch confirms on; publishes are numbered from here (RabbitMQ confirms)."""
        if self.transaction is not None:
            raise ChannelError(
                constants.PRECONDITION_FAILED, "cannot switch from tx to confirm mode; open another channel"
            )
        if not self.confirming:
            self.confirming = True
            self.messages_published = 0

    # ------------------------------------------------------------------ deliveries

    def deliver(self, consumer: Consumer, entry: QueueEntry, tag: int) -> None:
        """Write basic.deliver. Called by queues; stops being writable when the connection has enough to do."""
        assert isinstance(consumer, AmqpConsumer)
        message = entry.message
        origin = message.origin
        self.engine.send_deliver(
            self.number,
            consumer.encoded_tag,
            tag,
            entry.redelivered,
            origin.encoded or destination_of(origin),
            message.header,
            message.body,
        )
        self.connection.output_added()

    def consumer_cancelled(self, consumer: Consumer) -> None:
        """Tell a client that understands it (consumer_cancel_notify) that its queue is gone."""
        super().consumer_cancelled(consumer)
        if self.connection.capable("consumer_cancel_notify"):
            self.engine.send_cancel(self.number, consumer.tag)
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

        ``size`` is the byte window RabbitMQ does not have; 0 means no limit for both.
        """
        messages = count or UNLIMITED
        octets = size or UNLIMITED
        if shared:
            self.set_window(messages, octets, self.connection.now)
        else:
            self.prefetch_count = messages
            self.prefetch_bytes = octets

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
            mandatory, self._mandatory = self._mandatory, []
            try:
                unroutable = transaction.commit(self.host, self.connection.now)
            except StoreError as error:
                raise ChannelError(constants.RESOURCE_ERROR, f"the transaction is not durable: {error}") from error
            broker.unroutable += len(unroutable)
            lost = {id(message) for message in unroutable}
            for message in mandatory:
                if id(message) in lost:
                    self._return_unroutable(message)
        elif not self._commits_waiting:  # an answer must not overtake that of a commit before it
            self.engine.send_tx_commit_ok(self.number)
            return
        self._commits_waiting += 1
        broker.commit.wait(TransactionWaiter(self))

    def commit_answered(self) -> None:
        """A commit is durable, or has failed."""
        self._commits_waiting -= 1

    def tx_rollback(self) -> None:
        """Drop the sends; settled deliveries are unsettled again."""
        self._require_transaction("tx.rollback").rollback()
        self._mandatory = []
        self.engine.send_tx_rollback_ok(self.number)

    def _require_transaction(self, method: str) -> Transaction:
        if self.transaction is None:
            raise ChannelError(
                constants.PRECONDITION_FAILED, f"{method} on a channel that is not transactional; use tx.select"
            )
        return self.transaction

    # ------------------------------------------------------------------ end

    def close(self, now: int) -> None:
        """Close by either side or by a lost connection: everything unsettled goes back to its place."""
        if self.closed:
            return
        if self.transaction is not None:
            self.transaction.rollback()
        queues = [consumer.queue for consumer in self.consumers.values()]
        super().close(now)
        for queue in queues:
            self.host.consumer_removed(queue, now)


class TransactionWaiter:
    """Sends commit-ok when the transaction is durable."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel

    def window_committed(self, window: int) -> None:  # noqa: ARG002 - of the interface; it waits for one only
        """Answer the client."""
        channel = self.channel
        channel.commit_answered()
        if not channel.closed:
            channel.engine.send_tx_commit_ok(channel.number)
            channel.connection.mark_dirty()

    def window_failed(self, window: int) -> None:  # noqa: ARG002 - as above
        """The commit is not durable: the channel ends with an error."""
        channel = self.channel
        channel.commit_answered()
        if not channel.closed:
            channel.connection.fail_channel(
                channel.number, constants.RESOURCE_ERROR, "the transaction could not be written to disk", 90, 20
            )
