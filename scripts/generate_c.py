"""Translates the hot modules to C with mypyc, a group of C files for each room. Run by scripts/compile_modules.py.

Usage: ``python -m scripts.generate_c REQUEST``, a JSON file with

- ``source``: the folder that the packages are in,
- ``target``: the folder for C files, and ``cache``: the one for mypy's cache,
- ``groups``: the modules of each group.

mypyc sees all modules at once and as one unit, so that it knows all subclasses of a class: a method that none of them
overrides is called directly, and a field that each constructor sets is read without a check. Only the C text is split:
each group becomes a library, which calls others through tables of their functions. Modules that are not compiled come
from mypy's cache when they have not changed; mypyc's own cache, which would leave out modules, is not used. Writes
``plan.json`` into ``target``: the C files of each group, and the files of mypyc's runtime that they need.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from pathlib import Path
from typing import Any

from mypy.build import BuildSource
from mypy.errors import CompileError
from mypy.fscache import FileSystemCache
from mypyc import build
from mypyc.codegen import emitmodule
from mypyc.common import RUNTIME_C_FILES
from mypyc.errors import Errors
from mypyc.irbuild.mapper import Mapper
from mypyc.options import CompilerOptions

PLAN = "plan.json"
"""What this program tells scripts/compile_modules.py about the C files that it wrote."""


def path_of(module: str) -> str:
    """Return the path of a module's source, relative as it is written into the C text."""
    return module.replace(".", os.sep) + ".py"


def options_for(target: Path) -> CompilerOptions:
    """Return mypyc's options: several libraries, and yet what only knowledge of all modules allows."""
    options = CompilerOptions(multi_file=True, separate=True, target_dir=str(target), include_runtime_files=False)
    options.global_opts = True
    return options


def translate(groups: dict[str, list[str]], target: Path) -> tuple[emitmodule.Groups, list[Any], list[str]]:
    """Translate the modules below the working folder; return groups, their C files, and what else has to be linked.

    Exits with mypy's or mypyc's report when a module has an error.
    """
    options = options_for(target)
    files = FileSystemCache()
    paths = [path_of(module) for modules in groups.values() for module in modules]
    sources, everything, checking = build.get_mypy_config(
        ["--strict", "--no-sqlite-cache", "--no-error-summary", *paths], None, options, files
    )
    together = build.construct_groups(sources, [(paths, "all")], True, None)
    parts: list[tuple[list[str], str | None]] = [
        ([path_of(module) for module in modules], name) for name, modules in groups.items()
    ]
    apart = build.construct_groups(sources, parts, True, None)
    try:
        checked = emitmodule.parse_and_typecheck(everything, checking, options, together, files)
    except CompileError as error:
        sys.exit("\n".join(error.messages))
    errors = Errors(checking)
    mapper = Mapper({source.module: name for members, name in apart for source in members})
    translated = emitmodule.compile_modules_to_ir(checked, mapper, options, errors)
    if errors.num_errors:
        sys.exit("\n".join(errors.new_messages()))
    texts = emitmodule.compile_ir_to_c(apart, translated, checked, mapper, options)
    needed = emitmodule.collect_source_dependencies(translated)
    return apart, [texts[name] for _, name in apart], [*RUNTIME_C_FILES, *sorted(one.path for one in needed)]


def write_all(groups: emitmodule.Groups, texts: list[Any], runtime: list[str], target: Path) -> None:
    """Write the C files and the plan, and remove files of earlier runs."""
    plan: dict[str, Any] = {"runtime": runtime, "groups": {}}
    written = {PLAN}
    for (members, name), contents in zip(groups, texts, strict=True):
        plan["groups"][name] = {"modules": module_names(members), "files": [file for file, _ in contents]}
        for file, text in contents:
            written.add(file)
            (target / file).write_text(text)
    for path in target.iterdir():
        if path.name not in written:
            path.unlink()
    (target / PLAN).write_text(json.dumps(plan))


def module_names(sources: list[BuildSource]) -> list[str]:
    """Return the names of a group's modules."""
    return [source.module for source in sources]


def main() -> None:
    """Carry out the request in the file that the command line names."""
    gc.disable()  # what this program makes is needed until its end
    request = json.loads(Path(sys.argv[1]).read_text())
    target, cache = Path(request["target"]), Path(request["cache"])
    for folder in (target, cache):
        folder.mkdir(parents=True, exist_ok=True)
    os.environ.update(MYPYPATH=request["source"], MYPY_CACHE_DIR=str(cache))
    os.chdir(request["source"])
    groups, texts, runtime = translate(request["groups"], target)
    write_all(groups, texts, runtime, target)
    sys.stdout.flush()
    os._exit(0)  # to free the trees of all modules one by one would take five seconds


if __name__ == "__main__":
    main()
