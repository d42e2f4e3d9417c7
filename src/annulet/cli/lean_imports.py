"""Imports of a broker process without what libraries load only because it is installed."""

from __future__ import annotations

import contextlib
import gc
import sys
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

UNUSED_EXTRAS: Final = ("rich",)
"""Packages that a library of the broker uses if it finds them, and the broker does not: structlog draws tracebacks with
``rich``, which is here for the command line, and 4.6 MiB with pygments and attrs. The broker's log has plain ones."""


@contextlib.contextmanager
def hidden(*packages: str) -> Iterator[None]:
    """Have imports of the packages fail inside, as if they were not installed; those already imported stay."""
    modules: dict[str, Any] = sys.modules
    absent = [name for name in packages if name not in modules]
    for name in absent:
        modules[name] = None  # the import system's mark of a module that must not be found
    try:
        yield
    finally:
        for name in absent:
            del modules[name]


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Look for no cycles inside: imports leave hardly any, and the looks take an eighth of the time of a broker's."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
