"""Running pipelines on the session and the broker that the Spark tests share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest

from annulet.spark.pipeline.definition import load
from annulet.spark.pipeline.progress import BatchReport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.conftest import BrokerThread


class Runner:
    """Writes a pipeline file and runs it; ``reports`` and ``shown`` are of the last run."""

    def __init__(self, spark: SparkSession, broker: BrokerThread, folder: Path) -> None:
        self.spark = spark
        self.broker = broker
        self.folder = folder
        self.reports: list[BatchReport] = []
        self.shown: list[str] = []

    def write(self, text: str) -> Path:
        file = self.folder / "pipe.toml"
        file.write_text(text)
        return file

    def run(self, text: str, stop: Callable[[BatchReport, Event], None] = lambda report, event: None) -> Any:
        from annulet.spark.pipeline.running import run

        definition = load(self.write(text), {"URL": self.broker.url})
        event = Event()
        self.reports, self.shown = [], []

        def report(batch: BatchReport) -> None:
            self.reports.append(batch)
            stop(batch, event)

        return run(self.spark, definition, stop=event, report=report, show=self.shown.append)


@pytest.fixture
def runner(spark: SparkSession, broker: BrokerThread, tmp_path: Path) -> Runner:
    return Runner(spark, broker, tmp_path)
