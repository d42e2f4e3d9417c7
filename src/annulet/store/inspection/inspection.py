"""Problems of a data directory whose broker is stopped, and their remedies.

The inspection changes nothing: SQLite files are checked in a copy (a reader of the original would leave files owned by
the inspecting user), the log is read by :mod:`annulet.store.inspection.log_inspection`. :func:`repair` removes the
files that findings list as removable: files without messages that a start would remove or create again.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from annulet.store.database import catalogue, history
from annulet.store.database.catalogue_mark import REMEDY, mark_path
from annulet.store.database.database import READ_ERRORS, SURROUNDINGS_REMEDY
from annulet.store.database.journal import find_damage
from annulet.store.files.data_format import (
    CATALOGUE_FILE,
    HISTORY_FILE,
    KNOWN_NAMES,
    LOG_DIRECTORY,
    QUARANTINE_DIRECTORY,
    STAGING_DIRECTORY,
    UNFINISHED_BACKUP,
    UNVERSIONED,
    check_format,
)
from annulet.store.files.errors import DirectoryInUseError, FormatError, StoreError
from annulet.store.files.files import UNFINISHED_SUFFIX
from annulet.store.files.full_disk import NO_SPACE
from annulet.store.files.lock import LOCK_FILE, DirectoryLock
from annulet.store.files.marks import load_mark
from annulet.store.inspection.log_inspection import LogInspection, ReadOnlyFiles, inspect_log
from annulet.store.log.space import SEGMENT_BYTES
from annulet.store.segments.segment import SEGMENT_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from annulet.store.database.database import DatabaseKind

ERROR: Final = "error"
"""A broker does not start, or messages are lost or will be."""
WARNING: Final = "warning"
"""Attention is needed: nothing is lost, or the loss is known and dealt with."""
NOTE: Final = "note"
"""An expected consequence of an event."""

NOT_CHECKED: Final = "not-checked"
"""Code of a finding: a file could not be checked, and its state is unknown."""

FREE_BYTES_WANTED: Final = 16 * SEGMENT_BYTES
"""256 MiB: below this a broker under load is some seconds away from refusing publishes."""

FREE_BYTES_NEEDED: Final = 2 * SEGMENT_BYTES
"""Tail and spare of the log: with less a start may not be able to take a publish."""

WORLD_WRITABLE: Final = 0o002

DAMAGE_TEXT_MAX: Final = 300
"""Characters of SQLite's report on a damaged file."""

UNKNOWN_SHOWN: Final = 10
"""Queues that a finding names; all of them are among the figures."""

DELETIONS_SINCE: Final = 6
"""Schema of the catalogue from which on it remembers deleted queues and its generation."""


