"""The audit trail: actions of operators on messages and queues. Bounded, in memory; the broker keeps a copy on disk."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

AUDIT_ENTRIES_MAX: Final = 10_000
"""Entries kept per broker: about 3 MB, months of an operator's work."""


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One management operation that was carried out."""

    at: int  # milliseconds since 1970
    virtual_host: str
    user: str
    operation: str  # such as "purge", "move", "pause"
    target: str  # name of the queue or address it was done to
    arguments: str = ""  # ids, selector, destination: as the user gave them
    count: int = 0  # messages it touched
    duration: int = 0  # milliseconds from its start to its end
    outcome: str = ""  # how it ended, and how many it passed over for which reason


class AuditTrail:
    """The latest operations, oldest first; ``forgotten`` counts those removed because of the bound."""

    def __init__(self, entries_max: int = AUDIT_ENTRIES_MAX) -> None:
        self._entries: deque[AuditEntry] = deque(maxlen=entries_max)
        self.total = 0

    @property
    def forgotten(self) -> int:
        """Operations that are counted but whose entry has fallen out of the bound."""
        return self.total - len(self._entries)

    def add(self, entry: AuditEntry) -> None:
        """Record an operation."""
        self.total += 1
        self._entries.append(entry)

    def restore(self, entries: Iterable[AuditEntry], total: int) -> None:
        """Put the operations of earlier runs before those of this one; ``total`` counts them all."""
        merged = [*entries, *self._entries]
        self._entries = deque(merged, maxlen=self._entries.maxlen)
        self.total += total

    def query(
        self,
        *,
        virtual_host: str | None = None,
        user: str | None = None,
        operation: str | None = None,
        target: str | None = None,
        since: int = 0,
        until: int = -1,
    ) -> Iterator[AuditEntry]:
        """Yield the entries that match everything given, oldest first.

        ``since`` and ``until`` are milliseconds since 1970, both included; ``until`` -1 has no end.
        """
        for entry in self._entries:
            if virtual_host is not None and entry.virtual_host != virtual_host:
                continue
            if user is not None and entry.user != user:
                continue
            if operation is not None and entry.operation != operation:
                continue
            if target is not None and entry.target != target:
                continue
            if entry.at >= since and (until < 0 or entry.at <= until):
                yield entry

    def __len__(self) -> int:
        return len(self._entries)
