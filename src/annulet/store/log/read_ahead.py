"""Ranges of segments that a thread reads before they are needed: the event loop neither waits for the disk nor copies
them.

All but :meth:`AheadBlock.run` belongs to the event loop. A reader that can wait for late data is notified when it
arrives. Otherwise the reader reads it directly, as if there were no read-ahead, and also data that could not be read
ahead: errors and retries are handled by the reader.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from annulet.store.files.files import File

logger = logging.getLogger(__name__)

BLOCK_BYTES_LEAST: Final = 128 << 10
"""Bytes of the smallest block.

Less is left to the system's read-ahead, because passing it to the thread costs as much as copying it.
"""

BLOCK_BYTES_MAX: Final = 2 << 20
"""Bytes of the largest block, without a gap before it up to another: four loads of 1 KiB messages fit into one."""

AHEAD_BYTES_MAX: Final = 12 << 20
"""Bytes of all blocks, read or to be read: three blocks for each of three queues drained at the same time, at 1 KiB a
message. Beyond that the system's read-ahead is used."""

NEAR_BYTES_MAX: Final = 64 << 10
"""Largest gap in bytes between a block and the next one that is closed, so that reads over the end of a block find all
data. As many as are read along between two records."""

NOBODY: Final = -1
"""Segment of a block that must not be found any more."""


class AheadStretch:
    """Progress of a thread's read. It has none of the bytes, so the requester may keep it."""

    __slots__ = ("_waiting", "dropped", "ended")

    def __init__(self) -> None:
        self.ended = False  # the thread is done with the file, whether it could read or not
        self.dropped = False  # they were not used in time
        self._waiting: list[Callable[[], None]] = []

    def tell(self, then: Callable[[], None]) -> bool:
        """Let the thread call ``then`` when it ends; ``False`` if it has already ended."""
        if self.ended:
            return False
        self._waiting.append(then)  # before the next check: the thread reads this after it has set its end
        return not self.ended

    def end(self) -> None:
        """Notify the waiting reader, in the thread."""
        self.ended = True
        waiting, self._waiting = self._waiting, []
        for then in waiting:
            then()


class AheadBlock:
    """Bytes of a segment, ``length`` of them from ``first`` on. The last requested record is at ``last``."""

    __slots__ = ("data", "file", "first", "last", "length", "passed", "segment", "shared", "stretch", "used")

    def __init__(self, file: File, segment: int, first: int, last: int, length: int) -> None:
        self.file = file
        self.segment = segment  # its number
        self.first = first
        self.last = last
        self.length = length
        self.data = b""  # all of them, when they were read
        self.stretch = AheadStretch()
        self.used = True  # requested, or read from, since the last check
        self.passed = False  # it has been read from
        self.shared = False  # requested more than once: its reader is not the only one

    @property
    def end(self) -> int:
        """Return the offset behind its bytes."""
        return self.first + self.length

    def run(self) -> None:
        """Read, in the thread. With one call: for each the thread waits until the event loop lets it run."""
        try:
            data = self.file.read(self.first, self.length)
            if len(data) == self.length:
                self.data = data
        except OSError as error:  # its reader reads from disk itself, and gets the error
            logger.debug("message log: cannot read ahead in segment %d: %s", self.segment, error)
        finally:
            self.stretch.end()


class ReadAhead:
    """The blocks there are. ``submit`` has a thread run something; without it there are none."""

    def __init__(self) -> None:
        self.submit: Callable[[Callable[[], None]], None] | None = None
        self._blocks: list[AheadBlock] = []  # oldest first
        self._closing: list[File] = []  # when the thread is done with them

    @property
    def bytes(self) -> int:
        """Bytes of all blocks, read or to be read."""
        return sum([block.length for block in self._blocks])

    def ask(self, file: File, segment: int, first: int, last: int, length: int) -> AheadBlock | None:
        """Start reading a range, without the beginning that other blocks have.

        Returns the block with its end, if there is one or there is room for it. Queues whose messages alternate in the
        log request nearly the same.
        """
        if self.submit is None:
            return None
        end = first + length
        start = self._near_end(segment, first)
        while (block := self._with(segment, start)) is not None:
            block.used = block.shared = True
            if block.end >= end:
                return block
            start = block.end
        length = end - start
        if length < BLOCK_BYTES_LEAST or not self._make_room(length):
            return None
        block = AheadBlock(file, segment, start, last, length)
        self._blocks.append(block)
        self.submit(block.run)
        return block

    def find(self, segment: int, offset: int, last: int) -> AheadBlock | None:
        """Return the block, if one was read, with the byte at an offset of a segment.

        It is read from up to the record at ``last``, which may be in a later one.
        """
        block = self._with(segment, offset)
        if block is None or not block.data:
            return None
        block.used = block.passed = True
        if last >= block.last and not block.shared:
            self._blocks.remove(block)
        return block

    def release(self, segment: int) -> None:
        """Drop the blocks of a segment that is removed or replaced by another file."""
        self._drop([block for block in self._blocks if block.segment == segment])

    def close(self, file: File) -> None:
        """Close a file, when the thread is done with it: its descriptor may be that of another one afterwards."""
        self._closing.append(file)
        self._drop([])

    def tidy(self) -> None:
        """Drop blocks neither requested nor read from since the last call, except those the thread has only read
        since."""
        self._drop([block for block in self._blocks if not block.used])
        for block in self._blocks:
            block.used = not block.stretch.ended

    def _near_end(self, segment: int, first: int) -> int:
        """Return the end of a block a little before an offset, so that another begins there; else the offset."""
        ends = [block.end for block in self._blocks if block.segment == segment]
        return max([end for end in ends if 0 <= first - end <= NEAR_BYTES_MAX], default=first)

    def _with(self, segment: int, offset: int) -> AheadBlock | None:
        """Return the block with the byte at an offset of a segment, read or to be read."""
        for block in self._blocks:
            failed = block.stretch.ended and not block.data
            if block.segment == segment and block.first <= offset < block.end and not failed:
                return block
        return None

    def _make_room(self, length: int) -> bool:
        """Drop as many used blocks as necessary, oldest first; return whether there is room."""
        for block in [block for block in self._blocks if block.passed]:
            if self.bytes + length <= AHEAD_BYTES_MAX:
                break
            self._drop([block])
        return self.bytes + length <= AHEAD_BYTES_MAX

    def _drop(self, blocks: list[AheadBlock]) -> None:
        """Hide these blocks. They, and files to be closed, are released when the thread is done with them."""
        for block in blocks:
            block.segment = NOBODY
            block.stretch.dropped = True
        self._blocks = [block for block in self._blocks if block.segment != NOBODY or not block.stretch.ended]
        closing, self._closing = self._closing, []
        for file in closing:
            if any(block.file is file and not block.stretch.ended for block in self._blocks):
                self._closing.append(file)
            else:
                file.close()
