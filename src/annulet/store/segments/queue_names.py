"""Names and durable settings of the queues that log records refer to by number.

Records name a queue by its id, which the catalogue resolves. This file beside the segments has a second copy, so that
messages can be assigned to their queues if the catalogue is lost. It has one line for each declared or deleted queue:
``crc32 JSON``. Lines are appended and synced before the batch that may have the queue's first message; a start rewrites
the file from the catalogue. Of two lines about one queue the later one counts.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any, Final

from isal.isal_zlib import crc32

from annulet.store.database.definitions import KnownQueues, QueueName
from annulet.store.files.files import write_durably

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from annulet.store.files.files import File, FileSystem

logger = logging.getLogger(__name__)

NAMES_FILE: Final = "queues"

TIDY_BYTES: Final = 1 << 20
"""The file is rewritten without deleted queues when it has grown by this much and by its former size: about 5,000
deleted queues."""


def name_line(name: QueueName) -> bytes:
    """Return the line of a queue that was declared."""
    return _line(
        {
            "id": name.queue_id,
            "virtual_host": name.virtual_host,
            "name": name.name,
            "auto_delete": name.auto_delete,
            "arguments": name.arguments,
            "address": name.address,
            "auto_created": name.auto_created,
        }
    )


def deleted_line(queue_id: int) -> bytes:
    """Return the line of a queue that was deleted."""
    return _line({"deleted": queue_id})


def _line(content: dict[str, Any]) -> bytes:
    data = json.dumps(content, separators=(",", ":")).encode()
    return b"%08x %s\n" % (crc32(data), data)


def decode_names(data: bytes) -> KnownQueues:
    """Read all lines; damaged ones are counted. A last line without an end was torn by a crash."""
    known = KnownQueues()
    for line in data.split(b"\n")[:-1]:
        content = _content(line)
        if content is None:
            known.damaged += 1
            continue
        deleted = content.get("deleted")
        if deleted is not None:
            known.queues.pop(deleted, None)
            known.deleted.add(deleted)
            continue
        queue_id = content.pop("id")
        known.queues[queue_id] = QueueName(queue_id, **content)
    return known


def _content(line: bytes) -> dict[str, Any] | None:
    checksum, _, data = line.partition(b" ")
    if checksum != b"%08x" % crc32(data):
        return None
    content: dict[str, Any] = json.loads(data)
    return content


def load_names(directory: Path, files: FileSystem) -> KnownQueues | None:
    """Return the contents of the file in a log directory, ``None`` if there is none.

    Raises ``OSError`` from reading.
    """
    try:
        file = files.open(directory / NAMES_FILE)
    except FileNotFoundError:
        return None
    try:
        return decode_names(file.read(0, file.size()))
    finally:
        file.close()


class QueueNames:
    """Keeps the file.

    After :meth:`begin` it belongs to the disk thread. A write error affects nothing else: the lines are written again
    with the next ones.
    """

    def __init__(self, directory: Path, files: FileSystem) -> None:
        self.path = directory / NAMES_FILE
        self._files = files
        self._file: File | None = None
        self._size = 0
        self._tidied = 0  # bytes it had at the last rewrite
        self._waiting: list[bytes] = []  # lines the disk refused
        self._refused = False

    def begin(self, names: Iterable[QueueName]) -> None:
        """Rewrite the file if its contents differ."""
        wanted = b"".join(name_line(name) for name in sorted(names, key=lambda name: name.queue_id))
        try:
            if self._content() != wanted:
                write_durably(self.path, wanted, self._files)
            self._reopen(len(wanted))
        except OSError as error:
            self._refuse(error)

    def append(self, lines: list[bytes]) -> None:
        """Add lines, durably."""
        waiting = self._waiting
        waiting += lines
        try:
            if self._file is None:
                data = self._content() or b""
                data = data[: data.rfind(b"\n") + 1] + b"".join(waiting)
                write_durably(self.path, data, self._files)
                self._reopen(len(data))
            else:
                data = b"".join(waiting)
                self._file.write([data], self._size)
                self._file.sync()
                self._size += len(data)
            waiting.clear()
            if self._size >= 2 * self._tidied + TIDY_BYTES:
                self._tidy()
        except OSError as error:
            self._refuse(error)

    def close(self) -> None:
        """Close the file. Idempotent."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _tidy(self) -> None:
        """Remove deleted queues."""
        known = decode_names(self._content() or b"")
        data = b"".join(map(name_line, known.queues.values()))
        write_durably(self.path, data, self._files)
        self._reopen(len(data))

    def _reopen(self, size: int) -> None:
        self.close()
        self._file = self._files.open(self.path)
        self._size = self._tidied = size

    def _content(self) -> bytes | None:
        try:
            file = self._files.open(self.path)
        except FileNotFoundError:
            return None
        try:
            return file.read(0, file.size())
        finally:
            file.close()

    def _refuse(self, error: OSError) -> None:
        self.close()
        if not self._refused:
            self._refused = True
            logger.warning("message log: names of queues cannot be written to %s: %s", self.path, error)


def highest_id(known: KnownQueues, sequences: Mapping[int, int]) -> int:
    """Return the highest queue id that the log has ever heard of: the next one given out must be above it."""
    return max([0, *known.queues, *known.deleted, *sequences])
