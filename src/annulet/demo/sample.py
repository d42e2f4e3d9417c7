"""The departures of the first three days of 2013, which are part of the package, as messages, and their expected fate.

The rows of ``departures.csv`` are the first of :func:`annulet.demo.flights.load`. This module needs no pandas.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from annulet.demo.flights import priority_of
from annulet.demo.topology import AIRCRAFT, BOARD_ROWS, LATE, ORIGINS, QueueDeclaration, board, declarations

FILE: Final = Path(__file__).parent / "departures.csv"

TOTAL: Final = 2_699
"""Departures in the file: 842, 943 and 914 of three days."""

NUMBERS: Final = frozenset({"year", "month", "day", "sched_dep_time", "dep_delay", "flight"})
"""Columns that are whole numbers; ``dep_delay`` is missing when the flight did not leave."""

QUEUES: Final = frozenset({*map(board, ORIGINS), AIRCRAFT, LATE})
"""The queues that three days fill; those for Spark and for several consumers are left out."""

LATE_SELECTOR: Final = {"x-selector": "JMSPriority >= 1"}
"""Admits departures late by an hour or more, as the selector on the delay does: properties of STOMP are no numbers."""

Flight = Mapping[str, Any]
"""A departure: ``None`` for a missing value, and its number in publishing order as ``row``."""


def load(limit: int | None = None) -> list[Flight]:
    """Return the departures, the first ``limit`` of them (``None``: all), numbered from 0."""
    with FILE.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return [{**_values(row), "row": number} for number, row in enumerate(rows[:limit])]


def _values(row: Mapping[str, str]) -> dict[str, Any]:
    return {name: (int(text) if name in NUMBERS else text) if text else None for name, text in row.items()}


def queue_declarations() -> list[QueueDeclaration]:
    """Return the queues of a small run, in the order of its tables."""
    chosen = [declaration for declaration in declarations() if declaration.name in QUEUES]
    return [
        replace(each, arguments={**each.arguments, **LATE_SELECTOR}) if each.name == LATE else each for each in chosen
    ]


def board_rows(flights: Sequence[Flight], origin: str) -> list[int]:
    """Return the rows that a board must show: the last departures of the origin, oldest first."""
    return [flight["row"] for flight in flights if flight["origin"] == origin][-BOARD_ROWS:]


def aircraft_rows(flights: Sequence[Flight]) -> list[int]:
    """Return the rows of the last departure of each aircraft, and of every departure without a tail number."""
    last = {flight["tailnum"] or flight["row"]: flight["row"] for flight in flights}
    return sorted(last.values())


def late_rows(flights: Sequence[Flight]) -> list[int]:
    """Return the rows of the departures late by an hour or more: most hours first, in publishing order within one."""
    late = [flight for flight in flights if priority_of(flight["dep_delay"]) > 0]
    return [flight["row"] for flight in sorted(late, key=lambda flight: -priority_of(flight["dep_delay"]))]
