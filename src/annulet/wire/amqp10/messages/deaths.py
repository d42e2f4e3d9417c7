"""The trail of a dead letter as AMQP 1.0 carries it: the annotation ``x-opt-deaths``, RabbitMQ 4's form of ``x-death``.

A list of maps, the latest first: ``queue``, ``reason``, ``count`` (long), ``first-time`` (timestamp), ``exchange``,
``routing-keys`` (list of strings) and, if it died with a time to live, ``original-expiration``.
"""

from __future__ import annotations

from typing import Any, Final

from annulet.core.base.death_trail import DeathRecord
from annulet.core.base.typed_values import TimestampMilliseconds

_NUMBER_MAX: Final = 2**62


def encode_deaths(deaths: list[DeathRecord]) -> list[dict[str, Any]]:
    """Return the value of the annotation."""
    return [_encode_death(record) for record in deaths]


def _encode_death(record: DeathRecord) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "queue": record.queue,
        "reason": record.reason,
        "count": record.count,
        "first-time": TimestampMilliseconds(record.at),
        "exchange": record.exchange,
        "routing-keys": list(record.routing_keys),
    }
    if record.original_expiration:
        fields["original-expiration"] = record.original_expiration
    return fields


def decode_deaths(value: Any) -> list[DeathRecord]:
    """Return the records of the annotation, as far as they make sense: clients write it, too."""
    if not isinstance(value, list):
        return []
    return [_decode_death(item if isinstance(item, dict) else {}) for item in value]


def _decode_death(fields: dict[str, Any]) -> DeathRecord:
    keys = fields.get("routing-keys")
    return DeathRecord(
        queue=_text(fields.get("queue")),
        reason=_text(fields.get("reason")),
        exchange=_text(fields.get("exchange")),
        routing_keys=tuple([str(key) for key in keys if isinstance(key, str)]) if isinstance(keys, list) else (),
        at=_number(fields.get("first-time"), 0),
        count=_number(fields.get("count"), 1),
        original_expiration=_text(fields.get("original-expiration")),
    )


def _text(value: Any) -> str:
    return str(value) if isinstance(value, str) else ""


def _number(value: Any, least: int) -> int:
    fits = isinstance(value, int) and not isinstance(value, bool) and least <= value < _NUMBER_MAX
    return int(value) if fits else least
