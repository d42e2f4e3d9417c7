"""Limits of a micro-batch."""

from __future__ import annotations

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, ReadMaxRows

from annulet.spark.limits import batch_limits
from annulet.spark.options import ReadOptions


@pytest.mark.parametrize(
    ("limit", "expected"),
    [(ReadMaxRows(3), (3, 20)), (ReadMaxBytes(4), (10, 4)), (ReadAllAvailable(), (-1, -1))],
    ids=["rows", "bytes", "all"],
)
def test_the_trigger_wins_over_the_option(limit: ReadLimit, expected: tuple[int, int]) -> None:
    given = {"url": "annulet://host", "queue": "q", "maxMessagesPerTrigger": "10", "maxBytesPerTrigger": "20"}
    assert batch_limits(ReadOptions.parse(given), limit) == expected
