"""Metrics of ``GET /metrics`` and notes of spans in OpenTelemetry's form."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, TypeAlias

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags
from prometheus_client.parser import text_string_to_metric_families

from annulet import __version__

if TYPE_CHECKING:
    from prometheus_client import Metric as Family

    from annulet.broker.observing.spans import SpanNote

Labels: TypeAlias = tuple[tuple[str, str], ...]

SCOPE: Final = InstrumentationScope("annulet", __version__)
IDENTIFIERS: Final = RandomIdGenerator()


def resource_of(name: str) -> Resource:
    """Return the description of a broker by the name of its cluster."""
    return Resource({"service.name": "annulet", "service.version": __version__, "service.instance.id": name})


def spans_of(notes: list[SpanNote], resource: Resource) -> list[ReadableSpan]:
    """Return spans, each below the context that its message carries."""
    return [_span_of(note, resource) for note in notes]


def _span_of(note: SpanNote, resource: Resource) -> ReadableSpan:
    trace, flags = int(note.trace, 16), TraceFlags(TraceFlags.SAMPLED)
    attributes: dict[str, str | int] = {
        "messaging.system": "annulet",
        "messaging.destination.name": note.queue,
        "messaging.operation.name": note.kind,
        "messaging.message.body.size": note.size,
        "annulet.virtual_host": note.virtual_host,
        "annulet.sequence": note.sequence,
    }
    if note.consumer:
        attributes["annulet.consumer"] = note.consumer
    return ReadableSpan(
        f"{note.kind} {note.queue}",
        SpanContext(trace, IDENTIFIERS.generate_span_id(), is_remote=False, trace_flags=flags),
        SpanContext(trace, int(note.parent, 16), is_remote=True, trace_flags=flags),
        resource,
        attributes,
        kind=SpanKind.INTERNAL,
        start_time=note.began * 1_000_000,
        end_time=note.ended * 1_000_000,
        instrumentation_scope=SCOPE,
    )


def metrics_of(exposition: bytes, resource: Resource, started_at: int, now: int) -> MetricsData:
    """Return the families of an exposition. Times are milliseconds since 1970."""
    times = (started_at * 1_000_000, now * 1_000_000)
    metrics = [_metric_of(family, *times) for family in text_string_to_metric_families(exposition.decode())]
    return MetricsData([ResourceMetrics(resource, [ScopeMetrics(SCOPE, metrics, "")], "")])


def _metric_of(family: Family, start: int, now: int) -> Metric:
    cumulative = AggregationTemporality.CUMULATIVE
    if family.type == "histogram":
        return Metric(family.name, family.documentation, "", Histogram(_histogram(family, start, now), cumulative))
    points = [
        NumberDataPoint(sample.labels, start, now, sample.value)
        for sample in family.samples
        if not sample.name.endswith("_created")
    ]
    data = Sum(points, cumulative, is_monotonic=True) if family.type == "counter" else Gauge(points)
    return Metric(family.name, family.documentation, "", data)


def _histogram(family: Family, start: int, now: int) -> list[HistogramDataPoint]:
    """Return a point for each set of labels; buckets count each for itself here, and up to it in an exposition."""
    buckets: dict[Labels, list[tuple[float, float]]] = {}
    sums: dict[Labels, float] = {}
    for sample in family.samples:
        labels = tuple((name, value) for name, value in sample.labels.items() if name != "le")
        if sample.name.endswith("_bucket"):
            buckets.setdefault(labels, []).append((float(sample.labels["le"]), sample.value))
        elif sample.name.endswith("_sum"):
            sums[labels] = sample.value
    points = []
    for labels, counted in buckets.items():
        counted.sort()
        upto = [int(count) for _, count in counted]
        each = [count - before for count, before in zip(upto, [0, *upto], strict=False)]
        bounds = [bound for bound, _ in counted if bound != math.inf]
        points.append(
            HistogramDataPoint(
                dict(labels), start, now, upto[-1], sums.get(labels, 0.0), each, bounds, -math.inf, math.inf
            )
        )
    return points
