"""What a checkpoint holds, and what is wrong with a damaged one."""

from __future__ import annotations

import re
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from annulet.spark.checkpoints import Checkpoint, DamagedCheckpointError, inspect, local_folder
from annulet.spark.datasource import AnnuletDataSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERY = "0b1f6f3c-8f1e-4a52-9d55-0b7a3a0f3d11"
PLANNED = 'v1\n{"batchWatermarkMs":0}\n{"pos":7}'


def write(path: Path, text: str) -> None:
    """Write as Spark does through Hadoop: with the sums of pieces beside it."""
    content, size = text.encode(), 512
    pieces = (content[first : first + size] for first in range(0, len(content), size))
    sums = b"".join(zlib.crc32(piece).to_bytes(4, "big") for piece in pieces)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.with_name(f".{path.name}.crc").write_bytes(b"crc\0" + size.to_bytes(4, "big") + sums)


def checkpoint(folder: Path) -> Path:
    """Write what Spark writes for two planned batches, one of them done."""
    for batch in (0, 1):
        write(folder / "offsets" / str(batch), PLANNED)
    write(folder / "commits" / "0", 'v1\n{"nextBatchWatermarkMs":0}')
    write(folder / "metadata", f'{{"id":"{QUERY}"}}')
    return folder


def test_an_absent_folder_starts_anew(tmp_path: Path) -> None:
    assert inspect(tmp_path / "none") == Checkpoint(tmp_path / "none", "", -1)
    assert inspect(tmp_path) == Checkpoint(tmp_path, "", -1)


def test_the_query_and_its_last_batch_are_found(tmp_path: Path) -> None:
    assert inspect(checkpoint(tmp_path)) == Checkpoint(tmp_path, QUERY, 0)
    write(tmp_path / "offsets" / "1", f"v1\n\n-\n[{'1,' * 1000}1]")  # no metadata, no offset, a long one
    write(tmp_path / "offsets" / "2", "v2\nwhat a later version writes")
    write(tmp_path / "commits" / "1", "v1")
    (tmp_path / "offsets" / ".2.crc").write_bytes(b"not sums: Hadoop does not look at them either")
    assert inspect(tmp_path).batch == 1


@pytest.mark.parametrize(
    ("path", "content", "text"),
    [
        ("metadata", "{", "metadata is not JSON"),
        ("metadata", "[]", "metadata is not a JSON object"),
        ("metadata", "{}", "metadata names no query"),
        ("metadata", '{"id":"abc"}', "metadata names no query"),
        ("metadata", None, "metadata is missing, but batches were planned"),
        ("offsets/1", "", "offsets/1 does not begin with a version"),
        ("offsets/1", "v1\n{}", "offsets/1 ends behind 2 lines"),
        ("offsets/0", "v1\n{}\n{", "offsets/0 has no JSON in line 3"),
        ("commits/0", "v1\n{", "commits/0 has no JSON in line 2"),
        ("commits/2", "v1", "offsets/2 is missing, but the batch was committed"),
    ],
)
def test_damage_is_told(tmp_path: Path, path: str, content: str | None, text: str) -> None:
    file = checkpoint(tmp_path) / path
    if content is None:
        file.unlink()
    else:
        write(file, content)
    with pytest.raises(DamagedCheckpointError, match=f"checkpoint damaged: .*{re.escape(text)}.*restore the folder"):
        inspect(tmp_path)


def test_a_byte_that_fell_over_is_told(tmp_path: Path) -> None:
    file = checkpoint(tmp_path) / "offsets" / "1"
    file.write_text(PLANNED.replace("7", "8"))
    with pytest.raises(DamagedCheckpointError, match=r"offsets/1 is not what \.1\.crc was made of; restore"):
        inspect(tmp_path)


def test_what_cannot_be_opened_is_told(tmp_path: Path) -> None:
    file = checkpoint(tmp_path) / "offsets" / "1"
    file.unlink()
    file.mkdir()
    with pytest.raises(DamagedCheckpointError, match=r"offsets/1 cannot be read \(Is a directory\)"):
        inspect(tmp_path)


def test_only_what_is_on_a_local_disk_is_looked_at(tmp_path: Path) -> None:
    assert local_folder("/c/d e") == Path("/c/d e")
    assert local_folder("file:/c/d%20e") == local_folder("file:///c/d%20e") == Path("/c/d e")
    assert local_folder("s3a://bucket/c") is None


def test_a_source_whose_checkpoint_is_damaged_is_refused(tmp_path: Path) -> None:
    options = {"url": "annulet://127.0.0.1:1", "CheckpointLocation": f"file://{tmp_path}"}
    assert AnnuletDataSource({**options, "queue": "q"}).schema()
    (checkpoint(tmp_path) / "metadata").write_text("{")
    with pytest.raises(DamagedCheckpointError, match="metadata"):
        AnnuletDataSource({**options, "queue": "q"})
    AnnuletDataSource({**options, "address": "a"})  # a sink: Spark has read the files when it makes one


@pytest.mark.spark
def test_what_spark_says_of_a_damaged_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    (checkpoint(tmp_path) / "offsets" / "1").write_text("v1")
    stream = spark.readStream.format("annulet").options(url="annulet://127.0.0.1:1", queue="q")
    with pytest.raises(Exception, match="checkpoint damaged") as error:
        stream.option("checkpointLocation", str(tmp_path)).load()
    assert "checkpoint damaged" in str(error.value).splitlines()[0]
