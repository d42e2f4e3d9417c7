"""Delivery counts as written to the history: a byte each, in blocks of neighbouring sequences.

A consumer that dies may return a million messages at once. As a tuple and a row of a table each they took 3 us of the
loop and as much of the disk thread, and 250 bytes until they were written; as bytes of a block it is a twentieth.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from annulet.core.model.compact_messages import CompactDelivery
    from annulet.core.model.entry import QueueEntry

BLOCK_BITS: Final = 9
"""A block has the counts of 512 sequences: two thousand rows of the table for a million returned messages."""

BLOCK_SEQUENCES: Final = 1 << BLOCK_BITS
BLOCK_MASK: Final = BLOCK_SEQUENCES - 1

COUNT_MOST: Final = 254
"""The highest count that fits into a byte beside the code for no count. Higher ones are separate rows."""

_COUNTS: Final = bytes([0, *range(COUNT_MOST + 1)])
"""The meaning of each code: no count, and counts one lower than their codes."""

_UNTOUCHED: Final = bytes([255, *bytes(COUNT_MOST + 1)])
"""All bits where nothing was noted, none where something was."""

_NOTHING: Final = bytes(BLOCK_SEQUENCES)


def only_counted(entry: QueueEntry) -> bool:
    """Return whether an entry has no time of its sender's to wait for, and a count that has room in a byte."""
    return entry.delivery_count <= COUNT_MOST and entry.message.deliver_at == 0


class CountNotes:
    """The last count noted of each message, by queue id, block and place in it: 0 for nothing, else the count and 1."""

    def __init__(self) -> None:
        self.blocks: dict[int, dict[int, bytearray]] = {}

    def __bool__(self) -> bool:
        """Whether anything was noted."""
        return bool(self.blocks)

    def note(self, queue_id: int, sequence: int, count: int) -> None:
        """Note how often a message was returned, ``COUNT_MOST`` at most; 0 removes its count."""
        self.block_of(queue_id, sequence >> BLOCK_BITS)[sequence & BLOCK_MASK] = count + 1

    def note_entries(self, queue_id: int, entries: list[QueueEntry]) -> list[QueueEntry]:
        """Note how often each stored one of these was returned, and return those with more state than the count.

        A million may be returned at once.
        """
        apart: list[QueueEntry] = []
        number: i64 = -1
        block = bytearray()
        for entry in entries:
            if not entry.message.record:
                continue
            if not only_counted(entry):
                apart.append(entry)
                continue
            sequence: i64 = entry.sequence
            if sequence >> BLOCK_BITS != number:
                number = sequence >> BLOCK_BITS
                block = self.block_of(queue_id, number)
            block[sequence & BLOCK_MASK] = entry.delivery_count + 1
        return apart

    def note_folded(self, queue_id: int, messages: list[CompactDelivery]) -> None:
        """Note how often these were returned, up to the largest count of a byte."""
        number: i64 = -1
        block = bytearray()
        for held in messages:
            sequence: i64 = held.sequence
            if sequence >> BLOCK_BITS != number:
                number = sequence >> BLOCK_BITS
                block = self.block_of(queue_id, number)
            block[sequence & BLOCK_MASK] = held.link.delivery_count + 1

    def block_of(self, queue_id: int, number: int) -> bytearray:
        """Return the counts of block ``number`` for changes: each count plus 1 at its place."""
        blocks = self.blocks.get(queue_id)
        if blocks is None:
            blocks = self.blocks[queue_id] = {}
        block = blocks.get(number)
        if block is None:
            block = blocks[number] = bytearray(BLOCK_SEQUENCES)
        return block

    def note_none(self, queue_id: int, first: int, last: int) -> None:
        """Remove the counts of all messages from one sequence to another."""
        for number, start, end in _parts(first, last):
            self.block_of(queue_id, number)[start:end] = b"\1" * (end - start)

    def noted(self, queue_id: int, sequence: int) -> int:
        """Return the count noted of a message, -1 when none was."""
        block = self.blocks.get(queue_id, {}).get(sequence >> BLOCK_BITS)
        return -1 if block is None else block[sequence & BLOCK_MASK] - 1

    def absorb(self, later: CountNotes) -> None:
        """Append later notes."""
        for queue_id, blocks in later.blocks.items():
            mine = self.blocks.setdefault(queue_id, {})
            for number, block in blocks.items():
                before = mine.get(number)
                mine[number] = block if before is None else bytearray(_overlaid(before, block, block))


