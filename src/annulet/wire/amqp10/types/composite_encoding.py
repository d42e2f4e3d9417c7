"""Encoding of composite values (§1.4).

The values of frames carry all their fields. The standard allows to leave trailing nulls out, but clients are known that
read the last fields by position without looking at the count (Azure's pyamqp). Sections of messages leave them out.
"""

from __future__ import annotations

from typing import Any, Final

from annulet.core.base.typed_values import (
    TimestampMilliseconds,
    UnsignedByte,
    UnsignedInt,
    UnsignedLong,
    UnsignedShort,
    Uuid,
)
from annulet.wire.amqp10.types.composite import (
    BINARY,
    BOOLEAN,
    COMPOSITE,
    FIELDS,
    MESSAGE_ID,
    STRING,
    SYMBOL,
    SYMBOLS,
    TIMESTAMP,
    UNSETTLED,
    UNSIGNED_BYTE,
    UNSIGNED_INT,
    UNSIGNED_LONG,
    UNSIGNED_SHORT,
    Composite,
    Field,
    definition_of,
)
from annulet.wire.amqp10.types.encoding import (
    ENCODED_FALSE,
    ENCODED_NULL,
    ENCODED_TRUE,
    encode_binary,
    encode_list,
    encode_map,
    encode_string,
    encode_symbol,
    encode_symbols,
    encode_unsigned,
    encode_value,
)
from annulet.wire.amqp10.types.errors import LocalProtocolError

_NUMBERS: Final[dict[int, type[Any]]] = {
    UNSIGNED_BYTE: UnsignedByte,
    UNSIGNED_SHORT: UnsignedShort,
    UNSIGNED_INT: UnsignedInt,
    UNSIGNED_LONG: UnsignedLong,
    TIMESTAMP: TimestampMilliseconds,
}


def encode_composite(value: Composite) -> bytes:
    """Encode a composite value with its numeric descriptor.

    Raises:
        LocalProtocolError: a mandatory field is missing, or one has a value its type does not allow.
    """
    definition = definition_of(value)
    encoded: list[bytes] = []
    kept = 0
    for index, field in enumerate(definition.fields):
        item = getattr(value, field.name)
        if item is None or (not field.mandatory and item == field.default):
            if field.mandatory:
                raise LocalProtocolError(f"{definition.labels[index]} is missing, but mandatory; set it")
            encoded.append(ENCODED_NULL)
            continue
        octets = _encode_field(definition.labels[index], field, item)
        encoded.append(octets)
        if octets != ENCODED_NULL:
            kept = index + 1
    return definition.descriptor + encode_list(encoded[:kept] if definition.trimmed else encoded)


def _encode_field(name: str, field: Field, value: Any) -> bytes:
    try:
        return _encode_kind(field, value)
    except LocalProtocolError as error:
        raise LocalProtocolError(f"{name}: {error}") from error


def _need(value: Any, kinds: type[Any] | tuple[type[Any], ...], needed: str) -> None:
    if not isinstance(value, kinds):
        raise LocalProtocolError(f"a {type(value).__name__} was given, needed is {needed}")


def _encode_kind(field: Field, value: Any) -> bytes:  # noqa: PLR0911 - one row a kind
    kind = field.kind
    number = _NUMBERS.get(kind)
    if number is not None:
        _need(value, int, "a number")
        if 0 <= field.maximum < value:
            raise LocalProtocolError(f"{value} was given, allowed are 0 to {field.maximum}")
        return encode_unsigned(value, number)
    if kind == BOOLEAN:
        _need(value, bool, "a boolean")
        return ENCODED_TRUE if value else ENCODED_FALSE
    if kind == STRING:
        _need(value, str, "a text")
        return encode_string(value)
    if kind == SYMBOL:
        _need(value, str, "a text")
        return encode_symbol(value)
    if kind == BINARY:
        _need(value, bytes, "octets")
        if 0 <= field.maximum < len(value):
            raise LocalProtocolError(f"{len(value)} octets were given, at most {field.maximum} are allowed")
        return encode_binary(value)
    if kind == SYMBOLS:
        _need(value, list, "a list of texts")
        return encode_symbols(value) if value or field.mandatory else ENCODED_NULL
    if kind == FIELDS:
        _need(value, dict, "a dictionary")
        return encode_symbol_map(value) if value else ENCODED_NULL
    if kind == COMPOSITE:
        _need(value, field.allowed, " or ".join([item.__name__ for item in field.allowed]) or "none")
        return encode_composite(value)
    if kind == UNSETTLED:
        _need(value, dict, "a dictionary")
        return _encode_unsettled(field, value)
    assert kind == MESSAGE_ID
    _need(value, (str, bytes, UnsignedLong, Uuid), "a text, octets, UnsignedLong or Uuid")
    return encode_value(value)


def _encode_unsettled(field: Field, unsettled: dict[Any, Any]) -> bytes:
    items: list[bytes] = []
    for tag, state in unsettled.items():
        _need(tag, bytes, "octets as delivery tag")
        items.append(encode_binary(tag))
        if state is None:
            items.append(ENCODED_NULL)
        else:
            _need(state, field.allowed, "a delivery state")
            items.append(encode_composite(state))
    return encode_map(items)


def encode_symbol_map(values: dict[Any, Any]) -> bytes:
    """Encode a map whose plain texts as keys are symbols: fields, filters, annotations.

    Raises:
        LocalProtocolError: a key is beyond ASCII, or a value cannot be carried.
    """
    items: list[bytes] = []
    for key, value in values.items():
        items.append(encode_symbol(key) if isinstance(key, str) else encode_value(key))
        items.append(encode_composite(value) if isinstance(value, Composite) else encode_value(value))
    return encode_map(items)
