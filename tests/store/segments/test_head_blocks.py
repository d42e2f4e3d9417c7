"""A block of heads is believed as it was written, and else not at all."""

from __future__ import annotations

from pathlib import Path

from annulet.store.segments.head_blocks import (
    BLOCK_HEADER,
    block_bounds,
    encode_block,
    heads_number,
    heads_path,
    is_sound,
    stray_heads,
)

RUNS = [(64, 1000, b"some heads"), (1200, 2000, b"and others")]
SEED = 77


def parts(block: bytes) -> tuple[bytes, bytes]:
    return block[: BLOCK_HEADER.size], block[BLOCK_HEADER.size :]


def test_it_says_where_it_begins_and_ends() -> None:
    header, runs = parts(b"".join(encode_block(RUNS, SEED)))
    assert block_bounds(header) == (len(runs), 64, 2000)
    assert is_sound(header, runs, SEED)
    assert b"some heads" in runs
    assert runs.endswith(b"and others")


def test_what_is_cut_off_or_changed_anywhere_is_not_believed() -> None:
    block = b"".join(encode_block(RUNS, SEED))
    for place in range(len(block)):
        for changed in (block[:place], block[:place] + bytes([block[place] ^ 1]) + block[place + 1 :]):
            header, runs = parts(changed)
            assert block_bounds(header) is None or not is_sound(header, runs, SEED)
    header, runs = parts(block)
    assert not is_sound(header, runs + b"x", SEED)
    assert not is_sound(header, runs, SEED + 1), "another segment's"


def test_another_version_and_zeros_are_no_blocks() -> None:
    block = b"".join(encode_block(RUNS, SEED))
    assert block_bounds(b"ANH2" + block[4 : BLOCK_HEADER.size]) is None
    assert block_bounds(bytes(BLOCK_HEADER.size)) is None


def test_files_are_named_after_their_segments() -> None:
    path = heads_path(Path("/log/000000000012.segment"))
    assert path == Path("/log/000000000012.heads")
    assert [heads_number(name) for name in (path.name, "000000000012.segment", "x.heads", "heads")] == [
        12, None, None, None,
    ]  # fmt: skip
    assert stray_heads([path.name, "000000000013.heads", "000000000013.index"], {12}) == ["000000000013.heads"]
