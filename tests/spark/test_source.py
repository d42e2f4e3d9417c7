"""Reading queues through Spark: batch views and exactly-once streams."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from annulet.broker.security.password_hashes import HASHER
from annulet.bulk.client import connect
from annulet.bulk.protocol.errors import (
    AuthenticationError,
    BulkError,
    InvalidRequestError,
    LeaseGoneError,
    LeaseInUseError,
    RefusedError,
)
from annulet.bulk.protocol.protocol import ReleaseLease
from annulet.bulk.protocol.schema import COLUMNS
from annulet.bulk.protocol.url import parse_url
from annulet.bulk.server import BulkService
from annulet.spark.options import ReadOptions
from annulet.spark.source import AnnuletStreamReader, split
from tests.spark.refusals import refused

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tests.spark.conftest import BrokerThread

pytestmark = pytest.mark.spark


def read(spark: SparkSession, broker: BrokerThread, queue: str, **options: Any) -> DataFrame:
    return spark.read.format("annulet").options(url=broker.url, queue=queue, **options).load()


def numbered(count: int, first: int = 0) -> list[bytes]:
    return [b"%06d" % number for number in range(first, first + count)]


def run_available(
    spark: SparkSession, broker: BrokerThread, queue: str, folder: Path, **options: Any
) -> tuple[list[tuple[int, list[bytes]]], Any]:
    """Run what is there through a query with a checkpoint; return the batches, and the query."""
    batches: list[tuple[int, list[bytes]]] = []

    def collect(frame: DataFrame, batch: int) -> None:
        rows = frame.orderBy("position").select("body").collect()
        batches.append((batch, [bytes(row.body) for row in rows]))

    stream = spark.readStream.format("annulet").options(url=broker.url, queue=queue, **options).load()
    query = (
        stream.writeStream.foreachBatch(collect)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(240)
    return batches, query


def stream_of(broker: BrokerThread, queue: str, **options: str) -> AnnuletStreamReader:
    """Return what Spark makes of a stream's options, to be called as Spark calls it: no query costs its seconds."""
    return AnnuletStreamReader(
        ReadOptions.parse({"url": broker.url, "queue": queue, "lease": queue, **options}), ["body"]
    )


