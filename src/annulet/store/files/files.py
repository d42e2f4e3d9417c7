"""The few file operations the message log needs, as an interface small enough to simulate crashes and full disks."""

from __future__ import annotations

import errno
import logging
import os
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, Protocol

logger = logging.getLogger(__name__)

BUFFERS_PER_CALL: Final = 1024
"""IOV_MAX of Linux: the number of buffers of one ``pwritev``."""

UNFINISHED_SUFFIX: Final = ".unfinished"
"""Ends the name of a file that is not complete yet; a start removes such files."""


class File(Protocol):
    """One open file. Every method raises ``OSError`` as the system does."""

    def write(self, buffers: Sequence[bytes], offset: int) -> None:
        """Write all ``buffers`` one after the other from ``offset`` (bytes)."""

    def read(self, offset: int, length: int) -> bytes:
        """Return up to ``length`` bytes from ``offset``; fewer only at the end of the file."""

    def prefetch(self, offset: int, length: int) -> None:
        """Ask the system to read ``length`` bytes from ``offset`` ahead of their use; it may ignore this."""

    def fileno(self) -> int:
        """Return the descriptor. Raises ``OSError`` also where there is none: closed, or no file of the system."""

    def size(self) -> int:
        """Return the file's length in bytes."""

    def allocate(self, size: int) -> None:
        """Reserve disk space for the first ``size`` bytes; the file grows to that length, filled with zeros."""

    def truncate(self, size: int) -> None:
        """Cut the file to ``size`` bytes."""

    def sync(self) -> None:
        """Return when the content written so far is durable (``fdatasync``)."""

    def close(self) -> None:
        """Close the file; unsynced content may still be lost."""


class FileSystem(Protocol):
    """The directory operations of one message log. Names in a directory are durable after ``sync_directory``."""

    def make_directory(self, path: Path) -> None:
        """Create a directory with its parents, durably; an existing one is kept."""

    def names(self, directory: Path) -> list[str]:
        """Return the names in a directory, in no order."""

    def open(self, path: Path, *, create: bool = False) -> File:
        """Open a file for reading and writing; ``create`` replaces an existing one by an empty one."""

    def rename(self, source: Path, target: Path) -> None:
        """Give a file another name, atomically replacing the file of that name."""

    def remove(self, path: Path) -> None:
        """Remove a file; a missing one is ignored."""

    def sync_directory(self, directory: Path) -> None:
        """Return when creations, renames and removals in the directory are durable."""

    def identity(self) -> int:
        """Return 32 random bits that tell one segment file from all others."""


PRIVATE_MODE: Final = 0o600
PRIVATE_DIRECTORY_MODE: Final = 0o700
"""Modes of all files of a data directory, which contain messages, password hashes and the audit trail: for the broker's
user only. They are set explicitly on new files, because the umask could remove more, and at a start on existing
ones."""

OTHERS: Final = 0o077
"""Permissions of group and world."""


def create_private(path: str) -> None:
    """Create an empty file for this user only, unless it exists: SQLite would only use the umask.

    Its journals get the mode of their database. Raises ``OSError``; ``:memory:`` is no file.
    """
    if path != ":memory:":
        os.close(open_private(Path(path), os.O_RDWR | os.O_CREAT))


def open_private(path: Path, flags: int) -> int:
    """Open a file for this user only, regardless of the umask. Returns the descriptor. Raises ``OSError``."""
    descriptor = os.open(path, flags | os.O_CLOEXEC, PRIVATE_MODE)
    try:
        os.fchmod(descriptor, PRIVATE_MODE)
    except PermissionError:  # it belongs to another user, the only one that can change it
        logger.debug("mode of %s is its owner's", path)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def make_private_directory(path: Path) -> None:
    """Create a directory for this user only, regardless of the umask; an existing one is not changed."""
    try:
        path.mkdir(mode=PRIVATE_DIRECTORY_MODE)
    except FileExistsError:
        return
    path.chmod(PRIVATE_DIRECTORY_MODE)


