"""Writing queues through Spark: whole batches, once."""

from __future__ import annotations

import datetime as dt
import pickle
import re
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.types import DataType, IntegerType, StringType, StructField, StructType

from annulet.bulk.protocol import protocol
from annulet.bulk.protocol.errors import AuthenticationError, StageInterruptedError, UnavailableError
from annulet.spark.datasource import AnnuletDataSource
from annulet.spark.options import OptionError, WriteOptions
from annulet.spark.sink import AnnuletWriter, StageMessage
from tests.spark.refusals import refused

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tests.spark.conftest import BrokerThread

pytestmark = pytest.mark.spark


def write(frame: DataFrame, broker: BrokerThread, **options: Any) -> None:
    frame.write.format("annulet").mode("append").options(url=broker.url, **options).save()


def test_batch_write_keeps_partition_order_and_properties(spark: SparkSession, broker: BrokerThread, name: str) -> None:
    broker.declare(name)
    at = dt.datetime(2024, 5, 6, 7, 8, 9)  # noqa: DTZ001 - the session's zone is UTC
    frame = spark.createDataFrame(
        [
            ("one", "m-1", "text/plain", "c-1", 9, 3_600_000, at, {"a": "1", "b": None}, "g", "s", "r", "identity"),
            ("two", None, None, None, None, None, None, None, None, None, None, None),
        ],
        "body string, message_id string, content_type string, correlation_id string, priority int, expiration bigint, "
        "timestamp timestamp, properties map<string,string>, group_id string, subject string, reply_to string, "
        "content_encoding string",
    ).repartition(1)
    write(frame, broker, address=name)
    rows = spark.read.format("annulet").options(url=broker.url, queue=name).load().orderBy("position").collect()
    first, second = rows
    assert (bytes(first.body), first.message_id, first.content_type) == (b"one", "m-1", "text/plain")
    assert (first.correlation_id, first.priority, first.timestamp, first.group_id) == ("c-1", 9, at, "g")
    assert (first.subject, first.reply_to, first.content_encoding) == ("s", "r", "identity")
    assert first.properties == {"a": "1", "b": None, "group-id": "g"}
    assert first.expires_at - first.enqueued_at == dt.timedelta(hours=1)
    assert first.durable is True
    assert (bytes(second.body), second.message_id, second.expires_at, second.properties) == (b"two", None, None, {})


def test_batch_write_of_many_partitions_is_in_order(spark: SparkSession, broker: BrokerThread, name: str) -> None:
    broker.declare(name)
    frame = spark.range(0, 10_000, 1, 4).selectExpr("cast(id as string) as body")
    write(frame, broker, exchange="", routingKey=name)
    assert broker.bodies(name) == [str(number).encode() for number in range(10_000)]


def test_destinations_by_column(spark: SparkSession, broker: BrokerThread, name: str) -> None:
    one, two, three = f"{name}-1", f"{name}-2", f"{name}-3"
    broker.declare(one, two, three)
    broker.run(lambda: broker.running.broker.hosts["/"].bind_queue(broker.queue(three), "amq.topic", f"{name}.#", {}))
    by_address = spark.createDataFrame([("a", one), ("b", two)], "body string, address string")
    write(by_address, broker)
    by_exchange = spark.createDataFrame(
        [("c", "amq.topic", f"{name}.x"), ("d", "", two)], "body string, exchange string, routing_key string"
    )
    write(by_exchange, broker, persistent="false")
    assert (broker.bodies(one), broker.bodies(two), broker.bodies(three)) == ([b"a"], [b"b", b"d"], [b"c"])


def test_what_was_read_can_be_written_on(spark: SparkSession, broker: BrokerThread, name: str) -> None:
    origin, target = f"{name}-in", f"{name}-out"
    broker.declare(origin, target)
    broker.publish(origin, [b"x", b"y"], message_id="m")
    write(spark.read.format("annulet").options(url=broker.url, queue=origin).load(), broker, address=target)
    assert broker.bodies(target) == [b"x", b"y"]


