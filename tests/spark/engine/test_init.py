"""What the engine refuses when a query is planned."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from annulet.spark.engine import EngineError, engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_impossible_columns_and_options_are_refused_before_anything_runs(spark: SparkSession) -> None:
    commands = spark.createDataFrame([], "queue string, sequence bigint, command string, body binary")
    for wrong, message in (
        (commands.drop("sequence"), "column 'sequence' is missing; commands need it as bigint"),
        (commands.selectExpr("queue", "command", "'1' as sequence"), "column 'sequence' is string"),
        (commands.selectExpr("*", "1 as at"), "column 'at' is int; give a timestamp"),
        (commands.selectExpr("queue", "command", "sequence", "1 as body"), "column 'body' is int; cast it"),
    ):
        with pytest.raises(EngineError, match=message):
            engine(wrong)
    with pytest.raises(EngineError, match="shards=0; allowed are 1 to 1024"):
        engine(commands, shards=0)
    with pytest.raises(EngineError, match="initial is given, but the commands are a batch"):
        engine(commands, initial=commands.groupBy("queue"))
