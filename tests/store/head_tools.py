"""A log with files of heads, and what a search process says with and without them."""

from __future__ import annotations

from array import array
from functools import partial

from annulet.core.message.message import Message
from annulet.store.log.log import MessageLog
from annulet.store.searching.search_process import doubtful
from annulet.store.segments.head_blocks import heads_number, heads_path
from annulet.store.segments.head_reading import HeadBlocks
from annulet.store.segments.segment import Segment, segment_name
from tests.store.log.test_log_tools import DIRECTORY, ORIGIN, SEGMENT, flush, space_of
from tests.store.simulated_files import SimulatedFiles

QUEUE = 3
RED = [[b"red"]]


def opened(files: SimulatedFiles, *, heads: bool = True) -> MessageLog:
    return MessageLog.open(DIRECTORY, files=files, segment_bytes=SEGMENT, heads=heads)


def coloured(log: MessageLog, colours: list[bytes], *, size: int = 1000, window: int = 5) -> list[int]:
    """Store a message with each of these headers, so many in a window, and write the heads; return the records."""
    records = []
    for number, colour in enumerate(colours, 1):
        message = Message(colour, bytes(size), ORIGIN, durable=True)
        records.append(log.append(message, [(QUEUE, log.sequences.get(QUEUE, 0) + number)]))
        if number % window == 0:
            flush(log)
    flush(log)
    write_heads(log)
    return records


def write_heads(log: MessageLog) -> None:
    """Have upkeep write what waits, however little."""
    task = space_of(log).heads.task(least=1)
    if task is not None:
        task.run()
        assert task.error is None


def head_files(files: SimulatedFiles) -> list[int]:
    return sorted(number for name in files.names_now if (number := heads_number(name)) is not None)


class Looked:
    """What is said of all records of a segment, by the segment alone and with its heads."""

    def __init__(self, files: SimulatedFiles, segment: Segment, needles: list[list[bytes]]) -> None:
        self.segment = segment
        self.data = bytes(files.names_now[segment_name(segment.number)].data)
        self.heads = bytes(files.names_now[heads_path(segment.path).name].data)
        self.needles = needles
        self.read = 0  # bytes of the segment, with the heads
        self.blocks = HeadBlocks()

    def alone(self, first: int = 0, last: int = -1) -> list[int]:
        return list(doubtful(lambda length, at: self.data[at : at + length], *self._asked(first, last)))

    def beside(self, first: int = 0, last: int = -1) -> list[int]:
        known = partial(
            self.blocks.doubtful,
            lambda length, at: self.heads[at : at + length],
            self.segment.number << 24 | first,
            self.segment.seed,
            self.needles,
        )
        return list(doubtful(self._read, *self._asked(first, last), known))

    def _read(self, length: int, at: int) -> bytes:
        self.read += length
        return self.data[at : at + length]

    def _asked(self, first: int, last: int) -> tuple[array[int], int, list[list[bytes]]]:
        last = last % len(self.segment.offsets)
        return self.segment.offsets[first : last + 1], self.segment.behind(last), self.needles
