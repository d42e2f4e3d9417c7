"""Changing the headers of a message the broker sends on, octet by octet the same where nothing is changed.

Values of the sender keep their field types: decoding and encoding them would not (a 16-bit integer comes out as one of
32 bits).
"""

from __future__ import annotations

from typing import Final

from annulet.core.base.death_trail import DeathRecord
from annulet.core.message.message import PropertyValue
from annulet.wire.amqp091.messages.property_reader import FLAG_EXPIRATION, FLAG_HEADERS, FLAG_REPLY_TO, PropertyReader
from annulet.wire.amqp091.types.values import (
    Long,
    Timestamp,
    encode_short_string,
    encode_table,
    find_content_end,
    skip_value,
)

DEATHS: Final = "x-death"
FIRST_DEATH: Final = "x-first-death-"
LAST_DEATH: Final = "x-last-death-"
_MILLISECONDS: Final = 1000


def annotate(
    header: bytes, headers: dict[str, PropertyValue], *, without: tuple[str, ...] = (), expires: bool = True
) -> bytes:
    """Return ``header`` with ``headers`` put over its own and those named in ``without`` left out.

    ``expires=False`` leaves out the expiration property as well. Returns ``header`` itself if nothing changes.

    Raises:
        RemoteProtocolError: 502 for malformed properties, as far as they were read.
        LocalProtocolError: a value that AMQP 0-9-1 cannot carry.
    """
    reader = PropertyReader(header)
    flags = reader.flags
    reader.to_headers()
    table_start = reader.position
    kept = b""
    dropped = False
    if flags & FLAG_HEADERS:
        end = find_content_end(header, table_start, reader.end, 0, "headers")
        kept, dropped = _kept_fields(header, table_start + 4, end, headers, without)
        reader.position = end
    table_end = reader.position
    rest = header[table_end:]
    if not expires and flags & FLAG_EXPIRATION:
        reader.to_expiration()
        expiration_start = reader.position
        reader.skip_text(FLAG_EXPIRATION, "expiration")
        rest = header[table_end:expiration_start] + header[reader.position :]
        flags &= ~FLAG_EXPIRATION
    if not headers and not dropped and flags == reader.flags:
        return header
    table = header[table_start:table_end]
    if headers or dropped:
        flags |= FLAG_HEADERS
        content = kept + encode_table(headers)[4:]
        table = len(content).to_bytes(4, "big") + content
    return flags.to_bytes(2, "big") + header[2:table_start] + table + rest


def replace_reply_to(header: bytes, given: str, replacement: str) -> bytes:
    """Return ``header`` with ``replacement`` as its reply-to where that is ``given``; else ``header`` itself.

    Raises:
        RemoteProtocolError: 502 for malformed properties, as far as they were read.
        LocalProtocolError: ``replacement`` has more than 255 octets.
    """
    reader = PropertyReader(header)
    if not reader.flags & FLAG_REPLY_TO:
        return header
    reader.to_headers()
    reader.skip_table()
    reader.to_reply_to()
    start = reader.position
    if reader.text(FLAG_REPLY_TO, "reply-to") != given:
        return header
    return header[:start] + encode_short_string(replacement) + header[reader.position :]


def _kept_fields(
    header: bytes, start: int, end: int, headers: dict[str, PropertyValue], without: tuple[str, ...]
) -> tuple[bytes, bool]:
    """Return the octets of the fields that stay, and whether any does not. Names need not be UTF-8: they are octets."""
    leaving = {name.encode("utf-8") for name in (*headers, *without)}
    parts: list[bytes] = []
    position = start
    dropped = False
    while position < end:
        field = position
        stop = field + 1 + header[field]
        position = skip_value(header, stop, end)
        if header[field + 1 : stop] in leaving:
            dropped = True
        else:
            parts.append(header[field:position])
    return b"".join(parts), dropped


def decode_deaths(value: PropertyValue) -> list[DeathRecord]:
    """Return the records of an ``x-death`` header, latest first, as far as they make sense: clients write it too."""
    if not isinstance(value, list):
        return []
    return [_decode_death(item if isinstance(item, dict) else {}) for item in value]


def _decode_death(fields: dict[str, PropertyValue]) -> DeathRecord:
    keys = fields.get("routing-keys")
    at = fields.get("time")
    count = fields.get("count")
    return DeathRecord(
        queue=_text(fields.get("queue")),
        reason=_text(fields.get("reason")),
        exchange=_text(fields.get("exchange")),
        routing_keys=tuple(key for key in keys if isinstance(key, str)) if isinstance(keys, list) else (),
        at=at * _MILLISECONDS if isinstance(at, int) and 0 <= at < 2**62 else 0,
        count=count if isinstance(count, int) and 0 < count < 2**62 else 1,
        original_expiration=_text(fields.get("original-expiration")),
    )


def _text(value: PropertyValue) -> str:
    return value if isinstance(value, str) else ""


def encode_deaths(
    deaths: list[DeathRecord], *, first_known: bool, original_expiration: str = ""
) -> dict[str, PropertyValue]:
    """Return RabbitMQ's headers for a trail that is not empty: ``x-death``, ``x-first-death-*``, ``x-last-death-*``.

    ``first_known``: the message has its ``x-first-death-*`` already, which are never written again.
    ``original_expiration``: the expiration property the message dies with, kept by the first record of this death.
    """
    latest = deaths[0]
    fields = [_encode_death(record) for record in deaths]
    if original_expiration and latest.count == 1:
        fields[0]["original-expiration"] = original_expiration
    headers: dict[str, PropertyValue] = {DEATHS: [*fields]}
    for prefix in (LAST_DEATH,) if first_known else (FIRST_DEATH, LAST_DEATH):
        headers[f"{prefix}exchange"] = latest.exchange
        headers[f"{prefix}queue"] = latest.queue
        headers[f"{prefix}reason"] = latest.reason
    return headers


def _encode_death(record: DeathRecord) -> dict[str, PropertyValue]:
    keys: list[PropertyValue] = list(record.routing_keys)
    fields: dict[str, PropertyValue] = {
        "count": Long(record.count),
        "reason": record.reason,
        "queue": record.queue,
        "time": Timestamp(record.at // _MILLISECONDS),
        "exchange": record.exchange,
        "routing-keys": keys,
    }
    if record.original_expiration:
        fields["original-expiration"] = record.original_expiration
    return fields
