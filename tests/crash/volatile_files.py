"""Files below the real store that a power loss treats as a disk does, with faults at marked points.

What is written is in memory until it is synced; a created, renamed or removed name is until its directory is. Death at
a marked point leaves of the unsynced sectors what chance decides, and of the unsynced names all, none or the first,
as file systems with journals do, and then kills the process (SIGKILL).
"""

from __future__ import annotations

import errno
import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from annulet.store.files.files import UNFINISHED_SUFFIX
from annulet.store.log.checkpoint import checkpoint_number
from annulet.store.segments.segment import segment_number

SECTOR = 64
"""Bytes that reach the disk together: small, so that few records already cross boundaries."""

KILL = "kill"
"""Die, before or after the operation as chance decides. The other faults are names of errno."""


class Fault(NamedTuple):
    """At the ``occurrence``-th time (from 1) a point is met, and with ``for_ever`` every time after it."""

    point: str = ""
    occurrence: int = 0
    kind: str = KILL
    for_ever: bool = False


class Node:
    """A file: what programs see, what the disk has, and the writes between the two."""

    def __init__(self, path: Path, descriptor: int, content: bytes) -> None:
        self.path = path
        self.descriptor = descriptor
        self.data = bytearray(content)
        self.durable = bytearray(content)
        self.pending: list[tuple[int, bytes | None]] = []  # None: the file was cut there

    def write(self, data: bytes, offset: int) -> None:
        """Have programs see it."""
        self.data.extend(bytes(max(0, offset + len(data) - len(self.data))))
        self.data[offset : offset + len(data)] = data
        self.pending.append((offset, data))

    def cut(self, size: int) -> None:
        """Make the file shorter, for programs."""
        del self.data[size:]
        self.pending.append((size, None))

    def sync(self) -> None:
        """Have on the disk what programs see."""
        self.durable = bytearray(self.data)
        self.pending.clear()

    def persist(self, content: bytearray) -> None:
        """Put the content on the real disk."""
        os.ftruncate(self.descriptor, len(content))
        os.pwrite(self.descriptor, content, 0)


class VolatileFile:
    def __init__(self, node: Node, files: VolatileFiles) -> None:
        self.node = node
        self.files = files

    def write(self, buffers: Sequence[bytes], offset: int) -> None:
        data = b"".join(buffers)
        try:
            with self.files.operation("write", self.node.path):
                self.node.write(data, offset)
        except OSError:
            with self.files.lock:
                self.node.write(data[: self.files.chance.randint(0, len(data))], offset)
            raise

    def read(self, offset: int, length: int) -> bytes:
        with self.files.operation("read", self.node.path):
            return bytes(self.node.data[offset : offset + length])

    def prefetch(self, offset: int, length: int) -> None:
        pass

    def fileno(self) -> int:
        raise OSError(errno.EBADF, "no file of the system")

    def size(self) -> int:
        return len(self.node.data)

    def allocate(self, size: int) -> None:
        with self.files.operation("allocate", self.node.path):
            self.node.data.extend(bytes(max(0, size - len(self.node.data))))

    def truncate(self, size: int) -> None:
        with self.files.operation("truncate", self.node.path):
            del self.node.data[size:]

    def sync(self) -> None:
        with self.files.operation("sync", self.node.path):
            self.node.sync()
            self.node.persist(self.node.durable)

    def close(self) -> None:
        """The node stays: its unsynced content is the system's."""


