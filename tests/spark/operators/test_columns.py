"""Columns are checked when a query is planned: a schema is enough for that."""

from __future__ import annotations

import pytest
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType, TimestampType

from annulet.bulk.protocol.schema import COLUMNS
from annulet.spark.operators import (
    Columns,
    Operator,
    OperatorError,
    assign_groups,
    combine,
    deduplicate,
    expire,
    keep_last,
    overflow,
    prioritise,
    ring,
    sort_by,
)
from annulet.spark.operators.columns import check, needed, order_columns
from annulet.spark.schema import TYPES, read_schema

SOURCE = StructType(
    [
        StructField(
            column.split(" ")[0],
            {"bigint": LongType(), "int": IntegerType(), "timestamp": TimestampType(), "binary": BinaryType()}.get(
                column.split(" ")[1], StringType()
            ),
        )
        for column in read_schema(COLUMNS).replace("map<string,string>", "string").split(", ")
    ]
)


@pytest.mark.parametrize(
    "operator",
    [
        keep_last(1, "subject"), ring(1, evict="largest"), overflow("ring", max_bytes=1), prioritise(age=1),
        sort_by("timestamp"), assign_groups(), expire(max_ttl=1), deduplicate(),
        combine(ring(1, evict="soonest-to-expire"), prioritise()),
    ],
)  # fmt: skip
def test_the_columns_of_the_source_are_the_defaults(operator: Operator) -> None:
    check(SOURCE, operator.rules, Columns(), order_columns(operator.rules))
    assert set(TYPES) >= set(needed(operator.rules, Columns())) - {"queue", "subject", "group_id", "message_id"}


def refused(schema: StructType, operator: Operator, columns: Columns, text: str) -> None:
    with pytest.raises(OperatorError, match=text):
        check(schema, operator.rules, columns, order_columns(operator.rules))


def test_a_missing_column_is_named_with_the_nearest() -> None:
    refused(
        SOURCE, keep_last(1, "subjct"), Columns(), r"column 'subjct' \(the key\) is missing; did you mean 'subject'\?"
    )
    plain = StructType([StructField("position", LongType())])
    refused(
        plain, ring(1), Columns(), r"column 'queue' \(the queue\) is missing; .* Columns\(queue=None\) where all rows"
    )
    check(plain, ring(1).rules, Columns(queue=None), ())


def test_a_wrong_type_is_named_with_the_right_ones() -> None:
    wrong = Columns(sequence="subject")
    refused(
        SOURCE, ring(1), wrong, r"column 'subject' \(the sequence\) has type string; it may be tinyint, .*: cast it"
    )
    wrong = Columns(expires_at="position")
    refused(SOURCE, expire(), wrong, "'position' .the time of expiry. has type bigint; it may be timestamp: cast it")


def test_names_that_are_taken_are_refused() -> None:
    taken = SOURCE.add("rank", LongType())
    refused(
        taken, prioritise(), Columns(), "column 'rank' is there already, and the operator adds one of this name; rename"
    )
    own = StructType([*SOURCE.fields[:-1], StructField("__annulet_key", LongType())])
    refused(own, ring(1), Columns(), "column '__annulet_key': names that begin with __annulet_ are the operators' own")
    twice = StructType([*SOURCE.fields, StructField("queue", StringType())])
    refused(twice, ring(1), Columns(), "one name is there twice; rename one with select or alias")
