"""An idle stream leaves the broker alone (issue 30, C30).

The work of the broker is counted instead of its time, which other processes change: its requests, and how long they
wait there. The figures of ``WAIT_MILLISECONDS`` say what one costs.
"""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from annulet.bulk.reading import waiting
from annulet.bulk.requests import RequestHandler
from annulet.spark.idling import WAIT_MILLISECONDS
from tests.spark.conftest import BrokerThread, broker, name  # noqa: F401 - fixtures

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SETTLE_SECONDS = 15.0
"""A guard for the first request that waits."""

WAITS = 3
"""Whole waits at the broker that are looked at."""


class Requests:
    """The requests that a broker was asked, and those it is working on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count: Counter[str] = Counter()
        self.waiting = 0
        self.waits = 0  # begun
        self.looks = 0  # at queues that are waited for
        for method in ("act", "rows", "check_stage"):
            monkeypatch.setattr(RequestHandler, method, self._counted(getattr(RequestHandler, method)))
        look = waiting._seen
        monkeypatch.setattr(waiting, "_seen", lambda queue: self._looked(look(queue)))

    def _looked(self, seen: tuple[int, int, bool]) -> tuple[int, int, bool]:
        self.looks += 1
        return seen

    def _counted(self, method: Any) -> Any:
        async def counted(handler: RequestHandler, request: Any, caller: Any) -> Any:
            self.count[type(request).__name__] += 1
            waits = bool(getattr(request, "wait_milliseconds", 0))
            self.waiting += waits
            self.waits += waits
            try:
                return await method(handler, request, caller)
            finally:
                self.waiting -= waits

        return counted


@pytest.mark.parametrize("destructive", [True, False], ids=["lease", "sequence numbers"])
def test_an_idle_stream_waits_at_the_broker_and_gets_what_comes(
    spark: SparkSession,
    broker: BrokerThread,  # noqa: F811
    name: str,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    destructive: bool,
) -> None:
    """C30: with Spark's default trigger the broker was asked a hundred times a second, 0.11 of a core."""
    requests = Requests(monkeypatch)
    broker.declare(name, arguments=None if destructive else {"x-non-destructive": True})
    broker.publish(name, [b"first"])
    options = {"url": broker.url, "queue": name, "nonDestructive": str(not destructive).lower()}
    stream = spark.readStream.format("annulet").options(**options).load().selectExpr("body")
    query = (
        stream.writeStream.format("parquet")
        .options(path=str(tmp_path / "out"), checkpointLocation=str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        query.processAllAvailable()
        first = requests.waits
        until(lambda: requests.waits > first + 1)  # it has found out that there is nothing more
        before, begun, looks, seen = requests.count.copy(), requests.waits, requests.looks, 0
        since = time.monotonic()
        samples = int(WAITS * WAIT_MILLISECONDS / 50)
        for _ in range(samples):
            time.sleep(0.05)
            seen += requests.waiting == 1
        asked, looks, seconds = requests.count - before, requests.looks - looks, time.monotonic() - since
        broker.publish(name, [b"second"])
        query.processAllAvailable()
    finally:
        query.stop()
    assert requests.waits - begun >= 1, "the stream asks on"
    assert asked.total() <= 2 * (seconds * 1000 / WAIT_MILLISECONDS + 1), f"two requests a wait: {asked}"
    assert WAIT_MILLISECONDS >= 2000, "with more requests an idle stream cost 0.0053 of a core"
    assert 0 < looks <= 2 * (seconds / waiting.LOOK_SECONDS + 1), "a look, and another at its end"
    assert seen >= 0.5 * samples, "most of the time one request waits at the broker"
    written = spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted(bytes(row.body) for row in written) == [b"first", b"second"]


def until(reached: Any) -> None:
    deadline = time.monotonic() + SETTLE_SECONDS
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.02)
