"""The content of a message, as octets, for readers outside of all messaging protocols: Spark, the HTTP API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.wire.amqp091.messages.bodies import ENCODING_TYPES, write_body
from annulet.wire.amqp10.messages.message import FORM_DATA
from annulet.wire.amqp10.messages.view import VIEW as AMQP_1_0

if TYPE_CHECKING:
    from annulet.core.message.message import Message

_OCTETS: Final = bytes((FORM_DATA,))


def payload_of(message: Message) -> tuple[bytes, str | None] | None:
    """Return octets and content type of a body that is no octets; ``None`` for one that is, which is nearly every.

    Only AMQP 1.0 has such bodies: texts, maps, lists and other values, several data sections, footers. They are
    written as for AMQP 0-9-1 (docs/conversion.md): a text in UTF-8, ``text/plain``; one too large to be decoded is its
    sections as their sender encoded them.
    """
    if message.origin.view is not AMQP_1_0 or message.header[:1] == _OCTETS:
        return None
    content = AMQP_1_0.content(message)
    written = write_body(content.body_kind, content.body, content.content_type)
    if written.content_type in ENCODING_TYPES:
        return written.octets, written.content_type
    return written.octets, content.content_type or written.content_type
