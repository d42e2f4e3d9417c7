"""A shard's state in memory."""

from __future__ import annotations

from collections.abc import Iterator

from annulet.spark.operators.segments import REMOVAL, SEGMENT, decode_items


class MemoryState:
    """Keeps head and blobs in dictionaries, and counts the calls and the items of segments."""

    def __init__(self) -> None:
        self.head: str | None = None
        self.blobs: dict[str, dict[int, bytes]] = {SEGMENT: {}, REMOVAL: {}}
        self.calls = 0
        self.items_written = 0

    def read_head(self) -> str | None:
        self.calls += 1
        return self.head

    def write_head(self, head: str) -> None:
        self.calls += 1
        self.head = head

    def read_blobs(self, kind: str) -> Iterator[tuple[int, bytes]]:
        self.calls += 1
        yield from list(self.blobs[kind].items())

    def write_blob(self, kind: str, number: int, blob: bytes) -> None:
        self.calls += 1
        self.blobs[kind][number] = blob
        if kind == SEGMENT:
            self.items_written += len(decode_items(blob))

    def drop_blob(self, kind: str, number: int) -> None:
        self.calls += 1
        del self.blobs[kind][number]
