"""The loss ledger: what was dropped, whose it was, under which rule, and what replaced it. Bounded, in memory."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from annulet.core.reasons import RemovalReason

LEDGER_RECORDS_MAX: Final = 10_000
"""Records kept per virtual host: about 3 MB. The counters stay exact when older records have fallen out."""


class LossRecord:
    """One lost message. A plain slotted class: a busy ring makes one per message."""

    __slots__ = (
        "accepted_at",
        "at",
        "key",
        "priority",
        "publisher",
        "queue",
        "reason",
        "replaced_by",
        "sequence",
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
    ) -> None:
        self.queue = queue
        self.sequence = sequence
        self.reason = reason  # also names the rule that dropped it
        self.key = key  # of a keep-per-key queue, as text; empty when the message had none
        self.size = size  # body bytes
        self.priority = priority
        self.accepted_at = accepted_at  # milliseconds since 1970
        self.at = at  # when it was lost, milliseconds since 1970
        self.publisher = publisher
        self.replaced_by = replaced_by  # sequence of the message that took its place; 0 = none

    @property
    def age(self) -> int:
        """Milliseconds between acceptance and loss."""
        return self.at - self.accepted_at


class LossLedger:
    """The latest losses of a virtual host, oldest first; ``forgotten`` counts what the bound pushed out."""

    def __init__(self, records_max: int = LEDGER_RECORDS_MAX) -> None:
        self._records: deque[LossRecord] = deque(maxlen=records_max)
        self.total = 0  # losses ever recorded

    @property
    def forgotten(self) -> int:
        """Losses that are counted but whose record has fallen out of the bound."""
        return self.total - len(self._records)

    def add(self, record: LossRecord) -> None:
        """Record a loss."""
        self.total += 1
        self._records.append(record)

    def query(
        self, *, queue: str | None = None, reason: RemovalReason | None = None, since: int = 0
    ) -> Iterator[LossRecord]:
        """Yield the records of a queue and reason not older than ``since`` (milliseconds since 1970), oldest first."""
        for record in self._records:
            if queue is not None and record.queue != queue:
                continue
            if reason is not None and record.reason is not reason:
                continue
            if record.at >= since:
                yield record

    def __len__(self) -> int:
        return len(self._records)
