"""SQLite's files as a power loss leaves them: what SQLite itself did not sync is not on the disk.

Python's SQLite reaches files through the default VFS of its library (https://www.sqlite.org/vfs.html), a table of
functions. Those that write, cut, sync, open and remove are replaced by ours, which call them and keep account in
:class:`VolatileFiles`; so each of them is a marked point, too.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Final

from tests.crash.volatile_files import Node, VolatileFiles

JOURNAL: Final = "-wal"
SQLITE_OK: Final = 0
SQLITE_FULL: Final = 13
SQLITE_CANTOPEN: Final = 14
SQLITE_IOERR: Final = 10
IOERR_WRITE: Final = SQLITE_IOERR | 3 << 8
IOERR_FSYNC: Final = SQLITE_IOERR | 4 << 8
IOERR_TRUNCATE: Final = SQLITE_IOERR | 6 << 8
IOERR_DELETE: Final = SQLITE_IOERR | 10 << 8
IOERR_DELETE_NOENT: Final = SQLITE_IOERR | 23 << 8
"""https://www.sqlite.org/rescode.html"""

POINTER: Final = ctypes.c_void_p
OPEN: Final = ctypes.CFUNCTYPE(ctypes.c_int, POINTER, POINTER, POINTER, ctypes.c_int, POINTER)
DELETE: Final = ctypes.CFUNCTYPE(ctypes.c_int, POINTER, POINTER, ctypes.c_int)
CLOSE: Final = ctypes.CFUNCTYPE(ctypes.c_int, POINTER)
WRITE: Final = ctypes.CFUNCTYPE(ctypes.c_int, POINTER, POINTER, ctypes.c_int, ctypes.c_int64)
TRUNCATE: Final = ctypes.CFUNCTYPE(ctypes.c_int, POINTER, ctypes.c_int64)
SYNC: Final = ctypes.CFUNCTYPE(ctypes.c_int, POINTER, ctypes.c_int)


class Vfs(ctypes.Structure):
    """``sqlite3_vfs``, as far as we need it."""

    _fields_: ClassVar[Any] = [
        ("version", ctypes.c_int), ("file_bytes", ctypes.c_int), ("path_most", ctypes.c_int), ("following", POINTER),
        ("name", ctypes.c_char_p), ("data", POINTER), ("open", POINTER), ("delete", POINTER),
    ]  # fmt: skip


class Methods(ctypes.Structure):
    """``sqlite3_io_methods`` of version 3, which files with a journal in shared memory have."""

    _fields_: ClassVar[Any] = [
        ("version", ctypes.c_int), ("close", POINTER), ("read", POINTER), ("write", POINTER), ("truncate", POINTER),
        ("sync", POINTER), ("others", POINTER * 13),
    ]  # fmt: skip


class OpenFile(ctypes.Structure):
    """``sqlite3_file``: whatever it is, it begins with its methods."""

    _fields_: ClassVar[Any] = [("methods", ctypes.POINTER(Methods))]


def default_vfs() -> Any:
    """Return the VFS of the library that Python's SQLite uses. Raises ``LookupError`` where nobody can reach it."""
    import _sqlite3

    try:
        library = ctypes.CDLL(getattr(_sqlite3, "__file__", None))
        find = library.sqlite3_vfs_find
    except (OSError, AttributeError) as error:  # built in, and no symbol of it is to be seen
        raise LookupError("the SQLite library of this Python cannot be reached") from error
    find.restype = ctypes.POINTER(Vfs)
    return find(None)


def _path_at(address: int) -> Path:
    return Path(os.fsdecode(ctypes.string_at(address)))


IN_USE: Final[list[Any]] = []
"""What SQLite calls from now on must not go."""