class CatalogueQueues(NamedTuple):
    """Ids of the queues that the catalogue has, and of those that were deleted."""

    present: set[int]
    deleted: set[int]


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding. ``code`` does not change between versions; ``removable`` lists the files a repair removes."""

    severity: str
    code: str
    text: str
    remedy: str = ""
    removable: tuple[Path, ...] = ()


@dataclass(slots=True)
class Inspection:
    """The result. ``figures`` are plain values by section; ``sound`` means neither error nor warning."""

    directory: Path
    findings: list[Finding] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)

    @property
    def sound(self) -> bool:
        """No action is needed."""
        return all(finding.severity == NOTE for finding in self.findings)

    def add(self, severity: str, code: str, text: str, remedy: str = "", removable: Iterable[Path] = ()) -> None:
        """Add a finding."""
        self.findings.append(Finding(severity, code, text, remedy, tuple(removable)))


def inspect(directory: Path, now: int, progress: Callable[[int, int], None] | None = None) -> Inspection:
    """Inspect a data directory; ``now`` is in milliseconds since 1970.

    No broker may run on it: its lock is taken during the inspection. ``progress`` is called with the number of segments
    read, and of all.
    """
    found = Inspection(directory)
    if not directory.is_dir():
        text = f"{directory} is no directory" if directory.exists() else f"there is no directory {directory}"
        found.add(ERROR, "no-directory", text, "name the data directory: annulet doctor DIRECTORY")
        return found
    lock = DirectoryLock(directory)
    try:
        lock.acquire_unwritten()
        if _check_format(found):
            queues = _check_catalogue(found)
            _check_history(found)
            _check_log(found, queues, now, progress)
            _check_other_files(found)
        _check_space(found)
        _check_permissions(found)
    except DirectoryInUseError as error:
        remedy = "stop the broker, or take a backup of it with annulet backup and look at that"
        found.add(ERROR, "in-use", str(error).partition(";")[0], remedy)
    except OSError as error:
        found.add(ERROR, "unreadable", f"{error.filename or directory}: {error.strerror}", "run as the broker's user")
    finally:
        lock.release()
    return found


def repair(found: Inspection) -> list[Path]:
    """Remove the removable files and return them. Never a segment, a checkpoint, a catalogue or evidence of damage.

    Raises :class:`DirectoryInUseError` if a broker was started in the meantime, ``OSError`` if a file cannot be
    removed.
    """
    removed = []
    lock = DirectoryLock(found.directory)
    lock.acquire_unwritten()
    try:
        for path in (path for finding in found.findings for path in finding.removable):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
            removed.append(path)
    finally:
        lock.release()
    return removed


def _check_format(found: Inspection) -> bool:
    """Check the format; return whether the rest may be inspected."""
    directory = found.directory
    try:
        known = check_format(directory)
    except FormatError as error:
        text, _, remedy = str(error).partition("; ")
        found.add(ERROR, "format", text, remedy)
        return False
    if known is None:
        names = sorted(path.name for path in directory.iterdir() if path.name != LOCK_FILE)
        if names:
            text = f"{directory} is no data directory of a broker: {', '.join(names[:5])}"
            found.add(ERROR, "no-data", text, "name the directory that annulet serve --data has")
        else:
            found.add(NOTE, "empty", f"{directory} is empty: a broker would start without queues and messages")
        return False
    found.figures["format"] = {"version": known.version, "written_by": known.written_by}
    if known.version == UNVERSIONED:
        found.add(NOTE, "format-unversioned", "written before there were format files; the next start writes one")
    return True


# ---------------------------------------------------------------------- SQLite


def _check_catalogue(found: Inspection) -> CatalogueQueues | None:
    """Check the catalogue; return its queues, ``None`` when it cannot be read."""
    remedy = "restore it from a backup; or move it away, and annulet doctor --rebuild makes one of what the log knows"
    with _checked_copy(found, CATALOGUE_FILE, catalogue.KIND, _read_catalogue, remedy) as connection:
        if connection is None:
            return None
        counts = {
            table: connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0]  # noqa: S608 - our names
            for table in ("virtual_hosts", "users", "exchanges", "queues", "bindings", "leases", "publish_marks")
        }
        found.figures["catalogue"].update(counts)
        queues = {queue_id for (queue_id,) in connection.execute("SELECT id FROM queues")}
        deleted: set[int] = set()
        if found.figures["catalogue"]["schema"] >= DELETIONS_SINCE:
            deleted = {queue_id for (queue_id,) in connection.execute("SELECT queue_id FROM deleted_queues")}
            _check_mark(found, connection)
        stray = connection.execute(
            "SELECT COUNT(*) FROM leases WHERE queue_id NOT IN (SELECT id FROM queues)"
        ).fetchone()[0]
        if stray:
            text = f"{stray} leases are of queues that are not in the catalogue"
            found.add(WARNING, "leases-of-unknown-queues", text, "drop them: their queries have nothing left to read")
        return CatalogueQueues(queues, deleted)


def _check_mark(found: Inspection, connection: sqlite3.Connection) -> None:
    """Report the reason for which a start would refuse the catalogue beside this log."""
    mark = load_mark(mark_path(found.directory), ReadOnlyFiles())
    if mark is None:
        return
    (generation,) = connection.execute("SELECT value FROM generations WHERE name = 'catalogue'").fetchone()
    identity = connection.execute("SELECT value FROM secrets WHERE name = ?", (catalogue.IDENTITY,)).fetchone()
    if identity is None or identity[0] != mark.payload:
        text = "catalogue.sqlite is not the one that the messages were written with"
        found.add(ERROR, "catalogue-foreign", text, REMEDY)
    elif mark.generation > generation:
        text = f"catalogue.sqlite lacks its last {mark.generation - generation} changes: they were durable before"
        found.add(ERROR, "catalogue-older", text, REMEDY)


def _check_history(found: Inspection) -> None:
    remedy = (
        "restore it from a backup, or move it away: losses, duplicate ids, delivery counts, pauses are then forgotten"
    )
    dropped = find_damage(str(found.directory / f"{HISTORY_FILE}-wal"))
    if dropped.text:
        text = history.dropped_text(dropped).replace(str(found.directory / HISTORY_FILE), HISTORY_FILE)
        restore = "restore history.sqlite and its journal from a backup if they matter, or start: the rest is kept"
        found.add(ERROR, "history-shortened", text, restore)
    with _checked_copy(found, HISTORY_FILE, history.KIND, _read_history, remedy) as connection:
        if connection is not None:
            rows = connection.execute("SELECT COUNT(*) FROM audit").fetchone()
            found.figures["history"]["audit"] = rows[0]


def _read_catalogue(path: Path) -> None:
    catalogue.Catalogue(path).close()


def _read_history(path: Path) -> None:
    history.History(path).close()


@contextmanager
def _checked_copy(
    found: Inspection, name: str, kind: DatabaseKind, read: Callable[[Path], None], remedy: str
) -> Iterator[sqlite3.Connection | None]:
    """Give a connection to a copy of an SQLite file that a start would take; ``None``, and a finding, for another one.

    ``read`` processes the copy like a start; its errors are reported with the name of the original file.
    """
    path = found.directory / name
    if not path.exists():
        if kind is catalogue.KIND and any((found.directory / LOG_DIRECTORY).glob(f"*{SEGMENT_SUFFIX}")):
            text = f"there is no {path.name} beside a message log: a broker does not start where there are messages"
            found.add(ERROR, f"{kind.name}-missing", text, REMEDY)
        else:
            text = f"there is no {path.name}: the next start makes an empty one"
            found.add(WARNING, f"{kind.name}-missing", text, remedy)
        yield None
        return
    with ExitStack() as stack:
        copy = _copy(found, path, stack)
        if copy is None:
            yield None
            return
        # open all the time, or its journal would be gone by then
        connection = stack.enter_context(closing(sqlite3.connect(copy)))
        yield connection if _is_sound(found, connection, path, copy, kind, read, remedy) else None


def _copy(found: Inspection, path: Path, stack: ExitStack) -> Path | None:
    """Copy an SQLite file with its journal for as long as the stack lives; ``None``, and a finding, without room."""
    try:
        place = stack.enter_context(tempfile.TemporaryDirectory(prefix="annulet-doctor-"))
    except OSError as error:
        _not_checked(found, path, str(error.strerror))
        return None
    copy = Path(place) / path.name
    for end in ("", "-wal"):
        part = path.with_name(path.name + end)
        try:
            if part.exists():
                shutil.copyfile(part, copy.with_name(copy.name + end))
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            _not_checked(found, path, str(error.strerror))
            return None
    return copy


def _not_checked(found: Inspection, path: Path, reason: str) -> None:
    text = f"{path.name} was not checked, as there is no room for a copy in temporary files: {reason}"
    place = os.environ.get("TMPDIR", "/tmp")  # noqa: S108 - to be named only
    found.add(WARNING, NOT_CHECKED, text, f"free space in {place}, or set TMPDIR to a folder that has some; look again")


def _is_sound(
    found: Inspection,
    connection: sqlite3.Connection,
    path: Path,
    copy: Path,
    kind: DatabaseKind,
    read: Callable[[Path], None],
    remedy: str,
) -> bool:
    try:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
    except READ_ERRORS:
        version = 0
    found.figures[kind.name] = {"schema": version, "bytes": path.stat().st_size}
    try:
        read(copy)
    except StoreError as error:
        _, unreadable, text = str(error).partition(f"{kind.name} {copy} cannot be read: ")
        if text.endswith(SURROUNDINGS_REMEDY):
            del found.figures[kind.name]
            _not_checked(found, path, text.removesuffix(f"; {SURROUNDINGS_REMEDY}"))
        elif unreadable:
            text = text.removesuffix(f"; {kind.remedy}").replace(str(copy), path.name)[:DAMAGE_TEXT_MAX]
            found.add(ERROR, f"{kind.name}-damaged", f"{path.name} is damaged: {text}", remedy)
        else:
            text = f"{path.name} has schema version {version}, this version of Annulet knows {kind.version}"
            found.add(ERROR, f"{kind.name}-newer", text, "start the newer version again")
        return False
    return True


# ---------------------------------------------------------------------- the log


def _check_log(
    found: Inspection, queues: CatalogueQueues | None, now: int, progress: Callable[[int, int], None] | None
) -> None:
    directory = found.directory / LOG_DIRECTORY
    if not directory.is_dir():
        found.add(WARNING, "log-missing", f"there is no {directory}", "restore it from a backup if there were messages")
        return
    log = inspect_log(directory, now, progress)
    report = log.report
    found.figures["log"] = {
        "segments": len(log.segments),
        "dead_segments": log.dead_segments,
        "bytes": sum(segment.bytes for segment in log.segments),
        "records": sum(segment.records for segment in log.segments),
        "live_messages": report.live_records,
        "lost_messages": report.lost_records,
        "doubtful_places": report.doubtful_places,
        "damaged_places": report.corrupt_records,
        "torn_tails": report.torn_tails,
        "checkpoints": log.checkpoints,
        "closed": log.closed,
    }
    found.figures["segments"] = [
        {
            "number": segment.number,
            "bytes": segment.bytes,
            "records": segment.records,
            "messages": segment.messages,
            "live": segment.live,
            "damaged_bytes": segment.damaged_bytes,
        }
        for segment in log.segments
    ]
    _judge_damages(found, log)
    _judge_queues(found, log, queues)
    _judge_names(found, log, directory)
    if log.future:
        text = f"{log.future} messages were accepted up to {log.ahead // 1000} s later than now: the clock went back"
        found.add(WARNING, "clock", text, "set the clock; they expire and fall due that much later")
    if not log.closed:
        found.add(NOTE, "not-closed", "the last stop was not clean: the next start recovers, and marks redelivered")


def _judge_damages(found: Inspection, log: LogInspection) -> None:
    report = log.report
    corrupt = [str(damage) for damage in log.damages if damage.kind != "torn"]
    if corrupt:
        shown = "; ".join(corrupt[:5]) + ("; ..." if len(corrupt) > 5 else "")
        remedy = "start the broker: it serves all other messages and keeps the damaged bytes in quarantine/"
        if report.lost_records:
            found.add(ERROR, "log-lost", f"{report.lost_records} live messages cannot be read: {shown}", remedy)
        if report.doubtful_places:
            text = f"a message may have stood, or what became of one, in {report.doubtful_places} damaged places"
            found.add(ERROR, "log-doubtful", f"{text} written since the last checkpoint: {shown}", remedy)
        elif not report.lost_records:
            found.add(WARNING, "log-damaged", f"damage that costs no live message: {shown}", remedy)
    elif report.lost_records:
        text = f"{report.lost_records} live messages are in no segment"
        found.add(ERROR, "log-lost", text, "restore a backup if they matter; the broker starts without them")
    if report.checkpoint_fallback:
        text = "the newest checkpoint is damaged: an older one is used, or all segments are read"
        found.add(WARNING, "checkpoint-damaged", text, "start the broker: it writes a new one")
    if report.uncertain_transactions:
        text = f"no checkpoint is left; {report.uncertain_transactions} transactions count although no commit was found"
        found.add(WARNING, "transactions-uncertain", text, "compare with the senders, or restore a backup")
    if report.torn_tails:
        text = "a crash interrupted the last write, and nothing confirmed was in it; damage there looks the same"
        found.add(NOTE, "torn", text)


def _judge_queues(found: Inspection, log: LogInspection, queues: CatalogueQueues | None) -> None:
    if queues is None:
        return
    missing = {queue_id: count for queue_id, count in log.live_by_queue.items() if queue_id not in queues.present}
    deleted = {queue_id: count for queue_id, count in missing.items() if queue_id in queues.deleted}
    unknown = {queue_id: count for queue_id, count in missing.items() if queue_id not in queues.deleted}
    if deleted:
        text = f"{sum(deleted.values())} messages are of {len(deleted)} queues that were deleted"
        found.add(NOTE, "messages-of-deleted-queues", f"{text}: the next start drops them")
    if unknown:
        names = {queue_id: name.name for queue_id, name in log.known.queues.items()}
        shown = [
            f"{queue_id} ({names.get(queue_id, 'name unknown')}): {count}"
            for queue_id, count in sorted(unknown.items())[:UNKNOWN_SHOWN]
        ]
        text = (
            f"{sum(unknown.values())} messages are of {len(unknown)} queues that are not in the catalogue, by id "
            f"{', '.join(shown)}{', ...' if len(unknown) > UNKNOWN_SHOWN else ''}"
        )
        remedy = (
            "annulet doctor --rebuild puts the queues back, --discard ID drops the messages of one; a start keeps them"
        )
        found.add(WARNING, "messages-of-unknown-queues", text, remedy)
        found.figures["unknown_queues"] = {str(queue_id): count for queue_id, count in sorted(unknown.items())}
    found.figures["log"]["live_by_queue"] = {str(queue): count for queue, count in sorted(log.live_by_queue.items())}


def _judge_names(found: Inspection, log: LogInspection, directory: Path) -> None:
    if log.temporary:
        text = f"{len(log.temporary)} unfinished files: {', '.join(log.temporary[:5])}"
        remedy = "the next start removes them, or annulet doctor --repair"
        found.add(NOTE, "temporary", text, remedy, [directory / name for name in log.temporary])
    if log.orphan_indexes:
        names = ", ".join(log.orphan_indexes[:5])
        text = f"{len(log.orphan_indexes)} indexes or heads of segments that are gone: {names}"
        found.add(
            NOTE, "orphan-index", text, "annulet doctor --repair", [directory / name for name in log.orphan_indexes]
        )
    if log.unknown:
        text = f"files in {directory} that no broker made: {', '.join(log.unknown[:5])}"
        found.add(WARNING, "unknown-files", text, "move them away")


# ---------------------------------------------------------------------- everything else


def _check_other_files(found: Inspection) -> None:
    directory = found.directory
    names = sorted(path.name for path in directory.iterdir())
    temporary = [directory / name for name in names if name.endswith(UNFINISHED_SUFFIX) and name != UNFINISHED_BACKUP]
    temporary += [directory / name for name in names if name == STAGING_DIRECTORY]
    if temporary:
        text = f"left by an interrupted write or backup: {', '.join(path.name for path in temporary)}"
        found.add(NOTE, "temporary", text, "the next start removes them, or annulet doctor --repair", temporary)
    unknown = [name for name in names if name not in KNOWN_NAMES and not name.endswith(UNFINISHED_SUFFIX)]
    if unknown:
        found.add(WARNING, "unknown-files", f"files that no broker made: {', '.join(unknown[:5])}", "move them away")
    quarantine = directory / QUARANTINE_DIRECTORY
    kept = sorted(path for path in quarantine.iterdir() if path.suffix == ".json") if quarantine.is_dir() else []
    size = sum(path.stat().st_size for path in quarantine.iterdir()) if kept else 0
    found.figures["quarantine"] = {"records": len(kept), "bytes": size}
    if kept:
        text = f"{len(kept)} damaged records are kept in {quarantine}"
        found.add(WARNING, "quarantine", text, "look at the disk and at the records, then remove the files")


def _check_space(found: Inspection) -> None:
    usage = os.statvfs(found.directory)
    free = usage.f_bavail * usage.f_frsize
    used = sum(path.lstat().st_size for path in found.directory.rglob("*") if path.is_file())
    found.figures["disk"] = {"free_bytes": free, "total_bytes": usage.f_blocks * usage.f_frsize, "used_bytes": used}
    if free < FREE_BYTES_WANTED:
        severity = ERROR if free < FREE_BYTES_NEEDED else WARNING
        text = f"{free >> 20} MiB are free on the disk, {FREE_BYTES_WANTED >> 20} MiB is what a broker under load wants"
        found.add(severity, "disk-space", text, "free space, or let consumers catch up; publishes are refused at none")
    if usage.f_files and not usage.f_favail:
        found.add(ERROR, "disk-files", "the file system has no file left to give", "remove files on that disk")


def _check_permissions(found: Inspection) -> None:
    owner = found.directory.stat().st_uid
    for path in _with_all_below(found.directory):
        status = path.lstat()
        if status.st_uid != owner:
            text = f"{path} belongs to user id {status.st_uid}, the directory to {owner}: the broker may not write it"
            found.add(WARNING, "owner", text, f"chown {owner} {path}")
        if status.st_mode & WORLD_WRITABLE and not path.is_symlink():
            found.add(WARNING, "permissions", f"every user may write {path}", f"chmod o-w {path}")
        wanted = os.R_OK | os.W_OK | (os.X_OK if path.is_dir() else 0)
        if not os.access(path, wanted):
            found.add(
                ERROR, "permissions", f"{path} cannot be read and written by this user", "run as the broker's user"
            )


def _with_all_below(directory: Path) -> Iterator[Path]:
    yield directory
    yield from directory.rglob("*")
