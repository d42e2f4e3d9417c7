"""The loss ledger: dropped messages with publisher, rule and replacement. Bounded, in memory."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.reply_names import public_name
from annulet.core.model.forwarding_targets import targets_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from annulet.core.base.settings import QueueSettings
    from annulet.core.model.entry import QueueEntry

LEDGER_RECORDS_MAX: Final = 10_000
"""Records kept per virtual host: about 3 MB. The counters stay exact when older records have fallen out."""


class LossRecord:
    """One lost message. A plain slotted class: a busy ring makes one per message.

    ``rule`` and ``forwarded_to`` are formatted on demand, from the ``settings`` of the queue at the time of the drop; a
    record restored from its texts has none.
    """

    __slots__ = (
        "_forwarded_to",
        "_rule",
        "accepted_at",
        "at",
        "durable",
        "key",
        "priority",
        "publisher",
        "queue",
        "reason",
        "replaced_by",
        "sequence",
        "settings",
        "size",
    )

    def __init__(  # noqa: PLR0913 - one keyword per field
        self,
        *,
        queue: str,
        sequence: int,
        reason: RemovalReason,
        key: str,
        size: int,
        priority: int,
        accepted_at: int,
        at: int,
        publisher: str,
        replaced_by: int,
        durable: bool = False,
        settings: QueueSettings | None = None,
        rule: str = "",
        forwarded_to: str = "",
    ) -> None:
        self.queue = queue
        self.sequence = sequence
        self.reason = reason
        self.key = key  # of a keep-per-key queue, as text; empty when the message had none
        self.size = size  # body bytes
        self.priority = priority
        self.accepted_at = accepted_at  # milliseconds since 1970
        self.at = at  # when it was lost, milliseconds since 1970
        self.publisher = publisher
        self.replaced_by = replaced_by  # sequence of the replacing message; 0 = none
        self.durable = durable  # the loss outlives the broker, as the message would have
        self.settings = settings
        self._rule = rule
        self._forwarded_to = forwarded_to

    @property
    def age(self) -> int:
        """Milliseconds between acceptance and loss."""
        return self.at - self.accepted_at

    @property
    def rule(self) -> str:
        """The rule that dropped it, in the canonical names of the queue's settings: ``ring-size=100``."""
        return self._rule or rule_text(self.reason, self.settings)

    @property
    def forwarded_to(self) -> str:
        """The target of the copy, as ``expiry-address 'late'``; empty if no queue has the message any more."""
        return self._forwarded_to or forwarding_text(self.reason, self.settings)


def loss_of(
    queue: str,
    entry: QueueEntry,
    reason: RemovalReason,
    now: int,
    *,
    durable: bool,
    replaced_by: int = 0,
    settings: QueueSettings | None = None,
    rule: str = "",
) -> LossRecord:
    """Return a record of an entry that a queue has lost, with the data of its message."""
    message = entry.message
    return LossRecord(
        queue=public_name(queue),
        sequence=entry.sequence,
        reason=reason,
        key=entry.key.text if entry.key is not None else "",
        size=message.size,
        priority=message.priority,
        accepted_at=message.accepted_at,
        at=now,
        publisher=message.origin.publisher,
        replaced_by=replaced_by,
        durable=durable,
        settings=settings,
        rule=rule,
    )


def rule_text(reason: RemovalReason, settings: QueueSettings | None) -> str:
    """Put the rule behind a removal into words; the reason's own name where the queue's settings say no more."""
    name: str = reason.value
    if settings is None:
        return name
    if reason is RemovalReason.REPLACED_RING:
        return f"ring-size={settings.ring_size}"
    if reason is RemovalReason.EXPIRED:
        return _join(
            ("message-ttl", settings.message_ttl), ("max-ttl", settings.max_ttl), last="the message's time to live"
        )
    if reason is RemovalReason.OVERFLOW:
        limits = (("max-length", settings.max_length), ("max-bytes", settings.max_bytes))
        return _join(*limits, last=f"overflow={settings.overflow}, evict={settings.evict}")
    if reason is RemovalReason.REJECTED:
        return _join(("max-delivery-attempts", settings.max_delivery_attempts), last="rejected by its consumer")
    return name


