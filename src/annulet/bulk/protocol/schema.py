"""The rows of a read, as Arrow columns.

Depends on core messages and pyarrow, on no protocol, so Spark workers may import it.
"""

from __future__ import annotations

import base64
import difflib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa

from annulet.bulk.protocol.errors import InvalidRequestError
from annulet.core.message.message import PropertyValue, StandardProperties

if TYPE_CHECKING:
    from annulet.core.message.message import Message

BATCH_ROWS_MAX: Final = 5000
"""Rows of one Arrow batch: 1000 to 5000 amortise the cost per batch (spark-notes §7)."""

BATCH_BYTES_MAX: Final = 2 * 1024 * 1024
"""Body bytes of one Arrow batch, unless a single body is larger: well below gRPC's message limit."""

TIMESTAMP_MAX: Final = 253_402_300_799_999
"""Milliseconds since 1970 of the end of 9999, the largest timestamp of Spark. Later ones become null."""

_TIME: Final = pa.timestamp("us", tz="UTC")

SCHEMA: Final = pa.schema(
    [
        ("position", pa.int64()),
        ("sequence", pa.int64()),
        ("message_id", pa.string()),
        ("queue", pa.string()),
        ("address", pa.string()),
        ("routing_key", pa.string()),
        ("body", pa.binary()),
        ("content_type", pa.string()),
        ("content_encoding", pa.string()),
        ("correlation_id", pa.string()),
        ("reply_to", pa.string()),
        ("subject", pa.string()),
        ("group_id", pa.string()),
        ("priority", pa.int32()),
        ("durable", pa.bool_()),
        ("timestamp", _TIME),
        ("enqueued_at", _TIME),
        ("expires_at", _TIME),
        ("delivery_count", pa.int64()),
        ("redelivered", pa.bool_()),
        ("properties", pa.map_(pa.string(), pa.string())),
    ]
)

COLUMNS: Final = tuple(SCHEMA.names)

OCTETS: Final = "data:application/octet-stream;base64,"
"""Before the octets of a property that are no text, in Base64."""

MALFORMED: Final = "annulet-malformed-header"
"""The one property of a row whose message header cannot be decoded; its value is the error."""


Payload: TypeAlias = "tuple[bytes, str | None]"
"""Octets of a body and their content type."""
PayloadReader: TypeAlias = "Callable[[Message], Payload | None]"


@dataclass(frozen=True, slots=True)
class Row:
    """One message to be read, with its queue's state of it when it was taken.

    Immutable, so any thread may convert it.
    """

    position: int  # of the lease, or the queue's sequence number in a browse
    message: Message
    expires_at: int  # milliseconds since 1970; 0 = never
    delivery_count: int
    redelivered: bool
    sequence: int = 0  # the queue's, where ``position`` is of a lease; 0: ``position`` is it


