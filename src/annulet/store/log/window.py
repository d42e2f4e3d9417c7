"""The open window: the records appended since the last batch, and their encoding.

Nothing is encoded before the window is sealed, so a message that is settled first costs neither CPU nor disk. The
exception are the oldest of very many, which accumulate if the disk is slow: their heads are encoded as others arrive,
because encoding all at once would block the loop.
"""

from __future__ import annotations

import logging
from array import array
from collections.abc import Sequence
from typing import Final

from librt.strings import BytesWriter

from annulet.core.message.message import Message
from annulet.store.files.files import File
from annulet.store.log.written_mark import Written
from annulet.store.segments.head_blocks import RUN_BYTES_MAX
from annulet.store.segments.interface import Batch
from annulet.store.segments.records import ORDINAL_BITS, encode_message, segment_header, stored_origin
from annulet.store.segments.segment import Segment

logger = logging.getLogger(__name__)

JOIN_BELOW: Final = 512
"""Bodies smaller than this (bytes) are copied behind their record header: cheaper than one more buffer to write."""

RUN_BYTES: Final = 32 << 10
"""Bytes at which a run of heads ends: those of about 200 messages of 1 KiB."""

HEADS_SHARE: Final = 5
"""Records must be this many times as long as their heads (bodies four times) for these to be kept beside them.

Shorter ones are read as quickly as a whole, and the log would grow by more than a fifth.
"""

PREPARED_BEHIND: Final = 2048
"""Messages that follow one in a window before its record's head is encoded in advance: messages of consumers that keep
up are settled by then. The heads of this many are left to the sealing, 3 to 4 ms of the loop; for all that arrived in
40 ms of a slow disk it was 12."""

PREPARED_TOGETHER: Final = 256
"""Heads that are made in advance at once: 0.3 ms of the loop."""

NO_TARGETS: Final[tuple[tuple[int, int], ...]] = ()


class LogTransaction:
    """Records appended and settled by an open transaction."""

    __slots__ = ("_expected", "_own", "_own_batch", "promised", "records", "settled")

    def __init__(self) -> None:
        self.records: array[int] = array("Q")
        self.settled: list[int] = []  # queue id, record id, queue id, …
        self.promised = 0  # bytes set aside for it
        self._expected: dict[int, int] = {}  # bytes of the messages among these, by their identity
        self._own = 0
        self._own_batch = 0

    def add(self, record: int, batch: int) -> None:
        """Note a record appended to the window that will be ``batch``."""
        self.records.append(record)
        if batch != self._own_batch:
            self._own_batch = batch
            self._own = 0
        self._own += 1

    def expect(self, message: Message, size: int) -> None:
        """Note that a message will come for which room is set aside. It must not end before."""
        self._expected[id(message)] = self._expected.get(id(message), 0) + size

    def expected(self, message: Message, size: int) -> bool:
        """Return whether ``size`` bytes of a message are promised, and take them from what is."""
        if self._expected.get(id(message), 0) < size or self.promised < size:
            return False
        self._expected[id(message)] -= size
        self.promised -= size
        return True

    def own(self, batch: int) -> int:
        """Return how many of its records are in the window that will be ``batch``."""
        return self._own if batch == self._own_batch else 0


