"""Compiles the hot modules with mypyc into ``.setup/compiled``. Optional: without a compiler Annulet runs pure.

The list is ``[tool.annulet] compiled`` in pyproject.toml. All modules are compiled as one group, because calls between
compiled classes are direct, but into a C file each: one file of all of them costs the C compiler several times as
long and uses one core. The folder gets a manifest of the source hashes; ``annulet._build`` refuses a build whose
sources have changed since, so an edited module is never shadowed by its old machine code.
Run with the Python of ``.venv``. Exit status 0 also when nothing could be compiled, with one line that says so.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
sys.path.insert(0, str(SOURCE))
os.environ["ANNULET_PURE"] = "1"  # this process must never run on the build it replaces

from annulet import _build  # noqa: E402  (the path above has to come first)

# What runs in the scratch folder. setuptools compiles the files of an extension one after the other; `compile` is the
# method a compiler class may override as a whole.
SETUP_FILE = """
import functools
from concurrent.futures import ThreadPoolExecutor

from mypyc.build import mypycify
from setuptools import setup
from setuptools.command.build_ext import build_ext


def compile_side_by_side(compiler, sources, output_dir=None, macros=None, include_dirs=None, debug=0,
                         extra_preargs=None, extra_postargs=None, depends=None):
    macros, objects, extra, preprocessor, build = compiler._setup_compile(
        output_dir, macros, include_dirs, sources, depends, extra_postargs)
    arguments = compiler._get_cc_args(preprocessor, debug, extra_preargs)
    with ThreadPoolExecutor({jobs}) as pool:
        list(pool.map(lambda name: compiler._compile(name, *build[name], arguments, extra, preprocessor), build))
    return objects


class SideBySide(build_ext):
    def build_extensions(self):
        self.compiler.compile = functools.partial(compile_side_by_side, self.compiler)
        super().build_extensions()


extensions = mypycify({options!r}, opt_level="3", debug_level="0", group_name="annulet", multi_file=True)
setup(name="annulet-compiled", packages=[], py_modules=[], ext_modules=extensions, cmdclass={{"build_ext": SideBySide}})
"""


def hot_modules() -> list[str]:
    """Return the names of the modules to compile."""
    with (ROOT / "pyproject.toml").open("rb") as stream:
        document = tomllib.load(stream)
    return list(document["tool"]["annulet"]["compiled"])


def missing(modules: list[str]) -> list[str]:
    """Return the listed modules that have no source file."""
    return [name for name in modules if not _build.source_of(name).is_file()]


def compile_into(folder: Path, modules: list[str]) -> str:
    """Compile ``modules`` into ``folder``; return an empty string, or the compiler's output when it failed."""
    setup_file = folder / "setup.py"
    sources = [str(_build.source_of(name)) for name in modules]
    setup_file.write_text(SETUP_FILE.format(options=["--strict", *sources], jobs=os.cpu_count() or 1))
    command = [sys.executable, str(setup_file), "--quiet", "build_ext", "--build-lib", str(folder / "lib")]
    command += ["--build-temp", str(folder / "objects")]
    environment = {**os.environ, "MYPYPATH": str(SOURCE), "MYPY_CACHE_DIR": str(folder / "cache")}
    finished = subprocess.run(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, text=True
    )
    if finished.returncode != 0:
        return finished.stdout or f"exit status {finished.returncode}"
    return ""


def flatten(library: Path, target: Path) -> None:
    """Copy the built libraries to ``target`` under their full module names, which is how the finder looks them up."""
    for path in library.rglob(f"*{_build.SUFFIX}"):
        name = ".".join(path.relative_to(library).with_name(path.name.removesuffix(_build.SUFFIX)).parts)
        shutil.copy2(path, target / f"{name}{_build.SUFFIX}")


def build(modules: list[str]) -> str:
    """Replace the compiled build; return an empty string, or why there is none now."""
    digests = {module: _build.digest_of(module) for module in modules}
    with tempfile.TemporaryDirectory(prefix="annulet-compile-") as scratch:
        folder = Path(scratch)
        problem = compile_into(folder, modules)
        shutil.rmtree(_build.FOLDER, ignore_errors=True)
        if problem:
            return problem
        _build.FOLDER.mkdir(parents=True)
        flatten(folder / "lib", _build.FOLDER)
        _build.write_manifest(digests)
    return ""


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
    problem = build(modules)
    if problem:
        report = _build.FOLDER.parent / "compile.log"
        report.parent.mkdir(exist_ok=True)
        report.write_text(problem)
        print(f"setup: mypyc build failed ({report}): the hot modules run as pure Python", flush=True)
        return
    print(f"setup: compiled after {time.monotonic() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
