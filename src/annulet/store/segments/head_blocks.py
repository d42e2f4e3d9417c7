"""The file of heads beside a segment: its messages without their bodies, for searches of texts in headers.

It holds blocks. Each is

    magic u32 · crc u32 · length u32 · first u32 · end u32 · runs (``length`` bytes)

and a run is ``magic u32 · place u32 · heads``: neighbouring records, the first of which begins at that place in the
segment, each up to its body. The records of a block are in the segment from ``first`` to ``end``, but it may lack
records between two runs. ``crc`` is CRC32 over everything after it, started from the value that the segment's records
start from, so a block of another file is not accepted.

The file is never synced and may be torn, incomplete or missing: records without a valid block are read from the
segment.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from struct import Struct
from typing import Final

from isal.isal_zlib import crc32

from annulet.store.segments.decoding import RUN_MAGIC

HEADS_SUFFIX: Final = ".heads"

BLOCK_MAGIC: Final = int.from_bytes(b"ANH1", "little")
"""With the version of the format in the last character. Blocks of another version are not read."""

BLOCK_BYTES: Final = 64 << 10
"""Bytes at which a block ends: the heads of about 350 messages of 1 KiB.

Searching it takes 20 µs, and since it is read as a whole, little is read twice for two ranges.
"""

BLOCK_BYTES_MAX: Final = 1 << 20
"""Bytes of the longest block that is read: it is in memory as a whole."""

RUN_BYTES_MAX: Final = BLOCK_BYTES_MAX - 2 * BLOCK_BYTES
"""Bytes of the longest run that is written, so that no block is longer. Only a very long head reaches it."""

BLOCK_HEADER: Final = Struct("<IIIII")
RUN_HEADER: Final = Struct("<II")
_CHECKED: Final = 8  # where the checksum begins


def heads_path(segment: Path) -> Path:
    """Return where the heads of the segment in this file are."""
    return segment.with_suffix(HEADS_SUFFIX)


def heads_number(name: str) -> int | None:
    """Return the number of the segment whose heads are in a file of this name; ``None`` for other files."""
    stem = name.removesuffix(HEADS_SUFFIX)
    return int(stem) if stem != name and stem.isdecimal() else None


def stray_heads(names: Sequence[str], numbers: set[int]) -> list[str]:
    """Return the names of files of heads whose segment is not among ``numbers``."""
    return [name for name in names if (number := heads_number(name)) is not None and number not in numbers]


def encode_block(runs: Sequence[tuple[int, int, bytes]], seed: int) -> list[bytes]:
    """Return the buffers of a block. ``runs``: start and end of each in the segment, ascending, and its heads."""
    parts: list[bytes] = []
    for first, _, heads in runs:
        parts.append(RUN_HEADER.pack(RUN_MAGIC, first))
        parts.append(heads)
    length = sum(map(len, parts))
    header = BLOCK_HEADER.pack(BLOCK_MAGIC, 0, length, runs[0][0], runs[-1][1])[_CHECKED:]
    checksum = crc32(header, seed)
    for part in parts:
        checksum = crc32(part, checksum)
    return [RUN_HEADER.pack(BLOCK_MAGIC, checksum) + header, *parts]


def block_bounds(header: bytes) -> tuple[int, int, int] | None:
    """Return length of the runs, first place and end of a possible header of a block; ``None``: it is none."""
    if len(header) < BLOCK_HEADER.size:
        return None
    magic, _, length, first, end = BLOCK_HEADER.unpack(header)
    return (length, first, end) if magic == BLOCK_MAGIC else None


def is_sound(header: bytes, runs: bytes, seed: int) -> bool:
    """Return whether these are a block as it was written."""
    _, checksum, length, _, _ = BLOCK_HEADER.unpack(header)
    return len(runs) == length and bool(crc32(runs, crc32(header[_CHECKED:], seed)) == checksum)
