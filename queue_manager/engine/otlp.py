"""The spans, made with the SDK of OpenTelemetry and sent over OTLP/HTTP. Imported only if traces are configured.

    change ──> sync ──> write ──response──> sync of what the write changed ──> write ──> ...
                                  cycle ┄┄link┄┄> change of each decision

A trace is all work that follows from one change. Its id is a digest of the cause id. So processes that share no memory
add to the same trace (queue and Job controller in Deployments of their own, or one leader and the next), and a sampler
by ratio takes or leaves the trace as a whole. A span's parent is the span from which its cause comes, which may have
ended. An admission cycle serves many changes: it is a trace of its own, linked with each of them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import blake2b
from importlib.metadata import version
from urllib.parse import urlsplit

import msgspec
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import Link, NonRecordingSpan, Span, SpanContext, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue

from queue_manager.engine.cause_ids import CURRENT, CauseId
from queue_manager.engine.transport_protocol import ApiError, Request

VERSION = version("sluice")
CLOSE_SECONDS = 2.0  # for the collector to take the last spans

CAUSE = "sluice.cause"
_PROPAGATOR = TraceContextTextMapPropagator()


class CauseIdGenerator(RandomIdGenerator):
    """Trace ids from cause ids. The SDK generates one for a span without a parent."""

    def generate_trace_id(self) -> int:
        """Return the trace id of the change that the current work follows from; a random one without such a change."""
        cause = CURRENT.get()
        return trace_id_of(cause) if cause is not None else super().generate_trace_id()


def trace_id_of(cause: CauseId) -> int:
    """The id of the trace of everything that follows from a change."""
    return int.from_bytes(blake2b(str(cause).encode(), digest_size=16).digest())


class OtlpTracer:
    """Implements `tracing.Tracer`."""

    def __init__(self, service: str) -> None:
        defaults = Resource.create({"service.name": service, "service.version": VERSION})
        resource = defaults.merge(OTELResourceDetector().detect())  # the environment takes precedence
        self._provider = TracerProvider(resource=resource, id_generator=CauseIdGenerator(), shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("sluice", VERSION)

    @contextmanager
    def sync(self, queue: str, key: str) -> Iterator[None]:
        """See `Tracer.sync`."""
        with self._span(f"sync {queue}", SpanKind.CONSUMER, {"sluice.queue": queue, "sluice.key": key}):
            yield

    @contextmanager
    def cycle(self, heads: int) -> Iterator[_Cycle]:
        """A span of an admission cycle with this number of heads."""
        with self._span("admission cycle", SpanKind.INTERNAL, {"sluice.heads": heads}) as span:
            yield _Cycle(span)

    @contextmanager
    def write(self, request: Request, resource: str, template: str, server: str) -> Iterator[_Write]:
        """See `Tracer.write`."""
        url = urlsplit(server)
        attributes: dict[str, AttributeValue] = {
            "http.request.method": request.method,
            "url.template": template,
            "url.path": request.path,
            "sluice.resource": resource,
        }
        if url.hostname:
            full = server.rstrip("/") + request.path
            attributes |= {"url.full": full, "server.address": url.hostname, "server.port": url.port or 443}
        with self._span(f"{request.method} {template}", SpanKind.CLIENT, attributes) as span:
            yield _Write(span)

    def ids(self) -> dict[str, str]:
        """See `Tracer.ids`."""
        span = _span_of(CURRENT.get())
        if span is None:
            return {}
        return {"trace_id": trace.format_trace_id(span.trace_id), "span_id": trace.format_span_id(span.span_id)}

    def close(self) -> None:
        """See `Tracer.close`. A collector that does not answer is given up after CLOSE_SECONDS."""
        closing = threading.Thread(target=self._provider.shutdown, daemon=True)
        closing.start()
        closing.join(CLOSE_SECONDS)

    @contextmanager
    def _span(self, name: str, kind: SpanKind, attributes: Mapping[str, AttributeValue]) -> Iterator[Span]:
        """A span below the current cause; what runs in the block follows from it."""
        cause = CURRENT.get()
        causes = (cause, *cause.others) if cause is not None else ()
        span = self._tracer.start_span(
            name,
            context=_context_of(_span_of(cause)),
            kind=kind,
            attributes={**attributes, CAUSE: [str(each) for each in causes]} if causes else attributes,
            links=list(_links(causes)),
        )
        token = None
        if cause is not None:
            token = CURRENT.set(msgspec.structs.replace(cause, span=span.get_span_context(), earlier_spans=()))
        try:
            yield span
        except Exception as error:
            _fail(span, error)
            raise
        finally:
            if token is not None:
                CURRENT.reset(token)
            span.end()


class _Cycle:
    def __init__(self, span: Span) -> None:
        self._span = span

    def decided(self, counts: Mapping[str, int], causes: Iterable[CauseId | None]) -> None:
        for kind, number in counts.items():
            self._span.set_attribute(f"sluice.{kind}", number)
        for cause in causes:
            if cause is not None and (parent := _span_of(cause)) is not None:
                self._span.add_link(parent, {CAUSE: str(cause)})


class _Write:
    def __init__(self, span: Span) -> None:
        self._span = span

    def headers(self) -> tuple[tuple[str, str], ...]:
        carrier: dict[str, str] = {}
        _PROPAGATOR.inject(carrier, trace.set_span_in_context(self._span, Context()))
        return tuple(carrier.items())

    def answered(self, status: int) -> None:
        self._span.set_attribute("http.response.status_code", status)


def _fail(span: Span, error: Exception) -> None:
    """Mark a span as failed, with error.type: the HTTP status of the response, or the class of the exception."""
    if isinstance(error, ApiError):
        span.set_attribute("http.response.status_code", error.status)
    span.set_attribute("error.type", str(error.status) if isinstance(error, ApiError) else type(error).__qualname__)
    span.set_status(Status(StatusCode.ERROR, str(error)))


def _links(causes: tuple[CauseId, ...]) -> Iterator[Link]:
    """Links to all spans that the work follows from but its parent, the span of the first cause."""
    for number, cause in enumerate(causes):
        for span in (*cause.earlier_spans, cause.span if number > 0 else None):
            if isinstance(span, SpanContext):
                yield Link(span, {CAUSE: str(cause)})


def _span_of(cause: CauseId | None) -> SpanContext | None:
    span = cause.span if cause is not None else None
    return span if isinstance(span, SpanContext) else None


def _context_of(parent: SpanContext | None) -> Context:
    return Context() if parent is None else trace.set_span_in_context(NonRecordingSpan(parent), Context())
