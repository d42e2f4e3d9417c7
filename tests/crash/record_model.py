"""What the records of a log say is there, with one of them damaged or none: as docs/durability.md has it, and no more.

Knows the bytes of records and of the newest checkpoint, and nothing of how a start goes through them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from annulet.store.files.data_format import LOG_DIRECTORY
from annulet.store.files.files import OsFileSystem
from annulet.store.log.checkpoint import Checkpoint, load
from annulet.store.segments.records import (
    HEADER,
    ORDINAL_BITS,
    SEGMENT_HEADER_SIZE,
    TYPE_COMMIT,
    TYPE_DISCARD,
    TYPE_FORGET,
    TYPE_MESSAGE,
    TYPE_SEAL,
    TYPE_SETTLE,
    TYPE_VOID,
    Commit,
    Record,
    checksum_seed,
    decode_commit,
    decode_message,
    decode_seal,
    decode_targets,
    segment_identity,
    unpack_numbers,
)
from annulet.store.segments.scanning import Gap, scan
from annulet.store.segments.segment import segment_name, segment_number

KINDS: Final = {
    TYPE_MESSAGE: "message", TYPE_SETTLE: "settlement", TYPE_COMMIT: "commit", TYPE_FORGET: "deleted queue",
    TYPE_SEAL: "seal", TYPE_VOID: "void", TYPE_DISCARD: "discard",
}  # fmt: skip
Pair = tuple[int, int]
"""Queue id and record id."""


class Logged(NamedTuple):
    """A record. ``covered``: the newest checkpoint is behind it. ``at_end``: it is in the last window."""

    segment: int
    record: Record
    content: bytes
    covered: bool
    at_end: bool
    targets: tuple[tuple[int, int], ...] = ()  # of a message: queue id, sequence
    body: bytes = b""

    @property
    def id(self) -> int:
        return self.segment << ORDINAL_BITS | self.record.ordinal

    def numbers(self) -> list[int]:
        return list(unpack_numbers(self.content))

    @property
    def kind(self) -> str:
        """What it is, of several queues or in a transaction, and where it is."""
        parts = [KINDS[self.record.type]]
        if len(self.targets) > 1:
            parts.append("of several queues")
        if self.record.transaction:
            parts.append("in a transaction")
        if self.covered or self.at_end:
            parts.append("before the checkpoint" if self.covered else "of the last window")
        return " ".join(parts)

    @property
    def may_be_torn(self) -> bool:
        """Damage to it cannot be told from a write that the crash interrupted."""
        return self.at_end and not self.covered

    def commits(self) -> list[Commit]:
        if self.record.type == TYPE_COMMIT:
            return [decode_commit(self.content)]
        return decode_seal(self.content)[1] if self.record.type == TYPE_SEAL else []


class LogModel:
    """The log of a data directory nobody has damaged yet."""

    def __init__(self, data: Path) -> None:
        self.directory = data / LOG_DIRECTORY
        names = [path.name for path in self.directory.iterdir()]
        base, _ = load(self.directory, OsFileSystem(), names)
        self.checkpoint = base or Checkpoint()
        numbers = sorted(number for name in names if (number := segment_number(name)) is not None)
        found = [logged for number in numbers for logged in self._read(number)]
        last = max(logged.record.batch for logged in found)
        self.records = [logged._replace(at_end=logged.record.batch == last) for logged in found]

    def _read(self, number: int) -> Iterator[Logged]:
        data = (self.directory / segment_name(number)).read_bytes()
        identity, _ = segment_identity(data, number)
        for record in scan(data, checksum_seed(number, identity)):
            assert not isinstance(record, Gap)
            covered = (number, record.offset) < (self.checkpoint.segment, self.checkpoint.offset)
            logged = Logged(number, record, data[record.payload : record.end], covered, at_end=False)
            if record.type == TYPE_MESSAGE:
                body = decode_message(data, record).body
                logged = logged._replace(targets=tuple(decode_targets(data, record)), body=body)
            yield logged

    def at(self, segment: int, place: int) -> Logged | None:
        """Return the record that a byte belongs to; ``None`` for those of the segment's header."""
        for logged in self.records:
            if logged.segment == segment and logged.record.offset <= place < logged.record.end:
                return logged
        assert place < SEGMENT_HEADER_SIZE
        return None

    def settled_since(self, message: Logged) -> bool:
        """Say whether some queue has settled a message since the checkpoint."""
        since = [logged for logged in self.records if not logged.covered and logged.record.type == TYPE_SETTLE]
        return any(message.id in logged.numbers()[1::2] for logged in since)

    def live(self, damaged: Logged | None = None, *, ranges: bool = True) -> dict[int, list[bytes]]:
        """Return the bodies of what a start finds, by queue id and in their order.

        The damaged message is not there, and what a damaged record settled is, where no checkpoint knows better. In the
        last window damage cannot be told from a write that the crash interrupted: none of its settlements count then,
        and of its transactions those alone of which all records are there. Without ``ranges``, what was purged or
        deleted since the checkpoint is there as well.
        """
        committed = self._committed(damaged)
        torn = damaged is not None and damaged.may_be_torn
        gone: set[Pair] = set()
        for logged in self.records:
            known = logged.covered or (logged is not damaged and (ranges or logged.record.type == TYPE_SETTLE))
            ignored = torn and logged.may_be_torn and not logged.record.transaction
            if known and not ignored and _counts(logged, committed):
                gone.update(self._settled(logged))
        found: defaultdict[int, list[tuple[int, bytes]]] = defaultdict(list)
        for logged in self.records:
            if logged is damaged or not _counts(logged, committed):
                continue
            for queue_id, sequence in logged.targets:
                if (queue_id, logged.id) not in gone:
                    found[queue_id].append((sequence, logged.body))
        return {queue_id: [body for _, body in sorted(pairs)] for queue_id, pairs in found.items()}

    def _committed(self, damaged: Logged | None) -> set[int]:
        """Return the transactions that count."""
        committed = {
            commit.transaction
            for logged in self.records
            if logged is not damaged or logged.covered
            for commit in logged.commits()
        }
        if damaged is not None and damaged.may_be_torn and damaged.record.type != TYPE_COMMIT:
            committed.discard(damaged.record.transaction)
        return committed

    def _settled(self, logged: Logged) -> Iterator[Pair]:
        """Yield what a record says is settled."""
        if logged.record.type == TYPE_SETTLE:
            numbers = logged.numbers()
            yield from zip(numbers[::2], numbers[1::2], strict=True)
        elif logged.record.type in (TYPE_DISCARD, TYPE_FORGET):
            ranges = _ranges(logged)
            for message in self.records:
                for queue_id, _ in message.targets:
                    if any(queue_id == of and first <= message.id <= last for of, first, last in ranges):
                        yield queue_id, message.id


def _counts(logged: Logged, committed: set[int]) -> bool:
    return not logged.record.transaction or logged.record.transaction in committed


def _ranges(logged: Logged) -> list[tuple[int, int, int]]:
    """Return what a discard or the end of a queue lets go: queue id, first and last record."""
    numbers = logged.numbers()
    if logged.record.type == TYPE_FORGET:
        return [(queue_id, 0, logged.segment + 1 << ORDINAL_BITS) for queue_id in numbers]
    return list(zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True))


def places_of(logged: Logged) -> dict[str, range]:
    """Return the parts of a record by what a flipped bit in them hits."""
    start, end = logged.record.offset, logged.record.end
    parts = {"magic": range(start, start + 4), "checksum": range(start + 4, start + 8)}
    parts |= {"length": range(start + 8, start + 12), "header": range(start + 12, start + HEADER.size)}
    parts["content"] = range(start + HEADER.size, end)
    return {name: part for name, part in parts.items() if part}
