"""Puts what went wrong, and what to do, into the first line of what Spark says.

Spark makes its message of what a Python process tells of its exception: the whole traceback, with the text in its last
line, or the text alone where ``SPARK_HIDE_TRACEBACK`` is set (``pyspark.util.handle_worker_exception``, read in PySpark
4.3). So a process of Spark that ends with an error of ours sets it, and the traceback follows as a note. A Spark that
does not know the variable would begin with the traceback, as it does with everybody's errors.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterator
from functools import wraps
from inspect import isgeneratorfunction
from types import FunctionType
from typing import Any, Final, TypeVar

from annulet.bulk.errors import BulkError

HIDE_TRACEBACK: Final = "SPARK_HIDE_TRACEBACK"

Decorated = TypeVar("Decorated", bound=type)


def told_first(cls: Decorated) -> Decorated:
    """Class decorator: :class:`BulkError` and what derives from it leave its public methods to be told first."""
    for name, member in list(vars(cls).items()):
        if isinstance(member, FunctionType) and not name.startswith("_"):
            setattr(cls, name, _telling(member))
    return cls


def _telling(method: Callable[..., Any]) -> Callable[..., Any]:
    if isgeneratorfunction(method):

        @wraps(method)
        def steps(*arguments: Any, **named: Any) -> Iterator[Any]:
            try:
                yield from method(*arguments, **named)
            except BulkError as error:
                _tell(error)
                raise

        return steps

    @wraps(method)
    def call(*arguments: Any, **named: Any) -> Any:
        try:
            return method(*arguments, **named)
        except BulkError as error:
            _tell(error)
            raise

    return call


def _tell(error: BulkError) -> None:
    """Have this process say the text before the traceback: it ends with the error."""
    if _is_of_spark() and HIDE_TRACEBACK not in os.environ:
        os.environ[HIDE_TRACEBACK] = "1"
        error.add_note("".join(traceback.format_exception(error)).rstrip())


def _is_of_spark() -> bool:
    """Say whether Spark started this process: in others, and in what they start, nobody's traceback is hidden."""
    return getattr(sys.modules["__main__"].__spec__, "name", "").startswith("pyspark.")
