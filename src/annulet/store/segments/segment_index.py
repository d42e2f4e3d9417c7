"""Segment indexes: the data of a closed segment that a start needs, in a file beside it, so that no record has to be
read.

All data is in columns by ordinal: a record's place and queue and, for messages that a queue's row describes completely
(without a delivery time of the sender), sequence, body size, origin, priority, time of acceptance and expiry time of
the sender. All others have to be read.

The file is ``magic · crc u32 · length u64 · body``, written under another name and renamed. It is accepted only with
the segment it was made of: same number, same random identity, same length. It has no information about live records,
which are in the checkpoint. A segment without a valid index is read record by record and gets a new one.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from struct import Struct
from struct import error as struct_error
from typing import Final, overload

from isal.isal_zlib import crc32

from annulet.store.files.files import FileSystem
from annulet.store.segments.columns import (
    extremes,
    grows_by_one,
    is_uniform,
    is_zero,
    little_endian,
    narrowed,
    shifted,
    short_numbers,
)
from annulet.store.segments.records import (
    SEGMENT_HEADER_SIZE,
    pack_numbers,
    pack_shared,
    segment_identity,
    swapped_where_big,
    unpack_numbers,
    unpack_shared,
)

INDEX_SUFFIX: Final = ".index"

_MAGIC: Final = b"ANIDX\x00\x00\x03"
"""With the version of the format in the last byte; 3 has times to live of senders.

Another version counts as no index: the segment is read, and gets a new one when a checkpoint covers it.
"""

UNREAD: Final = 0xFFFF
"""Origin number of a message that has to be read, and of an ordinal without a record."""

_PLAIN: Final = b"\0"
_CONSTANT: Final = b"\1"
_GROWING: Final = b"\2"
_NEAR: Final = b"\3"

_NEAR_MAX: Final = 0x7FFFFFFF
"""Times up to 24 days apart; read back are twice as many."""

_FILE_HEADER: Final = Struct("<8sIQ")
_FIXED: Final = Struct("<QIQQI?")  # number, identity, size, length of the file, ordinals, duplicate ids
_LENGTH: Final = Struct("<I")


def index_name(number: int) -> str:
    """Return the file name of a segment's index."""
    return f"{number:012d}{INDEX_SUFFIX}"


def index_number(name: str) -> int | None:
    """Undo :func:`index_name`; ``None`` for other files."""
    stem = name.removesuffix(INDEX_SUFFIX)
    return int(stem) if stem != name and stem.isdecimal() else None


def index_path(segment: Path) -> Path:
    """Return where the index of the segment in this file is."""
    return segment.with_suffix(INDEX_SUFFIX)


