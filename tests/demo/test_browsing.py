from __future__ import annotations

from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import pandas as pd
import pytest

from annulet.demo import browsing, expected, flights, pipelines
from annulet.demo.broker_process import BrokerProcess
from annulet.demo.publisher import publish
from annulet.demo.reconciliation import accounts_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_browsing_shows_the_queue_and_takes_nothing(
    spark: SparkSession, empty_queues: BrokerProcess, frame: pd.DataFrame
) -> None:
    pipelines.register(spark)
    address = empty_queues.address
    publish(address.parameters(), flights.messages(frame), stop=Event(), on_confirmed=lambda more: None)

    board = browsing.browse_flights(spark, address.bulk_url, "board.EWR")
    aircraft = browsing.browse_flights(spark, address.bulk_url, "aircraft")

    assert list(board["row"]) == [0, 2, 4]
    assert sorted(aircraft["row"]) == expected.aircraft_rows(frame)
    accounts = accounts_of(empty_queues.get_json)
    assert (accounts["board.EWR"].kept, accounts["board.EWR"].acknowledged) == (3, 0)


def test_published_delays_are_replaced_and_read_back(
    spark: SparkSession, empty_queues: BrokerProcess, frame: pd.DataFrame
) -> None:
    pipelines.register(spark)
    url = empty_queues.address.bulk_url
    rows = list(expected.delays(frame).values())
    changed = spark.createDataFrame([{**row, "departures": 0} for row in rows], pipelines.DELAY_SCHEMA)

    publish_delays = pipelines.publish_delays(url)
    publish_delays(changed, 1)
    publish_delays(spark.createDataFrame(rows, pipelines.DELAY_SCHEMA), 2)
    publish_delays(changed, 1)  # a batch that is run again publishes nothing

    assert browsing.browse_delays(spark, url, "delays") == expected.delays(frame)
    assert accounts_of(empty_queues.get_json)["delays"].dropped == {"replaced-key": len(rows)}


def test_the_archive_is_read_in_publishing_order(spark: SparkSession, frame: pd.DataFrame, tmp_path: Path) -> None:
    parquet = tmp_path / "parquet"
    table = spark.createDataFrame([(5, 1, "EWR"), (2, 2, "JFK"), (9, 1, "EWR")], "row LONG, month INT, origin STRING")
    table.write.partitionBy("month", "origin").parquet(str(parquet))

    assert list(browsing.read_archive(spark, parquet)["row"]) == [2, 5, 9]
    assert browsing.partition_counts(spark, parquet) == {(1, "EWR"): 2, (2, "JFK"): 1}
