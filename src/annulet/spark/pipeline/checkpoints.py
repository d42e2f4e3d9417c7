"""The checkpoints of a pipeline: checked before Spark reads them, and bound to the sources of their queries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from annulet.spark import checkpoints
from annulet.spark.checkpoints import Checkpoint, DamagedCheckpointError, read_json
from annulet.spark.pipeline.errors import CheckpointError

INPUTS: Final = "annulet-inputs.json"
"""Our file in a checkpoint: the sources of its query."""


def inspect(folder: Path) -> Checkpoint:
    """Check a checkpoint. Raises :class:`CheckpointError` if it is damaged."""
    try:
        return checkpoints.inspect(folder)
    except DamagedCheckpointError as error:
        raise CheckpointError(str(error)) from error


def claim(folder: Path, inputs: dict[str, Any]) -> None:
    """Record the sources of a query, or compare them. Raises :class:`CheckpointError` if it had others before."""
    path = folder / INPUTS
    if path.exists():
        try:
            before = read_json(path)
        except DamagedCheckpointError as error:
            raise CheckpointError(str(error)) from error
        for name in before.keys() | inputs.keys():
            if before.get(name) != inputs.get(name):
                raise CheckpointError(
                    f"checkpoint {folder}: source {name!r} was {before.get(name) or 'not there'} and is "
                    f"{inputs.get(name) or 'not there'} now; restore the file, or remove the checkpoint to start anew"
                )
        return
    folder.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(json.dumps(inputs, indent=1, sort_keys=True))
    new.replace(path)  # in one step: half a file would pass for damage
