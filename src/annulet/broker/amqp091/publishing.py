"""The publishing half of an AMQP 0-9-1 channel: basic.publish, returns, confirms, and being held back.

Rules: AMQP 0-9-1 §1.8.3.7, RabbitMQ's confirms, sender-selected distribution (CC and BCC) and delays; publishers are
held back as Broker-J does it.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from annulet.broker.connections.client_session import ClientSession, SessionCommit
from annulet.core.base.death_trail import GIVEN
from annulet.core.base.errors import LimitExceeded
from annulet.core.base.reply_names import REPLY_QUEUE
from annulet.core.base.settings import UNLIMITED
from annulet.core.configuration.arguments.values import MILLISECONDS_MAX
from annulet.core.host.schedule_cancelling import cancel_scheduled
from annulet.core.host.sliced_commit import COMMIT_AT_ONCE_MAX
from annulet.core.message.message import DEFAULT_PRIORITY, Message, Origin
from annulet.store.files.errors import StoreError
from annulet.wire.amqp091.connection.methods import encode_method
from annulet.wire.amqp091.connection.output import encode_destination
from annulet.wire.amqp091.messages.annotations import annotate, replace_reply_to
from annulet.wire.amqp091.messages.properties import VIEW, read_publish_facts
from annulet.wire.amqp091.messages.publish_headers import NOTHING, PublishHeaders, read_publish_headers
from annulet.wire.amqp091.types import constants
from annulet.wire.amqp091.types.errors import ChannelError, ConnectionFault

if TYPE_CHECKING:
    from annulet.broker.amqp091.connection import AmqpConnection
    from annulet.broker.durability.blocked import BlockedTarget
    from annulet.core.host.transaction import Transaction
    from annulet.core.model.queue_state import QueueState
    from annulet.core.routing.routes import Route

DESTINATIONS_MAX: Final = 1024
"""Destinations a channel remembers: enough for a busy producer, about 300 KB at the bound; then it starts afresh."""

HEADERS_MAX: Final = 256
"""Distinct content headers a channel remembers, so that equal ones are parsed and stored once."""

_REPLY_QUEUE_OCTETS: Final = REPLY_QUEUE.encode()

HEADER_SIZE_MAX: Final = 128
"""Bytes; longer headers nearly always carry a unique id, so remembering them gains nothing."""

TARGET_BYTES: Final = 16
"""Bytes of the log for each queue a message goes to: its id and the message's sequence number in it."""

HELD_MILLISECONDS_MAX: Final = 5000
"""How long a channel that is told to stop may go on publishing (Broker-J ``channel.flowControlEnforcementTimeout``)."""

FLOW_STOP: Final = encode_method("channel.flow", {"active": False})
FLOW_GO: Final = encode_method("channel.flow", {"active": True})


class Destination:
    """A channel's cache for one exchange and routing key while the graph does not change."""

    __slots__ = ("generation", "origin", "room", "route", "wide")

    def __init__(self, route: Route, origin: Origin, generation: int, queues_max: int) -> None:
        self.room = queues_max * TARGET_BYTES  # bytes that naming its queues takes in the log
        self.wide = queues_max > COMMIT_AT_ONCE_MAX  # one turn of the loop may have no time for all its queues
        self.route = route
        self.origin = origin
        self.generation = generation


class PublishFacts:
    """The parts of a content header used in publishing; equal headers share one, and so one copy of the octets."""

    __slots__ = ("asks", "durable", "further_keys", "header", "priority", "time_to_live")

    def __init__(self, header: bytes, durable: bool, priority: int) -> None:
        self.header = header
        self.durable = durable
        self.priority = priority  # -1: not given
        self.time_to_live = UNLIMITED  # the expiration property in milliseconds
        self.asks: PublishHeaders | None = None  # the requests of its headers to the broker; None: nothing, as mostly
        self.further_keys: tuple[str, ...] = ()  # CC and BCC


def _time_to_live(expiration: str) -> int:
    """Return milliseconds; 406 for what RabbitMQ refuses as well."""
    if expiration.isascii() and expiration.isdigit():
        milliseconds = int(expiration)
        if milliseconds <= MILLISECONDS_MAX:
            return milliseconds
    raise ChannelError(
        constants.PRECONDITION_FAILED,
        f"invalid expiration {expiration!r}: give a whole number of milliseconds from 0 to {MILLISECONDS_MAX}",
    )


