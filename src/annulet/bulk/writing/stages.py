"""Where staged rows wait for their commit: files under ``stages`` of the data directory, or memory without one.

A stage is one task attempt's rows of one batch of one query. Its name contains a nonce: attempt numbers restart with
each driver, and a zombie's task must not replace the rows named in a newer driver's commit.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import secrets
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc

from annulet.broker.settings.limits import Limits
from annulet.bulk.bounds.stage_account import Place, StageAccount, StageEntry
from annulet.bulk.protocol.errors import InvalidRequestError, NotFoundError, RefusedError, UnavailableError
from annulet.bulk.protocol.protocol import owner_of
from annulet.bulk.protocol.schema import DESTINATION_COLUMNS
from annulet.store.files.data_format import STAGE_DIRECTORY
from annulet.store.files.files import OsFileSystem, make_private_directory, open_private
from annulet.store.files.full_disk import FULL_DISK

STAGE_AGE_MAX: Final = 24 * 3600
"""Seconds a stage waits for its commit. A query that was down for longer computes its batch again anyway."""

STAGE_BYTES_MAX: Final = 2 * 1024**3
"""Bytes of one stage, that is of one partition of one batch: several of them make a commit, which has to fit into
memory (:mod:`annulet.bulk.writing.commit_room`)."""

STAGE_FILE_BYTES: Final = 4096
"""Bytes that a stage counts beside its contents: a file takes a block of the disk, even without rows."""

END_OF_STREAM_BYTES: Final = 8
"""Arrow's end of a stream after the last batch."""

DEFAULT_LIMITS: Final = Limits()

_STAGE: Final = re.compile(r"(?P<batch>[0-9]{1,19})-(?P<partition>[0-9]{1,10})-(?P<attempt>[0-9]{1,19})-[0-9a-f]{32}")
_SUFFIX: Final = ".arrow"
_PART: Final = ".part"


@dataclass(frozen=True, slots=True)
class StageKey:
    """Names one stage. ``stage`` is ``batch-partition-attempt-nonce``."""

    query: str
    stage: str

    def __post_init__(self) -> None:
        if not self.query:
            raise InvalidRequestError("stage: the query id is empty")
        if _STAGE.fullmatch(self.stage) is None:
            raise InvalidRequestError(f"stage {self.stage!r} is not batch-partition-attempt-nonce")

    @property
    def batch(self) -> int:
        """The batch id."""
        return int(self.stage.partition("-")[0])


@dataclass(frozen=True, slots=True)
class StageWeight:
    """What a commit of a stage has to bring into memory."""

    rows: int
    size: int  # bytes of the columns
    properties: int  # of all rows of the Arrow batch that has most of them
    destinations: int  # that rows of one Arrow batch have at most, of all batches together


