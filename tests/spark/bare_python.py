"""A Python that has PySpark and what that needs, and nothing of annulet."""

from __future__ import annotations

import sys
from pathlib import Path

import pyspark


def packages_without_annulet(folder: Path) -> Path:
    """Return a folder for ``PYTHONPATH``, beside ``-S``."""
    links = folder / "packages"
    links.mkdir()
    for path in Path(pyspark.__file__).parent.parent.iterdir():
        if path.suffix != ".pth" and "annulet" not in path.name:
            (links / path.name).symlink_to(path)
    return links


def interpreter(folder: Path, *, only_tasks: bool) -> Path:
    """Return a program for ``PYSPARK_PYTHON`` that has no annulet, or has none in tasks but where Spark plans."""
    links = packages_without_annulet(folder)
    wrapper = folder / "python"
    planning = f'case "$*" in *pyspark.worker*) ;; *) exec {sys.executable} "$@" ;; esac\n' if only_tasks else ""
    wrapper.write_text(f'#!/bin/sh\n{planning}PYTHONPATH="{links}:$PYTHONPATH" exec {sys.executable} -S "$@"\n')
    wrapper.chmod(0o755)
    return wrapper
