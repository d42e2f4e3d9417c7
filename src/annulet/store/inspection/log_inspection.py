"""Inspecting a message log without changing it: the findings of its next start, and figures of each segment."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from annulet.store.database.definitions import KnownQueues
from annulet.store.files.files import UNFINISHED_SUFFIX, File, OsFile
from annulet.store.log.checkpoint import OPEN_MARKER, checkpoint_number
from annulet.store.log.log import NO_RECORDS
from annulet.store.log.recovery import Recovery
from annulet.store.segments.head_blocks import HEADS_SUFFIX
from annulet.store.segments.records import MESSAGE_FIXED, TYPE_MESSAGE, checksum_seed, segment_identity
from annulet.store.segments.scanning import Gap, scan
from annulet.store.segments.segment import segment_name, segment_number

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from annulet.store.segments.interface import Damage, RecoveryReport

INDEX_SUFFIX: Final = ".index"
"""Of files beside segments that are derived from them."""

CLOCK_TOLERANCE_MILLISECONDS: Final = 60_000
"""Largest time of acceptance in the future before the clock is suspected: more than any step of NTP."""


class ReadOnlyFile(OsFile):
    """A read-only file: changing operations have no effect."""

    __slots__ = ()

    def write(self, buffers: Sequence[bytes], offset: int) -> None:
        """Write nothing."""

    def allocate(self, size: int) -> None:
        """Reserve nothing."""

    def truncate(self, size: int) -> None:
        """Cut nothing off."""

    def sync(self) -> None:
        """Have nothing to sync."""


class ReadOnlyFiles:
    """Read-only access to the operating system's files: recovery reads, and its writes are discarded.

    Only segments and checkpoints are shown, so that everything is judged by the records themselves.
    """

    def make_directory(self, path: Path) -> None:
        """Make nothing."""

    def names(self, directory: Path) -> list[str]:
        """List the segments and checkpoints of the directory."""
        names = [path.name for path in directory.iterdir()]
        return [name for name in names if segment_number(name) is not None or checkpoint_number(name) is not None]

    def open(self, path: Path, *, create: bool = False) -> File:
        """Open for reading; a new file discards all writes."""
        return ReadOnlyFile(os.open(os.devnull if create else path, os.O_RDONLY | os.O_CLOEXEC))

    def rename(self, source: Path, target: Path) -> None:
        """Rename nothing."""

    def remove(self, path: Path) -> None:
        """Remove nothing."""

    def sync_directory(self, directory: Path) -> None:
        """Have nothing to sync."""

    def identity(self) -> int:
        """Return no identity; no segment is made."""
        return 0


@dataclass(slots=True)
class SegmentFigures:
    """One segment file: size in bytes, sound records, how many are messages, how many messages some queue needs."""

    number: int
    bytes: int
    records: int = 0
    messages: int = 0
    live: int = 0
    damaged_bytes: int = 0


@dataclass(slots=True)
class LogInspection:
    """The contents of a log directory.

    ``future`` counts messages accepted later than now, ``ahead`` is the largest difference.
    """

    report: RecoveryReport
    segments: list[SegmentFigures] = field(default_factory=list)
    checkpoints: int = 0
    dead_segments: int = 0  # the next start removes them
    closed: bool = True  # the last stop was clean, or there was no start yet
    torn: bool = False  # the crash interrupted a write
    live_by_queue: dict[int, int] = field(default_factory=dict)  # live messages by queue id
    known: KnownQueues = field(default_factory=KnownQueues)  # the queues recorded in the log
    sequences: dict[int, int] = field(default_factory=dict)  # highest sequence by queue id
    future: int = 0
    ahead: int = 0  # milliseconds
    temporary: list[str] = field(default_factory=list)  # names of unfinished files
    orphan_indexes: list[str] = field(default_factory=list)  # names of indexes and heads without a segment
    unknown: list[str] = field(default_factory=list)  # unknown names

    @property
    def damages(self) -> list[Damage]:
        """Every damaged place, with its kind."""
        return self.report.damages


def inspect_log(directory: Path, now: int, progress: Callable[[int, int], None] | None = None) -> LogInspection:
    """Read the whole log in ``directory``; ``now`` is in milliseconds since 1970.

    ``progress`` is called with (segments read, segments in all). Changes nothing. Raises ``OSError`` for unreadable
    files.
    """
    names = [path.name for path in directory.iterdir()]
    recovery = Recovery(directory, ReadOnlyFiles())
    recovery.run()
    found = LogInspection(recovery.report)
    found.closed = OPEN_MARKER not in names
    found.torn = recovery.torn
    found.checkpoints = len(recovery.checkpoint_numbers)
    found.dead_segments = len(recovery.dead)
    found.known = recovery.names
    found.sequences = recovery.sequences
    _sort_names(names, found)
    numbers = sorted(recovery.segments)
    counts: Counter[int] = Counter()
    for place, number in enumerate(numbers):
        segment = recovery.segments[number]
        figures = _read_segment(directory, number, now, found)
        figures.live = segment.live_count
        for ordinal in segment.live_ordinals():
            counts.update(segment.remaining(ordinal))
        found.segments.append(figures)
        if progress is not None:
            progress(place + 1, len(numbers))
    found.live_by_queue = dict(counts)
    return found


def _read_segment(directory: Path, number: int, now: int, found: LogInspection) -> SegmentFigures:
    data = (directory / segment_name(number)).read_bytes()
    figures = SegmentFigures(number, len(data))
    identity, copies = segment_identity(data, number)
    if copies == 0:
        figures.damaged_bytes = len(data.rstrip(b"\0"))
        return figures
    for record in scan(data, checksum_seed(number, identity)):
        if isinstance(record, Gap):
            figures.damaged_bytes += record.end - record.offset
            continue
        figures.records += 1
        if record.type == TYPE_MESSAGE:
            figures.messages += 1
            ahead = MESSAGE_FIXED.unpack_from(data, record.payload)[0] - now
            if ahead > CLOCK_TOLERANCE_MILLISECONDS:
                found.future += 1
                found.ahead = max(found.ahead, ahead)
    return figures


def _sort_names(names: list[str], found: LogInspection) -> None:
    """Tell temporary, orphaned and unknown files from those that belong there."""
    segments = {name for name in names if segment_number(name) is not None}
    for name in sorted(names):
        if name.endswith(UNFINISHED_SUFFIX):
            found.temporary.append(name)
        elif name.endswith((INDEX_SUFFIX, HEADS_SUFFIX)):
            stem = name.rpartition(".")[0]
            if stem not in segments and not (stem.isdecimal() and segment_name(int(stem)) in segments):
                found.orphan_indexes.append(name)
        elif name not in segments and checkpoint_number(name) is None and name not in NO_RECORDS:
            found.unknown.append(name)
