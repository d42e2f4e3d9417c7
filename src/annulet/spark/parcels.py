"""Pickles objects for Spark's executors as parcels: bytes, with the function that opens them.

Pickled the usual way they name modules of ``annulet``, and a Python that has none of these ends with a
``ModuleNotFoundError`` that says neither where nor what to do. A parcel holds them as bytes, and the function that
opens those by value, so that it runs in a Python that has nothing but PySpark and tells what is missing there.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

from pyspark import cloudpickle

import annulet
from annulet import __version__
from pyspark_annulet import source

ORIGIN: Final = Path(str(annulet.__file__)).parents[1]
ARCHIVE: Final = str(ORIGIN) if ORIGIN.is_file() else ""
"""Path of the archive that this process imports ``annulet`` from, as ``--py-files`` brings it; else empty."""

Given = TypeVar("Given")
Returned = TypeVar("Returned")


class Sealed:
    """A base of classes without ``__slots__`` whose objects are pickled as parcels."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how the object is made again."""
        content = pickle.dumps(Call(restored, type(self), vars(self)))
        return pickle.loads, (seal(content),)


class Call:
    """A call that is made by unpickling this, and has its result in place of it."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self._function = function
        self._arguments = arguments

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the call."""
        return self._function, self._arguments


def restored(kind: type, state: dict[str, Any]) -> Any:
    """Make an object of a class from its attributes."""
    made: Any = object.__new__(kind)
    vars(made).update(state)
    return made


def seal(content: bytes, version: str = __version__, archive: str = ARCHIVE) -> bytes:
    """Return the parcel of an object's pickle, made by a version of annulet: a pickle as well."""
    cloudpickle.register_pickle_by_value(source)  # type: ignore[no-untyped-call]
    try:
        return _dumped(Call(source.opened, content, version, archive))
    finally:
        cloudpickle.unregister_pickle_by_value(source)  # type: ignore[no-untyped-call]


def sealed_function(function: Callable[[Given], Returned]) -> Callable[[Given], Returned]:
    """Return a function that travels as a parcel. Spark takes no other callable object where it counts arguments."""
    parcel = seal(_dumped(function))

    def call(given: Given) -> Returned:
        inner: Callable[[Given], Returned] = pickle.loads(parcel)  # noqa: S301 - as all that Spark runs
        return inner(given)

    return call


def _dumped(value: object) -> bytes:
    pickled: bytes = cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    return pickled
