"""Many settings over one recording, on Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from annulet.spark.what_if.running import smallest
from annulet.spark.what_if.settings import WhatIfError, grid, parse_goal
from annulet.spark.what_if.simulation import Result, simulate
from annulet.spark.what_if.traffic import Arrival

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SETTINGS = grid({"rate": 20}, {"ring-size": [5, 50], "last-value-key": ["k", "none"]})


def recording(spark: SparkSession, rows: int) -> DataFrame:
    """Return archived messages, the latest first."""
    return spark.sql(
        "SELECT timestamp_millis(1700000000000 + id * 10) AS enqueued_at, 'q' AS queue, id AS position, "
        "if(id % 2 = 0, 9, null) AS priority, cast(null AS timestamp) AS expires_at, cast(null AS string) AS group_id, "
        "encode(repeat('x', cast(id AS int)), 'utf-8') AS body, map('k', cast(id % 3 AS string), 'n', null) "
        "AS properties "
        f"FROM range({rows}) ORDER BY id DESC"
    )


def test_the_smallest_setting_that_meets_a_goal() -> None:
    results = [Result(published=100, losses={"expired": lost}) for lost in (50, 30, 2, 1)]

    assert smallest(SETTINGS, results, parse_goal("loss <= 2%")) == (SETTINGS[2], results[2])
    assert smallest(SETTINGS, results, parse_goal("loss < 1%")) is None


@pytest.mark.spark
def test_tasks_of_spark_find_what_the_simulation_finds(spark: SparkSession) -> None:
    from annulet.spark.what_if.running import run_settings

    arrivals = [
        Arrival(
            at=1_700_000_000_000 + number * 10,
            size=number,
            priority=9 if number % 2 == 0 else 4,
            properties={"k": str(number % 3)},
        )
        for number in range(200)
    ]

    assert run_settings(recording(spark, 200), SETTINGS) == [simulate(setting, arrivals) for setting in SETTINGS]
    with pytest.raises(WhatIfError, match="0 messages are out of range, 1 to 5,000,000; choose by time"):
        run_settings(recording(spark, 0), SETTINGS)
    with pytest.raises(WhatIfError, match="0 settings are out of range"):
        run_settings(recording(spark, 1), [])
    with pytest.raises(WhatIfError, match="no column priority, properties; give archived messages"):
        run_settings(recording(spark, 1).drop("priority", "properties"), SETTINGS)
    for priority in (-1, 256):  # an octet of the core would not take it, in the middle of a task
        odd = recording(spark, 3).selectExpr("* EXCEPT (priority)", f"if(position = 1, {priority}, null) AS priority")
        with pytest.raises(WhatIfError, match="priorities of 1 messages are out of range, 0 to 255; null stands for"):
            run_settings(odd, SETTINGS)
