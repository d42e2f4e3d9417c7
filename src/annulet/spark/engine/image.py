"""An image of a queue: its objects as flat rows, from which the same queue is made again.

The next decision of a queue depends on more than its messages: turns of consumers, debts of fair keys, virtual times of
weighted levels, owners of groups, evaluated selectors. So an image contains every object that the queue reaches, field
by field, and the queue restored from it continues unchanged, whatever its composition. Rows name classes and fields,
and contain numbers, texts, octets and references to other rows. Only classes of the core and of the engine are created
from an image, and no code in it is run.

Fields belong to a version: an image is read by the version that wrote it (:mod:`annulet.spark.engine.journal` checks),
and :mod:`annulet.spark.engine.portable` converts state between versions.
"""

from __future__ import annotations

import sys
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from importlib import import_module
from typing import Any, Final

import msgspec

from annulet.selector.selector import Selector, compile_selector
from annulet.spark.engine.blanks import blank_of

PACKAGES: Final = ("annulet.core.", "annulet.spark.engine.")
"""The packages allowed for the classes of an image."""

INTEGER_MAX: Final = 2**63 - 1
"""Larger ones, such as the bits of many match classes, travel as text."""

REFERENCE, TUPLE, LARGE, ENUM, RECORD, SELECTOR, FROZEN, UNSET = range(8)
"""First items of lists in a row, which are not values but give the type of the others together."""

CONTAINERS: Final[dict[str, Callable[[], Any]]] = {
    "list": list,
    "dict": dict,
    "set": set,
    "deque": deque,
    "OrderedDict": OrderedDict,
}
PLAIN: Final = (type(None), bool, float, str, bytes)

Row = tuple[int, list[Any]]
"""Number of a class (or container) in the image's table, and the values of its fields (or its items)."""


class ImageError(Exception):
    """An object cannot be in an image, or an image is not one that this version can read."""


class Image:
    """Rows of objects, the first of which is the root, and the table of their classes: name, then fields."""

    def __init__(self, classes: list[list[str]], rows: list[Row]) -> None:
        self.classes = classes
        self.rows = rows


def field_names(value: Any) -> list[str]:
    """Return the fields an object has, set or not, compiled or not."""
    names: dict[str, None] = {}
    for kind in reversed(type(value).__mro__):
        slots = kind.__dict__.get("__slots__", ())
        for name in (*kind.__dict__.get("__mypyc_attrs__", ()), *((slots,) if isinstance(slots, str) else slots)):
            names[name] = None
    names.update(dict.fromkeys(getattr(value, "__dict__", ())))
    return [name for name in names if not name.startswith("__")]


class _Writer:
    """Walks from the root to everything it reaches, without recursion: chains of objects may be long."""

    def __init__(self, packages: Sequence[str]) -> None:
        self._packages = tuple(packages)
        self._numbers: dict[int, int] = {}  # of objects, by identity
        self._objects: list[Any] = []
        self._classes: dict[tuple[str, ...], int] = {}  # numbers in the table
        self._fixed: dict[type, int] = {}  # the same of classes whose objects all have the same fields
        self._table: list[list[str]] = []

    def write(self, root: Any) -> Image:
        self._number(root)
        rows: list[Row] = []
        while len(rows) < len(self._objects):
            rows.append(self._row(self._objects[len(rows)]))
        return Image(self._table, rows)

    def _row(self, value: Any) -> Row:
        name = type(value).__name__
        if isinstance(value, dict):
            return self._class(name), [self._value(item) for pair in value.items() for item in pair]
        if isinstance(value, (list, set, deque)):
            bound = () if not isinstance(value, deque) or value.maxlen is None else (str(value.maxlen),)
            return self._class(name, *bound), [self._value(item) for item in value]
        kind = type(value)
        number = self._fixed.get(kind)
        if number is None:
            number = self._class(f"{kind.__module__}:{kind.__qualname__}", *field_names(value))
            if not hasattr(value, "__dict__"):  # otherwise the next one may have other fields
                self._fixed[kind] = number
        return number, [self._value(getattr(value, field, ...)) for field in self._table[number][1:]]

    def _class(self, *described: str) -> int:
        number = self._classes.get(described)
        if number is None:
            number = self._classes[described] = len(self._table)
            self._table.append(list(described))
        return number

    def _number(self, value: Any) -> int:
        number = self._numbers.get(id(value))
        if number is None:
            number = len(self._objects)
            self._numbers[id(value)] = number
            self._objects.append(value)
        return number

    def _value(self, value: Any) -> Any:  # noqa: PLR0911 - one for each kind of value
        if isinstance(value, Enum):
            return [ENUM, f"{type(value).__module__}:{type(value).__qualname__}", value.value]
        if isinstance(value, PLAIN):
            return value
        if isinstance(value, int):
            return value if -INTEGER_MAX <= value <= INTEGER_MAX else [LARGE, str(value)]
        if isinstance(value, tuple):
            return [TUPLE, *map(self._value, value)]
        if isinstance(value, frozenset):
            return [FROZEN, *map(self._value, value)]
        if value is ...:
            return [UNSET]
        if isinstance(value, Selector):
            return [SELECTOR, value.canonical]
        if type(value).__name__ in CONTAINERS and type(value).__module__ in ("builtins", "collections"):
            return [REFERENCE, self._number(value)]
        place = f"{type(value).__module__}:{type(value).__qualname__}"
        if not place.startswith(self._packages):
            raise ImageError(f"a {place} cannot be in an image: only content of {', '.join(self._packages)} can")
        if is_dataclass(value):
            return [RECORD, place, *(self._value(getattr(value, field.name)) for field in fields(value))]
        return [REFERENCE, self._number(value)]


