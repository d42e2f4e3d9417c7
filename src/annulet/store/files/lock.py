"""One broker per data directory, by an advisory lock that the kernel drops with the process."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Final

from annulet.store.files.errors import DirectoryInUseError
from annulet.store.files.files import OsFileSystem, open_private

LOCK_FILE: Final = "lock"


class DirectoryLock:
    """Locks ``directory/lock`` (``flock``, exclusive), which contains the owner's process id.

    A lock file left behind by a killed process does not matter: the kernel released the lock.
    """

    def __init__(self, directory: Path | str) -> None:
        self.directory = Path(directory)
        self._descriptor = -1

    def acquire(self) -> None:
        """Take the lock, creating the directory if needed.

        Raises :class:`DirectoryInUseError` at once if it is locked.
        """
        if self._descriptor < 0:
            OsFileSystem().make_directory(self.directory)
            self._take(os.O_RDWR | os.O_CREAT)
            try:
                os.ftruncate(self._descriptor, 0)
                os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)
            except OSError:
                self.release()
                raise

    def acquire_unwritten(self) -> None:
        """Take the lock without writing, for inspections. A directory that was never locked is not locked.

        Raises :class:`DirectoryInUseError` at once if it is locked, ``OSError`` if the lock file cannot be read.
        """
        if self._descriptor < 0 and (self.directory / LOCK_FILE).exists():
            self._take(os.O_RDONLY)

    def _take(self, flags: int) -> None:
        path = self.directory / LOCK_FILE
        descriptor = open_private(path, flags) if flags & os.O_CREAT else os.open(path, flags | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(descriptor)
            raise DirectoryInUseError(
                f"data directory {self.directory.absolute()} is in use by process {holder}; "
                "stop that broker, or start this one with another data directory"
            ) from None
        except OSError:
            os.close(descriptor)
            raise
        self._descriptor = descriptor

    def release(self) -> None:
        """Give the lock back. The file stays: removing it would let two processes lock two files of one name."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> DirectoryLock:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()
