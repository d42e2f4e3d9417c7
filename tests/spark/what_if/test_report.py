"""Results as tables and pictures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from annulet.spark.what_if.report import LINES_MAX, label_of, rows_of, save_pictures, starvation_rows, table_text
from annulet.spark.what_if.settings import grid
from annulet.spark.what_if.simulation import simulate
from annulet.spark.what_if.traffic import Arrival

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BURST = [Arrival(at=1_700_000_000_000 + number, priority=number % 2) for number in range(10)]
SETTINGS = grid({"rate": 1}, {"ring-size": [2, 9]})
RESULTS = [simulate(setting, BURST) for setting in SETTINGS]


def test_a_row_has_what_was_varied_and_what_came_of_it() -> None:
    first, second = rows_of(SETTINGS, RESULTS)

    assert list(first)[:5] == ["ring-size", "published", "delivered", "waiting", "lost replaced-ring"]
    assert (first["ring-size"], first["lost replaced-ring"], first["loss %"], first["depth"]) == (2, 7, 70.0, 2)
    assert (second["lost replaced-ring"], second["delivered"]) == (0, 10)


def test_starvation_has_a_row_for_each_priority() -> None:
    rows = starvation_rows(SETTINGS, RESULTS)

    assert [(row["ring-size"], row["priority"], row["published"]) for row in rows] == [
        (2, 0, 5), (2, 1, 5), (9, 0, 5), (9, 1, 5),
    ]  # fmt: skip


def test_cells_are_text() -> None:
    assert table_text([{"a": 1234567, "b": 0.5, "c": None, "d": True}]) == [
        ["a", "b", "c", "d"],
        ["1,234,567", "0.5", "–", "True"],
    ]
    assert table_text([]) == []


def test_a_label_says_what_differs() -> None:
    assert label_of(SETTINGS[0], ["ring-size", "rate"]) == "ring-size 2, rate 1"


def test_pictures_are_saved_for_few_and_for_many_settings(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    many = grid({"rate": 1}, {"ring-size": list(range(1, LINES_MAX + 3))})

    files = save_pictures(tmp_path / "few", SETTINGS, RESULTS)
    files += save_pictures(tmp_path / "many", many, [simulate(setting, BURST) for setting in many])

    assert [file.name for file in files] == ["depth.png", "loss.png", "dwell.png"] * 2
    assert all(file.read_bytes().startswith(b"\x89PNG") for file in files)


@pytest.mark.spark
def test_what_happened_is_told_by_queue(spark: SparkSession) -> None:
    from annulet.spark.what_if.report import what_happened
    from annulet.spark.what_if.running import moment

    messages = spark.sql(
        "SELECT if(id < 3, 'a', 'b') AS queue, timestamp_millis(1700000000000 + id * 400) AS enqueued_at, "
        "encode(repeat('x', 10), 'utf-8') AS body, if(id = 0, 2L, 0L) AS delivery_count, 4 AS priority, "
        "cast(id AS string) AS group_id FROM range(10)"
    )
    first, second = what_happened(messages)

    assert (first["queue"], first["messages"], first["bytes"], first["came back"], first["groups"]) == (
        "a",
        3,
        30,
        1,
        3,
    )
    assert (first["first"], first["last"]) == (moment(1_700_000_000_000), moment(1_700_000_000_800)), "in UTC"
    assert (second["messages"], second["peak a second"], second["size p99"], second["priorities"]) == (7, 3, 10, 1)
