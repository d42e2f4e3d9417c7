"""Builds the wheels of this Python: a pure one, and one with the compiled build of ``make setup`` in it.

    .venv/bin/python -m scripts.wheels dist
    .venv/bin/python -m scripts.wheels dist --python python3.12 --python /opt/python3.13/bin/python

The pure wheel installs everywhere; pip prefers the other where its tag fits. That has the tag of manylinux when
``auditwheel`` and ``patchelf`` can be run, else that of this Linux, which package indexes refuse. ``--python`` builds
the compiled wheel of other interpreters too, and tries each wheel in an empty environment; it takes the tools of
``requirements/wheels.txt`` for that.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Final

from annulet import _build
from scripts import wheel_check

ROOT: Final = Path(__file__).resolve().parent.parent


def run(*arguments: str | Path) -> str:
    """Run a module of this Python and return its output. Exits with the output of one that fails."""
    finished = subprocess.run(
        [sys.executable, "-m", *map(str, arguments)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        text=True,
    )
    if finished.returncode != 0:
        sys.exit(f"wheels: {' '.join(map(str, arguments))}: exit status {finished.returncode}\n{finished.stdout}")
    return finished.stdout


def pure_wheel(target: Path) -> Path:
    """Build the wheel without compiled modules into a folder and return it."""
    run("pip", "wheel", ".", "--no-deps", "--no-build-isolation", "--quiet", "--wheel-dir", target)
    (wheel,) = target.glob("annulet-*-none-any.whl")
    return wheel


def compiled_wheel(pure: Path, target: Path) -> Path:
    """Put the compiled build into a copy of the pure wheel, and return the new wheel in a folder."""
    found = _build.manifest()
    if found is None or not _build.fits(found):
        sys.exit("wheels: there is no compiled build of these sources: run `make setup` with a C compiler first")
    with tempfile.TemporaryDirectory(prefix="annulet-wheel-") as scratch:
        run("wheel", "unpack", pure, "--dest", scratch)
        (tree,) = Path(scratch).iterdir()
        folder = tree / "annulet" / _build.IN_WHEEL.name
        folder.mkdir()
        for library in found["libraries"].values():
            shutil.copy2(_build.FOLDER / library, folder / library)
            strip(folder / library)
        shutil.copy2(_build.MANIFEST, folder / _build.MANIFEST.name)
        (description,) = tree.glob("*.dist-info/WHEEL")
        text = description.read_text().replace("Root-Is-Purelib: true", "Root-Is-Purelib: false")
        description.write_text(re.sub(r"^Tag: .*$", f"Tag: {tag()}", text, flags=re.MULTILINE))
        run("wheel", "pack", tree, "--dest-dir", target)
    (wheel,) = target.glob(f"annulet-*-{tag()}.whl")
    return wheel


def tag() -> str:
    """Return the tag of a wheel for this Python and this Linux: ``cp311-cp311-linux_x86_64``."""
    version = f"cp{sys.version_info.major}{sys.version_info.minor}"
    return f"{version}-{version}-{re.sub(r'[-.]', '_', sysconfig.get_platform())}"


def strip(library: Path) -> None:
    """Remove what only a debugger reads from a library; without the program it stays as large as it is."""
    program = shutil.which("strip")
    if program is not None:
        subprocess.run([program, "--strip-unneeded", str(library)], check=True)


def many_linux(wheel: Path, target: Path) -> Path:
    """Give a wheel the tag of the oldest Linux that it runs on, and return it; the wheel itself without the tools."""
    program = shutil.which("auditwheel")
    if program is None or shutil.which("patchelf") is None:
        print(f"wheels: {wheel.name} keeps the tag of this Linux: auditwheel and patchelf are missing", flush=True)
        return wheel
    before = set(target.iterdir())
    finished = subprocess.run(
        [program, "repair", "--wheel-dir", str(target), str(wheel)], check=False, capture_output=True, text=True
    )
    if finished.returncode != 0:
        sys.exit(f"wheels: auditwheel: exit status {finished.returncode}\n{finished.stderr}")
    wheel.unlink()
    (made,) = set(target.iterdir()) - before
    return made


def build_for(pythons: list[str], target: Path) -> None:
    """Build the compiled wheel of each interpreter, and the pure one, and try each. Exits with the first error."""
    from scripts import wheel_environments  # noqa: PLC0415 - needs packaging, which building this Python's does not

    try:
        for name in pythons:
            found = shutil.which(name)
            if found is None:
                sys.exit(f"wheels: --python {name} is no program; name an interpreter, such as /usr/bin/python3.12")
            with tempfile.TemporaryDirectory(prefix="annulet-wheels-") as scratch:
                place = Path(scratch)
                wheel_environments.make_environment(Path(found), place / "build", wheel_environments.build_packages())
                (place / "sources").mkdir()
                print(wheel_environments.build(place / "build", place / "sources", place / "dist"), end="", flush=True)
                for wheel in sorted((place / "dist").glob("annulet-*.whl")):
                    empty = place / wheel.stem
                    wheel_environments.make_environment(Path(found), empty, wheel_environments.needed("annulet"))
                    wheel_environments.install(empty, wheel)
                    mode = "pure Python" if wheel.name.endswith("-none-any.whl") else "compiled"
                    print(f"wheels: {name}: {wheel_check.check(empty, mode)}: served, published, consumed", flush=True)
                    shutil.copy2(wheel, target / wheel.name)
    except wheel_check.WheelError as error:
        sys.exit(f"wheels: {error}")


def main() -> None:
    """Build the wheels into the folder that the command line names."""
    parser = argparse.ArgumentParser(prog="wheels", description="Build the wheels of this Python, or of others.")
    parser.add_argument("target", nargs="?", default="dist", help="folder for the wheels; older ones in it are removed")
    parser.add_argument("--python", action="append", default=[], help="build and try those of this interpreter instead")
    given = parser.parse_args()
    target = Path(given.target).resolve()
    target.mkdir(parents=True, exist_ok=True)
    for old in target.glob("annulet-*.whl"):
        old.unlink()
    if given.python:
        build_for(given.python, target)
    else:
        pure = pure_wheel(target)
        many_linux(compiled_wheel(pure, target), target)
    for wheel in sorted(target.glob("annulet-*.whl")):
        print(f"{wheel.stat().st_size / 1e6:6.1f} MB  {wheel}", flush=True)


if __name__ == "__main__":
    main()