class _Pins:
    """The stages that commits have weighed and are going to read, which are not replaced until then."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._pinned: Counter[Place] = Counter()
        self._placing: Counter[Place] = Counter()

    @contextmanager
    def pinned(self, places: list[Place]) -> Iterator[None]:
        """Let none of these stages be put into its place. Waits for nothing, so the loop may call it."""
        with self._changed:
            self._pinned.update(places)
        try:
            yield
        finally:
            with self._changed:
                _take(self._pinned, places)

    @contextmanager
    def placing(self, key: StageKey, place: Place) -> Iterator[None]:
        """Put a whole stage into its place. Raises :class:`UnavailableError` while a commit of it is under way."""
        with self._changed:
            if place in self._pinned:
                raise UnavailableError(
                    f"stage {key.stage} of query {key.query!r} is being committed, and is not replaced before the "
                    "commit is answered; send the rows of another attempt under another name"
                )
            self._placing[place] += 1
        try:
            yield
        finally:
            with self._changed:
                _take(self._placing, [place])
                self._changed.notify_all()

    def settle(self, place: Place) -> None:
        """Wait until those are in place that were about to be when the stage was pinned."""
        with self._changed:
            self._changed.wait_for(lambda: place not in self._placing)


def _take(counts: Counter[Place], places: list[Place]) -> None:
    for place in places:
        counts[place] -= 1
        if not counts[place]:
            del counts[place]


class StageStore:
    """All stages. Safe to use from several threads: each stage is written by one and read after that.

    A stage may be sent again and replaces itself, unless its commit is under way.

    ``limits`` names how many bytes of them may wait.
    """

    def __init__(self, data_directory: Path | None, limits: Limits = DEFAULT_LIMITS) -> None:
        self._directory = None if data_directory is None else data_directory / STAGE_DIRECTORY
        remedy = "" if data_directory is not None else "give the broker a data directory"
        self._account = StageAccount(limits.max_stage_bytes_per_user, limits.max_stage_bytes, remedy)
        self._pins = _Pins()
        self._memory: dict[tuple[str, str], tuple[float, bytes]] = {}
        if self._directory is not None:
            OsFileSystem().make_directory(self._directory)
            self._count_left(self._directory)

    def figures(self) -> tuple[int, int]:
        """Return how many stages wait, and the bytes of all, with those being written."""
        return self._account.figures()

    def write(self, key: StageKey, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> tuple[int, int]:
        """Write a stage; it is on disk when this returns. Returns rows and bytes. A failure leaves nothing behind.

        Raises :class:`OverLimitError` when the stages of this user, or of all, would take more than they may.
        """
        entry = self._account.begin(_owner_in(_folder_name(key.query)))
        try:
            counts = self._write(key, schema, batches, entry)
        except BaseException:
            entry.fail()
            raise
        entry.keep(self._place(key))
        return counts

    def _write(
        self, key: StageKey, schema: pa.Schema, batches: Iterable[pa.RecordBatch], entry: StageEntry
    ) -> tuple[int, int]:
        if self._directory is None:
            sink = pa.BufferOutputStream()
            counts = _write_stream(sink, schema, batches, entry)
            content = sink.getvalue().to_pybytes()
            with self._pins.placing(key, self._place(key)):
                self._memory[self._place(key)] = (time.monotonic(), content)
            return counts
        folder = self._directory / _folder_name(key.query)
        make_private_directory(folder)
        path = folder / (key.stage + _SUFFIX)
        part = folder / f"{key.stage}.{secrets.token_hex(4)}{_PART}"  # the stage may be sent again while this one hangs
        try:
            with os.fdopen(open_private(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as file:
                counts = _write_stream(pa.PythonFile(file, mode="w"), schema, batches, entry)
                file.flush()
                os.fsync(file.fileno())
            with self._pins.placing(key, self._place(key)):
                part.rename(path)
        except OSError as error:
            part.unlink(missing_ok=True)
            if FULL_DISK.note(error, self._directory, "rows of a staged publish"):
                raise UnavailableError(f"the broker's disk is full: {error.strerror}; free space there") from error
            raise
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        _sync_directory(folder)
        _sync_directory(self._directory)
        return counts

    def read(self, key: StageKey) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a stage. Raises :class:`NotFoundError`."""
        if self._directory is None:
            found = self._memory.get(self._place(key))
            if found is None:
                raise _not_found(key)
            with pa.ipc.open_stream(found[1]) as reader:
                yield from reader
            return
        path = self._directory / _folder_name(key.query) / (key.stage + _SUFFIX)
        if not path.exists():
            raise _not_found(key)
        with path.open("rb") as file, pa.ipc.open_stream(file) as reader:
            yield from reader

    @contextmanager
    def pinned(self, keys: Iterable[StageKey]) -> Iterator[None]:
        """Keep these stages as they are from their weighing to their reading; they may be dropped."""
        with self._pins.pinned([self._place(key) for key in keys]):
            yield

    def weigh(self, key: StageKey) -> StageWeight:
        """Return the weight of a stage without loading it. Raises :class:`NotFoundError`.

        It stays true while the stage is pinned.
        """
        self._pins.settle(self._place(key))
        if self._directory is None:
            batches = list(self.read(key))  # views of the stage in memory
            return _weight(batches)
        path = self._directory / _folder_name(key.query) / (key.stage + _SUFFIX)
        if not path.exists():
            raise _not_found(key)
        with pa.memory_map(str(path)) as file, pa.ipc.open_stream(file) as reader:
            return _weight(reader)

    def drop(self, key: StageKey) -> None:
        """Delete a stage, if it exists."""
        if self._directory is None:
            self._memory.pop(self._place(key), None)
        else:
            (self._directory / _folder_name(key.query) / (key.stage + _SUFFIX)).unlink(missing_ok=True)
        self._account.drop(self._place(key))

    def drop_batches(self, query: str, upto: int) -> int:
        """Delete all stages of a query's batches up to ``upto``.

        They are published, or superseded. Returns how many.
        """
        dropped = 0
        for stage in self._stages(query):
            if int(stage.partition("-")[0]) <= upto:
                self.drop(StageKey(query, stage))
                dropped += 1
        return dropped

    def drop_old(self, age_max: float = STAGE_AGE_MAX) -> int:
        """Delete stages older than ``age_max`` seconds, and incomplete ones left by crashes. Returns their number."""
        dropped = 0
        if self._directory is None:
            limit = time.monotonic() - age_max
            for key in [key for key, (written, _) in list(self._memory.items()) if written < limit]:
                del self._memory[key]
                self._account.drop(key)
                dropped += 1
            return dropped
        limit = time.time() - age_max
        for folder in self._directory.iterdir():
            idle = folder.stat().st_mtime < limit  # else a stage may be about to be written there
            for path in folder.iterdir():
                with suppress(FileNotFoundError):  # a commit in another thread may drop it in the meantime
                    if path.stat().st_mtime < limit:
                        path.unlink()
                        self._account.drop((folder.name, path.stem))
                        dropped += 1
            if idle and not any(folder.iterdir()):
                folder.rmdir()
        return dropped

    def count(self) -> int:
        """How many stages wait."""
        if self._directory is None:
            return len(self._memory)
        return sum(1 for _ in self._directory.glob(f"*/*{_SUFFIX}"))

    def _stages(self, query: str) -> list[str]:
        name = _folder_name(query)
        if self._directory is None:
            return [stage for folder, stage in list(self._memory) if folder == name]
        folder = self._directory / name
        return [path.stem for path in folder.glob(f"*{_SUFFIX}")] if folder.is_dir() else []

    @staticmethod
    def _place(key: StageKey) -> Place:
        return _folder_name(key.query), key.stage

    def _count_left(self, directory: Path) -> None:
        """Count the stages of an earlier run of the broker. The folder's name distinguishes the users."""
        for path in directory.glob(f"*/*{_SUFFIX}"):
            self._account.restore(
                (path.parent.name, path.stem), _owner_in(path.parent.name), STAGE_FILE_BYTES + path.stat().st_size
            )


