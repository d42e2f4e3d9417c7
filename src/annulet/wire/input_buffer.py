"""Input of a connection that is not served yet."""

from __future__ import annotations

from typing import Final, TypeAlias

CHUNKS_JOINED: Final = 256
"""Chunks after which the latest are joined, if they are small: this bounds objects, not octets."""

SMALL_CHUNK_OCTETS: Final = 4096
"""Chunks of fewer octets on average are small. The object of a larger one is no cost, and its copy would be one."""

Octets: TypeAlias = bytes | memoryview
"""Octets, or a view of a part of what one read returned."""


def part_of(data: bytes, start: int, stop: int) -> Octets:
    """Return a part of what was read, to be kept: a view if it is nearly all of it.

    A view keeps the whole read in memory. With this bound that is a seventh more than is counted at most.
    """
    if 8 * (stop - start) < 7 * len(data):
        return data[start:stop]
    return data if stop - start == len(data) else memoryview(data)[start:stop]


class InputBuffer:
    """Octets that make no whole frame yet, or have to wait. ``size``: how many."""

    __slots__ = ("_chunks", "_done", "_done_size", "size")

    def __init__(self) -> None:
        self._chunks: list[Octets] = []
        self.size = 0
        self._done = 0  # the first chunks, which are not joined any more
        self._done_size = 0  # their octets

    def add(self, data: Octets) -> None:
        """Keep input behind what waits already."""
        chunks = self._chunks
        chunks.append(data)
        self.size += len(data)
        if len(chunks) - self._done >= CHUNKS_JOINED:
            if self.size - self._done_size < CHUNKS_JOINED * SMALL_CHUNK_OCTETS:
                chunks[self._done :] = [b"".join(chunks[self._done :])]
            self._done = len(chunks)
            self._done_size = self.size

    def take(self) -> bytes:
        """Return all that waits, and keep nothing."""
        chunks = self._chunks
        first = chunks[0] if len(chunks) == 1 else b""
        data = first if first and isinstance(first, bytes) else b"".join(chunks)
        self.drop()
        return data

    def take_parts(self) -> list[Octets]:
        """Return all that waits as it was added, and keep nothing."""
        chunks = self._chunks
        self.drop()
        return chunks

    def drop(self) -> None:
        """Discard input that is not to be served."""
        self._chunks = []
        self.size = self._done = self._done_size = 0