class SegmentIndex:
    """One segment's index. ``size``: where its records end, ``length``: of its file, both in bytes."""

    __slots__ = (
        "accepted_at",
        "duplicate_ids",
        "expires_at",
        "identity",
        "length",
        "number",
        "offsets",
        "origin_numbers",
        "origins",
        "priorities",
        "queue_ids",
        "queues",
        "sequences",
        "shared",
        "size",
        "sizes",
        "voided",
    )

    def __init__(self, number: int, identity: int, size: int, length: int) -> None:
        self.number = number
        self.identity = identity
        self.size = size
        self.length = length
        self.offsets: array[int] = array("I")  # by ordinal, as in Segment
        self.queues: array[int] = array("H")  # by ordinal, as in Segment
        self.queue_ids: list[int] = []
        self.shared: dict[int, tuple[int, ...]] = {}  # ordinal -> its targets: queue id, sequence, queue id, …
        self.sequences: array[int] | range = array("Q")  # by ordinal, as the following; a range where they grow by one
        self.sizes: array[int] = array("I")  # of the bodies in bytes
        self.origin_numbers: array[int] = array(
            "H"
        )  # index into ``origins``, or UNREAD: sequence and size mean nothing
        self.origins: list[bytes] = []  # encoded
        self.priorities: array[int] = array("H")  # by ordinal; NO_PRIORITY where the sender gave none
        self.duplicate_ids = False  # some message that need not be read may have one
        self.accepted_at: Sequence[int] = array("Q")  # by ordinal, milliseconds since 1970
        # By ordinal, milliseconds since 1970, not before it was accepted; 0: never.
        self.expires_at: array[int] = array("Q")
        self.voided: array[int] = array("Q")  # torn batches named by a record of this segment

    def encode(self) -> bytes:
        """Return the file's content."""
        ordinals = len(self.offsets)
        parts = [_FIXED.pack(self.number, self.identity, self.size, self.length, ordinals, self.duplicate_ids)]
        columns = (self.offsets, self.queues, self.sizes, self.origin_numbers, self.priorities)
        wide = (array("Q", self.accepted_at), self._lives(), array("Q", self.sequences))
        parts += [_column_block(column) for column in (*columns, *wide)]
        parts += [_block(pack_numbers(self.queue_ids)), _block(pack_shared(self.shared))]
        parts += [_block(pack_numbers(self.voided)), _LENGTH.pack(len(self.origins))]
        parts += [_block(origin) for origin in self.origins]
        body = b"".join(parts)
        return _FILE_HEADER.pack(_MAGIC, crc32(body), len(body)) + body

    def _lives(self) -> array[int]:
        """Return the time to live of each (milliseconds) plus 1, 0 for none: mostly all equal, which takes no room."""
        if is_zero(self.expires_at):
            return self.expires_at
        pairs = zip(self.expires_at, self.accepted_at, strict=True)
        return array("Q", [at - accepted_at + 1 if at else 0 for at, accepted_at in pairs])

    def decode_places(self, blocks: _Blocks, ordinals: int) -> None:
        """Read where records are and whose. Raises ``ValueError`` for a column of another length than ``ordinals``."""
        _fill_column(self.offsets, blocks.take(), ordinals)
        _fill_column(self.queues, blocks.take(), ordinals)

    def decode_rows(self, blocks: _Blocks, ordinals: int) -> None:
        """Read the other columns. Raises ``ValueError`` for one of another length than ``ordinals``."""
        for column in (self.sizes, self.origin_numbers, self.priorities):
            _fill_column(column, blocks.take(), ordinals)
        self.accepted_at = _times_of(blocks.take(), ordinals)
        lives = array("Q")
        _fill_column(lives, blocks.take(), ordinals)
        self.expires_at = lives
        if not is_zero(lives):
            pairs = zip(lives, self.accepted_at, strict=True)
            self.expires_at = array("Q", [life and accepted_at + life - 1 for life, accepted_at in pairs])
        sequences = array("Q")
        block = blocks.take()
        if block[:1] == _GROWING:
            _fill_column(sequences, _CONSTANT + block[1:], 1)
            self.sequences = range(sequences[0], sequences[0] + ordinals)
        else:
            _fill_column(sequences, block, ordinals)
            self.sequences = sequences


_COLUMNS_OF_ROWS: Final = 6
"""Of an index: those that only rows need."""


class NearNumbers(Sequence[int]):
    """A column in the form of the file, or a part of it, converted to numbers on demand: a start rarely needs times.

    ``places``: places of the numbers in ``above``; all of it if not given.
    """

    __slots__ = ("_above", "_lowest", "_places")

    def __init__(self, lowest: int, above: array[int], places: Sequence[int] | None = None) -> None:
        self._lowest = lowest
        self._above = above
        self._places = range(len(above)) if places is None else places

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, place: int) -> int: ...
    @overload
    def __getitem__(self, place: slice) -> NearNumbers: ...
    def __getitem__(self, place: int | slice) -> int | NearNumbers:
        if isinstance(place, slice):
            if isinstance(self._places, range):
                return NearNumbers(self._lowest, self._above[place])
            return NearNumbers(self._lowest, self._above, self._places[place])
        return self._lowest + self._above[self._places[place]]

    def __iter__(self) -> Iterator[int]:
        return map(self._lowest.__add__, map(self._above.__getitem__, self._places))

    def at(self, places: Sequence[int]) -> NearNumbers:
        """Return those at some places of a column, or of a slice of it; not of some already."""
        assert isinstance(self._places, range)
        return NearNumbers(self._lowest, self._above, places)


def decode(data: bytes, *, places_only: bool = False) -> SegmentIndex | None:
    """Undo :meth:`SegmentIndex.encode`; ``None`` when the file is damaged or of another version.

    ``places_only`` leaves out the columns that only rows need: sizes, sequences, origins, priorities and times.
    """
    if len(data) < _FILE_HEADER.size:
        return None
    magic, crc, length = _FILE_HEADER.unpack_from(data)
    body = data[_FILE_HEADER.size :]
    if magic != _MAGIC or length != len(body) or crc32(body) != crc:
        return None
    try:
        return _decode_body(body, places_only=places_only)
    except (struct_error, ValueError, IndexError, OverflowError):
        return None


