"""The protocol-neutral form of a message, used for conversion between protocols.

Each protocol's package turns its messages into a :class:`MessageContent` (``to_content``) and such a content into a
header and a body of its own (``from_content``). So n protocols need 2n converters, and features that a protocol lacks
are handled in one place: its own converter. Rules: spec of Broker-J §16 and Artemis §16, as written down in
docs/conversion.md.
"""

from __future__ import annotations

from typing import Final

from annulet.core.base.death_trail import DeathRecord
from annulet.core.base.settings import UNLIMITED
from annulet.core.message.message import PropertyValue

BODY_DATA: Final = "data"
"""Octets. ``body`` is bytes."""
BODY_TEXT: Final = "text"
"""A text. ``body`` is a str: an amqp-value string, a text/* body that is valid in its character set."""
BODY_VALUE: Final = "value"
"""One typed value other than text, map or list. ``body`` is the value, ``None`` for an empty message."""
BODY_MAP: Final = "map"
"""A map. ``body`` is a dict with text keys, or :class:`~annulet.core.base.typed_values.MapPairs`."""
BODY_LIST: Final = "list"
"""A list in one amqp-value. ``body`` is a list."""
BODY_SEQUENCE: Final = "sequence"
"""AMQP 1.0 amqp-sequence sections. ``body`` is a list of lists, one for each section."""
BODY_TEXT_OCTETS: Final = "text-octets"
"""A text too long to be decoded (:mod:`.conversion_bounds`). ``body`` is its bytes: UTF-8, says its sender."""
BODY_ENCODED: Final = "encoded"
"""A body too large to be decoded. ``body`` is bytes: body sections and footer of AMQP 1.0 as their sender encoded
them."""

BODY_KINDS: Final = (BODY_DATA, BODY_TEXT, BODY_VALUE, BODY_MAP, BODY_LIST, BODY_SEQUENCE)


class MessageContent:
    """The complete decoded content of a message. ``None`` and empty containers: not given.

    Texts that a protocol requires to be text are str; identifiers keep their type: str,
    :class:`~annulet.core.base.typed_values.UnsignedLong`, :class:`~annulet.core.base.typed_values.Uuid` or bytes.
    """

    __slots__ = (
        "absolute_expiry_time",
        "annotations",
        "app_id",
        "application",
        "body",
        "body_kind",
        "content_encoding",
        "content_type",
        "correlation_id",
        "creation_time",
        "deaths",
        "durable",
        "exchange",
        "footer",
        "group_id",
        "group_sequence",
        "message_id",
        "priority",
        "reply_to",
        "reply_to_group_id",
        "routing_key",
        "subject",
        "time_to_live",
        "to",
        "user_id",
    )

    def __init__(self) -> None:
        self.exchange = ""  # where it was published, and with which key: Message.origin
        self.routing_key = ""
        self.durable = False
        self.priority = UNLIMITED  # -1: none given
        self.time_to_live = UNLIMITED  # milliseconds as the sender gave it; -1: none given
        self.message_id: str | int | bytes | None = None
        self.correlation_id: str | int | bytes | None = None
        self.user_id: bytes | None = None
        self.to: str | None = None  # as the sender gave it, AMQP 1.0 only; else the address follows from the origin
        self.subject: str | None = None  # AMQP 0-9-1 type, STOMP type
        self.reply_to: str | None = None
        self.content_type: str | None = None
        self.content_encoding: str | None = None
        self.absolute_expiry_time: int | None = None  # milliseconds since 1970
        self.creation_time: int | None = None  # milliseconds since 1970
        self.group_id: str | None = None
        self.group_sequence: int | None = None
        self.reply_to_group_id: str | None = None
        self.app_id: str | None = None  # AMQP 0-9-1 only
        self.application: dict[str, PropertyValue] = {}  # application properties; 0-9-1 headers; STOMP's own headers
        self.annotations: dict[str, PropertyValue] = {}  # AMQP 1.0 message annotations, x-opt-...
        self.footer: dict[str, PropertyValue] = {}  # AMQP 1.0
        self.deaths: list[DeathRecord] = []  # latest first
        self.body_kind = BODY_DATA
        self.body: PropertyValue = b""
