"""Keeps what the C compiler made, by the digest of all that went into it, in a folder that all checkouts share.

The folder is ``annulet/build`` below ``$XDG_CACHE_HOME`` or ``~/.cache``; ``ANNULET_BUILD_CACHE`` names another one,
and an empty value switches the cache off. An entry is the content and its SHA-256: a damaged one counts as missing.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path

CACHE_BYTES_MAX = 500_000_000
"""Bytes of all entries; a build of all modules takes about 60 MB, so some versions of several checkouts fit."""

DIGEST_BYTES = 32


def folder_of_cache() -> Path | None:
    """Return the folder of the cache, ``None`` when it is switched off."""
    named = os.environ.get("ANNULET_BUILD_CACHE")
    if named is not None:
        return Path(named) if named else None
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "annulet" / "build"


class BuildCache:
    """Contents by key. Several builds may use one folder at a time: entries are put into place whole."""

    def __init__(self, folder: Path | None, limit: int = CACHE_BYTES_MAX) -> None:
        self.problem = ""  # why the last content was not kept, empty when all were
        self._folder = folder
        self._limit = limit

    def get(self, key: str) -> bytes | None:
        """Return the content of an entry and mark it as used; ``None`` when it is missing or damaged."""
        if self._folder is None:
            return None
        path = self._folder / key
        try:
            entry = path.read_bytes()
            os.utime(path)
        except OSError:
            return None
        content = entry[DIGEST_BYTES:]
        return content if hashlib.sha256(content).digest() == entry[:DIGEST_BYTES] else None

    def put(self, key: str, content: bytes) -> None:
        """Keep a content. ``problem`` says why it was not possible."""
        if self._folder is None:
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self._folder, prefix=".new-", delete=False) as stream:
                try:
                    stream.write(hashlib.sha256(content).digest() + content)
                    stream.close()
                    Path(stream.name).replace(self._folder / key)
                except OSError:
                    Path(stream.name).unlink(missing_ok=True)
                    raise
        except OSError as error:
            self.problem = f"{self._folder}: {error.strerror}"

    def trim(self) -> None:
        """Remove the entries that were not used for longest, until the others fit the limit."""
        if self._folder is None or not self._folder.is_dir():
            return
        found = []
        for path in self._folder.iterdir():
            with contextlib.suppress(FileNotFoundError):  # another build trims as well
                status = path.stat()
                found.append((status.st_mtime, status.st_size, path))
        total = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if total <= self._limit:
                break
            path.unlink(missing_ok=True)
            total -= size
