"""The three days that are part of the package are the first ones of the year, and their fate is pandas' answer too."""

from __future__ import annotations

import pandas as pd

from annulet.demo import expected, sample
from annulet.demo.topology import LATE, ORIGINS


def test_the_file_has_the_first_departures_of_the_year(year: pd.DataFrame) -> None:
    found = sample.load()
    assert len(found) == sample.TOTAL
    columns = [name for name in found[0] if name != "row"]
    wanted = year.head(sample.TOTAL)[columns].astype(object)
    assert [{name: flight[name] for name in columns} for flight in found] == wanted.where(wanted.notna(), None).to_dict(
        "records"
    )
    assert [flight["row"] for flight in found] == list(range(sample.TOTAL))


def test_a_limit_takes_the_first() -> None:
    assert sample.load(3) == sample.load()[:3]


def test_the_expected_fate_is_that_of_the_large_demonstration(year: pd.DataFrame) -> None:
    frame, flights = year.head(sample.TOTAL), sample.load()
    for origin in ORIGINS:
        assert sample.board_rows(flights, origin) == expected.board_rows(frame, origin)
    assert sample.aircraft_rows(flights) == expected.aircraft_rows(frame)
    assert sample.late_rows(flights) == expected.late_rows(frame)


def test_every_queue_of_the_small_run_is_one_of_the_large_one() -> None:
    declared = sample.queue_declarations()
    assert {queue.name for queue in declared} == sample.QUEUES
    (late,) = (queue for queue in declared if queue.name == LATE)
    assert late.arguments == {"x-priorities": 10, "x-selector": "JMSPriority >= 1"}
