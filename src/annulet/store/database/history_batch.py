"""The entries for the history between two writes: a buffer that is passed to the disk thread as a whole."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from annulet.core.model.audit_trail import AUDIT_ENTRIES_MAX
from annulet.core.model.loss_ledger import LEDGER_RECORDS_MAX
from annulet.store.database.count_notes import CountNotes

if TYPE_CHECKING:
    from annulet.core.model.audit_trail import AuditEntry
    from annulet.core.model.loss_ledger import LossRecord

EntryKey: TypeAlias = "tuple[int, int]"
"""Queue id and sequence."""

AddressKey: TypeAlias = "tuple[str, str]"
"""Virtual host and address."""


class EntryState(NamedTuple):
    """State of an entry beside its message."""

    delivery_count: int
    deliver_at: int  # not before this, milliseconds since 1970; 0 = at once; -1 = the time of its message


class LossNotes:
    """Losses of one virtual host: the latest, and how many there were."""

    __slots__ = ("count", "records")

    def __init__(self) -> None:
        self.records: deque[LossRecord] = deque(maxlen=LEDGER_RECORDS_MAX)
        self.count = 0


class DuplicateNotes:
    """Duplicate ids of one address: the latest, and how many there were."""

    __slots__ = ("afresh", "cache_size", "count", "ids")

    def __init__(self, cache_size: int, *, afresh: bool = False) -> None:
        self.cache_size = cache_size
        self.ids: deque[str] = deque(maxlen=cache_size)
        self.count = 0
        self.afresh = afresh  # the earlier state of the address is to be dropped

    def add(self, duplicate_id: str, cache_size: int) -> None:
        """Note an id; the address remembers the last ``cache_size`` of them."""
        if cache_size != self.cache_size:
            self.cache_size = cache_size
            self.ids = deque(self.ids, maxlen=cache_size)
        self.ids.append(duplicate_id)
        self.count += 1


class HistoryBatch:
    """Changes in the order they were noted, the last word on each thing winning. Bounded as the memory they mirror."""

    __slots__ = (
        "audit",
        "counters",
        "counts",
        "duplicates",
        "entries",
        "gone_queues",
        "losses",
        "next_record",
        "paused",
    )

    def __init__(self) -> None:
        self.losses: dict[str, LossNotes] = {}  # by virtual host
        self.duplicates: dict[AddressKey, DuplicateNotes] = {}
        self.entries: dict[EntryKey, EntryState | None] = {}  # None: settled
        self.counts = CountNotes()  # of entries of which nothing else is remembered, as nearly always
        self.gone_queues: set[int] = set()
        self.paused: dict[int, bool] = {}
        self.audit: deque[AuditEntry] = deque(maxlen=AUDIT_ENTRIES_MAX)
        self.counters: dict[int, dict[str, int]] = {}
        self.next_record = 0  # records of the log below it are covered by these notes and earlier ones

    def __bool__(self) -> bool:
        """Whether there is anything to write."""
        return bool(
            self.losses
            or self.duplicates
            or self.entries
            or self.counts
            or self.gone_queues
            or self.paused
            or self.audit
            or self.counters
        )

    def note_loss(self, virtual_host: str, record: LossRecord) -> None:
        """Note a loss that has to survive a restart."""
        notes = self.losses.get(virtual_host)
        if notes is None:
            notes = self.losses[virtual_host] = LossNotes()
        notes.records.append(record)
        notes.count += 1

    def note_skipped(self, virtual_host: str, count: int) -> None:
        """Note losses without a record that have to be counted after a restart."""
        notes = self.losses.get(virtual_host)
        if notes is None:
            notes = self.losses[virtual_host] = LossNotes()
        notes.count += count

    def note_duplicate(self, virtual_host: str, address: str, duplicate_id: str, cache_size: int) -> None:
        """Note an id of an address that remembers the last ``cache_size`` ones."""
        notes = self.duplicates.get((virtual_host, address))
        if notes is None:
            notes = self.duplicates[virtual_host, address] = DuplicateNotes(cache_size)
        notes.add(duplicate_id, cache_size)

    def forget_duplicates(self, virtual_host: str, address: str) -> None:
        """Note that an address remembers nothing any more."""
        self.duplicates[virtual_host, address] = DuplicateNotes(0, afresh=True)

    def forget_queue(self, queue_id: int) -> None:
        """Note that a queue was deleted, with all its entries."""
        self.gone_queues.add(queue_id)
        self.counts.blocks.pop(queue_id, None)
        self.paused.pop(queue_id, None)
        self.counters.pop(queue_id, None)

    def absorb(self, later: HistoryBatch) -> None:
        """Append later notes."""
        for virtual_host, losses in later.losses.items():
            mine = self.losses.setdefault(virtual_host, LossNotes())
            mine.records.extend(losses.records)
            mine.count += losses.count
        for address, duplicates in later.duplicates.items():
            noted = self.duplicates.get(address)
            if noted is None or duplicates.afresh:
                self.duplicates[address] = duplicates
                continue
            skipped = duplicates.count - len(duplicates.ids)
            for duplicate_id in duplicates.ids:
                noted.add(duplicate_id, duplicates.cache_size)
            noted.count += skipped
        self.entries.update(later.entries)
        self.counts.absorb(later.counts)
        self.paused.update(later.paused)
        self.counters.update(later.counters)
        self.audit.extend(later.audit)
        for queue_id in later.gone_queues:
            self.forget_queue(queue_id)
        self.next_record = max(self.next_record, later.next_record)
