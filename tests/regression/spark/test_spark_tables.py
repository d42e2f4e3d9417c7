"""Tables of Spark's catalog over queues (issue 30, C29)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.spark.conftest import BrokerThread, broker, name  # noqa: F401 - fixtures

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def tables(spark: SparkSession) -> Iterator[None]:
    yield
    for table in ("inbox", "outbox", "own"):
        spark.sql(f"DROP TABLE IF EXISTS {table}")


@pytest.mark.usefixtures("tables")
def test_a_table_is_created_read_and_inserted_into(
    spark: SparkSession,
    broker: BrokerThread,  # noqa: F811
    name: str,  # noqa: F811
) -> None:
    """C29: the options that Spark adds were refused, and those of the table did not arrive."""
    first, second = f"{name}-1", f"{name}-2"
    broker.declare(first, second)
    spark.sql(f"CREATE TABLE inbox USING annulet OPTIONS (url '{broker.url}', queue '{first}')")
    spark.sql(f"CREATE TABLE outbox USING annulet OPTIONS (url '{broker.url}', queue '{second}')")
    spark.sql("INSERT INTO inbox (body, subject) VALUES (encode('a', 'utf-8'), 's'), (encode('b', 'utf-8'), NULL)")
    assert broker.bodies(first) == [b"a", b"b"]
    rows = spark.sql("SELECT subject, cast(body AS string) AS text FROM inbox ORDER BY position").collect()
    assert [tuple(row) for row in rows] == [("s", "a"), (None, "b")]

    spark.sql("INSERT INTO outbox (body, subject) SELECT body, subject FROM inbox ORDER BY position")
    assert broker.bodies(second) == [b"a", b"b"]
    assert broker.bodies(first) == [b"a", b"b"]

    for statement in ("INSERT INTO outbox SELECT * FROM inbox", "INSERT INTO outbox TABLE inbox"):
        with pytest.raises(Exception, match="rows that were read from a queue cannot be inserted without options"):
            spark.sql(statement)
    spark.sql(f"INSERT INTO outbox WITH (url = '{broker.url}', address = '{second}') SELECT * FROM inbox")
    assert sorted(broker.bodies(second)) == [b"a", b"a", b"b", b"b"]
    assert broker.bodies(first) == [b"a", b"b"], "nothing went back to where it was read"

    spark.sql(f"CREATE TABLE own (body STRING) USING annulet OPTIONS (url '{broker.url}', address '{first}')")
    with pytest.raises(Exception, match="Spark passes no options of this table"):
        spark.sql("INSERT INTO own VALUES ('x')")
    with pytest.raises(Exception, match="option 'colour' is unknown"):
        spark.sql(f"CREATE TABLE red USING annulet OPTIONS (url '{broker.url}', queue 'q', colour 'red')")
