"""Folders of Parquet files that grow by batches, each once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as parquet_files
import pytest

from annulet.spark.archive.log import ArchiveError
from annulet.spark.archive.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def stage(table: Table, **parts: int) -> Path:
    """Write what Spark leaves in a staging folder: rows by folder."""
    folder = table.root / "_annulet" / "stage" / "x"
    for name, rows in parts.items():
        (folder / name).mkdir(parents=True)
        parquet_files.write_table(pa.table({"value": list(range(rows))}), folder / name / "part-0.zstd.parquet")
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


@pytest.mark.spark
def test_a_batch_is_added_once_and_what_a_crash_left_is_removed(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(10).selectExpr("id", "id % 2 AS odd")
    table = Table(tmp_path)
    (tmp_path / "odd=0").mkdir()
    left_over = tmp_path / "odd=0" / f"q-{0:09}-0017.parquet"
    left_over.write_bytes(b"half a file")

    assert table.append(frame, "q", 0, partition_by=["odd"]) == 10
    assert table.append(frame, "q", 0, partition_by=["odd"]) == 0
    assert not left_over.exists()
    assert sorted(path.parent.name for path in tmp_path.glob("odd=*/*.parquet")) == ["odd=0", "odd=1"]

    read = Table(tmp_path).read(spark)
    assert read.columns == ["id", "odd"]
    assert sorted((row.id, row.odd) for row in read.collect()) == [(number, number % 2) for number in range(10)]
    with pytest.raises(ArchiveError, match=r"other columns than those before \(odd: int, not bigint\); cast them"):
        table.append(spark.sql("SELECT 1L AS id, 2 AS odd"), "q", 1)
