from __future__ import annotations

import pandas as pd

from annulet.demo import expected, flights


def test_a_board_shows_the_last_departures_oldest_first(frame: pd.DataFrame) -> None:
    assert expected.board_rows(frame, "EWR", 2) == [2, 4]
    assert expected.board_rows(frame, "EWR", 100) == [0, 2, 4]
    assert expected.departures_from(frame, "EWR") == 3


def test_aircraft_keeps_the_last_of_each_and_all_without_tail_number(frame: pd.DataFrame) -> None:
    assert expected.aircraft_rows(frame) == [1, 3, 4, 5]


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


def test_figures_of_the_real_table() -> None:
    frame = flights.load()

    assert frame["tailnum"].nunique() == 4043
    assert len(expected.aircraft_rows(frame)) == 4043 + 2512  # and those without a tail number
    assert sum(expected.partition_counts(frame).values()) == flights.TOTAL
    assert sum(slot["cancelled"] for slot in expected.delays(frame).values()) == 8255
