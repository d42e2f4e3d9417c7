"""Chooses between the compiled hot modules and their Python sources.

``make setup`` compiles the modules listed under ``[tool.annulet] compiled`` with mypyc into ``.setup/compiled`` beside
the source tree. Importing ``annulet`` puts a finder for them first on the import path, in every process: the broker,
the command line, Spark's Python workers. The sources are used instead when

- ``ANNULET_PURE=1`` is set in the environment,
- there is no build, or it was made by another Python version,
- a source has changed since it was compiled. Then all modules run pure: compiled modules rely on each other's layout.

The libraries lie in a folder of their own rather than beside the sources, where the import system would always prefer
them and neither a stale one nor ``ANNULET_PURE`` could be told apart.
"""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.util
import json
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType

SOURCE = Path(__file__).resolve().parent.parent
FOLDER = SOURCE.parent / ".setup" / "compiled"
MANIFEST = FOLDER / "manifest.json"
SUFFIX = importlib.machinery.EXTENSION_SUFFIXES[0]
"""Ends every library's name and contains the Python version and platform, so another Python finds no build."""

GROUP = "annulet__mypyc"
"""The library that holds the code of all modules; each module's own library is a stub that points into it."""


def source_of(module: str) -> Path:
    """Return the source file of a hot module."""
    return SOURCE.joinpath(*module.split(".")).with_suffix(".py")


def library_of(module: str) -> Path:
    """Return where the compiled library of a module lies when there is one."""
    return FOLDER / f"{module}{SUFFIX}"


def digest_of(module: str) -> str:
    """Return the hash of a module's source."""
    return hashlib.sha256(source_of(module).read_bytes()).hexdigest()


def write_manifest(digests: dict[str, str]) -> None:
    """Record the sources a build was made from. Called by scripts/compile_modules.py after a successful build.

    ``digests`` are from before it: sources edited in between make it a build of changed sources.
    """
    MANIFEST.write_text(json.dumps(digests, indent=1))


def manifest() -> dict[str, str]:
    """Return the recorded source hash by module; empty when there is no build."""
    try:
        document: dict[str, str] = json.loads(MANIFEST.read_text())
    except FileNotFoundError:
        return {}
    return document


def usable(modules: Iterable[str] | None = None) -> bool:
    """Whether a build fits the sources and this Python; with ``modules``, also whether it holds exactly these."""
    recorded = manifest()
    if not recorded or (modules is not None and set(recorded) != set(modules)):
        return False
    if not library_of(GROUP).is_file():
        return False
    return all(
        library_of(module).is_file() and source_of(module).is_file() and digest_of(module) == digest
        for module, digest in recorded.items()
    )


class CompiledFinder:
    """Finds the compiled hot modules; everything else is left to the ordinary finders."""

    def __init__(self, modules: Iterable[str]) -> None:
        self.modules = frozenset(modules) | {GROUP}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the specification of a compiled module, ``None`` for every other name."""
        del path, target  # the import system passes them; the full name says it all
        if fullname not in self.modules:
            return None
        location = str(library_of(fullname))
        loader = importlib.machinery.ExtensionFileLoader(fullname, location)
        return importlib.util.spec_from_file_location(fullname, location, loader=loader)


def activate() -> None:
    """Make the compiled modules importable when they may be used. Safe to call more than once."""
    if os.environ.get("ANNULET_PURE", "0") not in {"", "0"} or compiled() or not usable():
        return
    sys.meta_path.insert(0, CompiledFinder(manifest()))


def compiled() -> bool:
    """Whether this process uses the compiled hot modules."""
    return any(isinstance(finder, CompiledFinder) for finder in sys.meta_path)