def select_columns(names: Sequence[str] | None) -> list[str]:
    """Return the columns to send, all when ``None``. Raises :class:`InvalidRequestError` for an unknown one."""
    if names is None:
        return list(COLUMNS)
    for name in names:
        if name not in COLUMNS:
            near = difflib.get_close_matches(name, COLUMNS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"the columns are {', '.join(COLUMNS)}"
            raise InvalidRequestError(f"column {name!r} is unknown; {hint}")
    if len(set(names)) != len(names):
        raise InvalidRequestError(f"columns {', '.join(names)}: one is named twice")
    return list(names)


def schema_of(columns: Sequence[str]) -> pa.Schema:
    """Return the Arrow schema of these columns, in their order."""
    return pa.schema([SCHEMA.field(name) for name in columns])


def _as_stored(message: Message) -> Payload | None:
    del message
    return None


def record_batches(
    rows: Iterable[Row], queue: str, columns: Sequence[str], payload_of: PayloadReader = _as_stored
) -> Iterator[pa.RecordBatch]:
    """Convert rows, in order, into batches of bounded size.

    ``payload_of`` gives octets and content type of bodies that are stored as something else, ``None`` for the others.
    """
    for batch, _ in positioned_batches(rows, queue, columns, payload_of):
        yield batch


def positioned_batches(
    rows: Iterable[Row], queue: str, columns: Sequence[str], payload_of: PayloadReader = _as_stored
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Do what :func:`record_batches` does, and say of each batch the position of its last row."""
    batch: list[Row] = []
    size = 0
    for row in rows:
        length = row.message.size
        if batch and (len(batch) >= BATCH_ROWS_MAX or size + length > BATCH_BYTES_MAX):
            yield _record_batch(batch, queue, columns, payload_of), batch[-1].position
            batch, size = [], 0
        batch.append(row)
        size += length
    if batch:
        yield _record_batch(batch, queue, columns, payload_of), batch[-1].position


def _record_batch(rows: list[Row], queue: str, columns: Sequence[str], payload_of: PayloadReader) -> pa.RecordBatch:
    decoded: list[StandardProperties] = []
    payloads: list[Payload | None] = []
    if not _OF_PAYLOAD.isdisjoint(columns):
        payloads = [payload_of(row.message) for row in rows]
    if not _WITHOUT_PROPERTIES.issuperset(columns):
        decoded = [_properties(row, queue) for row in rows]
    arrays = []
    for name in columns:
        if name == "queue":
            values: list[Any] = [queue] * len(rows)
        elif name == "body":
            values = [
                row.message.body if payload is None else payload[0] for row, payload in zip(rows, payloads, strict=True)
            ]
        elif name == "content_type":
            values = [
                (properties.content_type if payload is None else payload[1]) or None
                for properties, payload in zip(decoded, payloads, strict=True)
            ]
        elif name in _OF_ROW:
            convert = _OF_ROW[name]
            values = [convert(row) for row in rows]
        elif name in _TEXTS:
            values = [getattr(properties, name) or None for properties in decoded]
        elif name == "timestamp":
            values = [_time(properties.timestamp) for properties in decoded]
        else:
            values = [_map(properties.application) for properties in decoded]
        arrays.append(pa.array(values, SCHEMA.field(name).type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema_of(columns))


def _properties(row: Row, queue: str) -> StandardProperties:
    """Decode; a header that cannot be decoded completely becomes a marked row with the decodable part."""
    properties = row.message.origin.view.properties(row.message)
    if properties.malformed:
        import structlog  # noqa: PLC0415 - a sixth of the start of Spark's workers, which read this module and log nothing

        structlog.get_logger(__name__).warning(
            "message header cannot be decoded", queue=queue, position=row.position, error=properties.malformed
        )
        properties.application = {**properties.application, MALFORMED: properties.malformed}
    return properties


def address_of(message: Message) -> str:
    """Return the address a message was sent to: its exchange, or the queue if it was sent to the default exchange."""
    return message.origin.exchange or message.origin.routing_key


def _time(milliseconds: int) -> int | None:
    return milliseconds * 1000 if 0 < milliseconds <= TIMESTAMP_MAX else None


_OF_ROW: Final[dict[str, Callable[[Row], Any]]] = {
    "position": lambda row: row.position,
    "sequence": lambda row: row.sequence or row.position,
    "address": lambda row: address_of(row.message),
    "routing_key": lambda row: row.message.origin.routing_key,
    "priority": lambda row: row.message.priority,
    "durable": lambda row: row.message.durable,
    "enqueued_at": lambda row: _time(row.message.accepted_at),
    "expires_at": lambda row: _time(row.expires_at),
    "delivery_count": lambda row: row.delivery_count,
    "redelivered": lambda row: row.redelivered,
}
_TEXTS: Final = frozenset(("message_id", "content_encoding", "correlation_id", "reply_to", "subject", "group_id"))
_OF_PAYLOAD: Final = frozenset(("body", "content_type"))
_WITHOUT_PROPERTIES: Final = frozenset((*_OF_ROW, "queue", "body"))


def _map(application: dict[str, PropertyValue]) -> list[tuple[str, str | None]]:
    return [(name, property_text(value)) for name, value in application.items()]


def property_text(value: PropertyValue) -> str | None:
    """Write a property as text: text as it is, true and false, numbers in decimal, the rest as JSON; void is null."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, bytes):
        return _bytes_text(value)
    return json.dumps(value, default=_bytes_text, ensure_ascii=False)


def _bytes_text(value: object) -> str:
    """Write octets as the UTF-8 text they are, others as a data URI (RFC 2397), which a write reads back."""
    if not isinstance(value, bytes):
        return str(value)
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = OCTETS
    return text if not text.startswith(OCTETS) else OCTETS + base64.b64encode(value).decode()


def property_value(text: str | None) -> str | bytes | None:
    """Read a property of a write: a data URI as :func:`property_text` writes it is octets, all else text."""
    if text is None or not text.startswith(OCTETS):
        return text
    try:
        return base64.b64decode(text.removeprefix(OCTETS), validate=True)
    except ValueError:  # a text that only has this prefix
        return text


# ---------------------------------------------------------------------- writes

WRITE_COLUMNS: Final[dict[str, tuple[pa.DataType, ...]]] = {
    "body": (pa.binary(), pa.string()),
    "address": (pa.string(),),
    "exchange": (pa.string(),),
    "routing_key": (pa.string(),),
    "message_id": (pa.string(),),
    "content_type": (pa.string(),),
    "content_encoding": (pa.string(),),
    "correlation_id": (pa.string(),),
    "reply_to": (pa.string(),),
    "subject": (pa.string(),),
    "group_id": (pa.string(),),
    "priority": (pa.int8(), pa.int16(), pa.int32(), pa.int64()),
    "expiration": (pa.int32(), pa.int64()),
    "timestamp": (_TIME,),
    "persistent": (pa.bool_(),),
    "properties": (pa.map_(pa.string(), pa.string()),),
}
"""Columns of a write and the types each may have. ``expiration`` is a time to live in milliseconds."""

DESTINATION_COLUMNS: Final = ("address", "exchange", "routing_key")
"""Columns of a write that say where a row goes, unless an option does."""

READ_ONLY_COLUMNS: Final = frozenset(
    ("position", "sequence", "queue", "durable", "enqueued_at", "expires_at", "delivery_count", "redelivered")
)
"""Columns of a read that a write ignores, so that read rows can be written again."""
