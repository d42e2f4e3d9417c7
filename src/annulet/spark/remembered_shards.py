"""What a worker process remembers of shards between two batches."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

T = TypeVar("T")


class RememberedShards(Generic[T]):
    """The last ``most`` shards by name, each with the token of the batch that left it so.

    Another process may have worked on a shard since: then its state has another token.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._shards: OrderedDict[str, tuple[str, T]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._shards)

    def take(self, name: str) -> tuple[str, T | None]:
        """Return the token and the shard, and forget it until it is kept again; None if it is not remembered."""
        return self._shards.pop(name, ("", None))

    def keep(self, name: str, token: str, shard: T) -> None:
        """Remember a shard as a batch left it."""
        self._shards[name] = token, shard
        while len(self._shards) > self.most:
            self._shards.popitem(last=False)

    def forget(self) -> None:
        """Remember nothing, as a new worker."""
        self._shards.clear()