def taken(stream: AnnuletStreamReader, start: dict[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
    """Plan a batch and read it. Returns its end, and the bodies."""
    end = stream.latestOffset(start, stream.getDefaultReadLimit())
    return end, read_again(stream, start, end)


def read_again(stream: AnnuletStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[bytes]:
    """Read a planned batch, as the first call of a new run does."""
    batches = [batch for part in stream.partitions(start, end) for batch in stream.read(part)]
    return [body for batch in batches for body in batch.column("body").to_pylist()]


@pytest.mark.parametrize(
    ("after", "upto", "parts", "expected"),
    [(0, 0, 2, []), (0, 1, 2, [(0, 1)]), (5, 10, 2, [(5, 7), (7, 10)]), (0, 4, 4, [(0, 1), (1, 2), (2, 3), (3, 4)])],
)
def test_split_covers_the_range_without_empty_parts(
    after: int, upto: int, parts: int, expected: list[tuple[int, int]]
) -> None:
    assert split(after, upto, parts) == expected


def test_batch_read_shows_every_column_and_takes_nothing(spark: SparkSession, broker: BrokerThread, name: str) -> None:
    broker.declare(name)
    broker.publish(
        name,
        [b"first"],
        message_id="m-1",
        content_type="text/plain",
        content_encoding="identity",
        correlation_id="c-1",
        reply_to="answers",
        type="subject",
        priority=7,
        timestamp=1_700_000_000,
        headers={"group-id": "g", "number": 5, "flag": True, "nothing": None, "nested": {"a": [1, 2]}},
    )
    broker.publish(name, [b"second"], persistent=False)
    frame = read(spark, broker, name)
    assert frame.columns == list(COLUMNS)
    first, second = frame.orderBy("position").collect()
    assert (first.position, first.message_id, first.queue, first.address, first.routing_key) == (
        1,
        "m-1",
        name,
        name,
        name,
    )
    assert (bytes(first.body), first.content_type, first.content_encoding) == (b"first", "text/plain", "identity")
    assert (first.correlation_id, first.reply_to, first.subject, first.group_id) == ("c-1", "answers", "subject", "g")
    assert (first.durable, first.delivery_count, first.redelivered, first.expires_at) == (True, 0, False, None)
    assert first.timestamp == dt.datetime(2023, 11, 14, 22, 13, 20)  # noqa: DTZ001 - the session's zone is UTC
    assert first.enqueued_at is not None
    assert first.properties == {
        "group-id": "g",
        "number": "5",
        "flag": "true",
        "nothing": None,
        "nested": '{"a": [1, 2]}',
    }
    assert (second.message_id, second.content_type, second.durable, second.timestamp) == (None, None, False, None)
    assert broker.pending(name) == 2


def test_batch_read_of_many_rows_in_many_partitions(spark: SparkSession, broker: BrokerThread, name: str) -> None:
    broker.declare(name)
    broker.publish(name, numbered(12_345))
    frame = read(spark, broker, name, partitions=5)
    assert frame.rdd.getNumPartitions() == 5
    rows = frame.select("body").collect()
    assert [bytes(row.body) for row in rows] == numbered(12_345)


def test_a_batch_read_takes_a_selector(spark: SparkSession, broker: BrokerThread, name: str) -> None:
    broker.declare(name)
    for number in range(4):
        broker.publish(name, numbered(1, number), headers={"size": number})

    rows = read(spark, broker, name, selector="size > 1").select("body").collect()

    assert sorted(bytes(row.body) for row in rows) == numbered(2, 2)
    assert "invalid selector" in refused(lambda: read(spark, broker, name, selector="size >").count())


def test_a_stream_with_a_selector_takes_what_matches(broker: BrokerThread, name: str) -> None:
    broker.declare(name)
    for number in range(6):
        broker.publish(name, numbered(1, number), headers={"size": number % 3})

    def reader(selector: str) -> AnnuletStreamReader:
        return stream_of(broker, name, selector=selector)

    stream = reader("size = 1")
    stream.prepareForTriggerAvailableNow()
    end, found = taken(stream, stream.initialOffset())
    assert found == [b"000001", b"000004"]
    assert taken(stream, end)[1] == []
    assert broker.pending(name) == 4
    changed = reader("size = 2")  # the query was started again with another selector
    later, found = taken(changed, end)
    assert found == [b"000002", b"000005"]
    assert broker.bodies(name) == [b"000000", b"000002", b"000003", b"000005"]
    with pytest.raises(InvalidRequestError, match="option selector: invalid selector"):
        reader("size =").latestOffset(later, ReadAllAvailable())


def test_rows_of_a_stream_have_the_sequence_number_of_the_queue(broker: BrokerThread, name: str) -> None:
    broker.declare(name)
    broker.publish(name, numbered(1))
    assert broker.run(lambda: broker.queue(name).purge(broker.running.broker.clock())) == 1
    broker.publish(name, numbered(3, 1))
    options = ReadOptions.parse({"url": broker.url, "queue": name, "partitions": "1"})
    stream = AnnuletStreamReader(options, ["position", "sequence"])
    start = stream.initialOffset()
    (part,) = stream.partitions(start, stream.latestOffset(start, ReadAllAvailable()))
    rows = [row for batch in stream.read(part) for row in batch.to_pylist()]
    assert [(row["position"], row["sequence"]) for row in rows] == [(1, 2), (2, 3), (3, 4)]


def test_available_now_ends_at_what_was_there_when_it_began(broker: BrokerThread, name: str) -> None:
    broker.declare(name)
    broker.publish(name, numbered(5))
    stream = stream_of(broker, name, maxMessagesPerTrigger="3")
    stream.prepareForTriggerAvailableNow()
    broker.publish(name, numbered(4, 5))
    first, found = taken(stream, stream.initialOffset())
    assert found == numbered(3)
    reported = stream.reportLatestOffset()
    assert reported is not None
    assert (first["pos"], reported["pos"]) == (3, 9)  # six wait behind the batch
    assert 0 <= reported["lagMs"] < 3_600_000
    assert "lagMs" not in first, "it is a figure, not part of an offset"
    second, found = taken(stream, first)
    assert found == numbered(2, 3)
    assert taken(stream, second) == (second, [])
    assert broker.pending(name) == 4
    later = stream_of(broker, name)  # another run
    later.prepareForTriggerAvailableNow()
    assert taken(later, second)[1] == numbered(4, 5)


def test_batch_read_of_an_empty_queue_has_no_rows(spark: SparkSession, broker: BrokerThread, name: str) -> None:
    broker.declare(name)
    assert read(spark, broker, name).count() == 0


def test_schema_of_the_user_chooses_columns(spark: SparkSession, broker: BrokerThread, name: str) -> None:
    broker.declare(name)
    broker.publish(name, [b"x"], message_id="m")
    source = spark.read.format("annulet").options(url=broker.url, queue=name)
    row = source.schema("message_id string, position bigint").load().collect()[0]
    assert row.asDict() == {"message_id": "m", "position": 1}
    assert "body" not in read(spark, broker, name, includeBody="false").columns


def test_stream_reads_everything_once_across_runs(
    spark: SparkSession, broker: BrokerThread, name: str, tmp_path: Path
) -> None:
    broker.declare(name)
    broker.publish(name, numbered(250))
    batches, query = run_available(spark, broker, name, tmp_path, lease=name, maxMessagesPerTrigger=100)
    assert [(batch, len(bodies)) for batch, bodies in batches] == [(0, 100), (1, 100), (2, 50)]
    assert [body for _, bodies in batches for body in bodies] == numbered(250)
    assert query.lastProgress["sources"][0]["latestOffset"] is not None

    broker.publish(name, numbered(30, 250))
    more, _ = run_available(spark, broker, name, tmp_path, lease=name, maxMessagesPerTrigger=100)
    assert [body for _, bodies in more for body in bodies] == numbered(30, 250)
    assert broker.bodies(name) == []  # its last look for more acknowledged the last batch

    assert connect(parse_url(broker.url)).act(ReleaseLease(lease=name)) == {"returned": 0}
    text = refused(lambda: run_available(spark, broker, name, tmp_path, lease=name))
    assert "LeaseGoneError: lease range gone" in text
    assert "Start with a new checkpoint" in text


def test_a_restart_without_new_messages_acknowledges(broker: BrokerThread, name: str) -> None:
    broker.declare(name)
    broker.publish(name, numbered(5))
    first = stream_of(broker, name)
    end, bodies = taken(first, first.initialOffset())
    first.stop()
    assert bodies == numbered(5)
    assert len(broker.bodies(name)) == 5
    assert stream_of(broker, name).latestOffset(end, ReadAllAvailable()) == end
    assert broker.bodies(name) == []


def test_stream_limits_bytes(broker: BrokerThread, name: str) -> None:
    broker.declare(name)
    broker.publish(name, [bytes([65 + number]) * 1000 for number in range(6)])
    stream = stream_of(broker, name, maxBytesPerTrigger="2500")
    end, sizes = stream.initialOffset(), []
    for _ in range(4):
        end, bodies = taken(stream, end)
        sizes.append(len(bodies))
    assert sizes == [2, 2, 2, 0]


def test_stream_keeps_transient_messages_of_a_durable_queue(broker: BrokerThread, name: str) -> None:
    broker.declare(name)
    broker.publish(name, numbered(5), persistent=False)
    stream = stream_of(broker, name)
    assert taken(stream, stream.initialOffset())[1] == numbered(5)


def test_what_a_failed_batch_read_is_read_again_by_its_checkpoint_only(broker: BrokerThread, name: str) -> None:
    broker.declare(name)
    broker.publish(name, numbered(10))
    failing = stream_of(broker, name)
    start = failing.initialOffset()
    end, _ = taken(failing, start)
    assert broker.pending(name) == 0
    assert len(broker.bodies(name)) == 10
    broker.publish(name, numbered(5, 10))
    again = stream_of(broker, name)
    assert read_again(again, start, end) == numbered(10)
    assert taken(again, end)[1] == numbered(5, 10)


def test_a_queue_that_is_not_durable_is_refused_with_the_remedy(broker: BrokerThread, name: str) -> None:
    broker.declare(name, durable=False)
    stream = stream_of(broker, name)
    with pytest.raises(RefusedError, match=f"queue '{name}' is not durable.*declare it durable"):
        taken(stream, stream.initialOffset())


def test_another_checkpoint_may_not_use_the_lease(broker: BrokerThread, name: str) -> None:
    broker.declare(name)
    broker.publish(name, numbered(10))
    one, other = stream_of(broker, name), stream_of(broker, name)
    end, _ = taken(one, one.initialOffset())
    with pytest.raises(LeaseInUseError, match=r"belongs to another checkpoint.*onExistingLease=resume"):
        taken(other, other.initialOffset())
    releasing = stream_of(broker, name, onExistingLease="release")
    assert taken(releasing, releasing.initialOffset())[1] == numbered(10)
    with pytest.raises(BulkError, match="taken over by another checkpoint"):
        taken(stream_of(broker, name), end)


def test_a_released_lease_is_told_and_may_be_passed_over(broker: BrokerThread, name: str) -> None:
    broker.declare(name)
    broker.publish(name, numbered(10))
    first = stream_of(broker, name)
    start = first.initialOffset()
    end, _ = taken(first, start)
    assert connect(parse_url(broker.url)).act(ReleaseLease(lease=name)) == {"returned": 10}
    with pytest.raises(LeaseGoneError, match="lease range gone"):
        read_again(stream_of(broker, name), start, end)
    passing = stream_of(broker, name, failOnDataLoss="false")
    found = read_again(passing, start, end)
    assert found + taken(passing, end)[1] == numbered(10)  # read again, by explicit choice


@pytest.mark.parametrize(
    ("offset", "text"),
    [
        ({}, "the checkpoint cannot be read: its offset {} is damaged"),
        ({"v": 2, "lease": "l", "owner": "o", "queue": "q", "pos": 1}, "was written by another version"),
        ({"v": 1, "queue": "q", "sequence": 4, "gap": 0}, "with nonDestructive=true; read as it was begun"),
        ({"v": 1, "lease": "other", "owner": "o", "queue": "q", "pos": 1}, "reads through lease 'other', option lease"),
        ({"v": 1, "lease": "l", "owner": "o", "queue": "p", "pos": 1}, "reads queue 'p', option queue says 'q'"),
    ],
    ids=["damaged", "version", "sequences", "lease", "queue"],
)
def test_a_checkpoint_that_is_not_of_this_query_is_told(offset: dict[str, Any], text: str) -> None:
    options = ReadOptions.parse({"url": "annulet://127.0.0.1:1", "queue": "q", "lease": "l"})
    stream = AnnuletStreamReader(options, ["body"])
    for call in (stream.commit, lambda end: stream.partitions({}, end), lambda start: stream.latestOffset(start, None)):  # type: ignore[arg-type]
        with pytest.raises(InvalidRequestError, match=re.escape(text)):
            call(offset)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"queue": "nope"}, "no queue 'nope' in virtual host '/': declare it first"),
        ({"quue": "x"}, "option 'quue' is unknown; did you mean 'queue'?"),
    ],
)
def test_bad_options_are_told(
    spark: SparkSession, broker: BrokerThread, name: str, options: dict[str, str], text: str
) -> None:
    broker.declare(name)
    given = {"url": broker.url, "queue": name, **options}
    assert text in refused(lambda: spark.read.format("annulet").options(**given).load().collect())


