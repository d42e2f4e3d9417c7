"""The spill store: bodies that are not in the message log, in temporary files, while memory has no room for them.

Files are numbered, append-only and never synced: their contents are worthless after a restart, so an opened store is
empty. Users of a body keep its :class:`SpilledBody`; the space is released when no reference is left. So no queue,
delivery, transaction or dead letter has to release a body explicitly.

A file without live bodies is removed. The live bodies of a mostly dead file are moved behind the newest, so that files
take at most four times the size of their live bodies, not counting the newest and the one being emptied.

Writing, moving and removing are :class:`SpillWork` with a part for a disk thread; all else belongs to the event loop.
"""

from __future__ import annotations

import errno
import logging
from collections import deque
from typing import TYPE_CHECKING, Final

from annulet.store.files.files import File, FileSystem, OsFileSystem
from annulet.store.segments.interface import DiskWork
from annulet.store.spill.spill_file import DAMAGED, LIVE, RECORD_HEADER, SPAN_BYTES, SpilledBody, SpillFile, spans_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from annulet.core.message.message import BodyPlace

logger = logging.getLogger(__name__)

FILE_BYTES: Final = 64 << 20
"""Size at which a file is ended: the unit of released space, and four times the most that a compaction copies."""

FILE_BYTES_LEAST: Final = 1 << 20
"""The same for small limits, of which a file is an eighth: else no file would ever be ended, let alone removed."""

FILES_WITHIN_LIMIT: Final = 8
"""Files that share a small limit."""

OPEN_FILES_MAX: Final = 16
"""Files kept open, but for those that are being written: connections must not want for descriptors."""

SUFFIX: Final = ".spill"

REFUSALS_BETWEEN_WARNINGS: Final = 240
"""Failed removals of a file between two log lines: a minute of the broker's ticks."""

LIVE_SHARE: Final = 4
"""A file of which less than a quarter is live is compacted: copying one byte gives back more than three."""

MOVE_BODIES: Final = 512
"""Bodies moved at once, beside ``SPAN_BYTES``: planning them takes 1 ms of the event loop."""


class SpillWork(DiskWork):
    """A piece of disk work. ``run`` belongs to the disk thread, afterwards ``finish`` to the event loop."""

    def run(self) -> None:
        """Do the disk work. Raises nothing: otherwise waiting code would never be called."""
        try:
            super().run()
        except Exception as error:
            logger.exception("defect in the spill store")
            self.error = OSError(errno.EIO, f"defect: {error!r}")

    def finish(self) -> None:
        """Let the store know."""
        raise NotImplementedError

    def following(self) -> SpillWork | None:
        """Return the work to continue with after ``finish``, ``None`` when all is done."""
        return None


class SpillWrite(SpillWork):
    """Writes bodies into one file."""

    def __init__(self, store: SpillStore, bodies: list[bytes]) -> None:
        self.file = store.file_for(sum(map(len, bodies)) + RECORD_HEADER.size * len(bodies))
        self.file.works += 1
        self._store = store
        self._bodies = bodies
        self._start = self.file.size
        self.ordinals = [self.file.add(len(body)) for body in bodies]
        store.used += self.file.size - self._start

    def take_places(self) -> list[SpilledBody]:
        """Return the places, readable after ``finish`` unless there is an ``error``. To be called once."""
        return [SpilledBody(self.file, ordinal) for ordinal in self.ordinals]

    def work(self) -> None:
        """Write all with one call."""
        file = self.file
        if file.handle is None:
            file.handle = self._store.files.open(file.path, create=True)
        buffers: list[bytes] = []
        for ordinal, body in zip(self.ordinals, self._bodies, strict=True):
            buffers += (RECORD_HEADER.pack(file.checksum(ordinal, body), len(body)), body)
        file.handle.write(buffers, self._start)

    def finish(self) -> None:
        """Let the bodies be live; a file that refused one gets no more."""
        store, file = self._store, self.file
        file.works -= 1
        store.keep_open(file)
        if self.error is None:
            file.begin_life(self.ordinals[0], len(self.ordinals))
            store.bodies_written += len(self._bodies)
            store.bytes_written += sum(map(len, self._bodies))
        else:
            store.end(file)
        self._bodies = []
        store.look_at(file)


class SpillRemoval(SpillWork):
    """Closes and removes an unused file."""

    def __init__(self, store: SpillStore, file: SpillFile) -> None:
        self._store = store
        self._file = file
        self._handle = store.let_go(file)

    def work(self) -> None:
        """Remove its name last: with the handle closed the system gives the space back."""
        if self._handle is not None:
            self._handle.close()
        self._store.files.remove(self._file.path)

    def finish(self) -> None:
        """Count its space as free, or have it tried again."""
        if self.error is None:
            self._store.used -= self._file.size
            del self._store.all[self._file.number]
            if not self._file.live:  # otherwise the store is closed, and readers get the error of a missing file
                self._file.forget()
        else:
            if self._file.refusals % REFUSALS_BETWEEN_WARNINGS == 0:
                logger.warning("spill store: cannot remove %s: %s; tried again", self._file.path, self.error)
            self._file.refusals += 1
            self._store.empty.append(self._file)


