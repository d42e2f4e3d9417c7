"""Filters that Spark leaves to the broker: it may let too much through, and never too little."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import AnalysisException
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from annulet.bulk.protocol.schema import Row, record_batches
from annulet.bulk.reading.snapshots import Bounds, SnapshotStore
from annulet.core.base.settings import QueueSettings
from annulet.core.message.message import Message, Origin
from annulet.core.queue.queue import Queue
from annulet.core.routing.node_effects import NodeEffects
from annulet.selector.parser import LENGTH_MAX
from annulet.spark.options import ReadOptions
from annulet.spark.pushdown import Pushed, push
from annulet.spark.source import AnnuletFilteringReader
from annulet.wire.amqp091.messages.properties import VIEW, BasicProperties, encode_properties
from tests.spark.test_source import numbered, read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.conftest import BrokerThread

COMPARE = {
    EqualTo: lambda left, right: left == right,
    GreaterThan: lambda left, right: left > right,
    GreaterThanOrEqual: lambda left, right: left >= right,
    LessThan: lambda left, right: left < right,
    LessThanOrEqual: lambda left, right: left <= right,
    StringStartsWith: lambda left, right: left.startswith(right),
    StringEndsWith: lambda left, right: left.endswith(right),
    StringContains: lambda left, right: right in left,
    In: lambda left, right: left in right,
}


def answer(item: Filter, row: dict[str, Any]) -> bool | None:
    """What SQL says of a row; ``None`` for unknown."""
    if isinstance(item, Not):
        inner = answer(item.child, row)
        return None if inner is None else not inner
    value = row[item.attribute[0]]
    if isinstance(item, (IsNull, IsNotNull)):
        return (value is None) is isinstance(item, IsNull)
    if isinstance(item, EqualNullSafe):
        return value == item.value
    return None if value is None else COMPARE[type(item)](value, item.value)


MOMENT = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def queue_of_all_sorts() -> Queue:
    made = Queue("q", QueueSettings(), NodeEffects())
    for number in range(24):
        basic = BasicProperties()
        basic.message_id = ("", "a%b", "ab", "it's", "A")[number % 5]
        basic.type = ("", "ab_", "ab")[number % 3]
        basic.priority = number % 4
        message = Message(encode_properties(basic), b"", Origin("", f"key{number % 2}", "", VIEW), priority=number % 4)
        message.durable = number % 2 == 0
        message.accepted_at = int(MOMENT.timestamp() * 1000) + number
        made.enqueue(message, 0)
    return made


QUEUE = queue_of_all_sorts()
ROWS = [Row(entry.sequence, entry.message, 0, 0, redelivered=False) for entry in QUEUE.browse()]
TABLE: list[dict[str, Any]] = [row for batch in record_batches(ROWS, "q", ["position", "sequence", "message_id",
    "subject", "routing_key", "priority", "durable", "enqueued_at"]) for row in batch.to_pylist()]  # fmt: skip

TEXT = st.sampled_from(["a%b", "ab", "ab_", "it's", "A", "a", "%", "key1", ""])
ORDERED = [EqualTo, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual, EqualNullSafe]


def on(column: str, kinds: list[Any], values: st.SearchStrategy[Any]) -> st.SearchStrategy[Filter]:
    return st.builds(lambda kind, value: kind((column,), value), st.sampled_from(kinds), values)


POSITIVE = st.one_of(
    *[
        on(column, [EqualTo, EqualNullSafe, GreaterThan, StringStartsWith, StringEndsWith, StringContains], TEXT)
        for column in ("message_id", "subject", "routing_key")
    ],
    st.builds(lambda values: In(("message_id",), tuple(values)), st.lists(TEXT, max_size=3)),
    on("priority", ORDERED, st.integers(-1, 5)),
    on("durable", [EqualTo], st.booleans()),
    on("position", ORDERED, st.integers(-2, 30)),
    on("sequence", ORDERED, st.integers(-2, 30)),
    on("enqueued_at", ORDERED, st.integers(-2500, 26_500).map(lambda micro: MOMENT + dt.timedelta(microseconds=micro))),
    st.builds(
        lambda kind, column: kind((column,)),
        st.sampled_from([IsNull, IsNotNull]),
        st.sampled_from(["message_id", "subject", "priority", "position"]),
    ),
)


def admitted(pushed: Pushed) -> set[int]:
    store = SnapshotStore(lambda: 0)
    bounds = Bounds(pushed.first, pushed.last, pushed.accepted_from, pushed.accepted_upto)
    name, _ = store.take("/", QUEUE, pushed.selector, bounds)
    return {row.position for row in store.find("/", name).rows}


@given(st.lists(POSITIVE | POSITIVE.map(Not), max_size=4))
def test_nothing_is_kept_back_that_spark_would_let_through(filters: list[Filter]) -> None:
    wanted = {row["position"] for row in TABLE if all(answer(item, row) for item in filters)}
    assert wanted <= admitted(push(filters))


def test_what_has_a_translation_is_exact() -> None:
    filters: list[Filter] = [
        GreaterThan(("position",), 3),
        LessThan(("sequence",), 20),
        LessThanOrEqual(("enqueued_at",), MOMENT + dt.timedelta(milliseconds=20)),
        Not(EqualTo(("message_id",), "it's")),
        StringContains(("message_id",), "%"),
        GreaterThanOrEqual(("priority",), 1),
        EqualTo(("durable",), value=True),
    ]
    wanted = {row["position"] for row in TABLE if all(answer(item, row) for item in filters)}
    assert admitted(push(filters)) == wanted
    assert 0 < len(wanted) < 5


def test_what_has_none_is_left_to_spark() -> None:
    long = In(("message_id",), tuple(f"{number:08}" for number in range(2000)))
    naive = EqualTo(("enqueued_at",), dt.datetime(2026, 1, 1))  # noqa: DTZ001 - of no zone
    filters = [long, naive, EqualTo(("properties", "key"), "x"), EqualTo(("position",), 1.5), IsNull(("body",))]
    assert push(filters) == Pushed()
    many = push([EqualTo(("message_id",), "x" * 500) for _ in range(50)])
    assert 1000 < len(many.selector) < LENGTH_MAX / 2 + 600


def test_the_users_selector_is_kept() -> None:
    assert Pushed("b = 2").selector_with("a = 1 OR c") == "(a = 1 OR c) AND b = 2"
    assert (Pushed("b").selector_with(""), Pushed().selector_with("a"), Pushed().selector_with("")) == ("b", "a", "")


@pytest.mark.spark
def test_a_reader_asks_the_broker_and_gives_all_filters_back(broker: BrokerThread, name: str) -> None:
    broker.declare(name)
    broker.publish(name, numbered(4), message_id="a")
    broker.publish(name, numbered(4, 4), message_id="b")
    options = ReadOptions.parse({"url": broker.url, "queue": name, "pushdown": "true", "partitions": "1"})
    reader = AnnuletFilteringReader(options, ["body"])
    filters: list[Filter] = [EqualTo(("message_id",), "b"), LessThan(("position",), 7)]
    assert list(reader.pushFilters(filters)) == filters
    (part,) = reader.partitions()
    assert [body for batch in reader.read(part) for body in batch.column("body").to_pylist()] == numbered(2, 4)


@pytest.mark.spark
def test_spark_reads_what_it_filters(spark: SparkSession, broker: BrokerThread, name: str) -> None:
    broker.declare(name)
    for number in range(6):
        broker.publish(name, numbered(1, number), message_id=f"m{number}", type=f"t{number % 2}")
    frame = read(spark, broker, name, pushdown="true", columns="position,message_id,subject,body")
    found = frame.where("position > 1 AND message_id <> 'm3' AND (subject = 't1' OR position = 3)").collect()
    assert sorted(bytes(row.body) for row in found) == [b"000001", b"000002", b"000005"]
    setting = "spark.sql.python.filterPushdown.enabled"
    spark.conf.set(setting, "false")
    try:
        with pytest.raises(AnalysisException, match=setting):  # Spark's own words
            read(spark, broker, name, pushdown="true").where("position > 1").collect()
    finally:
        spark.conf.set(setting, "true")
    assert frame.columns == ["position", "message_id", "subject", "body"]