def _decode_body(body: bytes, *, places_only: bool) -> SegmentIndex:
    number, identity, size, length, ordinals, duplicate_ids = _FIXED.unpack_from(body)
    index = SegmentIndex(number, identity, size, length)
    index.duplicate_ids = duplicate_ids
    blocks = _Blocks(body, _FIXED.size)
    index.decode_places(blocks, ordinals)
    if places_only:
        blocks.skip(_COLUMNS_OF_ROWS)
    else:
        index.decode_rows(blocks, ordinals)
    index.queue_ids = list(unpack_numbers(blocks.take()))
    index.shared = unpack_shared(blocks.take())
    index.voided = unpack_numbers(blocks.take())
    index.origins = [blocks.take() for _ in range(blocks.count())]
    return index


def _column_block(column: array[int]) -> bytes:
    """Encode a column: its form, then one number where all are equal or grow by one, else all of them.

    Numbers of 64 bits that are near each other as the lowest, and 32 bits for how far each is above it.
    """
    if len(column) > 1:
        first = column[:1]
        if is_uniform(column):
            return _block(_CONSTANT + little_endian(first))
        wide = column.typecode == "Q"
        if column[-1] == first[0] + len(column) - 1 and (
            grows_by_one(little_endian(column)) if wide else column == _growing(column)
        ):
            return _block(_GROWING + little_endian(first))
        if wide:
            content = little_endian(column)
            lowest, highest = extremes(content)
            if lowest >= 0 and highest - lowest <= _NEAR_MAX:
                return _block(_NEAR + little_endian(array("Q", [lowest])) + narrowed(content, lowest))
    return _block(_PLAIN + little_endian(column))


def _fill_column(column: array[int], block: bytes, length: int) -> None:
    form = block[:1]
    if form == _NEAR and column.typecode == "Q":
        lowest, above = _near(block)
        column.extend(shifted(above.tolist(), lowest))
    else:  # bytes are repeated as a whole, an array number by number
        column.frombytes(block[1:] * length if form == _CONSTANT else block[1:])
        swapped_where_big(column)
        if form == _GROWING:
            column.extend(range(column[0] + 1, column[0] + length))
    if len(column) != length:
        raise ValueError("columns of different lengths")


def _near(block: bytes) -> tuple[int, array[int]]:
    """Return the lowest number of a column, and how far each is above it."""
    return unpack_numbers(block[1:9])[0], short_numbers(block[9:])


def _times_of(block: bytes, length: int) -> Sequence[int]:
    if block[:1] != _NEAR:
        column = array("Q")
        _fill_column(column, block, length)
        return column
    times = NearNumbers(*_near(block))
    if len(times) != length:
        raise ValueError("columns of different lengths")
    return times


def _growing(column: array[int]) -> array[int]:
    return array(column.typecode, range(column[0], column[0] + len(column)))


def load(segment: Path, number: int, files: FileSystem, *, places_only: bool = False) -> SegmentIndex | None:
    """Return the index of a segment if there is a sound one that was made of this very file, as :func:`decode` does.

    Raises ``OSError`` when a file cannot be read.
    """
    path = index_path(segment)
    try:
        data = _content(path, files)
    except FileNotFoundError:
        return None
    index = decode(data, places_only=places_only)
    if index is None or index.number != number:
        return None
    file = files.open(segment)
    try:
        identity, copies = segment_identity(file.read(0, SEGMENT_HEADER_SIZE), number)
        length = file.size()
    finally:
        file.close()
    # With one copy of the header left the segment is read as a whole, which reports the damage.
    if copies < 2 or identity != index.identity or length != index.length:
        return None
    return index


def _content(path: Path, files: FileSystem) -> bytes:
    file = files.open(path)
    try:
        return file.read(0, file.size())
    finally:
        file.close()


class _Blocks:
    """Takes blocks off an index's body."""

    def __init__(self, data: bytes, offset: int) -> None:
        self._data = data
        self._offset = offset

    def count(self) -> int:
        """Return the next number."""
        (number,) = _LENGTH.unpack_from(self._data, self._offset)
        self._offset += _LENGTH.size
        return int(number)

    def skip(self, blocks: int) -> None:
        """Skip this many. Truncation of the last is detected when the next one is read."""
        for _ in range(blocks):
            length = self.count()
            self._offset += length

    def take(self) -> bytes:
        """Return the next block."""
        length = self.count()
        start = self._offset
        self._offset += length
        if self._offset > len(self._data):
            raise ValueError("a block is cut off")
        return self._data[start : self._offset]


def _block(data: bytes) -> bytes:
    return _LENGTH.pack(len(data)) + data


def stray(names: Sequence[str], numbers: set[int]) -> list[str]:
    """Return the names of indexes whose segment is not among ``numbers``."""
    return [name for name in names if (number := index_number(name)) is not None and number not in numbers]
