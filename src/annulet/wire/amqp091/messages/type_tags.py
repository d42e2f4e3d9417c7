"""Values AMQP 0-9-1 has no field type for, converted to values it has, and a tag that records their types.

``lower`` returns the consumer's value and the tag; ``restore`` combines both again, and returns the value unchanged if
the tag no longer fits it. Tags are field values themselves:

================== ============================================= ============================
was                is sent as                                    tag
================== ============================================= ============================
``ulong``          ``l``, from 2**63 on ``S`` in decimal digits  ``ulong``
``timestamp``      ``T`` and the milliseconds in the tag; before ``timestamp:345``;
                   1970 and after 9999 ``l`` in milliseconds     ``timestamp``
``char``           ``S``                                         ``char``
``symbol``         ``S``                                         ``symbol``
``uuid``           ``S``, RFC 4122 §3                            ``uuid``
str                ``x`` in UTF-8, where it is too long          ``string``
``decimal32`` ...  ``x``, its octets (``D`` where that can be)   ``decimal32`` ...
``array``          ``A``                                         ``{type: array, ...}``
described value    ``A`` of descriptor and value                 ``{type: described, ...}``
map, other keys    ``A`` of key, value, key, value, ...          ``{type: map, ...}``
list, map          ``A``, ``F``                                  ``{items: {...}}`` of the tagged items,
                                                                 by index or name
================== ============================================= ============================

AMQP 0-10, in which bodies are encoded (:mod:`.amqp010`), has ulong, uuid and char, too: *wide* values. But its texts
have at most 65,535 octets.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from annulet.core.base.typed_values import (
    Array,
    Character,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    MapPairs,
    Symbol,
    TimestampMilliseconds,
    UnsignedLong,
    Uuid,
)
from annulet.core.message.message import PropertyValue
from annulet.core.message.message_id_texts import uuid_of, uuid_text
from annulet.wire.amqp091.messages.amqp010 import TEXT_OCTETS_MAX
from annulet.wire.amqp091.types.typed_tables import SECONDS_MAX, decimal_field, fits_name

Tag: TypeAlias = PropertyValue
"""``None``, a text or a dict."""

DEPTH_MAX: Final = 20
"""Nesting of a value. Each level takes two of the tags, and a field table may have 64. Deeper ones become a text."""

_TIMESTAMP: Final = "timestamp"
_DECIMALS: Final[dict[str, tuple[Any, int]]] = {
    "decimal32": (Decimal32, 4),
    "decimal64": (Decimal64, 8),
    "decimal128": (Decimal128, 16),
}
_DEEP: Final = "text"
_STRING: Final = "string"


def lower(value: Any, depth: int = 0, *, wide: bool = False) -> tuple[PropertyValue, Tag]:
    """Return a value of AMQP 0-9-1's types for ``value``, and its tag, ``None`` if the value needs no tag.

    ``wide``: of AMQP 0-10's types.
    """
    if isinstance(value, list | dict):
        return _lower_container(value, depth, wide)
    if wide:
        if isinstance(value, str) and len(value) > TEXT_OCTETS_MAX // 4:  # of UTF-8 a character has up to four octets
            octets = value.encode("utf-8")
            if len(octets) > TEXT_OCTETS_MAX:
                return octets, _STRING
        if isinstance(value, UnsignedLong | Uuid | Character):
            return value, None
    return _lower_single(value)


def _lower_single(value: Any) -> tuple[PropertyValue, Tag]:  # noqa: C901, PLR0911 - one row a type
    if isinstance(value, int) and not isinstance(value, bool):
        if isinstance(value, TimestampMilliseconds):
            seconds, rest = divmod(int(value), 1000)
            if not 0 <= seconds <= SECONDS_MAX:
                return int(value), _TIMESTAMP
            return TimestampMilliseconds(seconds * 1000), f"{_TIMESTAMP}:{rest}" if rest else None
        if isinstance(value, UnsignedLong) or value >= 2**63:
            return int(value) if value < 2**63 else str(int(value)), "ulong"
        return value, None
    if isinstance(value, str):
        if isinstance(value, Symbol):
            return str(value), "symbol"
        if isinstance(value, Character):
            return str(value), "char"
        return value, None
    if isinstance(value, bytes):
        if isinstance(value, Uuid):
            return uuid_text(value), "uuid"
        if isinstance(value, Decimal64) and decimal_field(value) is not None:
            return value, None
        for name, (kind, _) in _DECIMALS.items():
            if isinstance(value, kind):
                return bytes(value), name
    return value, None


def _lower_container(value: Any, depth: int, wide: bool) -> tuple[PropertyValue, Tag]:
    if depth >= DEPTH_MAX:
        return repr(value), _DEEP
    tags: dict[str, PropertyValue] = {}
    kind = ""
    if isinstance(value, dict):
        symbols = [isinstance(key, Symbol) for key in value]
        if all(map(fits_name, value)) and (not any(symbols) or all(symbols)):
            table: dict[str, PropertyValue] = {}
            for key, item in value.items():
                table[str(key)], tag = lower(item, depth + 1, wide=wide)
                if tag is not None:
                    tags[str(key)] = tag
            return table, _container_tag("symbols" if any(symbols) else "", tags)
        items: list[Any] = [part for pair in value.items() for part in pair]
        kind = "pairs"
    else:
        items = value
        kind = _kind_of(value)
    values: list[PropertyValue] = []
    for index, item in enumerate(items):
        lowered, tag = lower(item, depth + 1, wide=wide)
        values.append(lowered)
        if tag is not None:
            tags[str(index)] = tag
    whole = _container_tag(kind, tags)
    if isinstance(value, Array) and value.constructor and isinstance(whole, dict):
        whole["constructor"] = value.constructor
    return values, whole


def _kind_of(value: list[Any]) -> str:
    if isinstance(value, Array):
        return "array"
    if isinstance(value, Described):
        return "described"
    return "map" if isinstance(value, MapPairs) else ""


def _container_tag(kind: str, tags: dict[str, PropertyValue]) -> Tag:
    if not kind and not tags:
        return None
    whole: dict[str, PropertyValue] = {}
    if kind:
        whole["type"] = kind
    if tags:
        whole["items"] = tags
    return whole


def restore(value: PropertyValue, tag: Tag) -> PropertyValue:  # noqa: PLR0911 - one row a type
    """Return what ``value`` was before :func:`lower`; ``value`` itself when the tag does not fit it."""
    if tag is None:
        return value
    if isinstance(tag, dict):
        return _restore_container(value, tag)
    if not isinstance(tag, str):
        return value
    if tag.startswith(_TIMESTAMP):
        return _restore_timestamp(value, tag)
    if tag == "ulong":
        return _restore_unsigned_long(value)
    if tag in _DECIMALS:
        kind, size = _DECIMALS[tag]
        if isinstance(value, bytes) and len(value) == size:
            decimal: PropertyValue = kind(value)
            return decimal
        return value
    if tag == _STRING:
        return _restore_string(value)
    return _restore_text(value, tag) if isinstance(value, str) else value


def _restore_string(value: PropertyValue) -> PropertyValue:
    try:
        return value.decode("utf-8") if isinstance(value, bytes) else value
    except UnicodeDecodeError:  # octets that are no text any more
        return value


def _restore_text(value: str, tag: str) -> PropertyValue:
    if tag == "symbol" and value.isascii():
        return Symbol(value)
    if tag == "char" and len(value) == 1:
        return Character(value)
    if tag == "uuid":
        octets = uuid_of(value)
        return value if octets is None else octets
    return value


def _restore_timestamp(value: PropertyValue, tag: str) -> PropertyValue:
    rest = tag[len(_TIMESTAMP) + 1 :]
    if isinstance(value, TimestampMilliseconds):
        return TimestampMilliseconds(value + int(rest)) if _is_number(rest, 3) else value
    return TimestampMilliseconds(value) if type(value) is int and not rest else value


def _restore_unsigned_long(value: PropertyValue) -> PropertyValue:
    number = int(value) if isinstance(value, str) and _is_number(value, 20) else value
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 2**64:
        return value
    return UnsignedLong(number)


def _is_number(text: str, digits_max: int) -> bool:
    return len(text) <= digits_max and text.isascii() and text.isdigit()


def _restore_container(value: PropertyValue, tag: dict[str, PropertyValue]) -> PropertyValue:
    kind = tag.get("type", "")
    tags = tag.get("items")
    item_tags: dict[str, PropertyValue] = tags if isinstance(tags, dict) else {}
    if isinstance(value, dict):
        make = Symbol if kind == "symbols" else str
        return {make(name): restore(item, item_tags.get(name)) for name, item in value.items()}
    if not isinstance(value, list):
        return value
    items: list[Any] = [restore(item, item_tags.get(str(index))) for index, item in enumerate(value)]
    if kind == "array":
        array = Array(items)
        constructor = tag.get("constructor")
        if isinstance(constructor, int) and 0 < constructor < 256:
            array.constructor = int(constructor)
        return array
    if kind == "described" and len(items) == 2:
        return Described(items)
    if len(items) % 2 == 0:
        if kind == "map":
            return MapPairs(items)
        if kind == "pairs" and all(isinstance(key, str) for key in items[::2]):
            return dict(zip(items[::2], items[1::2], strict=True))
    return items
