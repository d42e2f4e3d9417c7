"""Where a message died before: the trail a forwarded message carries, and the rule that ends automatic cycles.

RabbitMQ's model (``x-death``): one record for each queue and reason, the latest first, with a count. Each protocol's
view writes the trail in its own form; the rules are here, once.

Clients that forward a dead letter send its trail too, for example Celery's retries. A publisher's trail does not count
as deaths: a message that arrives with one is marked (:data:`GIVEN`), the trail is shown to consumers unchanged, and its
first death here begins a new one (RabbitMQ since 4.0).
"""

from __future__ import annotations

from typing import Final

REJECTED: Final = "rejected"
DELIVERY_LIMIT: Final = "delivery_limit"
EXPIRED: Final = "expired"
MAXIMUM_LENGTH: Final = "maxlen"
REPLACED_RING: Final = "replaced-ring"
REPLACED_KEY: Final = "replaced-key"

GIVEN: Final = "x-death-given"
"""Header that marks a trail as its publisher's.

Set on every message that arrives with one, so it cannot be omitted; removed when the broker overwrites the trail.
"""

AUTOMATIC_REASONS: Final = frozenset({DELIVERY_LIMIT, EXPIRED, MAXIMUM_LENGTH, REPLACED_RING, REPLACED_KEY})
"""Deaths no consumer decided on. RabbitMQ's names where it has one; ring and key are ours."""

RECORDS_MAX: Final = 64
"""Records of one message, about 10 KB of headers: the oldest are dropped.

RabbitMQ has no bound except the frame size.
"""


class DeathRecord:
    """One queue in which a message died for one reason, ``count`` times; time and route are those of the first time."""

    __slots__ = ("at", "count", "exchange", "original_expiration", "queue", "reason", "routing_keys")

    def __init__(
        self,
        *,
        queue: str,
        reason: str,
        exchange: str = "",
        routing_keys: tuple[str, ...] = (),
        at: int = 0,
        count: int = 1,
        original_expiration: str = "",
    ) -> None:
        self.queue = queue
        self.reason = reason  # one of the constants above; anything else was put there by a client
        self.exchange = exchange  # the one the message was published to
        self.routing_keys = routing_keys
        self.at = at  # milliseconds since 1970
        self.count = count
        self.original_expiration = original_expiration  # the sender's time to live as it wrote it; empty = none


def with_death(deaths: list[DeathRecord], death: DeathRecord) -> list[DeathRecord]:
    """Return the trail after one more death, latest first: a known queue and reason counts up and moves to the front.

    ``deaths`` is left as it is.
    """
    others: list[DeathRecord] = []
    latest = death
    for record in deaths:
        if record.queue == death.queue and record.reason == death.reason:
            latest = DeathRecord(
                queue=record.queue,
                reason=record.reason,
                exchange=record.exchange,
                routing_keys=record.routing_keys,
                at=record.at,
                count=record.count + 1,
                original_expiration=record.original_expiration,
            )
        else:
            others.append(record)
    return [latest, *others[: RECORDS_MAX - 1]]


def is_cycle(deaths: list[DeathRecord], queue: str) -> bool:
    """Return whether a message with this trail (latest first) would return to ``queue`` in an automatic cycle.

    RabbitMQ's rule: it died there before, and no consumer rejected it since or there. A full trail without any
    rejection counts as a cycle as well: the target queue may have been dropped from it.
    """
    for record in deaths:
        if record.reason not in AUTOMATIC_REASONS:
            return False
        if record.queue == queue:
            return True
    return len(deaths) >= RECORDS_MAX
