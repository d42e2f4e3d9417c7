"""What a test of another program gets from ``import annulet.testing``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import annulet
import annulet.testing


def test_the_names_of_the_package_are_there() -> None:
    for name in annulet.testing.__all__:
        assert getattr(annulet.testing, name).__module__.startswith("annulet.testing.")


def test_it_needs_neither_spark_nor_arrow_nor_a_test_framework() -> None:
    """A test of an AMQP application must not have to install a JVM."""
    script = (
        "import sys, annulet.testing\n"
        "print(*(name for name in ('pyspark', 'pyarrow', 'pandas', 'pytest', 'hypothesis') if name in sys.modules))"
    )
    source = Path(annulet.__file__).parents[1]
    finished = subprocess.run(
        [sys.executable, "-c", script], env={"PYTHONPATH": str(source)}, capture_output=True, text=True, check=True
    )
    assert finished.stdout.split() == []
