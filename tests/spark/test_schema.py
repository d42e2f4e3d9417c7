"""The schema of a read, and what a user's own schema may be."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from annulet.bulk.protocol.errors import InvalidRequestError
from annulet.bulk.protocol.schema import COLUMNS, SCHEMA
from annulet.spark.options import OptionError
from annulet.spark.schema import TYPES, columns_of, read_schema

ARROW_TYPES = {
    "int64": "bigint", "int32": "int", "string": "string", "binary": "binary", "bool": "boolean",
    "timestamp[us, tz=UTC]": "timestamp", "map<string, string>": "map<string,string>",
}  # fmt: skip


def schema_of(**types: object) -> StructType:
    return StructType([StructField(name, kind) for name, kind in types.items()])  # type: ignore[arg-type]


def test_every_column_has_the_type_arrow_sends() -> None:
    assert {name: TYPES.get(name, "string") for name in COLUMNS} == {
        field.name: ARROW_TYPES[str(field.type)] for field in SCHEMA
    }


def test_the_schema_in_words_names_all_columns_in_order() -> None:
    names = [column.strip().split(" ")[0] for column in read_schema(COLUMNS).split(", ")]
    assert names == list(COLUMNS)
    assert read_schema(COLUMNS).startswith("position bigint, sequence bigint, message_id string, queue string")


def test_without_the_body_only_the_body_is_missing() -> None:
    assert read_schema(COLUMNS).replace("body binary, ", "") == read_schema(
        [name for name in COLUMNS if name != "body"]
    )


def test_some_columns_in_an_order_of_ones_own() -> None:
    schema = schema_of(
        body=BinaryType(), position=LongType(), priority=IntegerType(), timestamp=TimestampType(),
        properties=MapType(StringType(), StringType()), subject=StringType(),
    )  # fmt: skip
    assert columns_of(schema) == ["body", "position", "priority", "timestamp", "properties", "subject"]


@pytest.mark.parametrize(
    ("name", "given", "wanted"),
    [("body", StringType(), "binary"), ("position", IntegerType(), "bigint"), ("subject", LongType(), "string")],
)
def test_another_type_is_refused_with_the_right_one(name: str, given: object, wanted: str) -> None:
    with pytest.raises(OptionError, match=f"column '{name}' has type {wanted}, not .*; cast it"):
        columns_of(schema_of(**{name: given}))


def test_an_unknown_column_is_answered_with_the_nearest() -> None:
    with pytest.raises(InvalidRequestError, match="column 'rooting_key' is unknown; did you mean 'routing_key'"):
        columns_of(schema_of(rooting_key=StringType()))
