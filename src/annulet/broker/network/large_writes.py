"""Output of many octets is given to the transport in pieces.

asyncio copies the rest of a write that the socket does not take, twice (Python 3.11). A body of 100 MiB was copied
three times, the first time to join its frames, and each time into new memory of the system.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

PIECE_BYTES: Final = 1 << 20
"""Bytes of a piece: as many as the output of a turn has, but for a large body. A buffer is not cut."""


def pieces_of(buffers: list[bytes]) -> Iterator[bytes]:
    """Join buffers to pieces, in order."""
    waiting = first = 0
    for index, buffer in enumerate(buffers):
        waiting += len(buffer)
        if waiting >= PIECE_BYTES or index + 1 == len(buffers):
            yield b"".join(buffers[first : index + 1])
            first, waiting = index + 1, 0