def forwarding_text(reason: RemovalReason, settings: QueueSettings | None) -> str:
    """Name the targets of messages removed for a reason under these settings; empty if there are none."""
    return "" if settings is None else ", ".join(str(target) for target in targets_for(settings, reason))


def _join(*limits: tuple[str, int], last: str) -> str:
    """Name the limits that are on, then ``last``."""
    return ", ".join([*[f"{name}={value}" for name, value in limits if value >= 0], last])


@mypyc_attr(allow_interpreted_subclasses=True)
class LossListener:
    """Listener of every loss of a virtual host, even if the ledger's bound is 0."""

    def lost(self, record: LossRecord) -> None:
        """A message was lost just now. Called in the middle of its queue's work: note it and act later."""

    def settled(self, record: LossRecord) -> None:
        """Note that a reported loss may become durable: its message is settled in the log, too."""

    def skipped(self, durable: int) -> None:
        """Losses were counted without a record, ``durable`` of them such as outlive the broker."""


class LossLedger:
    """The latest losses of a virtual host, oldest first; ``forgotten`` counts those removed because of the bound."""

    def __init__(self, records_max: int = LEDGER_RECORDS_MAX) -> None:
        self.records_max = records_max
        self._records: deque[LossRecord] = deque(maxlen=records_max)
        self.total = 0  # losses ever recorded
        self.listeners: list[LossListener] = []

    @property
    def forgotten(self) -> int:
        """Losses that are counted but whose record has fallen out of the bound."""
        return self.total - len(self._records)

    def add(self, record: LossRecord) -> None:
        """Record a loss and tell the listeners."""
        self.total += 1
        self._records.append(record)
        for listener in self.listeners:
            listener.lost(record)

    def skip(self, count: int, durable: int) -> None:
        """Count losses whose records would be evicted at once: all but the newest of an emptied queue.

        ``durable`` of them outlive the broker, as the messages would have.
        """
        if count:
            self.total += count
            for listener in self.listeners:
                listener.skipped(durable)

    def settled(self, record: LossRecord | None) -> None:
        """Make a loss durable that was added (``None``: counted) while the log still had its message.

        If the broker had died before, the message would have been restored, and not be lost.
        """
        for listener in self.listeners:
            if record is None:
                listener.skipped(1)
            else:
                record.durable = True
                listener.settled(record)

    def restore(self, records: Iterable[LossRecord], total: int) -> None:
        """Put the losses of earlier runs before those of this one; ``total`` counts them all, forgotten ones too.

        Listeners are not notified again.
        """
        merged = [*records, *self._records]
        self._records = deque(merged, maxlen=self._records.maxlen)
        self.total += total

    def query(
        self,
        *,
        queue: str | None = None,
        reason: RemovalReason | None = None,
        key: str | None = None,
        publisher: str | None = None,
        since: int = 0,
        until: int = -1,
    ) -> Iterator[LossRecord]:
        """Yield the records that match everything given, oldest first.

        ``since`` and ``until`` are milliseconds since 1970, both included; ``until`` -1 has no end. ``key`` and
        ``publisher`` are compared whole; a message without a key has the key "".
        """
        for record in self._records:
            if queue is not None and record.queue != queue:
                continue
            if reason is not None and record.reason is not reason:
                continue
            if key is not None and record.key != key:
                continue
            if publisher is not None and record.publisher != publisher:
                continue
            if record.at >= since and (until < 0 or record.at <= until):
                yield record

    def newest(self, most: int) -> list[LossRecord]:
        """Return the newest records, the newest first."""
        return list(islice(reversed(self._records), most))

    def __len__(self) -> int:
        return len(self._records)


def count_losses(records: Iterable[LossRecord]) -> dict[tuple[str, RemovalReason], int]:
    """Count records by queue and reason: a summary of a query."""
    counts: dict[tuple[str, RemovalReason], int] = {}
    for record in records:
        place = (record.queue, record.reason)
        counts[place] = counts.get(place, 0) + 1
    return counts