def test_unknown_destination_refuses_the_whole_batch(spark: SparkSession, broker: BrokerThread, name: str) -> None:
    broker.declare(name)
    frame = spark.createDataFrame([("a", name), ("b", "nowhere")], "body string, address string")
    text = refused(lambda: write(frame, broker))
    assert "nothing was published: no queue or exchange 'nowhere'" in text
    assert broker.bodies(name) == []


def test_unroutable_rows_refuse_the_batch_unless_mandatory_is_false(
    spark: SparkSession, broker: BrokerThread, name: str
) -> None:
    broker.declare(name)
    frame = spark.createDataFrame(
        [("a", "", name), ("b", "amq.direct", "unbound")], "body string, exchange string, routing_key string"
    )
    assert "bind a queue, or set mandatory=false" in refused(lambda: write(frame, broker))
    assert broker.bodies(name) == []
    write(frame, broker, mandatory="false")
    assert broker.bodies(name) == [b"a"]


def test_write_id_makes_a_repeated_write_publish_once(spark: SparkSession, broker: BrokerThread, name: str) -> None:
    broker.declare(name)
    frame = spark.range(10).selectExpr("cast(id as string) as body")
    for _ in range(2):
        write(frame, broker, address=name, writeId=name)
    assert len(broker.bodies(name)) == 10
    write(frame, broker, address=name)
    assert len(broker.bodies(name)) == 20


INT, STRING = IntegerType(), StringType()


@pytest.mark.parametrize(
    ("columns", "options", "text"),
    [
        ({"body": STRING}, {}, "no destination"),
        ({"value": STRING}, {"address": "x"}, "column 'body' is missing"),
        ({"body": STRING, "colour": STRING}, {"address": "x"}, "column 'colour' cannot be written"),
        ({"body": INT}, {"address": "x"}, "column 'body' has type int, not binary or string; cast it"),
        ({"body": STRING}, {"address": "x", "exchange": "y"}, "exclude each other"),
        ({"body": STRING}, {"adress": "x"}, "did you mean 'address'?"),
        ({"body": STRING}, {"address": "x", "queue": "y"}, "does not belong to a write"),
        ({"body": STRING}, {"address": "x", "persistent": "maybe"}, "neither true nor false"),
    ],
)
def test_bad_writes_are_told_before_a_task_starts(
    columns: dict[str, DataType], options: dict[str, str], text: str
) -> None:
    source = AnnuletDataSource({"url": "annulet://127.0.0.1:1", **options})
    schema = StructType([StructField(name, kind) for name, kind in columns.items()])
    for writer in (source.writer, source.streamWriter):
        with pytest.raises(OptionError, match=re.escape(text)):
            writer(schema, overwrite=False)


def test_what_spark_says_of_a_bad_write(spark: SparkSession, broker: BrokerThread, unused_port: int) -> None:
    numbers, texts = spark.createDataFrame([], "body int"), spark.createDataFrame([], "body string")
    text = refused(lambda: write(numbers, broker, address="x"))
    assert "column 'body' has type int, not binary or string; cast it" in text
    save = texts.write.format("annulet").mode("overwrite").options(url=broker.url, address="x").save
    assert "a queue cannot be overwritten" in refused(save)
    nobody = spark.range(0, 2, 1, 1).selectExpr("string(id) AS body").write.format("annulet").mode("append")
    nobody.options(url=f"annulet://127.0.0.1:{unused_port}", address="x", retrySeconds=0)
    assert "no answer from the broker at" in refused(nobody.save)  # known to a task


def test_bad_rows_are_told_by_number_and_column(spark: SparkSession, broker: BrokerThread, name: str) -> None:
    broker.declare(name)
    frame = spark.createDataFrame([("a", 3), ("b", 300)], "body string, priority int").repartition(1)
    text = refused(lambda: write(frame, broker, address=name))
    assert "column priority: 300 is not within 0 to 255" in text
    assert broker.bodies(name) == []


def writer_without_broker(monkeypatch: pytest.MonkeyPatch, error: Exception) -> AnnuletWriter:
    def stage(*_: object) -> None:
        raise error

    options = WriteOptions.parse({"url": "annulet://127.0.0.1:1", "address": "q"})
    writer = AnnuletWriter(options, StructType([StructField("body", STRING)]))
    monkeypatch.setattr(writer, "_stage", stage)
    return writer


