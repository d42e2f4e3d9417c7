"""Duplicate detection: the latest ids that senders gave the messages of an address (Artemis ``_AMQ_DUPL_ID``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

ID_CACHE_SIZE: Final = 20_000
"""Ids remembered per address unless its settings say otherwise (Artemis ``id-cache-size``): about 3 MB of short ids."""


class DuplicateCache:
    """The latest ``size`` ids of one address, oldest first; 0 remembers none."""

    __slots__ = ("_ids", "size")

    def __init__(self, size: int = ID_CACHE_SIZE) -> None:
        self.size = size
        self._ids: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, duplicate_id: str) -> bool:
        return duplicate_id in self._ids

    def add(self, duplicate_id: str) -> None:
        """Remember an id; the oldest is evicted from a full cache. A known one keeps its place."""
        if self.size > 0 and duplicate_id not in self._ids:
            self._ids[duplicate_id] = None
            self._trim()

    def take_back(self, duplicate_id: str) -> None:
        """Remember an id no more."""
        self._ids.pop(duplicate_id, None)

    def resize(self, size: int) -> None:
        """Change the bound; a smaller one keeps the newest."""
        self.size = size
        self._trim()

    def ids(self) -> list[str]:
        """Return the ids, oldest first."""
        return list(self._ids)

    def _trim(self) -> None:
        while len(self._ids) > self.size:
            del self._ids[next(iter(self._ids))]


class DuplicateCaches:
    """One cache per address that got an id, deleted with the last queue of its address."""

    __slots__ = ("_caches",)

    def __init__(self) -> None:
        self._caches: dict[str, DuplicateCache] = {}

    def __len__(self) -> int:
        return len(self._caches)

    def has(self, address: str, duplicate_id: str) -> bool:
        """Return whether a message with this id was accepted at this address and the id has not fallen out."""
        cache = self._caches.get(address)
        return cache is not None and duplicate_id in cache

    def add(self, address: str, duplicate_id: str, size: int) -> None:
        """Remember the id of a message that was accepted. ``size``: the address's bound now."""
        if size <= 0:
            return
        cache = self._caches.get(address)
        if cache is None:
            cache = DuplicateCache(size)
            self._caches[address] = cache
        cache.add(duplicate_id)

    def take_back(self, address: str, duplicate_id: str) -> None:
        """Remember the id of a message no more that was accepted, and then taken back."""
        cache = self._caches.get(address)
        if cache is not None:
            cache.take_back(duplicate_id)

    def restore(self, address: str, duplicate_ids: Iterable[str], size: int) -> None:
        """Restore stored ids, oldest first; only the newest ``size`` stay."""
        for duplicate_id in duplicate_ids:
            self.add(address, duplicate_id, size)

    def resize(self, address: str, size: int) -> None:
        """Apply a changed bound; 0 forgets everything."""
        cache = self._caches.get(address)
        if cache is None:
            return
        if size <= 0:
            del self._caches[address]
        else:
            cache.resize(size)

    def forget(self, address: str) -> bool:
        """Drop an address's cache. Returns whether there was one."""
        return self._caches.pop(address, None) is not None

    def ids(self, address: str) -> list[str]:
        """Return an address's ids, oldest first; empty when it has none."""
        cache = self._caches.get(address)
        return [] if cache is None else cache.ids()

    def count(self, address: str) -> int:
        """Return how many ids an address remembers."""
        cache = self._caches.get(address)
        return 0 if cache is None else len(cache)

    def addresses(self) -> list[str]:
        """Return the addresses that have a cache."""
        return list(self._caches)
