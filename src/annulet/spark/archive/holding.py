"""Readers that take longer than the grace of replaced files: the files that were valid at their start stay until they
end.

A reader leaves a file below ``_annulet/readers`` with the moment it began, and renews it. One that dies is found out by
the age of its file.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

    from annulet.spark.archive.table import Table

RENEW_SECONDS: Final = 60.0
"""Between two renewals of a reader."""

DEAD_SECONDS: Final = 900.0
"""Age of the last renewal at which a reader is taken for dead: a machine that sleeps or swaps for minutes is not."""


@contextmanager
def held(table: Table, *, renew_seconds: float = RENEW_SECONDS) -> Iterator[Path]:
    """Keep the presently valid files until the end.

    Yields the reader's file. Raises ``OSError`` if none can be written.
    """
    folder = table.inside / "readers"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / uuid.uuid4().hex
    file.write_text(str(table.log.now()))
    ended = Event()

    def renew() -> None:
        while not ended.wait(renew_seconds):
            with suppress(OSError):  # a disk that refuses now may take the next one
                os.utime(file)

    thread = Thread(target=renew, name="annulet-archive-reader", daemon=True)
    thread.start()
    try:
        yield file
    finally:
        ended.set()
        thread.join()
        file.unlink(missing_ok=True)


def held_since(table: Table) -> int | None:
    """Return when the first of the living readers began, milliseconds since 1970; ``None`` without any.

    Forgets the dead ones.
    """
    folder = table.inside / "readers"
    dead = table.log.now() / 1000 - DEAD_SECONDS
    moments: list[int] = []
    for file in folder.iterdir() if folder.is_dir() else ():
        with suppress(FileNotFoundError, ValueError):  # it ended just now; it is just being written
            if file.stat().st_mtime < dead:
                file.unlink(missing_ok=True)
            else:
                moments.append(int(file.read_text()))
    return min(moments, default=None)
