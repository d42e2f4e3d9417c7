"""Pushes metrics and spans to a collector by OTLP over HTTP. Needs the extra ``annulet[otlp]``.

Spans wait in a bounded buffer (:mod:`annulet.broker.observing.spans`); requests are made in threads, so that a
collector that is slow or down holds up no message.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

import structlog
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics.export import MetricExportResult
from opentelemetry.sdk.trace.export import SpanExportResult

from annulet.admin.resources.metrics import BrokerCollector, exposition, gather
from annulet.admin.telemetry.conversion import metrics_of, resource_of, spans_of
from annulet.broker.turns.ready_threads import ready_threads

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from annulet.admin.resources.metrics import Snapshot
    from annulet.broker.broker import Broker
    from annulet.broker.observing.spans import SpanNote
    from annulet.broker.settings.otlp_settings import OtlpSettings

logger = structlog.get_logger(__name__)

SPANS_SECONDS: Final = 1.0
"""Between two looks for spans: people look at a trace later than that."""

SPANS_PER_REQUEST: Final = 512
"""About 100 KB; the batch of OpenTelemetry's own processor."""

REQUEST_SECONDS_MAX: Final = 10.0
"""Of one request with its repetitions: OpenTelemetry's default."""

FLUSH_SECONDS: Final = 2.0
"""That a clean stop gives the last spans."""


class TelemetryService:
    """The pushes of one broker."""

    def __init__(self, settings: OtlpSettings) -> None:
        self._settings = settings
        self._tasks: list[asyncio.Task[None]] = []
        authorities = None if settings.ca_file is None else str(settings.ca_file)
        self._spans = OTLPSpanExporter(
            f"{settings.endpoint}/v1/traces", authorities, headers=settings.headers, timeout=REQUEST_SECONDS_MAX
        )
        self._metrics = OTLPMetricExporter(
            f"{settings.endpoint}/v1/metrics", authorities, headers=settings.headers, timeout=REQUEST_SECONDS_MAX
        )
        self._executor = ready_threads(2, "annulet-otlp")

    @property
    def urls(self) -> dict[str, str]:
        """Nothing listens."""
        return {}

    def restore(self, broker: Broker) -> None:
        """Nothing is kept."""

    async def start(self, broker: Broker) -> None:
        """Begin to push."""
        self._broker = broker
        self._resource = resource_of(broker.global_parameters.cluster_name)
        settings = self._settings
        if settings.spans:
            self._tasks.append(asyncio.create_task(self._repeat(SPANS_SECONDS, self.push_spans)))
        if settings.metrics_seconds:
            self._tasks.append(asyncio.create_task(self._repeat(settings.metrics_seconds, self.push_metrics)))

    async def stop(self) -> None:
        """Push the waiting spans, for a short time, and end."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if tasks:
            with contextlib.suppress(TimeoutError):  # the collector is down: these spans are lost
                async with asyncio.timeout(FLUSH_SECONDS):
                    await self.push_spans()
        self._spans.shutdown()  # type: ignore[no-untyped-call] # OpenTelemetry types it half
        self._metrics.shutdown()
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def push_spans(self) -> None:
        """Push the spans that wait."""
        spans = self._broker.spans
        while spans is not None and len(spans):
            notes = spans.take(SPANS_PER_REQUEST)
            loop = asyncio.get_running_loop()
            if not await loop.run_in_executor(self._executor, self._send_spans, notes):
                self._broker.pushes.lost += len(notes)
                self._note_failure("spans")

    async def push_metrics(self) -> None:
        """Push all metrics of this moment."""
        snapshot = await gather(self._broker)
        now = self._broker.clock()
        loop = asyncio.get_running_loop()
        if not await loop.run_in_executor(self._executor, self._send_metrics, snapshot, now):
            self._note_failure("metrics")

    def _note_failure(self, what: str) -> None:
        pushes = self._broker.pushes
        pushes.failed += 1
        endpoint = self._settings.endpoint
        logger.warning("collector does not take telemetry", what=what, endpoint=endpoint, lost=pushes.lost)

    def _send_spans(self, notes: list[SpanNote]) -> bool:
        return self._spans.export(spans_of(notes, self._resource)) is SpanExportResult.SUCCESS

    def _send_metrics(self, snapshot: Snapshot, now: int) -> bool:
        text = exposition(snapshot, BrokerCollector(snapshot))
        data = metrics_of(text, self._resource, self._broker.started_at, now)
        return self._metrics.export(data) is MetricExportResult.SUCCESS

    async def _repeat(self, seconds: float, push: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await push()
            except Exception as error:  # noqa: BLE001 - a defect of one push must not end those that follow
                self._broker.pushes.failed += 1
                logger.error("defect while pushing telemetry", error=repr(error))  # noqa: TRY400 - as above
