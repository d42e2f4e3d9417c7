"""The boards under other rules: their recorded event log replayed on Spark."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from annulet.demo.topology import BOARD_ROWS, ORIGINS, board
from annulet.spark.what_if.settings import Setting, setting_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TRIED_ORIGIN: Final = "LGA"
"""The origin with the fewest departures: its board is tried under other rules, all boards under their own."""

VIRTUAL_HOST: Final = "/"
"""Where the demonstration's queues are."""

DESTINATION: Final = "dest"
"""Property of a departure used as the key of one of the rules."""

LARGER_RING: Final = 10 * BOARD_ROWS

AS_IT_IS: Final = f"ring of {BOARD_ROWS}, as it is"
OTHER_RING: Final = f"ring of {LARGER_RING:,}"
BY_DESTINATION: Final = "last of each destination"

RULES: Final[Mapping[str, Setting]] = {
    # A board has no consumers, so the remaining messages are its final contents.
    AS_IT_IS: setting_of({"ring-size": BOARD_ROWS, "consumers": 0}),
    OTHER_RING: setting_of({"ring-size": LARGER_RING, "consumers": 0}),
    BY_DESTINATION: setting_of({"last-value-key": DESTINATION, "consumers": 0}),
}


@dataclass(frozen=True, slots=True)
class Trial:
    """Kept and dropped messages of one board under one rule."""

    board: str
    rule: str
    arrived: int
    kept: int
    dropped: dict[str, int] = field(default_factory=dict)  # by reason


def rules_of(origin: str) -> list[str]:
    """Return the rules that an origin's board is tried under, its own first."""
    return list(RULES) if origin == TRIED_ORIGIN else [AS_IT_IS]


def try_rules(spark: SparkSession, url: str, parquet: Path) -> list[Trial]:
    """Return every board under its rules, board by board, from the event log in the broker at ``url``.

    Events carry no message properties, so those of the archived departures in ``parquet`` are joined to them.
    """
    from annulet.spark.what_if.events import EVENT_QUEUE, arrivals_of_queue, read_events  # noqa: PLC0415 - and pyarrow
    from annulet.spark.what_if.running import run_settings  # noqa: PLC0415 - as above

    messages = spark.read.format("annulet").options(url=url, queue=EVENT_QUEUE, columns="position,queue,body").load()
    events = read_events(messages).where("event = 'accepted'").persist()
    properties = destinations(spark.read.parquet(str(parquet)))

    def tried(origin: str) -> list[Trial]:
        recording = arrivals_of_queue(events, board(origin), VIRTUAL_HOST)  # else Spark looks which there are
        if origin == TRIED_ORIGIN:
            recording = recording.drop("properties").join(properties, ["queue", "position"], "left")
        rules = rules_of(origin)
        results = run_settings(recording, [RULES[rule] for rule in rules])
        return [
            Trial(board(origin), rule, result.published, result.waiting, dict(result.losses))
            for rule, result in zip(rules, results, strict=True)
        ]

    try:
        events.count()  # before the boards need them in parallel
        with ThreadPoolExecutor(len(ORIGINS)) as pool:
            return [trial for trials in pool.map(tried, ORIGINS) for trial in trials]
    finally:
        events.unpersist()


def destinations(flights: DataFrame) -> DataFrame:
    """Return the property of each message of the tried board, by ``queue`` and ``position``.

    A board numbers its messages from 1, and they are the departures of its origin in publishing order.
    """
    from pyspark.sql import Window  # noqa: PLC0415
    from pyspark.sql import functions as f  # noqa: PLC0415

    return flights.where(f.col("origin") == TRIED_ORIGIN).select(
        f.lit(board(TRIED_ORIGIN)).alias("queue"),
        f.row_number().over(Window.partitionBy("origin").orderBy("row")).cast("long").alias("position"),
        f.create_map(f.lit(DESTINATION), DESTINATION).alias("properties"),
    )
