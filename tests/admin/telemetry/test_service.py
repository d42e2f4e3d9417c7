"""Metrics and spans of a real broker reach a real collector over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pika
import pytest

from annulet import testing
from annulet.admin.telemetry.service import TelemetryService
from annulet.broker.observing.spans import PUBLISH, SPANS_WAITING_MAX, SpanNote
from annulet.broker.settings.otlp_settings import OtlpSettings
from annulet.testing.in_process import RunningBroker
from annulet.testing.threaded import ThreadedBroker
from tests.clients.stomp_client import PATIENCE_SECONDS, StompClient
from tests.collector import Collector, attributes

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED = f"00-{TRACE}-{PARENT}-01"
NOT_SAMPLED = f"00-{TRACE}-{PARENT}-00"
NOTE = SpanNote(PUBLISH, "/", "q", 1, 1, TRACE, PARENT, 1, 1)


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as running:
        yield running


def started(collector: Collector, **settings: Any) -> testing.broker:
    given = {"headers": {"x-tenant": "shop"}, "metrics_seconds": 0, **settings}
    return testing.broker(otlp=OtlpSettings(endpoint=collector.url, **given), journal=False, stomp=True)


def publish(channel: Any, queue: str, *, context: str = SAMPLED, body: bytes = b"body") -> None:
    channel.basic_publish("", queue, body, pika.BasicProperties(headers={"traceparent": context} if context else {}))


def push_spans(broker: ThreadedBroker) -> None:
    """Push what waits, now."""

    async def push(running: RunningBroker) -> None:
        await next(one for one in running.broker.services if isinstance(one, TelemetryService)).push_spans()

    broker.call(push)


def test_spans_of_publish_and_deliver(collector: Collector) -> None:
    with started(collector) as broker, pika.BlockingConnection(pika.URLParameters(broker.amqp_url)) as connection:
        channel = connection.channel()
        channel.queue_declare("q")
        publish(channel, "q")
        publish(channel, "q", context=NOT_SAMPLED)
        publish(channel, "q", context="")
        broker.clock.advance("2s")
        for _ in range(3):
            assert channel.basic_get("q", auto_ack=True)[0]
        first, second = collector.wait_for_spans(2)
        push_spans(broker)
        assert len(collector.spans) == 2
    for span in (first, second):
        assert span.trace_id.hex() == TRACE
        assert span.parent_span_id.hex() == PARENT
        assert span.span_id.hex() not in {PARENT, "0" * 16}
    assert (first.name, second.name) == ("publish q", "deliver q")
    assert first.span_id != second.span_id
    assert second.end_time_unix_nano - second.start_time_unix_nano >= 2_000_000_000, "the time in the queue"
    assert second.start_time_unix_nano == first.start_time_unix_nano == first.end_time_unix_nano
    assert attributes(first) == {
        "messaging.system": "annulet",
        "messaging.destination.name": "q",
        "messaging.operation.name": "publish",
        "messaging.message.body.size": 4,
        "annulet.virtual_host": "/",
        "annulet.sequence": 1,
    }
    assert collector.resources[0]["service.name"] == "annulet"
    assert {name.lower(): value for name, value in collector.headers[0].items()}["x-tenant"] == "shop"


def test_spans_of_another_protocol_and_with_the_event_log(collector: Collector) -> None:
    settings = OtlpSettings(endpoint=collector.url, metrics_seconds=0)
    with testing.broker(otlp=settings, event_queues=("#",), journal=False, stomp=True) as broker:
        client = StompClient(broker.stomp_address[1]).connect()
        client.subscribe("/queue/of-stomp")
        client.send("/queue/of-stomp", "x", traceparent=SAMPLED)
        assert client.messages.get(timeout=PATIENCE_SECONDS).headers["traceparent"] == SAMPLED
        names = {span.name for span in collector.wait_for_spans(2)}
        assert names == {"publish of-stomp", "deliver of-stomp"}
        assert broker.do(lambda running: running.broker.hosts["/"].queues["amq.events"].order.count) > 0
        delivered = next(span for span in collector.spans if span.name.startswith("deliver"))
        assert attributes(delivered)["annulet.consumer"]
        client.close()


def test_the_last_spans_are_pushed_at_a_clean_stop(collector: Collector) -> None:
    with started(collector) as broker:
        broker.clock.stop()
        with pika.BlockingConnection(pika.URLParameters(broker.amqp_url)) as connection:
            channel = connection.channel()
            channel.queue_declare("q")
            for _ in range(700):
                publish(channel, "q")
            broker.settle()
    assert len(collector.spans) == 700


def test_metrics(collector: Collector) -> None:
    with started(collector, metrics_seconds=0.1, spans=False) as broker:
        with pika.BlockingConnection(pika.URLParameters(broker.amqp_url)) as connection:
            connection.channel().queue_declare("q")
            publish(connection.channel(), "q")
        metrics = collector.wait_for_metrics()
        assert broker.do(lambda running: running.broker.spans) is None
    accepted = metrics["annulet_connections_accepted"]
    assert accepted.sum.is_monotonic
    point = accepted.sum.data_points[0]
    assert point.time_unix_nano > point.start_time_unix_nano > 0
    assert metrics["annulet_handshakes"].gauge.data_points
    histograms = [one for one in metrics.values() if one.HasField("histogram")]
    assert histograms
    for histogram in histograms:
        for counted in histogram.histogram.data_points:
            assert len(counted.bucket_counts) == len(counted.explicit_bounds) + 1
            assert sum(counted.bucket_counts) == counted.count


def test_a_collector_that_takes_nothing_holds_up_nothing(collector: Collector) -> None:
    collector.status = 400
    with started(collector) as broker, pika.BlockingConnection(pika.URLParameters(broker.amqp_url)) as connection:
        channel = connection.channel()
        channel.queue_declare("q")
        publish(channel, "q")
        broker.settle()
        push_spans(broker)
        pushes = broker.do(lambda running: running.broker.pushes)
        assert (pushes.failed, pushes.lost) == (1, 1)
        assert channel.basic_get("q")[2] == b"body"


def test_spans_beyond_the_bound_are_dropped_and_counted(collector: Collector) -> None:
    with started(collector) as broker:

        def fill(running: Any) -> tuple[int, int]:
            buffer = running.broker.spans
            for _ in range(SPANS_WAITING_MAX + 3):
                buffer.add(NOTE)
            return len(buffer), buffer.dropped

        assert broker.do(fill) == (SPANS_WAITING_MAX, 3)


def test_without_a_collector_queues_have_no_listener() -> None:
    with testing.broker(journal=False) as broker, pika.BlockingConnection(pika.URLParameters(broker.amqp_url)) as one:
        one.channel().queue_declare("q")
        assert broker.do(lambda running: running.broker.spans) is None
        assert broker.do(lambda running: running.broker.hosts["/"].queues["q"].events) is None
