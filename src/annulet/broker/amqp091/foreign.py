"""Messages of other protocols on their way to AMQP 0-9-1 clients: docs/conversion.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.broker.amqp091.publishing import destination_of
from annulet.broker.connections.views import ConversionError
from annulet.wire.amqp091.connection.output import encode_destination
from annulet.wire.amqp091.messages.properties import VIEW
from annulet.wire.amqp091.types.constants import MAX_SHORT_STRING_BYTES
from annulet.wire.amqp091.types.errors import LocalProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable

    from annulet.core.message.message import ContentView, Message

ELLIPSIS: Final = b"..."


def as_amqp091(converter: Callable[[Message, ContentView], Message], message: Message) -> Message | None:
    """Return a message as one of AMQP 0-9-1, its origin encoded; ``None`` when it cannot be converted.

    ``converter`` is the session's, which takes note of the time, or :func:`annulet.broker.connections.views.converted`.
    """
    try:
        made = converter(message, VIEW)
    except ConversionError:  # counted and logged there
        return None
    origin = made.origin
    if not origin.encoded:
        try:
            destination_of(origin)
        except LocalProtocolError:  # names of other protocols have no limit; where it was sent is told by its record
            origin.encoded = encode_destination(shortened(origin.exchange), shortened(origin.routing_key))
    return made


def shortened(name: str) -> str:
    """Return a name cut to the octets of a short string (§4.2.5.3)."""
    octets = name.encode("utf-8")
    if len(octets) <= MAX_SHORT_STRING_BYTES:
        return name
    return (octets[: MAX_SHORT_STRING_BYTES - len(ELLIPSIS)] + ELLIPSIS).decode("utf-8", "ignore")
