"""The packages of ``annulet[spark]``: what to install where they are missing."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

PACKAGES: Final = ("pyspark", "pyarrow")
"""Modules without which nothing runs on Spark; ``annulet.spark`` itself imports without them."""


def require_packages(purpose: str) -> None:
    """Raise ``ImportError`` in one line, with the command that installs them, where packages are missing."""
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise ImportError(f"{purpose} needs {' and '.join(missing)}; pip install 'annulet[spark]'")
