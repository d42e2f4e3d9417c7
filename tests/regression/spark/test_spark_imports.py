"""A Python of Spark's that lacks what is needed says so (issue 30, C29)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest

from annulet.spark import register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def bare_python(spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    """Spark's processes run a Python that has PySpark and what it needs, and nothing of annulet."""
    links = tmp_path / "packages"
    links.mkdir()
    for path in Path(pyspark.__file__).parent.parent.iterdir():
        if path.suffix != ".pth" and "annulet" not in path.name:
            (links / path.name).symlink_to(path)
    wrapper = tmp_path / "python"
    wrapper.write_text(f'#!/bin/sh\nPYTHONPATH="{links}:$PYTHONPATH" exec {sys.executable} -S "$@"\n')
    wrapper.chmod(0o755)
    before = spark.sparkContext.pythonExec
    spark.sparkContext.pythonExec = str(wrapper)
    register(spark)
    yield wrapper
    spark.sparkContext.pythonExec = before
    register(spark)


def test_a_python_without_annulet_is_told_first_with_the_remedy(spark: SparkSession, bare_python: Path) -> None:
    """C29: it looked as if there were no such format."""
    assert bare_python.exists()
    with pytest.raises(Exception, match="PYTHON_DATA_SOURCE_ERROR") as caught:
        spark.read.format("annulet").options(url="annulet://guest:guest@127.0.0.1:1/", queue="q").load()
    first = str(caught.value).splitlines()[0]
    assert "annulet is not installed there. Install it for that Python on every machine" in first
    assert "DATA_SOURCE_NOT_FOUND" not in first
