"""The package: it imports without Spark, a JVM or a broker."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import annulet
import annulet.spark
from annulet.spark.datasource import AnnuletDataSource


class Registry:
    """Stands in for ``SparkSession.dataSource``."""

    def __init__(self) -> None:
        self.registered: list[Any] = []

    @property
    def dataSource(self) -> Registry:  # noqa: N802 - Spark's name
        return self

    def register(self, source: type) -> None:
        self.registered.append(source)


def test_registering_names_the_data_source() -> None:
    registry = Registry()
    annulet.spark.register(registry)  # type: ignore[arg-type]
    (registered,) = registry.registered
    assert registered.name() == "annulet"
    assert isinstance(registered({"url": "annulet://guest:guest@127.0.0.1/", "queue": "q"}), AnnuletDataSource)


def test_importing_the_package_loads_neither_pyspark_nor_the_broker() -> None:
    script = (
        "import sys, annulet.spark\n"
        "print(*(name for name in ('pyspark', 'pyarrow', 'annulet.broker', 'annulet.store') if name in sys.modules))"
    )
    source = Path(annulet.__file__).parents[1]
    finished = subprocess.run(
        [sys.executable, "-c", script], env={"PYTHONPATH": str(source)}, capture_output=True, text=True, check=True
    )
    assert finished.stdout.split() == []
