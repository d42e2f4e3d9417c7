"""Hot properties: a queue notes in memory, for each message on disk, the hash of its value (design S7).

A selector that requires such a value finds possible matches without reading the other messages. Only equality is
supported: equal codes mean possibly equal values, which the message itself decides, so two values with one code only
cost a read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from annulet.core.message.selector_names import lookup_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from annulet.core.message.message import Message
    from annulet.selector.selector import Selector

HOT_PROPERTIES_MAX: Final = 8
"""Hot properties of a queue (design S7): with all of them ten million messages take 320 MB."""

VALUES_MAX: Final = 16
"""Values of one ``IN`` that are searched for: each costs about 50 ms for ten million messages.

With more of them reading all messages in order is no slower.
"""

CODE_BYTES: Final = 4
"""Bytes of a code: of ten million messages a hash of 32 bits leads to a wrong one once in 400 searches."""

UNKNOWN: Final = b"\0\0\0\0"
"""Code of a message with an unknown value: it may match anything."""

ABSENT: Final = b"\1\0\0\0"
"""Code of a message that lacks the property, or has something there that equals no literal: a list, octets."""

Term: TypeAlias = "tuple[int, list[bytes]]"
"""Which hot property, and the codes of which it must have one."""


def code_of(value: object) -> bytes:
    """Return the code of a value: equal values have equal codes, whatever their types.

    It changes with each process, so that colliding values cannot be constructed.
    """
    if not isinstance(value, (str, int, float)):
        return ABSENT
    # the hash of a number is the number, mostly zeros, at which a search would stop; that of a tuple is well mixed
    number = hash((value,)) >> 32 & 0xFFFFFFFF
    return max(number, 2).to_bytes(CODE_BYTES, "little")  # lower values have another meaning


def codes_of(messages: Sequence[Message], names: tuple[str, ...]) -> list[bytes]:
    """Return of each property the codes of these messages, one behind the other."""
    lookups = [lookup_for(message) for message in messages]
    return [b"".join([code_of(lookup(name)) for lookup in lookups]) for name in names]


def terms_of(selector: Selector | None, names: tuple[str, ...]) -> list[Term]:
    """Return the values of these hot properties that a selector requires together; often none."""
    if selector is None or not names:
        return []
    return [
        (names.index(name), [code_of(value) for value in values])
        for name, values in selector.required_values
        if name in names and len(values) <= VALUES_MAX
    ]
