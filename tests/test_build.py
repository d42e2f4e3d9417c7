from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from annulet import _build

LIBRARY = f"sample-0123{_build.SUFFIX}"


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with one hot module and the files a build of it would leave; returns the source of the module."""
    source = tmp_path / "src" / "sample" / "hot.py"
    source.parent.mkdir(parents=True)
    source.write_text("answer = 42\n")
    folder = tmp_path / ".setup" / "compiled"
    folder.mkdir(parents=True)
    monkeypatch.setattr(_build, "SOURCE", tmp_path / "src")
    monkeypatch.setattr(_build, "FOLDER", folder)
    monkeypatch.setattr(_build, "MANIFEST", folder / "manifest.json")
    (folder / LIBRARY).write_bytes(b"library")
    _build.write_manifest(record())
    return source


def record(library: str = LIBRARY) -> _build.Manifest:
    return {
        "sources": {"sample.hot": _build.digest_of("sample.hot")},
        "groups": {"sample.hot": "sample"},
        "libraries": {"sample": library},
    }


def test_a_fresh_build_is_usable(built: Path) -> None:
    assert _build.usable()
    assert _build.usable(["sample.hot"])


def test_a_changed_source_disables_the_build(built: Path) -> None:
    built.write_text("answer = 43\n")
    assert not _build.usable()


def test_a_removed_source_disables_the_build(built: Path) -> None:
    built.unlink()
    assert not _build.usable()


def test_another_list_of_modules_asks_for_a_new_build(built: Path) -> None:
    assert not _build.usable(["sample.hot", "sample.other"])


def test_a_missing_library_disables_the_build(built: Path) -> None:
    (_build.FOLDER / LIBRARY).unlink()
    assert not _build.usable()


def test_a_library_of_another_python_disables_the_build(built: Path) -> None:
    other = "sample-0123.cpython-27-other.so"
    (_build.FOLDER / other).write_bytes(b"library")
    _build.write_manifest(record(other))
    assert not _build.usable()


def test_without_a_manifest_there_is_no_build(built: Path) -> None:
    _build.MANIFEST.unlink()
    assert not _build.usable()


def test_the_record_of_an_earlier_form_is_no_build(built: Path) -> None:
    _build.MANIFEST.write_text('{"sample.hot": "0123"}')
    assert not _build.usable()


def test_without_ctypes_everything_runs_pure(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_build.importlib.util, "find_spec", lambda name: None)
    assert not _build.usable()


def test_the_finder_serves_only_hot_modules_and_their_libraries(built: Path) -> None:
    finder = _build.CompiledFinder(record())
    found = finder.find_spec("sample.hot")
    assert found is not None
    assert found.origin == str(_build.FOLDER / LIBRARY)
    library = finder.find_spec("sample" + _build.GROUP_SUFFIX)
    assert library is not None
    assert library.origin == str(_build.FOLDER / LIBRARY)
    assert finder.find_spec("sample") is None
    assert finder.find_spec("sample.cold") is None


@pytest.mark.parametrize("value", ["1", "yes"])
def test_annulet_pure_wins_over_a_build(built: Path, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setattr(sys, "meta_path", list(filter(lambda item: not _is_ours(item), sys.meta_path)))
    monkeypatch.setenv("ANNULET_PURE", value)
    _build.activate()
    assert not _build.compiled()


@pytest.mark.parametrize("value", ["", "0"])
def test_a_usable_build_is_activated_once(built: Path, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setattr(sys, "meta_path", list(filter(lambda item: not _is_ours(item), sys.meta_path)))
    monkeypatch.setenv("ANNULET_PURE", value)
    _build.activate()
    _build.activate()
    assert len(list(filter(_is_ours, sys.meta_path))) == 1


@pytest.mark.parametrize("pure", ["0", "1"])
def test_a_new_process_loads_what_the_environment_asks_for(pure: str) -> None:
    """The real build, in a real process: every hot module comes from the same place, and that place is right."""
    script = (
        "import importlib\nfrom annulet import _build\n"
        "found = _build.manifest()\n"
        "for name in found['sources'] if found else ['annulet.core.message.message']:\n"
        "    print(_build.compiled(), importlib.import_module(name).__file__.endswith(_build.SUFFIX))\n"
    )
    environment = {**os.environ, "ANNULET_PURE": pure, "PYTHONPATH": str(Path(_build.__file__).parents[1])}
    finished = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    expected = pure == "0" and _build.usable()
    assert set(finished.stdout.splitlines()) == {f"{expected} {expected}"}


def _is_ours(finder: object) -> bool:
    return isinstance(finder, _build.CompiledFinder)
