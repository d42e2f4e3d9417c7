"""The event log as rows, and what is worked out from it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from annulet.spark.what_if.settings import WhatIfError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Event = tuple[str, int, int, str]  # event, sequence, at, consumer


def messages_of(spark: SparkSession, *batches: dict[str, Any]) -> DataFrame:
    rows = [(number, "amq.events", json.dumps(batch).encode()) for number, batch in enumerate(batches, 1)]
    return spark.createDataFrame([*rows, (1, "orders", b"{}")], "position BIGINT, queue STRING, body BINARY")


def batch_of(queue: str, waiting: int, *events: Event, **fields: Any) -> dict[str, Any]:
    known = [{"event": event, "sequence": number, "at": at, "consumer": who} for event, number, at, who in events]
    return {
        "vhost": "/",
        "queue": queue,
        "waiting": waiting,
        "delivering": 0,
        "events": [{**one, **fields} for one in known],
    }


@pytest.mark.spark
def test_what_became_of_messages_and_how_consumers_worked(spark: SparkSession) -> None:
    from annulet.spark.what_if import events as log

    accepted = [("accepted", number, 1000 * number, "") for number in (1, 2, 3)]
    first = batch_of("q", 3, *accepted, size=7, priority=5)
    second = batch_of(
        "q", 1, ("delivered", 1, 4000, "a"), ("delivered", 2, 4000, "a"), ("acknowledged", 1, 4100, ""),
        ("returned", 2, 4150, ""), ("delivered", 2, 70_000, "b"),
    )  # fmt: skip
    third = batch_of("q", 0, ("acknowledged", 2, 70_400, ""), ("expired", 3, 70_400, ""))
    copies = batch_of("copied", 1, ("delivered", 1, 60_000, "a"), ("delivered", 1, 61_000, "b"))
    elsewhere = {**batch_of("copied", 4, ("accepted", 1, 60_000, "")), "vhost": "other"}
    purge = batch_of("purged", 0, ("purged", 0, 70_000, ""), count=500)
    events = log.read_events(messages_of(spark, first, second, third, purge, copies, elsewhere)).cache()

    copied, other, purged, queue = sorted(log.what_became(events), key=lambda row: (row["queue"], row["vhost"]))
    assert (other["vhost"], other["accepted"]) == ("other", 1)
    assert (purged["accepted"], purged["lost"], purged["dwell p50 ms"], purged["work p50 ms"]) == (0, 500, None, None)
    assert (copied["delivered"], copied["work p50 ms"]) == (2, None)
    assert {name: queue[name] for name in ("accepted", "delivered", "returned", "acknowledged", "lost")} == {
        "accepted": 3, "delivered": 3, "returned": 1, "acknowledged": 2, "lost": 1,
    }  # fmt: skip
    assert (queue["depth"], queue["consumers"]) == (3, 2)
    assert (queue["dwell p50 ms"], queue["dwell max ms"]) == (2000, 3000)
    times = {(row["consumer"], row["at"], row["work"]) for row in log.working_times(events).collect()}
    assert times == {("a", 4000, 100), ("a", 4000, 50), ("b", 70_000, 400)}  # the second after the first was done
    recorded = log.consumers_of(events, "q")
    assert (recorded.consumers, recorded.work[0], recorded.work[50], recorded.work[-1]) == (1, 50, 100, 400)
    with pytest.raises(WhatIfError, match="no delivery of queue 'purged' to a consumer is in the event log"):
        log.consumers_of(events, "purged")
    arrivals = log.arrivals_of_queue(events, "q").collect()
    assert [(row["position"], row["size"], row["priority"], row["expires_at"]) for row in arrivals] == [
        (number, 7, 5, None) for number in (1, 2, 3)
    ]
    for asked in (log.arrivals_of_queue, log.consumers_of):
        with pytest.raises(WhatIfError, match="'copied' is in several virtual hosts of the event log, '/', 'other'"):
            asked(events, "copied")
    assert log.arrivals_of_queue(events, "copied", "other").count() == 1
    assert log.arrivals_of_queue(events, "copied", "/").count() == 0
    assert log.depth_over_time(events, 2) == {
        "copied in other": [(35_701, 4)],
        "q": [(1000, 3), (35_701, 1)],
        "purged": [(35_701, 0)],
        "copied": [(35_701, 1)],
    }
    events.unpersist()
