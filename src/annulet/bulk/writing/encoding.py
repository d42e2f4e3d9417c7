"""Rows of a staged write, made into messages. Runs in a worker thread: touches nothing of the broker's."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from annulet.bulk.protocol.errors import InvalidRequestError, OverLimitError
from annulet.bulk.protocol.schema import READ_ONLY_COLUMNS, SCHEMA, WRITE_COLUMNS, property_value
from annulet.core.configuration.arguments.values import MILLISECONDS_MAX
from annulet.core.message.message import DEFAULT_PRIORITY, Message, Origin, PropertyValue
from annulet.wire.amqp091.messages.properties import VIEW, BasicProperties, encode_properties
from annulet.wire.amqp091.messages.publish_headers import NOTHING, SCHEDULE_NAMES, PublishHeaders, read_publish_headers
from annulet.wire.amqp091.types.constants import DEFAULT_FRAME_MAX, FRAME_OVERHEAD
from annulet.wire.amqp091.types.errors import ChannelError, LocalProtocolError

PERSISTENT: Final = 2
TRANSIENT: Final = 1
PRIORITY_MAX: Final = 255
"""AMQP 0-9-1 §1.8: priority is one octet."""
SHORT_STRING_MAX: Final = 255
"""Octets of a name or property, AMQP 0-9-1 §4.2.5.3."""
HEADER_BYTES_MAX: Final = DEFAULT_FRAME_MAX - FRAME_OVERHEAD - 12
"""Encoded properties of a message. A content header is one frame (AMQP 0-9-1 §4.2.6.1), of which 12 bytes are fixed: a
larger one could be given to no consumer."""
GROUP_HEADER: Final = "group-id"


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a row wants to go: an address, or an exchange with a routing key."""

    address: str | None
    exchange: str
    routing_key: str


@dataclass(frozen=True, slots=True)
class WriteDefaults:
    """Options of a write. ``address`` or ``exchange`` given here win over the columns of the same names."""

    address: str | None = None
    exchange: str | None = None
    routing_key: str | None = None
    persistent: bool = True

    @property
    def complete(self) -> bool:
        """Whether all rows have one destination, whatever their columns say."""
        return self.routing_key is not None and (self.address is not None or self.exchange is not None)

    @classmethod
    def from_request(cls, request: Mapping[str, Any]) -> WriteDefaults:
        """Read the JSON form."""
        return cls(
            request.get("address"),
            request.get("exchange"),
            request.get("routing_key"),
            bool(request.get("persistent", True)),
        )


@dataclass(slots=True)
class PendingMessage:
    """A row made into a message, before its destination was resolved."""

    destination: Destination
    message: Message
    time_to_live: int  # milliseconds; -1 = none
    schedule: PublishHeaders = NOTHING  # its time of delivery


def check_write_schema(schema: pa.Schema) -> None:
    """Raise :class:`InvalidRequestError` for a column of a write that is unknown, named twice or of the wrong type."""
    names: set[str] = set()
    for field in schema:
        if field.name in names:
            raise InvalidRequestError(f"column {field.name!r} is named twice; send one column of each name")
        names.add(field.name)
        types = WRITE_COLUMNS.get(field.name)
        if types is None:
            if field.name not in READ_ONLY_COLUMNS:
                raise InvalidRequestError(
                    f"column {field.name!r} is unknown; the columns are {', '.join(WRITE_COLUMNS)}"
                )
            _check_ignored(field)
        elif pa.types.is_timestamp(field.type) and field.type.tz is None and pa.types.is_timestamp(types[0]):
            raise InvalidRequestError(
                f"column {field.name!r} has type {field.type}, which names no time zone, so it is no moment: cast it "
                f"to {types[0]}"
            )
        elif not any(_same_type(field.type, kind) for kind in types):
            raise InvalidRequestError(
                f"column {field.name!r} has type {field.type}, not {' or '.join(map(str, types))}"
            )
    if "body" not in names:
        raise InvalidRequestError("column 'body' is missing: the content to send, binary or string")


