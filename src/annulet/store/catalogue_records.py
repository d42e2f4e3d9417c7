"""The records of the catalogue, and how arguments and positions are written into its columns."""

from __future__ import annotations

import base64
import json
import sys
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from annulet.core.message import PropertyValue
from annulet.store.errors import CatalogueError

BYTES_KEY = "$bytes"
TABLE_KEY = "$table"


@dataclass(frozen=True, slots=True)
class UserRecord:
    """A user; ``password_hash`` is whatever the authenticator made of the password."""

    name: str
    password_hash: str
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PermissionRecord:
    """What a user may do in a virtual host: regular expressions over resource names, empty = nothing."""

    user: str
    virtual_host: str
    configure: str
    write: str
    read: str


@dataclass(frozen=True, slots=True)
class ExchangeRecord:
    """A durable exchange."""

    virtual_host: str
    name: str
    type: str
    auto_delete: bool = False
    internal: bool = False
    arguments: dict[str, PropertyValue] = field(default_factory=dict)
    durable: bool = True


@dataclass(frozen=True, slots=True)
class QueueRecord:
    """A durable queue. ``id`` is never given to another queue."""

    id: int
    virtual_host: str
    name: str
    auto_delete: bool = False
    arguments: dict[str, PropertyValue] = field(default_factory=dict)
    durable: bool = True
    exclusive: bool = False


@dataclass(frozen=True, slots=True)
class BindingRecord:
    """A binding from exchange ``source`` to a queue or exchange; ``destination_type`` is ``queue`` or ``exchange``."""

    virtual_host: str
    source: str
    destination_type: str
    destination: str
    routing_key: str
    arguments: dict[str, PropertyValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """A durable lease on a queue. Times in milliseconds since 1970, positions count the lease's messages."""

    name: str
    virtual_host: str
    queue_id: int
    generation: int
    generated: bool  # the name was made up for a reader that gave none
    created_at: int
    active_at: int
    acknowledged_position: int = 0
    last_position: int = 0


@dataclass(frozen=True, slots=True)
class LeaseRange:
    """The messages at positions ``first`` to ``last`` of a lease: their sequences in the queue, in position order."""

    virtual_host: str
    lease: str
    first: int
    last: int
    sequences: tuple[int, ...]


def _plain(value: object, name: str) -> object:
    """Turn one argument value into JSON's types."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return {BYTES_KEY: base64.b64encode(value).decode("ascii")}
    if isinstance(value, list | tuple):
        return [_plain(item, name) for item in value]
    if isinstance(value, Mapping):
        table = {str(key): _plain(item, f"{name}.{key}") for key, item in value.items()}
        # A table that happens to look like our mark is wrapped, so that it comes back as a table.
        return {TABLE_KEY: table} if table.keys() & {BYTES_KEY, TABLE_KEY} else table
    raise CatalogueError(f"argument {name}: a {type(value).__name__} cannot be kept; use text, number, bytes or table")


def _revive(value: object) -> PropertyValue:
    """Undo :func:`_plain`."""
    if isinstance(value, list):
        return [_revive(item) for item in value]
    if isinstance(value, dict):
        if value.keys() == {BYTES_KEY}:
            return base64.b64decode(value[BYTES_KEY])
        if value.keys() == {TABLE_KEY}:
            value = value[TABLE_KEY]
        return {key: _revive(item) for key, item in value.items()}
    assert value is None or isinstance(value, str | bool | int | float)
    return value


def encode_arguments(arguments: Mapping[str, PropertyValue]) -> str:
    """Return arguments as canonical JSON: equal arguments give equal text, whatever their order."""
    plain = {str(key): _plain(value, str(key)) for key, value in arguments.items()}
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def decode_arguments(text: str) -> dict[str, PropertyValue]:
    """Undo :func:`encode_arguments`: bytes, numbers and nested tables come back as they were."""
    return {key: _revive(value) for key, value in json.loads(text).items()}


def encode_sequences(sequences: Iterable[int]) -> bytes:
    """Pack sequences as little-endian u64."""
    values = array("Q", sequences)
    if sys.byteorder == "big":
        values.byteswap()
    return values.tobytes()


def decode_sequences(data: bytes) -> tuple[int, ...]:
    """Undo :func:`encode_sequences`."""
    values = array("Q", data)
    if sys.byteorder == "big":
        values.byteswap()
    return tuple(values)
