"""The log of a folder of Parquet files: which files count, and which batches are done.

Each entry is a small JSON file whose number is taken by an exclusive link, so several processes may write: the second
one reads the first one's entry and tries again. A batch is valid once its entry exists, completely and only once.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import msgspec

FORMAT_VERSION: Final = 1
STATE_EVERY: Final = 64
"""Entries after which their sum is written down, so that a reader reads at most this many small files."""
STATES_KEPT: Final = 2
"""Sums kept: a reader that has just listed the folder may still want the one before the last."""


class ArchiveError(Exception):
    """A folder of files cannot be used; the text has the reason and the remedy."""


class FileEntry(msgspec.Struct, frozen=True):
    """One finished file. ``path`` is relative to the folder, ``added_at`` milliseconds since 1970."""

    path: str
    rows: int
    bytes: int
    added_at: int


class Entry(msgspec.Struct):
    """One change: files added, files that do not count any more, removed files that were deleted from the disk."""

    version: int = FORMAT_VERSION
    at: int = 0  # milliseconds since 1970
    query: str | None = None
    batch: int | None = None
    add: list[FileEntry] = []
    remove: list[str] = []
    forget: list[str] = []


class State(msgspec.Struct):
    """The sum of all entries up to ``number``."""

    version: int = FORMAT_VERSION
    number: int = -1
    files: dict[str, FileEntry] = {}  # by path
    removed: dict[str, int] = {}  # when, by path; still on disk for readers that began before
    marks: dict[str, int] = {}  # the highest batch done, by query

    def apply(self, entry: Entry) -> None:
        """Add the next entry."""
        for path in entry.remove:
            if self.files.pop(path, None) is not None:
                self.removed[path] = entry.at
        for path in entry.forget:
            self.removed.pop(path, None)
        for file in entry.add:
            self.files[file.path] = file
        if entry.query is not None and entry.batch is not None:
            self.marks[entry.query] = max(entry.batch, self.marks.get(entry.query, -1))
        self.number += 1


Document = TypeVar("Document", Entry, State)


class Log:
    """The log in ``folder``, which is made with the first entry. ``clock`` gives milliseconds since 1970."""

    def __init__(self, folder: Path, *, clock: Callable[[], int] | None = None) -> None:
        self._folder = folder
        self._clock = clock or (lambda: time.time_ns() // 1_000_000)
        self._state = State()

    def now(self) -> int:
        """Return milliseconds since 1970."""
        return self._clock()

    def state(self) -> State:
        """Return the sum of all entries there are now. Raises :class:`ArchiveError` when the log is damaged."""
        if self._state.number < 0:
            self._state = self._last_state()
        while True:
            entry = self._read(self._entry_path(self._state.number + 1), Entry)
            if entry is not None:
                self._state.apply(entry)
                continue
            sums = self._state_paths()
            if not sums or _number_of(sums[0]) <= self._state.number:
                return self._state
            self._state = self._last_state()  # others wrote so much in the meantime that the next entry was deleted

    def commit(self, make: Callable[[State], Entry | None]) -> Entry | None:
        """Write the entry that ``make`` gives for the newest state; ``None`` for nothing to do.

        ``make`` is called again if another process was faster.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        while True:
            state = self.state()
            entry = make(state)
            if entry is None:
                return None
            entry.at = self.now()
            path = self._entry_path(state.number + 1)
            if self._create(path, msgspec.json.encode(entry)):
                if self._behind_a_sum(path, entry):
                    path.unlink()
                    continue
                number = state.number + 1
                self.state()
                if (number + 1) % STATE_EVERY == 0:  # others may have written since: the sum includes their entries
                    self._write_state()
                return entry

    def _entry_path(self, number: int) -> Path:
        return self._folder / f"{number:012}.json"

    def _state_paths(self) -> list[Path]:
        return sorted(self._folder.glob("*.state.json"), reverse=True)

    def _last_state(self) -> State:
        while True:
            paths = self._state_paths()
            if not paths:
                return State()
            state = self._read(paths[0], State)
            if state is not None:  # else another process has replaced it since
                return state

    def _behind_a_sum(self, path: Path, entry: Entry) -> bool:
        """Return whether an entry took a number that was free because it was summed up and deleted: it is not read
        then.

        So it is for a process that was suspended between reading the log and writing.
        """
        sums = self._state_paths()
        if not sums or _number_of(sums[-1]) < _number_of(path):
            return False
        newest = self._last_state()
        return any(file.path not in newest.files and file.path not in newest.removed for file in entry.add)

    def _write_state(self) -> None:
        self._create(self._folder / f"{self._state.number:012}.state.json", msgspec.json.encode(self._state))
        old = self._state_paths()[STATES_KEPT:]
        for path in old:
            path.unlink(missing_ok=True)
        if old:
            oldest = _number_of(self._state_paths()[-1])
            for path in self._folder.glob("*.json"):
                if not path.name.endswith(".state.json") and _number_of(path) <= oldest:
                    path.unlink(missing_ok=True)

    def _read(self, path: Path, kind: type[Document]) -> Document | None:
        try:
            found = msgspec.json.decode(path.read_bytes(), type=kind)
        except FileNotFoundError:
            return None
        except msgspec.MsgspecError as error:
            raise ArchiveError(f"{path}: damaged: {error}; restore the file from a backup") from error
        if found.version != FORMAT_VERSION:
            raise ArchiveError(f"{path}: written by another version ({found.version}); use that version of annulet")
        return found

    def _create(self, path: Path, content: bytes) -> bool:
        """Create a file with its whole content, on disk, unless it exists."""
        with tempfile.NamedTemporaryFile(dir=self._folder, prefix=".", delete=False) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(file.name, path)
        except FileExistsError:
            return False
        finally:
            Path(file.name).unlink()
        sync_folder(self._folder)
        return True


def _number_of(path: Path) -> int:
    return int(path.name.partition(".")[0])


def sync_folder(folder: Path) -> None:
    """Make names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
