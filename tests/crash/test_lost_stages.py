"""Stages of staged publishes under power loss: one that was answered is there, and none is there by half."""

from __future__ import annotations

import os
import random
import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from annulet.bulk.protocol.errors import NotFoundError
from annulet.bulk.writing.stages import StageKey, StageStore
from annulet.store.files.data_format import STAGE_DIRECTORY
from tests.crash.test_marked_points import MortalBrokers, round_of
from tests.crash.volatile_files import Fault, VolatileFiles
from tests.crash.volatile_stages import VolatileStages

QUERIES = ("first", "first", "second")
LIVES = 2
PLAN = ("staged", "publish", "staged", "settle")
DEATHS = (("stage read", 1), ("stage read", 2), ("sync stage", 2), ("sync stage", 3))
"""Each stage is synced three times: its file, the folder of its query, and that of all queries."""


def batch_of(number: int) -> pa.RecordBatch:
    return pa.record_batch({"body": pa.array([b"%d" % number] * 100, pa.binary())})


def read(data: Path, key: StageKey) -> list[bytes]:
    return [body for batch in StageStore(data).read(key) for body in batch.column("body").to_pylist()]


@pytest.fixture
def stages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[VolatileStages]:
    """Account of the stages in ``data``."""
    files = VolatileFiles(tmp_path / "attic", 0, Fault(), lambda *_: None)
    stages = VolatileStages(files, tmp_path / "data")
    monkeypatch.setattr(os, "fsync", stages.sync)
    yield stages
    stages.close()


def test_what_was_answered_outlives_the_worst_power_loss(stages: VolatileStages, tmp_path: Path) -> None:
    store = StageStore(tmp_path / "data")
    written: dict[StageKey, list[bytes]] = {}
    for number, query in enumerate(QUERIES):
        key, batch = StageKey(query, f"{number}-0-0-{uuid.uuid4().hex}"), batch_of(number)
        store.write(key, batch.schema, [batch])
        written[key] = batch.column("body").to_pylist()
        left = tmp_path / f"left-{number}"
        stages.leave(left / STAGE_DIRECTORY)
        assert {key: read(left, key) for key in written} == written


def test_no_stage_is_there_by_half(stages: VolatileStages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Power fails before and after each sync; of what was not synced all names are on the disk, and no content is."""
    store, key, batch = StageStore(tmp_path / "data"), StageKey("query", f"1-0-0-{uuid.uuid4().hex}"), batch_of(1)
    found: list[list[bytes]] = []

    def look() -> None:
        left = tmp_path / f"left-{len(found)}"
        stages.leave(left / STAGE_DIRECTORY, names=lambda: True)
        try:
            found.append(read(left, key))
        except NotFoundError:
            found.append([])

    def sync(descriptor: int) -> None:
        look()
        stages.sync(descriptor)
        look()

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", sync)
        store.write(key, batch.schema, [batch])
    assert [bool(bodies) for bodies in found] == sorted(map(bool, found)), "it does not go again"
    assert all(bodies in ([], batch.column("body").to_pylist()) for bodies in found)
    assert found[0] == []
    assert found[-1]


@pytest.mark.parametrize(("point", "occurrence"), DEATHS, ids=lambda value: str(value).replace(" ", "-"))
def test_every_promise_is_kept_when_stages_lose_what_was_not_synced(
    brokers: MortalBrokers, tmp_path: Path, moments: random.Random, point: str, occurrence: int
) -> None:
    for number in range(LIVES):
        seed = moments.getrandbits(32)
        print(f"{point} {occurrence} seed {seed}")
        round_of(brokers, tmp_path / str(number) / "data", Fault(point, occurrence), seed, len(PLAN), plan=PLAN)
