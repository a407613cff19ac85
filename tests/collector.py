"""A receiver of traces over OTLP/HTTP: what an OpenTelemetry collector listens to, decoded by opentelemetry-proto."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Collector:
    """The spans received so far."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.spans: list[Span] = []
        self.resources: list[dict[str, object]] = []
        self.problems: list[str] = []

    def environment(self) -> dict[str, str]:
        """The variables by which a process sends its spans here, every 100 ms."""
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": self.url, "OTEL_BSP_SCHEDULE_DELAY": "100"}

    def named(self, name: str) -> list[Span]:
        return [span for span in list(self.spans) if span.name == name]

    def trace(self, cause: str) -> list[Span]:
        """The spans with this cause as their first."""
        return [span for span in list(self.spans) if _first(attributes(span.attributes).get("sluice.cause")) == cause]


@contextmanager
def collecting() -> Iterator[Collector]:
    """Run a collector on loopback."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            if (self.path, self.headers["Content-Type"]) != ("/v1/traces", "application/x-protobuf"):
                collector.problems.append(f"{self.path} {self.headers['Content-Type']}")
            received = ExportTraceServiceRequest.FromString(body)
            for part in received.resource_spans:
                collector.resources.append(attributes(part.resource.attributes))
                for scope in part.scope_spans:
                    collector.spans.extend(scope.spans)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector = Collector(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()


def attributes(pairs: Iterator[KeyValue] | list[KeyValue]) -> dict[str, object]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> object:
    kind = value.WhichOneof("value")
    return [_value(each) for each in value.array_value.values] if kind == "array_value" else getattr(value, kind)


def _first(value: object) -> object:
    return value[0] if isinstance(value, list) and value else None