def _write_stream(
    sink: pa.NativeFile, schema: pa.Schema, batches: Iterable[pa.RecordBatch], entry: StageEntry
) -> tuple[int, int]:
    """Write a stream and count its bytes before they are written, those that describe empty batches too."""
    rows = size = 0
    entry.add(STAGE_FILE_BYTES + schema.serialize().size + END_OF_STREAM_BYTES)
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            rows += batch.num_rows
            size += batch.nbytes
            if size > STAGE_BYTES_MAX:
                raise RefusedError(
                    f"a partition of the batch has more than {STAGE_BYTES_MAX} bytes: "
                    "lower maxMessagesPerTrigger or maxBytesPerTrigger, or repartition"
                )
            entry.add(pa.ipc.get_record_batch_size(batch))
            writer.write_batch(batch)
    return rows, size


def _weight(batches: Iterable[pa.RecordBatch]) -> StageWeight:
    rows = size = properties = destinations = 0
    for batch in batches:
        rows += batch.num_rows
        size += batch.nbytes
        properties = max(properties, sum(_entries(column) for column in batch.columns))
        destinations += _destinations(batch)
    return StageWeight(rows, size, properties, destinations)


def _destinations(batch: pa.RecordBatch) -> int:
    """Return how many destinations the rows of a batch have at most: a bound, as columns are counted one by one."""
    names = [name for name in DESTINATION_COLUMNS if name in batch.schema.names]
    counts: list[int] = [pc.count_distinct(batch.column(name), mode="all").as_py() for name in names]
    return min(int(batch.num_rows), math.prod(counts))


def _entries(column: pa.Array) -> int:
    """Return how many entries the maps of a column have together; 0 for a column of another type."""
    if not pa.types.is_map(column.type):
        return 0
    offsets = column.offsets
    return int(offsets[-1].as_py()) - int(offsets[0].as_py())


def _folder_name(query: str) -> str:
    """Return a folder's name: digests of owner and query id, which are a client's text and no file names."""
    return f"{_digest(owner_of(query), 16)}-{_digest(query, 32)}"


def _owner_in(folder: str) -> str:
    """Return the owner's part of a folder's name; empty for folders of versions before 0.4.0."""
    owner, mark, _ = folder.partition("-")
    return owner if mark else ""


def _digest(text: str, length: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def _not_found(key: StageKey) -> NotFoundError:
    return NotFoundError(
        f"stage {key.stage} of query {key.query!r} is not there: it is older than {STAGE_AGE_MAX // 3600} hours, "
        "or was in the "
        "memory of a broker that ended. Restart the query; the batch is computed again"
    )


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
