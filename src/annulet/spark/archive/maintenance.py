"""Keeping an archive in shape: small files become large ones, old days go, replaced files are deleted in time."""

from __future__ import annotations

import re
import shutil
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from annulet.spark.archive.holding import held_since
from annulet.spark.archive.log import Entry, FileEntry, State
from annulet.spark.archive.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILE_BYTES: Final = 64 * 1024 * 1024
"""Size that files are merged up to: Spark reads such a file about ten times as fast as its rows in thousands."""
SMALL_FILES: Final = 64
"""Small files of a folder that start a merge: each is written again once per 64 batches at most."""
QUIET_SECONDS: Final = 24 * 3600.0
"""Age of the newest small file of a folder from which two are enough: a past day gets no more of them."""
QUIET_FOLDERS: Final = 4
"""Folders of one round that are merged for their age: each takes Spark about a second, and the next batch waits."""
GRACE_SECONDS: Final = 3600.0
"""How long a replaced file stays for readers that began before."""
STAGE_SECONDS: Final = 24 * 3600.0
"""Age after which a staging folder was left by a crash; a batch takes seconds."""
DAY_SECONDS: Final = 24 * 3600

OWN_NAME: Final = re.compile(r"(?:.+-\d{9}-[0-9a-f]{8}|merged-[0-9a-f]{32})-\d{4,}\.parquet")
"""Names of the files that batches and merges make."""


@dataclass(frozen=True, slots=True)
class Upkeep:
    """Bounds of an archive. ``keep_days`` of ``None`` keeps everything; days are those of the folders, in UTC."""

    file_bytes: int = FILE_BYTES
    small_files: int = SMALL_FILES
    keep_days: int | None = None
    grace_seconds: float = GRACE_SECONDS


@dataclass(frozen=True, slots=True)
class Done:
    """The result of one round of maintenance, in files."""

    merged: int = 0
    expired: int = 0
    deleted: int = 0


def maintain(spark: SparkSession, table: Table, upkeep: Upkeep) -> Done:
    """Merge folders with many small files, drop old days, delete files that no reader can be using any more."""
    return Done(compact(spark, table, upkeep), expire(table, upkeep), vacuum(table, upkeep))


def compact(spark: SparkSession, table: Table, upkeep: Upkeep) -> int:
    """Merge small files of a folder into one of ``file_bytes`` where there are ``small_files``. Returns files merged.

    If none was added for ``QUIET_SECONDS`` two are enough, in ``QUIET_FOLDERS`` folders of a call. Readers by the log
    see either the small ones or the merged one. If another process was faster, its result stays.
    """
    merged = 0
    for group in mergeable(table.state(), upkeep, table.log.now()):
        paths = [file.path for file in group]
        frame = table.read(spark, paths)
        folders = [part.partition("=")[0] for part in PurePosixPath(paths[0]).parts[:-1]]
        order = [name for name in ("enqueued_at", "queue", "position") if name in frame.columns]
        stage = table.write(frame, folders, order, 1)
        placed = table.place(stage, f"merged-{uuid.uuid4().hex}")
        if sum(file.rows for file in placed) != sum(file.rows for file in group):
            raise RuntimeError(f"{table.root}: a merge changed the number of rows; nothing was replaced")
        if table.log.commit(lambda state, placed=placed, paths=paths: _replacing(state, placed, paths)) is None:  # type: ignore[misc]
            for file in placed:
                (table.root / file.path).unlink()
        else:
            merged += len(group)
    return merged


def mergeable(state: State, upkeep: Upkeep, now: int) -> Iterator[list[FileEntry]]:
    """Yield groups of small files of one folder, oldest first, each about ``file_bytes`` in all.

    ``now`` is in milliseconds since 1970, as the times of the files are.
    """
    folders: dict[str, list[FileEntry]] = {}
    for file in state.files.values():
        if file.bytes < upkeep.file_bytes // 2:
            folders.setdefault(str(PurePosixPath(file.path).parent), []).append(file)
    quiet = 0
    for files in folders.values():
        if len(files) < 2:
            continue
        if len(files) < upkeep.small_files:
            if quiet == QUIET_FOLDERS or now - max(file.added_at for file in files) < QUIET_SECONDS * 1000:
                continue
            quiet += 1
        yield from _of_size(sorted(files, key=lambda file: (file.added_at, file.path)), upkeep.file_bytes)


