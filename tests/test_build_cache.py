from __future__ import annotations

import os
from pathlib import Path

import pytest

from scripts.build_cache import DIGEST_BYTES, BuildCache, folder_of_cache


def test_a_content_is_found_by_its_key(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path / "new" / "folder")
    assert cache.get("a.o") is None
    cache.put("a.o", b"object")
    assert cache.get("a.o") == b"object"
    assert BuildCache(tmp_path / "new" / "folder").get("a.o") == b"object"
    assert cache.problem == ""


@pytest.mark.parametrize("damage", [b"", b"short", b"\0" * 50])
def test_a_damaged_entry_counts_as_missing_and_is_replaced(tmp_path: Path, damage: bytes) -> None:
    cache = BuildCache(tmp_path)
    cache.put("a.o", b"object")
    (tmp_path / "a.o").write_bytes(damage)
    assert cache.get("a.o") is None
    cache.put("a.o", b"object")
    assert cache.get("a.o") == b"object"


def test_the_entries_unused_for_longest_leave_at_the_limit(tmp_path: Path) -> None:
    size = 100 + DIGEST_BYTES
    cache = BuildCache(tmp_path, 3 * size)
    for number, name in enumerate("abcd"):
        cache.put(name, b"x" * 100)
        os.utime(tmp_path / name, (number, number))
    assert cache.get("a") is not None  # now it is the one used last
    cache.trim()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "c", "d"]
    cache.trim()
    assert len(list(tmp_path.iterdir())) == 3


def test_one_byte_above_the_limit_removes_an_entry(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path, 2 * (100 + DIGEST_BYTES) - 1)
    cache.put("a", b"x" * 100)
    os.utime(tmp_path / "a", (1, 1))
    cache.put("b", b"x" * 100)
    cache.trim()
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


def test_a_folder_that_cannot_be_written_is_a_problem_and_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = BuildCache(tmp_path / "file" / "build")
    cache.put("a", b"x")
    assert str(tmp_path / "file" / "build") in cache.problem
    assert cache.get("a") is None
    cache.trim()


def test_a_cache_without_a_folder_keeps_nothing() -> None:
    cache = BuildCache(None)
    cache.put("a", b"x")
    cache.trim()
    assert cache.get("a") is None
    assert cache.problem == ""


def test_the_environment_chooses_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/home/a/cache")
    monkeypatch.delenv("ANNULET_BUILD_CACHE", raising=False)
    assert folder_of_cache() == Path("/home/a/cache/annulet/build")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert folder_of_cache() == Path.home() / ".cache" / "annulet" / "build"
    monkeypatch.setenv("ANNULET_BUILD_CACHE", "/elsewhere")
    assert folder_of_cache() == Path("/elsewhere")
    monkeypatch.setenv("ANNULET_BUILD_CACHE", "")
    assert folder_of_cache() is None
