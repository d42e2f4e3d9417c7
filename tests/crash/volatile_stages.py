"""Stages of staged publishes as a power loss leaves them: what nobody synced is not on the disk.

Stages are written with the system's own files, so it is the syncs that are told: what a file or a directory has when it
is synced is what the disk has of it from then on.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Final

from annulet.store.files.data_format import STAGE_DIRECTORY
from tests.crash.volatile_files import VolatileFiles

POINT: Final = "sync stage"
Keeps = Callable[[], bool]
"""Says whether the system has written by itself what nobody synced: asked for each directory, and each file."""


def nothing() -> bool:
    """The worst of disks."""
    return False


class VolatileStages:
    """Keeps account of the stages of one data directory, from here on: what is there by now is on the disk.

    Each of their syncs is a marked point.
    """

    def __init__(self, files: VolatileFiles, data: Path) -> None:
        self._files = files
        self._data = data
        self._stages = data / STAGE_DIRECTORY
        self._names: dict[Path, dict[str, int]] = {}  # on the disk, by directory: name -> file
        self._contents: dict[int, bytes] = {}  # on the disk, by file
        self._held: list[int] = []  # descriptors, so that no other file becomes one of these
        self._sync = os.fsync
        for directory in self._directories():
            self._names[directory] = _names(directory)
        for path in self._stages.glob("*/*"):
            self._note(os.open(path, os.O_RDONLY), path)

    def sync(self, descriptor: int) -> None:
        """Stand in for ``os.fsync``."""
        status = os.fstat(descriptor)
        is_directory = stat.S_ISDIR(status.st_mode)
        ours = self._directories() if is_directory else self._stages.glob("*/*")
        path = next((each for each in ours if os.path.samestat(each.stat(), status)), None)
        if path is None:
            self._sync(descriptor)
            return
        point = nullcontext() if path == self._data else self._files.point(POINT)  # many sync the directory of all
        with self._files.lock, point:
            self._sync(descriptor)
            if is_directory:
                self._names[path] = _names(path)
            else:
                self._note(os.dup(descriptor), path)

    def leave(self, target: Path, *, names: Keeps = nothing, contents: Keeps = nothing) -> None:
        """Make ``target`` the directory of all stages as it is after a power loss at this moment."""
        if STAGE_DIRECTORY not in self._left(self._data, names):
            return
        target.mkdir(parents=True)
        found = {path.stat().st_ino: path for path in self._stages.glob("*/*")}
        for folder in self._left(self._stages, names):
            (target / folder).mkdir()
            for name, file in self._left(self._stages / folder, names).items():
                content = self._contents.get(file, b"")
                if file in found and contents():
                    content = found[file].read_bytes()
                (target / folder / name).write_bytes(content)

    def lose(self) -> None:
        """Have on the real disk what was synced, and of the rest what chance decides."""
        left, before = self._data.with_name("stages-left"), self._data.with_name("stages-before")
        for path in (left, before):
            shutil.rmtree(path, ignore_errors=True)
        self.leave(left, names=self._chance, contents=self._chance)
        if self._stages.exists():
            self._stages.rename(before)
        if left.exists():
            left.rename(self._stages)

    def close(self) -> None:
        """Let go of what is held open; to be used no more."""
        while self._held:
            os.close(self._held.pop())

    def _chance(self) -> bool:
        return self._files.chance.random() < 0.5

    def _left(self, directory: Path, keeps: Keeps) -> dict[str, int]:
        return _names(directory) if directory.is_dir() and keeps() else self._names.get(directory, {})

    def _directories(self) -> list[Path]:
        found = [self._data, self._stages, *self._stages.glob("*")]
        return [path for path in found if path.is_dir()]

    def _note(self, descriptor: int, path: Path) -> None:
        self._held.append(descriptor)
        self._contents[os.fstat(descriptor).st_ino] = path.read_bytes()


def _names(directory: Path) -> dict[str, int]:
    with os.scandir(directory) as entries:
        return {entry.name: entry.inode() for entry in entries}
