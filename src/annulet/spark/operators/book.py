"""The contents of one queue without consumers under some rules, arrival by arrival, as in the broker's core.

The order of steps is :mod:`annulet.core.queue.arrival`'s. A book reports the fate of each message and keeps the state
that later messages may depend on; messages that can no longer change are dropped.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush, heapreplace
from typing import Final

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.settings import LARGEST, LEAST_IMPORTANT, LEAST_RECENT_KEY, NEWEST, SOONEST_TO_EXPIRE
from annulet.core.policies.eviction import COMPACTION_MINIMUM, LATEST_EXPIRY
from annulet.spark.operators.rules import OperatorError, Rules

ENTRY: Final = 0
GHOST: Final = 1
"""The number of a removed message that is still one of the last of its key."""
ID: Final = 2
"""An id that duplicates are compared with; its ``sequence`` counts acceptances."""

EXPIRED: Final = RemovalReason.EXPIRED.value
REPLACED_RING: Final = RemovalReason.REPLACED_RING.value
REPLACED_KEY: Final = RemovalReason.REPLACED_KEY.value
OVERFLOW: Final = RemovalReason.OVERFLOW.value
DUPLICATE: Final = "duplicate"
REFUSED: Final = "refused"
"""The last two were never in the queue: the broker notifies the publisher instead of removing."""

FRESH: Final = -1
"""Segment of items that are in no segment yet."""


class Item:
    """An item kept by a shard: a remaining message, a ghost or an id. ``live`` until it may be dropped."""

    __slots__ = (
        "expires",
        "extra",
        "index",
        "key",
        "kind",
        "level",
        "live",
        "queue",
        "row",
        "segment",
        "sequence",
        "size",
    )

    def __init__(  # noqa: PLR0913, PLR0917 - one argument per column of a segment
        self,
        kind: int,
        queue: str | None,
        sequence: int,
        key: str | None = None,
        level: int = 0,
        size: int = 0,
        expires: int = 0,
        extra: tuple[object, ...] = (),
        row: int = -1,
    ) -> None:
        self.kind = kind
        self.queue = queue
        self.sequence = sequence
        self.key = key
        self.level = level
        self.size = size
        self.expires = expires  # milliseconds since 1970; 0 = never
        self.extra = extra  # values of the columns that a removal shows
        self.row = row  # in its batch
        self.live = True
        self.segment = FRESH
        self.index = 0


class Changes:
    """The changes of a batch to the queues of one shard."""

    __slots__ = ("dropped", "fresh", "left", "removed")

    def __init__(self) -> None:
        self.fresh: list[Item] = []  # to be remembered, if they still live at the end
        self.left: list[Item] = []  # messages accepted, remembered or not
        self.removed: list[tuple[Item, str, int]] = []  # with the reason, and the sequence of the newcomer or 0
        self.dropped: list[Item] = []  # remembered before, to be forgotten

    def remember(self, item: Item) -> None:
        """Note something new."""
        self.fresh.append(item)

    def forget(self, item: Item) -> None:
        """Note the end of something."""
        item.live = False
        if item.segment != FRESH:
            self.dropped.append(item)

    def remove(self, item: Item, reason: str, newcomer: int) -> None:
        """Note that a message left its queue or never entered it."""
        self.forget(item)
        self.removed.append((item, reason, newcomer))


class KeyRecord:
    """The last numbers of one key, ascending, as long as one of them lives (``core.policies.last_per_key``)."""

    __slots__ = ("latest", "live", "recent")

    def __init__(self) -> None:
        self.live = 0
        self.latest = 0
        self.recent: dict[int, Item] = {}


class Book:
    """One queue, or of a queue split by key the part of one shard."""

    __slots__ = ("_bytes", "_expiries", "_ids", "_keys", "_live", "_ranked", "_rules", "_victims", "accepted")

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._live: dict[int, Item] = {}
        self._bytes = 0
        self._keys: dict[str, KeyRecord] = {}
        self._ids: dict[str, Item] = {}
        self._expiries: list[tuple[int, int, Item]] = []
        self._victims: list[tuple[int, int, Item]] = []
        self._ranked: set[str] = set()  # for least-recent-key: the keys that have a victim in the heap
        self.accepted = 0  # ids

    def __len__(self) -> int:
        return len(self._live)

    @property
    def empty(self) -> bool:
        """Whether nothing is remembered. Ghosts and expiries are of keys and messages that are left."""
        return not self._live and not self._ids

    @property
    def next_expiry(self) -> int:
        """When the next message expires, in milliseconds since 1970; 0 for never."""
        heap = self._expiries
        while heap and not heap[0][2].live:
            heappop(heap)
        return heap[0][0] if heap else 0

    def restore(self, item: Item) -> None:
        """Restore the kept items, given in ascending order of ``sequence``."""
        if item.kind == ID:
            assert item.key is not None
            self._ids[item.key] = item
            self.accepted = item.sequence
            return
        if self._rules.key and item.key is not None:
            record = self._keys.setdefault(item.key, KeyRecord())
            record.recent[item.sequence] = item
            record.latest = item.sequence
            record.live += item.kind == ENTRY
        if item.kind == ENTRY:
            self._insert(item)

    def arrive(self, item: Item, identifier: str | None, now: int, changes: Changes) -> None:
        """Take in a message at ``now``, milliseconds since 1970. Raises :class:`OperatorError` for a used sequence."""
        rules = self._rules
        if self._expiries:
            self.expire(now, changes)
        if identifier is not None and identifier in self._ids:
            changes.remove(item, DUPLICATE, 0)
            return
        if rules.refuses and self._exceeded(1, item.size):
            changes.remove(item, REFUSED, 0)
            return
        if identifier is not None:
            self._remember_id(identifier, item.queue, changes)
        if not self._concerns(item):
            changes.left.append(item)
            return
        if item.sequence in self._live:
            raise _is_there_twice(item)
        if rules.evicts and 0 <= rules.max_bytes < item.size:
            changes.remove(item, OVERFLOW, 0)
            return
        before = len(self._live)
        if rules.key and item.key is not None and not self._take_over(item, item.key, changes):
            return
        if rules.expires and 0 < item.expires <= now:
            self._end(item, EXPIRED, 0, changes)
            return
        self._insert(item)
        changes.left.append(item)
        changes.remember(item)
        if rules.evicts:
            self._enforce(item.sequence, before, changes)

    def expire(self, now: int, changes: Changes) -> None:
        """Remove what expires at ``now`` or before."""
        heap = self._expiries
        while heap and heap[0][0] <= now:
            item = heappop(heap)[2]
            if item.live:
                self._end(item, EXPIRED, 0, changes)

    # ------------------------------------------------------------------ the steps of an arrival

    def _concerns(self, item: Item) -> bool:
        """Return whether anything can ever happen to a message."""
        rules = self._rules
        return (
            rules.evicts
            or rules.limited
            or (rules.expires and item.expires > 0)
            or (bool(rules.key) and item.key is not None)
        )

    def _remember_id(self, identifier: str, queue: str | None, changes: Changes) -> None:
        self.accepted += 1
        item = Item(ID, queue, self.accepted, identifier)
        self._ids[identifier] = item
        changes.remember(item)
        if 0 <= self._rules.window < len(self._ids):
            oldest = next(iter(self._ids))
            changes.forget(self._ids.pop(oldest))

    def _take_over(self, item: Item, key: str, changes: Changes) -> bool:
        """Let a message replace the oldest of its key. Returns whether it is not itself the replaced one."""
        record = self._keys.get(key)
        if record is None:
            record = self._keys[key] = KeyRecord()
            record.latest = item.sequence
        recent = record.recent
        if item.sequence in recent:  # a ghost
            raise _is_there_twice(item)
        record.live += 1
        recent[item.sequence] = item
        if item.sequence < record.latest:  # it is late: the sequence decides, not the arrival
            record.recent = recent = dict(sorted(recent.items()))
        else:
            record.latest = item.sequence
        if len(recent) <= self._rules.keep:
            return True
        oldest = recent.pop(next(iter(recent)))
        if oldest.kind == GHOST:
            changes.forget(oldest)
            return True
        newcomer = record.latest if oldest is item else item.sequence
        self._end(oldest, REPLACED_KEY, newcomer, changes)
        return oldest is not item

    def _insert(self, item: Item) -> None:
        rules = self._rules
        self._live[item.sequence] = item
        self._bytes += item.size
        if rules.expires and item.expires > 0:
            heappush(self._expiries, (item.expires, item.sequence, item))
            self._expiries = self._compacted(self._expiries)
        if not rules.evicts:
            return
        if rules.evict == LEAST_RECENT_KEY and item.key is not None:
            if item.key in self._ranked:
                return  # one of each key is enough: its rank is looked up again before it goes
            self._ranked.add(item.key)
        heappush(self._victims, (self._importance(item), item.sequence, item))
        if rules.evict != LEAST_RECENT_KEY:
            self._victims = self._compacted(self._victims)
        elif len(self._victims) > 2 * len(self._live) + COMPACTION_MINIMUM:
            self._victims = []
            self._ranked.clear()
            for live in list(self._live.values()):
                if live.key is None or live.key not in self._ranked:
                    heappush(self._victims, (self._importance(live), live.sequence, live))
                    self._ranked.update(() if live.key is None else (live.key,))

    def _compacted(self, heap: list[tuple[int, int, Item]]) -> list[tuple[int, int, Item]]:
        """Return the heap without removed items, once these outnumber the others."""
        if len(heap) <= 2 * len(self._live) + COMPACTION_MINIMUM:
            return heap
        heap = [entry for entry in heap if entry[2].live]
        heapify(heap)
        return heap

    def _importance(self, item: Item) -> int:
        """Return the value compared by the eviction rule; the smallest is evicted first, equal ones by age
        (``core.policies.eviction``)."""
        evict = self._rules.evict
        if evict == LEAST_IMPORTANT:
            return item.level
        if evict == NEWEST:
            return -item.sequence
        if evict == LARGEST:
            return -item.size
        if evict == SOONEST_TO_EXPIRE:
            return item.expires or LATEST_EXPIRY
        if evict == LEAST_RECENT_KEY and item.key is not None:
            return self._keys[item.key].latest
        return 0  # by age; without a key it is evicted before all keys

    def _enforce(self, newcomer: int, before: int, changes: Changes) -> None:
        """Drop one message for a full ring if the queue became longer, and as many as needed for the limits."""
        rules = self._rules
        if 0 <= rules.ring_size < len(self._live) and len(self._live) > before:
            self._evict(REPLACED_RING, newcomer, changes)
        while self._live and self._exceeded(0, 0):
            self._evict(OVERFLOW, newcomer, changes)

    def _exceeded(self, more: int, octets: int) -> bool:
        rules = self._rules
        if 0 <= rules.max_length < len(self._live) + more:
            return True
        return 0 <= rules.max_bytes < self._bytes + octets

    def _evict(self, reason: str, newcomer: int, changes: Changes) -> None:
        victim = self._victim_by_key() if self._rules.evict == LEAST_RECENT_KEY else self._victim()
        self._end(victim, reason, 0 if victim.sequence == newcomer else newcomer, changes)

    def _victim(self) -> Item:
        heap = self._victims
        while not heap[0][2].live:
            heappop(heap)
        return heap[0][2]

    def _victim_by_key(self) -> Item:
        heap = self._victims
        while True:
            latest, _, item = heap[0]
            record = None if item.key is None else self._keys.get(item.key)
            if item.key is None:
                if item.live:
                    return item
                heappop(heap)
            elif record is None:
                self._ranked.discard(item.key)
                heappop(heap)
            elif record.latest != latest:
                heapreplace(heap, (record.latest, 0, item))
            else:
                return next(recent for recent in record.recent.values() if recent.kind == ENTRY and recent.live)

    def _end(self, item: Item, reason: str, newcomer: int, changes: Changes) -> None:
        """Let a message go, from wherever it is known."""
        if self._live.get(item.sequence) is item:
            del self._live[item.sequence]
            self._bytes -= item.size
        changes.remove(item, reason, newcomer)
        if not self._rules.key or item.key is None:
            return
        record = self._keys[item.key]
        record.live -= 1
        if record.live == 0:
            for ghost in record.recent.values():
                if ghost.kind == GHOST:
                    changes.forget(ghost)
            del self._keys[item.key]
        elif item.sequence in record.recent:
            ghost = Item(GHOST, item.queue, item.sequence, item.key)
            record.recent[item.sequence] = ghost
            changes.remember(ghost)


def _is_there_twice(item: Item) -> OperatorError:
    return OperatorError(
        f"the sequence {item.sequence} is there twice in queue {item.queue!r}; nothing says which message is newer. "
        "Number the rows uniquely before"
    )
