"""Merging, expiry and deletion of files; the merge itself runs with the archive's test on Spark."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from annulet.spark.archive.log import Entry, FileEntry, State
from annulet.spark.archive.maintenance import (
    QUIET_FOLDERS,
    QUIET_SECONDS,
    STAGE_SECONDS,
    Upkeep,
    expire,
    mergeable,
    remove_orphans,
    vacuum,
)
from annulet.spark.archive.table import Table

NOW = 1_700_000_000_000
"""Milliseconds since 1970: 2023-11-14T22:13:20Z."""


class Clock:
    now = NOW

    def __call__(self) -> int:
        return self.now


def entry(path: str, size: int = 10, at: int = 0) -> FileEntry:
    return FileEntry(path, 1, size, at)


def table_of(root: Path, clock: Clock, paths: Sequence[str]) -> Table:
    table = Table(root, clock=clock)
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(b"rows")
    table.log.commit(lambda _state: Entry(add=[entry(path) for path in paths]))
    return table


def groups(files: Sequence[FileEntry], upkeep: Upkeep, now: int = 0) -> list[list[str]]:
    state = State(files={file.path: file for file in files})
    return [[file.path for file in group] for group in mergeable(state, upkeep, now)]


def test_small_files_of_one_folder_are_merged_oldest_first_up_to_the_size() -> None:
    upkeep = Upkeep(file_bytes=100, small_files=3)
    files = [entry(f"a/{number}", 40, at=-number) for number in range(5)] + [entry("b/1"), entry("b/2")]

    assert groups(files, upkeep) == [["a/4", "a/3"], ["a/2", "a/1"]]
    assert groups([*files, entry("b/3"), entry("b/large", 50)], upkeep)[-1] == ["b/1", "b/2", "b/3"]


@pytest.mark.parametrize(("count", "merges"), [(2, 0), (3, 1)])
def test_a_merge_starts_at_its_number_of_small_files(count: int, merges: int) -> None:
    files = [entry(f"a/{number}") for number in range(count)]
    assert len(groups(files, Upkeep(file_bytes=100, small_files=3))) == merges


@pytest.mark.parametrize(("short", "merges"), [(1, 0), (0, 1)])
def test_two_small_files_are_enough_where_none_came_for_a_day(short: int, merges: int) -> None:
    files = [entry("a/old", at=NOW - 10**9), entry("a/newest", at=NOW), entry("b/alone", at=NOW - 10**9)]
    now = NOW + int(QUIET_SECONDS) * 1000 - short
    assert groups(files, Upkeep(file_bytes=100), now) == [["a/old", "a/newest"]][:merges]


def test_a_round_merges_a_bounded_number_of_folders_for_their_age() -> None:
    files = [entry(f"{folder}/{number}") for folder in range(QUIET_FOLDERS + 1) for number in range(2)]
    files += [entry(f"many/{number}") for number in range(64)]
    found = groups(files, Upkeep(file_bytes=10_000), int(QUIET_SECONDS) * 1000)
    assert [len(group) for group in found] == [2] * QUIET_FOLDERS + [64]


def test_days_before_the_last_ones_go(tmp_path: Path) -> None:
    clock = Clock()
    paths = ["date=2023-11-11/address=a/x", "date=2023-11-12/address=a/x", "date=2023-11-14/address=b/x"]
    table = table_of(tmp_path, clock, paths)

    assert expire(table, Upkeep()) == 0
    assert expire(table, Upkeep(keep_days=2)) == 1
    assert expire(table, Upkeep(keep_days=2)) == 0
    assert list(table.state().files) == paths[1:]


def test_what_does_not_count_is_deleted_after_the_grace(tmp_path: Path) -> None:
    clock = Clock()
    table = table_of(tmp_path, clock, ["date=2023-11-11/address=a/x", "date=2023-11-14/address=a/x"])
    old_stage = table.inside / "stage" / "old"
    old_stage.mkdir(parents=True)
    upkeep = Upkeep(keep_days=1, grace_seconds=60)
    expire(table, upkeep)

    clock.now = NOW + 59_999
    assert vacuum(table, upkeep) == 0
    clock.now = NOW + 60_000
    assert vacuum(table, upkeep) == 1
    assert [path.name for path in tmp_path.iterdir() if path.name != "_annulet"] == ["date=2023-11-14"]
    assert table.state().removed == {}
    clock.now = int((old_stage.stat().st_mtime + STAGE_SECONDS + 1) * 1000)
    vacuum(table, upkeep)
    assert not old_stage.exists()


def test_what_a_crash_left_goes_after_a_day(tmp_path: Path) -> None:
    clock = Clock()
    table = table_of(tmp_path, clock, ["date=2023-11-14/address=a/x.parquet"])
    folder = tmp_path / "date=2023-11-14" / "address=a"
    before_the_table = folder / f"merged-{'0' * 32}-0000.parquet"
    before_the_table.write_bytes(b"rows")
    os.utime(before_the_table, (0, 0))
    (folder / "of-others.parquet").write_bytes(b"rows")
    assert remove_orphans(table) == 0
    table.schema_file.write_text("{}")
    orphan = folder / f"merged-{'1' * 32}-0000.parquet"
    orphan.write_bytes(b"rows")
    (folder / f"00000000-query-{7:09}-0123abcd-0000.parquet").write_bytes(b"rows")
    (table.inside / "replays").mkdir()
    (table.inside / "replays" / "z.parquet").write_bytes(b"rows")
    written = orphan.stat().st_mtime

    clock.now = int((written + STAGE_SECONDS - 1) * 1000)
    assert remove_orphans(table) == 0
    clock.now = int((written + STAGE_SECONDS + 1) * 1000)
    assert remove_orphans(table) == 2
    assert {path.name for path in tmp_path.rglob("*.parquet")} == {
        "z.parquet",
        "x.parquet",
        "of-others.parquet",
        before_the_table.name,
    }


def test_an_archive_without_its_log_is_not_taken_for_what_a_crash_left(tmp_path: Path) -> None:
    file = tmp_path / "date=2023-11-14" / f"query-{7:09}-0123abcd-0000.parquet"
    file.parent.mkdir()
    file.write_bytes(b"rows")
    os.utime(file, (0, 0))

    assert remove_orphans(Table(tmp_path)) == 0
    assert file.exists()


def test_a_staging_folder_may_go_while_it_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(tmp_path, Clock(), [])
    stage = table.inside / "stage"
    (stage / "done").mkdir(parents=True)
    listed = list(stage.iterdir())
    (stage / "done").rmdir()
    monkeypatch.setattr(Path, "iterdir", lambda _folder: iter(listed))

    assert vacuum(table, Upkeep()) == 0
