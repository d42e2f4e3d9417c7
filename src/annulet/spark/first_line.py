"""Puts the error and its remedy into the first line of Spark's message.

Spark builds its message from a Python process's report of an exception: the whole traceback, with the text in its last
line, or only the text if ``SPARK_HIDE_TRACEBACK`` is set (``pyspark.util.handle_worker_exception``, read in PySpark
4.3). So a process of Spark that ends with an error of ours sets it, and the traceback follows as a note. A Spark
without this variable begins with the traceback, as for all errors.

For errors inside a task of a batch Spark puts the text into the second line in any case (``PythonException`` of PySpark
4.3 puts its own text and a line end before it). A write can avoid this: a failed task puts its error into its message
for the commit, and the commit fails with that. A read has no such message.
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

from annulet.bulk.protocol.errors import BulkError, decode_error, encode_error

HIDE_TRACEBACK: Final = "SPARK_HIDE_TRACEBACK"

Decorated = TypeVar("Decorated", bound=type)


class FailureMessage(WriterCommitMessage):
    """The message of a failed task of a batch write for the commit: the error in the form sent by a broker."""

    def __init__(self, error: BulkError) -> None:
        self.error = encode_error(error)


def raise_failure(messages: Sequence[WriterCommitMessage | None]) -> None:
    """Raise the error of the first task that failed, if one did. For the beginning of a commit."""
    for message in messages:
        if isinstance(message, FailureMessage):
            raise decode_error(message.error) or BulkError("a task of the write failed")


def told_first(cls: Decorated) -> Decorated:
    """Class decorator: a :class:`BulkError` that leaves the constructor or a public method is shown first."""
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
    """Return whether Spark started this process: in others, and their children, no traceback is hidden."""
    return getattr(sys.modules["__main__"].__spec__, "name", "").startswith("pyspark.")