def publish_facts(header: bytes, user_name: str) -> PublishFacts:
    """Read what a content header asks of the broker; the same for every way a message with one is published.

    Raises :class:`ChannelError` 406 for the user id of another user, and for a wrong expiration;
    ``RemoteProtocolError`` for a malformed header.
    """
    read = read_publish_facts(header)
    facts = PublishFacts(header, read.delivery_mode == constants.DELIVERY_MODE_PERSISTENT, read.priority)
    if read.user_id and read.user_id != user_name:
        raise ChannelError(
            constants.PRECONDITION_FAILED,
            f"user_id property set to {read.user_id!r} but authenticated user was {user_name!r}",
        )
    if read.expiration is not None:
        facts.time_to_live = _time_to_live(read.expiration)
    asks = read_publish_headers(header)
    if asks is not NOTHING:
        facts.asks = asks
        facts.further_keys = asks.cc + asks.bcc
        if asks.bcc:
            facts.header = annotate(header, {}, without=("BCC",))
        if asks.deaths_given:
            facts.header = annotate(facts.header, {GIVEN: True})
    return facts


def destination_of(origin: Origin) -> bytes:
    """Exchange and routing key as two short strings, encoded once per origin."""
    if not origin.encoded:
        origin.encoded = encode_destination(origin.exchange, origin.routing_key)
    return origin.encoded


class WidePublish(SessionCommit):
    """A message on its way to very many queues."""

    def __init__(
        self,
        channel: PublishingSession,
        message: Message,
        route: Route,
        further_keys: tuple[str, ...],
        *,
        mandatory: bool,
    ) -> None:
        super().__init__(channel)
        self._channel = channel
        self._message = message
        self._route = route
        self._further_keys = further_keys
        self._mandatory = mandatory
        self._marks = channel.blocked.marks()

    def answer(self, unroutable: list[Message]) -> None:
        """Confirm it."""
        channel = self._channel
        if not channel.closed:
            targets: list[BlockedTarget] = []
            if channel.blocked.any:
                targets = channel.blocked.entered(self._marks) + channel.blocked.at([self._route.address])
            channel.published_wide(self._message, targets, self._mandatory, not unroutable)

    def refuse(self, error: Exception) -> None:
        """Refuse it."""
        if not self._channel.closed:
            self._channel.refused_wide(error, self._message, self._mandatory)


