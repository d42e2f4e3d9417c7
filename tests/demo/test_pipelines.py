from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pandas as pd
import pytest

from annulet.demo import expected, flights, pipelines

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def messages(spark: SparkSession, frame: pd.DataFrame) -> DataFrame:
    rows = [(str(message.row), bytearray(message.body)) for message in flights.messages(frame)]
    return spark.createDataFrame(rows, "message_id STRING, body BINARY")


def test_flights_come_back_as_they_were(messages: DataFrame, frame: pd.DataFrame) -> None:
    rows = pipelines.flights_of(messages).orderBy("row").collect()

    assert [row["row"] for row in rows] == list(frame.index)
    assert rows[0]["dep_delay"] == -3
    assert rows[3]["tailnum"] is None
    assert set(rows[0].asDict()) == {"row", *frame.columns}


def test_spark_and_pandas_agree_on_the_delays(messages: DataFrame, frame: pd.DataFrame) -> None:
    rows = pipelines.delays_of(pipelines.flights_of(messages)).collect()

    found = {expected.slot_of(row["origin"], row["hour"]): row.asDict() for row in rows}
    assert found == expected.delays(frame)


def test_delay_messages_have_the_slot_as_key_and_nulls_in_the_body(messages: DataFrame) -> None:
    delays = pipelines.delays_of(pipelines.flights_of(messages))

    rows = {row["message_id"]: row for row in pipelines.delay_messages(delays).collect()}

    assert rows["LGA-06"]["properties"] == {"slot": "LGA-06"}
    assert json.loads(rows["LGA-06"]["body"]) == {
        "origin": "LGA", "hour": 6, "departures": 0, "cancelled": 1, "delay_minutes": 0, "delay_maximum": None,
        "late": 0,
    }  # fmt: skip
