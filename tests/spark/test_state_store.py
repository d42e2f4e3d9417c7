"""Sessions whose state store streams with state cannot use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from annulet.spark.state_store import ROCKS_DB, SETTING, UNFIT, why_unfit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Session:
    """What is asked of a session."""

    def __init__(self, given: str = "") -> None:
        self.settings = {SETTING: given} if given else {}

    @property
    def conf(self) -> Session:
        return self

    def get(self, name: str, default: str) -> str:
        return self.settings.get(name, default)


def test_sparks_own_store_is_refused_with_the_setting() -> None:
    for session in (Session(), Session(given=f"org.apache.spark.sql.execution.streaming.state.{UNFIT}")):
        text = why_unfit(session)  # type: ignore[arg-type]
        assert f'spark.conf.set("{SETTING}", "{ROCKS_DB}")' in text
    assert why_unfit(Session(given=ROCKS_DB)) == ""  # type: ignore[arg-type]
    assert why_unfit(Session(given="com.example.Store")) == ""  # type: ignore[arg-type]


@pytest.mark.spark
def test_operators_and_the_engine_name_the_setting(spark: SparkSession) -> None:
    from annulet.spark.engine import engine
    from annulet.spark.engine.errors import EngineError
    from annulet.spark.operators import OperatorError, keep_last

    rows = spark.readStream.format("rate").load()
    messages = rows.selectExpr("value AS position", "'q' AS queue", "'k' AS key")
    commands = rows.selectExpr("value AS sequence", "'q' AS queue", "'send' AS command")
    spark.conf.set(SETTING, f"org.apache.spark.sql.execution.streaming.state.{UNFIT}")
    try:
        with pytest.raises(OperatorError, match="RocksDB"):
            messages.transform(keep_last(1, "key"))
        with pytest.raises(EngineError, match="RocksDB"):
            engine(commands)
    finally:
        spark.conf.set(SETTING, ROCKS_DB)
    messages.transform(keep_last(1, "key"))
    engine(commands)
