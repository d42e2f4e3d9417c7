"""The names of a message's parts in selectors: header names of JMS, Artemis and AMQP, else application properties.

Sources: JMS 2.0 §3.8.1.1 (header fields in selectors), Artemis's core filters (``AMQPriority`` and the like), the
``amqp.`` names of Qpid's selectors. A field the sender left out is ``None``, which selectors call null.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from annulet.core.base.errors import InvalidArgument
from annulet.core.message.message import Message, PropertyValue, StandardProperties
from annulet.selector.errors import SelectorError
from annulet.selector.selector import Selector, compile_selector

PERSISTENT: Final = "PERSISTENT"
NON_PERSISTENT: Final = "NON_PERSISTENT"
DURABLE: Final = "DURABLE"
NON_DURABLE: Final = "NON_DURABLE"

GROUP_SEQUENCE: Final = "JMSXGroupSeq"
"""An application property to every view, AMQP 1.0's included."""

ANNOTATION_PREFIX: Final = "m."
"""Artemis's prefix for AMQP 1.0 message annotations; null for messages of other protocols."""

PER_DELIVERY: Final = frozenset({"JMSRedelivered", "JMSXDeliveryCount", "amqp.delivery_count", "amqp.redelivered"})
"""Fields of a delivery, not of a message: a selector is evaluated once per message, so it cannot use them."""

LONG_HEADER: Final = 1024
"""Octets of properties from which on each is looked up once: up to this it takes a few microseconds."""

SCANNED_OCTETS_MAX: Final = 65_536
"""Octets of a message's properties that are looked through, name by name, before all of them are decoded: some 6 ms in
pure Python. A selector of a thousand names took 12 s for a message with 20,000 properties."""

Reader: TypeAlias = Callable[[Message], PropertyValue]
PropertyReader: TypeAlias = Callable[[StandardProperties], str]


def message_selector(text: str, argument: str = "selector") -> Selector | None:
    """Return the selector a client gave as ``argument``; ``None`` for an empty text, which selects everything.

    Raises:
        InvalidArgument: the text is not a selector, with position and expected text, or names a field of deliveries.
    """
    if not text:
        return None
    try:
        selector = compile_selector(text)
    except SelectorError as error:
        raise InvalidArgument(f"invalid {argument}: {error.place}: {error.problem}") from error
    refuse_per_delivery(selector, argument)
    return selector


def refuse_per_delivery(selector: Selector, argument: str = "selector") -> None:
    """Refuse a selector whose answer could change from one delivery of a message to the next.

    Raises:
        InvalidArgument: the selector names one of :data:`PER_DELIVERY`; ``argument`` is where it was given.
    """
    for name in sorted(selector.identifiers & PER_DELIVERY):
        raise InvalidArgument(
            f"{argument} names {name}, which differs from delivery to delivery while a selector is evaluated once per "
            f"message; use max-delivery-attempts or redelivery-delay for what depends on earlier deliveries"
        )


def lookup_for(message: Message) -> Callable[[str], PropertyValue]:
    """Return a function from identifier to value of ``message``, ``None`` where it has none.

    Decoding is lazy: facts the core keeps cost nothing, an application property decodes only itself, and the standard
    properties are decoded together at the first of them, once per returned function.
    """
    return MessageLookup(message).value


class MessageLookup:
    """The identifiers of one message."""

    __slots__ = ("_known", "_properties", "_scanned", "message")

    def __init__(self, message: Message) -> None:
        self.message = message
        self._known: dict[str, PropertyValue] | None = None  # application properties of a long header, looked up before
        self._scanned = 0  # octets that were looked through for them
        self._properties: StandardProperties | None = None

    def value(self, name: str) -> PropertyValue:
        """Return the value of one identifier, ``None`` when the message has none that can be decoded."""
        if name not in HEADER_IDENTIFIERS:
            if name.startswith(ANNOTATION_PREFIX):
                return self.message.origin.view.annotation(self.message, name[len(ANNOTATION_PREFIX) :])
            if len(self.message.header) > LONG_HEADER:
                return self._found_in_long(name)
            return self.message.origin.view.application_property(self.message, name)
        reader = _FACTS.get(name)
        if reader is not None:
            return reader(self.message)
        property_reader = _PROPERTIES.get(name)
        if property_reader is not None:
            # an empty text is how views say that the sender gave none
            return property_reader(self.properties) or None
        if name in _TIMESTAMPS:
            return self.properties.timestamp or self.message.accepted_at
        if name in _GROUP_SEQUENCES:
            return self.message.origin.view.application_property(self.message, GROUP_SEQUENCE)
        return None  # one of PER_DELIVERY

    def _found_in_long(self, name: str) -> PropertyValue:
        """Return an application property of a header that takes long to look through, each but once."""
        if self._known is None:
            self._known = {}
        known = self._known
        if name in known:
            return known[name]
        message = self.message
        view = message.origin.view
        beside = view.names_beside
        if beside is not None and name not in beside and self._scanned >= SCANNED_OCTETS_MAX:
            value = self.properties.application.get(name)
        else:
            self._scanned += len(message.header)
            value = view.application_property(message, name)
        known[name] = value
        return value

    @property
    def properties(self) -> StandardProperties:
        """The standard properties, decoded on first use."""
        if self._properties is None:
            self._properties = self.message.origin.view.properties(self.message)
        return self._properties


