"""Compiles the C files of a plan (scripts/generate_c.py) and links a library for each group, with a cache of results.

What an object depends on is in its key: its C text and that of all generated headers that it includes, mypyc's runtime,
the compiler's version and options, and the Python's version and headers.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sysconfig
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any

from scripts.build_cache import BuildCache

INCLUDE = re.compile(r'^#include [<"]([^>"]+)[>"]', re.MULTILINE)

TUNED = (
    "-O1", "-freorder-blocks-and-partition", "-freorder-blocks-algorithm=stc", "-finline-small-functions",
    "-fpartial-inlining", "-fno-plt",
    # Passes of -O1 that take a seventh of its time and find little in such code: it has hardly any loops or arithmetic.
    "-fno-tree-loop-optimize", "-fno-move-loop-invariants", "-fno-branch-count-reg", "-fno-if-conversion",
    "-fno-if-conversion2", "-fno-tree-pta", "-fno-ipa-reference", "-fno-ipa-modref", "-fno-ipa-profile",
    "-fno-tree-slsr", "-fno-tree-sink", "-fno-tree-copy-prop",
)  # fmt: skip
"""For gcc: half of the compile time of -O2 (docs/decisions). mypyc's C is checks, calls and counts of references; it
gains by inlining and by code of errors that is out of the way, which ``-O1`` alone does not bring."""

PLAIN = ("-O2",)
"""For compilers that do not know the tuned options."""

OPTIONS = ("-fPIC", "-DNDEBUG", "-fwrapv", "-fcommon", "-fvisibility=hidden", "-w", "-g0")
"""``-fcommon``: each file of a group defines its copies of others' tables. Hidden symbols are called directly."""


PRECOMPILED_FILES_MIN = 4
"""C files of a group from which on its headers are compiled once for all: that takes as long as two files' reading."""


class CompileError(Exception):
    """The compiler or the linker failed; the text is its output."""


def run(command: list[str]) -> None:
    """Run a compiler. Raises CompileError with its output."""
    finished = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, text=True)
    if finished.returncode != 0:
        raise CompileError(f"{' '.join(command)}\n{finished.stdout or f'exit status {finished.returncode}'}")


