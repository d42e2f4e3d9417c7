"""A local Spark session with the settings Annulet's sources, sinks and operators are tested with."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from annulet.spark.java import ensure_java
from annulet.spark.packages import require_packages
from annulet.spark.state_store import ROCKS_DB, SETTING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_CORES = 2
"""More partitions than cores only start more Python workers; two show every effect of parallel reading."""


def local_settings(cores: int = DEFAULT_CORES) -> dict[str, str]:
    """Return the settings of a local session, by Spark's names."""
    return {
        "spark.ui.enabled": "false",  # start-up time, and a port less
        "spark.ui.showConsoleProgress": "false",  # readable logs
        # Spark's default of 200 makes a micro-batch many times slower, and is frozen into a stateful checkpoint.
        "spark.sql.shuffle.partitions": str(cores),
        "spark.driver.host": "127.0.0.1",  # else Spark binds the outer interface
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",  # message timestamps are UTC; days must not depend on the machine
        "spark.sql.python.filterPushdown.enabled": "true",  # a source with filters refuses every read without it
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        SETTING: ROCKS_DB,  # required by transformWithState
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",  # smaller state commits
        "spark.python.worker.reuse": "true",  # the first use of a worker is far dearer than the next
    }


def local_session(
    name: str = "annulet", *, cores: int = DEFAULT_CORES, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """Return a local Spark session, made on first use; Java is found or provided without any action of the user.

    ``format("annulet")`` is registered with it.

    ``settings`` are added to :func:`local_settings` and win. A session that already runs in this process is returned,
    with its own start-up settings. Raises :class:`annulet.spark.java.JavaNotFoundError` without a usable Java, and
    ``ImportError`` without the packages of ``annulet[spark]``.
    """
    require_packages("a Spark session")
    from pyspark.sql import SparkSession  # noqa: PLC0415  (the broker runs without pyspark)

    from annulet.spark.datasource import register  # noqa: PLC0415  (as above)

    ensure_java()
    # Workers would start the python3 of the path, which need not have pyarrow; they must be this interpreter.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(f"local[{cores}]").appName(name)
    for key, value in {**local_settings(cores), **(settings or {})}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    register(session)
    return session
