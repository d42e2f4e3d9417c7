"""Databases in memory for unit tests, closed when the test is over: Python 3.13 warns of each that is not."""

from __future__ import annotations

from typing import Final

from annulet.store.database.catalogue import Catalogue
from annulet.store.database.history import History

_OPENED: Final[list[Catalogue | History]] = []


def memory_catalogue() -> Catalogue:
    """Return an empty catalogue."""
    _OPENED.append(made := Catalogue(":memory:"))
    return made


def memory_history() -> History:
    """Return an empty history."""
    _OPENED.append(made := History(":memory:"))
    return made


def close_databases() -> None:
    """Close all that the test has opened."""
    while _OPENED:
        _OPENED.pop().close()
