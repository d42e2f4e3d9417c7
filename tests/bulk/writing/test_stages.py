"""Stages: on disk before the answer, found again after a restart, collected when nobody wants them."""

from __future__ import annotations

import itertools
import os
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from annulet.broker.settings.limits import Limits
from annulet.bulk.protocol.errors import (
    InvalidRequestError,
    NotFoundError,
    OverLimitError,
    RefusedError,
    UnavailableError,
)
from annulet.bulk.writing import stages
from annulet.bulk.writing.stages import STAGE_FILE_BYTES, StageKey, StageStore
from annulet.store.files.files import OsFileSystem

BATCH = pa.record_batch({"body": [b"a", b"b"]})


def key(batch: int, query: str = "q") -> StageKey:
    return StageKey(query, f"{batch}-0-0-{uuid.uuid4().hex}")


@pytest.fixture(params=["files", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> StageStore:
    return StageStore(tmp_path if request.param == "files" else None)


def rows(store: StageStore, stage: StageKey) -> list[bytes]:
    return [body for batch in store.read(stage) for body in batch.column("body").to_pylist()]


def test_written_is_read(store: StageStore) -> None:
    stage = key(3)
    assert store.write(stage, BATCH.schema, [BATCH, BATCH]) == (4, 2 * BATCH.nbytes)
    assert rows(store, stage) == [b"a", b"b", b"a", b"b"]
    assert store.count() == 1
    store.drop(stage)
    store.drop(stage)
    with pytest.raises(NotFoundError, match=r"Restart the query"):
        rows(store, stage)


def test_files_survive_a_restart(tmp_path: Path) -> None:
    stage = key(1)
    StageStore(tmp_path).write(stage, BATCH.schema, [BATCH])
    assert rows(StageStore(tmp_path), stage) == [b"a", b"b"]


def test_the_folder_of_all_stages_has_a_durable_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(OsFileSystem, "sync_directory", lambda _, path: synced.append(path))
    StageStore(tmp_path)
    assert synced == [tmp_path]
    StageStore(tmp_path)
    assert synced == [tmp_path], "it is there"


def test_a_failed_write_leaves_nothing(store: StageStore, tmp_path: Path) -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield BATCH
        raise ConnectionResetError("the worker was killed")

    with pytest.raises(ConnectionResetError):
        store.write(key(1), BATCH.schema, broken())
    assert store.count() == 0
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_batches_up_to_the_mark_are_dropped(store: StageStore) -> None:
    old, stale, newer, other = key(1), key(2), key(3), key(1, "other")
    for stage in (old, stale, newer, other):
        store.write(stage, BATCH.schema, [BATCH])
    assert store.drop_batches("q", 2) == 2
    assert store.count() == 2
    assert rows(store, newer) == rows(store, other) == [b"a", b"b"]


def test_size_is_limited(store: StageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "STAGE_BYTES_MAX", BATCH.nbytes)
    store.write(key(1), BATCH.schema, [BATCH])
    with pytest.raises(RefusedError, match="repartition"):
        store.write(key(1), BATCH.schema, [BATCH, BATCH])


def test_a_stage_weighs_its_rows_and_the_properties_of_its_fullest_batch(store: StageStore) -> None:
    def batch(*counts: int) -> pa.RecordBatch:
        maps = [[(str(number), "v") for number in range(count)] for count in counts]
        properties = pa.array([*maps, None], pa.map_(pa.string(), pa.string()))
        return pa.record_batch({"body": [b"b"] * len(properties), "properties": properties})

    parts = [batch(2, 3), batch(4, 0, 5), batch(), batch(1).slice(1)]
    stage = key(1)
    store.write(stage, parts[0].schema, parts)
    weight = store.weigh(stage)
    assert (weight.rows, weight.properties) == (9, 9)
    assert weight.size >= sum(part.nbytes for part in parts[:3])


def test_a_pinned_stage_is_not_replaced(store: StageStore, tmp_path: Path) -> None:
    stage, other = key(1), key(1)
    store.write(stage, BATCH.schema, [BATCH])
    with store.pinned([stage, stage]):
        store.write(other, BATCH.schema, [BATCH])
        with store.pinned([stage]):
            pass
        with pytest.raises(UnavailableError, match=r"is being committed, and is not replaced"):
            store.write(stage, BATCH.schema, [BATCH, BATCH])
        assert rows(store, stage) == [b"a", b"b"]
        store.drop(stage)
        with pytest.raises(UnavailableError, match=r"is being committed"):
            store.write(stage, BATCH.schema, [BATCH])
    assert store.figures()[0] == store.count() == 1
    assert list(tmp_path.rglob("*.part")) == []
    store.write(stage, BATCH.schema, [BATCH, BATCH])
    assert rows(store, stage) == [b"a", b"b", b"a", b"b"]


def test_weighing_waits_for_a_stage_that_was_about_to_be_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, stage = StageStore(tmp_path), key(1)
    store.write(stage, BATCH.schema, [BATCH])
    renaming, go_on = threading.Event(), threading.Event()
    rename = Path.rename

    def slow(path: Path, target: Path) -> Path:
        renaming.set()
        go_on.wait(60)
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", slow)
    with ThreadPoolExecutor() as threads:
        written = threads.submit(store.write, stage, BATCH.schema, [BATCH, BATCH])
        assert renaming.wait(60)
        with store.pinned([stage]):
            weighed = threads.submit(store.weigh, stage)
            with pytest.raises(TimeoutError):
                weighed.result(0.05)
            go_on.set()
            assert weighed.result(60).rows == 4
        assert written.result(60)[0] == 4


def test_old_stages_and_halves_are_collected(tmp_path: Path) -> None:
    store = StageStore(tmp_path)
    old, young = key(1), key(2)
    for stage in (old, young):
        store.write(stage, BATCH.schema, [BATCH])
    file = next(path for path in tmp_path.rglob(f"{old.stage}*"))
    half = file.with_name("9-0-0-half.part")
    half.write_bytes(b"torn")
    past = time.time() - stages.STAGE_AGE_MAX - 1
    for path in (file, half):
        os.utime(path, (past, past))
    assert store.drop_old() == 2
    assert rows(store, young) == [b"a", b"b"]
    os.utime(file.parent, (past, past))
    store.drop(young)
    os.utime(file.parent, (past, past))
    store.drop_old()
    assert not file.parent.exists()


@pytest.mark.parametrize("stage", ["", "x", "1-2-3", "1-2-3-../../etc", f"-1-0-0-{'0' * 32}", f"1-0-0-{'0' * 32}\n"])
def test_stage_names_are_checked(stage: str) -> None:
    with pytest.raises(InvalidRequestError):
        StageKey("q", stage)
    with pytest.raises(InvalidRequestError, match="query id is empty"):
        StageKey("", f"1-0-0-{'0' * 32}")


def test_a_query_id_is_no_path(tmp_path: Path) -> None:
    store = StageStore(tmp_path)
    store.write(key(1, "../../../escape"), BATCH.schema, [BATCH])
    assert all(tmp_path / "stages" in path.parents for path in tmp_path.rglob("*.arrow"))
    assert store.count() == 1


def test_a_stage_sent_twice_at_a_time_is_whole(store: StageStore) -> None:
    """The first upload hangs in a dead connection; the second must not share its file."""
    stage = key(1)

    def hanging() -> Iterator[pa.RecordBatch]:
        yield BATCH
        store.write(stage, BATCH.schema, [BATCH, BATCH])
        raise ConnectionResetError("found out late")

    with pytest.raises(ConnectionResetError):
        store.write(stage, BATCH.schema, hanging())
    assert rows(store, stage) == [b"a", b"b", b"a", b"b"]


def counted(batches: list[pa.RecordBatch]) -> int:
    """Return the bytes that a stage of these counts."""
    store = StageStore(None)
    store.write(key(1), BATCH.schema, batches)
    return store.figures()[1]


def test_a_stage_counts_the_bytes_of_its_file_and_a_block(tmp_path: Path) -> None:
    for number, batches in enumerate([[], [BATCH], [BATCH, BATCH.slice(0, 0)]]):
        store = StageStore(tmp_path / str(number))
        store.write(key(1), BATCH.schema, batches)
        (path,) = (tmp_path / str(number)).rglob("*.arrow")
        assert store.figures() == (1, STAGE_FILE_BYTES + path.stat().st_size)


def test_batches_without_rows_are_limited() -> None:
    """A7: they counted nothing, and their descriptions filled the disk."""
    store = StageStore(None, Limits(max_stage_bytes_per_user=1 << 20))
    with pytest.raises(OverLimitError, match="max_stage_bytes_per_user"):
        store.write(key(1, "ann@/q"), BATCH.schema, itertools.repeat(BATCH.slice(0, 0)))
    assert store.figures() == (0, 0)
    for number in range((1 << 20) // counted([])):
        store.write(key(number, "ann@/q"), BATCH.schema, [])
    with pytest.raises(OverLimitError, match="max_stage_bytes_per_user"):
        store.write(key(0, "ann@/q"), BATCH.schema, [])


def test_bytes_of_a_user_and_of_all_are_limited(tmp_path: Path) -> None:
    size = counted([BATCH])
    limits = Limits(max_stage_bytes_per_user=2 * size, max_stage_bytes=3 * size)
    store = StageStore(tmp_path, limits)
    mine = [key(number, "ann@/q") for number in range(2)]
    for stage in mine:
        store.write(stage, BATCH.schema, [BATCH])
    with pytest.raises(OverLimitError, match="max_stage_bytes_per_user"):
        store.write(key(3, "ann@/other"), BATCH.schema, [BATCH])
    store.write(key(3, "bob@/q"), BATCH.schema, [BATCH])
    with pytest.raises(OverLimitError, match="all users"):
        store.write(key(4, "bob@/q"), BATCH.schema, [BATCH])
    assert store.figures() == (3, 3 * size)
    for stage in mine:
        store.drop(stage)
    assert store.figures() == (1, size), "what was refused left nothing"
    store.write(key(4, "bob@/q"), BATCH.schema, [BATCH])
    assert store.drop_batches("bob@/q", 4) == 2
    assert store.figures() == (0, 0)


def test_stages_left_by_a_former_run_count_for_their_user(tmp_path: Path) -> None:
    StageStore(tmp_path).write(key(1, "ann@/q"), BATCH.schema, [BATCH])
    size = counted([BATCH])
    store = StageStore(tmp_path, Limits(max_stage_bytes_per_user=size))
    assert store.figures() == (1, size)
    with pytest.raises(OverLimitError):
        store.write(key(2, "ann@/q"), BATCH.schema, [BATCH])
    store.write(key(2, "bob@/q"), BATCH.schema, [BATCH])
    store.drop_old(-1)
    assert store.figures() == (0, 0)
