"""A shard's state in memory."""

from __future__ import annotations

from collections.abc import Iterator

from annulet.spark.engine.journal import KINDS


class MemoryState:
    """Keeps head and blobs in dictionaries, and counts calls and bytes written."""

    def __init__(self) -> None:
        self.head: str | None = None
        self.blobs: dict[str, dict[int, bytes]] = {kind: {} for kind in KINDS}
        self.calls = 0
        self.bytes_written = 0
        self.loads = 0  # how often all of it was read

    def copy(self) -> MemoryState:
        """What a batch works on: it is kept when the batch succeeds."""
        made = MemoryState()
        made.head, made.blobs = self.head, {kind: dict(blobs) for kind, blobs in self.blobs.items()}
        return made

    def read_head(self) -> str | None:
        self.calls += 1
        return self.head

    def write_head(self, head: str) -> None:
        self.calls += 1
        self.head = head

    def read_blobs(self, kind: str) -> Iterator[tuple[int, bytes]]:
        self.loads += kind == KINDS[0]
        self.calls += 1
        yield from list(self.blobs[kind].items())

    def read_blob(self, kind: str, number: int) -> bytes:
        self.calls += 1
        return self.blobs[kind][number]

    def write_blob(self, kind: str, number: int, blob: bytes) -> None:
        self.calls += 1
        self.bytes_written += len(blob)
        self.blobs[kind][number] = blob

    def drop_blob(self, kind: str, number: int) -> None:
        self.calls += 1
        del self.blobs[kind][number]
