"""A collector of OpenTelemetry on loopback that decodes what it is sent."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

PATIENCE_SECONDS = 30.0


class Collector:
    """Use as a context manager. ``status``: of its answers."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.resources: list[dict[str, str]] = []
        self.metrics: dict[str, Any] = {}  # of the latest request, by name
        self.headers: list[dict[str, str]] = []
        self.status = 200
        self._changed = threading.Condition()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if collector.status == 200:
                    collector.take(self.path, body, dict(self.headers))
                self.send_response(collector.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_arguments: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    def take(self, path: str, body: bytes, headers: dict[str, str]) -> None:
        with self._changed:
            self.headers.append(headers)
            if path == "/v1/traces":
                traces = ExportTraceServiceRequest.FromString(body)
                for resource in traces.resource_spans:
                    self.resources.append({one.key: one.value.string_value for one in resource.resource.attributes})
                    for scope in resource.scope_spans:
                        self.spans += scope.spans
            else:
                assert path == "/v1/metrics"
                metrics = ExportMetricsServiceRequest.FromString(body)
                self.metrics = {
                    one.name: one
                    for resource in metrics.resource_metrics
                    for scope in resource.scope_metrics
                    for one in scope.metrics
                }
            self._changed.notify_all()

    def wait_for_spans(self, count: int) -> list[Any]:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.spans) >= count, PATIENCE_SECONDS), self.spans
            return list(self.spans)

    def wait_for_metrics(self) -> dict[str, Any]:
        with self._changed:
            assert self._changed.wait_for(lambda: self.metrics, PATIENCE_SECONDS)
            return dict(self.metrics)

    def __enter__(self) -> Collector:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def attributes(item: Any) -> dict[str, Any]:
    """Return the attributes of a span or point."""
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in item.attributes}
