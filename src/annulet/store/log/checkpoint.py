"""Checkpoints: the live bitmaps and everything else recovery would otherwise read the whole log for.

A checkpoint describes the log exactly as it is behind one sealed batch. Two are kept; a damaged one falls back to the
one before, and that to a scan of all segments. The file is ``magic · crc u32 · length u64 · body``; it becomes visible
by rename when it is durable.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct, error
from typing import Final
from zlib import compress, decompress
from zlib import error as compression_error

from isal.isal_zlib import crc32

from annulet.store.files.files import FileSystem, write_durably
from annulet.store.files.full_disk import NO_SPACE
from annulet.store.segments.interface import MaintenanceTask
from annulet.store.segments.records import pack_numbers, pack_shared, unpack_numbers, unpack_shared
from annulet.store.segments.segment import Segment

CHECKPOINT_PREFIX: Final = "checkpoint-"
CHECKPOINTS_KEPT: Final = 2
BALLAST_FILE: Final = "ballast"
"""Reserved space, given up when the disk is full: the checkpoint that lets dead segments go must still fit."""

OPEN_MARKER: Final = "open"
"""File that exists while the log is open; it still exists at the next open if the process died."""

COMPRESSION_LEVEL: Final = 1
"""Bitmaps are long runs of ones and zeros; the fastest level compresses them as well as any."""

_FILE_HEADER: Final = Struct("<8sIQ")
_MAGIC: Final = b"ANCKP\x00\x00\x01"
_COUNTS: Final = Struct("<QQQQQQQ?")
_SEGMENT: Final = Struct("<QIIQ")
_LENGTH: Final = Struct("<Q")


@dataclass(slots=True)
class SegmentPicture:
    """A segment's live state: number, how many ordinals it has given out, live bitmap, remaining queues."""

    number: int
    ordinals: int
    live: bytes
    shared: dict[int, tuple[int, ...]]
    packed: bytes = field(
        default=b"", compare=False
    )  # ``live`` as it is in the file, once one was written: most segments are as in the one before


@dataclass(slots=True)
class Checkpoint:
    """The log behind batch ``batch``. Records from (``segment``, ``offset``) on are newer."""

    number: int = 0
    segment: int = 0
    offset: int = 0
    batch: int = 0
    next_transaction: int = 1
    closed: bool = False  # written by a clean shutdown
    pictures: list[SegmentPicture] = field(default_factory=list)
    transactions: dict[int, bytes] = field(default_factory=dict)  # open ones: packed record ids
    forgotten: list[int] = field(default_factory=list)  # deleted queues whose records are not all swept
    discarded: list[tuple[int, int, int]] = field(default_factory=list)  # queue, first and last record, not all swept
    sequences: dict[int, int] = field(default_factory=dict)
    outcomes: dict[str, int] = field(default_factory=dict)
    noted: int = 0  # discards and deleted queues it covers, likewise; not in the file
    released: int = 0  # settlements it covers, waiting ones too, as the sealer counts them; not in the file

    @property
    def begun(self) -> bool:
        """Its segment was begun; a clean stop that ended one names the next."""
        return self.offset > 0 or not self.closed


def take_picture(segment: Segment) -> SegmentPicture:
    """Copy the data of a segment that a checkpoint needs. On the loop: packing is left to the disk thread."""
    return SegmentPicture(segment.number, len(segment.offsets), bytes(segment.live), segment.shared.copy())


def _block(data: bytes) -> bytes:
    return _LENGTH.pack(len(data)) + data


class _Reader:
    """Takes blocks off a checkpoint's body."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.offset = 0

    def fields(self, layout: Struct) -> tuple[int, ...]:
        values = layout.unpack_from(self.data, self.offset)
        self.offset += layout.size
        return values

    def block(self) -> bytes:
        (length,) = self.fields(_LENGTH)
        start = self.offset
        self.offset += length
        return self.data[start : self.offset]


def encode(checkpoint: Checkpoint) -> bytes:
    """Return the file's content."""
    parts = [
        _COUNTS.pack(
            checkpoint.number,
            checkpoint.segment,
            checkpoint.offset,
            checkpoint.batch,
            checkpoint.next_transaction,
            len(checkpoint.pictures),
            len(checkpoint.transactions),
            checkpoint.closed,
        )
    ]
    for picture in checkpoint.pictures:
        if not picture.packed:
            picture.packed = compress(picture.live, COMPRESSION_LEVEL)
        parts += [_SEGMENT.pack(picture.number, picture.ordinals, len(picture.live), 0), _block(picture.packed)]
        parts.append(_block(pack_shared(picture.shared)))
    for transaction, records in checkpoint.transactions.items():
        parts += [_LENGTH.pack(transaction), _block(records)]
    parts.append(_block(pack_numbers(checkpoint.forgotten)))
    parts.append(_block(pack_numbers(value for pair in checkpoint.sequences.items() for value in pair)))
    outcomes = [_block(query.encode()) + _block(str(batch).encode()) for query, batch in checkpoint.outcomes.items()]
    parts.append(_block(b"".join(outcomes)))
    parts.append(_block(pack_numbers(value for discarded in checkpoint.discarded for value in discarded)))
    body = b"".join(parts)
    return _FILE_HEADER.pack(_MAGIC, crc32(body), len(body)) + body