def _check_ignored(field: pa.Field) -> None:
    """Require values without a dictionary, which a stream sends beside its batches, where no limit counts it.

    Dictionaries occur within nested and extension types too; no column of a read has any of these.
    """
    kind = field.type
    if pa.types.is_dictionary(kind) or kind.num_fields or isinstance(kind, pa.BaseExtensionType):
        raise InvalidRequestError(
            f"column {field.name!r} has type {kind}; a write ignores this column and takes it without a dictionary "
            f"and not nested: cast it to {SCHEMA.field(field.name).type}, or leave it out"
        )


def _same_type(given: pa.DataType, wanted: pa.DataType) -> bool:
    if given == wanted:
        return True
    if pa.types.is_timestamp(given) and pa.types.is_timestamp(wanted):
        return given.tz is not None  # the zone is how it is shown; the values are counted in UTC in all of them
    # Map types differ in the names and nullability of their entry fields; only their contents matter.
    return (
        str(given).startswith("map<")
        and str(wanted).startswith("map<")
        and given.key_type == wanted.key_type
        and given.item_type == wanted.item_type
    )


def encode_rows(
    batch: pa.RecordBatch, defaults: WriteDefaults, publisher: str, first_row: int, body_bytes_max: int
) -> Iterator[PendingMessage]:
    """Make messages of a batch, in row order. Raises :class:`InvalidRequestError` naming row, column and value.

    ``body_bytes_max`` is ``limits.max_message_bytes``, as for every other sender.
    """
    columns = {name: _values(batch.column(name)) for name in batch.schema.names if name in WRITE_COLUMNS}
    bodies = columns.pop("body")
    setters = [(columns[name], _SETTERS[name], name) for name in columns if name in _SETTERS]
    none = [None] * len(bodies)
    persistent = columns.get("persistent", none)
    places = _Places(columns, defaults, none)
    for index, body in enumerate(bodies):
        row = first_row + index
        properties = BasicProperties()
        for values, setter, name in setters:
            value = values[index]
            if value is not None:
                _set(setter, properties, value, row, name)
        durable = defaults.persistent if persistent[index] is None else persistent[index]
        properties.delivery_mode = PERSISTENT if durable else TRANSIENT
        destination = places.of(index, row)
        try:
            header = encode_properties(properties)
        except LocalProtocolError as error:
            raise InvalidRequestError(f"row {row}: {error}") from error
        content = b"" if body is None else body.encode() if isinstance(body, str) else body
        _check_size(row, "its properties", len(header), HEADER_BYTES_MAX, "header_bytes_max")
        _check_size(row, "its body", len(content), body_bytes_max, "max_message_bytes")
        message = Message(
            header,
            content,
            Origin("", "", publisher, VIEW),
            durable=durable,
            priority=DEFAULT_PRIORITY if properties.priority is None else properties.priority,
        )
        time_to_live = -1 if properties.expiration is None else int(properties.expiration)
        yield PendingMessage(destination, message, time_to_live, _schedule(properties.headers, row))