class SpillMove(SpillWork):
    """Reads the first live bodies of an ended file, to have them written behind those of the newest file."""

    def __init__(self, store: SpillStore, file: SpillFile) -> None:
        self._store = store
        self._file = file
        self._ordinals: list[int] = []
        self._bodies: list[bytes | None] = []
        file.works += 1
        size = 0
        ordinal = file.states.find(LIVE)
        while ordinal >= 0 and len(self._ordinals) < MOVE_BODIES:
            start, end = file.extent(ordinal)
            size += end - start
            if self._ordinals and size > SPAN_BYTES:
                break
            self._ordinals.append(ordinal)
            ordinal = file.states.find(LIVE, ordinal + 1)
        self._spans = [
            (file.extent(span[0])[0], file.extent(span[-1])[1], span)
            for _, span in spans_of([(file, live) for live in self._ordinals])
        ]

    def work(self) -> None:
        """Read them."""
        file = self._file
        found: dict[int, bytes | None] = {}
        handle = self._store.files.open(file.path)  # a separate one: the event loop may close the other
        try:
            for start, end, ordinals in self._spans:
                data = handle.read(start, end - start)
                found.update((ordinal, file.body_in(data, start, ordinal)) for ordinal in ordinals)
        finally:
            handle.close()
        self._bodies = [found[ordinal] for ordinal in self._ordinals]

    def finish(self) -> None:
        """Skip an unreadable file until half of its live bodies are released."""
        if self.error is not None:
            self._file.works -= 1
            self._file.unread_bytes = self._file.live_bytes
            logger.warning("spill store: %s cannot be compacted: %s; check the disk", self._file.path, self.error)
            self._store.look_at(self._file)

    def following(self) -> SpillWork | None:
        """Plan to write the valid bodies that are still in use."""
        if self.error is not None:
            return None
        file, kept = self._file, []
        for ordinal, body in zip(self._ordinals, self._bodies, strict=True):
            if file.states[ordinal] == LIVE:
                if body is None:  # its readers get the error
                    file.end_life(ordinal, DAMAGED)
                else:
                    kept.append((ordinal, body))
        self._bodies = []
        if kept:
            return SpillMoved(self._store, file, [ordinal for ordinal, _ in kept], [body for _, body in kept])
        file.works -= 1
        self._store.look_at(file)
        return None


class SpillMoved(SpillWrite):
    """The second half of a move: the bodies are written, and their readers are redirected to the new places."""

    def __init__(self, store: SpillStore, source: SpillFile, ordinals: list[int], bodies: list[bytes]) -> None:
        super().__init__(store, bodies)
        self._source = source
        self._former = ordinals

    def finish(self) -> None:
        """Lead on to the copies those that are still wanted."""
        super().finish()
        source = self._source
        source.works -= 1
        for former, ordinal in zip(self._former, self.ordinals, strict=True):
            if self.error is None:
                self._lead_on(former, ordinal)
        self._store.look_at(source)
        self._store.look_at(self.file)

    def _lead_on(self, former: int, ordinal: int) -> None:
        if self._source.is_live(former):
            self._source.lead_on(former, self.file, ordinal)
        else:  # released in the meantime
            self.file.end_life(ordinal)


