"""Quarantine: the bytes of damaged records, set aside for people before anything rewrites their segment.

Each damaged place becomes two files, ``SEGMENT-OFFSET.record`` with the original bytes and ``SEGMENT-OFFSET.json`` with
segment, offset, length and reason. It is evidence: the broker never reads it back, only the operator removes it, and
damage beyond the bounds is counted and not kept.
"""

from __future__ import annotations

import json
import logging
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from annulet.store.files.data_format import LOG_DIRECTORY, QUARANTINE_DIRECTORY
from annulet.store.segments.interface import MaintenanceTask
from annulet.store.segments.scanning import Gap, scan

if TYPE_CHECKING:
    from collections.abc import Iterable

    from annulet.store.files.files import FileSystem
    from annulet.store.segments.segment import Segment

logger = logging.getLogger(__name__)

QUARANTINE_RECORDS_MAX: Final = 1000
"""Damaged places kept. A disk that damages more is known to be bad by then."""

QUARANTINE_BYTES_MAX: Final = 64 << 20
"""Bytes kept: four segments, should whole ones be wiped."""

NOTES_MAX: Final = QUARANTINE_RECORDS_MAX
"""Damaged places noted between two rounds of upkeep, a quarter of a second."""

REASON_RECOVERY: Final = "found damaged at start"
REASON_READ: Final = "found damaged when it was read back"
REASON_COMPACTION: Final = "found damaged when its segment was rewritten"

_CONTENT: Final = ".record"
_FACTS: Final = ".json"


def quarantine_directory(log: Path) -> Path:
    """Return the place for damaged records: beside the log of a data directory, inside a log without one."""
    return (log.parent if log.name == LOG_DIRECTORY else log) / QUARANTINE_DIRECTORY


class DamageNote(NamedTuple):
    """A damaged place of a segment. ``length`` 0: up to the next sound record."""

    segment: int
    offset: int
    length: int
    reason: str


class DamageNotes:
    """Damaged places that wait for the disk thread; those beyond :data:`NOTES_MAX` are counted."""

    def __init__(self, notes: Iterable[DamageNote] = ()) -> None:
        self.dropped = 0
        self._notes: deque[DamageNote] = deque()
        for note in notes:
            self.add(note)

    def add(self, note: DamageNote) -> None:
        """Note a place."""
        if len(self._notes) < NOTES_MAX:
            self._notes.append(note)
        else:
            self.dropped += 1

    def take(self) -> list[DamageNote]:
        """Return the waiting places and clear them."""
        notes = list(self._notes)
        self._notes.clear()
        return notes

    def __bool__(self) -> bool:
        return bool(self._notes)


class Quarantine:
    """One directory of set aside records: ``records`` places and ``bytes`` are in it, ``refused`` places are not.

    Belongs to the disk thread once the log is open; the loop reads the figures.
    """

    def __init__(self, directory: Path, files: FileSystem) -> None:
        self.directory = directory
        self.records = 0
        self.bytes = 0
        self.refused = 0
        self._files = files
        self._kept: set[str] = set()
        try:
            self._look()
        except FileNotFoundError:
            return  # the usual case: nothing was ever damaged
        except OSError as error:
            logger.warning("message log: the quarantine %s cannot be read: %s", directory, error)

    def _look(self) -> None:
        for name in self._files.names(self.directory):
            if name.endswith(_FACTS):
                self._kept.add(name.removesuffix(_FACTS))
                content = self._files.open(self.directory / f"{name.removesuffix(_FACTS)}{_CONTENT}")
                self.bytes += content.size()
                content.close()
        self.records = len(self._kept)

    def keep(self, note: DamageNote, data: bytes) -> bool:
        """Set the bytes aside, durably; ``False`` when a bound forbids it. The same place is kept once.

        Raises ``OSError`` when the disk refuses.
        """
        name = f"{note.segment:012d}-{note.offset}"
        if name in self._kept:
            return True
        if self.records >= QUARANTINE_RECORDS_MAX or self.bytes + len(data) > QUARANTINE_BYTES_MAX:
            self.refused += 1
            return False
        facts = {"segment": note.segment, "offset": note.offset, "length": len(data), "reason": note.reason}
        try:
            self._files.make_directory(self.directory)
            self._write(f"{name}{_CONTENT}", data)
            self._write(f"{name}{_FACTS}", json.dumps(facts).encode() + b"\n")
            self._files.sync_directory(self.directory)
        except OSError:
            self.refused += 1
            raise
        self._kept.add(name)
        self.records += 1
        self.bytes += len(data)
        logger.error(
            "message log: %d damaged bytes at offset %d of segment %d, %s, are kept in %s",
            len(data),
            note.offset,
            note.segment,
            note.reason,
            self.directory / name,
        )
        return True

    def _write(self, name: str, data: bytes) -> None:
        file = self._files.open(self.directory / name, create=True)
        try:
            file.write([data], 0)
            file.sync()
        finally:
            file.close()


class QuarantineTask(MaintenanceTask):
    """Copies the noted places to quarantine.

    Reads the segments again, so that records which were misread but are valid are left out.
    """

    def __init__(
        self, notes: list[DamageNote], segments: dict[int, Segment], quarantine: Quarantine, files: FileSystem
    ) -> None:
        self._places = [(note, segments[note.segment]) for note in notes if note.segment in segments]
        self._quarantine = quarantine
        self._files = files

    def work(self) -> None:
        """Read each segment once. The first error of the disk is raised after all notes were tried."""
        failure: OSError | None = None
        by_segment: dict[int, list[tuple[DamageNote, Segment]]] = {}
        for note, segment in self._places:
            by_segment.setdefault(note.segment, []).append((note, segment))
        for places in by_segment.values():
            try:
                self._keep_all(places)
            except OSError as error:
                failure = failure or error
        if failure is not None:
            raise failure

    def _keep_all(self, places: list[tuple[DamageNote, Segment]]) -> None:
        segment = places[0][1]
        file = self._files.open(segment.path)
        try:
            data = file.read(0, file.size())
        finally:
            file.close()
        known = 0  # up to here everything was judged
        for note, _ in sorted(places, key=lambda place: place[0].offset):
            if note.offset < known:
                continue
            length = note.length or gap_length(data, segment.seed, note.offset)
            if length:
                known = note.offset + length
                self._quarantine.keep(note, data[note.offset : known])


def gap_length(data: bytes, seed: int, offset: int) -> int:
    """Return how many bytes from ``offset`` on are no sound record; 0 when there is one."""
    first = next(scan(data, seed, offset), None)
    return first.end - offset if isinstance(first, Gap) else 0
