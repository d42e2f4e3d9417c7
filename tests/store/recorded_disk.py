"""A disk that records what the log does to it, and what a cut of power at any point of the record may leave.

Nothing is on the disk for certain but what was synced: of each file the content of its last sync, of the names those of
the last sync of the directory. Of later writes some are there, in any order, whole or in part; of later names the first
ones, as file systems with journals keep them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.store.simulated_files import Node, SimulatedFile, SimulatedFiles

PAGE, SECTOR, PARAGRAPH = 4096, 512, 64
"""Bytes that reach the disk together: pages of the system, sectors, and fewer, so that small records are torn too."""


class Event(NamedTuple):
    """What was done to a file, by its number ``node``, or to the names: ``names`` are all of them afterwards."""

    kind: str
    node: int = 0
    offset: int = 0
    data: bytes = b""
    names: dict[str, int] = {}  # noqa: RUF012 - never changed


class RecordedDisk(SimulatedFiles):
    """A disk in memory whose changes are in ``events``. With ``lies`` it says that syncs are done, and does none."""

    def __init__(self, *, lies: bool = False) -> None:
        super().__init__()
        self.events: list[Event] = []
        self._lies = lies
        self._numbers: dict[int, int] = {}  # of nodes, by identity
        self._nodes: list[Node] = []  # alive, so that no identity comes twice

    @classmethod
    def of(cls, files: SimulatedFiles) -> RecordedDisk:
        """Return a disk that begins with what another one has, all of it durable."""
        disk = cls()
        disk.names_now, disk.names_durable, disk.used = files.names_now, dict(files.names_now), files.used
        for node in files.names_now.values():
            disk.record("write", node, 0, bytes(node.data))
            disk.record("sync", node)
        disk._record_names("names synced")
        return disk

    def record(self, kind: str, node: Node, offset: int = 0, data: bytes = b"") -> None:
        """Note what happens to a file."""
        if kind != "sync" or not self._lies:
            self.events.append(Event(kind, self._number(node), offset, data))

    def _record_names(self, kind: str) -> None:
        names = {name: self._number(node) for name, node in self.names_now.items()}
        self.events.append(Event(kind, names=names))

    def _number(self, node: Node) -> int:
        if id(node) not in self._numbers:
            self._numbers[id(node)] = len(self._nodes)
            self._nodes.append(node)
        return self._numbers[id(node)]

    def open(self, path: Path, *, create: bool = False) -> SimulatedFile:
        file = super().open(path, create=create)
        if create:
            self._record_names("names")
        return RecordedFile(file.node, self)

    def rename(self, source: Path, target: Path) -> None:
        super().rename(source, target)
        self._record_names("names")

    def remove(self, path: Path) -> None:
        super().remove(path)
        self._record_names("names")

    def sync_directory(self, directory: Path) -> None:
        super().sync_directory(directory)
        if not self._lies:
            self._record_names("names synced")


class RecordedFile(SimulatedFile):
    files: RecordedDisk

    def write(self, buffers: Sequence[bytes], offset: int) -> None:
        super().write(buffers, offset)
        self.files.record("write", self.node, offset, b"".join(buffers))

    def allocate(self, size: int) -> None:
        super().allocate(size)
        self.files.record("allocate", self.node, size)

    def truncate(self, size: int) -> None:
        super().truncate(size)
        self.files.record("cut", self.node, size)

    def sync(self) -> None:
        super().sync()
        self.files.record("sync", self.node)


def disk_after(events: Sequence[Event], chance: random.Random) -> SimulatedFiles:
    """Return what a cut of power may leave after these events."""
    durable: dict[int, bytearray] = {}
    pending: dict[int, list[Event]] = {}
    names: dict[str, int] = {}
    later: list[dict[str, int]] = []  # names since the last sync of the directory, after each change
    for event in events:
        if event.kind == "names":
            later.append(event.names)
        elif event.kind == "names synced":
            names, later = event.names, []
        elif event.kind == "sync":
            for waiting in pending.pop(event.node, []):
                _apply(durable.setdefault(event.node, bytearray()), waiting, lambda _: True)
        else:
            pending.setdefault(event.node, []).append(event)
    names = chance.choice([names, *later])
    after = SimulatedFiles()
    for name, node in names.items():
        content = durable.get(node, bytearray()).copy()
        _tear(content, pending.get(node, []), chance)
        fresh = Node()
        fresh.data, fresh.durable = bytearray(content), bytearray(content)
        after.names_now[name] = fresh
        after.used += len(content)
    after.names_durable = dict(after.names_now)
    return after


def _tear(content: bytearray, pending: list[Event], chance: random.Random) -> None:
    """Let some of the unsynced changes reach the disk."""
    how = chance.choice(["dropped", "kept", "reordered", "begun", "pieces", "pieces"])
    unit = chance.choice([PAGE, SECTOR, PARAGRAPH])
    if how == "begun":  # the first ones, the last of them up to some byte
        last = chance.randrange(len(pending) + 1)
        for event in pending[:last]:
            _apply(content, event, lambda _: True)
        if last < len(pending) and pending[last].kind == "write":
            part = pending[last].data[: chance.randint(0, len(pending[last].data))]
            _apply(content, pending[last]._replace(data=part), lambda _: True)
        return
    for event in pending:
        if how == "kept" or (how == "reordered" and chance.random() < 0.5):
            _apply(content, event, lambda _: True)
        elif how == "pieces":
            _apply(content, event, lambda _: chance.random() < 0.5, unit)


def _apply(content: bytearray, event: Event, reaches: Callable[[int], bool], unit: int = 1 << 40) -> None:
    """Carry out a change, of a write the pieces that reach the disk; a cut and a longer file are one piece."""
    if event.kind != "write":
        if reaches(0):
            size = event.offset
            if event.kind == "cut":
                del content[size:]
            content.extend(bytes(max(0, size - len(content))))
        return
    start, end = event.offset, event.offset + len(event.data)
    while start < end:
        stop = min(end, (start // unit + 1) * unit)
        if reaches(start):
            content.extend(bytes(max(0, stop - len(content))))
            content[start:stop] = event.data[start - event.offset : stop - event.offset]
        start = stop
