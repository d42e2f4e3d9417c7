"""Compiles the hot modules with mypyc into ``.setup/compiled``. Optional: without a compiler Annulet runs pure.

The list is ``[tool.annulet] compiled`` in pyproject.toml. The modules of a room are a group, which has C files and a
library of its own: after a change only C files whose text differs are compiled (scripts/c_build.py), and results are
kept outside the checkout (scripts/build_cache.py). The folder gets a manifest of the source hashes; ``annulet._build``
refuses a build whose sources have changed since, so an edited module is never shadowed by its old machine code.
Run with the Python of ``.venv``, as a module. Exit status 0 also when nothing could be compiled, with one line that
says so.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mypyc.build import include_dir
from mypyc.common import RUNTIME_C_FILES

from annulet import _build
from scripts.build_cache import BuildCache, folder_of_cache
from scripts.c_build import CBuild, CompileError

ROOT = Path(__file__).resolve().parent.parent

WORK = _build.FOLDER.parent / "mypyc"
"""C files, and mypy's cache of the modules that are not compiled."""

ROOM_DEPTH = 3
"""Packages in the name of a room: ``annulet.core.queue``. Modules directly in ``annulet.wire`` are another group."""


def hot_modules() -> list[str]:
    """Return the names of the modules to compile."""
    with (ROOT / "pyproject.toml").open("rb") as stream:
        document = tomllib.load(stream)
    return list(document["tool"]["annulet"]["compiled"])


def missing(modules: list[str]) -> list[str]:
    """Return the listed modules that have no source file."""
    return [name for name in modules if not _build.source_of(name).is_file()]


def groups_of(modules: list[str]) -> dict[str, list[str]]:
    """Return the modules of each room by the name of its library."""
    groups: dict[str, list[str]] = {}
    for module in sorted(modules):
        room = module.split(".")[:-1][:ROOM_DEPTH]
        groups.setdefault("_".join(room), []).append(module)
    return groups


def translate(groups: dict[str, list[str]], scratch: Path) -> None:
    """Write the C files of all groups. Raises CompileError."""
    request = scratch / "request.json"
    document = {"source": str(_build.SOURCE), "target": str(WORK / "c"), "cache": str(WORK / "cache"), "groups": groups}
    request.write_text(json.dumps(document))
    command = [sys.executable, "-m", "scripts.generate_c", str(request)]
    finished = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, text=True
    )
    if finished.returncode != 0:
        raise CompileError(finished.stdout or f"mypyc: exit status {finished.returncode}")


def build(modules: list[str], cache: BuildCache) -> int:
    """Replace the compiled build; return how many C files had to be compiled. Raises CompileError."""
    sources = {module: _build.digest_of(module) for module in modules}
    groups = groups_of(modules)
    with tempfile.TemporaryDirectory(prefix="annulet-compile-") as scratch, ThreadPoolExecutor(1) as beside:
        made = CBuild(WORK / "c", Path(include_dir()), Path(scratch), cache)
        runtime = beside.submit(made.make_runtime, RUNTIME_C_FILES)  # mypy uses one processor
        translate(groups, Path(scratch))
        runtime.result()
        plan = json.loads((WORK / "c" / "plan.json").read_text())
        libraries = made.libraries(plan, _build.SUFFIX)
        install({name: path for name, (path, _) in libraries.items()}, sources, groups)
    return made.compiled


def install(libraries: dict[str, Path], sources: dict[str, str], groups: dict[str, list[str]]) -> None:
    """Put libraries into place, and remove those of the build before the last one.

    Those of the last one stay: a process that runs on it may need another of its libraries yet. None is overwritten:
    a process that has loaded it would crash.
    """
    last = _build.manifest()
    _build.FOLDER.mkdir(parents=True, exist_ok=True)
    for path in libraries.values():
        new = _build.FOLDER / f"{path.name}.new"
        shutil.copy2(path, new)
        new.replace(_build.FOLDER / path.name)
    _build.write_manifest(
        {
            "sources": sources,
            "groups": {module: name for name, modules in groups.items() for module in modules},
            "libraries": {name: path.name for name, path in libraries.items()},
        }
    )
    kept = {path.name for path in libraries.values()} | {_build.MANIFEST.name}
    kept |= set(last["libraries"].values()) if last else set()
    for path in _build.FOLDER.iterdir():
        if path.name not in kept:
            path.unlink()


def main() -> None:
    """Compile when the sources or the Python changed; else do nothing."""
    modules = hot_modules()
    absent = missing(modules)
    if absent:
        sys.exit(f"setup: [tool.annulet] compiled names {', '.join(absent)} without a source file; correct the list")
    if _build.usable(modules):
        return
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None and shutil.which("cc") is None:
        shutil.rmtree(_build.FOLDER, ignore_errors=True)
        print("setup: no C compiler found: the hot modules run as pure Python", flush=True)
        return
    print(f"setup: compiling {len(modules)} hot modules with mypyc", flush=True)
    started = time.monotonic()
    cache = BuildCache(folder_of_cache())
    try:
        compiled = build(modules, cache)
    except CompileError as error:
        shutil.rmtree(_build.FOLDER, ignore_errors=True)
        report = _build.FOLDER.parent / "compile.log"
        report.parent.mkdir(exist_ok=True)
        report.write_text(str(error))
        print(f"setup: mypyc build failed ({report}): the hot modules run as pure Python", flush=True)
        return
    cache.trim()
    if cache.problem:
        print(f"setup: the cache of compiled files is not kept: {cache.problem}", flush=True)
    print(f"setup: compiled {compiled} C files after {time.monotonic() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
