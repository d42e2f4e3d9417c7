"""One empty environment for all tests of this folder: what ``pip install annulet`` brings, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import pytest

from scripts import wheel_environments, wheels


@dataclass(frozen=True, slots=True)
class Plain:
    """An environment with the pure wheel and its dependencies; ``packages`` has their names, without Annulet."""

    folder: Path
    packages: frozenset[str]

    def run(self, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment in an empty folder of its own."""
        place = self.folder / "empty"
        place.mkdir(exist_ok=True)
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "ANNULET"))}
        return subprocess.run(
            [str(self.folder / "bin" / command[0]), *command[1:]],
            cwd=place, env={**environment, **variables}, capture_output=True, text=True, timeout=110, check=False,
        )  # fmt: skip


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Plain:
    """The environment: dependencies are links to those of this run's environment, so that no index is asked."""
    folder = tmp_path_factory.mktemp("plain")
    venv.create(folder, with_pip=False)
    (packages,) = folder.glob("lib/python*/site-packages")
    names = wheel_environments.needed("annulet")
    for name in names:
        distribution = metadata.distribution(name)
        tops = {file.parts[0] for file in distribution.files or [] if file.parts[0] not in {"..", "__pycache__"}}
        for top in tops:
            (packages / top).symlink_to(Path(str(distribution.locate_file(top))))
    wheel = wheels.pure_wheel(tmp_path_factory.mktemp("wheel"))
    command = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install", "--no-deps"]
    subprocess.run([*command, "--quiet", str(wheel)], check=True, timeout=110)
    return Plain(folder, names)