class KnownCounts:
    """The counts of the history at a start, taken out by the queues that are recovered: bytes, no object per
    message."""

    def __init__(self) -> None:
        self._blocks: dict[int, dict[int, bytearray]] = {}  # by queue id and number

    def add(self, queue_id: int, number: int, counts: bytes) -> None:
        """Add a block of the history."""
        self._blocks.setdefault(queue_id, {})[number] = bytearray(counts)

    def take(self, queue_id: int, sequence: int) -> int:
        """Return the count of a message, and forget it; 0 where there is none."""
        counts = self.take_all(queue_id, [sequence])
        return counts[0] if counts else 0

    def take_all(self, queue_id: int, sequences: Sequence[int]) -> Sequence[int]:
        """Return the counts of messages with these ascending sequences, and forget them; nothing where none has one."""
        blocks = self._blocks.get(queue_id)
        if not blocks or not sequences:
            return b""
        parts = [part for part in _parts(sequences[0], sequences[-1]) if part[0] in blocks]
        if not parts:
            return b""
        if len(sequences) == sequences[-1] - sequences[0] + 1:
            found = bytearray(len(sequences))
            for number, start, end in parts:
                place = (number << BLOCK_BITS) + start - sequences[0]
                found[place : place + end - start] = blocks[number][start:end]
                blocks[number][start:end] = bytes(end - start)
            return found if any(found) else b""
        counts: list[int] = []
        for sequence in sequences:
            block = blocks.get(sequence >> BLOCK_BITS, _NOTHING)
            counts.append(block[sequence & BLOCK_MASK])
            if counts[-1] and isinstance(block, bytearray):
                block[sequence & BLOCK_MASK] = 0
        return counts if any(counts) else b""

    def left(self) -> Iterator[tuple[int, int]]:
        """Yield queue id and sequence of each whose count was not taken."""
        for queue_id, blocks in self._blocks.items():
            for number, counts in blocks.items():
                for sequence in counts_in(counts, number):
                    yield queue_id, sequence


def counts_after(counts: bytes, notes: bytearray) -> bytes:
    """Return the counts of a block with its notes applied. Empty if all are 0; ``counts`` may be empty as well."""
    after = _overlaid(counts or _NOTHING, notes, notes.translate(_COUNTS))
    return b"" if after.count(0) == BLOCK_SEQUENCES else after


def counts_in(counts: bytes | bytearray, number: int) -> dict[int, int]:
    """Return the counts of block ``number`` by sequence, those of 0 left out."""
    first = number << BLOCK_BITS
    return {first + place: count for place, count in enumerate(counts) if count}


def _parts(first: int, last: int) -> list[tuple[int, int, int]]:
    """Return the blocks in which sequences lie: the number of each, and from where in it to behind where they do."""
    numbers = range(first >> BLOCK_BITS, (last >> BLOCK_BITS) + 1)
    starts = [number << BLOCK_BITS for number in numbers]
    return [
        (number, max(first - start, 0), min(last - start + 1, BLOCK_SEQUENCES))
        for number, start in zip(numbers, starts, strict=True)
    ]


def _overlaid(below: bytes | bytearray, notes: bytearray, above: bytes | bytearray) -> bytes:
    """Return ``above`` where something was noted, else ``below``. All bytes of a block at a time."""
    kept = int.from_bytes(below, "little") & int.from_bytes(notes.translate(_UNTOUCHED), "little")
    return (kept | int.from_bytes(above, "little")).to_bytes(BLOCK_SEQUENCES, "little")
