"""The errors of a pipeline, and the one-line form of Spark's errors."""

from __future__ import annotations

import re
from typing import Final

OUR_ERROR: Final = re.compile(r"^(?:annulet\.[\w.]+|pyspark\.errors\.[\w.]+)\.(\w+): (.+)$", re.MULTILINE)
"""One of our exceptions, or PySpark's, in the traceback that Spark puts into its own message."""

PYTHON_ERROR: Final = re.compile(r"^(\w+(?:Error|Exception|Interrupt)): (.+)$", re.MULTILINE)
SPARK_CLASS: Final = re.compile(r"^\[[A-Z_0-9.]+\] *")
UNHELPFUL: Final = ("PythonException", "Py4JException", "PySparkRuntimeError", "StreamingQueryException")
TEXT_MAX: Final = 2000
"""Characters of a line: a whole query plan would hide the error."""


class PipelineError(Exception):
    """A pipeline cannot be run, or failed. The text's first line has the error and the remedy."""


class PipelineFileError(PipelineError):
    """The file is at fault: ``FILE:LINE: KEY: what; remedy``."""


class CheckpointError(PipelineError):
    """A checkpoint is damaged or belongs to another pipeline."""


def explain(error: BaseException) -> str:
    """Return the cause of an error of Spark in one line: our own text where there is one, without the traceback."""
    text = str(error).strip()
    for pattern in (OUR_ERROR, PYTHON_ERROR):
        found = [what.strip() for name, what in pattern.findall(text) if name not in UNHELPFUL]
        if found:
            return _shortened(found[-1])
    return _shortened(SPARK_CLASS.sub("", text.splitlines()[0]) if text else type(error).__name__)


def _shortened(text: str) -> str:
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]} ..."
