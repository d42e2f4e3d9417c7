"""Checks a checkpoint folder of Spark before Spark reads it: damage is reported with the file and a remedy.

Spark passes a source neither the location of its query's checkpoint nor its read errors (``PythonScan`` of PySpark 4.3
drops the location). So the folder is given explicitly: option ``checkpointLocation`` of a stream that is read, a
pipeline, an archive.
"""

from __future__ import annotations

import json
import re
import uuid
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from annulet.bulk.protocol.errors import InvalidRequestError

VERSION: Final = re.compile(r"v\d+")
"""First line of a file of Spark's offset log and commit log."""

UNDERSTOOD: Final = "v1"
"""The version whose other lines are checked as well: JSON, or a mark for nothing."""

NOTHING: Final = ("", "-")
"""Lines of an offset log without metadata, or without an offset."""

CHECKSUM_MAGIC: Final = b"crc\x00"
"""Start of the file with checksums that Hadoop keeps beside a file on a local disk: ``.NAME.crc``.

Hadoop ignores files that begin otherwise. Behind it: bytes of a piece, in four bytes, and the CRC-32 of each piece.
"""


class DamagedCheckpointError(InvalidRequestError):
    """Spark cannot go on with a checkpoint; the text names the file and the remedy."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """``query`` is empty before the first run; ``batch`` is the last one done, -1 for none."""

    folder: Path
    query: str = ""
    batch: int = -1


def local_folder(location: str) -> Path | None:
    """Return the folder of a ``checkpointLocation``; ``None`` when it is in a file system that only Spark can reach."""
    parts = urlsplit(location)
    if not parts.scheme:
        return Path(location)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


def inspect(folder: Path) -> Checkpoint:
    """Check the files that Spark reads when a query starts. Raises :class:`DamagedCheckpointError`."""
    if not folder.exists():
        return Checkpoint(folder)
    metadata = folder / "metadata"
    done = _batches(folder / "commits")  # first, because a running query plans a batch before it is done
    planned = _batches(folder / "offsets")
    if not metadata.exists():
        if planned:
            raise _damaged(metadata, "is missing, but batches were planned")
        return Checkpoint(folder)
    query = str(read_json(metadata).get("id"))
    try:
        uuid.UUID(query)
    except ValueError as error:
        raise _damaged(metadata, "names no query") from error
    if done and (not planned or done[-1] > planned[-1]):
        raise _damaged(folder / "offsets" / str(done[-1]), "is missing, but the batch was committed")
    for batch in planned[-2:]:  # a repeated batch begins at the end of the one before it
        _check_log(folder / "offsets" / str(batch), lines_least=2)
    for batch in done[-1:]:
        _check_log(folder / "commits" / str(batch), lines_least=0)
    return Checkpoint(folder, query, done[-1] if done else -1)


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a file of a checkpoint. Raises :class:`DamagedCheckpointError`."""
    try:
        found = json.loads(_content(path))
    except ValueError as error:
        raise _damaged(path, f"is not JSON ({error})") from error
    if not isinstance(found, dict):
        raise _damaged(path, "is not a JSON object")
    return found


def _batches(folder: Path) -> list[int]:
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return sorted(int(name) for name in names if name.isdigit())


def _check_log(path: Path, lines_least: int) -> None:
    """Check one batch of a log: a version, then metadata, then offsets, a line each."""
    version, *lines = _content(path).decode(errors="replace").splitlines() or [""]
    if not VERSION.fullmatch(version):
        raise _damaged(path, "does not begin with a version")
    if version != UNDERSTOOD:
        return
    if len(lines) < lines_least:
        raise _damaged(path, f"ends behind {len(lines) + 1} lines")
    for number, line in enumerate(lines, 2):
        try:
            if line not in NOTHING:
                json.loads(line)
        except ValueError as error:
            raise _damaged(path, f"has no JSON in line {number} ({error})") from error


def _content(path: Path) -> bytes:
    try:
        content = path.read_bytes()
        beside = path.with_name(f".{path.name}.crc")
        checksums = beside.read_bytes() if beside.exists() else b""
    except OSError as error:
        raise _damaged(path, f"cannot be read ({error.strerror})") from error
    if checksums.startswith(CHECKSUM_MAGIC):
        size, sums = max(1, int.from_bytes(checksums[4:8], "big")), checksums[8:]
        pieces = (content[first : first + size] for first in range(0, len(content), size))
        if b"".join(zlib.crc32(piece).to_bytes(4, "big") for piece in pieces) != sums:
            raise _damaged(path, f"is not what {beside.name} was made of")
    return content


def _damaged(path: Path, what: str) -> DamagedCheckpointError:
    return DamagedCheckpointError(
        f"checkpoint damaged: {path} {what}; restore the folder from a backup, or remove it to start anew (its "
        "lease then needs onExistingLease, in a pipeline on_existing_lease)"
    )