def _of_size(files: list[FileEntry], file_bytes: int) -> Iterator[list[FileEntry]]:
    """Yield groups of neighbours that together do not exceed the size of a file; no single ones."""
    group: list[FileEntry] = []
    size = 0
    for file in files:
        if group and size + file.bytes > file_bytes:
            if len(group) > 1:
                yield group
            group, size = [], 0
        group.append(file)
        size += file.bytes
    if len(group) > 1:
        yield group


def _replacing(state: State, placed: list[FileEntry], paths: list[str]) -> Entry | None:
    if any(path not in state.files for path in paths):
        return None
    return Entry(add=placed, remove=paths)


def expire(table: Table, upkeep: Upkeep) -> int:
    """Let the files of days go that are older than ``keep_days``. Returns their number."""
    if upkeep.keep_days is None:
        return 0
    cut = table.log.now() / 1000 - upkeep.keep_days * DAY_SECONDS
    first_kept = f"date={datetime.fromtimestamp(cut, UTC):%Y-%m-%d}"

    def old(state: State) -> Entry | None:
        paths = [path for path in state.files if path.startswith("date=") and path.partition("/")[0] < first_kept]
        return Entry(remove=paths) if paths else None

    entry = table.log.commit(old)
    return 0 if entry is None else len(entry.remove)


def vacuum(table: Table, upkeep: Upkeep) -> int:
    """Delete files that stopped counting longer than ``grace_seconds`` ago, and old staging. Returns files deleted.

    Files that were valid when a reader began that still :func:`holds <annulet.spark.archive.holding.held>` the table
    stay.
    """
    now = table.log.now()
    limit = now - upkeep.grace_seconds * 1000
    since = held_since(table)
    paths = [path for path, at in table.state().removed.items() if at <= limit and (since is None or at < since)]
    for path in paths:
        (table.root / path).unlink(missing_ok=True)
        _remove_empty(table.root / path, table.root)
    if paths:
        table.log.commit(lambda _state: Entry(forget=paths))
    stage = table.inside / "stage"
    for folder in stage.iterdir() if stage.is_dir() else ():
        with suppress(FileNotFoundError):  # a batch of another query is done, and its folder gone
            if folder.stat().st_mtime < now / 1000 - STAGE_SECONDS:
                shutil.rmtree(folder, ignore_errors=True)  # another process may be doing the same
    return len(paths)


def remove_orphans(table: Table) -> int:
    """Delete files that a crash left before they counted: older than STAGE_SECONDS and unknown to the log.

    Foreign files stay, by their names, and files older than the table, whose log was lost: these were not left by a
    crash. It checks every file, so it is meant for the start of a process. Returns files deleted.
    """
    if not table.schema_file.exists():
        return 0
    begun = table.schema_file.stat().st_mtime
    limit = table.log.now() / 1000 - STAGE_SECONDS
    state = table.state()
    known = state.files.keys() | state.removed.keys()
    deleted = 0
    for path in table.root.rglob("*.parquet"):
        if table.inside in path.parents or str(path.relative_to(table.root)) in known:
            continue
        with suppress(FileNotFoundError):  # another process may be doing the same
            if OWN_NAME.fullmatch(path.name) and begun <= path.stat().st_mtime < limit:
                path.unlink()
                deleted += 1
    return deleted


def _remove_empty(file: Path, root: Path) -> None:
    """Remove the empty folders of a deleted file."""
    for folder in file.parents:
        if folder == root:
            return
        try:
            folder.rmdir()
        except OSError:  # not empty, or another process was faster
            return
