"""Bringing catalogue and message log of a stopped broker together again, and dropping messages that nothing names.

Both are requested by an operator: a start refuses a catalogue that lost definitions, and keeps messages of unknown
queues.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from annulet.store.database.catalogue import Catalogue
from annulet.store.database.catalogue_mark import start_mark
from annulet.store.database.definitions import QueueName
from annulet.store.files.data_format import CATALOGUE_FILE, LOG_DIRECTORY, check_format
from annulet.store.files.errors import StoreError
from annulet.store.files.lock import DirectoryLock
from annulet.store.inspection.log_inspection import inspect_log
from annulet.store.log.log import MessageLog
from annulet.store.segments.queue_names import highest_id

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

DEFAULT_HOST = "/"
"""Virtual host of queues of which nothing but their number is known."""


class Rebuilt(NamedTuple):
    """A queue that was put back: its id, where it is now, and how many messages the log has for it."""

    queue_id: int
    virtual_host: str
    name: str
    messages: int


def rebuild(directory: Path) -> list[Rebuilt]:
    """Add the queues of the log that the catalogue lacks, and accept the catalogue beside this log.

    A missing catalogue is created. Raises :class:`StoreError`: a damaged one, a directory in use by a broker.
    """
    with DirectoryLock(directory):
        _check(directory)
        log = inspect_log(directory / LOG_DIRECTORY, 0)
        rebuilt = []
        with closing(Catalogue(directory / CATALOGUE_FILE)) as catalogue, catalogue.transaction():
            present = {name.queue_id for name in catalogue.queue_names()} | catalogue.deleted_queues()
            names = dict(log.known.queues)
            for queue_id in log.live_by_queue:
                names.setdefault(queue_id, QueueName(queue_id, DEFAULT_HOST, f"recovered-{queue_id}", False, "{}"))
            for queue_id in sorted(names.keys() - present):
                given = catalogue.restore_queue(names[queue_id])
                messages = log.live_by_queue.get(queue_id, 0)
                rebuilt.append(Rebuilt(queue_id, names[queue_id].virtual_host, given, messages))
            catalogue.reserve_queue_ids(highest_id(log.known, log.sequences | log.live_by_queue))
        with closing(Catalogue(directory / CATALOGUE_FILE)) as catalogue:
            start_mark(catalogue, directory)
        return rebuilt


def discard(directory: Path, queue_ids: Iterable[int]) -> dict[int, int]:
    """Permanently drop the messages of queues that are not in the catalogue; return their numbers by queue id.

    Raises :class:`StoreError`: a queue of the catalogue, a damaged catalogue, a directory in use by a broker.
    """
    with DirectoryLock(directory):
        _check(directory)
        if (directory / CATALOGUE_FILE).exists():
            with closing(Catalogue(directory / CATALOGUE_FILE)) as catalogue:
                known = {name.queue_id: name.name for name in catalogue.queue_names()}
        else:
            known = {}
        queue_ids = sorted(set(queue_ids))
        for queue_id in queue_ids:
            if queue_id in known:
                raise StoreError(
                    f"queue {queue_id} is {known[queue_id]!r} in the catalogue; start the broker and purge or delete it"
                )
        counts = inspect_log(directory / LOG_DIRECTORY, 0).live_by_queue
        log = MessageLog.open(directory / LOG_DIRECTORY)
        for queue_id in queue_ids:
            log.forget_queue(queue_id)
        log.close()
        return {queue_id: counts.get(queue_id, 0) for queue_id in queue_ids}


def _check(directory: Path) -> None:
    if not (directory / LOG_DIRECTORY).is_dir():
        raise StoreError(f"there is no message log in {directory}; name the directory that annulet serve --data has")
    check_format(directory)