def digest_of(*parts: str | bytes) -> str:
    """Return the hash of some texts, each with its length."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(b"%d:" % len(data) + data)
    return digest.hexdigest()


class Compiler:
    """The C compiler that the Python was built with, and its options."""

    def __init__(self, runtime: Path) -> None:
        self._compile = (sysconfig.get_config_var("CC") or "cc").split()
        self._link = (sysconfig.get_config_var("LDSHARED") or "cc -shared").split()
        self._more = os.environ.get("CFLAGS", "").split()
        self._includes = [sysconfig.get_path("include"), sysconfig.get_path("platinclude"), str(runtime)]
        self._includes += sorted(str(path) for path in runtime.iterdir() if path.is_dir())
        self._runtime = runtime

    @cached_property
    def identity(self) -> str:
        """Return a text that differs where the same C text may give another object or library."""
        version = subprocess.run([*self._compile, "-v"], capture_output=True, check=False, text=True).stderr
        library = [path.read_bytes() for path in sorted(self._runtime.rglob("*.[ch]"))]
        headers = Path(sysconfig.get_path("platinclude"), "pyconfig.h").read_bytes()
        python = (sysconfig.get_config_var("EXT_SUFFIX"), sysconfig.get_python_version())
        options = (*self._compile, *self.optimization, *OPTIONS, *self._more, *self._link)
        return digest_of(version, *library, headers, *map(str, python), *options)

    @cached_property
    def optimization(self) -> tuple[str, ...]:
        """Return the options that decide how fast the code is, and how long it takes to compile."""
        command = [*self._compile, *TUNED, "-Werror", "-x", "c", "-c", os.devnull, "-o", os.devnull]
        return TUNED if subprocess.run(command, capture_output=True, check=False).returncode == 0 else PLAIN

    @property
    def precompiles(self) -> bool:
        """Whether a compiled header beside the one that is named first is found, as gcc does."""
        return self.optimization == TUNED

    def compile(self, source: Path, target: Path, folder: Path, more: Iterable[str] = ()) -> None:
        """Compile a C file, with ``more`` options before its name. Raises CompileError."""
        includes = [f"-I{name}" for name in dict.fromkeys([*self._includes, str(folder)])]
        command = [*self._compile, *self.optimization, *OPTIONS, *self._more, *includes]
        run([*command, *more, "-c", str(source), "-o", str(target)])

    def link(self, objects: Iterable[Path], target: Path) -> None:
        """Link a library. Raises CompileError."""
        run([*self._link, *map(str, objects), "-o", str(target)])


class CBuild:
    """One build: the generated C files in ``folder``, objects and libraries in ``scratch``."""

    def __init__(self, folder: Path, runtime: Path, scratch: Path, cache: BuildCache) -> None:
        self.compiled = 0  # files that no entry of the cache was found for
        self._folder = folder
        self._runtime = runtime
        self._scratch = scratch
        self._cache = cache
        self._compiler = Compiler(runtime)
        self._headers: dict[str, set[str]] = {}
        self._texts: dict[str, str] = {}
        self._digests: dict[str, str] = {}

    def libraries(self, plan: dict[str, Any], suffix: str) -> dict[str, tuple[Path, str]]:
        """Return the library of each group with its digest. Raises CompileError."""
        sources = {
            name: [file for file in group["files"] if file.endswith(".c")] for name, group in plan["groups"].items()
        }
        objects = self._runtime_objects(plan["runtime"])
        runtime = list(objects.values())
        objects |= {self._folder / name: self._key_of(name) for files in sources.values() for name in files}
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            present = pool.map(self._restore, objects.values())
            missing = {path for path, found in zip(objects, present, strict=True) if not found}
            wide = {
                name: [self._folder / file for file in files]
                for name, files in sources.items()
                if self._compiler.precompiles
                and len(missing.intersection(self._folder / file for file in files)) >= PRECOMPILED_FILES_MIN
            }
            headers: dict[Path, Path] = {}
            for files, header in zip(wide.values(), pool.map(self._precompile, wide), strict=True):
                headers |= dict.fromkeys(files, header)
            largest_first = sorted(missing, key=lambda path: path.stat().st_size, reverse=True)
            list(pool.map(lambda path: self._compile(path, objects[path], headers.get(path)), largest_first))
            self.compiled += len(missing)
            made = pool.map(
                lambda name: self._library(
                    name, [*(objects[self._folder / file] for file in sources[name]), *runtime], suffix
                ),
                sources,
            )
            return dict(zip(sources, made, strict=True))

    def make_runtime(self, names: Iterable[str]) -> None:
        """Compile files of mypyc's runtime that are not there yet. Raises CompileError."""
        for path, key in self._runtime_objects(names).items():
            if not self._restore(key):
                self._compile(path, key, None)
                self.compiled += 1

    def _runtime_objects(self, names: Iterable[str]) -> dict[Path, str]:
        """Return the keys of the runtime's objects by their sources."""
        return {self._runtime / name: digest_of(self._compiler.identity, name) for name in names}

    def _precompile(self, group: str) -> Path:
        """Compile the header that all files of a group include; return a copy of it, beside which the result is."""
        name = f"__native_internal_{group}.h"
        header = self._scratch / name
        header.write_text(self._text(name))
        self._compiler.compile(self._folder / name, self._scratch / f"{name}.gch", self._folder, ["-x", "c-header"])
        return header

    def _restore(self, key: str) -> bool:
        """Fetch an object from the cache, unless this build has made it; return whether it is there."""
        if self._object(key).exists():
            return True
        content = self._cache.get(f"{key}.o")
        if content is not None:
            self._object(key).write_bytes(content)
        return content is not None

    def _compile(self, source: Path, key: str, header: Path | None) -> None:
        target = self._object(key)
        self._compiler.compile(source, target, self._folder, ["-include", str(header)] if header else [])
        self._cache.put(target.name, target.read_bytes())

    def _object(self, key: str) -> Path:
        return self._scratch / f"{key}.o"

    def _library(self, group: str, objects: list[str], suffix: str) -> tuple[Path, str]:
        key = digest_of(self._compiler.identity, group, *objects)
        target = self._scratch / f"{group}-{key}{suffix}"
        content = self._cache.get(f"{key}.library")
        if content is not None:
            target.write_bytes(content)
        else:
            self._compiler.link(map(self._object, objects), target)
            self._cache.put(f"{key}.library", target.read_bytes())
        return target, key

    # ------------------------------------------------------------------ keys

    def _key_of(self, name: str) -> str:
        """Return the key of a generated file's object."""
        return digest_of(self._compiler.identity, *(self._digest(file) for file in sorted(self._closure(name))))

    def _digest(self, name: str) -> str:
        if name not in self._digests:
            self._digests[name] = digest_of(name, self._text(name))
        return self._digests[name]

    def _text(self, name: str) -> str:
        if name not in self._texts:
            self._texts[name] = (self._folder / name).read_text()
        return self._texts[name]

    def _included(self, name: str) -> set[str]:
        """Return the generated headers that a file names; those of Python and of mypyc are in the identity."""
        if name not in self._headers:
            named = INCLUDE.findall(self._text(name))
            self._headers[name] = {one for one in named if (self._folder / one).is_file()}
        return self._headers[name]

    def _closure(self, name: str) -> set[str]:
        """Return a file with all generated headers that reach it."""
        found, left = {name}, [name]
        while left:
            more = self._included(left.pop()) - found
            found |= more
            left += more
        return found