class PublishingSession(ClientSession):
    """A session that publishes through its connection's engine; :class:`Channel` adds the rest."""

    def __init__(self, number: int, connection: AmqpConnection) -> None:
        super().__init__(f"{connection.name}#{number}", connection)
        self.number = number
        self.client = connection  # the same, by its own type: parts of AMQP 0-9-1 only
        self.engine = connection.engine
        self.confirming = False  # confirm.select was given
        self.confirm_queued = False  # the connection will call flush_answers at the end of this turn
        self.transaction: Transaction | None = None  # tx.select was given
        self.mandatory: list[Message] = []  # sends of the open transaction that come back when no queue takes them
        self.sent_to: dict[str, None] = {}  # addresses the open transaction sends to
        self.messages_published = 0  # since confirm.select when confirming: the tag of the latest publish
        self.confirmed_to = 0  # publishes up to here were answered or wait for the disk
        self.held_since = 0  # when the first of them told it to stop, milliseconds since 1970
        self._pipeline = connection.broker.commit
        self._window = 0  # the newest one that publishes wait for; 0: none waits for the disk
        self._waiting_to = 0  # tag of the last of them
        self._waiting: deque[tuple[int, int]] = deque()  # the same of older windows: (last publish tag, window)
        self._destinations: dict[tuple[str, str], Destination] = {}
        self._headers: dict[bytes, PublishFacts] = {}
        self.reply_address = ""  # the reply queue its requests carry as their reply-to, while that queue is there

    # ------------------------------------------------------------------ publishing

    def publish(  # noqa: C901, PLR0912 - the hot path: rare requests are tested here and done elsewhere
        self, exchange: str, routing_key: str, mandatory: bool, immediate: bool, header: bytes, body: bytes
    ) -> None:
        """Route one message. Confirms go out once per loop turn; see :meth:`flush_answers`."""
        if immediate:  # the text is RabbitMQ's, which clients look for; a TTL of 0 on the queue does the same
            raise ConnectionFault(constants.NOT_IMPLEMENTED, "immediate=true")
        facts = self._headers.get(header)
        if facts is None:
            facts = self._read_header(header)
        asks = facts.asks
        if asks is not None and asks.extends:
            self._extend(asks.extends)
            return
        destination = self._destinations.get((exchange, routing_key))
        if destination is None or destination.generation != self.host.generation:
            destination = self._resolve(exchange, routing_key)
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
        self.messages_published += 1
        if asks is not None and asks.cancels:
            self._cancel_scheduled(message, facts, asks.schedule_id, destination.route)
            return
        if message.durable and not connection.accepts_durable(len(body) + len(header) + destination.room, now):
            self.refuse_publish(len(body))
            return
        if self.transaction is not None:
            self._collect(self.transaction, message, facts, destination.route, mandatory)
            return
        if destination.wide:
            self._publish_wide(message, facts, destination.route, mandatory)
            return
        if asks is None and not self.blocked.any:
            routed = self.host.publish(message, destination.route, now)
            if self.blocked.queues or self.blocked.addresses:  # the rest is now
                self.hold(self._blocked_on(destination.route, (), {}))
        else:
            routed = self._publish_watched(message, facts, destination.route, now)
        if routed == 0:
            self._unroutable(message, mandatory)
        if self.confirming:
            if message.record:
                self._wait_for_disk()
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
        if self.confirming:
            if message.record:
                self._wait_for_disk()
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
        elif isinstance(error, StoreError) and self.confirming:
            self.refuse_publish(message.size)
        else:
            text = f"message of {message.size} bytes was not published: {error}"
            self.client.fail_channel(self.number, constants.RESOURCE_ERROR, text, 60, 40)

    def _extend(self, tag: int) -> None:
        """Let the time of a delivery begin anew. The publish is accepted, goes nowhere and needs no permission."""
        self.messages_published += 1
        if not self.extend_delivery(tag):
            raise ChannelError(
                constants.PRECONDITION_FAILED,
                f"unknown delivery tag {tag} in header 'x-extend-delivery'; name one that this channel holds",
            )
        if self.confirming and not self.confirm_queued:
            self.confirm_queued = True
            self.connection.answer_later(self)

    def _publish_watched(self, message: Message, facts: PublishFacts, route: Route, now: int) -> int:
        """Publish what asks for more than its way, or while something is blocked."""
        if self.held_by:
            self._enforce_hold(self.blocked.on_way(route), now)
        marks = self.blocked.marks()
        asks = facts.asks
        routed = self.host.publish(
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
        if not self.confirming:
            return
        if any(entry.message.record for entry in removed):
            self._wait_for_disk()
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

    def _resolve(self, exchange: str, routing_key: str) -> Destination:
        self.access.require("write", exchange)
        route = self.host.route(exchange, routing_key)
        if len(self._destinations) >= DESTINATIONS_MAX:
            self._destinations.clear()
        connection = self.connection
        origin = Origin(exchange, routing_key, connection.publisher, VIEW, connection.identity)
        queues_max = len(route.queues) if route.static else len(self.host.queues)
        destination = Destination(route, origin, self.host.generation, queues_max)
        self._destinations[(exchange, routing_key)] = destination
        return destination

    def _read_header(self, header: bytes) -> PublishFacts:
        facts = publish_facts(header, self.connection.user_name)
        if _REPLY_QUEUE_OCTETS in header:
            facts.header = self._answered_here(facts.header)  # not remembered: the consumer may be cancelled
        elif len(header) <= HEADER_SIZE_MAX and not (facts.asks is not None and facts.asks.duplicate_id):
            if len(self._headers) >= HEADERS_MAX:
                self._headers.clear()
            self._headers[header] = facts
        return facts

    def _answered_here(self, header: bytes) -> bytes:
        """Have answers to a request come to this channel's reply queue, where it asks for that (direct reply-to)."""
        answered = replace_reply_to(header, REPLY_QUEUE, self.reply_address)
        if answered is not header and self.reply_address not in self.host.queues:
            raise ChannelError(
                constants.PRECONDITION_FAILED,
                f"fast reply consumer does not exist; consume from '{REPLY_QUEUE}' with no-ack on this channel before "
                "publishing with it as reply-to",
            )
        return answered

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
        self.engine.send_return(self.number, code, text, exchange, routing_key, header, body)
        self.connection.mark_dirty()

    # ------------------------------------------------------------------ refusals

    def refuse_publish(self, size: int) -> None:
        """The disk takes no more persistent messages: say so on the level the client listens on."""
        self.connection.broker.refused_publishes += 1
        if self.confirming:
            self._refuse_latest()
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
        if self.confirming:
            self._refuse_latest()
        elif mandatory:
            self._send_back(constants.RESOURCE_ERROR, text, exchange, routing_key, header, body)

    def _refuse_latest(self) -> None:
        self._confirm_upto(self.messages_published - 1)
        self.engine.send_refusal(self.number, self.messages_published, False)
        self.confirmed_to = self.messages_published
        self.connection.mark_dirty()

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
            self.engine.send_method(self.number, FLOW_STOP)

    def publishing_resumed(self) -> None:
        """Tell it to go on."""
        if self.connection.obeys_flow:
            self.engine.send_method(self.number, FLOW_GO)

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

    def _wait_for_disk(self) -> None:
        window = self._pipeline.window
        if window != self._window:
            if self._window:
                self._waiting.append((self._waiting_to, self._window))
            self._pipeline.wait(self)
            self._window = window
        self._waiting_to = self.confirmed_to = self.messages_published

    def flush_answers(self) -> None:
        """Confirm what needs no disk, unless earlier publishes still wait for it: confirms keep publish order."""
        self.confirm_queued = False
        if not self.closed:
            self._confirm_upto(self.messages_published)

    def _confirm_upto(self, last: int) -> None:
        if last <= self.confirmed_to or not self.confirming:
            return
        if self._window:
            self._waiting_to = last
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
        if 0 < self._window <= window:
            last = self._waiting_to
            self._window = 0
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
