"""The examples of tests run as their readers run them: pytest in their folder, against the sources."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = sorted(path.parent for path in (ROOT / "examples" / "testing").glob("*/pyproject.toml"))
DEBIAN_MODULES = Path("/usr/lib/python3/dist-packages")
MODULES = {"stomp_py": "stomp", "taskiq": "taskiq_aio_pika"}
"""The package of a folder's client, where its name is another."""

FIXTURES = ("hypothesispytest", "schemathesis", "anyio", "xdist", "timeout")
"""Plugins of our own suite that readers of an example do not have."""


def parameters() -> list[object]:
    return [
        pytest.param(folder, id=folder.name, marks=[pytest.mark.debian] if folder.name == "proton" else [])
        for folder in FOLDERS
    ]


@pytest.mark.parametrize("folder", parameters())
def test_the_tests_of_an_example_pass(folder: Path) -> None:
    paths = [str(ROOT / "src")]
    if folder.name == "proton":
        if not (DEBIAN_MODULES / "proton").is_dir():
            pytest.skip("python3-qpid-proton is not installed")
        paths.append(str(DEBIAN_MODULES))
    elif importlib.util.find_spec(MODULES.get(folder.name, folder.name)) is None:
        pytest.fail(f"the client of {folder.name} is not installed; run `make setup`")
    asked = tomllib.loads((folder / "pyproject.toml").read_text())["dependency-groups"]["test"]
    left_out = [*FIXTURES, *([] if "pytest-asyncio" in asked else ["asyncio"])]
    options = [word for name in left_out for word in ("-p", f"no:{name}")]
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "pytest_annulet", "-p", "no:cacheprovider", *options],
        cwd=folder, env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)}, capture_output=True, text=True,
        stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    assert result.returncode == 0, f"{result.stdout}\n{result.stderr}"


def test_there_is_an_example_for_each_client() -> None:
    assert [folder.name for folder in FOLDERS] == [
        "aio_pika", "celery", "dramatiq", "faststream", "kombu", "pika", "proton", "stomp_py", "taskiq",
    ]  # fmt: skip
    for folder in FOLDERS:
        assert sorted(path.name for path in folder.glob("*.*")) == ["pyproject.toml", "shop.py", "test_shop.py"]
