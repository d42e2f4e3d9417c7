"""Rows travel to Python and back unchanged, whatever their types."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from annulet.spark.operators import Columns, OperatorError, deduplicate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

VALUES = "select 9007199254740993L as position, 'q' as queue, cast(null as string) as message_id, {}"
ROW = """
    9223372036854775807L as long, cast('NaN' as double) as number, cast('-0.0' as float) as small,
    12345678901234567890.123456789 as exact, true as flag, date'0001-01-01' as day,
    timestamp'9999-12-31 23:59:59.999999' as moment, timestamp_ntz'2024-02-29 12:00:00.000001' as local,
    X'00FF' as octets, 'é' as text, map('a', 'b', 'c', cast(null as string)) as properties,
    named_struct('n', 9007199254740993L, 'm', cast(null as int), 't', timestamp'2024-01-01 00:00:00.000001') as nested,
    array(1L, null, 9007199254740993L) as list
"""


def test_every_type_comes_back_as_it_was(spark: SparkSession) -> None:
    full = spark.sql(VALUES.format(ROW))
    nulls = full.selectExpr(
        "9007199254740994L as position", "queue", "message_id",
        *(f"cast(null as {field.dataType.simpleString()}) as {field.name}" for field in full.schema.fields[3:]),
    )  # fmt: skip
    rows = full.union(nulls)
    left = rows.transform(deduplicate(5))  # a bounded window is a replay in Python
    assert left.schema.simpleString() == rows.schema.simpleString()
    assert [str(row) for row in left.orderBy("position").collect()] == [
        str(row) for row in rows.orderBy("position").collect()
    ]


@pytest.mark.parametrize("expression", ["interval '1' day", "map(1, 'b')", "parse_json('1')"])
def test_a_type_that_cannot_travel_is_refused(spark: SparkSession, expression: str) -> None:
    rows = spark.sql(VALUES.format(f"{expression} as odd"))
    with pytest.raises(OperatorError, match=r"column 'odd' has type .*, which the operator cannot carry; cast it"):
        rows.transform(deduplicate(5, columns=Columns()))
