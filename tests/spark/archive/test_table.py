"""Folders of Parquet files that grow by batches, each once."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from annulet.spark.archive.log import ArchiveError, FileEntry
from annulet.spark.archive.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def stage(table: Table, **parts: int) -> Path:
    """Write what Spark leaves in a staging folder: rows by folder."""
    folder = table.root / "_annulet" / "stage" / uuid.uuid4().hex
    for name, rows in parts.items():
        (folder / name).mkdir(parents=True)
        pq.write_table(pa.table({"value": list(range(rows))}), folder / name / "part-0.zstd.parquet")
    return folder


def test_files_move_to_their_places_under_names_of_the_batch(tmp_path: Path) -> None:
    table = Table(tmp_path, clock=lambda: 5)
    folder = stage(table, a=3, b=0, c=1)

    placed = table.place(folder, "query-7")

    assert [(file.path, file.rows, file.added_at) for file in placed] == [
        ("a/query-7-0000.parquet", 3, 5),
        ("c/query-7-0002.parquet", 1, 5),
    ]
    assert all((tmp_path / file.path).stat().st_size == file.bytes for file in placed)
    assert not folder.exists()


def test_a_folder_without_batches_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="holds no batch of annulet"):
        Table(tmp_path).read(None)  # type: ignore[arg-type]


def test_a_folder_that_maintenance_takes_away_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(tmp_path)
    folder = stage(table, a=3)
    replace = Path.replace
    targets: list[Path] = []

    def racing(path: Path, target: Path) -> Path:
        targets.append(target)
        if len(targets) == 1:
            target.parent.rmdir()
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", racing)
    (placed,) = table.place(folder, "query-7")

    assert (tmp_path / placed.path).exists()
    assert len(targets) == 2


class Writing(Table):
    """A table whose batches need no Spark; ``meanwhile`` happens after a batch was written and before it counts."""

    def __init__(self, root: Path, meanwhile: Callable[[], object] = lambda: None) -> None:
        super().__init__(root)
        self.meanwhile = meanwhile

    def write(self, frame: Any, partition_by: Sequence[str], sort_by: Sequence[str], files: int) -> Path:
        return stage(self, **{f"a{id(self)}": frame.rows})

    def place(self, stage: Path, prefix: str) -> list[FileEntry]:
        placed = super().place(stage, prefix)
        self.meanwhile()
        return placed


def test_of_two_attempts_at_a_batch_the_first_counts_and_the_other_leaves_nothing(tmp_path: Path) -> None:
    types = pytest.importorskip("pyspark.sql.types")
    frame: Any = SimpleNamespace(rows=3, schema=types.StructType([types.StructField("value", types.LongType())]))
    quicker = Writing(tmp_path)
    slower = Writing(tmp_path, lambda: quicker.append(frame, "q", 0))

    assert slower.append(frame, "q", 0) == 0

    (counted,) = Table(tmp_path).state().files
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.parquet")] == [counted]
    assert pq.read_metadata(tmp_path / counted).num_rows == 3


def test_a_batch_that_failed_halfway_is_written_again_and_its_first_files_go(tmp_path: Path) -> None:
    types = pytest.importorskip("pyspark.sql.types")
    frame: Any = SimpleNamespace(rows=3, schema=types.StructType([types.StructField("value", types.LongType())]))

    def fail() -> None:
        raise OSError("the disk is full")

    table = Writing(tmp_path, fail)
    with pytest.raises(OSError, match="the disk is full"):
        table.append(frame, "q", 0)
    assert len(list(tmp_path.rglob("*.parquet"))) == 1
    table.meanwhile = lambda: None
    assert table.append(frame, "q", 0) == 3
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.parquet")] == list(table.state().files)


def test_a_table_of_an_earlier_version_gets_the_columns_that_came_later(tmp_path: Path) -> None:
    types = pytest.importorskip("pyspark.sql.types")

    def frame(*names: str, kind: str = "LongType") -> Any:
        fields = [types.StructField(name, types.LongType()) for name in names[:-1]]
        return SimpleNamespace(
            rows=1, schema=types.StructType([*fields, types.StructField(names[-1], getattr(types, kind)())])
        )

    before, after = frame("position", "body"), frame("position", "sequence", "body")
    table = Writing(tmp_path)
    table.append(before, "q", 0)
    os.utime(table.schema_file, (1_700_000_000, 1_700_000_000))
    table.append(before, "q", 1)
    with pytest.raises(ArchiveError, match=r"\(sequence: int, not known\)"):
        table.append(frame("position", "body", "sequence", kind="IntegerType"), "q", 2)
    with pytest.raises(ArchiveError, match=r"\(other: bigint, not known; sequence: bigint, not known\)"):
        table.append(frame("position", "sequence", "other", "body"), "q", 2)
    with pytest.raises(ArchiveError, match=r"\(body: missing, not bigint; sequence: bigint, not known\)"):
        table.append(frame("position", "sequence"), "q", 2)
    assert table.schema() == before.schema

    assert table.append(after, "q", 2) == 1
    assert Table(tmp_path).schema() == after.schema
    assert table.schema_file.stat().st_mtime == 1_700_000_000, "what a crash left in the years before is known by it"
    assert [path.name for path in table.inside.glob("schema*")] == ["schema.json"]
    assert table.append(after, "q", 3) == 1
    with pytest.raises(ArchiveError, match=r"\(sequence: missing, not bigint\)"):
        table.append(before, "q", 4)


@pytest.mark.spark
def test_a_batch_is_added_once_and_what_a_crash_left_is_removed(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(10).selectExpr("id", "id % 2 AS odd", "id AS `a.b``c`")
    table = Table(tmp_path)
    (tmp_path / "odd=0").mkdir()
    left_over = tmp_path / "odd=0" / f"q-{0:09}-0017.parquet"
    left_over.write_bytes(b"half a file")

    assert table.append(frame, "q", 0, partition_by=["odd"]) == 10
    assert table.append(frame, "q", 0, partition_by=["odd"]) == 0
    assert not left_over.exists()
    assert sorted(path.parent.name for path in tmp_path.glob("odd=*/*.parquet")) == ["odd=0", "odd=1"]

    read = Table(tmp_path).read(spark)
    assert read.columns == ["id", "odd", "a.b`c"]
    assert sorted((row.id, row.odd) for row in read.collect()) == [(number, number % 2) for number in range(10)]
    with pytest.raises(ArchiveError, match=r"other columns than those before \(odd: int, not bigint\); cast them"):
        table.append(spark.sql("SELECT 1L AS id, 2 AS odd, 3L AS `a.b``c`"), "q", 1)
