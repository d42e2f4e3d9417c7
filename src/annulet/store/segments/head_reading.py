"""Reading the files of heads: the open files, and the search in their blocks.

Results never contradict the segment: records without valid heads count as missing.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from annulet.store.segments.decoding import doubtful_heads
from annulet.store.segments.head_blocks import BLOCK_BYTES_MAX, BLOCK_HEADER, block_bounds, heads_path, is_sound
from annulet.store.segments.records import ORDINAL_BITS, ORDINAL_MASK

if TYPE_CHECKING:
    from annulet.store.files.files import File, FileSystem
    from annulet.store.segments.segment import Segment

logger = logging.getLogger(__name__)

ReadBytes = Callable[[int, int], bytes]
"""Returns up to this many bytes (first argument) from an offset (second argument) on."""


class HeadFiles:
    """The open files of heads, beside open segments. Belongs to the event loop."""

    def __init__(self, files: FileSystem) -> None:
        self._files = files
        self._open: dict[int, File] = {}  # by number of the segment

    @property
    def open_files(self) -> int:
        """How many files of heads are open for reading."""
        return len(self._open)

    def of(self, segment: Segment) -> File | None:
        """Return a segment's file, which may appear at any time; ``None`` if there is no readable one."""
        file = self._open.get(segment.number)
        if file is None:
            try:
                file = self._open[segment.number] = self._files.open(heads_path(segment.path))
            except FileNotFoundError:
                return None
            except OSError as error:  # the segment is read
                logger.debug("message log: cannot open the heads of segment %d: %s", segment.number, error)
                return None
        return file

    def close(self, number: int) -> None:
        """Close a segment's file, if it is open."""
        file = self._open.pop(number, None)
        if file is not None:
            file.close()


class HeadBlocks:
    """Walks along the blocks of one file after the other. Remembers the end of the last walk, because the next one
    usually continues there, and need not skip all blocks before.
    """

    def __init__(self) -> None:
        self._segment = -1
        self._first = 0  # start of the block's records in the segment
        self._at = 0  # its position in the file

    def doubtful(
        self,
        read: ReadBytes,
        record: int,
        seed: int,
        needles: Sequence[list[bytes]],
        places: list[int],
        numbers: list[int],
    ) -> tuple[list[int], list[int]]:
        """Return the indexes of records at ``places`` that may have all octets of one of the ``needles``, and of those
        without heads, both ascending.

        ``numbers``: which records they are, counted from ``record``. ``seed``: of the segment's checksums.
        """
        self._begin(record >> ORDINAL_BITS, places[0] if places else 0)
        ordinal = record & ORDINAL_MASK
        ordinals = [ordinal + number for number in numbers]
        found: list[int] = []
        missing: list[int] = []
        index, count, at = 0, len(places), self._at
        while index < count:
            header = _read(read, BLOCK_HEADER.size, at)
            bounds = block_bounds(header)
            if bounds is None or bounds[1] > places[-1]:
                break
            length, first, end = bounds
            self._at, self._first = at, first
            at += BLOCK_HEADER.size
            start, stop = bisect_left(places, first, index), bisect_left(places, end, index)
            if start < stop:
                missing.extend(range(index, start))
                runs = _read(read, length, at) if length <= BLOCK_BYTES_MAX else b""
                if is_sound(header, runs, seed):
                    some, others = doubtful_heads(runs, places[start:stop], ordinals[start:stop], needles)
                else:
                    some, others = [], list(range(stop - start))
                found += [start + place for place in some]
                missing += [start + place for place in others]
                index = stop
            at += length
        missing.extend(range(index, count))
        return found, missing

    def _begin(self, segment: int, place: int) -> None:
        """Go to where the walk ended, or back to the beginning of the file."""
        if segment != self._segment or place < self._first:
            self._segment, self._first, self._at = segment, 0, 0


def _read(read: ReadBytes, length: int, offset: int) -> bytes:
    try:
        return read(length, offset)
    except OSError:  # then the segment is read
        return b""
