"""Fixtures shared by the whole suite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cheap_passwords import use_cheap_passwords
from tests.hypothesis_profiles import load_profile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


load_profile()
use_cheap_passwords()  # before test modules are imported: some take the hasher by its name


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One Spark session for the whole run, because starting a JVM costs seconds."""
    from annulet.spark.session import local_session

    warehouse: Path = tmp_path_factory.mktemp("warehouse")
    session = local_session("annulet-tests", settings={"spark.sql.warehouse.dir": str(warehouse)})
    yield session
    session.stop()
