"""A folder of Parquet files that grows by batches, each once, and is read as of one moment.

Spark writes a batch into a staging folder; its files move to their places under names that begin with the batch, and
one log entry makes them valid. Files left by a crash between the two are found by name and removed once the batch is
valid, so readers without the log do not see rows twice for long either, unless files are merged.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow.parquet

from annulet.core.base.uri_texts import why_no_path
from annulet.spark.archive.log import ArchiveError, Entry, FileEntry, Log, State, sync_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

INSIDE: Final = "_annulet"
"""Folder of the log and of files being written; Spark and pandas ignore names that begin with ``_``."""

COMPRESSION: Final = "zstd"

LATER_COLUMNS: Final = {"sequence": "bigint"}
"""Columns of a read queue, with their types, that earlier versions of annulet had not: a table without one gets it, and
its rows have null there."""


class Table:
    """The files below ``root``. Paths are local or mounted: moving a file there must be one step.

    Raises :class:`ArchiveError` for a URI.
    """

    def __init__(self, root: Path, *, clock: Callable[[], int] | None = None) -> None:
        wrong = why_no_path(str(root))
        if wrong:
            raise ArchiveError(wrong)
        self.root = root.absolute()  # Spark's process may have a different working directory
        self.inside = self.root / INSIDE
        self.log = Log(self.inside / "log", clock=clock)
        self._clean: set[str] = set()  # queries whose last attempt left nothing behind

    @property
    def schema_file(self) -> Path:
        """The file with the columns of all batches, those in folder names included."""
        return self.inside / "schema.json"

    def state(self) -> State:
        """Return which files count now."""
        return self.log.state()

    def done(self, query: str, batch: int) -> bool:
        """Return whether a batch exists."""
        return self.state().marks.get(query, -1) >= batch

    def append(
        self,
        frame: DataFrame,
        query: str,
        batch: int,
        *,
        partition_by: Sequence[str] = (),
        sort_by: Sequence[str] = (),
        files: int = 1,
    ) -> int:
        """Add a batch unless it exists, and return its rows. At most ``files`` per folder, except for large tasks.

        Raises :class:`ArchiveError` when its columns are others than those of the batches before, but for
        :data:`LATER_COLUMNS`, which the table gets then.
        """
        prefix = f"{query}-{batch:09}"
        if self.done(query, batch):
            self._clean_up(query, prefix)
            return 0
        self._check_schema(frame.schema)
        self._clean.discard(query)
        stage = self.write(frame, partition_by, sort_by, files)
        placed = self.place(stage, f"{prefix}-{uuid.uuid4().hex[:8]}")
        if self.log.commit(lambda state: _entry_of(state, query, batch, placed)) is None:
            for file in placed:
                (self.root / file.path).unlink(missing_ok=True)
            return 0
        self._clean_up(query, prefix)
        return sum(file.rows for file in placed)

    def write(self, frame: DataFrame, partition_by: Sequence[str], sort_by: Sequence[str], files: int) -> Path:
        """Write rows into a new staging folder and return it. ``sort_by`` orders the rows of each file."""
        stage = self.inside / "stage" / uuid.uuid4().hex
        # Spark's default, INT96, is deprecated and has no statistics to skip row groups by.
        frame.sparkSession.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        spread = frame.repartition(files, *map(quoted, partition_by)) if partition_by else frame.coalesce(files)
        if sort_by:
            spread = spread.sortWithinPartitions(*map(quoted, (*partition_by, *sort_by)))
        spread.write.partitionBy(*partition_by).option("compression", COMPRESSION).parquet(str(stage))
        return stage

    def place(self, stage: Path, prefix: str) -> list[FileEntry]:
        """Move the files of a staging folder to their places, on disk, and remove the folder."""
        now = self.log.now()
        placed: list[FileEntry] = []
        folders: set[Path] = set()
        for number, path in enumerate(sorted(stage.rglob("part-*.parquet"))):
            rows = pyarrow.parquet.read_metadata(path).num_rows
            if not rows:
                continue  # Spark writes one for a batch without rows
            target = self.root / path.relative_to(stage).parent / f"{prefix}-{number:04}.parquet"
            with path.open("rb") as file:
                os.fsync(file.fileno())
            _move(path, target)
            folders.update(folder for folder in target.parents if folder.is_relative_to(self.root))
            placed.append(FileEntry(str(target.relative_to(self.root)), rows, target.stat().st_size, now))
        for folder in folders:
            sync_folder(folder)
        shutil.rmtree(stage)
        return placed

    def schema(self) -> StructType | None:
        """Return the columns of the files; ``None`` before the first batch."""
        from pyspark.sql.types import StructType  # noqa: PLC0415 - the log is read without Spark

        try:
            return StructType.fromJson(json.loads(self.schema_file.read_text()))
        except FileNotFoundError:
            return None

    def read(self, spark: SparkSession, paths: Iterable[str] | None = None) -> DataFrame:
        """Return all rows as of now, or those of some of the files. Raises :class:`ArchiveError` without a batch."""
        schema = self.schema()
        if schema is None:
            raise ArchiveError(f"{self.root}: holds no batch of annulet; give the folder that was written to")
        chosen = [str(self.root / path) for path in (self.state().files if paths is None else paths)]
        if not chosen:
            return spark.createDataFrame([], schema)
        # The columns of folder names are last in files, but in the table they are at their writer's positions.
        frame = spark.read.schema(schema).option("basePath", str(self.root)).parquet(*chosen)
        return frame.select(*map(quoted, schema.names))

    def _check_schema(self, schema: StructType) -> None:
        known = self.schema()
        if known is None:
            self.schema_file.parent.mkdir(parents=True, exist_ok=True)
            self._write_schema(schema)
            return
        expected = {field.name: field.dataType.simpleString() for field in known.fields}
        found = {field.name: field.dataType.simpleString() for field in schema.fields}
        later = {name: kind for name, kind in LATER_COLUMNS.items() if name not in expected and name in found}
        if later and {**expected, **later} == found:
            self._write_schema(schema)
        elif expected != found:
            differing = sorted(
                f"{name}: {found.get(name, 'missing')}, not {expected.get(name, 'known')}"
                for name in expected.keys() | found.keys()
                if expected.get(name) != found.get(name)
            )
            raise ArchiveError(
                f"{self.root}: the batch has other columns than those before ({'; '.join(differing)}); cast them, or "
                "write into a new folder"
            )

    def _write_schema(self, schema: StructType) -> None:
        """Write it in one step: another process may be reading it. The file keeps its age, which is the table's."""
        new = self.schema_file.with_name(f"schema-{uuid.uuid4().hex}.json")
        new.write_text(schema.json())
        with suppress(FileNotFoundError):
            before = self.schema_file.stat()
            os.utime(new, ns=(before.st_atime_ns, before.st_mtime_ns))
        new.replace(self.schema_file)

    def _clean_up(self, query: str, prefix: str) -> None:
        """Remove the leftovers of other attempts at an existing batch.

        Only now: before its log entry another attempt, by a process thought dead, could have made its files count.
        """
        if query in self._clean:
            return
        counted = self.state().files
        for path in self.root.rglob(f"{prefix}-*.parquet"):
            if str(path.relative_to(self.root)) not in counted:
                path.unlink(missing_ok=True)
        self._clean.add(query)


def quoted(name: str) -> str:
    """Return a column's name quoted for Spark, whatever characters it contains, such as a dot."""
    return f"`{name.replace('`', '``')}`"


def _move(path: Path, target: Path) -> None:
    """Move a file; maintenance may remove its folder as empty in the meantime."""
    while True:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            path.replace(target)
        except FileNotFoundError:
            if not path.exists():
                raise
        else:
            return


def _entry_of(state: State, query: str, batch: int, placed: list[FileEntry]) -> Entry | None:
    if state.marks.get(query, -1) >= batch:
        return None  # another process with the same checkpoint was quicker
    return Entry(query=query, batch=batch, add=placed)
