"""The format version of a data directory: one small file that states which versions may open it.

The format covers everything below the directory together: message log, catalogue, history, how they refer to each
other. It is checked before any of them is opened, because a version that does not know a newer segment or record would
take it for damage.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from annulet import __version__
from annulet.store.files.errors import FormatError
from annulet.store.files.files import OsFileSystem, write_durably

if TYPE_CHECKING:
    from pathlib import Path

FORMAT_VERSION: Final = 1
"""Written into :data:`FORMAT_FILE`. To be raised if an older version would misread the files of this one."""

FORMAT_FILE: Final = "format.json"
CATALOGUE_FILE: Final = "catalogue.sqlite"
HISTORY_FILE: Final = "history.sqlite"
LOG_DIRECTORY: Final = "messages"
MARK_FILE: Final = "catalogue-mark"
STAGE_DIRECTORY: Final = "stages"
SPILL_DIRECTORY: Final = "spill"
QUARANTINE_DIRECTORY: Final = "quarantine"
BACKUP_FILE: Final = "backup.json"
STAGING_DIRECTORY: Final = "backup-staging"
"""The contents of a data directory, beside the lock."""

UNVERSIONED: Final = 0
"""Format of directories written before there was a format file (Annulet 0.1 to 0.3): as format 1, without the file."""

OLDEST_READ: Final = UNVERSIONED
"""Directories of this format and newer ones are migrated at start, step by step."""

UNFINISHED_BACKUP: Final = "backup.unfinished"
"""Exists while a backup is copied into a directory, whose data is incomplete until then."""

KNOWN_NAMES: Final = frozenset(
    {
        *(FORMAT_FILE, "lock", CATALOGUE_FILE, HISTORY_FILE, LOG_DIRECTORY, QUARANTINE_DIRECTORY),
        *(STAGING_DIRECTORY, BACKUP_FILE, UNFINISHED_BACKUP, STAGE_DIRECTORY, SPILL_DIRECTORY, "lost+found"),
        *(f"{name}{end}" for name in (CATALOGUE_FILE, HISTORY_FILE) for end in ("-wal", "-shm")),
    }
)
"""All that may be in a data directory. ``lost+found`` is the file system's."""

FORMAT_BYTES_MAX: Final = 4096
"""The file is some 60 bytes; more is not ours and is not read."""


@dataclass(frozen=True, slots=True)
class DataFormat:
    """The contents of the format file.

    ``written_by`` is the version of Annulet that wrote it; empty when unversioned.
    """

    version: int
    written_by: str


def read_format(directory: Path) -> DataFormat | None:
    """Return the format of a data directory; ``None`` if it is empty or missing.

    Raises :class:`FormatError` when the file cannot be understood, ``OSError`` when it cannot be read.
    """
    path = directory / FORMAT_FILE
    try:
        with path.open("rb") as file:
            data = file.read(FORMAT_BYTES_MAX)
    except FileNotFoundError:
        return DataFormat(UNVERSIONED, "") if _holds_data(directory) else None
    try:
        content = json.loads(data)
        version, written_by = content["format"], content["written_by"]
    except (ValueError, TypeError, KeyError) as error:
        raise _damaged(path) from error
    if not isinstance(version, int) or isinstance(version, bool) or version < 1 or not isinstance(written_by, str):
        raise _damaged(path)
    return DataFormat(version, written_by)


def check_format(directory: Path) -> DataFormat | None:
    """Return the format, ``None`` for a fresh directory. Raises :class:`FormatError` when it must not be opened."""
    if (directory / UNFINISHED_BACKUP).exists():
        raise FormatError(
            f"data directory {directory} is a backup that was not finished: its messages are incomplete; "
            "take the backup again into another directory, and remove this one"
        )
    found = read_format(directory)
    if found is not None and found.version > FORMAT_VERSION:
        raise FormatError(
            f"data directory {directory} has format {found.version}, written by Annulet {found.written_by}; this is "
            f"Annulet {__version__}, which opens formats {OLDEST_READ} to {FORMAT_VERSION}; start Annulet "
            f"{found.written_by} or newer, or a backup that was taken before the upgrade"
        )
    return found


def open_format(directory: Path) -> None:
    """Check the format and update it to the present one. Call it with the directory's lock held, before opening other
    files.

    A fresh directory gets the file. One without a version has the same content as format 1, so that its migration is
    the file; nothing else is written. Raises :class:`FormatError` or ``OSError``.
    """
    found = check_format(directory)
    if found is None or found.version < FORMAT_VERSION:
        content = json.dumps({"format": FORMAT_VERSION, "written_by": __version__}) + "\n"
        write_durably(directory / FORMAT_FILE, content.encode(), OsFileSystem())


def _holds_data(directory: Path) -> bool:
    """Return whether a version before the format file wrote here: it made the catalogue first."""
    return (directory / CATALOGUE_FILE).exists() or (directory / LOG_DIRECTORY).exists()


def _damaged(path: Path) -> FormatError:
    return FormatError(
        f"format file {path} cannot be understood; restore it from a backup, or, when no newer version of Annulet "
        f'ever ran on this directory, write {{"format": {FORMAT_VERSION}, "written_by": "{__version__}"}} into it'
    )
