"""The format as Spark keeps it: a class that imports ``annulet`` when it is used, and says what is missing then.

:func:`annulet.spark.datasource.register` sends it to Spark's processes by value, so that it works, or explains, in a
Python that has nothing of ``annulet``. So does ``annulet.spark.parcels`` with :func:`opened`.
"""

from __future__ import annotations

import os
import pickle
import platform
import re
import sys
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSource


class DefaultSource(DataSource):
    """Makes ``annulet.spark.datasource.AnnuletDataSource``, or raises ``ImportError`` with versions and remedy."""

    def __new__(cls, options: dict[str, str]) -> Any:
        """Return the source itself."""
        try:
            from annulet.spark.datasource import AnnuletDataSource  # noqa: PLC0415 - see above
        except ImportError as error:
            # Spark's message begins with this text then, not with the traceback (annulet.spark.first_line).
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
            raise ImportError(explanation(error)) from error
        return AnnuletDataSource(options)

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "annulet"


def opened(content: bytes, planner: str, archive: str) -> Any:
    """Make the object of a parcel again, see ``annulet.spark.parcels``. Runs in Python processes of executors.

    ``planner`` is the version of annulet that packed it, ``archive`` the archive it was imported from, if it was:
    Spark 4.3 gives what ``--py-files`` names to executors and to the process that plans, but not to the one that runs
    the source of a stream on the same machine. Raises ``ImportError`` with versions and remedy.
    """
    if archive and find_spec("annulet") is None and Path(archive).is_file():
        sys.path.append(archive)
    try:
        return pickle.loads(content)  # noqa: S301 - what Spark runs comes to its executors in pickles
    except (ImportError, AttributeError) as error:
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"  # as above
        raise ImportError(explanation(error, planner)) from error


def explanation(error: Exception, planner: str = "") -> str:
    """Return what is missing in this Python, which versions it has, and the remedy.

    ``planner`` is the version of annulet that planned the query, if that was done in another process.
    """
    here = f"Python {platform.python_version()} ({sys.executable}, host {platform.node()})"
    planned = f" (the query was planned by annulet {planner})" if planner else ""
    try:
        version = metadata.version("annulet")
        required = metadata.requires("annulet") or []
    except metadata.PackageNotFoundError:
        pinned = f"=={planner}" if planner else ""
        return (
            f"format annulet cannot be used by Spark's {here}: {error}; annulet is not installed there{planned}. "
            f"Install it for that Python on every machine: pip install 'annulet[spark]{pinned}', or set PYSPARK_PYTHON "
            "to a Python that has it (--py-files brings it as a .zip, but not what it needs)"
        )
    of_spark = [text.partition(";")[0].strip() for text in required if re.search(r"extra == ['\"]spark['\"]", text)]
    always = [text.partition(";")[0].strip() for text in required if "extra ==" not in text]
    needed = of_spark + [need for need in always if installed(need) == "missing"]
    found = ", ".join(f"{need} ({installed(need)})" for need in needed)
    wanted = planner or version
    return (
        f"format annulet cannot be used by Spark's {here}: {error}. annulet {version}{planned} needs there: {found}. "
        f"Install them for that Python on every machine: pip install 'annulet[spark]=={wanted}', or set PYSPARK_PYTHON "
        "to a Python that has them"
    )


def installed(requirement: str) -> str:
    """Say which version of a required package is there."""
    name = re.match(r"[\w.-]+", requirement)
    try:
        return f"has {metadata.version(name[0])}" if name else "unknown"
    except metadata.PackageNotFoundError:
        return "missing"
