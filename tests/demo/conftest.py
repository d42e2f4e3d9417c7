"""A small table of departures with every case that matters: cancelled, early, late, without a tail number."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
import pika
import pytest

from annulet.demo import flights
from annulet.demo.broker_process import BrokerProcess
from annulet.demo.topology import declarations, declare

COLUMNS = [
    "year", "month", "day", "dep_time", "sched_dep_time", "dep_delay", "arr_time", "sched_arr_time", "arr_delay",
    "carrier", "flight", "tailnum", "origin", "dest", "air_time", "distance", "hour", "minute", "time_hour",
]  # fmt: skip


def departure(
    origin: str,
    tail_number: str | None,
    delay: int | None,
    *,
    month: int = 1,
    day: int = 1,
    hour: int = 6,
    flight: int = 1,
) -> list[object]:
    left = None if delay is None else hour * 100 + 30
    return [
        2013, month, day, left, hour * 100 + 15, delay, None if delay is None else 900, 855,
        None if delay is None else 5, "UA", flight, tail_number, origin, "IAH",
        None if delay is None else 120, 1400, hour, 15,
        "2013-01-01T11:00:00Z",
    ]  # fmt: skip


def table_of(rows: list[list[object]]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=COLUMNS)
    whole = ["dep_time", "dep_delay", "arr_time", "arr_delay", "air_time"]
    return frame.astype(dict.fromkeys(whole, "Int64"))


@pytest.fixture
def frame() -> pd.DataFrame:
    return table_of(
        [
            departure("EWR", "N1", -3),
            departure("JFK", "N2", 15, hour=7),
            departure("EWR", "N1", 20),
            departure("LGA", None, None),
            departure("EWR", None, 14, month=2),
            departure("JFK", "N1", 0, month=2, hour=7),
        ]
    )


@pytest.fixture(scope="session")
def year() -> pd.DataFrame:
    """Return all departures, read once: that takes two seconds of processor time. Nobody changes it."""
    return flights.load()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """Return a real broker with the demonstration's queues declared."""
    folder = tmp_path_factory.mktemp("demo")
    with BrokerProcess(folder / "data", folder / "broker.log") as process:
        process.wait_until_ready()
        declare(process.address)
        yield process


@pytest.fixture
def empty_queues(broker: BrokerProcess) -> BrokerProcess:
    """Return the broker with nothing in its queues, in a new life of each queue so that counters start at 0."""
    connection = pika.BlockingConnection(broker.address.parameters())
    channel = connection.channel()
    for declaration in declarations():
        channel.queue_delete(declaration.name)
    channel.queue_delete("amq.events")
    connection.close()
    declare(broker.address)
    return broker
