"""The example of the page about operators works, and prints what the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).resolve().parents[3] / "docs" / "spark-operators.md"
EXAMPLE = re.compile(
    r"<!-- test: spark without broker -->\s*```python\n(?P<code>.*?)```\s*```text\n(?P<output>.*?)```", re.DOTALL
)


@pytest.mark.spark
def test_the_example_prints_what_the_page_says(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    match = EXAMPLE.search(PAGE.read_text())
    assert match is not None
    exec(compile(match["code"], str(PAGE), "exec"), {"spark": spark, "directory": str(tmp_path)})
    assert capsys.readouterr().out == match["output"]