def decode(data: bytes) -> Checkpoint | None:
    """Undo :func:`encode`; ``None`` when the file is damaged."""
    if len(data) < _FILE_HEADER.size:
        return None
    magic, crc, length = _FILE_HEADER.unpack_from(data)
    body = data[_FILE_HEADER.size :]
    if magic != _MAGIC or length != len(body) or crc32(body) != crc:
        return None
    try:
        return _decode_body(_Reader(body))
    except (error, compression_error, ValueError):
        return None


def _decode_body(reader: _Reader) -> Checkpoint:
    number, segment, offset, batch, next_transaction, pictures, transactions, closed = reader.fields(_COUNTS)
    checkpoint = Checkpoint(number, segment, offset, batch, next_transaction, bool(closed))
    for _ in range(pictures):
        picture, ordinals, _, _ = reader.fields(_SEGMENT)
        live = decompress(reader.block())
        checkpoint.pictures.append(SegmentPicture(picture, ordinals, live, unpack_shared(reader.block())))
    for _ in range(transactions):
        (transaction,) = reader.fields(_LENGTH)
        checkpoint.transactions[transaction] = reader.block()
    checkpoint.forgotten = list(unpack_numbers(reader.block()))
    sequences = unpack_numbers(reader.block())
    checkpoint.sequences = dict(zip(sequences[::2], sequences[1::2], strict=True))
    outcomes = _Reader(reader.block())
    while outcomes.offset < len(outcomes.data):
        query = outcomes.block().decode()
        checkpoint.outcomes[query] = int(outcomes.block())
    if reader.offset < len(reader.data):  # one of an earlier version ends here
        numbers = unpack_numbers(reader.block())
        checkpoint.discarded = list(zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True))
    return checkpoint


def checkpoint_name(number: int) -> str:
    """Return a checkpoint's file name; names sort by number."""
    return f"{CHECKPOINT_PREFIX}{number:012d}"


def checkpoint_number(name: str) -> int | None:
    """Undo :func:`checkpoint_name`; ``None`` for other files."""
    rest = name.removeprefix(CHECKPOINT_PREFIX)
    return int(rest) if rest != name and rest.isdecimal() else None


def load(directory: Path, files: FileSystem, names: Iterable[str]) -> tuple[Checkpoint | None, int]:
    """Return the newest sound checkpoint, and how many newer ones are damaged."""
    numbers = sorted((number for name in names if (number := checkpoint_number(name)) is not None), reverse=True)
    for damaged, number in enumerate(numbers):
        file = files.open(directory / checkpoint_name(number))
        try:
            checkpoint = decode(file.read(0, file.size()))
        finally:
            file.close()
        if checkpoint is not None:
            return checkpoint, damaged
    return None, len(numbers)


class CheckpointTask(MaintenanceTask):
    """Writes a checkpoint and removes the ones before its predecessor."""

    def __init__(self, checkpoint: Checkpoint, directory: Path, files: FileSystem, kept: int) -> None:
        self.checkpoint = checkpoint
        self.kept = kept  # number of the predecessor, to be kept
        self.ballast_dropped = False
        self._directory = directory
        self._files = files

    def work(self) -> None:
        """Write; on a full disk give up the ballast and write again."""
        data = encode(self.checkpoint)
        path = self._directory / checkpoint_name(self.checkpoint.number)
        try:
            write_durably(path, data, self._files)
        except OSError as failure:
            if failure.errno not in NO_SPACE:
                raise
            self._files.remove(self._directory / BALLAST_FILE)
            self.ballast_dropped = True
            write_durably(path, data, self._files)
        for name in self._files.names(self._directory):
            number = checkpoint_number(name)
            if number is not None and number not in (self.kept, self.checkpoint.number):
                self._files.remove(self._directory / name)
