"""Two memories of a channel that publishes: where messages go, and what their content headers ask of the broker.

Rules: RabbitMQ's sender-selected distribution (CC and BCC), delays, and the refusals of ``user_id`` and ``expiration``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.core.base.death_trail import GIVEN
from annulet.core.base.reply_names import REPLY_QUEUE
from annulet.core.base.settings import UNLIMITED
from annulet.core.configuration.arguments.values import MILLISECONDS_MAX
from annulet.core.host.sliced_commit import COMMIT_AT_ONCE_MAX
from annulet.core.message.message import Origin
from annulet.wire.amqp091.connection.output import encode_destination
from annulet.wire.amqp091.messages.annotations import annotate, replace_reply_to
from annulet.wire.amqp091.messages.properties import VIEW, read_publish_facts
from annulet.wire.amqp091.messages.publish_headers import NOTHING, PublishHeaders, read_publish_headers
from annulet.wire.amqp091.types import constants
from annulet.wire.amqp091.types.errors import ChannelError

if TYPE_CHECKING:
    from annulet.broker.connections.access import Access
    from annulet.core.host.virtual_host import VirtualHost
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


class Destinations:
    """The destinations that one channel has published to, for one user in one virtual host.

    ``known``: by exchange and routing key, at most ``DESTINATIONS_MAX``; one of an older generation of the graph has to
    be resolved again.
    """

    __slots__ = ("_access", "_host", "_identity", "_publisher", "known")

    def __init__(self, host: VirtualHost, access: Access, publisher: str, identity: object) -> None:
        self.known: dict[tuple[str, str], Destination] = {}
        self._host = host
        self._access = access
        self._publisher = publisher
        self._identity = identity

    def resolve(self, exchange: str, routing_key: str) -> Destination:
        """Find the way to a destination anew and remember it. Raises the errors of permissions and of the graph."""
        self._access.require("write", exchange)
        host = self._host
        route = host.route(exchange, routing_key)
        if len(self.known) >= DESTINATIONS_MAX:
            self.known.clear()
        origin = Origin(exchange, routing_key, self._publisher, VIEW, self._identity)
        queues_max = len(route.queues) if route.static else len(host.queues)
        destination = Destination(route, origin, host.generation, queues_max)
        self.known[(exchange, routing_key)] = destination
        return destination


class ContentHeaders:
    """The content headers that one channel has published with.

    ``known``: the facts of short ones by their octets, at most ``HEADERS_MAX``.
    """

    __slots__ = ("_host", "_user_name", "known")

    def __init__(self, host: VirtualHost, user_name: str) -> None:
        self.known: dict[bytes, PublishFacts] = {}
        self._host = host
        self._user_name = user_name

    def read(self, header: bytes, reply_address: str) -> PublishFacts:
        """Read a header that is not known. ``reply_address``: the channel's reply queue, or empty.

        Raises as :func:`publish_facts`.
        """
        facts = publish_facts(header, self._user_name)
        if _REPLY_QUEUE_OCTETS in header:
            facts.header = self._answered_to(facts.header, reply_address)  # not remembered: its consumer may go
        elif len(header) <= HEADER_SIZE_MAX and not (facts.asks is not None and facts.asks.duplicate_id):
            if len(self.known) >= HEADERS_MAX:
                self.known.clear()
            self.known[header] = facts
        return facts

    def _answered_to(self, header: bytes, reply_address: str) -> bytes:
        """Have answers to a request come to a channel's reply queue, where it asks for that (direct reply-to)."""
        answered = replace_reply_to(header, REPLY_QUEUE, reply_address)
        if answered is not header and reply_address not in self._host.queues:
            raise ChannelError(
                constants.PRECONDITION_FAILED,
                f"fast reply consumer does not exist; consume from '{REPLY_QUEUE}' with no-ack on this channel before "
                "publishing with it as reply-to",
            )
        return answered
