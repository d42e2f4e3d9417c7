from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from annulet.broker.network.large_writes import PIECE_BYTES, write_buffers

if TYPE_CHECKING:
    import asyncio


class Writes:
    """A transport that keeps each write."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.pieces.append(data)


@pytest.mark.parametrize(
    ("sizes", "pieces"),
    [
        ([1, 2], [3]),
        ([PIECE_BYTES], [PIECE_BYTES]),
        ([PIECE_BYTES - 1, 1], [PIECE_BYTES]),
        ([PIECE_BYTES - 1, 1, 1], [PIECE_BYTES, 1]),
        ([5, 3 * PIECE_BYTES, 6], [3 * PIECE_BYTES + 5, 6]),
        ([PIECE_BYTES // 2] * 5, [PIECE_BYTES, PIECE_BYTES, PIECE_BYTES // 2]),
    ],
)
def test_output_is_written_whole_or_in_pieces(sizes: list[int], pieces: list[int]) -> None:
    buffers = [bytes((number,)) * size for number, size in enumerate(sizes)]
    transport = Writes()
    assert write_buffers(cast("asyncio.Transport", transport), buffers, sum(sizes)) == sum(sizes)
    assert [len(piece) for piece in transport.pieces] == pieces
    assert b"".join(transport.pieces) == b"".join(buffers)
