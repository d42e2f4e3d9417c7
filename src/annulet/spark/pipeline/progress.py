"""The figures that queries report about their batches."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


@dataclass(frozen=True, slots=True)
class BatchReport:
    """One finished batch. ``backlog``: messages that wait behind it; ``lag_seconds``: for how long the oldest has.

    ``None`` if no source has them; of several sources the sum and the maximum.
    """

    query: str
    batch: int
    rows: int
    seconds: float
    backlog: int | None
    lag_seconds: float | None = None

    @property
    def rows_per_second(self) -> float:
        """Rows a second of the batch's own time."""
        return self.rows / self.seconds if self.seconds else 0.0

    def line(self) -> str:
        """Return the report as one line."""
        backlog = "" if self.backlog is None else f", backlog {self.backlog:,}"
        if self.lag_seconds is not None:
            backlog += f", lag {self.lag_seconds:,.1f} s"
        return (
            f"{self.query}: batch {self.batch}, {self.rows:,} rows, {self.rows_per_second:,.0f} rows/s{backlog}, "
            f"batch time {self.seconds:.1f} s"
        )


class Watch:
    """Gives each batch of a query that had rows once."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.last: BatchReport | None = None
        self.rows = 0
        self.batches = 0
        self._seen = -1

    def new(self, query: StreamingQuery) -> Iterator[BatchReport]:
        """Yield the batches since the last call."""
        for progress in query.recentProgress:
            document = json.loads(progress.json)
            if document["batchId"] <= self._seen or not document["numInputRows"]:
                continue
            self._seen = document["batchId"]
            self.last = report_of(self.name, document)
            self.rows += self.last.rows
            self.batches += 1
            yield self.last


def report_of(name: str, document: dict[str, Any]) -> BatchReport:
    """Read a progress report of Spark's, as its JSON."""
    backlogs = [backlog for source in document["sources"] if (backlog := backlog_of(source)) is not None]
    lags = [lag for source in document["sources"] if (lag := lag_of(source)) is not None]
    return BatchReport(
        query=name,
        batch=document["batchId"],
        rows=document["numInputRows"],
        seconds=document["durationMs"].get("triggerExecution", 0) / 1000,
        backlog=sum(backlogs) if backlogs else None,
        lag_seconds=max(lags, default=None),
    )


def backlog_of(source: dict[str, Any]) -> int | None:
    """Return how many messages a queue source has not been given yet; ``None`` for sources of other kinds."""
    latest, end = (_position(source.get(name)) for name in ("latestOffset", "endOffset"))
    return None if latest is None or end is None else max(0, latest - end)


def lag_of(source: dict[str, Any]) -> float | None:
    """Return for how many seconds the oldest message has waited that a leased queue source was not given yet.

    0.0 when none waits; ``None`` for other sources, and while the broker's disk does not tell.
    """
    lag = _fields(source.get("latestOffset")).get("lagMs")
    return None if lag is None else int(lag) / 1000


def _position(offset: Any) -> int | None:
    fields = _fields(offset)
    position = fields.get("pos", fields.get("sequence"))  # of a lease, or of a queue read non-destructively
    return None if position is None else int(position)


def _fields(offset: Any) -> dict[str, Any]:
    value = json.loads(offset) if isinstance(offset, str) else offset
    return value if isinstance(value, dict) else {}
