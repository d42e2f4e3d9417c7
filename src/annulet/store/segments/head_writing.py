"""Writing the files of heads: behind the log, by the thread of upkeep.

A window's heads are added when the window is durable, and are written in groups. No message waits for it, nothing is
synced, and heads that cannot be written are left out: searches read the segment there.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from annulet.store.segments.head_blocks import BLOCK_BYTES, encode_block, heads_path
from annulet.store.segments.interface import MaintenanceTask

if TYPE_CHECKING:
    from annulet.store.files.files import File, FileSystem
    from annulet.store.log.window import HeadRun
    from annulet.store.segments.segment import Segment

logger = logging.getLogger(__name__)

PENDING_LEAST: Final = 256 << 10
"""Bytes that are written at once: 1400 messages of 1 KiB. Fewer wait for more."""

PENDING_BYTES_MAX: Final = 8 << 20
"""Bytes that wait to be written.

Upkeep runs four times a second, so 180,000 messages of 1 KiB a second leave as much time for its other work; messages
beyond that get no heads.
"""

REMEDY: Final = "selectors find the same, reading the segments; check the disk"


class HeadWriter:
    """Appends blocks to the file of one segment after the other. Belongs to the thread of upkeep."""

    def __init__(self, files: FileSystem) -> None:
        self.written = self.dropped = self.failures = 0  # bytes of files, bytes of heads, files given up
        self._files = files
        self._file: File | None = None
        self._number = -1  # of the segment whose file this is, or was until it was abandoned
        self._end = 0
        self._failing = False

    def write(self, runs: Iterable[HeadRun]) -> None:
        """Append them, which ascend. A file that the disk refuses is given up, up to the next segment."""
        for segment, block in _blocks(runs):
            try:
                self._append(segment, block)
            except OSError as error:
                self._give_up(segment, error)
            if self._file is None:
                self.dropped += sum([len(run.heads) for run in block])

    def close(self) -> None:
        """Close the file. Later writes start it again."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _append(self, segment: Segment, block: list[HeadRun]) -> None:
        if segment.number != self._number:
            self.close()
            self._number = segment.number
            self._end = 0
            self._file = self._files.open(heads_path(segment.path), create=True)
        if self._file is not None:
            buffers = encode_block([(run.first, run.end, run.heads) for run in block], segment.seed)
            self._file.write(buffers, self._end)
            size = sum(map(len, buffers))
            self._end += size
            self.written += size
            self._failing = False

    def _give_up(self, segment: Segment, error: OSError) -> None:
        """Abandon the file: a truncated block is not accepted. Log this once until one can be written."""
        self.failures += 1
        if not self._failing:
            logger.warning("message log: heads of segment %d not written: %s; %s", segment.number, error, REMEDY)
        self._failing = True
        self.close()


class HeadTask(MaintenanceTask):
    """Writes waiting heads. It raises nothing: refused writes are abandoned."""

    def __init__(self, runs: list[HeadRun], writer: HeadWriter) -> None:
        self._runs = runs
        self._writer = writer

    def work(self) -> None:
        """Write them."""
        self._writer.write(self._runs)


class PendingHeads:
    """Heads of durable windows until they are written. Belongs to the event loop. ``active``: heads are written."""

    def __init__(self, files: FileSystem) -> None:
        self.active = False
        self.bytes = 0
        self._dropped = 0
        self._runs: list[HeadRun] = []
        self._writer = HeadWriter(files)

    def add(self, runs: list[HeadRun], *, takes_heads: bool) -> None:
        """Take those of a durable window, as many as there is room for. A full disk is left to the messages."""
        for run in runs:
            if not takes_heads or self.bytes + len(run.heads) > PENDING_BYTES_MAX:
                self._dropped += len(run.heads)
            else:
                self.bytes += len(run.heads)
                self._runs.append(run)

    def task(self, least: int = PENDING_LEAST) -> HeadTask | None:
        """Return the task that writes the waiting ones, if they have this many bytes."""
        if self.bytes < least or not self._runs:
            return None
        task = HeadTask(self._runs, self._writer)
        self._runs, self.bytes = [], 0
        return task

    def forget(self, numbers: Container[int]) -> None:
        """Drop those of segments that go, or are replaced."""
        self._runs = [run for run in self._runs if run.segment.number not in numbers]
        self.bytes = sum([len(run.heads) for run in self._runs])

    def figures(self) -> dict[str, int]:
        """Return bytes written, bytes of heads that were not, files given up and bytes that wait, as the statistics
        name them.
        """
        return {
            "heads_bytes_written": self._writer.written,
            "heads_bytes_dropped": self._dropped + self._writer.dropped,
            "heads_failures": self._writer.failures,
            "heads_bytes_pending": self.bytes,
        }

    def close(self, *, write: bool) -> None:
        """Write the rest, or drop it, and close the file. No task may be under way."""
        task = self.task(least=1) if write else None
        if task is not None:
            task.run()
        self._dropped += self.bytes
        self._runs, self.bytes = [], 0
        self._writer.close()


def _blocks(runs: Iterable[HeadRun]) -> Iterator[tuple[Segment, list[HeadRun]]]:
    """Yield the runs of each block: runs of one segment, until they are long enough."""
    block: list[HeadRun] = []
    size = 0
    for run in runs:
        if block and (size >= BLOCK_BYTES or run.segment is not block[0].segment):
            yield block[0].segment, block
            block, size = [], 0
        block.append(run)
        size += len(run.heads)
    if block:
        yield block[0].segment, block