class SpillStore:
    """The spilled bodies of one broker, in ``directory``, which is emptied. Raises ``OSError`` when that fails.

    ``limit``: bytes of all files together, for new bodies; during a compaction a quarter of a file more may be used.
    """

    def __init__(
        self, directory: Path, limit: int, files: FileSystem | None = None, file_bytes: int = FILE_BYTES
    ) -> None:
        self.files: FileSystem = OsFileSystem() if files is None else files
        self.limit = limit
        self.file_bytes = max(FILE_BYTES_LEAST, min(file_bytes, limit // FILES_WITHIN_LIMIT))
        self.used = 0  # bytes of all files
        self.all: dict[int, SpillFile] = {}  # by number, oldest first
        self.empty: deque[SpillFile] = deque()  # to be removed
        self.bodies_written = 0
        self.bytes_written = 0
        self._directory = directory
        self._open: dict[int, SpillFile] = {}  # by number, the one used last at the end
        self._tail: SpillFile | None = None
        self._number = 0
        self._released: deque[tuple[SpillFile, int]] = deque()  # by any thread
        self.files.make_directory(directory)
        for name in self.files.names(directory):
            if name.endswith(SUFFIX):
                self.files.remove(directory / name)

    # ------------------------------------------------------------------ contents

    @property
    def bodies(self) -> int:
        """Bodies in use, including those released since the last :meth:`reclaim`."""
        return sum([file.live for file in self.all.values()])

    @property
    def live_bytes(self) -> int:
        """Bytes of these, with the overhead of records."""
        return sum([file.live_bytes for file in self.all.values()])

    def has_room(self, size: int) -> bool:
        """Return whether ``size`` bytes of bodies more keep within the limit."""
        return self.used + size + RECORD_HEADER.size <= self.limit

    # ------------------------------------------------------------------ in

    def write(self, bodies: list[bytes]) -> SpillWrite:
        """Plan to write bodies, regardless of the limit; their places are reserved at once."""
        return SpillWrite(self, bodies)

    def file_for(self, size: int) -> SpillFile:
        """Return the file for the next ``size`` bytes: the newest, unless it is full."""
        tail = self._tail
        if tail is not None and tail.size and tail.size + size > self.file_bytes:
            self.end(tail)
            self.look_at(tail)
            tail = None
        if tail is None or tail.ended:
            self._number += 1
            path = self._directory / f"{self._number:08d}{SUFFIX}"
            tail = self._tail = self.all[self._number] = SpillFile(self._number, path, self._released)
        return tail

    def end(self, file: SpillFile) -> None:
        """Write nothing more to a file."""
        file.ended = True
        if self._tail is file:
            self._tail = None

    # ------------------------------------------------------------------ out

    def read(self, places: Sequence[BodyPlace]) -> list[bytes | None]:
        """Return bodies in this order, ``None`` for damaged ones. Raises ``OSError``."""
        wanted = [where_of(place) for place in places]
        found: dict[tuple[int, int], bytes | None] = {}
        for file, ordinals in spans_of(wanted):
            handle = self._handle_of(file)
            start, end = file.extent(ordinals[0])[0], file.extent(ordinals[-1])[1]
            data = handle.read(start, end - start)
            for ordinal in ordinals:
                found[file.number, ordinal] = file.body_in(data, start, ordinal)
        return [found.get((file.number, ordinal)) for file, ordinal in wanted]

    def prefetch(self, places: Sequence[BodyPlace]) -> None:
        """Have these read ahead, where their files are open."""
        for file, ordinals in spans_of([where_of(place) for place in places]):
            start, end = file.extent(ordinals[0])[0], file.extent(ordinals[-1])[1]
            if file.handle is not None:
                file.handle.prefetch(start, end - start)

    def _handle_of(self, file: SpillFile) -> File:
        handle = file.handle
        if handle is None:
            handle = file.handle = self.files.open(file.path)
        self.keep_open(file)
        return handle

    def keep_open(self, file: SpillFile) -> None:
        """Note that a file was used; of too many the one that was not used for longest is closed.

        Not the newest: the next write would create it again.
        """
        if file.handle is None:
            return
        self._open.pop(file.number, None)
        self._open[file.number] = file
        if len(self._open) > OPEN_FILES_MAX:
            for other in self._open.values():
                if not other.works and other is not file and other is not self._tail:
                    handle = self.let_go(other)
                    assert handle is not None
                    try:
                        handle.close()
                    except OSError as error:  # this must not fail a read or write of another file
                        logger.warning("spill store: cannot close %s: %s; check the disk", other.path, error)
                    return

    def let_go(self, file: SpillFile) -> File | None:
        """Return the handle of a file, if it is open, for closing."""
        self._open.pop(file.number, None)
        handle, file.handle = file.handle, None
        return handle

    # ------------------------------------------------------------------ given back

    def reclaim(self, most: int) -> bool:
        """Release the space of up to ``most`` unreferenced bodies. Returns whether there are more."""
        released = self._released
        for _ in range(min(most, len(released))):
            file, ordinal = released.popleft()
            holder = file.give_back(ordinal)
            if holder is not None and not holder.live:
                self.look_at(holder)
        return bool(released)

    def look_at(self, file: SpillFile) -> None:
        """Remove an unused file to which nothing is being written."""
        if not file.live and not file.works and file.number in self.all and file not in self.empty:
            self.end(file)
            self.empty.append(file)

    def upkeep(self) -> SpillWork | None:
        """Return the next piece of upkeep, ``None`` when there is nothing to do."""
        if self.empty:
            return SpillRemoval(self, self.empty.popleft())
        for file in self.all.values():
            if file.live_bytes * LIVE_SHARE < file.size and file.movable:
                return SpillMove(self, file)
        return None

    def close(self) -> None:
        """Close and remove all files.

        No work may be in progress. Files that cannot be removed are removed by the next start.
        """
        for file in list(self.all.values()):
            removal = SpillRemoval(self, file)
            removal.run()
            removal.finish()


def where_of(place: BodyPlace) -> tuple[SpillFile, int]:
    """Return file and ordinal of a place of this store."""
    assert isinstance(place, SpilledBody)
    return place.where
