from __future__ import annotations

from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import pandas as pd
import pytest

from annulet.demo import flights, pipelines
from annulet.demo.broker_process import BrokerProcess
from annulet.demo.publisher import publish
from annulet.demo.what_if import AS_IT_IS, BY_DESTINATION, OTHER_RING, TRIED_ORIGIN, Trial, try_rules

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_boards_are_replayed_from_the_event_log_with_the_properties_of_the_archive(
    spark: SparkSession, empty_queues: BrokerProcess, frame: pd.DataFrame, tmp_path: Path
) -> None:
    frame = pd.concat([frame, frame[frame["origin"] == "LGA"].assign(dest="BOS"), frame[frame["origin"] == "LGA"]])
    frame = frame.reset_index(drop=True)
    pipelines.register(spark)
    publish(empty_queues.address.parameters(), flights.messages(frame), stop=Event(), on_confirmed=lambda more: None)
    archive = frame.loc[::-1, ["origin", "dest"]].reset_index(names="row")
    archive.to_parquet(tmp_path / "archive.parquet")

    trials = try_rules(spark, empty_queues.address.bulk_url, tmp_path / "archive.parquet")

    assert trials == [
        Trial("board.EWR", AS_IT_IS, 3, 3),
        Trial("board.JFK", AS_IT_IS, 2, 2),
        Trial("board.LGA", AS_IT_IS, 3, 3),
        Trial("board.LGA", OTHER_RING, 3, 3),
        Trial("board.LGA", BY_DESTINATION, 3, 2, {"replaced-key": 1}),
    ]


def test_the_tried_board_has_the_fewest_departures(year: pd.DataFrame) -> None:
    assert year["origin"].value_counts().idxmin() == TRIED_ORIGIN