class VolatileDatabases:
    """Keeps account of these databases of one directory and their journals, in this process, for good."""

    def __init__(self, files: VolatileFiles, directory: Path, names: tuple[str, ...]) -> None:
        self._files = files
        self._tracked = {directory / name for each in names for name in (each, each + JOURNAL)}
        self._open_files: dict[int, Path] = {}  # by address
        self._synced_once: set[int] = set()  # journals whose directory was synced with them since they were opened
        self._originals: dict[int, Methods] = {}  # by address of a table of methods
        self._replaced: dict[int, Methods] = {}
        IN_USE.append(self)
        self._vfs = default_vfs()
        self._open = OPEN(self._vfs.contents.open)
        self._delete = DELETE(self._vfs.contents.delete)
        self._vfs.contents.open = self._keep(OPEN(self.open))
        self._vfs.contents.delete = self._keep(DELETE(self.delete))

    def _keep(self, function: Any) -> int | None:
        IN_USE.append(function)
        return ctypes.cast(function, POINTER).value

    # ------------------------------------------------------------------ names

    def open(self, vfs: int, name: int | None, file: int, flags: int, found: int) -> int:
        """Open a file. What is new in its directory may lose its name until somebody syncs that."""
        path = None if name is None else _path_at(name)  # what follows the name is SQLite's, too, so nobody copies it
        if path not in self._tracked:
            return int(self._open(vfs, name, file, flags, found))
        assert path is not None
        try:
            with self._files.operation("open", path):
                new = not path.exists() or not path.stat().st_size
                code = int(self._open(vfs, name, file, flags, found))
        except OSError:
            return SQLITE_CANTOPEN
        if code == SQLITE_OK:
            self._files.adopt(path, new=new)
            self._open_files[file] = path
            self._synced_once.discard(file)
            opened = ctypes.cast(file, ctypes.POINTER(OpenFile)).contents
            opened.methods = ctypes.pointer(self._methods(opened.methods.contents))
        return code

    def _methods(self, original: Methods) -> Methods:
        """Return a copy of a table of methods with ours among them."""
        address = ctypes.addressof(original)
        if address not in self._replaced:
            self._originals[address] = original
            copy = self._replaced[address] = Methods.from_buffer_copy(original)
            copy.close = self._keep(CLOSE(self._closing(CLOSE(original.close))))
            copy.write = self._keep(WRITE(self._writing(WRITE(original.write))))
            copy.truncate = self._keep(TRUNCATE(self._cutting(TRUNCATE(original.truncate))))
            copy.sync = self._keep(SYNC(self.sync))
        return self._replaced[address]

    def delete(self, vfs: int, name: int, sync: int) -> int:
        """Remove a file; its directory is synced only where SQLite asks for that."""
        path = _path_at(name)
        if path not in self._tracked:
            return int(self._delete(vfs, name, sync))
        if not path.exists():
            return IOERR_DELETE_NOENT
        try:
            self._files.remove(path)
            if sync:
                self._files.sync_directory(path.parent)
        except OSError:
            return IOERR_DELETE
        return SQLITE_OK

    # ------------------------------------------------------------------ contents

    def _node(self, file: int) -> Node:
        return self._files.node_of(self._open_files[file])

    def _closing(self, close: Callable[..., int]) -> Callable[[int], int]:
        def closing(file: int) -> int:
            self._open_files.pop(file, None)
            return int(close(file))

        return closing

    def _writing(self, write: Callable[..., int]) -> Callable[[int, int, int, int], int]:
        def writing(file: int, data: int, length: int, offset: int) -> int:
            node = self._node(file)
            try:
                with self._files.operation("write", node.path):
                    code = int(write(file, data, length, offset))
                    if code == SQLITE_OK:
                        node.write(ctypes.string_at(data, length), offset)
            except OSError as error:
                return SQLITE_FULL if error.errno == errno.ENOSPC else IOERR_WRITE
            return code

        return writing

    def _cutting(self, truncate: Callable[..., int]) -> Callable[[int, int], int]:
        def cutting(file: int, size: int) -> int:
            node = self._node(file)
            try:
                with self._files.operation("truncate", node.path):
                    code = int(truncate(file, size))
                    if code == SQLITE_OK:
                        node.cut(size)
            except OSError:
                return IOERR_TRUNCATE
            return code

        return cutting

    def sync(self, file: int, flags: int) -> int:
        """Sync a file, and with the first sync of a journal its directory, as SQLite does on Unix."""
        del flags
        node = self._node(file)
        try:
            with self._files.operation("sync", node.path):
                node.sync()
                if node.path.name.endswith(JOURNAL) and file not in self._synced_once:
                    self._synced_once.add(file)
                    with suppress(OSError):  # SQLite does not mind
                        self._files.sync_directory(node.path.parent)
        except OSError:
            return IOERR_FSYNC
        return SQLITE_OK
