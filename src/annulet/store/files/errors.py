"""The errors of the store. Every text names the file or field, the value and the remedy."""

from __future__ import annotations


class StoreError(Exception):
    """The store cannot carry out a request."""


class LogFailedError(StoreError):
    """The message log failed to write or sync; nothing can be made durable until the broker is restarted."""


class DiskFullError(StoreError):
    """No room for a record. Settling still works; ``has_room`` is true when appending works again."""


class DirectoryInUseError(StoreError):
    """Another process uses the data directory."""


class CatalogueError(StoreError):
    """The catalogue's file is damaged, of a newer version, or refuses a change."""


class HistoryError(StoreError):
    """The history's file is damaged or of a newer version."""


class FormatError(StoreError):
    """The data directory is of a format this version cannot open, or is no complete data directory."""


class BackupError(StoreError):
    """A backup cannot be taken."""
