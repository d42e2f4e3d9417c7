from __future__ import annotations

import pandas as pd

from annulet.demo import expected, flights


def test_a_board_shows_the_last_departures_oldest_first(frame: pd.DataFrame) -> None:
    assert expected.board_rows(frame, "EWR", 2) == [2, 4]
    assert expected.board_rows(frame, "EWR", 100) == [0, 2, 4]
    assert expected.departures_from(frame, "EWR") == 3
    assert expected.destinations_of(frame, "EWR") == 1
    assert expected.destinations_of(frame.assign(dest=list("ABCDAA")), "EWR") == 2


def test_aircraft_keeps_the_last_of_each_and_all_without_tail_number(frame: pd.DataFrame) -> None:
    assert expected.aircraft_rows(frame) == [1, 3, 4, 5]


def test_late_goes_by_hours_of_delay_then_by_order(frame: pd.DataFrame) -> None:
    frame["dep_delay"] = pd.array([60, 59, 700, 540, 119, None], dtype="Int64")

    assert expected.late_rows(frame) == [2, 3, 0, 4]  # nine hours and more are one priority


def test_schedule_goes_by_scheduled_time_then_by_order(frame: pd.DataFrame) -> None:
    frame["carrier"] = ["AA", "AA", "AA", "DL", "AA", "AA"]

    assert expected.schedule_rows(frame) == [0, 2, 1, 4, 5]


def test_legs_are_the_flights_of_each_aircraft_in_order(frame: pd.DataFrame) -> None:
    frame["carrier"] = "DL"

    assert expected.legs(frame) == {"N1": [0, 2, 5], "N2": [1]}
    assert expected.legs_count(frame) == 6


def test_partitions_by_month_and_origin(frame: pd.DataFrame) -> None:
    assert expected.partition_counts(frame) == {
        (1, "EWR"): 2, (1, "JFK"): 1, (1, "LGA"): 1, (2, "EWR"): 1, (2, "JFK"): 1,
    }  # fmt: skip


def test_delays_add_up_with_cancelled_and_late_ones(frame: pd.DataFrame) -> None:
    slots = expected.delays(frame)

    assert set(slots) == {"EWR-06", "JFK-07", "LGA-06"}
    assert slots["EWR-06"] == {
        "origin": "EWR", "hour": 6, "departures": 3, "cancelled": 0, "delay_minutes": 31, "delay_maximum": 20,
        "late": 1,
    }  # fmt: skip
    assert slots["JFK-07"]["late"] == 1  # 15 minutes count, 14 do not
    assert slots["LGA-06"] == {
        "origin": "LGA", "hour": 6, "departures": 0, "cancelled": 1, "delay_minutes": 0, "delay_maximum": None,
        "late": 0,
    }  # fmt: skip


def test_figures_of_the_real_table(year: pd.DataFrame) -> None:
    assert year["tailnum"].nunique() == 4043
    assert len(expected.aircraft_rows(year)) == 4043 + 2512  # and those without a tail number
    assert sum(expected.partition_counts(year).values()) == flights.TOTAL
    assert sum(slot["cancelled"] for slot in expected.delays(year).values()) == 8255
