"""The archived event log: one event per row, the fate of each queue's messages, and the work of its consumers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from annulet.spark.what_if.settings import WhatIfError
from annulet.spark.what_if.simulation import DEPTH_POINTS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

EVENT_QUEUE: Final = "amq.events"
"""The queue, and the address, of archived messages that contain events."""

BATCH: Final = (
    "vhost STRING, queue STRING, waiting BIGINT, delivering BIGINT, events ARRAY<STRUCT<event: STRING, "
    "sequence: BIGINT, at: BIGINT, size: BIGINT, priority: INT, expires_at: BIGINT, consumer: STRING, count: BIGINT, "
    "successor: BIGINT>>"
)
"""Body of a message of the event log (docs/event-log.md)."""

NO_LOSSES: Final = ("accepted", "delivered", "returned", "reprioritised", "acknowledged", "moved", "dead-lettered")
"""Events after which a consumer has the message, or may get it."""

WORK_QUANTILES: Final = 101
"""Quantiles of recorded working times, 0 to 100 %: from which a model of a consumer draws."""


@dataclass(frozen=True, slots=True)
class RecordedConsumers:
    """How the consumers of a queue worked: how many in the busiest minute, and their times per message in ms."""

    consumers: int
    work: tuple[float, ...]  # quantiles, from the shortest to the longest


def read_events(messages: DataFrame) -> DataFrame:
    """Return one event per row, of archived or read messages; those without events are left out.

    Columns: ``vhost``, ``queue``, ``batch`` and ``number`` (their order), ``waiting`` and ``delivering`` (messages in
    the queue at the end of the batch), ``event``, ``sequence``, ``at``, ``size``, ``priority``, ``expires_at``,
    ``consumer``, ``count``. Times are milliseconds since 1970.
    """
    from pyspark.sql import functions as f  # noqa: PLC0415

    batches = messages.where(f.col("queue") == EVENT_QUEUE).select(
        f.col("position").alias("batch"), f.from_json(f.col("body").cast("string"), BATCH).alias("held")
    )
    events = batches.where("held IS NOT NULL").select(
        "held.vhost", "held.queue", "batch", "held.waiting", "held.delivering", f.posexplode("held.events")
    )
    return events.select(
        "vhost", "queue", "batch", f.col("pos").alias("number"), "waiting", "delivering",
        "col.event", "col.sequence", "col.at", "col.size", "col.priority",
        f.coalesce("col.expires_at", f.lit(0)).alias("expires_at"),
        f.coalesce("col.consumer", f.lit("")).alias("consumer"),
        f.coalesce("col.count", f.lit(1)).alias("count"),
    )  # fmt: skip


def what_became(events: DataFrame) -> list[dict[str, Any]]:
    """Return a row for each queue: accepted, delivered, returned and lost messages, depth, and durations.

    ``dwell`` is from acceptance to first delivery, ``work`` from delivery to settlement or return, in milliseconds.
    """
    from pyspark.sql import functions as f  # noqa: PLC0415

    place = ["vhost", "queue"]
    count = f.col("count")
    totals = events.groupBy(*place).agg(
        *[_total(count, f.col("event") == name).alias(name) for name in ("accepted", "delivered", "returned")],
        _total(count, f.col("event") == "acknowledged").alias("acknowledged"),
        _total(count, ~f.col("event").isin(*NO_LOSSES)).alias("lost"),
        f.max("waiting").alias("depth"),
        f.count_distinct(f.when(f.col("consumer") != "", f.col("consumer"))).alias("consumers"),
    )
    lives = events.where("sequence > 0").groupBy(*place, "sequence")
    dwell = lives.agg(
        (_first("delivered") - _first("accepted")).alias("dwell"),
    ).where("dwell >= 0")
    waited = dwell.groupBy(*place).agg(*_quantiles("dwell"))
    worked = working_times(events).groupBy(*place).agg(*_quantiles("work"))
    found = totals.join(waited, place, "left").join(worked, place, "left").orderBy(*place)
    return [row.asDict() for row in found.collect()]


def working_times(events: DataFrame) -> DataFrame:
    """Return the time each delivery took its consumer: ``vhost``, ``queue``, ``consumer``, ``at``, ``work`` in ms.

    A consumer with several messages works on one after the other: it begins a message when it is delivered, or when the
    previously settled one is done. Fetched and leased messages have no consumer, and are left out.
    """
    from pyspark.sql import Window  # noqa: PLC0415
    from pyspark.sql import functions as f  # noqa: PLC0415

    of_message = Window.partitionBy("vhost", "queue", "sequence").orderBy("batch", "number")
    of_consumer = Window.partitionBy("vhost", "queue", "consumer").orderBy("done_at", "batch", "number")
    before = of_consumer.rowsBetween(Window.unboundedPreceding, -1)
    deliveries = (
        events.where("sequence > 0")
        # Delivered again without a return is a copy for another reader, or the broker ended in between.
        .withColumn("done_at", f.when(f.lead("event").over(of_message) != "delivered", f.lead("at").over(of_message)))
        .where("event = 'delivered' AND consumer != '' AND done_at IS NOT NULL")
    )
    begun = f.greatest(f.col("at"), f.coalesce(f.max("done_at").over(before), f.col("at")))
    return deliveries.withColumn("work", f.col("done_at") - begun).select("vhost", "queue", "consumer", "at", "work")


def events_of_queue(events: DataFrame, queue: str, host: str = "") -> DataFrame:
    """Return the events of one queue, of virtual host ``host`` or else of the only one that has a queue of this name.

    Raises :class:`WhatIfError` when several have: their messages, numbered alike, would pass for one queue's.
    """
    from pyspark.sql import functions as f  # noqa: PLC0415

    found = events.where(f.col("queue") == queue)
    if host:
        return found.where(f.col("vhost") == host)
    hosts = sorted(row["vhost"] for row in found.select("vhost").distinct().collect())
    if len(hosts) > 1:
        raise WhatIfError(
            f"queue {queue!r} is in several virtual hosts of the event log, {', '.join(map(repr, hosts))}; name one "
            "(--vhost)"
        )
    return found


def consumers_of(events: DataFrame, queue: str, host: str = "") -> RecordedConsumers:
    """Return how the consumers of a queue worked; ``host`` as for :func:`events_of_queue`.

    Raises :class:`WhatIfError` when the log has none, or the queue is in several virtual hosts.
    """
    from pyspark.sql import functions as f  # noqa: PLC0415

    times = working_times(events_of_queue(events, queue, host))
    shares = [number / (WORK_QUANTILES - 1) for number in range(WORK_QUANTILES)]
    work = times.agg(f.percentile_approx("work", shares, 10_000).alias("work")).collect()[0]["work"]
    if work is None:
        raise WhatIfError(
            f"no delivery of queue {queue!r} to a consumer is in the event log; archive {EVENT_QUEUE!r}, and see that "
            "'event_queues' of the broker's configuration names the queue"
        )
    minutes = times.groupBy(f.floor(f.col("at") / 60_000)).agg(f.count_distinct("consumer").alias("consumers"))
    busiest = minutes.agg(f.max("consumers").alias("consumers")).collect()[0]["consumers"]
    return RecordedConsumers(int(busiest), tuple(float(value) for value in work))


def arrivals_of_queue(events: DataFrame, queue: str, host: str = "") -> DataFrame:
    """Return the accepted messages of a queue as a recording for :func:`~annulet.spark.what_if.running.run_settings`.

    ``host`` as for :func:`events_of_queue`, which raises the same. Events carry no headers and no groups, so keys and
    sort keys have nothing to go by.
    """
    from pyspark.sql import functions as f  # noqa: PLC0415

    return events_of_queue(events, queue, host).where(f.col("event") == "accepted").select(
        f.timestamp_millis("at").alias("enqueued_at"), "queue", f.col("sequence").alias("position"), "priority",
        f.when(f.col("expires_at") > 0, f.timestamp_millis("expires_at")).alias("expires_at"),
        f.lit(None).cast("string").alias("group_id"), "size",
        f.create_map().cast("map<string,string>").alias("properties"),
    )  # fmt: skip


def depth_over_time(events: DataFrame, points: int = DEPTH_POINTS) -> dict[str, list[tuple[int, int]]]:
    """Return by queue the deepest moment of each of up to ``points`` parts of the log's time, with its beginning.

    A queue of another virtual host than ``/`` is called ``queue in host``.
    """
    from pyspark.sql import functions as f  # noqa: PLC0415

    first, last = events.agg(f.min("at"), f.max("at")).collect()[0]
    if first is None:
        return {}
    step = max(1, (last - first) // points + 1)
    part = f.floor((f.col("at") - first) / step)
    parts = events.groupBy("vhost", "queue", part.alias("part")).agg(f.max("waiting").alias("depth"))
    rows = parts.orderBy("part").collect()
    depths: dict[str, list[tuple[int, int]]] = {}
    for row in rows:
        name = row["queue"] if row["vhost"] == "/" else f"{row['queue']} in {row['vhost']}"
        depths.setdefault(name, []).append((first + row["part"] * step, row["depth"]))
    return depths


def _total(count: Column, condition: Column) -> Column:
    from pyspark.sql import functions as f  # noqa: PLC0415

    return f.sum(f.when(condition, count).otherwise(0))


def _first(event: str) -> Column:
    from pyspark.sql import functions as f  # noqa: PLC0415

    return f.min(f.when(f.col("event") == event, f.col("at")))


def _quantiles(name: str) -> Sequence[Column]:
    from pyspark.sql import functions as f  # noqa: PLC0415

    shares = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    return [f.percentile_approx(name, share).alias(f"{name} {quantile} ms") for quantile, share in shares.items()]
