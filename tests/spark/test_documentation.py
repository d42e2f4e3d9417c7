"""Examples with Spark and without a broker work, and print what their pages say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGES = Path(__file__).resolve().parents[2] / "docs"
EXAMPLE = re.compile(
    r"<!-- test: spark without broker -->\s*```python\n(?P<code>.*?)```\s*```text\n(?P<output>.*?)```", re.DOTALL
)


@pytest.mark.spark
@pytest.mark.parametrize("page", ["spark-engine.md", "spark-operators.md"])
def test_the_example_prints_what_the_page_says(
    page: str, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    match = EXAMPLE.search((PAGES / page).read_text())
    assert match is not None
    exec(compile(match["code"], page, "exec"), {"spark": spark})
    assert capsys.readouterr().out == match["output"]
