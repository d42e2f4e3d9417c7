"""The message in the core: its received bytes, and the few facts queues decide on.

A message keeps its content as received (``header`` and ``body``) so that forwarding within one protocol copies nothing;
properties are decoded by the :class:`ContentView` of its protocol on demand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias

from mypy_extensions import i16, i32, mypyc_attr

from annulet.core.base.death_trail import DeathRecord

if TYPE_CHECKING:
    from annulet.core.message.neutral_content import MessageContent

PropertyValue: TypeAlias = "str | int | float | bool | bytes | list[PropertyValue] | dict[str, PropertyValue] | None"

DEFAULT_PRIORITY = 4
"""JMS 2.0 §3.4.9 and AMQP 1.0 §3.2.1: the priority of a message that names none."""


@mypyc_attr(allow_interpreted_subclasses=True)
class BodySource:
    """Reads bodies for messages on request. One for all queues."""

    def body_of(self, message: Message) -> bytes:
        """Read a body and do not keep it. Raises :class:`~annulet.core.base.errors.ContentUnavailable`."""
        raise NotImplementedError

    def orphaned(self, message: Message) -> None:
        """Let a body leave soon that no entry needs any more, since a current caller may still need it."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class ContentView:
    """Decodes the content of one protocol's messages. One shared, stateless instance per protocol.

    Methods used in dispatch never raise: one sender's malformed message must not stop another's consumers. Undecodable
    values count as absent. Only ``deliver_at`` and ``duplicate_id``, used on arrival, and methods that write a new
    header may raise an error of the protocol, for content that should have been refused.
    """

    def __init__(self, name: str, *, verbatim_texts: bool = False, names_beside: frozenset[str] | None = None) -> None:
        self.name = name  # of the protocol, as the log keeps it
        # application properties that may be elsewhere than in those of ``properties``; None: any may be
        self.names_beside = names_beside
        self.verbatim_texts = verbatim_texts  # an application property's text is always in the bytes of the header

    def properties(self, message: Message) -> StandardProperties:
        """Decode the properties every protocol has a notion of, as far as they can be decoded."""
        raise NotImplementedError

    def application_property(self, message: Message, name: str) -> PropertyValue:
        """Return one application property (AMQP 0-9-1: an entry of ``headers``), ``None`` when there is none."""
        raise NotImplementedError

    def annotation(self, message: Message, name: str) -> PropertyValue:
        """Return one message annotation (AMQP 1.0), ``None`` when there is none; other protocols have none at all."""
        del message, name
        return None

    def given_priority(self, message: Message) -> int:
        """Return the priority the sender gave, -1 when it gave none (``message.priority`` is then 4)."""
        raise NotImplementedError

    def deliver_at(self, message: Message) -> int:
        """Return when the sender wants it delivered (milliseconds since 1970), 0 for at once.

        A relative delay counts from ``message.accepted_at``.
        """
        raise NotImplementedError

    def schedule_id(self, message: Message) -> str:
        """Return the sender's name for the scheduled message, which cancels and replaces; empty when it gave none."""
        raise NotImplementedError

    def duplicate_id(self, message: Message) -> str:
        """Return the sender's id for duplicate detection (bytes as their hexadecimal text), empty when it gave none."""
        raise NotImplementedError

    def annotated(
        self,
        message: Message,
        headers: dict[str, PropertyValue],
        *,
        without: tuple[str, ...] = (),
        expires: bool = True,
    ) -> bytes:
        """Return the message's header with application properties put over its own and ``without`` left out.

        ``expires=False`` leaves out the time to live as well (RabbitMQ, Artemis: a dead letter does not expire).
        """
        raise NotImplementedError

    def content(self, message: Message) -> MessageContent:
        """Return the whole message decoded, for other protocols, without malformed parts."""
        raise NotImplementedError

    def routing_keys(self, message: Message) -> tuple[str, ...]:
        """Return the keys it was published with: that of its origin, then those the sender added."""
        return (message.origin.routing_key,)

    def deaths(self, message: Message) -> list[DeathRecord]:
        """Return where it died before, latest first; empty for a message that never did."""
        raise NotImplementedError

    def forwarded_header(
        self, message: Message, deaths: list[DeathRecord], headers: dict[str, PropertyValue], *, rerouted: bool
    ) -> bytes:
        """Return the header of a copy the broker sends on because of ``deaths[0]``.

        It has the trail in the protocol's own form and ``headers`` as application properties, without the time to live,
        scheduling headers, and, if it is ``rerouted`` by another key, the sender's further keys.
        """
        raise NotImplementedError


