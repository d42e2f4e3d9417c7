"""The disk side of a backup: staging the files of one instant, and copying them to an empty directory.

At the instant every file of the message log gets a second name (a hard link) in a staging directory beside the log, and
the SQLite files are copied into it. From then on compaction and removal work on names the backup does not use, so the
copy can take any time while the broker continues. A segment that still receives records is copied up to its length at
the instant: the bytes before that position never change. The result is the state that ``kill -9`` at the instant would
have left.
"""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from annulet import __version__
from annulet.store.files.data_format import (
    BACKUP_FILE,
    FORMAT_FILE,
    FORMAT_VERSION,
    LOG_DIRECTORY,
    MARK_FILE,
    STAGE_DIRECTORY,
    STAGING_DIRECTORY,
    UNFINISHED_BACKUP,
)
from annulet.store.files.errors import BackupError
from annulet.store.files.files import (
    UNFINISHED_SUFFIX,
    OsFileSystem,
    create_private,
    make_private_directory,
    open_private,
    write_durably,
)
from annulet.store.log.checkpoint import BALLAST_FILE, OPEN_MARKER
from annulet.store.log.written_mark import WRITTEN_FILE
from annulet.store.segments.head_blocks import HEADS_SUFFIX
from annulet.store.segments.segment import segment_number

if TYPE_CHECKING:
    import threading
    from collections.abc import Mapping

COPY_BYTES: Final = 4 << 20
"""Bytes copied between two checks for cancellation."""

SPACE_KEPT: Final = 64 << 20
"""Bytes that stay free on the target's disk, so that a broker can start on the backup."""

NOT_COPIED: Final = frozenset({BALLAST_FILE, OPEN_MARKER, WRITTEN_FILE, MARK_FILE})
"""Files of the log that are left out. Marks are written in place, and would cover records after the instant."""


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A file of the backup: name below the directory, and how many bytes from its start belong to it."""

    name: str
    bytes: int


@dataclass(slots=True)
class Staging:
    """The files of the instant, under second names in ``directory``."""

    directory: Path
    files: list[StagedFile] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.bytes for file in self.files)

    def add(self, name: str) -> None:
        """Add a file that is already in the directory."""
        self.files.append(StagedFile(name, (self.directory / name).stat().st_size))

    def link_log(self, log: Path, ends: Mapping[int, int]) -> None:
        """Give the log's files a second name. ``ends``: written bytes of segments that still take records, by number.

        Files of the log must not be written, replaced or removed during the call. Raises :class:`BackupError` if the
        file system has no hard links.
        """
        make_private_directory(self.directory / LOG_DIRECTORY)
        for name in sorted(path.name for path in log.iterdir()):
            number = segment_number(name)
            if name in NOT_COPIED or name.endswith((UNFINISHED_SUFFIX, HEADS_SUFFIX)):
                continue
            staged = f"{LOG_DIRECTORY}/{name}"
            try:
                os.link(log / name, self.directory / staged)
            except OSError as error:
                raise BackupError(
                    f"{log / name} cannot be linked into {self.directory}: {error.strerror}; a backup of a running "
                    "broker needs a file system with hard links: stop the broker and copy its directory"
                ) from error
            if number is not None and number in ends:
                self.files.append(StagedFile(staged, ends[number]))
            else:
                self.add(staged)
        create_private(str(self.directory / LOG_DIRECTORY / OPEN_MARKER))
        self.add(f"{LOG_DIRECTORY}/{OPEN_MARKER}")  # a start on the backup recovers, as after a crash

    def link_stages(self, stages: Path) -> None:
        """Give the rows of uncommitted staged publishes a second name. A complete stage never changes.

        Stages may appear and disappear during the call: one that appears after the instant will not be committed in the
        backup, one that disappears was published before it.
        """
        for path in sorted(stages.glob("*/*.arrow")):
            place = self.directory / STAGE_DIRECTORY / path.parent.name
            make_private_directory(place.parent)
            make_private_directory(place)
            try:
                os.link(path, place / path.name)
            except FileNotFoundError:
                continue
            self.add(f"{STAGE_DIRECTORY}/{path.parent.name}/{path.name}")

    def remove(self) -> None:
        """Give the second names up."""
        shutil.rmtree(self.directory)


def open_staging(data: Path) -> Staging:
    """Make the staging directory of a data directory, empty."""
    remove_staging(data)
    directory = data / STAGING_DIRECTORY
    make_private_directory(directory)
    return Staging(directory)


def remove_staging(data: Path) -> None:
    """Remove the leftovers of an interrupted backup. Call it with the directory's lock held."""
    directory = data / STAGING_DIRECTORY
    if directory.exists():
        shutil.rmtree(directory)


