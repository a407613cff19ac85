"""Traces: spans of syncs, admission cycles and writes, if the environment names a collector.

`configure` reads the variables that OpenTelemetry specifies: OTEL_EXPORTER_OTLP_ENDPOINT (or
OTEL_EXPORTER_OTLP_TRACES_ENDPOINT) turns traces on; OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_SAMPLER,
OTEL_EXPORTER_OTLP_HEADERS and the others are read by the SDK. The packages of OpenTelemetry are the optional extra
`otel`, and are imported only here and only then. Without traces, `tracer` is None and each place costs one comparison.

`otlp` has the spans. BEHAVIOUR.md#q97-traces.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from queue_manager.engine.cause_ids import CauseId
from queue_manager.engine.transport_protocol import Request

log = logging.getLogger(__name__)

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
PROTOCOL = "http/protobuf"


class WriteSpan(Protocol):
    """The span of one write."""

    def headers(self) -> tuple[tuple[str, str], ...]:
        """The headers by which the API server joins its own spans (W3C traceparent)."""
        ...

    def answered(self, status: int) -> None:
        """Record the status of the response."""
        ...


class CycleSpan(Protocol):
    """The span of one admission cycle."""

    def decided(self, counts: Mapping[str, int], causes: Iterable[CauseId | None]) -> None:
        """Record how many decisions of each kind were made, and from which changes they follow."""
        ...


class Tracer(Protocol):
    """What the engine and the scheduler report. Each block is a span of the cause that is current (`cause_ids`) at its
    start.
    """

    def sync(self, queue: str, key: str) -> AbstractContextManager[None]:
        """A sync of one key."""
        ...

    def cycle(self, heads: int) -> AbstractContextManager[CycleSpan]:
        """An admission cycle with this number of heads."""
        ...

    def write(self, request: Request, resource: str, template: str, server: str) -> AbstractContextManager[WriteSpan]:
        """A write. `template`: the path without names; `server`: the URL of the API server, "" in this process."""
        ...

    def ids(self) -> dict[str, str]:
        """The ids of the current trace and span, for log lines; {} outside of any."""
        ...

    def close(self) -> None:
        """Send what is not sent yet. May block."""
        ...


tracer: Tracer | None = None  # of this process


def configure(service: str, environ: Mapping[str, str]) -> None:
    """Turn traces on if the environment names a collector. `service`: the service name unless the environment has one.

    `environ` is the environment of the process, which the SDK reads too. Missing packages are a warning: a manager
    without traces does its work.
    """
    global tracer  # noqa: PLW0603 - as the logging configuration, one per process
    if not _is_wanted(environ):
        return
    unknown = [environ[name] for name in PROTOCOLS if environ.get(name, PROTOCOL) != PROTOCOL]
    if unknown:
        log.warning("traces are off: the only protocol is http/protobuf", extra={"configured": unknown[0]})
        return
    try:
        from queue_manager.engine.otlp import OtlpTracer
    except ModuleNotFoundError as error:
        log.warning("traces are off: a package is missing, install sluice[otel]", extra={"missing": error.name})
        return
    tracer = OtlpTracer(service)
    log.info("traces are on", extra={"endpoint": next(environ[name] for name in ENDPOINTS if environ.get(name))})


def close() -> None:
    """Send the spans that are not sent yet, and turn traces off. May block."""
    global tracer
    closing, tracer = tracer, None
    if closing is not None:
        closing.close()


def _is_wanted(environ: Mapping[str, str]) -> bool:
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or environ.get("OTEL_TRACES_EXPORTER", "") == "none":
        return False
    return any(environ.get(name) for name in ENDPOINTS)
