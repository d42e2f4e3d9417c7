"""Properties of a message as an operator gives them: by their names in AMQP 0-9-1, each checked."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Final

from annulet.core.base.errors import InvalidArgument
from annulet.core.base.nearest import nearest_name
from annulet.wire.amqp091.messages.properties import BasicProperties

if TYPE_CHECKING:
    from collections.abc import Mapping

TEXTS: Final = (
    "content_type",
    "content_encoding",
    "correlation_id",
    "reply_to",
    "expiration",
    "message_id",
    "type",
    "user_id",
    "app_id",
    "cluster_id",
)
NUMBERS: Final = {"delivery_mode": (1, 2), "priority": (0, 255), "timestamp": (0, (1 << 63) - 1)}
"""Properties that are numbers, with their bounds."""

HEADERS: Final = "headers"
NAMES: Final = (*TEXTS, *NUMBERS, HEADERS)

TEXT: Final = "text"
BASE64: Final = "base64"
ENCODINGS: Final = (TEXT, BASE64)


def read_properties(given: Mapping[str, Any]) -> BasicProperties:
    """Return properties; ``headers`` are a table of values that AMQP 0-9-1 has.

    Raises :class:`InvalidArgument` with the field, its value and the remedy.
    """
    properties = BasicProperties()
    for name, value in given.items():
        if name not in NAMES:
            near = nearest_name(name, list(NAMES))
            hint = f"did you mean {near!r}?" if near else f"give some of {', '.join(NAMES)}"
            raise InvalidArgument(f"field 'properties': unknown property {name!r}; {hint}")
        if name in TEXTS and not isinstance(value, str):
            raise InvalidArgument(f"field 'properties.{name}' is {value!r}; give a text")
        if name in NUMBERS:
            least, most = NUMBERS[name]
            if type(value) is not int or not least <= value <= most:
                raise InvalidArgument(f"field 'properties.{name}' is {value!r}; give an integer from {least} to {most}")
        if name == HEADERS and not isinstance(value, dict):
            raise InvalidArgument(f"field 'properties.headers' is {value!r}; give an object")
        setattr(properties, name, value)
    return properties


def octets_of(text: str, *, base64_given: bool) -> bytes:
    """Return the octets of a body that is given as a text. Raises ``ValueError`` for what is no base64."""
    return base64.b64decode(text, validate=True) if base64_given else text.encode("utf-8", "surrogatepass")


def read_body(text: str, encoding: str) -> bytes:
    """Return the octets of a body. Raises :class:`InvalidArgument` for what is no base64."""
    try:
        return octets_of(text, base64_given=encoding != TEXT)
    except ValueError as error:
        raise InvalidArgument(f"field 'body' is no base64 ({error}); give base64, or body_encoding 'text'") from error
