"""The mark of the synced position: segment and byte, and the number of messages up to it.

Without it a log that ends early looks like one whose last write a crash tore. See :mod:`annulet.store.files.marks`.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from annulet.store.files.marks import Mark, MarkFile, load_mark

if TYPE_CHECKING:
    from pathlib import Path

    from annulet.store.files.files import FileSystem

WRITTEN_FILE: Final = "written"

_WRITTEN: Final = Struct("<QQQ")


class Written(NamedTuple):
    """Batch ``batch`` and all before it were synced; the last of them ended at ``offset`` of ``segment``, which had
    ``messages`` messages by then, including settled ones."""

    batch: int = 0
    segment: int = 0
    offset: int = 0
    messages: int = 0

    def mark(self) -> Mark:
        """Return its encoded form."""
        return Mark(self.batch, _WRITTEN.pack(self.segment, self.offset, self.messages))


def load_written(directory: Path, files: FileSystem) -> Written:
    """Return the newest mark of a log directory; one of batch 0 where there is none. Raises ``OSError``."""
    mark = load_mark(directory / WRITTEN_FILE, files)
    if mark is None or len(mark.payload) != _WRITTEN.size:
        return Written()
    return Written(mark.generation, *_WRITTEN.unpack(mark.payload))


def written_mark(directory: Path, files: FileSystem) -> MarkFile:
    """Return the file of a log directory, to be begun."""
    return MarkFile(directory / WRITTEN_FILE, files)
