"""Chooses between the compiled hot modules and their Python sources.

``make setup`` compiles the modules listed under ``[tool.annulet] compiled`` with mypyc into ``.setup/compiled`` beside
the source tree: one library for the modules of a room. A wheel for one Python version and platform has the same
libraries in ``annulet/_compiled``. Importing ``annulet`` puts a finder for them first on the import
path, in every process: the broker, the command line, Spark's Python workers. The sources are used instead when

- ``ANNULET_PURE=1`` is set in the environment,
- there is no build, or it was made by another Python version,
- a source has changed since it was compiled. Then all modules run pure: compiled modules rely on each other's layout.

The libraries lie in a folder of their own rather than beside the sources, where the import system would always prefer
them and neither a stale one nor ``ANNULET_PURE`` could be told apart. Their names contain what they were made from, so
a process that started before a new build keeps to the libraries of its own.
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
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from importlib.abc import Loader
else:
    Loader = object  # importlib.abc brings tempfile and three decompressors into every process, for nothing at run time

SOURCE = Path(__file__).resolve().parent.parent
IN_WHEEL = Path(__file__).resolve().parent / "_compiled"
FOLDER = IN_WHEEL if IN_WHEEL.is_dir() else SOURCE.parent / ".setup" / "compiled"
MANIFEST = FOLDER / "manifest.json"
SUFFIX = importlib.machinery.EXTENSION_SUFFIXES[0]
"""Ends every library's name and contains the Python version and platform, so another Python finds no build."""

GROUP_SUFFIX = "__mypyc"
"""Ends the module name of a group's library: mypyc names the function that starts it so."""


class Manifest(TypedDict):
    """What a build consists of: ``sources`` has the hash of each module's source, ``groups`` the module's group."""

    sources: dict[str, str]
    groups: dict[str, str]
    libraries: dict[str, str]  # the file of each group's library


def source_of(module: str) -> Path:
    """Return the source file of a hot module."""
    return SOURCE.joinpath(*module.split(".")).with_suffix(".py")


def digest_of(module: str) -> str:
    """Return the hash of a module's source."""
    return hashlib.sha256(source_of(module).read_bytes()).hexdigest()


def write_manifest(found: Manifest) -> None:
    """Record a build, whose libraries are in place. Called by scripts/compile_modules.py.

    Its hashes are from before the build: sources edited in between make it a build of changed sources.
    """
    new = MANIFEST.with_suffix(".new")
    new.write_text(json.dumps(found, indent=1))
    new.replace(MANIFEST)


def manifest() -> Manifest | None:
    """Return the recorded build, ``None`` when there is none or its record has another form."""
    try:
        document: Manifest = json.loads(MANIFEST.read_text())
    except FileNotFoundError:
        return None
    return document if Manifest.__required_keys__ <= document.keys() else None


def usable(modules: Iterable[str] | None = None) -> bool:
    """Whether a build fits the sources and this Python; with ``modules``, also whether it holds exactly these."""
    found = manifest()
    return found is not None and fits(found, modules)


def fits(found: Manifest, modules: Iterable[str] | None = None) -> bool:
    """Whether a recorded build fits the sources and this Python, see :func:`usable`."""
    if modules is not None and set(found["sources"]) != set(modules):
        return False
    if importlib.util.find_spec("_ctypes") is None:
        return False
    libraries = found["libraries"].values()
    if not all(name.endswith(SUFFIX) and (FOLDER / name).is_file() for name in libraries):
        return False
    return all(
        source_of(module).is_file() and digest_of(module) == digest for module, digest in found["sources"].items()
    )


class GroupLoader(Loader):
    """Starts compiled modules, which is a matter of their group's library."""

    def __init__(self, library: str) -> None:
        self._library = library  # its name as a module

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """Load the library, have it look up the libraries that it calls, and run the module."""
        import ctypes  # noqa: PLC0415  (a pure process does without)

        library = importlib.import_module(self._library)
        pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
        pointer_of.argtypes, pointer_of.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p

        def function(name: str, result: Any) -> Any:
            address = pointer_of(getattr(library, name), f"{self._library}.{name}".encode())
            return ctypes.PYFUNCTYPE(result)(address)

        function("ensure_deps", ctypes.c_int)()  # an exception in it is raised here
        module: ModuleType = function("init_" + spec.name.replace(".", "___"), ctypes.py_object)()
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: the module has run when it was made."""


class CompiledFinder:
    """Finds the compiled hot modules; everything else is left to the ordinary finders."""

    def __init__(self, found: Manifest) -> None:
        self._groups = {module: name + GROUP_SUFFIX for module, name in found["groups"].items()}
        self._libraries = {name + GROUP_SUFFIX: str(FOLDER / file) for name, file in found["libraries"].items()}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the specification of a compiled module or a library, ``None`` for every other name."""
        del path, target  # the import system passes them; the full name says it all
        group = self._groups.get(fullname)
        if group is not None:
            origin = self._libraries[group]
            return importlib.machinery.ModuleSpec(fullname, GroupLoader(group), origin=origin)
        location = self._libraries.get(fullname)
        if location is None:
            return None
        loader = importlib.machinery.ExtensionFileLoader(fullname, location)
        return importlib.util.spec_from_file_location(fullname, location, loader=loader)


def activate() -> None:
    """Make the compiled modules importable when they may be used. Safe to call more than once."""
    if os.environ.get("ANNULET_PURE", "0") not in {"", "0"} or compiled():
        return
    found = manifest()
    if found is not None and fits(found):
        sys.meta_path.insert(0, CompiledFinder(found))


def compiled() -> bool:
    """Whether this process uses the compiled hot modules."""
    return any(isinstance(finder, CompiledFinder) for finder in sys.meta_path)
