"""What a checkpoint folder of Spark holds, looked at before Spark does: damage and mix-ups are told with a remedy."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from annulet.spark.pipeline.errors import CheckpointError

INPUTS: Final = "annulet-inputs.json"
"""Our file in a checkpoint: what its query reads."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """``query`` is empty before the first run; ``batch`` is the last one done, -1 for none."""

    folder: Path
    query: str = ""
    batch: int = -1


def inspect(folder: Path) -> Checkpoint:
    """Look at a checkpoint. Raises :class:`CheckpointError` when it is damaged."""
    if not folder.exists():
        return Checkpoint(folder)
    metadata = folder / "metadata"
    planned, done = _batches(folder / "offsets"), _batches(folder / "commits")
    if not metadata.exists():
        if planned:
            raise _damaged(metadata, "is missing, but batches were planned")
        return Checkpoint(folder)
    query = _json(metadata).get("id")
    if not isinstance(query, str):
        raise _damaged(metadata, "names no query")
    if done and (not planned or done[-1] > planned[-1]):
        raise _damaged(folder / "offsets" / str(done[-1]), "is missing, but the batch was committed")
    for name, batches in (("offsets", planned), ("commits", done)):
        if batches:
            path = folder / name / str(batches[-1])
            if not path.read_bytes().startswith(b"v"):
                raise _damaged(path, "does not begin with a version")
    return Checkpoint(folder, query, done[-1] if done else -1)


def claim(folder: Path, inputs: dict[str, Any]) -> None:
    """Write down what a query reads, or compare. Raises :class:`CheckpointError` when it read something else before."""
    path = folder / INPUTS
    if path.exists():
        before = _json(path)
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


def _batches(folder: Path) -> list[int]:
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return sorted(int(name) for name in names if name.isdigit())


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
    except ValueError as error:
        raise _damaged(path, f"is not JSON ({error})") from error
    if not isinstance(found, dict):
        raise _damaged(path, "is not a JSON object")
    return found


def _damaged(path: Path, what: str) -> CheckpointError:
    return CheckpointError(
        f"checkpoint damaged: {path} {what}; restore the folder from a backup, or remove it to start anew (the lease "
        "of its source then needs on_existing_lease)"
    )