def test_a_wrong_password_is_told(spark: SparkSession, broker: BrokerThread, name: str) -> None:
    broker.declare(name)
    url = broker.url.replace("guest:guest", "guest:wrong")
    text = refused(lambda: spark.read.format("annulet").options(url=url, queue=name).load().collect())
    assert "login refused for user 'guest'" in text


def test_credentials_that_expire_under_a_query_are_told(broker: BrokerThread, name: str) -> None:
    """The password changes and the token of the connection runs out: the next call of the source is refused."""
    broker.declare(name)
    served = broker.running.broker

    def password(text: str) -> None:
        with served.catalogue.transaction():
            served.catalogue.access.set_user(name, HASHER.hash(text))
            served.catalogue.access.set_permission(name, "/", ".*", ".*", ".*")
        served.authenticator.reload()

    broker.run(lambda: password("old"))
    url = broker.url.replace("guest:guest", f"{quote(name)}:old")
    stream = AnnuletStreamReader(ReadOptions.parse({"url": url, "queue": name, "lease": name}), ["body"])
    start = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    broker.run(lambda: password("new"))
    assert stream.latestOffset(start, ReadAllAvailable()) == start  # the token is good for an hour
    service = next(one for one in served.services if isinstance(one, BulkService))
    service._tokens._tokens.clear()
    with pytest.raises(AuthenticationError, match=f"login refused for user '{name}'.*; correct them in option url"):
        stream.latestOffset(start, ReadAllAvailable())
    stream.stop()


def test_nobody_there_is_told(spark: SparkSession, unused_port: int) -> None:
    url = f"annulet://127.0.0.1:{unused_port}"
    frame = spark.read.format("annulet").options(url=url, queue="q", retrySeconds=0).load()
    assert "no answer from the broker at" in refused(frame.collect)
