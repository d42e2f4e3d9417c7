"""The files that make a bare machine into a working one."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent


def load(script: str) -> ModuleType:
    specification = importlib.util.spec_from_file_location(script, ROOT / "scripts" / f"{script}.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def pinned(name: str) -> dict[str, str]:
    """Return the text of each requirement of a lock by package name."""
    text = (ROOT / "requirements" / name).read_text()
    blocks = re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE | re.IGNORECASE)
    return {re.split(r"==", block)[0]: block for block in blocks if "==" in block}


@pytest.mark.parametrize("name", ["lock.txt", "build.txt", "wheels.txt"])
def test_every_locked_package_has_a_hash(name: str) -> None:
    packages = pinned(name)
    assert packages
    assert [package for package, block in packages.items() if "--hash=sha256:" not in block] == []


@pytest.mark.parametrize(
    "name",
    ["requirements/lock.txt", "requirements/build.txt", "requirements/wheels.txt", "tests/node/package-lock.json"],
)
def test_locks_name_no_package_index(name: str) -> None:
    text = (ROOT / name).read_text()
    assert re.findall(r"https?://\S+\.(?:tgz|whl|gz)|--(?:extra-)?index-url|\"resolved\"", text) == []


def test_lock_covers_every_direct_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    direct = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    names = {re.split(r"[\[<>=~! ]", requirement)[0].lower() for requirement in direct} - {"annulet"}
    assert names - set(pinned("lock.txt")) == set()


def test_the_build_lock_agrees_with_the_lock() -> None:
    lock = pinned("lock.txt")
    for package, block in pinned("build.txt").items():
        assert block.strip() == lock[package].strip()


def test_npm_lock_pins_every_package_by_integrity() -> None:
    packages = json.loads((ROOT / "tests" / "node" / "package-lock.json").read_text())["packages"]
    assert [name for name, entry in packages.items() if name and not entry.get("integrity")] == []


def run_setup(path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", ROOT / "scripts" / "setup"],
        env={"PATH": str(path), **environment}, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A path that holds dirname, which the script needs, and no Python."""
    folder = tmp_path / "programs"
    folder.mkdir()
    dirname = shutil.which("dirname")
    assert dirname is not None
    (folder / "dirname").symlink_to(dirname)
    return folder


def fake_python(path: Path, *, suitable: bool) -> None:
    path.write_text(f'#!/bin/sh\n[ "$1" != -c ] || exit {0 if suitable else 1}\necho "ran {path.name} $1"\n')
    path.chmod(0o755)


def test_without_a_python_the_remedy_is_named(programs: Path) -> None:
    finished = run_setup(programs)
    assert finished.returncode == 1
    assert "no Python 3.11 or newer found" in finished.stderr
    assert "PYTHON=" in finished.stderr


def test_an_old_python_is_passed_over(programs: Path) -> None:
    fake_python(programs / "python3", suitable=False)
    fake_python(programs / "python3.12", suitable=True)
    assert run_setup(programs).stdout == "ran python3.12 scripts/prepare.py\n"


def test_a_named_python_that_is_too_old_is_refused(programs: Path) -> None:
    fake_python(programs / "old", suitable=False)
    fake_python(programs / "python3", suitable=True)
    finished = run_setup(programs, PYTHON="old")
    assert finished.returncode == 1
    assert "PYTHON=old is not a Python 3.11 or newer" in finished.stderr


def test_without_ensurepip_the_outer_pip_fills_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Debian without python3-venv: a bare environment is made, and the pip of the outer Python is used for it."""
    prepare = load("prepare")
    monkeypatch.setattr(prepare, "ENVIRONMENT", tmp_path / "my env")
    monkeypatch.setattr(prepare, "PYTHON", tmp_path / "my env" / "bin" / "python")
    monkeypatch.setattr(prepare, "ROOT", tmp_path)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    command = prepare.installer()
    assert command == [sys.executable, "-m", "pip", "--python", str(tmp_path / "my env" / "bin" / "python")]
    listed = subprocess.run([*command, "list"], capture_output=True, text=True, check=True)
    assert "pytest" not in listed.stdout


def test_without_any_pip_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare = load("prepare")
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    monkeypatch.setattr(prepare, "ENVIRONMENT", tmp_path / "env")
    monkeypatch.setattr(prepare, "PYTHON", tmp_path / "env" / "bin" / "python")
    monkeypatch.setattr(prepare, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "executable", str(bare / "bin" / "python"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match="python3-venv"):
        prepare.installer()
    assert not (tmp_path / "env").exists()


def test_an_environment_that_was_moved_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare = load("prepare")
    assert sys.prefix != sys.base_prefix, "the suite runs in the project's environment"
    monkeypatch.setattr(prepare, "ENVIRONMENT", Path(sys.prefix))
    monkeypatch.setattr(prepare, "PYTHON", Path(sys.executable))
    assert prepare.environment_usable()
    monkeypatch.setattr(prepare, "ENVIRONMENT", tmp_path)
    assert not prepare.environment_usable()


def test_the_ci_script_fails_with_its_first_failing_step() -> None:
    text = (ROOT / ".ci" / "run").read_text()
    assert "set -euo pipefail" in text
    assert text.rstrip().endswith("make check\nmake test")
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
