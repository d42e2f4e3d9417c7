"""Options of tables, carried by their columns."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql.types import StructField, StructType

from annulet.bulk.protocol.schema import COLUMNS
from annulet.spark import tables
from annulet.spark.datasource import AnnuletDataSource
from annulet.spark.options import OptionError
from annulet.spark.query_ids import QUERY_PROPERTY
from annulet.spark.schema import columns_of

GIVEN = {"url": "annulet://h", "queue": "orders", "lease": "l"}
CREATED = {"provider": "annulet", "owner": "me", "option.url": "annulet://h", "path": "/w/orders", **GIVEN}


def test_what_spark_adds_is_left_out() -> None:
    assert tables.created(CREATED) == GIVEN
    assert tables.created(GIVEN) is None
    with pytest.raises(OptionError, match="option 'colour' is unknown"):
        AnnuletDataSource({**CREATED, "colour": "red"}).schema()


def test_options_of_reads_and_writes() -> None:
    assert tables.for_reading({**GIVEN, "mandatory": "false"}) == GIVEN
    assert tables.for_writing({**GIVEN, "mandatory": "false"}) == {
        "url": "annulet://h", "mandatory": "false", "address": "orders",
    }  # fmt: skip
    assert tables.for_writing({**GIVEN, "exchange": "e"}) == {"url": "annulet://h", "exchange": "e"}


def test_a_schema_carries_options_through_json() -> None:
    schema = AnnuletDataSource(CREATED).schema()
    assert isinstance(schema, StructType)
    again = StructType.fromJson(schema.jsonValue())
    assert tables.carried(again) == GIVEN
    assert columns_of(again) == list(COLUMNS)


def test_columns_that_carry_different_options_carry_none() -> None:
    one, other = tables.schema_with(["body"], GIVEN), tables.schema_with(["queue"], {**GIVEN, "queue": "x"})
    assert tables.carried(StructType([*one.fields, *other.fields])) is None
    assert tables.carried(StructType([*one.fields, StructField("queue", one.fields[0].dataType)])) is None
    assert tables.carried(StructType([])) is None


def test_a_statement_with_an_address_of_its_own_has_its_own_options() -> None:
    schema = tables.schema_with(COLUMNS, GIVEN)
    writer = AnnuletDataSource({"url": "annulet://other", "address": "x"}).writer(schema, overwrite=False)
    assert writer._options.address == "x"
    writer = AnnuletDataSource({}).writer(schema, overwrite=False)
    assert writer._options.address == "orders"
    with pytest.raises(OptionError, match=r"INSERT INTO t WITH"):
        AnnuletDataSource({}).writer(StructType([]), overwrite=False)


def test_rows_of_a_queue_are_refused() -> None:
    read = pa.record_batch({"position": pa.array([None, 3], pa.int64()), "body": [b"a", b"b"]})
    made = pa.record_batch({"position": pa.array([None, None], pa.int64()), "body": [b"a", b"b"]})
    assert list(tables.refuse_read_rows(iter([made]))) == [made]
    for batch in (read, made.select(["body"])):
        with pytest.raises(OptionError, match="rows that were read from a queue cannot be inserted"):
            list(tables.refuse_read_rows(iter([batch])))


IN_A_STREAM = {QUERY_PROPERTY: "5422def1"}
PROPERTIES = [
    ({tables.EXECUTION_PROPERTY: "3", tables.ROOT_PROPERTY: "3"}, False),
    ({tables.EXECUTION_PROPERTY: "3", tables.ROOT_PROPERTY: "2"}, True),
    ({tables.EXECUTION_PROPERTY: "3", tables.ROOT_PROPERTY: "2", **IN_A_STREAM}, False),
    ({}, False),
]


@pytest.mark.parametrize(("properties", "created"), PROPERTIES)
def test_a_write_inside_of_another_execution_creates_a_table(
    monkeypatch: pytest.MonkeyPatch, properties: dict[str, str], created: bool
) -> None:
    monkeypatch.setattr(TaskContext, "get", lambda: SimpleNamespace(getLocalProperty=properties.get))
    refusal = tables.creation()
    assert (str(refusal) == tables.CREATION_REMEDY) if created else (refusal is None)


def test_outside_of_a_task_nothing_is_created() -> None:
    assert tables.creation() is None


CALLS = [
    ("org.apache.spark.sql.classic.DataStreamWriter.toTable(DataStreamWriter.scala:216)\njava.base/invoke0", True),
    (
        "org.apache.spark.sql.classic.DataStreamWriter.start(DataStreamWriter.scala:145)\nDataStreamWriter.toTable(",
        False,
    ),
    (None, False),
]


@pytest.mark.parametrize(("call", "to_table"), CALLS)
def test_the_call_that_started_a_stream_says_whether_it_goes_to_a_table(call: str | None, to_table: bool) -> None:
    context = SimpleNamespace(getLocalProperty={tables.CALL_PROPERTY: call}.get)
    refusal = tables.streamed_to_table(context)
    assert (str(refusal) == tables.TO_TABLE_REMEDY) if to_table else (refusal is None)
