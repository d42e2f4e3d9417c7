"""Puts what went wrong, and what to do, into the first line of what Spark says.

Spark makes its message of what a Python process tells of its exception: the whole traceback, with the text in its last
line, or the text alone where ``SPARK_HIDE_TRACEBACK`` is set (``pyspark.util.handle_worker_exception``, read in PySpark
4.3). So a process of Spark that ends with an error of ours sets it, and the traceback follows as a note. A Spark that
does not know the variable would begin with the traceback, as it does with everybody's errors.

Of what fails inside a task of a batch Spark tells the text in its second line, whatever it is (``PythonException`` of
PySpark 4.3 puts its own words and a line's end before it). A write has a way round it: a task that cannot be done says
so in the message it leaves for the commit, and the commit fails with that. A read has no such message.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from inspect import isgeneratorfunction
from types import FunctionType
from typing import Any, Final, TypeVar

from pyspark.sql.datasource import WriterCommitMessage

from annulet.bulk.errors import BulkError, decode_error, encode_error

HIDE_TRACEBACK: Final = "SPARK_HIDE_TRACEBACK"

Decorated = TypeVar("Decorated", bound=type)


class FailureMessage(WriterCommitMessage):
    """What a task of a batch write that failed tells the commit: the error, as it travels from a broker."""

    def __init__(self, error: BulkError) -> None:
        self.error = encode_error(error)


def raise_failure(messages: Sequence[WriterCommitMessage | None]) -> None:
    """Raise the error of the first task that failed, if one did. For the beginning of a commit."""
    for message in messages:
        if isinstance(message, FailureMessage):
            raise decode_error(message.error) or BulkError("a task of the write failed")


def told_first(cls: Decorated) -> Decorated:
    """Class decorator: a :class:`BulkError` that leaves the constructor or a public method is told first."""
    for name, member in list(vars(cls).items()):
        if isinstance(member, FunctionType) and (not name.startswith("_") or name == "__init__"):
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