def address_of(message: Message) -> str:
    """Return where the message was sent: the queue's or node's name, or ``exchange/routing-key`` when it has both."""
    origin = message.origin
    if not origin.exchange or not origin.routing_key:
        return origin.exchange or origin.routing_key
    return f"{origin.exchange}/{origin.routing_key}"


def _address(message: Message) -> PropertyValue:
    return address_of(message)


def _exchange(message: Message) -> PropertyValue:
    return message.origin.exchange


def _routing_key(message: Message) -> PropertyValue:
    return message.origin.routing_key


def _priority(message: Message) -> PropertyValue:
    return message.priority


def _expiration(message: Message) -> PropertyValue:
    return message.expires_at


def _size(message: Message) -> PropertyValue:
    return message.size


def _is_durable(message: Message) -> PropertyValue:
    return message.durable


def _durability(message: Message) -> PropertyValue:
    return DURABLE if message.durable else NON_DURABLE


def _delivery_mode(message: Message) -> PropertyValue:
    return PERSISTENT if message.durable else NON_PERSISTENT


def _message_id(properties: StandardProperties) -> str:
    return properties.message_id


def _correlation_id(properties: StandardProperties) -> str:
    return properties.correlation_id


def _reply_to(properties: StandardProperties) -> str:
    return properties.reply_to


def _subject(properties: StandardProperties) -> str:
    return properties.subject


def _content_type(properties: StandardProperties) -> str:
    return properties.content_type


def _content_encoding(properties: StandardProperties) -> str:
    return properties.content_encoding


def _group_id(properties: StandardProperties) -> str:
    return properties.group_id


def _user_id(properties: StandardProperties) -> str:
    return properties.user_id


_FACTS: Final[dict[str, Reader]] = {
    "JMSPriority": _priority,
    "AMQPriority": _priority,
    "amqp.priority": _priority,
    "JMSExpiration": _expiration,
    "AMQExpiration": _expiration,
    "amqp.absolute_expiry_time": _expiration,
    "JMSDeliveryMode": _delivery_mode,
    "AMQDurable": _durability,
    "amqp.durable": _is_durable,
    "JMSDestination": _address,
    "AMQAddress": _address,
    "amqp.to": _address,
    "amqp.exchange": _exchange,
    "amqp.routing_key": _routing_key,
    "AMQSize": _size,
}
"""The facts the core keeps of every message."""

_PROPERTIES: Final[dict[str, PropertyReader]] = {
    "JMSMessageID": _message_id,
    "AMQUserID": _message_id,  # Artemis §13: its "user id" is the id the user gave the message
    "amqp.message_id": _message_id,
    "JMSCorrelationID": _correlation_id,
    "amqp.correlation_id": _correlation_id,
    "JMSReplyTo": _reply_to,
    "amqp.reply_to": _reply_to,
    "JMSType": _subject,
    "amqp.subject": _subject,
    "amqp.content_type": _content_type,
    "amqp.content_encoding": _content_encoding,
    "JMSXGroupID": _group_id,
    "AMQGroupID": _group_id,
    "amqp.group_id": _group_id,
    "JMSXUserID": _user_id,
    "amqp.user_id": _user_id,
}
"""Standard properties, null when empty."""

_TIMESTAMPS: Final = frozenset({"JMSTimestamp", "AMQTimestamp", "amqp.creation_time"})
"""Time of sending, milliseconds since 1970: the sender's, else the time of acceptance (Broker-J §16)."""

_GROUP_SEQUENCES: Final = frozenset({GROUP_SEQUENCE, "amqp.group_sequence"})

HEADER_IDENTIFIERS: Final = frozenset({*_FACTS, *_PROPERTIES, *_TIMESTAMPS, *_GROUP_SEQUENCES, *PER_DELIVERY})
"""All predefined names; an application property of such a name is hidden by it."""
