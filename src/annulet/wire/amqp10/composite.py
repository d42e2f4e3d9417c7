"""Composite types (§1.4): described lists whose fields have names, types, defaults and rules.

A class of :class:`Composite` is tied to its definition by :func:`define`; decoding, encoding, comparison and the
representation for people follow from the definition.
"""
# ruff: noqa: PLR0913 - a field has as many properties as the standard gives it

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import mypyc_attr

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
ANY: Final = 14


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
    """The definition of a composite type: its name, numeric descriptor, class and fields in order."""

    __slots__ = ("code", "descriptor", "factory", "fields", "name", "symbol")

    def __init__(self, name: str, code: int, factory: type[Any], fields: tuple[Field, ...]) -> None:
        self.name = name
        self.code = code
        self.symbol = f"amqp:{name}:list"
        self.descriptor = b"\x00\x53" + bytes((code,))
        self.factory = factory
        self.fields = fields


@mypyc_attr(allow_interpreted_subclasses=True)
class Composite:
    """Base of all composite values: compares by class and fields, and prints itself as a protocol trace does."""

    __slots__ = ()


_DEFINITIONS: Final[dict[type[Any], CompositeType]] = {}


def define(name: str, code: int, factory: type[Any], fields: tuple[Field, ...]) -> None:
    """Tie the class ``factory`` to the definition of its composite type; the module of the class calls it once."""
    _DEFINITIONS[factory] = CompositeType(name, code, factory, fields)