class StandardProperties:
    """Decoded standard properties. Strings are empty and ``timestamp`` is 0 when the sender gave none.

    ``malformed`` describes undecodable, missing parts; empty if there are none.
    """

    __slots__ = (
        "application",
        "content_encoding",
        "content_type",
        "correlation_id",
        "group_id",
        "malformed",
        "message_id",
        "reply_to",
        "subject",
        "timestamp",
        "user_id",
    )

    def __init__(  # noqa: PLR0913 - one keyword per field
        self,
        *,
        message_id: str = "",
        correlation_id: str = "",
        reply_to: str = "",
        subject: str = "",
        content_type: str = "",
        content_encoding: str = "",
        group_id: str = "",
        user_id: str = "",
        timestamp: int = 0,
        application: dict[str, PropertyValue] | None = None,
        malformed: str = "",
    ) -> None:
        self.message_id = message_id
        self.correlation_id = correlation_id
        self.reply_to = reply_to
        self.subject = subject  # AMQP 1.0 subject; AMQP 0-9-1 type
        self.content_type = content_type
        self.content_encoding = content_encoding
        self.group_id = group_id
        self.user_id = user_id
        self.timestamp = timestamp  # milliseconds since 1970, UTC
        self.application: dict[str, PropertyValue] = {} if application is None else application
        self.malformed = malformed


class Origin:
    """The shared part of all messages of one publisher to one destination, so that it is stored once."""

    __slots__ = ("connection", "encoded", "exchange", "publisher", "routing_key", "stored", "view")

    def __init__(
        self, exchange: str, routing_key: str, publisher: str, view: ContentView, connection: object | None = None
    ) -> None:
        self.exchange = exchange
        self.routing_key = routing_key
        self.publisher = publisher  # "user@peer-address" for the loss ledger; empty when unknown
        self.view = view
        self.connection = connection  # identity of the publishing connection for no-local; None after a restart
        self.encoded = b""  # exchange and routing key as the view's protocol writes them, when first needed
        self.stored = b""  # all but the connection as the message log writes them, when first needed


class BodyPlace(Protocol):
    """A place on disk, outside the message log, that is released when this object is freed."""

    @property
    def readable(self) -> bool:
        """Return whether the body is written."""

    @property
    def number(self) -> int:
        """A number above 0, of no other place."""


@mypyc_attr(acyclic=True)
class Message:
    """One message, shared by all queues it was routed to.

    ``header`` is the protocol's encoded properties (AMQP 0-9-1: property flags and property list of the content header
    frame, §4.2.6.1 without class, weight and size); ``body`` the undivided payload. The body of a message may be on
    disk only: all other data stays, and no decision of a queue depends on this (:mod:`annulet.core.deliveries.bodies`).

    The garbage collector does not track it: nothing it references references messages, except the reader of its body,
    which ends with the broker.
    """

    __slots__ = (
        "_body",
        "accepted_at",
        "away",
        "deliver_at",
        "durable",
        "expires_at",
        "header",
        "near",
        "origin",
        "priority",
        "record",
        "size",
        "source",
        "spill",
    )

    def __init__(
        self,
        header: bytes,
        body: bytes,
        origin: Origin,
        *,
        durable: bool = False,
        priority: int = DEFAULT_PRIORITY,
        accepted_at: int = 0,
        expires_at: int = 0,
        deliver_at: int = 0,
    ) -> None:
        self.durable = durable  # the sender requested persistence (delivery-mode 2)
        self.priority: i16 = priority  # small numbers are adjacent: compiled it has 120 bytes
        self.near: i32 = 0  # entries that want the body in memory
        self.away: i32 = 0  # entries whose queues can do without
        self.header = header
        self._body: bytes | None = body
        self.size = len(body)  # bytes of the body, counted by byte limits (as RabbitMQ's max-length-bytes)
        self.origin = origin
        self.accepted_at = accepted_at  # milliseconds since 1970
        self.expires_at = expires_at  # milliseconds since 1970; 0 = never
        self.deliver_at = deliver_at  # not before this, milliseconds since 1970; 0 = at once
        self.record = 0  # id in the message log; 0 = not stored
        self.source: BodySource | None = None  # reads the body when it is on disk only
        self.spill: BodyPlace | None = None  # the place of a spilled body, or one being written

    @property
    def body(self) -> bytes:
        """The payload. Read from disk, and not kept, while it is only there.

        Raises :class:`~annulet.core.base.errors.ContentUnavailable` when the disk does not give it.
        """
        body = self._body
        if body is not None:
            return body
        assert self.source is not None
        return self.source.body_of(self)

    @property
    def absent(self) -> bool:
        """Return whether the body is on disk only."""
        return self._body is None

    def leave(self) -> None:
        """Let the body be on disk only, where ``source`` reads it."""
        assert self.source is not None
        self._body = None

    def arrive(self, body: bytes) -> None:
        """Have the body in memory again."""
        self._body = body


def logged_message(
    record: int, header: bytes, body: bytes, origin: Origin, priority: int, accepted_at: int, expires_at: int
) -> Message:
    """Return a message restored from the log: durable, with its place ``record``."""
    message = Message(
        header, body, origin, durable=True, priority=priority, accepted_at=accepted_at, expires_at=expires_at
    )
    message.record = record
    return message
