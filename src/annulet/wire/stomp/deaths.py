"""Where a message died, as headers: RabbitMQ's records as JSON in ``x-death``, and its first and last in plain text."""

from __future__ import annotations

import json
from typing import Any, Final

from annulet.core.base.death_trail import RECORDS_MAX, DeathRecord
from annulet.wire.stomp.names import DEATHS, FIRST_DEATH, LAST_DEATH
from annulet.wire.stomp.texts import json_of

_TIME_MAX: Final = 253_402_300_799_999
"""Milliseconds since 1970, the end of the year 9999: the largest time in a header of AMQP 0-9-1."""

_COUNT_MAX: Final = 2**62


def decode_deaths(text: str | None) -> list[DeathRecord]:
    """Return the records of an ``x-death`` header, latest first, as far as they make sense: clients write it too."""
    if not text:
        return []
    try:
        items: Any = json.loads(text)
    except (ValueError, RecursionError):  # written by a client
        return []
    if not isinstance(items, list):
        return []
    return [_decode_death(item) for item in items[:RECORDS_MAX] if isinstance(item, dict)]


def _decode_death(fields: dict[str, Any]) -> DeathRecord:
    keys = fields.get("routing-keys")
    at = fields.get("time")
    count = fields.get("count")
    return DeathRecord(
        queue=_text(fields.get("queue")),
        reason=_text(fields.get("reason")),
        exchange=_text(fields.get("exchange")),
        routing_keys=tuple(_text(key) for key in keys if isinstance(key, str)) if isinstance(keys, list) else (),
        at=at if isinstance(at, int) and 0 <= at <= _TIME_MAX else 0,
        count=count if isinstance(count, int) and 0 < count < _COUNT_MAX else 1,
        original_expiration=_text(fields.get("original-expiration")),
    )


def _text(value: Any) -> str:
    """Return a text, or nothing for other values. JSON can contain half a character, which becomes U+FFFD."""
    if not isinstance(value, str):
        return ""
    return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def encode_deaths(deaths: list[DeathRecord], *, first_known: bool, original_expiration: str = "") -> dict[str, str]:
    """Return the headers for a trail that is not empty. ``time`` is in milliseconds since 1970.

    ``first_known``: the message has its ``x-first-death-*`` already, which are never written again.
    ``original_expiration``: the lifetime the message dies with, kept by the first record of this death.
    """
    latest = deaths[0]
    fields = [_encode_death(record) for record in deaths]
    if original_expiration and latest.count == 1:
        fields[0]["original-expiration"] = original_expiration
    headers = {DEATHS: json_of(fields)}
    for prefix in (LAST_DEATH,) if first_known else (FIRST_DEATH, LAST_DEATH):
        headers[f"{prefix}exchange"] = latest.exchange
        headers[f"{prefix}queue"] = latest.queue
        headers[f"{prefix}reason"] = latest.reason
    return headers


def _encode_death(record: DeathRecord) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "count": record.count,
        "reason": record.reason,
        "queue": record.queue,
        "time": record.at,
        "exchange": record.exchange,
        "routing-keys": list(record.routing_keys),
    }
    if record.original_expiration:
        fields["original-expiration"] = record.original_expiration
    return fields
