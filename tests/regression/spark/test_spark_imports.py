"""A Python of Spark's that lacks what is needed says so (issue 30, C29)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from annulet import __version__
from annulet.spark import register
from tests.spark.bare_python import interpreter
from tests.spark.conftest import BrokerThread, broker, name  # noqa: F401 - fixtures

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@contextmanager
def python_of(spark: SparkSession, program: Path) -> Iterator[None]:
    """Have Spark's processes run a program."""
    before = spark.sparkContext.pythonExec
    spark.sparkContext.pythonExec = str(program)
    register(spark)
    try:
        yield
    finally:
        spark.sparkContext.pythonExec = before
        register(spark)


def test_a_python_without_annulet_is_told_first_with_the_remedy(spark: SparkSession, tmp_path: Path) -> None:
    """C29: it looked as if there were no such format."""
    with (
        python_of(spark, interpreter(tmp_path, only_tasks=False)),
        pytest.raises(Exception, match="PYTHON_DATA_SOURCE_ERROR") as caught,
    ):
        spark.read.format("annulet").options(url="annulet://guest:guest@127.0.0.1:1/", queue="q").load()
    first = str(caught.value).splitlines()[0]
    assert "annulet is not installed there. Install it for that Python on every machine" in first
    assert "DATA_SOURCE_NOT_FOUND" not in first


def test_an_executor_without_annulet_says_so_with_versions_and_remedy(
    spark: SparkSession,
    broker: BrokerThread,  # noqa: F811
    name: str,  # noqa: F811
    tmp_path: Path,
) -> None:
    """C29: tasks ended with a plain ModuleNotFoundError when only the driver's Python had annulet."""
    broker.declare(name)
    broker.publish(name, [b"kept"])
    rows = spark.sql("SELECT 'lost' AS body")

    def read() -> None:
        spark.read.format("annulet").options(url=broker.url, queue=name).load().collect()

    def write() -> None:
        rows.write.format("annulet").mode("append").options(url=broker.url, address=name).save()

    def reject() -> None:
        spark.range(1).selectExpr("id AS position").write.format("annulet").mode("append").options(
            url=broker.url, rejectFrom="lease"
        ).save()

    def stream(**options: str) -> Callable[[], None]:
        reading = spark.readStream.format("annulet").options(url=broker.url, queue=name, **options).load()
        place = str(tmp_path / f"checkpoint{len(options)}")
        writer = reading.writeStream.format("noop").option("checkpointLocation", place).trigger(availableNow=True)
        return lambda: writer.start().awaitTermination(120)

    with python_of(spark, interpreter(tmp_path, only_tasks=True)):
        for work in (read, write, reject, stream(), stream(nonDestructive="true")):
            with pytest.raises(Exception, match="annulet is not installed there") as caught:
                work()
            text = next(line for line in str(caught.value).splitlines() if "is not installed there" in line)
            assert "format annulet cannot be used by Spark's Python 3" in text
            assert f"planned by annulet {__version__})" in text
            assert f"pip install 'annulet[spark]=={__version__}'" in text
    assert broker.bodies(name) == [b"kept"]