def _values(column: pa.Array) -> list[Any]:
    """Return Python's values. Times are in UTC, in which no hour is repeated."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", tz="UTC"), safe=False)  # below a microsecond nothing is kept
    values: list[Any] = column.to_pylist()
    return values


def _schedule(headers: dict[str, PropertyValue] | None, row: int) -> PublishHeaders:
    """Read the time of delivery from the properties, as for any other sender."""
    if headers is None or headers.keys().isdisjoint(SCHEDULE_NAMES):
        return NOTHING
    asked = BasicProperties()
    asked.headers = {name: headers[name] for name in SCHEDULE_NAMES if headers.get(name) is not None}
    try:
        return read_publish_headers(encode_properties(asked))
    except ChannelError as error:
        raise InvalidRequestError(f"row {row}, column properties: {error.text}") from error


def _check_size(row: int, what: str, size: int, most: int, limit: str) -> None:
    if size > most:
        raise OverLimitError(
            f"row {row}: {what} need {size} bytes, {most} are allowed ({limit}); make the row smaller", limit
        )


class _Places:
    """Where each row goes: the options first, then the columns."""

    def __init__(self, columns: dict[str, list[Any]], defaults: WriteDefaults, none: list[None]) -> None:
        self.by_option = defaults.address is not None or defaults.exchange is not None
        self.defaults = defaults
        self.addresses = columns.get("address", none)
        self.exchanges = columns.get("exchange", none)
        self.keys = columns.get("routing_key", none)
        self._made: dict[tuple[str | None, str, str], Destination] = {}

    def of(self, index: int, row: int) -> Destination:
        defaults = self.defaults
        key = defaults.routing_key if defaults.routing_key is not None else self.keys[index] or ""
        if self.by_option:
            place = (defaults.address, defaults.exchange or "", key)
        elif self.exchanges[index] is not None:
            place = (None, self.exchanges[index], key)
        else:
            place = (self.addresses[index], "", key)
            if place[0] is None and key == "":
                raise InvalidRequestError(
                    f"row {row} has no destination: set option address, or exchange and routingKey, or fill those "
                    "columns"
                )
        destination = self._made.get(place)
        if destination is None:
            for name, text in zip(("address", "exchange", "routing_key"), place, strict=True):
                if text and len(text.encode()) > SHORT_STRING_MAX:
                    raise InvalidRequestError(
                        f"row {row}: {name} {text[:40]!r}... is longer than {SHORT_STRING_MAX} octets"
                    )
            destination = self._made[place] = Destination(*place)
        return destination


def _set(
    setter: Callable[[BasicProperties, Any], None], properties: BasicProperties, value: Any, row: int, name: str
) -> None:
    try:
        setter(properties, value)
    except ValueError as error:
        raise InvalidRequestError(f"row {row}, column {name}: {error}") from error


def _text(name: str) -> Callable[[BasicProperties, Any], None]:
    def setter(properties: BasicProperties, value: Any) -> None:
        if len(value.encode()) > SHORT_STRING_MAX:
            raise ValueError(f"{value[:40]!r}... is longer than {SHORT_STRING_MAX} octets")
        setattr(properties, name, value)

    return setter


def _priority(properties: BasicProperties, value: Any) -> None:
    if not 0 <= value <= PRIORITY_MAX:
        raise ValueError(f"{value} is not within 0 to {PRIORITY_MAX}")
    properties.priority = value


def _expiration(properties: BasicProperties, value: Any) -> None:
    if not 0 <= value <= MILLISECONDS_MAX:
        raise ValueError(f"{value} is not within 0 to {MILLISECONDS_MAX}; give milliseconds to live, or null for ever")
    properties.expiration = str(value)


def _timestamp(properties: BasicProperties, value: Any) -> None:
    seconds = math.floor(value.timestamp())
    if seconds < 0:
        raise ValueError(f"{value} is before 1970, which AMQP 0-9-1 cannot express")
    properties.timestamp = seconds


def _properties(properties: BasicProperties, value: Any) -> None:
    headers = {name: property_value(text) for name, text in value}
    for name in headers:
        if len(name.encode()) > SHORT_STRING_MAX:
            raise ValueError(f"property name {name[:40]!r}... is longer than {SHORT_STRING_MAX} octets")
    properties.headers = {**(properties.headers or {}), **headers}


def _group(properties: BasicProperties, value: Any) -> None:
    properties.headers = {**(properties.headers or {}), GROUP_HEADER: value}


_SETTERS: Final[dict[str, Callable[[BasicProperties, Any], None]]] = {
    "message_id": _text("message_id"),
    "content_type": _text("content_type"),
    "content_encoding": _text("content_encoding"),
    "correlation_id": _text("correlation_id"),
    "reply_to": _text("reply_to"),
    "subject": _text("type"),
    "priority": _priority,
    "expiration": _expiration,
    "timestamp": _timestamp,
    "properties": _properties,
    "group_id": _group,
}
