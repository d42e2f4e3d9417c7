"""The mark that the catalogue leaves beside the message log, so that a start can check that the two belong together.

The file in the log's directory has the identity of the catalogue that wrote it and its number of changes (the
generation). A catalogue that is missing, another one, or older than its mark is refused: it lost definitions (a missing
journal, a file restored from elsewhere), and the messages of their queues in the log must not be given to others.
``annulet doctor --rebuild`` accepts the catalogue and adds the queues that are in the log.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from annulet.store.database.catalogue import IDENTITY, Catalogue
from annulet.store.files.data_format import CATALOGUE_FILE, LOG_DIRECTORY, MARK_FILE
from annulet.store.files.errors import CatalogueError
from annulet.store.files.files import OsFileSystem
from annulet.store.files.marks import MarkFile, load_mark

if TYPE_CHECKING:
    from annulet.store.files.marks import Mark

REMEDY: Final = (
    "restore the catalogue from a backup of the same time as the messages; or run annulet doctor --rebuild, which adds "
    "the queues that the message log knows and accepts the rest as it is"
)


def mark_path(directory: Path) -> Path:
    """Return the path of the mark of a data directory."""
    return directory / LOG_DIRECTORY / MARK_FILE


def open_catalogue(directory: Path) -> Catalogue:
    """Open the catalogue of a data directory, and create it in a new one.

    Raises :class:`CatalogueError` when it is not the one that the message log was written with, or older than that.
    """
    path = directory / CATALOGUE_FILE
    mark = load_mark(mark_path(directory), OsFileSystem())
    if mark is not None and not path.exists():
        raise missing(path)
    catalogue = Catalogue(path)
    try:
        if mark is not None:
            check_mark(catalogue, mark)
    except BaseException:
        catalogue.close()
        raise
    return catalogue


def check_mark(catalogue: Catalogue, mark: Mark) -> None:
    """Raise :class:`CatalogueError` when the mark is of another catalogue, or of a later time."""
    if mark.payload != catalogue.secret(IDENTITY):
        raise CatalogueError(f"catalogue {catalogue.path} is not the one that the messages were written with; {REMEDY}")
    if mark.generation > catalogue.generation:
        raise CatalogueError(
            f"catalogue {catalogue.path} lacks its last {mark.generation - catalogue.generation} changes: it has seen "
            f"{catalogue.generation}, and {mark.generation} were durable before; {REMEDY}"
        )


def missing(path: Path) -> CatalogueError:
    """Return the exception for messages without a catalogue."""
    return CatalogueError(f"catalogue {path} is missing beside a message log that has messages; {REMEDY}")


def refuse_new_catalogue(catalogue: Catalogue) -> CatalogueError:
    """Close and remove a catalogue that was created beside a log with messages; return the exception to raise."""
    path = Path(catalogue.path)
    catalogue.close()
    for end in ("", "-wal", "-shm"):
        path.with_name(path.name + end).unlink(missing_ok=True)
    return missing(path)


def start_mark(catalogue: Catalogue, directory: Path) -> None:
    """Let the catalogue leave its mark from now on."""
    catalogue.mark_with(MarkFile(mark_path(directory), OsFileSystem()))