class VolatileFiles:
    """Implements the store's ``FileSystem``.

    ``note`` is told "point" and which, when one is met for the first time, and "fault" and where, when that begins.
    """

    def __init__(self, attic: Path, seed: int, fault: Fault, note: Callable[[str, str], None]) -> None:
        self.chance = random.Random(seed)
        self.fault = fault
        self.met: Counter[str] = Counter()
        self._note = note
        self._attic = attic  # files that lost their name, in case they get it back
        self._attic.mkdir(parents=True, exist_ok=True)
        self._nodes: dict[Path, Node] = {}
        self._all: list[Node] = []
        self._undo: list[tuple[Path, Callable[[], None]]] = []  # of names, by directory, since that was synced
        self.lock = threading.RLock()
        self.at_death: list[Callable[[], None]] = []  # who keeps account of other files

    # ------------------------------------------------------------------ faults

    @contextmanager
    def operation(self, name: str, path: Path) -> Iterator[None]:
        """One operation of the file system is a marked point: what is done to which kind of file."""
        with self.point(f"{name} {kind_of(path.name)}"):
            yield

    @contextmanager
    def point(self, point: str, error: type[Exception] = OSError) -> Iterator[None]:
        """Whatever is inside the block happens, does not happen, or is the last thing to happen.

        ``error`` is what its caller knows the disk's refusal by.
        """
        with self.lock:
            self.met[point] += 1
            if self.met[point] == 1:
                self._note("point", point)
            fault = self.fault
            due = point == fault.point and (
                self.met[point] == fault.occurrence or (fault.for_ever and self.met[point] > fault.occurrence)
            )
            before = self.chance.random() < 0.5
            if due and self.met[point] == fault.occurrence:
                self._note("fault", point)
            if due and fault.kind != KILL:
                number = getattr(errno, fault.kind)
                raise OSError(number, os.strerror(number)) if error is OSError else error(os.strerror(number))
            if due and before:
                self.die()
            yield
            if due:
                self.die()

    def die(self) -> None:
        """Lose power."""
        first = self.chance.choice([0, self.chance.randint(0, len(self._undo)), len(self._undo)])
        for _, undo in reversed(self._undo[first:]):
            undo()
        for node in self._all:
            if node.pending or len(node.data) != len(node.durable):
                self._tear(node)
        for lose in self.at_death:
            lose()
        os.kill(os.getpid(), signal.SIGKILL)

    def write_back(self, kind: str) -> None:
        """Have on the disk what was not synced of this kind of file, as the system does sometime."""
        for node in self._all:
            if kind_of(node.path.name) == kind:
                node.persist(node.data)

    def _tear(self, node: Node) -> None:
        content = node.durable
        whole = self.chance.random() if self.chance.random() < 0.5 else 0.0  # a share that is there without holes
        kept = int(whole * sum(len(written or b"") for _, written in node.pending))
        for offset, written in node.pending:
            if written is None:
                if kept > 0 or (not whole and self.chance.random() < 0.5):
                    del content[offset:]
                continue
            start, end = offset, offset + len(written)
            while start < end:
                stop = min(end, (start // SECTOR + 1) * SECTOR)
                kept -= stop - start
                if kept >= 0 or (not whole and self.chance.random() < 0.5):
                    content.extend(bytes(max(0, stop - len(content))))
                    content[start:stop] = written[start - offset : stop - offset]
                start = stop
        node.persist(content)

    # ------------------------------------------------------------------ names

    def make_directory(self, path: Path) -> None:
        if not path.is_dir():
            path.mkdir(parents=True)
            self._keep_names(path.parent)

    def names(self, directory: Path) -> list[str]:
        with self.operation("list", directory):
            return [path.name for path in directory.iterdir()]

    def open(self, path: Path, *, create: bool = False) -> VolatileFile:
        with self.operation("create" if create else "open", path):
            if create:
                self._undo.append((path.parent, self._take_name(path)))
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640)
                self._enter(Node(path, descriptor, b""))
                self._undo.append((path.parent, lambda: path.unlink(missing_ok=True)))
            elif path not in self._nodes:
                descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
                self._enter(Node(path, descriptor, path.read_bytes()))
            return VolatileFile(self._nodes[path], self)

    def rename(self, source: Path, target: Path) -> None:
        with self.operation("rename", target):
            give_back = self._take_name(target)
            source.rename(target)
            if source in self._nodes:
                self._nodes[target] = self._nodes.pop(source)
                self._nodes[target].path = target

            def undo() -> None:
                target.rename(source)
                give_back()

            self._undo.append((target.parent, undo))

    def remove(self, path: Path) -> None:
        with self.operation("remove", path):
            self._undo.append((path.parent, self._take_name(path)))

    def sync_directory(self, directory: Path) -> None:
        with self.operation("sync", directory):
            self._keep_names(directory)

    def _keep_names(self, directory: Path) -> None:
        self._undo = [(where, undo) for where, undo in self._undo if where != directory]

    def adopt(self, path: Path, *, new: bool) -> None:
        """Keep account of a file that somebody else has opened; ``new``: it has no name on the disk yet."""
        if new:
            self._undo.append((path.parent, lambda: path.unlink(missing_ok=True)))
        if path not in self._nodes:
            self._enter(Node(path, os.open(path, os.O_RDWR | os.O_CLOEXEC), path.read_bytes()))

    def node_of(self, path: Path) -> Node:
        """Return the file that has this name."""
        return self._nodes[path]

    def identity(self) -> int:
        return int.from_bytes(os.urandom(4), "little")

    def _enter(self, node: Node) -> None:
        self._nodes[node.path] = node
        self._all.append(node)

    def _take_name(self, path: Path) -> Callable[[], None]:
        """Remove a name; the file goes to the attic, from where what is returned gives it back."""
        self._nodes.pop(path, None)
        if not path.exists():
            return lambda: None
        kept = self._attic / f"{len(self._all)}-{len(self._undo)}-{self.chance.getrandbits(64):x}"
        path.rename(kept)

        def give_back() -> None:
            kept.rename(path)

        return give_back


def kind_of(name: str) -> str:
    """Say what a file is to the store."""
    if name.endswith(UNFINISHED_SUFFIX):
        rest = name.removesuffix(UNFINISHED_SUFFIX)
        return "spare" if rest.startswith("spare") else f"unfinished {kind_of(rest)}"
    if name.endswith(".sqlite-wal"):
        return f"{name.removesuffix('.sqlite-wal')} journal"
    if name.endswith(".sqlite"):
        return name.removesuffix(".sqlite")
    if segment_number(name) is not None:
        return "segment"
    if checkpoint_number(name) is not None:
        return "checkpoint"
    return name.rpartition(".")[2] if "." in name else name
