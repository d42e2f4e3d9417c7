"""Input of a connection that is not served yet."""

from __future__ import annotations

from typing import Final

CHUNKS_JOINED: Final = 256
"""Chunks of an incomplete frame after which they are joined: this bounds objects, not octets."""


class InputBuffer:
    """Octets that make no whole frame yet, or have to wait. ``size``: how many."""

    __slots__ = ("_chunks", "size")

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self.size = 0

    def add(self, data: bytes) -> None:
        """Keep input behind what waits already."""
        chunks = self._chunks
        chunks.append(data)
        self.size += len(data)
        if len(chunks) >= CHUNKS_JOINED:
            self._chunks = [b"".join(chunks)]

    def take(self) -> bytes:
        """Return all that waits, and keep nothing."""
        chunks = self._chunks
        data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        self.drop()
        return data

    def drop(self) -> None:
        """Discard input that is not to be served."""
        self._chunks = []
        self.size = 0
