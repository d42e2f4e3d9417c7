"""The expected final contents of every queue and file, computed from the source table alone with pandas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.demo.flights import priority_of, scheduled_of
from annulet.demo.topology import BOARD_ROWS, LEGS_CARRIER, SCHEDULE_CARRIER, VERY_LATE_MINUTES

if TYPE_CHECKING:
    import pandas as pd

LATE_MINUTES: Final = 15
"""A departure counts as late from this delay on: the definition of the US Department of Transportation."""

DELAY_COLUMNS: Final = ("origin", "hour", "departures", "cancelled", "delay_minutes", "delay_maximum", "late")
"""Columns of the delay statistics. All whole numbers, so that two ways of adding them up must agree exactly."""


def board_rows(frame: pd.DataFrame, origin: str, size: int = BOARD_ROWS) -> list[int]:
    """Return the rows a board must show: the last ``size`` departures of the origin, oldest first."""
    return [int(row) for row in frame.index[frame["origin"] == origin][-size:]]


def departures_from(frame: pd.DataFrame, origin: str) -> int:
    """Return how many departures an origin has."""
    return int((frame["origin"] == origin).sum())


def destinations_of(frame: pd.DataFrame, origin: str) -> int:
    """Return how many destinations an origin has."""
    return int(frame.loc[frame["origin"] == origin, "dest"].nunique())


def aircraft_rows(frame: pd.DataFrame) -> list[int]:
    """Return the rows of the last departure of each aircraft, and of every departure without a tail number."""
    without = frame["tailnum"].isna()
    last = ~frame["tailnum"].duplicated(keep="last")
    return [int(row) for row in frame.index[without | last]]


def late_rows(frame: pd.DataFrame) -> list[int]:
    """Return the rows of the very late departures: most hours of delay first, in publishing order within an hour."""
    late = frame[(frame["dep_delay"] >= VERY_LATE_MINUTES).fillna(value=False)]
    hours = late["dep_delay"].map(priority_of)
    return [int(row) for row in hours.sort_values(ascending=False, kind="stable").index]


def schedule_rows(frame: pd.DataFrame) -> list[int]:
    """Return the rows of one carrier by the time they were to leave, in publishing order where it is the same."""
    flights = frame[frame["carrier"] == SCHEDULE_CARRIER]
    scheduled = [scheduled_of(flight) for flight in flights.to_dict("records")]
    return [int(row) for _, row in sorted(zip(scheduled, flights.index, strict=True))]


def legs(frame: pd.DataFrame) -> dict[str, list[int]]:
    """Return the rows of each aircraft of one carrier in publishing order; those without a tail number are left out."""
    flights = frame[frame["carrier"] == LEGS_CARRIER]
    return {str(tail): [int(row) for row in rows.index] for tail, rows in flights.groupby("tailnum")}


def legs_count(frame: pd.DataFrame) -> int:
    """Return how many departures of ``legs`` there are, with a tail number or without."""
    return int((frame["carrier"] == LEGS_CARRIER).sum())


def partition_counts(frame: pd.DataFrame) -> dict[tuple[int, str], int]:
    """Return departures by month and origin: the rows of each Parquet partition."""
    counts = frame.groupby(["month", "origin"]).size()
    return {(int(month), str(origin)): int(count) for (month, origin), count in counts.items()}


def delays(frame: pd.DataFrame) -> dict[str, dict[str, int | str | None]]:
    """Return the statistics of each slot, an origin and a scheduled hour, in :data:`DELAY_COLUMNS`."""
    table = frame.assign(
        late=(frame["dep_delay"] >= LATE_MINUTES).fillna(value=False).astype(int), cancelled=frame["dep_delay"].isna()
    )
    grouped = table.groupby(["origin", "hour"], sort=True).agg(
        departures=("dep_delay", "count"),
        cancelled=("cancelled", "sum"),
        delay_minutes=("dep_delay", "sum"),
        delay_maximum=("dep_delay", "max"),
        late=("late", "sum"),
    )
    slots: dict[str, dict[str, int | str | None]] = {}
    for row in grouped.reset_index().to_dict("records"):
        maximum = row["delay_maximum"] if row["departures"] else None
        slots[slot_of(row["origin"], row["hour"])] = {
            "origin": str(row["origin"]),
            "hour": int(row["hour"]),
            "departures": int(row["departures"]),
            "cancelled": int(row["cancelled"]),
            "delay_minutes": int(row["delay_minutes"]),
            "delay_maximum": None if maximum is None else int(maximum),
            "late": int(row["late"]),
        }
    return slots


def slot_of(origin: str, hour: int) -> str:
    """Return the key of a slot, for example ``EWR-06``."""
    return f"{origin}-{hour:02d}"