class _Reader:
    """Makes blank objects, then sets their fields, then fills containers, whose keys are hashed by fields."""

    def __init__(self, image: Image, packages: Sequence[str]) -> None:
        self._packages = tuple(packages)
        self._image = image
        self._makers = [self._maker(*described) for described in image.classes]
        self._objects: list[Any] = []

    def read(self) -> Any:
        image, makers = self._image, self._makers
        if not image.rows:
            raise ImageError("an image without rows: a part of it is missing")
        self._objects = [makers[kind]() for kind, _ in image.rows]
        containers: list[tuple[Any, list[Any]]] = []
        for target, (kind, values) in zip(self._objects, image.rows, strict=True):
            place, *names = image.classes[kind]
            if place in CONTAINERS:
                containers.append((target, values))
                continue
            for name, value in zip(names, values, strict=True):
                made = self._value(value)
                if made is not ...:
                    self._set(target, place, name, made)
        self._fill(containers)
        return self._objects[0]

    def _set(self, target: Any, place: str, name: str, value: Any) -> None:
        try:
            setattr(target, name, value)
        except (AttributeError, TypeError) as error:
            raise ImageError(f"{place} has no field {name!r} for {value!r} in this version") from error

    def _fill(self, containers: list[tuple[Any, list[Any]]]) -> None:
        for target, values in containers:
            if isinstance(target, dict):
                made = list(map(self._value, values))
                target.update(zip(made[::2], made[1::2], strict=True))
            elif isinstance(target, set):
                target.update(map(self._value, values))
            else:
                target.extend(map(self._value, values))

    def _maker(self, place: str, *names: str) -> Callable[[], Any]:
        if place == "deque" and names:
            return partial(deque, maxlen=int(names[0]))
        container = CONTAINERS.get(place)
        if container is not None:
            return container
        return blank_of(place, self._named(place))

    def _named(self, place: str) -> Any:
        module, _, name = place.partition(":")
        if not place.startswith(self._packages):
            raise ImageError(f"an image names {place}, which is not of {', '.join(self._packages)}")
        found: Any = import_module(module)
        for part in name.split("."):
            found = getattr(found, part, None)
            if found is None:
                raise ImageError(f"an image names {place}, which this version does not have")
        return found

    def _value(self, value: Any) -> Any:  # noqa: PLR0911 - one for each kind of value
        if isinstance(value, str):
            return sys.intern(value)  # identities of connections are compared by ``is``
        if not isinstance(value, list):
            return value
        kind = value[0]
        if kind == REFERENCE:
            return self._objects[value[1]]
        if kind == TUPLE:
            return tuple(map(self._value, value[1:]))
        if kind == FROZEN:
            return frozenset(map(self._value, value[1:]))
        if kind == LARGE:
            return int(value[1])
        if kind == ENUM:
            return self._named(value[1])(value[2])
        if kind == RECORD:
            return self._named(value[1])(*map(self._value, value[2:]))
        if kind == SELECTOR:
            return compile_selector(value[1])
        return ...


def write_image(root: Any, packages: Sequence[str] = PACKAGES) -> Image:
    """Return the image of an object and all it reaches. O(objects).

    Raises :class:`ImageError` for an object of another package, naming its class.
    """
    return _Writer(packages).write(root)


def read_image(image: Image, packages: Sequence[str] = PACKAGES) -> Any:
    """Return the restored root, with all objects it reaches.

    Raises :class:`ImageError` for a class or a field that this version does not have, or that is of another package.
    """
    return _Reader(image, packages).read()


def pack_rows(image: Image) -> Iterator[bytes]:
    """Yield the table of classes, then each row, as MessagePack."""
    encode = msgspec.msgpack.Encoder().encode
    yield encode(image.classes)
    for row in image.rows:
        yield encode(row)


def unpack_rows(packed: Sequence[bytes]) -> Image:
    """Read what :func:`pack_rows` yielded."""
    decode = msgspec.msgpack.Decoder().decode
    rows: list[Row] = [(row[0], row[1]) for row in map(decode, packed[1:])]
    return Image(decode(packed[0]), rows)
