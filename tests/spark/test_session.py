from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from annulet.spark.session import local_session, local_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_session_has_the_documented_settings(spark: SparkSession) -> None:
    for key, value in local_settings().items():
        assert spark.conf.get(key) == value


@pytest.mark.spark
def test_python_workers_are_this_interpreter(spark: SparkSession) -> None:
    def executable(_: int) -> str:
        import sys as worker_sys

        return worker_sys.executable

    assert spark.sparkContext.parallelize([0, 1], 2).map(executable).distinct().collect() == [sys.executable]


@pytest.mark.spark
def test_a_running_session_is_returned(spark: SparkSession) -> None:
    assert local_session().sparkContext is spark.sparkContext


def test_shuffle_partitions_follow_the_cores() -> None:
    assert local_settings(cores=7)["spark.sql.shuffle.partitions"] == "7"
