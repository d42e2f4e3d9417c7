"""A disk in memory that can lose what was not synced, tear writes, run full and fail at a chosen operation."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Sequence
from pathlib import Path

SECTOR = 64
"""Bytes that reach the simulated disk together: small, so that few records already cross boundaries."""


class Node:
    """A file's content: what programs see, what a crash leaves, and the unsynced writes between the two."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.durable = bytearray()
        self.pending: list[tuple[int, bytes]] = []  # writes since the last sync
        self.reserved = 0


class SimulatedFile:
    def __init__(self, node: Node, files: SimulatedFiles) -> None:
        self.node = node
        self.files = files
        self.open = True

    def write(self, buffers: Sequence[bytes], offset: int) -> None:
        self.files.operation("write")
        data = b"".join(buffers)
        end = offset + len(data)
        self.files.use(max(0, end - max(len(self.node.data), self.node.reserved)))
        self.node.data.extend(bytes(max(0, end - len(self.node.data))))
        self.node.data[offset:end] = data
        self.node.pending.append((offset, data))

    def read(self, offset: int, length: int) -> bytes:
        self.files.operation("read")
        return bytes(self.node.data[offset : offset + length])

    def prefetch(self, offset: int, length: int) -> None:
        self.files.prefetched.append((offset, length))

    def fileno(self) -> int:
        raise OSError(errno.EBADF, "no file of the system")

    def size(self) -> int:
        return len(self.node.data)

    def allocate(self, size: int) -> None:
        self.files.operation("allocate")
        self.files.use(max(0, size - max(len(self.node.data), self.node.reserved)))
        self.node.reserved = max(size, self.node.reserved)
        self.node.data.extend(bytes(max(0, size - len(self.node.data))))

    def truncate(self, size: int) -> None:
        self.files.operation("truncate")
        self.files.used -= max(0, max(len(self.node.data), self.node.reserved) - size)
        self.node.reserved = min(size, self.node.reserved)
        del self.node.data[size:]
        self.node.data.extend(bytes(max(0, size - len(self.node.data))))

    def sync(self) -> None:
        self.files.operation("sync")
        self.node.durable = bytearray(self.node.data)
        self.node.pending.clear()

    def close(self) -> None:
        self.open = False


class SimulatedFiles:
    """One directory. ``capacity`` bounds its bytes; ``fail_at`` lets the n-th operation fail with ``fail_with``."""

    def __init__(self, capacity: int = 1 << 40) -> None:
        self.names_now: dict[str, Node] = {}
        self.names_durable: dict[str, Node] = {}
        self.capacity = capacity
        self.used = 0
        self.operations = 0
        self.fail_at = -1
        self.fail_with = errno.EIO
        self.failed_operation = ""
        self.prefetched: list[tuple[int, int]] = []  # what was asked for ahead of its use
        self._identities = random.Random(7)

    def operation(self, name: str) -> None:
        self.operations += 1
        if self.operations == self.fail_at:
            self.failed_operation = name
            raise OSError(self.fail_with, os.strerror(self.fail_with))

    def use(self, size: int) -> None:
        if self.used + size > self.capacity:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.used += size

    def make_directory(self, path: Path) -> None:
        self.operation("make_directory")

    def names(self, directory: Path) -> list[str]:
        self.operation("names")
        return list(self.names_now)

    def open(self, path: Path, *, create: bool = False) -> SimulatedFile:
        self.operation("open")
        if create:
            self._free(self.names_now.get(path.name))
            self.names_now[path.name] = Node()
        elif path.name not in self.names_now:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return SimulatedFile(self.names_now[path.name], self)

    def rename(self, source: Path, target: Path) -> None:
        self.operation("rename")
        self._free(self.names_now.get(target.name))
        self.names_now[target.name] = self.names_now.pop(source.name)

    def remove(self, path: Path) -> None:
        self.operation("remove")
        self._free(self.names_now.pop(path.name, None))

    def sync_directory(self, directory: Path) -> None:
        self.operation("sync_directory")
        self.names_durable = dict(self.names_now)

    def identity(self) -> int:
        return self._identities.getrandbits(32)

    def _free(self, node: Node | None) -> None:
        if node is not None:
            self.used -= max(len(node.data), node.reserved)

    def crashed(self, chance: random.Random, *, cut: int | None = None) -> SimulatedFiles:
        """Return the disk after power loss.

        Names go back to the last directory sync, or not, as a whole. Each unsynced sector is there or not; with ``cut``
        instead the first ``cut`` bytes of the unsynced writes are there and nothing behind them.
        """
        after = SimulatedFiles(self.capacity)
        after._identities = random.Random(chance.getrandbits(32))
        names = self.names_now if chance.random() < 0.5 else self.names_durable
        for name, node in names.items():
            data = bytearray(node.durable)
            left = cut
            for offset, written in node.pending:
                kept = written if left is None else written[: max(0, left)]
                left = None if left is None else left - len(written)
                self._persist(data, offset, kept, chance if cut is None else None)
            fresh = Node()
            fresh.data = bytearray(data)
            fresh.durable = bytearray(data)
            after.names_now[name] = fresh
            after.used += len(data)
        after.names_durable = dict(after.names_now)
        return after

    @staticmethod
    def _persist(data: bytearray, offset: int, written: bytes, chance: random.Random | None) -> None:
        start = offset
        end = offset + len(written)
        while start < end:
            stop = min(end, (start // SECTOR + 1) * SECTOR)
            if chance is None or chance.random() < 0.5:
                data.extend(bytes(max(0, stop - len(data))))
                data[start:stop] = written[start - offset : stop - offset]
            start = stop

    def copied(self) -> SimulatedFiles:
        """Return a copy in which everything is durable."""
        after = SimulatedFiles(self.capacity)
        for name, node in self.names_now.items():
            fresh = Node()
            fresh.data = bytearray(node.data)
            fresh.durable = bytearray(node.data)
            after.names_now[name] = fresh
            after.used += len(node.data)
        after.names_durable = dict(after.names_now)
        return after