def test_what_a_task_was_refused_is_told_by_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that Spark's first line says it. Spark then has what other tasks staged dropped."""
    writer = writer_without_broker(monkeypatch, AuthenticationError("login refused for user 'x'"))
    messages = [None, StageMessage("once:x", 0, 0, "0-0-0-x"), pickle.loads(pickle.dumps(writer.write(iter(()))))]
    with pytest.raises(AuthenticationError, match="login refused for user 'x'"):
        writer.commit(messages)
    dropped: list[Any] = []
    monkeypatch.setattr(writer, "_client", lambda: SimpleNamespace(act=dropped.append))
    writer.abort(messages)
    assert [request.stages for request in dropped] == [["0-0-0-x"]]


def test_a_task_whose_rows_have_to_be_computed_again_is_left_to_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StageInterruptedError):
        writer_without_broker(monkeypatch, StageInterruptedError("interrupted")).write(iter(()))


def pipe(spark: SparkSession, broker: BrokerThread, source: str, target: str, folder: Path, **options: Any) -> Any:
    stream = (
        spark.readStream.format("annulet")
        .options(url=broker.url, queue=source, lease=source, maxMessagesPerTrigger=100)
        .load()
    )
    query = (
        stream.select("body", "message_id")
        .writeStream.format("annulet")
        .options(url=broker.url, address=target, **options)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(240)
    return query


def test_stream_from_queue_to_queue_publishes_each_batch_once(
    spark: SparkSession, broker: BrokerThread, name: str, tmp_path: Path
) -> None:
    source, target = f"{name}-in", f"{name}-out"
    broker.declare(source, target)
    bodies = [b"%04d" % number for number in range(350)]
    broker.publish(source, bodies)
    pipe(spark, broker, source, target, tmp_path)
    assert broker.bodies(target) == bodies


def test_asynchronous_progress_is_refused(spark: SparkSession, broker: BrokerThread, name: str, tmp_path: Path) -> None:
    broker.declare(name)
    query = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", 1)
        .load()
        .selectExpr("string(value) AS body")
        .writeStream.format("annulet")
        .options(url=broker.url, address=name, asyncProgressTrackingEnabled="true")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(processingTime="1 second")
    )
    text = refused(lambda: query.start().awaitTermination(240))
    assert "asyncProgressTrackingEnabled" in text or "ASYNC_PROGRESS" in text or "async progress" in text.lower()


def test_a_broker_that_goes_after_the_commit_does_not_fail_the_write(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    class Client:
        def act(self, request: protocol.Request) -> dict[str, Any]:
            asked.append(protocol.tag_of(request))
            if isinstance(request, protocol.ForgetPublish):
                raise UnavailableError("gone")
            return {"messages": 1, "repeated": 0}

    schema = StructType([StructField("body", STRING)])
    writer = AnnuletWriter(WriteOptions.parse({"url": "annulet://127.0.0.1", "address": "q"}), schema)
    monkeypatch.setattr(writer, "_client", Client)
    writer.commit([StageMessage("once:x", 0, 0, "0-0-0-x")])
    assert asked == ["publish.commit", "publish.forget"]


@pytest.mark.parametrize(("repeated", "warned"), [(0, False), (1, True)])
def test_a_write_id_that_was_used_before_is_warned_of(
    repeated: int, warned: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """C31: a constant ``writeId`` with a new checkpoint published nothing, silently."""

    class Client:
        def act(self, request: protocol.Request) -> dict[str, Any]:
            assert isinstance(request, protocol.CommitPublish)
            return {"messages": 0, "repeated": repeated}

    schema = StructType([StructField("body", STRING)])
    options = {"url": "annulet://127.0.0.1", "address": "q", "writeId": "nightly", "writeBatch": "3"}
    writer = AnnuletWriter(WriteOptions.parse(options), schema)
    monkeypatch.setattr(writer, "_client", Client)
    writer.commit([StageMessage("write:nightly", 3, 0, "3-0-0-x")])
    assert ("writeId 'nightly': batch 3 was published before" in caplog.text) is warned
