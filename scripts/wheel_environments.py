"""Environments in which the wheels of other Python versions are built and tried.

Everything in them is of the lock files, by its hash. Sources are copied, so that the compiled build of this checkout
stays as it is; the C compiler's results are kept for all versions (scripts/build_cache.py).
"""

from __future__ import annotations

import re
import shutil
from importlib import metadata
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from scripts.wheel_check import WheelError, environment_of, output_of

ROOT: Final = Path(__file__).resolve().parent.parent
LOCKS: Final = ("build.txt", "wheels.txt", "lock.txt")
COPIED: Final = ("src", "scripts", "requirements", "pyproject.toml", "README.md", "LICENSE")

COMPILER_SECONDS_MAX: Final = 3600
"""How long all modules may take to compile: ten minutes of one core, which other programs may use too."""


def needed(*distributions: str) -> frozenset[str]:
    """Return the names of all distributions that others need without extras, without these."""
    found: set[str] = set()
    left = list(distributions)
    while left:
        for text in metadata.requires(left.pop()) or []:
            requirement = Requirement(text)
            name = canonicalize_name(requirement.name)
            if name not in found and (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
                found.add(name)
                left.append(name)
    return frozenset(found)


def locked(names: frozenset[str]) -> str:
    """Return the requirements of the lock files for packages of these names, with their hashes.

    Raises :class:`WheelError` for a package that no lock file has.
    """
    blocks: dict[str, list[str]] = {}
    for lock in LOCKS:
        text = (ROOT / "requirements" / lock).read_text()
        of_lock: dict[str, list[str]] = {}
        for block in re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE):
            name, separator, _ = block.partition("==")
            if separator:
                of_lock.setdefault(canonicalize_name(name), []).append(block)
        blocks = {**of_lock, **blocks}
    missing = sorted(names - set(blocks))
    if missing:
        raise WheelError(f"the lock files lack {', '.join(missing)}; run `make lock`")
    return "".join(block for name in sorted(names) for block in blocks[name])


def all_of(lock: str) -> frozenset[str]:
    """Return the names of all packages of a lock file."""
    text = (ROOT / "requirements" / lock).read_text()
    return frozenset(canonicalize_name(name) for name in re.findall(r"^([\w.-]+)==", text, re.MULTILINE))


def build_packages() -> frozenset[str]:
    """Return the names of what building a wheel takes: the tools, mypyc, and what the sources import."""
    return all_of("build.txt") | all_of("wheels.txt") | needed("annulet", "mypy") | {"mypy"}


def make_environment(python: Path, folder: Path, names: frozenset[str]) -> None:
    """Create an environment of an interpreter with packages of the lock files."""
    call([str(python), "-m", "venv", str(folder)], ROOT)
    wanted = folder / "requirements.txt"
    wanted.write_text(locked(names))
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    call([*pip, "--require-hashes", "--requirement", str(wanted)], ROOT)


def install(folder: Path, wheel: Path) -> None:
    """Install a wheel into an environment that has what it needs."""
    call(
        [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", str(wheel)], ROOT
    )


def build(folder: Path, sources: Path, target: Path) -> str:
    """Compile copied sources with an environment, and build both wheels into a folder; return what was printed."""
    for name in COPIED:
        found = ROOT / name
        if found.is_dir():
            shutil.copytree(found, sources / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(found, sources / name)
    python = str(folder / "bin" / "python")
    shown = call([python, "-m", "scripts.compile_modules"], sources, folder)
    return shown + call([python, "-m", "scripts.wheels", str(target)], sources, folder)


def call(command: list[str], place: Path, folder: Path | None = None) -> str:
    """Run a command and return its output. Raises :class:`WheelError` with the output of one that fails."""
    environment = None if folder is None else {**environment_of(folder), "PYTHONPATH": str(place / "src")}
    return output_of(command, place, environment, COMPILER_SECONDS_MAX)
