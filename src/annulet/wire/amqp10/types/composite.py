"""Composite types (§1.4): described lists whose fields have names, types, defaults and rules.

A class of :class:`Composite` is tied to its definition by :func:`define`; decoding, encoding, comparison and the
representation for people follow from the definition.
"""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64, mypyc_attr

from annulet.core.base.typed_values import Symbol, UnsignedLong, Uuid
from annulet.wire.amqp10.types.errors import DecodeError
from annulet.wire.amqp10.types.fields import (
    read_binary,
    read_boolean,
    read_fields,
    read_string,
    read_symbol,
    read_symbols,
    read_timestamp,
    read_unsigned_byte,
    read_unsigned_int,
    read_unsigned_long,
    read_unsigned_short,
    wrong_type,
)
from annulet.wire.amqp10.types.values import compound_bounds, decode_value, truncated

# Kinds of fields. Restricted types (§2.8) are the kind of their source with a ``maximum``.
BOOLEAN: Final = 1
UNSIGNED_BYTE: Final = 2
UNSIGNED_SHORT: Final = 3
UNSIGNED_INT: Final = 4
UNSIGNED_LONG: Final = 5
TIMESTAMP: Final = 6
BINARY: Final = 7
STRING: Final = 8
SYMBOL: Final = 9
SYMBOLS: Final = 10
FIELDS: Final = 11
COMPOSITE: Final = 12
UNSETTLED: Final = 13
MESSAGE_ID: Final = 14


class Field:
    """One field of a composite type: its name in Python, its kind and its rules.

    ``maximum`` bounds a number, or the octets of a binary; -1 is no bound beyond the type's. ``allowed`` are the
    classes a field of kind ``COMPOSITE`` may hold. A ``secret`` shows its length only.
    """

    __slots__ = ("allowed", "default", "kind", "label", "mandatory", "maximum", "name", "secret")

    def __init__(
        self,
        name: str,
        kind: int,
        *,
        mandatory: bool = False,
        default: Any = None,
        maximum: int = -1,
        allowed: tuple[type[Any], ...] = (),
        secret: bool = False,
    ) -> None:
        self.name = name
        self.label = name.replace("_", "-")
        self.kind = kind
        self.mandatory = mandatory
        self.default = default
        self.maximum = maximum
        self.allowed = allowed
        self.secret = secret


class CompositeType:
    """The definition of a composite type: its name, numeric descriptor, class and fields in order.

    ``labels`` are the fields as error texts name them, like ``attach.snd-settle-mode``. A ``trimmed`` type is encoded
    without its trailing nulls.
    """

    __slots__ = ("code", "descriptor", "factory", "fields", "labels", "name", "symbol", "trimmed")

    def __init__(self, name: str, code: int, factory: type[Any], fields: tuple[Field, ...], *, trimmed: bool) -> None:
        self.name = name
        self.code = code
        self.symbol = f"amqp:{name}:list"
        self.descriptor = b"\x00\x53" + bytes((code,))
        self.factory = factory
        self.fields = fields
        self.labels = tuple([f"{name}.{field.label}" for field in fields])
        self.trimmed = trimmed