def tighten(directory: Path, names: Iterable[str]) -> int:
    """Remove permissions of others that older versions set: of a directory, and of everything below these names in it.

    Returns how many files and directories were changed. Those of another user are logged and not changed.
    """
    changed = 0
    places = [directory, *[directory / name for name in names]]
    for place in places[1:]:
        if place.is_dir() and not place.is_symlink():
            places += place.rglob("*")
    for place in places:
        try:
            mode = place.lstat().st_mode
            if not mode & OTHERS or not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                continue
            place.chmod(stat.S_IMODE(mode) & ~OTHERS)
            changed += 1
        except FileNotFoundError:
            continue
        except PermissionError as error:
            logger.warning("others may use %s, and it belongs to another user: %s; change its mode", place, error)
    if changed:
        logger.info("%d files and directories in %s are for their user alone now", changed, directory)
    return changed


class OsFile:
    """A file of the operating system."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def write(self, buffers: Sequence[bytes], offset: int) -> None:
        """Write with ``pwritev``: bodies go to the kernel from where they are."""
        for start in range(0, len(buffers), BUFFERS_PER_CALL):
            part = buffers[start : start + BUFFERS_PER_CALL]
            expected = sum(map(len, part))
            written = os.pwritev(self._descriptor, part, offset)
            if written < expected:  # a signal, or more than 2 GiB: finish by hand
                rest = memoryview(b"".join(part))
                while written < expected:
                    written += os.pwrite(self._descriptor, rest[written:], offset + written)
            offset += expected

    def read(self, offset: int, length: int) -> bytes:
        """Read with ``pread``."""
        parts = []
        while length > 0:
            part = os.pread(self._descriptor, length, offset)
            if not part:
                break
            parts.append(part)
            offset += len(part)
            length -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def prefetch(self, offset: int, length: int) -> None:
        """Use ``posix_fadvise`` where there is one (not on macOS)."""
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._descriptor, offset, length, os.POSIX_FADV_WILLNEED)

    def fileno(self) -> int:
        """Return the descriptor while the file is open."""
        if self._descriptor < 0:
            raise OSError(errno.EBADF, "the file is closed")
        return self._descriptor

    def size(self) -> int:
        """Ask the system."""
        return os.fstat(self._descriptor).st_size

    def allocate(self, size: int) -> None:
        """Use ``posix_fallocate``."""
        os.posix_fallocate(self._descriptor, 0, size)

    def truncate(self, size: int) -> None:
        """Use ``ftruncate``."""
        os.ftruncate(self._descriptor, size)

    def sync(self) -> None:
        """Use ``fdatasync``: within allocated space it spares the journal commit of ``fsync``."""
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        """Close the descriptor; twice is once."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)


class OsFileSystem:
    """The operating system's files."""

    def make_directory(self, path: Path) -> None:
        """Create the directory, for this user alone, and make its name durable in its parent."""
        if path.is_dir():
            return
        self.make_directory(path.parent)
        make_private_directory(path)
        self.sync_directory(path.parent)

    def names(self, directory: Path) -> list[str]:
        """List the directory."""
        return [path.name for path in directory.iterdir()]

    def open(self, path: Path, *, create: bool = False) -> OsFile:
        """Open with ``O_RDWR``; a new file is for this user alone."""
        if create:
            return OsFile(open_private(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC))
        return OsFile(os.open(path, os.O_RDWR | os.O_CLOEXEC))

    def rename(self, source: Path, target: Path) -> None:
        """Use ``rename(2)``."""
        source.replace(target)

    def remove(self, path: Path) -> None:
        """Use ``unlink(2)``."""
        path.unlink(missing_ok=True)

    def sync_directory(self, directory: Path) -> None:
        """``fsync`` the directory."""
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def identity(self) -> int:
        """Ask the system's random source."""
        return int.from_bytes(os.urandom(4), "little")


def write_durably(path: Path, data: bytes, files: FileSystem) -> None:
    """Make ``path`` a file with this content: complete and durable, or not there at all."""
    unfinished = path.with_name(path.name + UNFINISHED_SUFFIX)
    try:
        file = files.open(unfinished, create=True)
        try:
            file.write([data], 0)
            file.sync()
        finally:
            file.close()
        files.rename(unfinished, path)
    except OSError:
        files.remove(unfinished)
        raise
    files.sync_directory(path.parent)