def check_target(target: Path, data: Path) -> None:
    """Refuse an unsuitable target for a backup of the data directory ``data``: :class:`BackupError` with the remedy."""
    if "\0" in str(target):
        raise BackupError(f"directory {str(target)!r} has a NUL character; give a path without it")
    if not target.is_absolute():
        raise BackupError(f"directory {str(target)!r} is relative; give an absolute path on the broker's machine")
    place = target.resolve()
    if place == data.resolve() or data.resolve() in place.parents:
        raise BackupError(f"directory {target} is inside the data directory {data}; give one outside, on another disk")
    if target.exists() and not target.is_dir():
        raise BackupError(f"{target} is a file; give a directory that is empty or not there")
    if target.exists() and any(target.iterdir()):
        raise BackupError(f"directory {target} is not empty; give one that is empty or not there")
    if not target.exists() and not target.parent.is_dir():
        raise BackupError(f"there is no directory {target.parent}; make it, or give another place")
    copied = [path for path in data.rglob("*") if path.is_file() and path.suffix != HEADS_SUFFIX]
    needed = sum(path.lstat().st_size for path in copied) + SPACE_KEPT
    usage = os.statvfs(target if target.exists() else target.parent)
    free = usage.f_bavail * usage.f_frsize
    if needed > free:
        raise BackupError(
            f"no room in {target}: the backup needs up to {needed} bytes, {free} are free; free some or give another"
        )


class BackupCopy:
    """Copies a staging to a target. Belongs to a separate thread; ``copied`` counts bytes for observers."""

    def __init__(self, staging: Staging, target: Path, at: int, cancelled: threading.Event) -> None:
        self.copied = 0
        self._staging = staging
        self._target = target
        self._at = at  # milliseconds since 1970
        self._cancelled = cancelled
        self._made: list[Path] = []  # in the order they were made

    def run(self) -> None:
        """Copy everything, durably. Raises ``OSError`` or :class:`BackupError` after removing the created files."""
        try:
            self._copy_all()
        except BaseException:
            self._undo()
            raise

    def _copy_all(self) -> None:
        target = self._target
        self._make_directory(target)
        create_private(str(target / UNFINISHED_BACKUP))
        self._made.append(target / UNFINISHED_BACKUP)
        for file in self._staging.files:
            self._copy(file)
        content = json.dumps({"format": FORMAT_VERSION, "written_by": __version__}) + "\n"
        self._made.append(target / FORMAT_FILE)
        files = OsFileSystem()
        write_durably(target / FORMAT_FILE, content.encode(), files)
        manifest = {
            "taken_at": self._at,
            "version": __version__,
            "files": {file.name: file.bytes for file in self._staging.files},
        }
        marker = target / UNFINISHED_BACKUP
        write_durably(marker, json.dumps(manifest, indent=1).encode(), files)
        for directory in sorted({(target / file.name).parent for file in self._staging.files}):
            files.sync_directory(directory)
        if (target / STAGE_DIRECTORY).exists():
            files.sync_directory(target / STAGE_DIRECTORY)
        marker.rename(target / BACKUP_FILE)  # the last step: from here on it is a data directory
        self._made.append(target / BACKUP_FILE)
        files.sync_directory(target)
        files.sync_directory(target.parent)

    def _make_directory(self, path: Path) -> None:
        if not path.exists():
            make_private_directory(path)
            self._made.append(path)

    def _copy(self, file: StagedFile) -> None:
        source, target = self._staging.directory / file.name, self._target / file.name
        for directory in reversed(Path(file.name).parents[:-1]):
            self._make_directory(self._target / directory)
        with source.open("rb") as reader:
            descriptor = open_private(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            self._made.append(target)
            with os.fdopen(descriptor, "wb", buffering=0) as writer:
                left = file.bytes
                while left > 0:
                    if self._cancelled.is_set():
                        raise BackupError("the backup was cancelled: the broker stops")
                    data = reader.read(min(left, COPY_BYTES))
                    if not data:
                        raise BackupError(f"{source} ended {left} bytes early; look at the disk with annulet doctor")
                    writer.write(data)
                    left -= len(data)
                    self.copied += len(data)
                os.fsync(writer.fileno())

    def _undo(self) -> None:
        """Restore the target as far as the system allows; the marker is removed last."""
        marker = self._target / UNFINISHED_BACKUP
        for path in sorted(self._made, key=lambda path: (path == self._target, path == marker, -len(path.parts))):
            with suppress(OSError):  # the first error is reported; the marker shows that this is no backup
                if path.is_dir():
                    path.rmdir()
                else:
                    path.unlink(missing_ok=True)