class WindowPart:
    """The window's records of one segment. Entry ``i`` has ordinal ``first + i``; ``None`` = cancelled."""

    __slots__ = (
        "base",
        "controls",
        "first",
        "heads",
        "messages",
        "segment",
        "settled",
        "sizes",
        "targets",
        "transactions",
    )

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.first = len(segment.offsets)
        self.base = segment.number << ORDINAL_BITS | self.first  # record id of the first entry
        self.messages: list[Message | None] = []
        self.heads: list[bytes] = []  # of the first entries, encoded in advance; empty if not needed
        self.targets: list[Sequence[tuple[int, int]]] = []
        self.sizes: list[int] = []
        self.transactions: dict[int, int] = {}  # entry -> transaction
        self.settled: dict[int, list[int]] = {}  # entry -> queues that settled it, while others have not
        self.controls: list[tuple[int, bytes, int]] = []  # (type, payload, transaction)

    def drop(self, entry: int) -> int:
        """Cancel an entry; return its size in bytes."""
        self.messages[entry] = None
        if entry < len(self.heads):
            self.heads[entry] = b""
        self.targets[entry] = NO_TARGETS
        self.settled.pop(entry, None)
        self.transactions.pop(entry, None)
        return self.sizes[entry]

    def live_count(self) -> int:
        """Return how many entries some queue still needs."""
        left = sum(1 for message in self.messages if message is not None)
        return left - sum(len(queues) == len(self.targets[entry]) for entry, queues in self.settled.items())

    def prepare(self, batch: int) -> None:
        """Make the heads of entries ``PREPARED_BEHIND`` the last in advance, when there are ``PREPARED_TOGETHER``."""
        heads, messages = self.heads, self.messages
        if len(messages) < len(heads) + PREPARED_BEHIND + PREPARED_TOGETHER:
            return
        for entry in range(len(heads), len(heads) + PREPARED_TOGETHER):
            message = messages[entry]
            heads.append(b"" if message is None else self._head(entry, message, batch))

    def _head(self, entry: int, message: Message, batch: int) -> bytes:
        """Return all of an entry's record but the body."""
        transaction = self.transactions.get(entry, 0) if self.transactions else 0
        targets, seed = self.targets[entry], self.segment.seed
        origin = stored_origin(message.origin)
        return encode_message(message, origin, targets, self.first + entry, batch, transaction, seed)

    def encode(self, batch: int, sequences: dict[int, int], runs: list[HeadRun] | None) -> tuple[list[bytes], int]:
        """Turn the part into buffers, enter its records into the segment, and return (buffers, records).

        Ordinals of cancelled entries at the end are released, so that a queue that keeps up uses none. ``runs`` gets
        the heads if they are kept.
        """
        heads = BytesWriter()  # each is copied at once, while the processor has it in its caches
        begun = self.segment.size  # place of the first of the heads
        segment = self.segment
        prepared = self.heads
        ready = len(prepared)
        offset = segment.size
        buffers: list[bytes] = []
        messages = self.messages
        while messages and messages[-1] is None:
            messages.pop()
        count = 0
        for entry, message in enumerate(messages):
            if message is None:
                segment.add_hole()
            else:
                targets = self.targets[entry]
                head = prepared[entry] if entry < ready else self._head(entry, message, batch)
                body = message.body
                if len(body) < JOIN_BELOW:
                    buffers.append(head + body)
                else:
                    buffers.append(head)
                    buffers.append(body)
                segment.add(offset, targets)
                offset += self.sizes[entry]
                count += 1
                if runs is not None:
                    heads.write(head)
                    if len(heads) >= RUN_BYTES:
                        end_run(segment, begun, offset, heads, runs)
                        begun = offset
                for queue_id, sequence in targets:
                    if sequence > sequences.get(queue_id, 0):
                        sequences[queue_id] = sequence
        segment.size = offset
        if runs is not None:
            end_run(segment, begun, offset, heads, runs)
        return buffers, count


class HeadRun:
    """Heads of adjacent messages in a segment, from ``first`` to ``end``."""

    __slots__ = ("end", "first", "heads", "segment")

    def __init__(self, segment: Segment, first: int, end: int, heads: bytes) -> None:
        self.segment = segment
        self.first = first
        self.end = end
        self.heads = heads


def end_run(segment: Segment, first: int, end: int, heads: BytesWriter, runs: list[HeadRun]) -> None:
    """Add a run of these heads to ``runs`` if it is worth keeping; there are no heads afterwards."""
    size = len(heads)
    if size and size * HEADS_SHARE <= end - first and size <= RUN_BYTES_MAX:
        runs.append(HeadRun(segment, first, end, heads.getvalue()))
    heads.truncate(0)


class WritePart:
    """Buffers for one place of one segment. ``final_size`` >= 0: the segment is complete; cut it to that size."""

    __slots__ = ("buffers", "file", "final_size", "offset", "segment")

    def __init__(self, segment: Segment, offset: int, buffers: list[bytes]) -> None:
        assert segment.file is not None
        self.segment = segment
        self.file: File = segment.file
        self.offset = offset
        self.buffers = buffers
        self.final_size = -1

    def add_header(self) -> None:
        """Put the segment's header in front: the part is the first of its segment."""
        header = segment_header(self.segment.number, self.segment.identity)
        self.buffers.insert(0, header)
        self.offset -= len(header)

    def write(self) -> None:
        """Disk thread: write, cut a full segment to its size, sync."""
        self.file.write(self.buffers, self.offset)
        if self.final_size >= 0:
            self.file.truncate(self.final_size)
        self.file.sync()

    def withdraw(self) -> None:
        """Disk thread, after an error: try to hide unconfirmed records from recovery."""
        try:
            self.file.truncate(self.offset)
        except OSError as error:
            logger.warning("message log: cannot cut segment %d back: %s", self.segment.number, error)


class LogBatch(Batch):
    """A sealed window as buffers."""

    __slots__ = ("closing", "names", "parts", "runs", "settles_all", "sync_directory", "written")

    def __init__(self, number: int) -> None:
        super().__init__(number, 0)
        self.parts: list[WritePart] = []
        self.runs: list[HeadRun] = []  # heads to be kept beside the segments, once it is durable
        self.sync_directory = False
        self.settles_all = True  # no settlement was left waiting in memory for disk space
        self.closing: list[Segment] = []  # written for the last time
        self.names: list[bytes] = []  # of queues that were declared or deleted since the batch before
        self.written = Written(number)  # the position to mark when it is durable