@mypyc_attr(allow_interpreted_subclasses=True)
class Composite:
    """Base of all composite values: compares by class and fields, and prints itself as a protocol trace does."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        """Compare class and fields."""
        if type(self) is not type(other):
            return NotImplemented
        return all(getattr(self, field.name) == getattr(other, field.name) for field in definition_of(self).fields)

    def __hash__(self) -> int:
        """Return one number for the whole class: fields change, and equal values have to have equal numbers."""
        return hash(type(self).__name__)

    def __repr__(self) -> str:
        """Return it in the form of a protocol trace: without fields that have their default, secrets as their
        length."""
        definition = definition_of(self)
        shown: list[str] = []
        for field in definition.fields:
            value = getattr(self, field.name)
            if field.mandatory or (value != field.default and value not in (None, [], {})):
                shown.append(f"{field.name}={_shown(field, value)}")
        return f"{definition.name}({', '.join(shown)})"


MAX_SHOWN: Final = 120
"""Characters of one field in a trace; a longer one ends with three dots and its whole length."""


def _shown(field: Field, value: Any) -> str:
    if field.secret and value is not None:
        return f"<{len(value)} octets>"
    if field.name == "role":
        return "receiver" if value else "sender"
    text = f"x'{value[:MAX_SHOWN].hex()}'" if type(value) is bytes else repr(value)
    if len(text) > MAX_SHOWN and not isinstance(value, Composite):
        return f"{text[:MAX_SHOWN]}...({len(value)})"
    return text


_BY_CLASS: Final[dict[type[Any], CompositeType]] = {}
_BY_CODE: Final[dict[int, CompositeType]] = {}
_BY_SYMBOL: Final[dict[str, CompositeType]] = {}


def define(name: str, code: int, factory: type[Any], fields: tuple[Field, ...], *, trimmed: bool = False) -> None:
    """Tie the class ``factory`` to the definition of its composite type; the module of the class calls it once."""
    definition = CompositeType(name, code, factory, fields, trimmed=trimmed)
    _BY_CLASS[factory] = definition
    _BY_CODE[code] = definition
    _BY_SYMBOL[definition.symbol] = definition


def definition_of(value: Composite) -> CompositeType:
    """Return the definition the class of ``value`` was tied to."""
    return _BY_CLASS[type(value)]


def definition_by_code(code: int) -> CompositeType | None:
    """Return the definition with a numeric descriptor, ``None`` when there is none."""
    return _BY_CODE.get(code)


def read_descriptor(data: bytes, position: i64, end: i64, what: str) -> tuple[i64, i64]:
    """Return the numeric code of the descriptor at ``position``, and the position of the described value.

    A symbolic descriptor is turned into its code.

    Raises:
        DecodeError: there is no described value, or its type is unknown.
    """
    if position >= end:
        raise truncated(what, int(position), 1, int(end))
    if data[position] != 0:
        raise wrong_type(what, data[position], int(position), "a described type (0x00)")
    if position + 3 <= end and data[position + 1] == 0x53:
        code: i64 = data[position + 2]
        return code, position + 3
    descriptor, stop = decode_value(data, int(position) + 1, int(end))
    if isinstance(descriptor, UnsignedLong) and descriptor <= 0xFF:
        return int(descriptor), stop
    if isinstance(descriptor, Symbol):
        definition = _BY_SYMBOL.get(descriptor)
        if definition is not None:
            return definition.code, stop
    raise DecodeError(f"{what} at octet {position} has the unknown descriptor {str(descriptor)[:64]!r}")


def list_bounds(data: bytes, position: i64, end: i64, what: str) -> tuple[i64, i64, i64]:
    """Return the number of fields of the list at ``position``, and where they start and end.

    Raises:
        DecodeError: there is no list, or it reaches beyond ``end``.
    """
    if position >= end:
        raise truncated(what, int(position), 1, int(end))
    code: i64 = data[position]
    if code == 0x45:
        return 0, position + 1, position + 1
    if code != 0xC0 and code != 0xD0:  # noqa: PLR1714 - compiles better than a tuple
        raise wrong_type(what, int(code), int(position), "a list")
    return compound_bounds(data, code, position + 1, end, what)


def unknown_type(what: str, code: int, position: int) -> DecodeError:
    """Return the error for a descriptor without a composite type, or with one that is not allowed here."""
    return DecodeError(f"{what} at octet {position} has the descriptor 0x{code:02x}, which is not defined for it")


def decode_composite(data: bytes, position: int, end: int, what: str = "composite value") -> tuple[Any, int]:
    """Return the composite value at ``position`` and the position behind it.

    Raises:
        DecodeError: an unknown descriptor, a field of the wrong type, a mandatory one missing, one too many.
    """
    code, start = read_descriptor(data, position, end, what)
    definition = _BY_CODE.get(int(code))
    if definition is None:
        raise unknown_type(what, int(code), position)
    return decode_fields(definition, data, int(start), end)


def decode_fields(definition: CompositeType, data: bytes, position: int, end: int) -> tuple[Any, int]:
    """Return a value of ``definition`` from the list at ``position``, and the position behind it.

    Raises:
        DecodeError: as :func:`decode_composite`.
    """
    count, at, stop = list_bounds(data, position, end, definition.name)
    fields = definition.fields
    refuse_count(definition.name, count, len(fields))
    values: list[Any] = []
    for index, field in enumerate(fields):
        value: Any = None
        if index < count:
            value, at = _decode_field(definition.labels[index], field, data, at, stop)
        elif field.kind == SYMBOLS:
            value = []
        if value is None or (field.kind == SYMBOLS and not value):
            if field.mandatory:
                raise missing(definition.labels[index])
            if value is None:
                value = field.default
        values.append(value)
    refuse_rest(definition.name, at, stop)
    return definition.factory(*values), int(stop)


def missing(name: str) -> DecodeError:
    """Return the error for a mandatory field that is null or left out."""
    return DecodeError(f"{name} is missing, but mandatory; send it")


def refuse_count(name: str, count: i64, most: i64) -> None:
    """Raise DecodeError when a list has more fields than its type."""
    if count > most:
        raise DecodeError(f"{name} has {count} fields, at most {most} are defined; leave the others out")


def refuse_rest(name: str, position: i64, stop: i64) -> None:
    """Raise DecodeError when a list has octets behind its last field."""
    if position != stop:
        raise DecodeError(
            f"{name} has {stop - position} octets behind its last field at octet {position}; correct its count"
        )


def _number(name: str, field: Field, number: int) -> Any:
    if number < 0:
        return None
    if 0 <= field.maximum < number:
        raise DecodeError(f"{name} is {number}, allowed are 0 to {field.maximum}")
    return number


def _decode_field(  # noqa: C901, PLR0911, PLR0912 - one row a kind
    name: str, field: Field, data: bytes, position: i64, end: i64
) -> tuple[Any, i64]:
    kind = field.kind
    if kind == STRING:
        return read_string(data, position, end, name)
    if kind == SYMBOL:
        return read_symbol(data, position, end, name)
    if kind == UNSIGNED_INT:
        number, stop = read_unsigned_int(data, position, end, name)
        return _number(name, field, int(number)), stop
    if kind == BOOLEAN:
        number, stop = read_boolean(data, position, end, name)
        return (None if number < 0 else number == 1), stop
    if kind == SYMBOLS:
        return read_symbols(data, position, end, name)
    if kind == FIELDS:
        return read_fields(data, position, end, name)
    if kind == COMPOSITE:
        return decode_nested(name, field, data, position, end)
    if kind == BINARY:
        octets, stop = read_binary(data, position, end, name)
        if octets is not None and 0 <= field.maximum < len(octets):
            raise DecodeError(f"{name} has {len(octets)} octets, at most {field.maximum} are allowed")
        return octets, stop
    if kind == UNSIGNED_BYTE:
        number, stop = read_unsigned_byte(data, position, end, name)
        return _number(name, field, int(number)), stop
    if kind == UNSIGNED_SHORT:
        number, stop = read_unsigned_short(data, position, end, name)
        return _number(name, field, int(number)), stop
    if kind == UNSIGNED_LONG:
        long, stop = read_unsigned_long(data, position, end, name)
        return _number(name, field, long), stop
    if kind == TIMESTAMP:
        return read_timestamp(data, position, end, name)
    if kind == UNSETTLED:
        return _decode_unsettled(name, field, data, position, end)
    return _decode_message_id(name, data, position, end)


def decode_nested(name: str, field: Field, data: bytes, position: i64, end: i64) -> tuple[Any, i64]:
    """Return the composite value of a field that allows it, ``None`` for null, and the position behind it.

    Raises:
        DecodeError: it is of another class than the field allows, or as :func:`decode_composite`.
    """
    if position < end and data[position] == 0x40:
        return None, position + 1
    code, start = read_descriptor(data, position, end, name)
    definition = _BY_CODE.get(int(code))
    if definition is None or not issubclass(definition.factory, field.allowed):
        raise unknown_type(name, int(code), int(position))
    return decode_fields(definition, data, int(start), int(end))


def _decode_unsettled(name: str, field: Field, data: bytes, position: i64, end: i64) -> tuple[Any, i64]:
    """Read the map of delivery tags to states (§2.7.3)."""
    if position < end and data[position] == 0x40:
        return None, position + 1
    if position >= end:
        raise truncated(name, int(position), 1, int(end))
    code: i64 = data[position]
    if code != 0xC1 and code != 0xD1:  # noqa: PLR1714 - compiles better than a tuple
        raise wrong_type(name, int(code), int(position), "a map of delivery tags to states")
    count, at, stop = compound_bounds(data, code, position + 1, end, name)
    if count & 1 or count > stop - at:
        raise DecodeError(f"{name} at octet {position} has {count} elements in {stop - at} octets; correct its count")
    unsettled: dict[bytes, Composite | None] = {}
    for _ in range(count // 2):
        tag, at = read_binary(data, at, stop, name)
        if tag is None or tag in unsettled:
            raise DecodeError(
                f"{name} has the delivery tag {tag!r} before octet {at}; send tags that are not null, once"
            )
        unsettled[tag], at = decode_nested(name, field, data, at, stop)
    refuse_rest(name, at, stop)
    return unsettled, stop


def _decode_message_id(name: str, data: bytes, position: i64, end: i64) -> tuple[Any, i64]:
    """Read a message-id (§3.2.11 to §3.2.14): ulong, uuid, binary or string."""
    value, stop = decode_value(data, int(position), int(end))
    kind = type(value)
    if value is not None and kind is not str and kind is not UnsignedLong and kind is not Uuid and kind is not bytes:
        raise wrong_type(name, data[position], int(position), "a ulong, uuid, binary or string")
    return value, stop
