"""Message and correlation ids as text, for protocols with text only, and back to their types.

AMQP 1.0 §3.2.11 to §3.2.14 allow four types of id. The texts are those of the AMQP JMS mapping: a reply whose sender
copies a message id into its correlation id gives the requester back the very id it sent. A string that does not look
like one of these texts is unchanged, so every text is restored, too.
"""

from __future__ import annotations

from typing import Final

from annulet.core.base.typed_values import UnsignedLong, Uuid

UNSIGNED_LONG_PREFIX: Final = "ID:AMQP_ULONG:"
UUID_PREFIX: Final = "ID:AMQP_UUID:"
BINARY_PREFIX: Final = "ID:AMQP_BINARY:"
STRING_PREFIX: Final = "ID:AMQP_STRING:"
"""In front of a string that one of the others would be read as."""

_COMMON_PREFIX: Final = "ID:AMQP_"
_UNSIGNED_LONG_MAX: Final = 2**64 - 1
_UUID_GROUPS: Final = (8, 4, 4, 4, 12)


def identifier_text(identifier: str | int | bytes) -> str:
    """Return an id as text: a string as it is unless it looks like one of the texts of the other types."""
    if isinstance(identifier, Uuid):
        return UUID_PREFIX + uuid_text(identifier)
    if isinstance(identifier, bytes):
        return BINARY_PREFIX + identifier.hex().upper()
    if isinstance(identifier, int):
        return f"{UNSIGNED_LONG_PREFIX}{int(identifier)}"
    if identifier.startswith(_COMMON_PREFIX) and identifier_of(identifier) != identifier:
        return STRING_PREFIX + identifier
    return str(identifier)


def identifier_of(text: str) -> str | int | bytes:
    """Return the id of a text: the reverse of :func:`identifier_text`."""
    if not text.startswith(_COMMON_PREFIX):
        return text
    if text.startswith(UUID_PREFIX):
        octets = uuid_of(text[len(UUID_PREFIX) :])
        return text if octets is None else octets
    if text.startswith(UNSIGNED_LONG_PREFIX):
        digits = text[len(UNSIGNED_LONG_PREFIX) :]
        if len(digits) <= 20 and digits.isascii() and digits.isdigit():
            number = int(digits)
            if number <= _UNSIGNED_LONG_MAX and str(number) == digits:
                return UnsignedLong(number)
        return text
    if text.startswith(BINARY_PREFIX):
        return _binary_of(text)
    if text.startswith(STRING_PREFIX):
        rest = text[len(STRING_PREFIX) :]
        if identifier_of(rest) != rest:
            return rest
    return text


def _binary_of(text: str) -> str | bytes:
    digits = text[len(BINARY_PREFIX) :]
    try:
        octets = bytes.fromhex(digits)
    except ValueError:
        return text
    return octets if octets.hex().upper() == digits else text


def uuid_text(octets: bytes) -> str:
    """Return 16 octets as RFC 4122 §3 writes them: groups of lower-case hexadecimal digits."""
    digits = octets.hex()
    parts: list[str] = []
    start = 0
    for length in _UUID_GROUPS:
        parts.append(digits[start : start + length])
        start += length
    return "-".join(parts)


def uuid_of(text: str) -> Uuid | None:
    """Return the octets of a uuid in the form of :func:`uuid_text`; ``None`` for any other text."""
    if len(text) != 36 or not text.isascii():
        return None
    try:
        octets = bytes.fromhex(text.replace("-", ""))
    except ValueError:
        return None
    return Uuid(octets) if len(octets) == 16 and uuid_text(octets) == text else None
