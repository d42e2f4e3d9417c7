"""What a checkpoint holds, and what is wrong with a damaged one."""

from __future__ import annotations

from pathlib import Path

import pytest

from annulet.spark.pipeline.checkpoints import Checkpoint, claim, inspect
from annulet.spark.pipeline.errors import CheckpointError


def checkpoint(folder: Path) -> Path:
    """Write what Spark writes for two planned batches, one of them done."""
    for name, batches in (("offsets", (0, 1)), ("commits", (0,))):
        (folder / name).mkdir()
        for batch in batches:
            (folder / name / str(batch)).write_text("v1\n{}")
            (folder / name / f".{batch}.crc").write_bytes(b"crc")
    (folder / "metadata").write_text('{"id":"abc"}')
    return folder


def test_an_absent_folder_starts_anew(tmp_path: Path) -> None:
    assert inspect(tmp_path / "none") == Checkpoint(tmp_path / "none", "", -1)
    assert inspect(tmp_path) == Checkpoint(tmp_path, "", -1)


def test_the_query_and_its_last_batch_are_found(tmp_path: Path) -> None:
    assert inspect(checkpoint(tmp_path)) == Checkpoint(tmp_path, "abc", 0)


@pytest.mark.parametrize(
    ("path", "content", "text"),
    [
        ("metadata", "{", "metadata is not JSON"),
        ("metadata", "[]", "metadata is not a JSON object"),
        ("metadata", "{}", "metadata names no query"),
        ("metadata", None, "metadata is missing, but batches were planned"),
        ("offsets/1", "", "offsets/1 does not begin with a version"),
        ("commits/2", "v1", "offsets/2 is missing, but the batch was committed"),
    ],
)
def test_damage_is_told(tmp_path: Path, path: str, content: str | None, text: str) -> None:
    file = checkpoint(tmp_path) / path
    if content is None:
        file.unlink()
    else:
        file.write_text(content)
    with pytest.raises(CheckpointError, match=f"checkpoint damaged: .*{text}.*restore the folder"):
        inspect(tmp_path)


def test_a_checkpoint_belongs_to_what_its_query_reads(tmp_path: Path) -> None:
    claim(tmp_path / "c", {"orders": "queue a"})
    claim(tmp_path / "c", {"orders": "queue a"})
    with pytest.raises(CheckpointError, match="source 'orders' was queue a and is queue b now; restore the file"):
        claim(tmp_path / "c", {"orders": "queue b"})
    with pytest.raises(CheckpointError, match="source 'more' was not there and is queue b now"):
        claim(tmp_path / "c", {"orders": "queue a", "more": "queue b"})
