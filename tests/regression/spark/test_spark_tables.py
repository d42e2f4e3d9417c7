"""Tables of Spark's catalog over queues (issue 30, C29)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from annulet.spark.tables import CREATION_REMEDY, INSERT_REMEDY, TO_TABLE_REMEDY
from tests.spark.conftest import BrokerThread, broker, name  # noqa: F401 - fixtures
from tests.spark.refusals import refused

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def tables(spark: SparkSession) -> Iterator[None]:
    yield
    for table in ("inbox", "outbox", "own", "made"):
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


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize("mode", ["append", "errorifexists", "ignore"])
def test_save_as_table_is_refused_before_rows_are_published(
    spark: SparkSession,
    broker: BrokerThread,  # noqa: F811
    name: str,  # noqa: F811
    mode: str,
) -> None:
    """C29: the rows were published, and a table without options was left."""
    broker.declare(name)
    rows = spark.range(4).selectExpr("cast(id AS string) AS body").repartition(2)
    for made in (rows, rows.where("body = 'none'")):
        writer = made.write.format("annulet").options(url=broker.url, address=name).mode(mode)
        assert CREATION_REMEDY in refused(lambda writer=writer: writer.saveAsTable("made"))
    assert broker.bodies(name) == []
    assert not spark.catalog.tableExists("made")


@pytest.mark.usefixtures("tables")
def test_other_commands_that_create_a_table_are_refused(
    spark: SparkSession,
    broker: BrokerThread,  # noqa: F811
    name: str,  # noqa: F811
) -> None:
    """C29, the brothers: writeTo().create(), CREATE TABLE AS SELECT, and rows that are to be rejected."""
    broker.declare(name)
    rows = spark.range(4).selectExpr("cast(id AS string) AS body")
    creating = rows.writeTo("made").using("annulet").option("url", broker.url).option("address", name)
    assert CREATION_REMEDY in refused(creating.create)
    options = f"OPTIONS (url '{broker.url}', address '{name}')"
    text = refused(lambda: spark.sql(f"CREATE TABLE made USING annulet {options} AS SELECT 'a' AS body"))
    assert INSERT_REMEDY in text
    positions = spark.range(1).selectExpr("id AS position").write.format("annulet").mode("append")
    assert CREATION_REMEDY in refused(lambda: positions.options(url=broker.url, rejectFrom="lease").saveAsTable("made"))
    assert broker.bodies(name) == []
    assert not spark.catalog.tableExists("made")


@pytest.mark.usefixtures("tables")
def test_writes_that_create_no_table_are_not_refused(
    spark: SparkSession,
    broker: BrokerThread,  # noqa: F811
    name: str,  # noqa: F811
    tmp_path: Path,
) -> None:
    """C29: what tells a table that is created must not be found in other writes, however they are wrapped."""
    broker.declare(name)
    options = {"url": broker.url, "address": name}
    rows = spark.sql("SELECT 'saved' AS body")
    rows.write.format("annulet").mode("append").options(**options).save()
    spark.sql(f"CREATE TABLE inbox USING annulet OPTIONS (url '{broker.url}', queue '{name}')")
    rows = spark.sql("SELECT encode('inserted', 'utf-8') AS body")
    rows.write.format("annulet").mode("append").options(**options).saveAsTable("inbox")
    spark.sql("EXECUTE IMMEDIATE \"INSERT INTO inbox (body) VALUES (encode('at once', 'utf-8'))\"")
    spark.sql("BEGIN INSERT INTO inbox (body) VALUES (encode('scripted', 'utf-8')); END")

    folder = tmp_path / "rows"
    spark.sql("SELECT 'streamed' AS body").write.json(str(folder))
    stream = spark.readStream.schema("body string").json(str(folder))

    def save(batch: DataFrame, number: int) -> None:
        batch.write.format("annulet").mode("append").options(**options).save()

    writer = stream.writeStream.foreachBatch(save).option("checkpointLocation", str(tmp_path / "checkpoint"))
    assert writer.trigger(availableNow=True).start().awaitTermination(120)
    assert broker.bodies(name) == [b"saved", b"inserted", b"at once", b"scripted", b"streamed"]


@pytest.mark.usefixtures("tables")
def test_a_stream_to_a_table_is_refused_before_rows_are_published(
    spark: SparkSession,
    broker: BrokerThread,  # noqa: F811
    name: str,  # noqa: F811
    tmp_path: Path,
) -> None:
    """C29, a brother: toTable made a table without options, and published."""
    broker.declare(name)
    folder = tmp_path / "rows"
    spark.sql("SELECT 'streamed' AS body").write.json(str(folder))
    stream = spark.readStream.schema("body string").json(str(folder))
    writer = stream.writeStream.format("annulet").options(url=broker.url, address=name)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    assert TO_TABLE_REMEDY in refused(lambda: writer.toTable("made").awaitTermination(120))
    assert broker.bodies(name) == []
