"""An idle stream leaves the broker alone (issue 30, C30)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from annulet.bulk.reading.leases import LeaseManager
from tests.spark.conftest import BrokerThread, broker, name  # noqa: F401 - fixtures

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

IDLE_SECONDS = 5


def test_an_idle_stream_waits_at_the_broker_and_gets_what_comes(
    spark: SparkSession,
    broker: BrokerThread,  # noqa: F811
    name: str,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """C30: with Spark's default trigger the broker was asked a hundred times a second, 0.11 of a core."""
    asked: list[float] = []
    extend = LeaseManager.extend

    async def counted(*arguments: Any, **named: Any) -> int:
        asked.append(time.monotonic())
        return await extend(*arguments, **named)

    monkeypatch.setattr(LeaseManager, "extend", counted)
    broker.declare(name)
    broker.publish(name, [b"first"])
    stream = spark.readStream.format("annulet").options(url=broker.url, queue=name).load().selectExpr("body")
    query = (
        stream.writeStream.format("parquet")
        .options(path=str(tmp_path / "out"), checkpointLocation=str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        query.processAllAvailable()
        time.sleep(1)  # it has found out that there is nothing more
        begun = time.monotonic()
        time.sleep(IDLE_SECONDS)
        idle = [at for at in asked if at >= begun]
        assert len(idle) <= 3 * IDLE_SECONDS, "once a second, and it was a hundred times"
        broker.publish(name, [b"second"])
        query.processAllAvailable()
    finally:
        query.stop()
    assert sorted(bytes(row.body) for row in spark.read.parquet(str(tmp_path / "out")).collect()) == [
        b"first",
        b"second",
    ]
