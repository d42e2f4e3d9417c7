"""Operators over a batch, beside the broker's core with the same traffic."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import pytest

from annulet.core.base.settings import EVICTION_RULES, LEAST_RECENT_KEY
from annulet.spark.operators import (
    Operator,
    OperatorError,
    combine,
    deduplicate,
    expire,
    keep_last,
    last_value,
    overflow,
    prioritise,
    ring,
    sort_by,
    survivors,
)
from annulet.spark.operators.rules import path_dependence
from tests.spark.operators.differential import COLUMNS, core_survivors, table_of, traffic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

SEED = 20
CHOSEN: dict[str, Operator] = {
    "last value": last_value("key"),
    "last two and a ring": combine(keep_last(2, "key"), ring(5)),
    "ring": ring(4),
    **{f"ring {rule}": ring(5, evict=rule) for rule in EVICTION_RULES if rule != LEAST_RECENT_KEY},
    "priority ring": combine(prioritise(3), ring(6)),
    "length": overflow("ring", max_length=7),
    "bytes": combine(overflow("ring", max_bytes=50, max_length=20), ring(9)),
    "reject": overflow("reject", max_length=5),
    "expire": expire(message_ttl=300, min_ttl=10),
    "key and expire": combine(keep_last(2, "key"), expire()),
    "first of each id": combine(deduplicate(None), last_value("key")),
}
"""Left by window functions."""
REPLAYED: dict[str, Operator] = {
    "window of ids": deduplicate(5),
    "reject bytes": overflow("reject", max_bytes=60),
    "priority, key, ring": combine(prioritise(max_priority=5), keep_last(2, "key"), ring(5)),
    "least recent key": combine(keep_last(2, "key"), ring(6, evict=LEAST_RECENT_KEY), expire(max_ttl=400)),
}
"""Left by a replay."""


@pytest.fixture(scope="module")
def sent(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(table_of(traffic(SEED, 300))).cache()


def test_operators_leave_what_the_core_keeps(sent: DataFrame) -> None:
    operators = CHOSEN | REPLAYED
    assert [name for name, operator in operators.items() if path_dependence(operator.rules)] == list(REPLAYED)
    left = [
        sent.transform(combine(operator, columns=COLUMNS)).selectExpr(f"'{name}' as name", "queue", "number")
        for name, operator in operators.items()
    ]
    rows = reduce(lambda all_rows, more: all_rows.union(more), left).collect()
    messages = traffic(SEED, 300)
    for name, operator in operators.items():
        found: dict[str, list[int]] = {}
        for row in rows:
            if row.name == name:
                found.setdefault(row.queue, []).append(row.number)
        expected = core_survivors(operator, messages)
        assert {queue: sorted(numbers) for queue, numbers in found.items()} == {
            queue: sorted(numbers) for queue, numbers in expected.items() if numbers
        }, name


def test_ranks_are_the_order_of_dispatch(sent: DataFrame) -> None:
    messages = traffic(SEED, 300)
    operators = [
        prioritise(columns=COLUMNS),
        prioritise(4, columns=COLUMNS),
        prioritise(max_priority=3, columns=COLUMNS),
        prioritise(age=20, columns=COLUMNS),
        sort_by("key", columns=COLUMNS),
        sort_by("priority", columns=COLUMNS),
    ]
    for operator in operators:
        ordered = sent.transform(operator).orderBy("queue", "rank", "number").select("queue", "number").collect()
        expected = core_survivors(operator, messages)
        for queue, numbers in expected.items():
            assert [row.number for row in ordered if row.queue == queue] == numbers, operator.rules.fingerprint


def test_what_cannot_be_ordered_is_refused(spark: SparkSession) -> None:
    operator = combine(last_value("key"), columns=COLUMNS)
    twice = spark.sql("select 1L as number, 'q' as queue, 'k' as key union all select 1L, 'q', 'k'")
    with pytest.raises(Exception, match=r"column 'number' \(the sequence\) has a value twice in one queue: 1; nothing"):
        twice.transform(operator).collect()
    missing = spark.sql("select cast(null as bigint) as number, 'q' as queue, 'k' as key")
    with pytest.raises(Exception, match=r"column 'number' \(the sequence\) is null in a row; filter such rows out"):
        missing.transform(operator).collect()


def test_not_a_number_is_no_key_and_zero_has_no_sign(spark: SparkSession) -> None:
    rows = spark.sql(
        "select * from values (1L, 'NaN'), (2L, 'NaN'), (3L, '0.0'), (4L, '-0.0'), (5L, null) as t(number, text)"
    ).selectExpr("number", "cast(text as double) as key")
    operator = combine(last_value("key"), columns=type(COLUMNS)(sequence="number", queue=None))
    assert sorted(row.number for row in rows.transform(operator).collect()) == [1, 2, 4, 5]


def test_survivors_want_changes(spark: SparkSession) -> None:
    with pytest.raises(OperatorError, match="column 'change' is missing; give what an operator made of a stream"):
        survivors(spark.range(1))
    stream = spark.readStream.format("rate").load()
    with pytest.raises(OperatorError, match="the changes are a stream; write them to a table"):
        survivors(stream)
