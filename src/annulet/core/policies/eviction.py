"""Choice of victims of a full queue: an order of pending entries by importance, the least important first.

On a FIFO queue the least important is the oldest, which its order has already; every other rule keeps an index.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush, heapreplace
from typing import TYPE_CHECKING, Final

from annulet.core.base.settings import (
    LARGEST,
    LEAST_IMPORTANT,
    LEAST_RECENT_KEY,
    NEWEST,
    OLDEST,
    OVERFLOW_RING,
    SOONEST_TO_EXPIRE,
)
from annulet.core.model.entry import PENDING

if TYPE_CHECKING:
    from annulet.core.base.settings import QueueSettings
    from annulet.core.model.entry import KeyRecord, QueueEntry, Rank

LATEST_EXPIRY: Final = 1 << 62
"""Expiry of messages that never expire: later than any other."""

COMPACTION_MINIMUM: Final = 64
"""Outdated items before the index is rebuilt."""


def eviction_rank(entry: QueueEntry, rule: str) -> Rank:
    """Return the sort key of the eviction rule; the smallest is evicted first, equal ones by age."""
    if rule == NEWEST:
        return (-entry.place,)
    if rule == LARGEST:
        return (-entry.message.size, entry.place)
    if rule == SOONEST_TO_EXPIRE:
        return (entry.queue.expires_at(entry) or LATEST_EXPIRY, entry.place)
    if rule == LEAST_RECENT_KEY:
        return (_latest_of(entry.key), entry.place)
    if rule == OLDEST:
        return (entry.place,)
    return (entry.level, entry.place)


class EvictionIndex:
    """Pending entries by an eviction rule. Items of entries that are no longer pending are passed over."""

    __slots__ = ("_heap", "rule")

    def __init__(self, rule: str) -> None:
        self.rule = rule
        self._heap: list[tuple[Rank, int, QueueEntry]] = []

    @property
    def size(self) -> int:
        """How many items it has, outdated ones included."""
        return len(self._heap)

    def add(self, entry: QueueEntry, pending: int) -> None:
        """Note that an entry is pending; ``pending`` counts all of them, this one included."""
        heappush(self._heap, (eviction_rank(entry, self.rule), entry.sequence, entry))
        self.compact(pending)

    def compact(self, pending: int) -> None:
        """Drop entries that are not pending any more when they outnumber the ``pending`` ones."""
        if len(self._heap) > 2 * pending + COMPACTION_MINIMUM:
            live = {item[2]: item for item in self._heap if item[2].state == PENDING}  # each once, even if returned
            self._heap = list(live.values())
            heapify(self._heap)

    def release(self, most: int) -> bool:
        """Give back the memory of this many of an index that is not used any more. Returns whether there is more."""
        del self._heap[-most:]
        return bool(self._heap)

    def first(self) -> QueueEntry | None:
        """Return the next victim, ``None`` when nothing is pending."""
        heap = self._heap
        while heap:
            entry = heap[0][2]
            if entry.state != PENDING:
                heappop(heap)
                continue
            return entry
        return None


class KeyEvictionIndex(EvictionIndex):
    """The index of ``least-recent-key``: keys by their latest message, and the pending entries of each by place.

    A new message makes all entries of its key less likely to go. Here that moves one key, however many entries it has.
    """

    __slots__ = ("_entries", "_held", "_keys")

    def __init__(self) -> None:
        super().__init__(LEAST_RECENT_KEY)
        self._entries: dict[KeyRecord | None, list[tuple[int, int, QueueEntry]]] = {}  # None: those without a key
        self._keys: list[tuple[int, KeyRecord | None]] = []  # each key of ``_entries`` once, by the latest known then
        self._held = 0  # items in all lists of ``_entries``

    def add(self, entry: QueueEntry, pending: int) -> None:
        """Note that an entry is pending; ``pending`` counts all of them, this one included."""
        self._note(entry)
        self.compact(pending)

    def compact(self, pending: int) -> None:
        """Drop entries that are not pending any more when they outnumber the ``pending`` ones."""
        if self._held <= 2 * pending + COMPACTION_MINIMUM:
            return
        live = {item[2]: None for items in self._entries.values() for item in items if item[2].state == PENDING}
        self._entries = {}
        self._keys = []
        self._held = 0
        for entry in live:
            self._note(entry)

    def release(self, most: int) -> bool:
        """Give back the memory of a part, whole keys."""
        del self._keys[-most:]
        while most > 0 and self._entries:
            most -= len(self._entries.popitem()[1])
        return bool(self._keys or self._entries)

    def first(self) -> QueueEntry | None:
        """Return the next victim, ``None`` when nothing is pending."""
        keys = self._keys
        while keys:
            latest, key = keys[0]
            items = self._entries[key]
            while items and items[0][2].state != PENDING:
                heappop(items)
                self._held -= 1
            if not items:
                heappop(keys)
                del self._entries[key]
                continue
            current = _latest_of(key)
            if current == latest:
                return items[0][2]
            heapreplace(keys, (current, key))  # a newer message of its key arrived
        return None

    def _note(self, entry: QueueEntry) -> None:
        items = self._entries.get(entry.key)
        if items is None:
            items = []
            self._entries[entry.key] = items
            heappush(self._keys, (_latest_of(entry.key), entry.key))  # no two keys have one latest message
        heappush(items, (entry.place, entry.sequence, entry))
        self._held += 1


def _latest_of(key: KeyRecord | None) -> int:
    # a message without key is no last value: it is evicted before all keys
    return 0 if key is None else key.recency


def eviction_index_for(settings: QueueSettings) -> EvictionIndex | None:
    """Return the index a queue needs; ``None`` when nothing evicts, or its order's first entry is the victim."""
    limited = settings.overflow == OVERFLOW_RING and (settings.max_length >= 0 or settings.max_bytes >= 0)
    if settings.ring_size < 0 and not limited:
        return None
    fifo = settings.priorities <= 0 and settings.max_priority < 0 and not settings.sort_key
    if settings.evict in (OLDEST, LEAST_IMPORTANT):
        return None if fifo else EvictionIndex(settings.evict)
    return KeyEvictionIndex() if settings.evict == LEAST_RECENT_KEY else EvictionIndex(settings.evict)
