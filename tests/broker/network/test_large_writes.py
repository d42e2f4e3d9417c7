from __future__ import annotations

import pytest

from annulet.broker.network.large_writes import PIECE_BYTES, pieces_of


@pytest.mark.parametrize(
    ("sizes", "pieces"),
    [
        ([], []),
        ([1, 2], [3]),
        ([PIECE_BYTES], [PIECE_BYTES]),
        ([PIECE_BYTES - 1, 1], [PIECE_BYTES]),
        ([PIECE_BYTES - 1, 1, 1], [PIECE_BYTES, 1]),
        ([5, 3 * PIECE_BYTES, 6], [3 * PIECE_BYTES + 5, 6]),
        ([PIECE_BYTES // 2] * 5, [PIECE_BYTES, PIECE_BYTES, PIECE_BYTES // 2]),
    ],
)
def test_output_is_joined_to_pieces_in_order(sizes: list[int], pieces: list[int]) -> None:
    buffers = [bytes((number,)) * size for number, size in enumerate(sizes)]
    made = list(pieces_of(buffers))
    assert [len(piece) for piece in made] == pieces
    assert b"".join(made) == b"".join(buffers)
