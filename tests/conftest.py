"""Fixtures shared by the whole suite."""

from __future__ import annotations

import gc
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cheap_passwords import use_cheap_passwords
from tests.databases import close_databases
from tests.hypothesis_profiles import load_profile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Of every Spark the suite starts. None of them runs long enough to earn back what the second compiler and a collector
in threads cost: a session that answers six small queries takes half the processor time without them."""

os.environ.setdefault("SPARK_SUBMIT_OPTS", JAVA_OPTIONS)
load_profile()
use_cheap_passwords()  # before test modules are imported: some take the hasher by its name


@pytest.fixture(autouse=True)
def _databases() -> Iterator[None]:
    """Close the databases in memory that a test opened."""
    yield
    close_databases()


SEED_VARIABLE = "ANNULET_TEST_SEED"


@pytest.fixture
def moments() -> random.Random:
    """Random moments. The seed is printed with a failing test; set ANNULET_TEST_SEED to repeat it."""
    seed = int(os.environ.get(SEED_VARIABLE, "0")) or random.SystemRandom().randrange(1, 1 << 32)
    print(f"{SEED_VARIABLE}={seed}")
    return random.Random(seed)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One Spark session for the whole run, because starting a JVM costs seconds."""
    from annulet.spark.session import local_session

    warehouse: Path = tmp_path_factory.mktemp("warehouse")
    session = local_session("annulet-tests", settings={"spark.sql.warehouse.dir": str(warehouse)})
    yield session
    session.stop()


SPARK_TIMEOUT_SECONDS = 300
"""A test that waits for a JVM takes a tenth of this on an idle machine; the suite's parts share its cores."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests with a real Spark more time than others, unless they say how much they need."""
    for item in items:
        if item.get_closest_marker("spark") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SPARK_TIMEOUT_SECONDS))


def pytest_collection_finish() -> None:
    """Keep the collector from going through what was collected: thousands of tests that live until the end.

    A tenth of the processor time of a part with thousands of short tests is that.
    """
    gc.collect()
    gc.freeze()
