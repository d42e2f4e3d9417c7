"""A damaged checkpoint is an error of the pipeline; a sound one belongs to what its query reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from annulet.spark.checkpoints import Checkpoint
from annulet.spark.pipeline.checkpoints import INPUTS, claim, inspect
from annulet.spark.pipeline.errors import CheckpointError


def test_damage_is_told(tmp_path: Path) -> None:
    assert inspect(tmp_path) == Checkpoint(tmp_path, "", -1)
    (tmp_path / "metadata").write_text("{")
    with pytest.raises(CheckpointError, match=r"checkpoint damaged: .*metadata is not JSON.*on_existing_lease"):
        inspect(tmp_path)


def test_a_checkpoint_belongs_to_what_its_query_reads(tmp_path: Path) -> None:
    claim(tmp_path / "c", {"orders": "queue a"})
    claim(tmp_path / "c", {"orders": "queue a"})
    with pytest.raises(CheckpointError, match="source 'orders' was queue a and is queue b now; restore the file"):
        claim(tmp_path / "c", {"orders": "queue b"})
    with pytest.raises(CheckpointError, match="source 'more' was not there and is queue b now"):
        claim(tmp_path / "c", {"orders": "queue a", "more": "queue b"})
    (tmp_path / "c" / INPUTS).write_text("[")
    with pytest.raises(CheckpointError, match=r"annulet-inputs\.json is not JSON"):
        claim(tmp_path / "c", {"orders": "queue a"})
